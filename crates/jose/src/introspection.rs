//! The response of an introspection endpoint. Source: RFC 7662 section 2.2.

use crate::claims::{Claims, Confirmation};
use crate::error::TokenError;
use crate::json::{self, Value};

/// The claims of a token in the response of an introspection endpoint; `None` if the token is not active. If `sub` is
/// missing, `username` is used.
///
/// # Errors
/// [`TokenError::Malformed`] unless the response is a strict JSON object with a boolean `active` and, for an active
/// token, known claims of the right types; [`TokenError::Unsupported`] for a `token_type` other than `Bearer`, or
/// `DPoP` with the key that the token is bound to, because the client would have to prove more than possession of the
/// token.
pub fn introspected(response: &[u8]) -> Result<Option<Claims>, TokenError> {
    let object = json::parse_object(response)
        .map_err(|_| TokenError::Malformed("the response is not a strict JSON object"))?;
    match object.get("active") {
        Some(Value::Bool(true)) => {}
        Some(Value::Bool(false)) => return Ok(None),
        Some(_) | None => return Err(TokenError::Malformed("`active` is not true or false")),
    }
    let kind = match object.get("token_type") {
        None => "Bearer",
        Some(kind) => kind.as_str().unwrap_or_default(),
    };
    let mut claims = Claims::of(&object)?;
    let is_bound = matches!(claims.confirmation, Some(Confirmation::Key(_)));
    let is_proven = is_bound && kind.eq_ignore_ascii_case("DPoP");
    if !is_proven && !kind.eq_ignore_ascii_case("Bearer") {
        return Err(TokenError::Unsupported("`token_type` is neither Bearer nor DPoP with a key"));
    }
    if claims.sub.is_none() {
        claims.sub = object.get("username").and_then(Value::as_str).map(str::to_owned);
    }
    Ok(Some(claims))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `inactive`, the subject and scopes of an active token, or the kind of error.
    #[track_caller]
    fn check(response: &str, expect: &str) {
        let found = match introspected(response.as_bytes()) {
            Ok(None) => "inactive".to_owned(),
            Ok(Some(claims)) => {
                format!("{} {}", claims.sub.as_deref().unwrap_or("nobody"), claims.scopes.join(","))
            }
            Err(TokenError::Unsupported(_)) => "unsupported".to_owned(),
            Err(_) => "malformed".to_owned(),
        };
        assert_eq!(found, expect, "{response}");
    }

    #[test]
    fn a_response_is_read() {
        check(r#"{"active":false}"#, "inactive");
        check(r#"{"active":false,"exp":"never"}"#, "inactive");
        check(r#"{"active":true}"#, "nobody ");
        check(r#"{"active":true,"sub":"alice","scope":"read write"}"#, "alice read,write");
        check(r#"{"active":true,"username":"bob","token_type":"bearer"}"#, "bob ");
        check(r#"{"active":true,"sub":"alice","username":"bob","token_type":null}"#, "alice ");
        let bound = r#""cnf":{"jkt":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}"#;
        check(&format!(r#"{{"active":true,"token_type":"dpop",{bound}}}"#), "nobody ");
    }

    #[test]
    fn anything_else_is_no_statement_about_the_token() {
        for response in [
            "",
            "true",
            "[]",
            "{}",
            "<html>",
            r#"{"active":"true"}"#,
            r#"{"active":1}"#,
            r#"{"active":null}"#,
            r#"{"active":false,"active":true}"#,
            r#"{"active":true,"exp":"tomorrow"}"#,
            r#"{"active":true,"scope":7}"#,
            r#"{"active":true} {}"#,
        ] {
            check(response, "malformed");
        }
        check(r#"{"active":true,"token_type":"DPoP"}"#, "unsupported");
        check(r#"{"active":true,"token_type":"DPoP","cnf":{"x":"y"}}"#, "unsupported");
        check(r#"{"active":true,"token_type":["Bearer"]}"#, "unsupported");
    }
}
