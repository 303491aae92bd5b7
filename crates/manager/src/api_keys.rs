//! `/oauth2/apikey`: signed API keys of users, as API Microgateway issues them at `/apikey`.

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use store::{NewKey, Token, TokenKind};

use crate::keys::API_KEY;
use crate::manager::Manager;
use crate::peer::Peer;
use crate::reply::{Refusal, Reply};
use crate::{limits, reply, secrets};

/// The `aud` of API keys. Source: API Microgateway's default.
const AUDIENCE: &str = "http://org.wso2.apimgt/gateway";

/// A key for the user who sends the request. `body`: empty, or JSON with `validityTime`.
pub(crate) async fn issue(
    manager: &Manager,
    head: &HeaderMap,
    body: &[u8],
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let options = manager.api_keys.as_ref().ok_or(Refusal::NotFound)?;
    let user = manager.user(head, peer).await?;
    let mut validity_s = requested_s(body)?.unwrap_or(u64::MAX).min(options.validity_s);
    if !user.source.is_empty() {
        // Nothing but the next sign-in shows whether the source still has the user.
        validity_s = validity_s.min(manager.lifetimes.refresh_s);
    }
    let owner = secrets::hash(&user.name);
    manager.admit_rows(&owner, 1)?;
    let (now_s, jti) = (manager.now_s(), secrets::identifier(manager.entropy()));
    let expires_s = now_s.saturating_add(validity_s);
    let mut claims = json!({
        "iss": manager.issuer,
        "sub": user.name,
        "aud": AUDIENCE,
        "iat": now_s,
        "exp": expires_s,
        "jti": jti,
        "keytype": "PRODUCTION",
        "token_type": "apiKey",
    });
    if !options.apis.is_empty() {
        let api = |(name, version): &(String, String)| json!({ "name": name, "version": version });
        claims["allowedAPIs"] = options.apis.iter().map(api).collect();
    }
    let key = manager.keys().sign(API_KEY, &claims).ok_or(Refusal::Unavailable)?;
    // So that it is revoked together with the user's tokens.
    let row = Token {
        hash: secrets::hash(&jti),
        kind: TokenKind::Jwt,
        family: secrets::identifier(manager.entropy()),
        client: owner,
        subject: user.name.clone(),
        scope: String::new(),
        issued_s: now_s,
        expires_s,
        spent: false,
    };
    match manager.store.add_key(&row, &user, limits::USER_API_KEYS_MAX).await? {
        NewKey::Added => Ok(reply::text(StatusCode::OK, key)),
        NewKey::TooMany => Err(Refusal::Forbidden("you have too many valid API keys")),
        NewKey::OtherUser => Err(Refusal::InvalidUser),
    }
}

/// `validityTime`, in seconds: a number, or one in a string. As in API Microgateway, one that is not positive has no
/// effect.
fn requested_s(body: &[u8]) -> Result<Option<u64>, Refusal> {
    const WRONG: Refusal =
        Refusal::InvalidRequest("the body is not a JSON object with a number `validityTime`");
    if body.is_empty() {
        return Ok(None);
    }
    let body: Value = serde_json::from_slice(body).map_err(|_| WRONG)?;
    let seconds = match body.as_object().ok_or(WRONG)?.get("validityTime") {
        None => return Ok(None),
        Some(Value::String(text)) => text.parse().map_err(|_| WRONG)?,
        Some(value) => value.as_i64().ok_or(WRONG)?,
    };
    Ok(u64::try_from(seconds).ok().filter(|seconds| *seconds > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_a_positive_number_of_seconds() {
        for (body, expect) in [
            ("", Some(None)),
            ("{}", Some(None)),
            (r#"{"validityTime":600}"#, Some(Some(600))),
            (r#"{"validityTime":"600","other":1}"#, Some(Some(600))),
            (r#"{"validityTime":-1}"#, Some(None)),
            (r#"{"validityTime":0}"#, Some(None)),
            (r#"{"validityTime":1.5}"#, None),
            (r#"{"validityTime":99999999999999999999}"#, None),
            (r#"{"validityTime":"soon"}"#, None),
            ("[600]", None),
            ("600", None),
            ("{", None),
        ] {
            assert_eq!(requested_s(body.as_bytes()).ok(), expect, "{body}");
        }
    }
}
