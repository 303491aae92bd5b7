//! OpenID Connect: ID tokens, the user's claims, and logout.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use harness::Response;
use serde_json::{Value, json};

use crate::key_manager::{ISS, KeyManager, SIGN_IN, error, success};

const REDIRECT: &str = "https://app.example/";

fn client(manager: &KeyManager) -> (String, String) {
    let more = json!({
        "grantType": "client_credentials password refresh_token",
        "callbackUrl": REDIRECT,
        "tokenScope": "read",
        "tokenType": "OAUTH",
    });
    manager.register("web", more)
}

fn text<'a>(body: &'a Value, name: &str) -> &'a str {
    body[name].as_str().unwrap_or_else(|| panic!("{name} in {body}"))
}

/// The claims of a JWT.
pub(crate) fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).expect("a JWT");
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

fn userinfo(manager: &KeyManager, fields: &str) -> Response {
    manager.connect().fetch("GET /oauth2/userinfo", fields)
}

#[test]
fn applications_of_listed_origins_may_read_responses_and_no_others() {
    let manager = KeyManager::with("cors_origins = [\"https://app.example\"]\n");
    let send = |line: &str, origin: &str| {
        let fields = format!("Origin: {origin}\r\nAccess-Control-Request-Method: POST\r\n");
        manager.connect().fetch(line, &fields)
    };
    let allowed =
        |response: &Response| response.header("Access-Control-Allow-Origin").map(str::to_owned);
    let own = "https://app.example";
    for path in
        ["/oauth2/token", "/oauth2/jwks", "/oauth2/userinfo", "/.well-known/openid-configuration"]
    {
        let preflight = send(&format!("OPTIONS {path}"), own);
        assert_eq!((preflight.status, allowed(&preflight).as_deref()), (204, Some(own)), "{path}");
        let names = preflight.header("Access-Control-Allow-Headers").unwrap();
        assert!(names.contains("authorization") && names.contains("dpop"), "{names}");
        let found = send(&format!("GET {path}"), own);
        assert_eq!(allowed(&found).as_deref(), Some(own), "{path}");
        assert_eq!(found.header("Access-Control-Allow-Credentials"), None);
        for method in ["OPTIONS", "GET"] {
            let foreign = send(&format!("{method} {path}"), "https://evil.example");
            assert_eq!(allowed(&foreign), None, "{method} {path}");
            assert_eq!(foreign.header("Vary"), Some("origin"));
        }
    }
    // Pages and administrators' endpoints are for no origin.
    for path in ["/oauth2/authorize", "/oauth2/introspect", "/client-registration/v0.17/register"] {
        let preflight = send(&format!("OPTIONS {path}"), own);
        assert_eq!((preflight.status, allowed(&preflight)), (405, None), "{path}");
    }
    let closed = KeyManager::start();
    let fields = format!("Origin: {own}\r\nAccess-Control-Request-Method: POST\r\n");
    let preflight = closed.connect().fetch("OPTIONS /oauth2/token", &fields);
    assert_eq!((preflight.status, allowed(&preflight)), (405, None));
}

#[test]
fn the_scope_openid_brings_an_id_token_and_the_claims_of_the_user() {
    let manager = KeyManager::start();
    let (id, secret) = client(&manager);
    let login = (id.as_str(), secret.as_str());
    let issued = manager.token(login, &format!("{SIGN_IN}&scope=openid+read"));
    assert_eq!(issued["scope"], "openid read");
    let id_token = claims(text(&issued, "id_token"));
    for (claim, expect) in [("iss", ISS), ("sub", "admin"), ("aud", &id), ("azp", &id)] {
        assert_eq!(id_token[claim], expect, "{claim}");
    }
    assert!(id_token["auth_time"].as_u64() <= id_token["iat"].as_u64());
    assert_eq!(id_token.get("scope"), None);
    // Source: OpenID Connect Core 1.0 section 3.1.3.6, for RS256.
    let bearer = format!("Authorization: Bearer {}\r\n", text(&issued, "access_token"));
    let user = success(&userinfo(&manager, &bearer));
    assert_eq!(user, json!({ "sub": "admin", "preferred_username": "admin", "roles": ["admin"] }));

    let without = manager.token(login, &format!("{SIGN_IN}&scope=read"));
    assert_eq!(without.get("id_token"), None);
    let own = manager.token(login, "grant_type=client_credentials&scope=openid");
    assert_eq!((own.get("id_token"), &own["scope"]), (None, &json!("default")));
    for issued in [&without, &own] {
        let bearer = format!("Authorization: Bearer {}\r\n", text(issued, "access_token"));
        assert_eq!(error(&userinfo(&manager, &bearer)), "403 insufficient_scope");
    }
    for fields in ["", "Authorization: Bearer x\r\n", "Authorization: Basic YTpi\r\n"] {
        let refused = userinfo(&manager, fields);
        assert_eq!(error(&refused), "401 invalid_token", "{fields}");
        assert!(refused.header("WWW-Authenticate").unwrap().starts_with("Bearer"));
    }
}

#[test]
fn an_id_token_is_not_an_access_token() {
    let manager = KeyManager::start();
    let (id, secret) = client(&manager);
    let login = (id.as_str(), secret.as_str());
    let issued = manager.token(login, &format!("{SIGN_IN}&scope=openid"));
    let id_token = text(&issued, "id_token");
    assert!(!manager.is_active(login, id_token));
    let bearer = format!("Authorization: Bearer {id_token}\r\n");
    assert_eq!(error(&userinfo(&manager, &bearer)), "401 invalid_token");
}

#[test]
fn a_logout_revokes_what_the_id_token_belongs_to() {
    let manager = KeyManager::start();
    let (id, secret) = client(&manager);
    let login = (id.as_str(), secret.as_str());
    let [ended, other] = [(); 2].map(|()| manager.token(login, &format!("{SIGN_IN}&scope=openid")));
    let logout = |hint: &str, redirect: &str| {
        let path = format!(
            "/oidc/logout?id_token_hint={hint}&post_logout_redirect_uri={redirect}&state=a%26b"
        );
        manager.get(&path)
    };
    let hint = text(&ended, "id_token");
    for wrong in [text(&ended, "access_token"), "a.b.c"] {
        assert_eq!(error(&logout(wrong, REDIRECT)), "400 invalid_request");
    }
    assert!(manager.is_active(login, text(&ended, "access_token")));
    let elsewhere = logout(hint, "https://evil.example/");
    assert_eq!(error(&elsewhere), "400 invalid_request");
    assert_eq!(elsewhere.header("Location"), None);
    let done = logout(hint, REDIRECT);
    assert_eq!(done.header("Location"), Some("https://app.example/?state=a%26b"));
    assert!(!manager.is_active(login, text(&ended, "access_token")));
    assert!(manager.is_active(login, text(&other, "access_token")));
    let form = format!("grant_type=refresh_token&refresh_token={}", text(&ended, "refresh_token"));
    assert_eq!(error(&manager.post("/oauth2/token", Some(login), &form)), "400 invalid_grant");
    let page = manager.get("/oidc/logout");
    assert_eq!((page.status, page.header("Location")), (200, None));
}
