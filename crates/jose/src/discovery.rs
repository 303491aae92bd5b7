//! The discovery document of an issuer. Source: RFC 8414 sections 2 and 3.3, OpenID Connect Discovery sections 3 and
//! 4.3.

use crate::json::{self, Object, Value};

/// The URL of the key set of `issuer`, from its discovery document.
///
/// # Errors
/// A message for a diagnostic. A document of another issuer is rejected, because its keys belong to another party. A
/// URL without TLS is rejected too, unless it has the issuer's origin.
pub fn jwks_uri(document: &[u8], issuer: &str) -> Result<String, String> {
    let url = member(&of_issuer(document, issuer)?, "jwks_uri")?;
    if is_safe(&url, issuer) { Ok(url) } else { Err(unsafe_url("the `jwks_uri`")) }
}

/// The endpoints where browsers sign in and clients get tokens for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInEndpoints {
    /// `authorization_endpoint`
    pub authorize: String,
    /// `token_endpoint`
    pub token: String,
    /// `end_session_endpoint`. Source: OpenID Connect RP-Initiated Logout section 2.1.
    pub logout: Option<String>,
    /// `revocation_endpoint`. Source: RFC 8414 section 2.
    pub revoke: Option<String>,
    /// `userinfo_endpoint`. Source: OpenID Connect Discovery section 3.
    pub userinfo: Option<String>,
    /// Whether the provider's responses to browsers have `iss`. Source: RFC 9207 section 3.
    pub sends_iss: bool,
}

const SENDS_ISS: &str = "authorization_response_iss_parameter_supported";

/// The endpoints of `issuer`, from its discovery document.
///
/// # Errors
/// As [`jwks_uri`], and for endpoints that cannot be written into a response field.
pub fn sign_in_endpoints(document: &[u8], issuer: &str) -> Result<SignInEndpoints, String> {
    let object = of_issuer(document, issuer)?;
    let endpoints = SignInEndpoints {
        authorize: member(&object, "authorization_endpoint")?,
        token: member(&object, "token_endpoint")?,
        logout: member(&object, "end_session_endpoint").ok(),
        revoke: member(&object, "revocation_endpoint").ok(),
        userinfo: member(&object, "userinfo_endpoint").ok(),
        sends_iss: matches!(object.get(SENDS_ISS), Some(Value::Bool(true))),
    };
    let SignInEndpoints { authorize, token, logout, revoke, userinfo, sends_iss: _ } = &endpoints;
    let all = [Some(authorize), Some(token), logout.as_ref(), revoke.as_ref(), userinfo.as_ref()];
    if !all.into_iter().flatten().all(|url| is_safe(url, issuer)) {
        return Err(unsafe_url("an endpoint"));
    }
    if !all.into_iter().flatten().all(|url| takes_parameters(url)) {
        return Err("an endpoint of the discovery document has a fragment, or characters that are not allowed".to_owned());
    }
    Ok(endpoints)
}

/// Whether two URLs have the same scheme, host and port, written in the same way.
#[must_use]
pub fn same_origin(url: &str, other: &str) -> bool {
    origin(url).is_some_and(|found| Some(found) == origin(other))
}

fn origin(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    Some((scheme, rest.split(['/', '?', '#', '\\']).next()?))
}

fn is_safe(url: &str, issuer: &str) -> bool {
    url.starts_with("https://") || same_origin(url, issuer)
}

fn unsafe_url(what: &str) -> String {
    format!("{what} of the discovery document is neither an https URL nor at the issuer's origin")
}

/// Whether a URL can be extended by query parameters and written into a field: it consists of printable ASCII
/// characters and has no fragment.
fn takes_parameters(url: &str) -> bool {
    url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
}

fn of_issuer<'a>(document: &'a [u8], issuer: &str) -> Result<Object<'a>, String> {
    let object = json::parse_object(document)
        .map_err(|error| format!("the discovery document is not JSON: {error}"))?;
    if object.get("issuer").and_then(Value::as_str) != Some(issuer) {
        return Err(
            "the discovery document is not that of this issuer: its `issuer` differs".to_owned()
        );
    }
    Ok(object)
}

fn member(object: &Object<'_>, name: &str) -> Result<String, String> {
    let text = object.get(name).and_then(Value::as_str).map(str::to_owned);
    text.ok_or_else(|| format!("the discovery document has no `{name}`"))
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
    fn the_endpoints_of_a_sign_in_are_read() {
        let read = |text: &str| sign_in_endpoints(text.as_bytes(), "https://id.example");
        let document = |authorize: &str, more: &str| {
            format!(
                r#"{{"issuer":"https://id.example","authorization_endpoint":"{authorize}","token_endpoint":"https://id.example/t"{more}}}"#
            )
        };
        let found = read(&document("https://id.example/a", "")).unwrap();
        assert_eq!((found.token.as_str(), found.logout), ("https://id.example/t", None));
        let logout = r#","end_session_endpoint":"https://id.example/l""#;
        let found = read(&document("https://id.example/a", logout)).unwrap();
        assert_eq!(found.logout.as_deref(), Some("https://id.example/l"));
        for (text, phrase) in [
            (document("http://id.example/a", ""), "https"),
            (
                document("https://id.example/a", &logout.replace("https://id.example/l", "x:")),
                "https",
            ),
            (document(r"https://id.example/a\r\nSet-Cookie: a=b", ""), "not allowed"),
            (document("https://id.example/a#b", ""), "not allowed"),
            (
                document("https://id.example/a", r#","revocation_endpoint":"http://id.example/r""#),
                "https",
            ),
            (
                document("https://id.example/a", r#","userinfo_endpoint":"http://id.example/u""#),
                "https",
            ),
            (document("https://id.example/ä", ""), "not allowed"),
            (document("https://id.example/a", &logout.replace("/l", r"/l\r\nX: y")), "not allowed"),
            (r#"{"issuer":"https://id.example"}"#.to_owned(), "no `authorization_endpoint`"),
            (document("https://id.example/a", "").replace("id.example\",", "x\","), "differs"),
        ] {
            let problem = read(&text).unwrap_err();
            assert!(problem.contains(phrase), "{problem}");
        }
    }

    #[test]
    fn an_issuer_without_tls_names_no_other_server_without_tls() {
        for (url, same) in [
            ("http://127.0.0.1:8080/keys", true),
            ("http://127.0.0.1:8080?keys", true),
            ("http://127.0.0.1:8081/keys", false),
            ("http://127.0.0.1:8080@internal/keys", false),
            ("http://127.0.0.1:8080.internal/keys", false),
            ("http:/127.0.0.1:8080/keys", false),
            ("ftp://127.0.0.1:8080/keys", false),
        ] {
            let issuer = "http://127.0.0.1:8080/realms/staff";
            assert_eq!(same_origin(url, issuer), same, "{url}");
            let document = format!(r#"{{"issuer":"{issuer}","jwks_uri":"{url}"}}"#);
            assert_eq!(jwks_uri(document.as_bytes(), issuer).is_ok(), same, "{url}");
        }
    }

    // The shapes are those of the providers' published documents.
    #[test]
    fn documents_of_keycloak_entra_id_okta_and_auth0_are_read() {
        let tenant = "https://login.microsoftonline.com/72f988bf-86f1-41af-91ab-2d7cd011db47";
        let entra = |issuer: &str| {
            format!(
                r#"{{"token_endpoint":"{tenant}/oauth2/v2.0/token","token_endpoint_auth_methods_supported":["client_secret_post","private_key_jwt","client_secret_basic"],"jwks_uri":"{tenant}/discovery/v2.0/keys","issuer":"{issuer}","request_uri_parameter_supported":false,"userinfo_endpoint":"https://graph.microsoft.com/oidc/userinfo","authorization_endpoint":"{tenant}/oauth2/v2.0/authorize","http_logout_supported":true,"end_session_endpoint":"{tenant}/oauth2/v2.0/logout","tenant_region_scope":"WW"}}"#
            )
        };
        let realm = "https://id.example/realms/staff";
        let keycloak = format!(
            r#"{{"issuer":"{realm}","authorization_endpoint":"{realm}/protocol/openid-connect/auth","token_endpoint":"{realm}/protocol/openid-connect/token","userinfo_endpoint":"{realm}/protocol/openid-connect/userinfo","end_session_endpoint":"{realm}/protocol/openid-connect/logout","jwks_uri":"{realm}/protocol/openid-connect/certs","revocation_endpoint":"{realm}/protocol/openid-connect/revoke","mtls_endpoint_aliases":{{"token_endpoint":"{realm}/protocol/openid-connect/token"}},"authorization_response_iss_parameter_supported":true}}"#
        );
        let okta = "https://org.okta.com/oauth2/default";
        let okta_document = format!(
            r#"{{"issuer":"{okta}","authorization_endpoint":"{okta}/v1/authorize","token_endpoint":"{okta}/v1/token","userinfo_endpoint":"{okta}/v1/userinfo","jwks_uri":"{okta}/v1/keys","end_session_endpoint":"{okta}/v1/logout","revocation_endpoint":"{okta}/v1/revoke"}}"#
        );
        let auth0 = "https://tenant.eu.auth0.com/";
        let auth0_document = format!(
            r#"{{"issuer":"{auth0}","authorization_endpoint":"{auth0}authorize","token_endpoint":"{auth0}oauth/token","device_authorization_endpoint":"{auth0}oauth/device/code","userinfo_endpoint":"{auth0}userinfo","jwks_uri":"{auth0}.well-known/jwks.json","revocation_endpoint":"{auth0}oauth/revoke"}}"#
        );
        let v2 = format!("{tenant}/v2.0");
        for (document, issuer, userinfo) in [
            (keycloak, realm, format!("{realm}/protocol/openid-connect/userinfo")),
            (entra(&v2), &v2, "https://graph.microsoft.com/oidc/userinfo".to_owned()),
            (okta_document, okta, format!("{okta}/v1/userinfo")),
            (auth0_document, auth0, format!("{auth0}userinfo")),
        ] {
            let found = sign_in_endpoints(document.as_bytes(), issuer).unwrap();
            assert_eq!(found.userinfo, Some(userinfo));
            assert_eq!(found.sends_iss, issuer == realm);
            assert!(jwks_uri(document.as_bytes(), issuer).is_ok(), "{issuer}");
        }
        // The document of `common` belongs to no single issuer.
        let common = entra("https://login.microsoftonline.com/{tenantid}/v2.0");
        let common =
            sign_in_endpoints(common.as_bytes(), "https://login.microsoftonline.com/common/v2.0");
        assert!(common.unwrap_err().contains("`issuer` differs"));
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
        check(
            r#"{"issuer":"https://id.example","jwks_uri":"http://id.example/keys"}"#,
            Err("neither an https URL"),
        );
        check("<html>", Err("not JSON"));
        check(r#"{"issuer":"https://a.example","issuer":"https://id.example"}"#, Err("not JSON"));
    }
}
