//! Internal keys, with which a publisher tries an API before it is published.

use harness::{Client, Files, Gateway, Issuer, Token, Upstream, api};
use model::Lifecycle;
use serde_json::json;

/// A key for the APIs `names`, as API Manager's publisher issues it.
fn key<'a>(issuer: &'a Issuer, names: &[&str]) -> Token<'a> {
    let listed: Vec<_> = names
        .iter()
        .map(|name| json!({"name": name, "version": "1.0", "context": format!("/{name}/1.0"), "subscriptionTier": null}))
        .collect();
    issuer.token().claim("token_type", "InternalKey").claim("subscribedAPIs", listed)
}

#[track_caller]
fn check(client: &mut Client, target: &str, fields: &str, expect: &str) {
    // The second time, it is cached.
    for _ in 0..2 {
        let found = client.fetch(target, fields).status_and_code();
        assert_eq!(found, expect, "{target} {fields}");
    }
}

#[test]
fn an_api_that_is_not_published_is_for_internal_keys_only() {
    let (upstream, publisher) = (Upstream::echo(), Issuer::new("publisher").internal_keys());
    let resident = Issuer::new("resident");
    let scoped =
        |path: &str| api(path).any_scope("GET /*", &["read"]).open("POST /*").to(&upstream);
    let gateway = Gateway::of(scoped("/a").with(|api| api.lifecycle = Lifecycle::Created))
        .api(scoped("/b"))
        .api(scoped("/c").with(|api| api.lifecycle = Lifecycle::Blocked))
        .issuer(&publisher)
        .issuer(&resident)
        .start();
    let mut client = gateway.connect();
    let all = key(&publisher, &["a", "b", "c"]);
    let sandbox = all.clone().claim("keytype", "SANDBOX");
    for (target, key, expect) in [
        // Neither scopes nor a subscription are needed.
        ("GET /a/x", all.clone(), "200"),
        ("POST /a/x", all.clone(), "200"),
        ("GET /b/x", all.clone(), "200"),
        ("GET /c/x", all.clone(), "503 700700"),
        ("GET /a/x", key(&publisher, &["b"]), "403 900908"),
        ("POST /a/x", key(&publisher, &["b"]), "403 900908"),
        ("GET /a/x", all.clone().claim("subscribedAPIs", ()), "403 900908"),
        ("GET /a/x", all.clone().expires_in_s(-1), "401 900901"),
        ("GET /a/x", all.clone().claim("token_type", "apiKey"), "401 900901"),
        ("GET /a/x", all.clone().claim("token_type", ()), "401 900901"),
        ("GET /a/x", key(&resident, &["a"]), "401 900901"),
        ("GET /a/x", key(&Issuer::new("publisher"), &["a"]), "401 900901"),
        ("GET /a/x", sandbox, "403 900901"),
    ] {
        check(&mut client, target, &format!("internal-KEY: {}\r\n", key.sign()), expect);
    }
    let field = format!("Internal-Key: {}\r\n", all.sign());
    let bearer = |token: &Token<'_>| format!("Authorization: {}\r\n", token.bearer());
    let token = resident.token().claim("scope", "read");
    for (target, fields, expect) in [
        ("GET /a/x", String::new(), "401 900902"),
        ("GET /a/x", "Internal-Key: opaque\r\n".to_owned(), "401 900901"),
        ("GET /a/x", "Internal-Key:\r\n".to_owned(), "401 900901"),
        ("GET /a/x", format!("{field}{field}"), "401 900901"),
        ("GET /a/x", bearer(&token), "403 900908"),
        ("POST /a/x", bearer(&token), "403 900908"),
        ("POST /a/x", String::new(), "403 900908"),
        // The key decides, and it is not a token.
        ("GET /b/x", format!("{field}{}", bearer(&token.clone().expires_in_s(-1))), "200"),
        ("GET /b/x", format!("Internal-Key: a.b.c\r\n{}", bearer(&token)), "401 900901"),
        ("GET /b/x", bearer(&all), "401 900901"),
        ("GET /b/x", bearer(&token), "200"),
        // An open operation needs none, not even a valid one.
        ("POST /b/x", "Internal-Key: a.b.c\r\n".to_owned(), "200"),
    ] {
        check(&mut client, target, &fields, expect);
    }
    let heads = upstream.requests();
    assert!(heads.iter().all(|request| request.header("Internal-Key").is_none()), "{heads:?}");
}

#[test]
fn without_an_issuer_of_internal_keys_the_field_has_no_effect() {
    let (upstream, issuer) = (Upstream::echo(), Issuer::new("resident"));
    let gateway = Gateway::of(api("/a").secured("GET /*").to(&upstream)).issuer(&issuer).start();
    let mut client = gateway.connect();
    let field = format!("Internal-Key: {}\r\n", key(&issuer, &["a"]).sign());
    check(&mut client, "GET /a/x", &field, "401 900902");
    let token = format!("{field}Authorization: {}\r\n", issuer.token().bearer());
    check(&mut client, "GET /a/x", &token, "200");
    assert_eq!(upstream.requests()[0].header("Internal-Key"), None);
}

#[test]
fn a_policy_believes_no_token_beside_an_internal_key() {
    let service = Upstream::fixed("{}");
    let (upstream, issuer) = (Upstream::echo(), Issuer::new("resident"));
    let description = format!(
        "openapi: 3.0.3\ninfo: {{title: a, version: '1.0'}}\nx-wso2-basePath: /a\npaths: {{/*: {{get: {{}}}}}}\n\
         x-wso2-production-endpoints: {{urls: ['{}']}}\nx-penstock-lifecycle: created\n\
         x-wso2-request-interceptor: {{serviceURL: '{}', includes: [request_headers, invocation_context]}}\n",
        upstream.url(),
        service.url()
    );
    let files = Files::new().api("a.yaml", &description).issuer("resident", &issuer);
    let gateway = files.toml("internal_keys = true\n").start();
    let key = key(&issuer, &["a"]).sign();
    let fields = format!("Internal-Key: {key}\r\nAuthorization: Bearer forged.by.anybody\r\n");
    assert_eq!(gateway.fetch("GET /a/x", &fields).status_and_code(), "200");
    let asked = String::from_utf8_lossy(&service.requests()[0].body).into_owned();
    assert!(asked.contains("authenticationContext"), "{asked}");
    assert!(!asked.contains(&key) && !asked.contains("forged"), "{asked}");
}
