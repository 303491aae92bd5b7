//! APIs that are not published, and deny policies.

use std::fs;

use harness::{Files, Gateway, Issuer, Upstream, api};
use model::Lifecycle;

#[test]
fn an_api_is_served_by_its_state() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let in_state = |path: &str, lifecycle| {
        let api = api(path).secured("GET /*").open("POST /*").to(&upstream);
        api.with(|api| api.lifecycle = lifecycle)
    };
    let gateway = Gateway::of(in_state("/created", Lifecycle::Created))
        .api(in_state("/published", Lifecycle::Published))
        .api(in_state("/blocked", Lifecycle::Blocked))
        .api(in_state("/deprecated", Lifecycle::Deprecated))
        .api(in_state("/retired", Lifecycle::Retired))
        .issuer(&issuer)
        .start();
    let token = format!("Authorization: {}\r\n", issuer.token().bearer());
    for (api, expect) in [
        ("created", "403 900908"),
        ("published", "200"),
        ("blocked", "503 700700"),
        ("deprecated", "200"),
        ("retired", "404 404"),
    ] {
        for request in [format!("GET /{api}/x"), format!("POST /{api}/x")] {
            assert_eq!(gateway.fetch(&request, &token).status_and_code(), expect, "{request}");
        }
    }
    let blocked = gateway.fetch("GET /blocked/x", &token).text();
    let expect = r#"{"code":"700700","type":"API blocked","description":"This API has been blocked temporarily. Please try again later or contact the system administrators."}"#;
    assert_eq!(blocked, expect);
    let none = gateway.fetch("GET /none/x", "").text();
    assert_eq!(gateway.fetch("GET /retired/x", "").text(), none);
}

/// Two APIs, of which one is open, and an application.
fn files(upstream: &Upstream, issuer: &Issuer, state: &str) -> Files {
    let description = |name: &str, more: &str| {
        format!(
            "openapi: 3.0.3\ninfo: {{title: {name}, version: '1'}}\nx-wso2-basePath: /{name}\n{more}\n\
             x-wso2-production-endpoints: {{urls: ['{}']}}\npaths: {{/*: {{get: {{}}}}}}\n",
            upstream.url()
        )
    };
    let files = Files::new()
        .api("a.yaml", &description("a", state))
        .api("b.yaml", &description("b", "security: []"))
        .issuer("resident", issuer);
    fs::create_dir(files.path("applications")).unwrap();
    files.write(
        "applications/orders.toml",
        "[application]\nname = \"orders\"\nkeys = [{ client_id = \"orders\" }]\n\
         subscriptions = [{ api = \"a\", version = \"1\" }]\n",
    );
    files.write("plans.toml", "");
    files.gateway("applications = [\"applications/\"]\n")
}

#[test]
fn deny_policies_block_apis_applications_users_and_addresses() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let files = files(&upstream, &issuer, "");
    let gateway = files.start();
    let ann = issuer.token().claim("client_id", "orders").claim("sub", "ann");
    let ann = format!("Authorization: {}\r\n", ann.bearer());
    let codes = || {
        let (a, b) = (gateway.fetch("GET /a/x", &ann), gateway.fetch("GET /b/x", ""));
        format!("{}, {}", a.status_and_code(), b.status_and_code())
    };
    assert_eq!(codes(), "200, 200");
    for (policies, expect) in [
        ("[[deny]]\napi = \"/a\"\n", "403 900805, 200"),
        ("[[deny]]\napi = \"/b/\"\n", "200, 403 900805"),
        ("[[deny]]\napplication = \"orders\"\n", "403 900805, 200"),
        ("", "200, 200"),
        ("[[deny]]\nuser = \"bob\"\n[[deny]]\nuser = \"ann\"\n", "403 900805, 200"),
        ("", "200, 200"),
        ("[[deny]]\naddresses = [\"192.0.2.1\", \"127.0.0.0/8\"]\n", "403 900805, 403 900805"),
        ("[[deny]]\naddresses = [\"127.0.0.0/8\"]\ninverted = true\n", "200, 200"),
        ("[[deny]]\naddresses = [\"192.0.2.0/24\"]\ninverted = true\n", "403 900805, 403 900805"),
    ] {
        files.write("plans.toml", policies);
        while codes() != expect {
            std::thread::yield_now();
        }
    }
    let blocked = gateway.fetch("GET /a/x", &ann).text();
    let expect = r#"{"code":"900805","message":"Message blocked","description":"You have been blocked from accessing the resource"}"#;
    assert_eq!(blocked, expect);
    // Without a valid credential, a client does not learn of it.
    assert_eq!(gateway.fetch("GET /a/x", "").status_and_code(), "401 900902");
}

#[test]
fn an_api_is_blocked_and_published_again_without_a_restart() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let files = files(&upstream, &issuer, "x-penstock-lifecycle: published");
    let gateway = files.start();
    let token = issuer.token().claim("client_id", "orders").bearer();
    let field = format!("Authorization: {token}\r\n");
    let fetch = || gateway.fetch("GET /a/x", &field).status_and_code();
    assert_eq!(fetch(), "200");
    let published = fs::read_to_string(files.path("apis/a.yaml")).unwrap();
    for (state, expect) in
        [("blocked", "503 700700"), ("deprecated", "200"), ("retired", "404 404")]
    {
        files.write(
            "apis/a.yaml",
            &published.replace("lifecycle: published", &format!("lifecycle: {state}")),
        );
        while fetch() != expect {
            std::thread::yield_now();
        }
    }
}
