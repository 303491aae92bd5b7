//! The response of a token endpoint. Source: RFC 6749 section 5.1.

use crate::error::TokenError;
use crate::json::{self, Value};

/// The access token, and for how many seconds it is valid, if the server says so. The token is visible ASCII.
///
/// # Errors
/// [`TokenError::Malformed`] unless it is a strict JSON object with an `access_token`; [`TokenError::Unsupported`] for
/// a `token_type` other than `Bearer`.
pub fn access_token(response: &[u8]) -> Result<(String, Option<u64>), TokenError> {
    let object = json::parse_object(response)
        .map_err(|_| TokenError::Malformed("the response is not a strict JSON object"))?;
    let kind = object.get("token_type").map_or(Some("Bearer"), Value::as_str);
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("Bearer")) {
        return Err(TokenError::Unsupported("`token_type` is not Bearer"));
    }
    let token = object.get("access_token").and_then(Value::as_str);
    let token =
        token.filter(|token| !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic()));
    let token = token.ok_or(TokenError::Malformed("there is no valid `access_token`"))?;
    let expires_s = match object.get("expires_in") {
        Some(Value::Unsigned(seconds)) => Some(*seconds),
        // Some servers write it as a string.
        Some(value) => value.as_str().and_then(|text| text.parse().ok()),
        None => None,
    };
    Ok((token.to_owned(), expires_s))
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
            let found = access_token(text.as_bytes());
            let found = match &found {
                Ok((token, expires_s)) => Ok((token.as_str(), *expires_s)),
                Err(TokenError::Unsupported(_)) => Err("unsupported"),
                Err(_) => Err("malformed"),
            };
            assert_eq!(found, expect, "{text}");
        }
    }
}
