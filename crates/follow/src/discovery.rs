//! Keys of an issuer that is configured only by its URL. Source: OpenID Connect Discovery section 4, RFC 8414 section
//! 3.

use crate::fetch::Fetch;

/// The key set of `issuer`, from its discovery document: OpenID Connect's, else OAuth's.
///
/// # Errors
/// A message for a diagnostic.
pub(crate) fn fetch_keys(fetch: &Fetch, issuer: &str) -> Result<Vec<u8>, String> {
    let [openid, oauth] = documents(issuer).ok_or("the issuer is not a URL")?;
    let document = fetch(&openid).or_else(|first| {
        fetch(&oauth).map_err(|second| format!("{openid}: {first}; {oauth}: {second}"))
    })?;
    let jwks = jose::jwks_uri(&document, issuer)?;
    fetch(&jwks).map_err(|problem| format!("{jwks}: {problem}"))
}

/// The URLs at which the discovery document may be.
fn documents(issuer: &str) -> Option<[String; 2]> {
    let issuer = issuer.trim_end_matches('/');
    let (scheme, rest) = issuer.split_once("://")?;
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    Some([
        format!("{issuer}/.well-known/openid-configuration"),
        format!("{scheme}://{host}/.well-known/oauth-authorization-server{path}"),
    ])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const OPENID: &str = "https://id.example/realms/a/.well-known/openid-configuration";
    const OAUTH: &str = "https://id.example/.well-known/oauth-authorization-server/realms/a";

    /// Checks the keys fetched for `https://id.example/realms/a` from a map of URLs and texts.
    #[track_caller]
    fn check(web: &'static [(&str, &str)], expect: Result<&str, &str>) {
        let fetch: Fetch = Arc::new(|url| {
            let page = web.iter().find(|(known, _)| *known == url);
            page.map(|(_, text)| text.as_bytes().to_vec()).ok_or("status 404".to_owned())
        });
        let found = fetch_keys(&fetch, "https://id.example/realms/a");
        match (found.map(|keys| String::from_utf8(keys).unwrap()), expect) {
            (Ok(keys), Ok(expect)) => assert_eq!(keys, expect),
            (Err(problem), Err(phrase)) => assert!(problem.contains(phrase), "{problem}"),
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn either_document_leads_to_the_keys() {
        const DOCUMENT: &str =
            r#"{"issuer":"https://id.example/realms/a","jwks_uri":"https://keys.example/1"}"#;
        const KEYS: (&str, &str) = ("https://keys.example/1", "keys");
        check(&[(OPENID, DOCUMENT), KEYS], Ok("keys"));
        check(&[(OAUTH, DOCUMENT), KEYS], Ok("keys"));
        check(&[(OAUTH, DOCUMENT)], Err("https://keys.example/1: status 404"));
        check(&[KEYS], Err("oauth-authorization-server/realms/a: status 404"));
    }

    #[test]
    fn a_document_that_could_be_someone_elses_is_rejected() {
        const OTHER: &str =
            r#"{"issuer":"https://id.example","jwks_uri":"https://keys.example/1"}"#;
        const CLEAR: &str =
            r#"{"issuer":"https://id.example/realms/a","jwks_uri":"http://keys.example/1"}"#;
        check(&[(OPENID, OTHER), ("https://keys.example/1", "keys")], Err("`issuer` differs"));
        check(&[(OPENID, CLEAR), ("http://keys.example/1", "keys")], Err("neither an https URL"));
    }

    #[test]
    fn a_slash_at_the_end_is_not_doubled() {
        let [openid, oauth] = documents("https://id.example/").unwrap();
        assert_eq!(openid, "https://id.example/.well-known/openid-configuration");
        assert_eq!(oauth, "https://id.example/.well-known/oauth-authorization-server");
    }
}
