//! The response of a token endpoint. Source: RFC 6749 section 5.1.

use crate::error::TokenError;
use crate::json::{self, Value};

/// The tokens that a token endpoint has issued. They are visible ASCII.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedTokens {
    pub access_token: String,
    /// Lifetime of the access token in seconds, if the response has it.
    pub expires_s: Option<u64>,
    pub refresh_token: Option<String>,
    pub id_token: Option<String>,
}

/// Tokens are never printed.
impl std::fmt::Debug for IssuedTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedTokens").field("expires_s", &self.expires_s).finish_non_exhaustive()
    }
}

/// Reads a successful response.
///
/// # Errors
/// [`TokenError::Malformed`] unless it is a strict JSON object with an `access_token`; [`TokenError::Unsupported`] for
/// a `token_type` other than `Bearer`.
pub fn issued_tokens(response: &[u8]) -> Result<IssuedTokens, TokenError> {
    let object = json::parse_object(response)
        .map_err(|_| TokenError::Malformed("the response is not a strict JSON object"))?;
    let kind = object.get("token_type").map_or(Some("Bearer"), Value::as_str);
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("Bearer")) {
        return Err(TokenError::Unsupported("`token_type` is not Bearer"));
    }
    let token = |name: &str| {
        let token = object.get(name).and_then(Value::as_str);
        let is_token =
            |token: &&str| !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
        token.filter(is_token).map(str::to_owned)
    };
    let expires_s = match object.get("expires_in") {
        Some(Value::Unsigned(seconds)) => Some(*seconds),
        // Some servers write it as a string.
        Some(value) => value.as_str().and_then(|text| text.parse().ok()),
        None => None,
    };
    Ok(IssuedTokens {
        access_token: token("access_token")
            .ok_or(TokenError::Malformed("there is no valid `access_token`"))?,
        expires_s,
        refresh_token: token("refresh_token"),
        id_token: token("id_token"),
    })
}

/// Whether an error response concerns the grant (a code, a refresh token, a user's credentials) rather than the client.
/// Source: RFC 6749 section 5.2.
#[must_use]
pub fn is_invalid_grant(response: &[u8]) -> bool {
    let object = json::parse_object(response);
    object.is_ok_and(|object| object.get("error").and_then(Value::as_str) == Some("invalid_grant"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_and_its_lifetime_are_read() {
        for (text, expect) in [
            (
                r#"{"access_token":"a.b","token_type":"bearer","expires_in":60}"#,
                Ok(("a.b", Some(60))),
            ),
            (r#"{"access_token":"a","expires_in":"60"}"#, Ok(("a", Some(60)))),
            (r#"{"access_token":"a","expires_in":-1}"#, Ok(("a", None))),
            (r#"{"access_token":"a","token_type":"DPoP"}"#, Err("unsupported")),
            (r#"{"access_token":"a","token_type":1}"#, Err("unsupported")),
            (r#"{"access_token":"a\r\nX: b"}"#, Err("malformed")),
            (r#"{"access_token":""}"#, Err("malformed")),
            (r#"{"access_token":1}"#, Err("malformed")),
            (r#"{"error":"invalid_client"}"#, Err("malformed")),
            (r#"{"access_token":"a","access_token":"b"}"#, Err("malformed")),
            ("[]", Err("malformed")),
        ] {
            let found = issued_tokens(text.as_bytes());
            let found = match &found {
                Ok(issued) => Ok((issued.access_token.as_str(), issued.expires_s)),
                Err(TokenError::Unsupported(_)) => Err("unsupported"),
                Err(_) => Err("malformed"),
            };
            assert_eq!(found, expect, "{text}");
        }
    }
}
