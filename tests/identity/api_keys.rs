//! API keys from `/oauth2/apikey`, also by way of a gateway, and their use.

use std::time::Instant;

use harness::{Client, Files, PATIENCE, Process, Response, Upstream};
use jose::{Compact, Padding};
use serde_json::{Value, json};

use crate::key_manager::{ISS, KeyManager, Login, PASSWORD, basic, control, error};

const KEYS: &str = "[control.api_keys]\nvalidity_s = 600\n[[control.api_keys.api]]\nname = \"A\"\n\
    versions = [\"1\"]\n";
const ADMIN: Login<'_> = ("admin", PASSWORD);

fn ask(manager: &KeyManager, login: Login<'_>, body: &str) -> Response {
    let fields = format!("Content-Type: application/json\r\n{}", basic(Some(login)));
    manager.connect().fetch_with_body("GET /oauth2/apikey", &fields, body)
}

#[track_caller]
fn lifetime_s(key: &str) -> u64 {
    let token = Compact::parse(key.as_bytes(), Padding::Rejected).unwrap();
    let claims: Value = serde_json::from_slice(token.payload()).unwrap();
    claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap()
}

#[test]
fn a_key_is_valid_for_as_long_as_was_asked_for_and_allowed() {
    let manager = KeyManager::of(Files::new().toml(&(control() + KEYS)));
    for (body, expect_s) in [
        ("", 600),
        ("{\"validityTime\":60}", 60),
        ("{\"validityTime\":601}", 600),
        ("{\"validityTime\":-1}", 600),
    ] {
        let response = ask(&manager, ADMIN, body);
        assert_eq!(response.status, 200, "{body}: {}", response.text());
        assert_eq!(lifetime_s(&response.text()), expect_s, "{body}");
    }
    assert_eq!(error(&ask(&manager, ADMIN, "{")), "400 invalid_request");
    assert_eq!(error(&ask(&manager, ("admin", "wrong"), "")), "401 access_denied");
    assert_eq!(error(&manager.get("/oauth2/apikey")), "401 access_denied");
    let issued = || manager.sql("SELECT COUNT(*) FROM tokens");
    let before = issued();
    let head = manager.connect().fetch("HEAD /oauth2/apikey", &basic(Some(ADMIN)));
    assert_eq!((head.status, head.header("allow")), (405, Some("GET, POST")));
    assert_eq!(issued(), before);
    let without = KeyManager::of(Files::new().toml(&control()));
    assert_eq!(error(&ask(&without, ADMIN, "")), "404 not_found");
}

#[test]
fn a_user_has_a_hundred_valid_keys_at_most() {
    let manager = KeyManager::of(Files::new().toml(&(control() + KEYS)));
    assert_eq!(ask(&manager, ADMIN, "").status, 200);
    let now_s = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    for (hash, expires_s) in [("valid", now_s + 600), ("expired", now_s - 1)] {
        let columns = "kind, family, client, subject, scope, issued_s, spent";
        manager.sql(&format!(
            "INSERT INTO tokens (hash, expires_s, {columns}) SELECT '{hash}', {expires_s}, {columns} \
             FROM tokens LIMIT 1"
        ));
    }
    for _ in 2..100 {
        assert_eq!(ask(&manager, ADMIN, "").status, 200);
    }
    assert_eq!(error(&ask(&manager, ADMIN, "")), "403 access_denied");
}

#[test]
fn a_key_is_revoked_by_its_user_alone() {
    let manager = KeyManager::of(Files::new().toml(&(control() + KEYS)));
    manager.files.write("ann", PASSWORD);
    assert_eq!(manager.command(&["user", "add", "ann", "--password-file", "ann"]).0, Some(0));
    let (id, secret) = manager.register("app", json!({}));
    let form = format!("token={}", ask(&manager, ADMIN, "").text());
    let revoked = |login| {
        let status = manager.post("/oauth2/revoke", login, &form).status;
        (status, manager.sql("SELECT COUNT(*) FROM revocations").trim() == "1")
    };
    assert_eq!(revoked(None), (401, false));
    assert_eq!(revoked(Some(("admin", "wrong"))), (401, false));
    assert_eq!(revoked(Some(("ann", PASSWORD))), (200, false));
    assert_eq!(revoked(Some((&id, &secret))), (200, false));
    assert_eq!(revoked(Some(ADMIN)), (200, true));
    assert_eq!(manager.sql("SELECT COUNT(*) FROM tokens").trim(), "0");
}

#[test]
fn a_key_from_the_gateways_port_calls_its_apis_until_the_user_is_removed() {
    let manager = KeyManager::of(Files::new().toml(&(control() + KEYS)));
    manager.files.write("ann", "correct horse battery");
    assert_eq!(manager.command(&["user", "add", "ann", "--password-file", "ann"]).0, Some(0));
    let (id, secret) = manager.register("gateway", json!({}));
    let upstream = Upstream::fixed("from the upstream");
    let origin = format!("https://{}", manager.process.address("https"));
    let api = |name: &str| {
        format!(
            "openapi: 3.0.3\ninfo: {{title: {name}, version: '1'}}\nx-wso2-basePath: /{name}\n\
             x-wso2-production-endpoints: {{urls: ['{}']}}\n\
             x-wso2-application-security: {{security-types: [oauth2, api_key]}}\n\
             paths: {{/*: {{get: {{}}}}}}\n",
            upstream.url()
        )
    };
    let urls = include_str!("../../examples/token-urls.yaml");
    let urls = urls.replace("https://localhost:9443", &origin);
    let toml = format!(
        "[[issuer]]\nname = \"resident\"\niss = \"{ISS}\"\njwks = \"{origin}/oauth2/jwks\"\n\
         revocations = {{ url = \"{origin}/oauth2/revocations\", client_id = \"{id}\", \
         client_secret = {{ file = \"secret\" }} }}\n\
         [upstream_tls]\nca = [\"{}\"]\nsystem_roots = false\n",
        manager.files.path("tls.crt").display()
    );
    let files = Files::new().api("a.yaml", &api("A")).api("b.yaml", &api("B"));
    let files = files.api("urls.yaml", &urls).toml(&toml);
    files.write("secret", &secret);
    let process = Process::gateway(&files);
    let mut client = Client::connect(process.address("http"));
    let asked = format!("Content-Type: application/json\r\n{}", basic(Some(("ann", PASSWORD))));
    let issued = client.fetch_with_body("GET /apikey", &asked, "{\"validityTime\":60}");
    assert_eq!(issued.status, 200, "{}", issued.text());
    let key = issued.text();
    assert_eq!(lifetime_s(&key), 60);
    let field = format!("apikey: {key}\r\n");
    assert_eq!(client.fetch("GET /A/x", &field).text(), "from the upstream");
    assert_eq!(client.fetch("GET /B/x", &field).status_and_code(), "403 900908");
    let bearer = format!("Authorization: Bearer {key}\r\n");
    assert_eq!(client.fetch("GET /A/x", &bearer).status_and_code(), "401 900901");
    let form = format!("token={key}");
    let found = manager.post("/oauth2/introspect", Some((&id, &secret)), &form);
    assert_eq!(found.text(), "{\"active\":false}", "a key is no token");
    assert_eq!(manager.command(&["user", "remove", "ann"]).0, Some(0));
    let begun = Instant::now();
    while client.fetch("GET /A/x", &field).status_and_code() != "401 900901" {
        assert!(begun.elapsed() < PATIENCE, "it is still accepted");
    }
}
