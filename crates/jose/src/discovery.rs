//! The discovery document of an issuer. Source: RFC 8414 sections 2 and 3.3, OpenID Connect Discovery sections 3 and 4.3.

use crate::json::{self, Value};

/// The URL of the key set of `issuer` by its discovery document.
///
/// # Errors
/// What is wrong, for a diagnostic. A document of another issuer is rejected: its keys are those of someone else.
pub fn jwks_uri(document: &[u8], issuer: &str) -> Result<String, String> {
    let object = json::parse_object(document)
        .map_err(|error| format!("the discovery document is not JSON: {error}"))?;
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    if text("issuer") != Some(issuer) {
        return Err(
            "the discovery document is not that of this issuer: its `issuer` differs".to_owned()
        );
    }
    let uri = text("jwks_uri").ok_or("the discovery document has no `jwks_uri`")?;
    Ok(uri.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(document: &str, expect: Result<&str, &str>) {
        match (jwks_uri(document.as_bytes(), "https://id.example"), expect) {
            (Ok(uri), Ok(expect)) => assert_eq!(uri, expect, "{document}"),
            (Err(problem), Err(phrase)) => assert!(problem.contains(phrase), "{problem}"),
            (found, _) => panic!("{document}: {found:?}"),
        }
    }

    #[test]
    fn only_the_document_of_the_issuer_names_its_keys() {
        check(
            r#"{"issuer":"https://id.example","jwks_uri":"https://keys.example/1","x":[]}"#,
            Ok("https://keys.example/1"),
        );
        let differs = Err("`issuer` differs");
        check(r#"{"issuer":"https://id.example/","jwks_uri":"https://keys.example/1"}"#, differs);
        check(r#"{"issuer":"https://ID.example","jwks_uri":"https://keys.example/1"}"#, differs);
        check(r#"{"jwks_uri":"https://keys.example/1"}"#, differs);
        check(r#"{"issuer":["https://id.example"],"jwks_uri":"https://a.example"}"#, differs);
        check(r#"{"issuer":"https://id.example"}"#, Err("no `jwks_uri`"));
        check(r#"{"issuer":"https://id.example","jwks_uri":1}"#, Err("no `jwks_uri`"));
        check("<html>", Err("not JSON"));
        check(r#"{"issuer":"https://a.example","issuer":"https://id.example"}"#, Err("not JSON"));
    }
}
