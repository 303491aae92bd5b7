//! JWTs of trusted issuers in place of a user's sign-in.

use harness::{CannedResponse, Files, Issuer, Upstream};
use serde_json::{Value, json};

use crate::key_manager::{ISS, KeyManager, basic, control, error, success};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

fn manager(jwks: &str, issuer: &Issuer) -> KeyManager {
    let iss = issuer.iss();
    let files = Files::new().toml(&format!(
        "{}[[control.trusted_issuer]]\nname = \"partner\"\niss = \"{iss}\"\njwks = \"{jwks}\"\n",
        control()
    ));
    files.write("partner.json", &issuer.jwks());
    KeyManager::of(files)
}

/// Exchanges `assertion`. Returns status and error, or status and the subject of the token.
fn exchange(manager: &KeyManager, login: &(String, String), assertion: &str) -> String {
    let form = format!("grant_type={GRANT}&assertion={assertion}&scope=read+other");
    let login = (login.0.as_str(), login.1.as_str());
    let response = manager.post("/oauth2/token", Some(login), &form);
    if response.status != 200 {
        return error(&response);
    }
    let issued = success(&response);
    assert_eq!((&issued["scope"], issued.get("refresh_token")), (&json!("read"), None));
    let form = format!("token={}", issued["access_token"].as_str().unwrap());
    let found = success(&manager.post("/oauth2/introspect", Some(login), &form));
    assert_eq!((&found["active"], &found["aut"]), (&json!(true), &json!("APPLICATION_USER")));
    assert_eq!(found["username"], found["sub"]);
    format!("200 {}", found["sub"].as_str().unwrap())
}

#[test]
fn a_jwt_of_a_trusted_issuer_is_exchanged_for_a_token_of_its_user() {
    let partner = Issuer::new("partner");
    let manager = manager("partner.json", &partner);
    let more = json!({ "grantType": GRANT, "tokenScope": "read" });
    let client = manager.register("a", more.clone());
    let opaque = json!({ "grantType": GRANT, "tokenScope": "read", "tokenType": "OAUTH" });
    let opaque = manager.register("opaque", opaque);
    let token = || partner.token().claim("aud", ISS);
    let signed = token().claim("jti", "1").sign();
    for expect in ["200 partner/somebody", "400 invalid_grant"] {
        assert_eq!(exchange(&manager, &client, &signed), expect, "once");
    }
    assert_eq!(exchange(&manager, &opaque, &token().sign()), "200 partner/somebody");
    let endpoint = json!(["https://localhost:9443/oauth2/token"]);
    let by_endpoint = token().claim("aud", endpoint).sign();
    assert_eq!(exchange(&manager, &client, &by_endpoint), "200 partner/somebody");
    for (wrong, why) in [
        (partner.token().sign(), "no audience"),
        (token().claim("aud", "https://other.example").sign(), "for another server"),
        (token().claim("iss", ISS).sign(), "of another issuer"),
        (token().claim("sub", Value::Null).sign(), "of nobody"),
        (token().claim("sub", "a\nb").sign(), "a line in a name"),
        (token().claim("exp", Value::Null).sign(), "never expires"),
        (token().expires_in_s(-1).sign(), "expired"),
        (token().expires_in_s(7_200).sign(), "valid for too long"),
        (Issuer::new("partner").token().claim("aud", ISS).sign(), "another key"),
        ("a.b.c".to_owned(), "not a JWT"),
    ] {
        assert_eq!(exchange(&manager, &client, &wrong), "400 invalid_grant", "{why}");
    }
    let other = manager.register("b", json!({}));
    assert_eq!(exchange(&manager, &other, &token().sign()), "400 unauthorized_client");
    let (code, output) = manager.command(&["user", "add", "partner/somebody"]);
    assert_eq!(code, Some(1), "{output}");
}

#[test]
fn the_keys_of_a_trusted_issuer_can_be_at_a_url() {
    let partner = Issuer::new("partner");
    let jwks = partner.jwks();
    let server = Upstream::responding(move |_| CannedResponse::ok(&jwks));
    let manager = manager(&format!("{}/jwks", server.url()), &partner);
    let client = manager.register("a", json!({ "grantType": GRANT, "tokenScope": "read" }));
    let token = || partner.token().claim("aud", ISS).sign();
    assert_eq!(exchange(&manager, &client, &token()), "200 partner/somebody");
    assert_eq!(exchange(&manager, &client, &token()), "200 partner/somebody");
    assert_eq!(server.requests().len(), 1, "they are kept");
}

#[test]
fn keys_that_a_client_does_not_wait_for_are_kept_for_the_next_one() {
    let (partner, server) = (Issuer::new("partner"), Upstream::manual());
    let manager = manager(&format!("{}/jwks", server.url()), &partner);
    let login = manager.register("a", json!({ "grantType": GRANT, "tokenScope": "read" }));
    let token = partner.token().claim("aud", ISS).sign();
    let form = format!("grant_type={GRANT}&assertion={token}&scope=read");
    let fields = basic(Some((&login.0, &login.1)));
    let mut client = manager.connect();
    client.send(format!(
        "POST /oauth2/token HTTP/1.1\r\nHost: me\r\n{fields}Content-Length: {}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\n\r\n{form}",
        form.len()
    ));
    let mut asked = server.accept();
    asked.request();
    client.reset();
    std::thread::scope(|scope| {
        let next = scope.spawn(|| exchange(&manager, &login, &token));
        asked.ok(&partner.jwks());
        assert_eq!(next.join().unwrap(), "200 partner/somebody");
    });
    assert!(server.has_no_connection(), "they were read once");
}

#[test]
fn without_any_key_of_the_issuer_the_client_is_to_try_again() {
    let partner = Issuer::new("partner");
    let manager = manager("missing.json", &partner);
    let login = manager.register("a", json!({ "grantType": GRANT }));
    let token = partner.token().claim("aud", ISS).sign();
    assert_eq!(exchange(&manager, &login, &token), "503 temporarily_unavailable");
}

#[test]
fn a_user_who_could_be_one_of_a_trusted_issuer_prevents_the_start() {
    let manager = manager("partner.json", &Issuer::new("partner"));
    for name in ["partner", "partners/ann", "other/partner/ann"] {
        manager.sql(&insert(name));
    }
    let manager = manager.restart();
    manager.sql(&insert("partner/ann"));
    let (code, output) = manager.command(&[]);
    assert_eq!(code, Some(1), "{output}");
    assert!(
        output.contains("the user `partner/ann` could be one of the trusted issuer"),
        "{output}"
    );
}

/// As a version did that accepted such names.
fn insert(user: &str) -> String {
    format!(
        "INSERT INTO users (name, password, admin, created_s) SELECT '{user}', password, admin, created_s FROM users WHERE name = 'admin'"
    )
}
