//! The credentials that operations require.

use model::{BackendAuth, BackendCredential};

use super::{DEFAULTS, HEAD, check, load, no_files, security, shown};
use crate::openapi::{Defaults, read};
use crate::report::assert_lines;

#[test]
fn an_operation_is_secured_unless_the_file_says_otherwise() {
    let secured = "GET /* token";
    security("", "", secured);
    security("security: []", "", "GET /* open");
    security("x-wso2-disable-security: true", "", "GET /* open");
    security("x-wso2-disable-security: false", "", secured);
    security("x-auth-type: None", "", "GET /* open");
    security("x-auth-type: Any", "", secured);
    security("x-auth-type: Application & Application User", "", secured);
    security("", "security: []", "GET /* open");
    security("", "x-wso2-disable-security: true", "GET /* open");
    security("", "x-auth-type: None", "GET /* open");
    security("security: []", "security: [{b: []}]", secured);
    security("security: [{b: []}]", "security: []", "GET /* open");
    security("x-wso2-disable-security: true", "x-wso2-disable-security: false", secured);
    security("security: []", "x-wso2-disable-security: false", secured);
}

#[test]
fn one_scope_suffices_unless_all_are_required() {
    security("security: [{o: [read, write]}]", "", "GET /* any(read write)");
    security("security: [{o: [read]}]", "security: [{o: [write]}]", "GET /* any(write)");
    security("security: [{o: [read]}, {b: [write]}]", "", "GET /* any(read write)");
    security("security: [{o: [read]}, {b: []}]", "", "GET /* token");
    security("security: [{o: [read], b: []}]", "", "GET /* any(read)");
    security("security: [{o: [read, write]}]", "x-penstock-scopes: all", "GET /* all(read write)");
    security(
        "security: [{o: [a, b]}]\nx-penstock-scopes: all",
        "x-penstock-scopes: any",
        "GET /* any(a b)",
    );
    security("", "x-scope: read", "GET /* any(read)");
    security("", "x-scope: 'read, write'", "GET /* any(read write)");
    security("", "x-scopes: [read, write]", "GET /* any(read write)");
    security("x-penstock-scopes: all", "x-scopes: [read, write]", "GET /* all(read write)");
    security("security: [{o: [read]}]", "x-scope: read", "GET /* any(read)");
    security("security: [{o: [read]}]", "x-wso2-disable-security: false", "GET /* any(read)");
}

#[test]
fn unsupported_security_is_rejected() {
    security("security: [{m: []}]", "", "9:12: error: client certificates are not");
    security("security: [{o: [], k: []}]", "", "9:12: error: one credential");
    security("security: [{m: []}, {o: [r]}]", "", "9:12: warning: client cert; GET /* any(r)");
    security("security: [{}]", "", "9:12: error: optional");
    security("security: [{o: []}, {}]", "", "9:21: error: optional");
    security("security: [{p: []}]", "", "9:13: error: `p`");
    security("security: {o: []}", "", "9:11: error: `security`");
    security("security: [{o: [a], b: [b]}]", "", "9:21: error: different scopes");
    security(
        "security: [{o: [a]}, {o: [b]}]",
        "x-penstock-scopes: all",
        "9:11: error: different scopes",
    );
    security("security: [{o: [a]}]", "x-scope: b", "8:14: error: different scopes");
    security("x-auth-type: Developer", "", "9:14: error: Developer");
    security(
        "x-wso2-application-security: {security-types: [oauth2], optional: true}",
        "",
        "9:67: warning: `optional; GET /* token",
    );
    security("x-wso2-mutual-ssl: mandatory", "", "GET /* token");
    security("x-wso2-mutual-ssl: required", "", "9:1: error: `x-wso2-mutual-ssl`");
    security("x-wso2-mutual-ssl: optional", "", "GET /* token");
    let either = "x-wso2-mutual-ssl: Optional\nx-wso2-application-security: {optional: true}";
    security(either, "", "GET /* token optional");
}

#[test]
fn an_operation_accepts_api_keys_where_the_file_says_so() {
    security("security: [{k: []}]", "", "GET /* header:x-key");
    security("security: [{o: [r]}, {k: []}]", "", "GET /* any(r) header:x-key");
    security("security: [{k: []}]", "security: [{o: []}]", "GET /* token");
    security("security: [{k: []}]", "x-scope: r", "8:14: warning: no effect; GET /* header:x-key");
    for (scheme, expect) in [
        ("in: query, name: key", "GET /* query:key"),
        ("in: cookie, name: Key", "GET /* cookie:Key"),
        ("in: header, name: Authorization", "GET /* header:authorization"),
        ("in: head, name: Key", "6:95: error: unknown place `head`"),
        ("in: header, name: Host", "6:109: error: cannot carry"),
        ("in: header", "6:76: error: needs `in` and `name`"),
    ] {
        let text = HEAD
            .replace("type: apiKey, in: header, name: X-Key", &format!("type: apiKey, {scheme}"));
        check(&format!("{text}security: [{{k: []}}]\n"), &[], expect);
    }
}

#[test]
fn security_types_decide_which_kinds_are_accepted() {
    let types = |types: &str| format!("x-wso2-application-security: {{security-types: [{types}]}}");
    let (key, both) = (types("api_key"), types("oauth2, api_key"));
    security(&key, "", "GET /* header:apikey query:apikey");
    security(&both, "", "GET /* token header:apikey query:apikey");
    security(&types("jwt"), "", "GET /* token");
    security(&both, &types("oauth2"), "GET /* token");
    security(&both, "security: [{o: [r]}]", "GET /* any(r) header:apikey query:apikey");
    security(&key, "security: [{o: []}]", "GET /* header:apikey query:apikey");
    security(&both, "security: [{k: []}]", "GET /* token header:x-key");
    security(
        &types("oauth2"),
        "security: [{o: [r]}, {k: []}]",
        "8:24: warning: `security-types`; GET /* any(r)",
    );
    let renamed = format!("x-wso2-api-key-header: X-Key\n{key}");
    security(&renamed, "", "GET /* header:x-key query:apikey");
    security(&format!("x-wso2-disable-security: true\n{key}"), "", "GET /* open");
}

#[test]
fn a_credential_is_optional_only_beside_a_certificate() {
    let optional = "x-wso2-application-security: {optional: true}";
    let certificate = format!("x-wso2-mutual-ssl: mandatory\n{optional}");
    security(&certificate, "", "GET /* token optional");
    security(&certificate, "x-wso2-application-security: {optional: false}", "GET /* token");
    security(optional, "", "9:41: warning: `optional: true`; GET /* token");
}

#[test]
fn an_operation_may_be_for_one_type_of_token() {
    security("x-auth-type: Application", "", "GET /* token Application");
    security("x-auth-type: Application User", "", "GET /* token ApplicationUser");
    security("x-auth-type: Application", "x-auth-type: Any", "GET /* token");
    security("x-auth-type: Any", "x-auth-type: Application", "GET /* token Application");
}

#[test]
fn contradictory_settings_still_require_a_token() {
    security(
        "x-wso2-disable-security: true",
        "security: [{o: [r]}]",
        "8:24: warning: requires a credential; GET /* any(r)",
    );
    security(
        "",
        "x-wso2-disable-security: true, x-auth-type: Any",
        "8:39: error: `x-wso2-disable-security`",
    );
    security("x-wso2-disable-security: maybe", "", "9:26: error: `x-wso2-disable-security`");
    security("", "security: [], x-scope: r", "8:28: warning: no effect; GET /* open");
}

#[test]
fn an_operation_may_accept_passwords() {
    let types = |types: &str| format!("x-wso2-application-security: {{security-types: [{types}]}}");
    let scopes = "security: [{o: [read]}]";
    for (api, operation, expect) in [
        (types("basic_auth"), "", "GET /* login"),
        (types("oauth2, basic_auth"), "", "GET /* token login"),
        (types("api_key, basic_auth"), "", "GET /* login header:apikey query:apikey"),
        // As in API Manager, scopes concern every kind of credential that has some.
        (types("oauth2, basic_auth"), scopes, "GET /* any(read) login:any(read)"),
        (types("basic_auth"), "x-scope: read", "GET /* login:any(read)"),
        (types("basic_auth"), "x-basic-auth-scopes: [a, b]", "GET /* login:any(a b)"),
        (types("oauth2"), "security: [{l: []}]", "GET /* token"),
        // In OpenAPI, each alternative has its own scopes.
        (String::new(), "security: [{l: []}]", "GET /* login"),
        (String::new(), "security: [{o: [read]}, {l: []}]", "GET /* any(read) login"),
        (String::new(), "security: [{o: [], l: []}]", "8:25: error: one credential"),
        (String::new(), "security: [{k: [], l: []}]", "8:33: error: one credential"),
    ] {
        security(&api, operation, expect);
    }
}

/// The credential of a set with this `securityConfig`, or the diagnostics.
#[track_caller]
fn backend(written: &str, expect: &str) -> Option<BackendAuth> {
    let text = format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: 1}}\npaths: {{/*: {{get: {{}}}}}}\nsecurity: []\n\
         x-wso2-production-endpoints: {{urls: ['https://b'],securityConfig: {written}}}\n"
    );
    let defaults = Defaults { credentials: vec!["orders".to_owned()], ..DEFAULTS.clone() };
    let outcome = read("api.yaml".as_ref(), text.as_bytes(), &no_files, &defaults);
    assert_lines(&shown(&outcome), expect);
    outcome.api.and_then(|api| api.upstreams.first()?.credential.clone())
}

#[test]
fn an_endpoint_set_may_need_a_credential_of_the_gateway() {
    let warning = "5:67: warning: secret";
    let named = backend("{credential: orders}", "");
    assert_eq!(named, Some(BackendAuth::Named("orders".to_owned())));
    assert_eq!(backend("{enabled: false, type: BASIC}", ""), None);
    assert_eq!(backend("{type: NONE}", ""), None);
    let own = |written: &str| match backend(written, warning) {
        Some(BackendAuth::Own(found)) => (*found).clone(),
        other => panic!("{other:?}"),
    };
    let basic = own("{type: BASIC, username: a, password: b}");
    let (username, password) = ("a".to_owned(), b"b".to_vec());
    assert_eq!(basic, BackendCredential::Basic { username, password });
    assert_eq!(format!("{basic:?}"), "Basic(..)");
    let key = "type: apikey, apiKeyIdentifier: k, apiKeyValue: 'a b'";
    let header = BackendCredential::Header { name: "k".to_owned(), value: b"a b".to_vec() };
    assert_eq!(own(&format!("{{{key}}}")), header);
    assert_eq!(own(&format!("{{{key}, apiKeyIdentifierType: HEADER}}")), header);
    let query = own(&format!("{{{key}, apiKeyIdentifierType: QUERY_PARAMETER}}"));
    assert_eq!(query, BackendCredential::query("k", b"a b"));
    let oauth = "type: OAUTH, grantType: CLIENT_CREDENTIALS, clientId: a, clientSecret: b";
    let BackendCredential::ClientCredentials(client) =
        own(&format!("{{{oauth}, tokenUrl: 'https://c/t'}}"))
    else {
        panic!("it is a client")
    };
    assert_eq!((client.client_id.as_str(), client.token_url.as_str()), ("a", "https://c/t"));
}

#[test]
fn what_is_wrong_with_a_credential_of_the_gateway_is_reported() {
    for (written, expect) in [
        ("{credential: order}", "5:80: error: undefined credential `order`"),
        ("{}", "5:67: error: `credential`"),
        ("{type: BASIC}", "5:67: error: `password`; 5:67: error: `username`"),
        ("{type: BASIC, username: a, password: ''}", "5:104: error: `password`"),
        ("{type: NTLM, username: a, password: b}", "5:74: error: `NTLM`"),
        ("{type: BASIC, usr: a, enabled: false}", "5:81: error: `usr`"),
        (
            "{type: apikey, apiKeyIdentifier: 'a b', apiKeyValue: c}",
            "5:67: error: the header field `a b` cannot carry a key",
        ),
        (
            "{type: apikey, apiKeyIdentifier: Transfer-Encoding, apiKeyValue: chunked}",
            "5:67: error: the header field `Transfer-Encoding` cannot carry a key",
        ),
        ("{credential: orders, type: BASIC}", "5:88: error: `type` has no effect beside"),
        (
            "{type: OAUTH, tokenUrl: 'https://b/t', clientId: a, clientSecret: b, customParameters: '{}'}",
            "5:67: warning: secret; 5:136: error: `customParameters`",
        ),
        (
            "{type: BASIC, username: 'a:b', password: c}",
            "5:67: error: colon; 5:67: warning: secret",
        ),
        (
            "{type: OAUTH, tokenUrl: 'http://b/t', clientId: a, clientSecret: b}",
            "5:67: error: http; 5:67: warning: secret",
        ),
        (
            "{type: OAUTH, grantType: PASSWORD, tokenUrl: 'https://b/t', clientId: a, clientSecret: b}",
            "5:67: warning: secret; 5:92: error: grant type",
        ),
    ] {
        assert_eq!(backend(written, expect), None, "{written}");
    }
}

#[test]
fn a_credential_that_is_sent_in_clear_is_a_warning() {
    for (url, expect) in [
        ("http://b:80/c", "5:72: warning: over http"),
        ("http://127.0.0.1/", ""),
        ("https://b", ""),
    ] {
        let text = format!(
            "openapi: 3.0.3\ninfo: {{title: A, version: 1}}\npaths: {{/*: {{get: {{}}}}}}\nsecurity: []\n\
             x-wso2-production-endpoints: {{urls: ['{url}'], securityConfig: {{credential: orders}}}}\n"
        );
        let defaults = Defaults { credentials: vec!["orders".to_owned()], ..DEFAULTS.clone() };
        let outcome = read("api.yaml".as_ref(), text.as_bytes(), &no_files, &defaults);
        assert_lines(&shown(&outcome), expect);
    }
}

#[test]
fn a_signature_is_for_a_set_of_one_endpoint() {
    for (urls, expect) in [
        ("'https://b'", ""),
        ("'https://b', 'https://c'", "5:101: error: this credential is for one endpoint"),
    ] {
        let text = format!(
            "openapi: 3.0.3\ninfo: {{title: A, version: 1}}\npaths: {{/*: {{get: {{}}}}}}\nsecurity: []\n\
             x-wso2-production-endpoints: {{type: load_balance, urls: [{urls}], securityConfig: {{credential: lake}}}}\n"
        );
        let names = vec!["lake".to_owned()];
        let (credentials, of_one_endpoint) = (names.clone(), names);
        let defaults = Defaults { credentials, of_one_endpoint, ..DEFAULTS.clone() };
        let outcome = read("api.yaml".as_ref(), text.as_bytes(), &no_files, &defaults);
        assert_lines(&shown(&outcome), expect);
    }
}

#[test]
fn an_api_may_name_a_login() {
    let defaults = Defaults { logins: vec!["staff".to_owned()], ..DEFAULTS.clone() };
    for (line, login, expect) in [
        ("", None, ""),
        ("x-penstock-login: staff", Some("staff"), ""),
        ("x-penstock-login: stuff", None, "5:19: error: undefined login `stuff`"),
        ("x-penstock-login: [staff]", None, "5:19: error: `x-penstock-login`"),
    ] {
        let text = format!(
            "openapi: 3.0.3\ninfo: {{title: A, version: 1}}\npaths: {{/*: {{get: {{}}}}}}\n\
             servers: [{{url: 'https://b/c'}}]\n{line}\n"
        );
        let outcome = read("api.yaml".as_ref(), text.as_bytes(), &no_files, &defaults);
        assert_lines(&shown(&outcome), expect);
        let found = outcome.api.and_then(|api| api.login);
        assert_eq!(found.as_deref(), login, "{line}");
    }
}

#[test]
fn an_api_may_list_the_client_certificates_that_it_accepts() {
    const FINGERPRINT: &str = "sha256:D8:EC:B1:40:EF:22:59:80:44:53:E3:4E:E5:CD:02:14:AB:02:E2:0A:C6:78:B3:3B:02:23:3F:9C:BE:AC:94:15";
    const FILES: [(&str, &str); 2] =
        [("certs/a.crt", include_str!("client.crt")), ("key.pem", "-----BEGIN KEY-----")];
    let text = |value: &str| {
        let head = format!("{HEAD}x-wso2-mutual-ssl: mandatory\n");
        format!("{head}x-penstock-client-certificates: {value}\n")
    };
    let found = |value: &str| load(&text(value), &FILES).api?.client_trust;
    let file = found("[./certs/a.crt]").expect("it is valid");
    let (digits, list) = (file.production.hashes.clone(), &file.production);
    assert_eq!((digits.len(), list.issuers.len(), &file.sandbox), (1, 1, list));
    let pinned = found(&format!("{{sandbox: '{FINGERPRINT}'}}")).expect("it is valid");
    assert_eq!((&pinned.sandbox.hashes, pinned.sandbox.issuers.len()), (&digits, 0));
    assert_eq!(pinned.production, model::TrustedClients::default());
    for (value, expect) in [
        ("[]", "10:33: error: must list 1 to"),
        ("{production: []}", "10:46: error: must list 1 to"),
        ("{prod: [certs/a.crt]}", "10:34: error: unknown key `prod`"),
        ("[b.crt]", "10:34: error: `b.crt`: there is no such file"),
        ("[key.pem]", "10:34: error: no END line"),
        ("[../a.crt]", "10:34: error: leads outside"),
        ("['certs/a.crt#/x']", "10:34: error: is not a path"),
        ("['sha256:ab']", "10:34: error: is not a SHA-256 hash"),
        ("{sandbox: {}}", "10:43: error: must be a list"),
    ] {
        check(&text(value), &FILES, expect);
    }
    let unused = format!("{HEAD}x-penstock-client-certificates: [certs/a.crt]\n");
    check(&unused, &FILES, "9:1: error: no effect without `x-wso2-mutual-ssl`");
}
