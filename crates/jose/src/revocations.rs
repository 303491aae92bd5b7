//! The key manager's list of revoked tokens.

use crate::base64url::{self, Padding};
use crate::json::{self, Value};

/// A page of revoked tokens, and the number after which the next page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevocationPage {
    pub revision: u64,
    pub revoked: Vec<Revocation>,
}

/// A revoked token, or all tokens of a client that were issued up to some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// SHA-256 of a `jti`, of an opaque token, or of the ID of a client.
    pub hash: [u8; 32],
    /// Expiry of the token, or of the client's last token, in seconds since the Unix epoch.
    pub exp_s: u64,
    /// `issued_until` for a client, in seconds since the Unix epoch. `None` for a token.
    pub issued_s: Option<u64>,
}

/// Parses the response to a request for revocations.
///
/// # Errors
/// A message for a diagnostic. A response is used completely or not at all.
pub fn revocation_page(response: &[u8]) -> Result<RevocationPage, String> {
    let object = json::parse_object(response)
        .map_err(|error| format!("the response is not strict JSON: {error}"))?;
    let revision = object.get("revision").and_then(whole).ok_or("there is no `revision`")?;
    let list = object.get("revoked").and_then(Value::as_array).ok_or("there is no `revoked`")?;
    let revoked = list.iter().map(entry).collect::<Option<_>>();
    Ok(RevocationPage { revision, revoked: revoked.ok_or("`revoked` has a malformed entry")? })
}

fn entry(value: &Value<'_>) -> Option<Revocation> {
    let object = value.as_object()?;
    let issued_s = match object.get("issued_until") {
        Some(issued_until) => Some(whole(issued_until)?),
        None => None,
    };
    let hash = token_hash(object.get("hash")?.as_str()?)?;
    Some(Revocation { hash, exp_s: whole(object.get("exp")?)?, issued_s })
}

/// The 32 bytes of a SHA-256 in base64url.
#[must_use]
pub fn token_hash(text: &str) -> Option<[u8; 32]> {
    base64url::decode(text.as_bytes(), Padding::Rejected)?.try_into().ok()
}

/// `hash` in base64url.
#[must_use]
pub fn token_hash_text(hash: &[u8; 32]) -> String {
    base64url::encode(hash)
}

fn whole(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Unsigned(number) => Some(*number),
        Value::Null
        | Value::Bool(_)
        | Value::Negative(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONES: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";

    #[test]
    fn a_page_is_read_completely_or_not_at_all() {
        let page = |json: &str| revocation_page(json.as_bytes());
        for (more, issued_s) in [("", None), (r#","issued_until":5"#, Some(5))] {
            let entry = format!(r#"{{"hash":"{ONES}","exp":9{more}}}"#);
            let revoked = vec![Revocation { hash: [1; 32], exp_s: 9, issued_s }];
            let expect = RevocationPage { revision: 7, revoked };
            assert_eq!(page(&format!(r#"{{"revision":7,"revoked":[{entry}]}}"#)), Ok(expect));
        }
        assert_eq!(token_hash_text(&[1; 32]), ONES);
        assert_eq!(page(r#"{"revision":7,"revoked":[]}"#).map(|page| page.revoked), Ok(vec![]));
        for wrong in [
            "",
            "[]",
            r#"{"revoked":[]}"#,
            r#"{"revision":"7","revoked":[]}"#,
            r#"{"revision":-7,"revoked":[]}"#,
            r#"{"revision":7}"#,
            r#"{"revision":7,"revoked":{}}"#,
            r#"{"revision":7,"revoked":[7]}"#,
            r#"{"revision":7,"revoked":[{"hash":"AQEB","exp":9}]}"#,
            &format!(r#"{{"revision":7,"revoked":[{{"hash":"{ONES}"}}]}}"#),
            &format!(r#"{{"revision":7,"revoked":[{{"hash":"{ONES}","exp":9.5}}]}}"#),
            &format!(
                r#"{{"revision":7,"revoked":[{{"hash":"{ONES}","exp":9,"issued_until":"5"}}]}}"#
            ),
        ] {
            assert!(page(wrong).is_err(), "{wrong}");
        }
    }
}
