//! `/oauth2/introspect` (RFC 7662) and `/oauth2/revoke` (RFC 7009).

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use store::TokenKind;

use crate::credentials::Sender;
use crate::form::Form;
use crate::keys::{ACCESS_TOKEN, API_KEY};
use crate::manager::Manager;
use crate::outside::ROLES;
use crate::peer::Peer;
use crate::reply::{Refusal, Reply};
use crate::token::{authorised, not_before};
use crate::{dpop, outside, reply, secrets};

const MISSING: &str = "`token` is missing";

/// Clients authenticate as at the token endpoint, users by HTTP Basic, as in WSO2.
pub(crate) async fn introspect(
    manager: &Manager,
    head: &HeaderMap,
    form: &Form,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let token = form.required("token", MISSING)?;
    manager.client_or_user(head, form, peer).await?;
    let found = active(manager, token).await?;
    Ok(reply::json(StatusCode::OK, &found.unwrap_or_else(|| json!({ "active": false }))))
}

/// The claims of an access token, with `username` if it is a user's. `None`: it is not active.
pub(crate) async fn active(manager: &Manager, token: &str) -> Result<Option<Value>, Refusal> {
    let found =
        if is_jwt(token) { jwt(manager, token).await? } else { opaque(manager, token).await? };
    let Some(mut claims) = found else { return Ok(None) };
    let subject = claims["sub"].as_str().unwrap_or_default();
    if claims["aut"] == authorised(true) && manager.trusted.iter().any(|one| one.has(subject)) {
        claims["username"] = claims["sub"].clone();
    } else if claims["aut"] == authorised(true) {
        // Neither removed, nor another user who got the name of a removed one later.
        let issued_s = claims["iat"].as_u64().unwrap_or(0);
        let Some(user) = manager.user_since(subject, issued_s).await? else { return Ok(None) };
        if let Some(roles) = outside::claims(&user).remove(ROLES) {
            claims[ROLES] = roles;
        }
        claims["username"] = Value::String(user.name);
    }
    claims["active"] = Value::Bool(true);
    let is_bound = claims["cnf"]["jkt"].is_string();
    claims["token_type"] = json!(if is_bound { dpop::DPOP } else { "Bearer" });
    Ok(Some(claims))
}

/// Always succeeds, also for a token that is unknown or of another client. Source: RFC 7009 section 2.2. An API key is
/// revoked by its user.
pub(crate) async fn revoke(
    manager: &Manager,
    head: &HeaderMap,
    form: &Form,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let token = form.required("token", MISSING)?;
    if let Some(key) = manager.keys().verify(token, API_KEY) {
        let own = match manager.client_or_user(head, form, peer).await? {
            Sender::User(user) => key["sub"].as_str() == Some(&user.name),
            Sender::Client(_) => false,
        };
        if let Some((jti, _)) = jti_and_exp(&key).filter(|_| own) {
            manager.store.revoke_token(&secrets::hash(jti)).await?;
        }
        return Ok(reply::empty(StatusCode::OK));
    }
    let client = manager.client_or_public(head, form, peer).await?;
    if is_jwt(token) {
        let claims = manager.keys().verify(token, ACCESS_TOKEN);
        let own = claims.filter(|claims| claims["client_id"].as_str() == Some(&client.id));
        if let Some((jti, exp)) = own.as_ref().and_then(jti_and_exp) {
            manager.admit_revocation(&client.id)?;
            if manager.store.revoke_jwt(&secrets::hash(jti), &client.id, exp).await? {
                manager.count_rows(1);
            }
        }
        return Ok(reply::empty(StatusCode::OK));
    }
    let found = manager.store.token(&secrets::hash(token)).await?;
    match found.filter(|found| found.client == client.id) {
        Some(found) if found.kind == TokenKind::Refresh => {
            manager.store.revoke_family(&found.family).await?;
        }
        Some(found) if found.kind == TokenKind::Access => {
            manager.store.revoke_token(&found.hash).await?;
        }
        Some(_) | None => {}
    }
    Ok(reply::empty(StatusCode::OK))
}

/// Opaque tokens have no dots.
pub(crate) fn is_jwt(token: &str) -> bool {
    token.contains('.')
}

fn jti_and_exp(claims: &Value) -> Option<(&str, u64)> {
    Some((claims["jti"].as_str()?, claims["exp"].as_u64()?))
}

/// `None`: the token is not valid.
async fn jwt(manager: &Manager, token: &str) -> Result<Option<Value>, Refusal> {
    let Some(claims) = manager.keys().verify(token, ACCESS_TOKEN) else { return Ok(None) };
    let Some((jti, exp)) = jti_and_exp(&claims) else { return Ok(None) };
    let ours = claims["iss"].as_str() == Some(&manager.issuer) && exp > manager.now_s();
    let client = claims["client_id"].as_str().filter(|_| ours);
    let Some(client) = client else { return Ok(None) };
    let issued_s = claims["iat"].as_u64().unwrap_or(0);
    let is_valid = is_of_client(manager, [jti, &secrets::hash(jti)], client, issued_s).await?;
    Ok(is_valid.then_some(claims))
}

/// Whether the client exists, and the token that was issued to it at `issued_s` was not revoked, alone or with the
/// client. `hash`: as [`store::Store::is_revoked`] has it.
async fn is_of_client(
    manager: &Manager,
    [jti, hash]: [&str; 2],
    client: &str,
    issued_s: u64,
) -> Result<bool, Refusal> {
    let hashes = [hash, &secrets::hash(client)];
    let is_revoked = manager.store.is_revoked(jti, hashes, issued_s).await?;
    Ok(!is_revoked && manager.store.client(client).await?.is_some())
}

/// `None`: the token is not valid.
async fn opaque(manager: &Manager, token: &str) -> Result<Option<Value>, Refusal> {
    let found = manager.store.token(&secrets::hash(token)).await?;
    let active =
        found.filter(|found| found.kind == TokenKind::Access && found.expires_s > manager.now_s());
    let Some(found) = active else { return Ok(None) };
    // A request in progress can have stored it after its client was removed.
    if !is_of_client(manager, [&found.hash; 2], &found.client, found.issued_s).await? {
        return Ok(None);
    }
    let by_user = found.subject != found.client;
    let mut claims = json!({
        "sub": found.subject,
        "aut": authorised(by_user),
        "aud": found.client,
        "azp": found.client,
        "client_id": found.client,
        "scope": found.scope,
        "iss": manager.issuer,
        "nbf": not_before(found.issued_s),
        "iat": found.issued_s,
        "exp": found.expires_s,
    });
    if let Some(key) = dpop::key_of(token) {
        claims["cnf"] = json!({ "jkt": key });
    }
    Ok(Some(claims))
}
