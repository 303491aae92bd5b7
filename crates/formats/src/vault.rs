//! Requests to HashiCorp Vault, and its responses. OpenBao has the same API.
//!
//! Source: Vault's HTTP API: "Token auth method", "AppRole auth method", "Kubernetes auth method", "KV secrets engine".
//!
//! Architecture invariant: no error contains a part of a response.

use std::collections::BTreeMap;

use model::{VaultLogin, VaultRequest, VaultSettings};
use serde_json::{Map, Value, json};

use crate::declarative;

/// A token of Vault.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub value: String,
    /// Lifetime in seconds; 0 if the token does not expire.
    pub valid_s: u64,
    pub is_renewable: bool,
}

/// The fields of a secret that can be sent to an upstream, and their lifetime, if the secret has a lease.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    pub fields: BTreeMap<String, Vec<u8>>,
    pub lease_s: Option<u64>,
}

/// Renews the token that is sent with the request.
#[must_use]
pub fn renew() -> VaultRequest {
    VaultRequest { path: "auth/token/renew-self".to_owned(), body: Some(b"{}".to_vec()) }
}

/// Logs in; for a configured token, looks it up.
#[must_use]
pub fn login(settings: &VaultSettings) -> VaultRequest {
    let text = |secret: &[u8]| String::from_utf8_lossy(secret).into_owned();
    let (mount, body) = match &settings.login {
        VaultLogin::Token(_) => {
            return VaultRequest { path: "auth/token/lookup-self".to_owned(), body: None };
        }
        VaultLogin::AppRole { mount, role_id, secret_id } => {
            (mount, json!({"role_id": role_id, "secret_id": text(secret_id)}))
        }
        VaultLogin::Kubernetes { mount, role, jwt } => {
            (mount, json!({"role": role, "jwt": text(jwt)}))
        }
    };
    VaultRequest { path: format!("auth/{mount}/login"), body: Some(body.to_string().into_bytes()) }
}

/// The token of a response to [`login`] or [`renew`]. `sent` is the token that was sent with the request.
///
/// # Errors
/// A message for a diagnostic.
pub fn read_token(response: &[u8], sent: Option<&str>) -> Result<Token, String> {
    let response = object(response)?;
    let number = |of: &Map<String, Value>, key: &str| of.get(key).and_then(Value::as_u64);
    let flag = |of: &Map<String, Value>| of.get("renewable").and_then(Value::as_bool);
    // `data` is part of the response to a lookup.
    let (of, valid_s) = match (section(&response, "auth"), section(&response, "data")) {
        (Some(auth), _) => (auth, number(auth, "lease_duration")),
        (None, Some(data)) => (data, number(data, "ttl")),
        (None, None) => return Err("the response has no token".to_owned()),
    };
    let value = of.get("client_token").and_then(Value::as_str).or(sent);
    let value = value
        .filter(|value| !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic()));
    match (value, valid_s) {
        (Some(value), Some(valid_s)) => {
            let is_renewable = flag(of).unwrap_or_default();
            Ok(Token { value: value.to_owned(), valid_s, is_renewable })
        }
        _ => Err("the response has no token, or no lifetime of it".to_owned()),
    }
}

/// The secret of a response, of version 1 or 2 of the KV engine or of another one.
///
/// # Errors
/// A message for a diagnostic.
pub fn read_secret(response: &[u8]) -> Result<Secret, String> {
    let response = object(response)?;
    let data = section(&response, "data").ok_or("the response has no `data`")?;
    // Version 2 has the secret one level further down.
    let data = match (section(data, "data"), section(data, "metadata")) {
        (Some(inner), Some(_)) => inner,
        _ => data,
    };
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(_) | Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    let fields = data.iter().filter_map(|(name, value)| {
        let value = text(value)?.into_bytes();
        declarative::is_sound(&value).then(|| (name.clone(), value))
    });
    let is_leased =
        response.get("lease_id").and_then(Value::as_str).is_some_and(|id| !id.is_empty());
    let lease_s = response.get("lease_duration").and_then(Value::as_u64);
    Ok(Secret { fields: fields.collect(), lease_s: lease_s.filter(|_| is_leased) })
}

/// The problem with an unsuccessful response to a request for `path`.
#[must_use]
pub fn problem(status: u16, path: &str) -> String {
    let is_login = path.starts_with("auth/");
    match status {
        400 if is_login => "status 400: Vault rejects the login".to_owned(),
        403 if is_login => "status 403: Vault rejects the login or the token".to_owned(),
        403 => "status 403: no policy of the token has `read` for this path".to_owned(),
        404 if is_login => "status 404: the method is not enabled at this mount".to_owned(),
        404 => "status 404: there is no such secret; paths of version 2 of the KV engine have `data` after the mount, as in `secret/data/orders`".to_owned(),
        429 => "status 429: Vault's rate limit".to_owned(),
        503 => "status 503: Vault is sealed, or in maintenance".to_owned(),
        status => format!("Vault responded with status {status}"),
    }
}

fn object(response: &[u8]) -> Result<Map<String, Value>, String> {
    match serde_json::from_slice(response) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) | Err(_) => {
            Err("the response is not a JSON object; is `url` that of Vault?".to_owned())
        }
    }
}

fn section<'a>(of: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    of.get(key).and_then(Value::as_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The responses are those of Vault's documentation, shortened.
    #[test]
    fn a_token_is_read_from_a_login_a_renewal_and_a_lookup() {
        for (response, expect) in [
            (
                r#"{"auth":{"client_token":"hvs.a","lease_duration":1200,"renewable":true}}"#,
                Ok("hvs.a 1200 true"),
            ),
            (
                r#"{"data":null,"auth":{"client_token":"b.a","lease_duration":60,"renewable":false}}"#,
                Ok("b.a 60 false"),
            ),
            (
                r#"{"auth":null,"data":{"ttl":0,"num_uses":0,"renewable":false}}"#,
                Ok("sent 0 false"),
            ),
            (r#"{"auth":null,"data":{"ttl":2764790,"renewable":true}}"#, Ok("sent 2764790 true")),
            (r#"{"auth":{"client_token":"a b","lease_duration":1}}"#, Err("no token")),
            (r#"{"auth":{"client_token":"a"}}"#, Err("no lifetime")),
            (r#"{"auth":{"client_token":"a","lease_duration":-1}}"#, Err("no lifetime")),
            (r#"{"errors":["secret"]}"#, Err("no token")),
            ("<html>secret", Err("not a JSON object")),
        ] {
            let found = read_token(response.as_bytes(), Some("sent"));
            let found =
                found.map(|one| format!("{} {} {}", one.value, one.valid_s, one.is_renewable));
            match (found, expect) {
                (Ok(found), Ok(expect)) => assert_eq!(found, expect),
                (Err(found), Err(phrase)) => {
                    assert!(found.contains(phrase) && !found.contains("secret"), "{found}")
                }
                (found, _) => panic!("{response}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_secret_is_read_from_both_versions_of_the_kv_engine_and_from_others() {
        for (response, expect) in [
            (
                r#"{"lease_id":"","lease_duration":2764800,"data":{"a":"1","b":2}}"#,
                Ok("a=1 b=2 None"),
            ),
            (
                r#"{"lease_duration":0,"data":{"data":{"a":"1"},"metadata":{"version":3}}}"#,
                Ok("a=1 None"),
            ),
            (
                r#"{"lease_id":"db/creds/x/y","lease_duration":3600,"data":{"password":"p"}}"#,
                Ok("password=p Some(3600)"),
            ),
            (r#"{"data":{"data":"x","metadata":"y"}}"#, Ok("data=x metadata=y None")),
            (r#"{"data":{"a":"","b":"x\ny","c":null,"d":{},"e":true}}"#, Ok(" None")),
            (r#"{"data":{"data":null,"metadata":{"deletion_time":"2026"}}}"#, Ok(" None")),
            (r#"{"data":null}"#, Err("no `data`")),
            ("[]", Err("not a JSON object")),
        ] {
            let found = read_secret(response.as_bytes()).map(|secret| {
                let fields = secret
                    .fields
                    .iter()
                    .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)));
                format!("{} {:?}", fields.collect::<Vec<_>>().join(" "), secret.lease_s)
            });
            match (found, expect) {
                (Ok(found), Ok(expect)) => assert_eq!(found, expect),
                (Err(found), Err(phrase)) => assert!(found.contains(phrase), "{found}"),
                (found, _) => panic!("{response}: {found:?}"),
            }
        }
    }
}
