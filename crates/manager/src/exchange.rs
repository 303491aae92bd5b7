//! Token exchange: a service that received a user's token gets one of its own for the same user, with the same scopes
//! or fewer, no longer valid, and bound to the same key or certificate. Source: RFC 8693 section 2.

use serde_json::{Value, json};
use store::TokenType;

use crate::form::Form;
use crate::manager::Manager;
use crate::peer::Peer;
use crate::reply::Refusal;
use crate::token::{Grant, Requester, issue, narrowed, stored};
use crate::{inspect, outside, secrets};

pub(crate) const GRANT: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";

pub(crate) async fn exchange(
    manager: &Manager,
    mut client: Requester,
    form: &Form,
    peer: &Peer,
) -> Result<Value, Refusal> {
    const WRONG: Refusal =
        Refusal::InvalidRequest("the subject token is not an active access token of a user");
    const BOUND: Refusal = Refusal::InvalidRequest(
        "the subject token is bound to a key or certificate that the new one cannot be bound to",
    );
    for (name, error, why) in [
        ("actor_token", "invalid_request", "`actor_token` is not supported"),
        ("audience", "invalid_target", "`audience` is not supported"),
        ("resource", "invalid_target", "`resource` is not supported"),
    ] {
        if form.get(name).is_some() {
            return Err(Refusal::Other(error, why));
        }
    }
    let token = form.required("subject_token", "`subject_token` is missing")?;
    let kind = form.required("subject_token_type", "`subject_token_type` is missing")?;
    if kind != ACCESS_TOKEN && !(kind == JWT && inspect::is_jwt(token)) {
        return Err(Refusal::InvalidRequest("`subject_token_type` is not that of an access token"));
    }
    let requested = form.get("requested_token_type").unwrap_or(ACCESS_TOKEN);
    if requested != ACCESS_TOKEN && !(requested == JWT && client.token_type == TokenType::Jwt) {
        return Err(Refusal::InvalidRequest("`requested_token_type` is not supported"));
    }
    let claims = inspect::active(manager, token).await?.ok_or(WRONG)?;
    let user = claims["username"].as_str().ok_or(WRONG)?;
    // Otherwise, a stolen token would become one that is of use to the thief.
    if !client.bind_as(&claims["cnf"], peer) {
        return Err(BOUND);
    }
    // A logout or a stolen refresh token ends the tokens from this exchange, too.
    let name = if inspect::is_jwt(token) { claims["jti"].as_str() } else { Some(token) };
    let own = manager.store.user(user).await?;
    // After the user: a change of the user removes the token.
    let subject = manager.store.token(&secrets::hash(name.unwrap_or_default())).await?;
    let subject = subject.ok_or(WRONG)?;
    let mut grant = Grant::new(manager, &client, Some(user), String::new());
    grant.claims = own.as_ref().map(outside::claims).unwrap_or_default();
    grant.scope = narrowed(form.get("scope"), claims["scope"].as_str().unwrap_or(""), &client)?;
    grant.family = Some(&subject.family);
    let left_s = claims["exp"].as_u64().unwrap_or(0).saturating_sub(manager.now_s());
    grant.access_s = grant.access_s.min(left_s);
    let mut body = stored(manager, issue(manager, grant).await?, own.as_ref()).await?;
    body["issued_token_type"] = json!(requested);
    Ok(body)
}
