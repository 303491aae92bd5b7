//! Opaque tokens, which the gateway's issuers are asked about.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use base::limits::INTROSPECTIONS_PER_CLIENT_MAX;
use harness::{
    CannedResponse, Client, Files, Gateway, Issuer, Request, Response, Upstream, api, now_s,
};

const TOKEN: &str = "2YotnFZFEjr1zCsicMWpAA";
const ACTIVE: &str = r#"{"active":true}"#;
const INACTIVE: &str = r#"{"active":false}"#;

/// An issuer's server that knows the tokens `first` and `second`.
fn server(first: impl Into<String>, second: impl Into<String>) -> Upstream {
    let known = [("first", first.into()), ("second", second.into())];
    Upstream::responding(move |request| {
        let asked = token_of(request);
        let found = known.iter().find(|(token, _)| *token == asked);
        CannedResponse::ok(found.map_or(INACTIVE, |(_, response)| response))
    })
}

/// The token that a request of the gateway's is about.
fn token_of(request: &Request) -> String {
    let form = request.text();
    let token = form.strip_prefix("token=").unwrap();
    token.strip_suffix("&token_type_hint=access_token").unwrap().to_owned()
}

fn gateway(issuers: &[&Issuer], upstream: &Upstream) -> Gateway {
    let api = api("/a").any_scope("GET /scoped", &["read"]).secured("GET /*").to(upstream);
    issuers.iter().fold(Gateway::of(api), |builder, issuer| builder.issuer(issuer)).start()
}

fn field(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn fetch(gateway: &Gateway, token: &str) -> Response {
    gateway.fetch("GET /a/x", &field(token))
}

/// The response to `token`, if `server` is the only one that is asked.
#[track_caller]
fn check(server: &Upstream, token: &str, expect: &str) {
    let upstream = Upstream::fixed("in");
    let gateway = gateway(&[&Issuer::new("resident").introspected_by(server)], &upstream);
    assert_eq!(fetch(&gateway, token).status_and_code(), expect, "{token}");
    let served = if expect == "200" { 1 } else { 0 };
    assert_eq!(upstream.requests().len(), served, "{token}");
}

#[test]
fn an_active_token_is_asked_about_once_and_cached() {
    let server = Upstream::responding(|_| CannedResponse::ok(ACTIVE));
    let upstream = Upstream::fixed("in");
    let gateway = gateway(&[&Issuer::new("resident").introspected_by(&server)], &upstream);
    for _ in 0..3 {
        assert_eq!(fetch(&gateway, "2Yot/nFZ+F~E=").status, 200);
    }
    let [asked] = server.requests().try_into().unwrap();
    assert_eq!(asked.line(), "POST /introspect?tenant=a HTTP/1.1");
    // gateway:se%2Bcret
    assert_eq!(asked.header("authorization"), Some("Basic Z2F0ZXdheTpzZSUyQmNyZXQ="));
    assert_eq!(asked.header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(asked.header("x-forwarded-for"), None, "nothing about the client");
    assert_eq!(asked.text(), "token=2Yot%2FnFZ%2BF%7EE%3D&token_type_hint=access_token");
    assert_eq!(gateway.metric("penstock_introspections_total", "outcome=\"active\""), 1);
    assert_eq!(gateway.metric("penstock_token_cache_lookups_total", "outcome=\"hit\""), 2);
    assert!(upstream.requests().iter().all(|request| request.header("authorization").is_none()));
}

#[test]
fn an_active_token_has_the_rules_of_a_jwt() {
    let (past, future) = (now_s() - 10, now_s() + 1_000);
    let upstream = Upstream::fixed("in");
    for (members, expect) in [
        (format!(r#""sub":"a","exp":{future},"nbf":{past},"aud":"shop""#), "200"),
        (r#""aud":["other","shop"],"username":"bob","token_type":"Bearer""#.to_owned(), "200"),
        (format!(r#""aud":"shop","exp":{past}"#), "401 900901"),
        (format!(r#""aud":"shop","nbf":{future}"#), "401 900901"),
        (r#""aud":"bank""#.to_owned(), "403 900914"),
        (r#""scope":"read""#.to_owned(), "403 900914"),
        (r#""aud":"shop","iss":"https://resident.example/token""#.to_owned(), "200"),
        (r#""aud":"shop","iss":"https://other.example/token""#.to_owned(), "401 900901"),
        (r#""aud":"shop","token_type":"DPoP""#.to_owned(), "401 900901"),
    ] {
        let server = server(format!("{{\"active\":true,{members}}}"), ACTIVE);
        let issuer = Issuer::new("resident").audiences(&["shop"]).introspected_by(&server);
        let gateway = gateway(&[&issuer], &upstream);
        assert_eq!(fetch(&gateway, "first").status_and_code(), expect, "{members}");
    }
}

#[test]
fn scopes_and_key_type_are_those_of_the_response() {
    let server = server(
        r#"{"active":true,"scope":"write read"}"#,
        r#"{"active":true,"scope":"write","keytype":"SANDBOX"}"#,
    );
    let (production, sandbox) = (Upstream::fixed("production"), Upstream::fixed("sandbox"));
    let api = api("/a").any_scope("GET /scoped", &["read"]).secured("GET /*");
    let gateway = Gateway::of(api.to(&production).sandbox(&sandbox))
        .issuer(&Issuer::new("resident").introspected_by(&server))
        .start();
    for (token, expect) in [("first", "200"), ("second", "403 900910")] {
        for _ in 0..2 {
            let response = gateway.fetch("GET /a/scoped", &field(token));
            assert_eq!(response.status_and_code(), expect, "{token}");
        }
    }
    assert_eq!(fetch(&gateway, "first").text(), "production");
    assert_eq!(fetch(&gateway, "second").text(), "sandbox");
}

#[test]
fn a_token_that_is_not_active_is_rejected_without_asking_again() {
    let (server, upstream) = (server(INACTIVE, ACTIVE), Upstream::fixed("in"));
    let gateway = gateway(&[&Issuer::new("resident").introspected_by(&server)], &upstream);
    for _ in 0..3 {
        assert_eq!(fetch(&gateway, "first").status_and_code(), "401 900901");
    }
    assert_eq!(server.requests().len(), 1);
    let labels = "reason=\"inactive_token\"";
    assert_eq!(gateway.metric("penstock_auth_failures_total", labels), 3);
    assert_eq!(fetch(&gateway, "second").status, 200, "others are not affected");
}

#[test]
fn what_is_no_token_is_not_asked_about() {
    let server = server(ACTIVE, ACTIVE);
    for token in ["fir st", "first,second", "first\"", "=", "first=x", "f\u{e9}", "a{}"] {
        check(&server, token, "401 900901");
    }
    assert_eq!(server.requests(), []);
}

#[test]
fn a_jwt_is_verified_and_never_asked_about() {
    let (server, upstream) = (server(ACTIVE, ACTIVE), Upstream::fixed("in"));
    let issuer = Issuer::new("resident").introspected_by(&server);
    let gateway = gateway(&[&issuer], &upstream);
    let valid = issuer.token().sign();
    let (head, rest) = valid.split_once('.').unwrap();
    let (payload, signature) = rest.split_once('.').unwrap();
    assert_eq!(fetch(&gateway, &valid).status, 200);
    for token in [
        Issuer::new("resident").token().sign(),
        format!("eyJhbGciOiJub25lIn0.{payload}."),
        format!("first.{payload}.{signature}"),
        format!("{head}..{signature}"),
        "first..".to_owned(),
    ] {
        assert_eq!(fetch(&gateway, &token).status_and_code(), "401 900901", "{token}");
    }
    assert_eq!(server.requests(), []);
    // With another number of dots it is none.
    assert_eq!(fetch(&gateway, &format!("{head}.{payload}")).status_and_code(), "401 900901");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_response_that_says_nothing_about_the_token_is_503_and_not_cached() {
    let large = format!("{{\"active\":true,\"x\":\"{}\"}}", "y".repeat(64 * 1_024));
    let status = |line: &str| format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n");
    for response in [
        CannedResponse::bytes(status("500 Oops")),
        CannedResponse::bytes(status("401 Unauthorized")),
        CannedResponse::bytes(status("302 Found\r\nLocation: /login")),
        CannedResponse::bytes(status("204 No Content")),
        CannedResponse::bytes("").then_close(),
        CannedResponse::bytes("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}").then_close(),
        CannedResponse::ok(""),
        CannedResponse::ok("<html>"),
        CannedResponse::ok("{}"),
        CannedResponse::ok(r#"{"active":"true"}"#),
        CannedResponse::ok(r#"{"active":false,"active":true}"#),
        CannedResponse::ok(&large),
    ] {
        let answer = response.clone();
        let server = Upstream::responding(move |_| answer.clone());
        let gateway =
            gateway(&[&Issuer::new("resident").introspected_by(&server)], &Upstream::fixed("in"));
        let refused = fetch(&gateway, TOKEN);
        assert_eq!(refused.status_and_code(), "503 503003", "{response:?}");
        assert!(!refused.text().contains(TOKEN) && !refused.text().contains("example"));
        let before = server.requests().len();
        assert_eq!(fetch(&gateway, TOKEN).status, 503);
        assert!(server.requests().len() > before, "asked again: {response:?}");
    }
    check(&Upstream::refusing(), TOKEN, "503 503003");
}

#[test]
fn cached_tokens_work_while_their_issuer_is_down() {
    let is_down = Arc::new(AtomicBool::new(false));
    let down = Arc::clone(&is_down);
    let server = Upstream::responding(move |_| {
        if down.load(Ordering::Relaxed) {
            CannedResponse::bytes("").then_close()
        } else {
            CannedResponse::ok(ACTIVE)
        }
    });
    let upstream = Upstream::fixed("in");
    let gateway = gateway(&[&Issuer::new("resident").introspected_by(&server)], &upstream);
    assert_eq!(fetch(&gateway, "known").status, 200);
    is_down.store(true, Ordering::Relaxed);
    assert_eq!(fetch(&gateway, "new").status_and_code(), "503 503003");
    assert_eq!(fetch(&gateway, "known").status, 200);
    is_down.store(false, Ordering::Relaxed);
    assert_eq!(fetch(&gateway, "new").status, 200);
}

#[test]
fn issuers_are_asked_in_their_order_until_one_calls_the_token_active() {
    let (one, two) = (server(ACTIVE, INACTIVE), server(ACTIVE, ACTIVE));
    let down = Upstream::refusing();
    let keys_only = Issuer::new("keys");
    let ask = |servers: &[&Upstream], token: &str| {
        let issuers: Vec<_> = servers
            .iter()
            .enumerate()
            .map(|(number, server)| Issuer::new(&format!("i{number}")).introspected_by(server))
            .collect();
        let all: Vec<_> = [&keys_only].into_iter().chain(&issuers).collect();
        fetch(&gateway(&all, &Upstream::fixed("in")), token).status_and_code()
    };
    assert_eq!(ask(&[&one, &two], "first"), "200");
    assert_eq!(two.requests(), [], "the first one has said it");
    assert_eq!(ask(&[&one, &two], "second"), "200");
    assert_eq!(ask(&[&one, &two], "third"), "401 900901");
    assert_eq!(ask(&[&down, &two], "second"), "200");
    assert_eq!(ask(&[&down, &two], "third"), "503 503003");
    assert_eq!(ask(&[&one, &down], "first"), "200");
    assert_eq!(ask(&[&one, &down], "second"), "503 503003");
}

/// Connections that have sent a request with `token`, each of which waits for the issuer.
fn waiting(gateway: &Gateway, tokens: &[String]) -> Vec<Client> {
    let before = gateway.metric("penstock_token_cache_lookups_total", "outcome=\"miss\"");
    let clients: Vec<_> = tokens
        .iter()
        .map(|token| {
            let mut client = gateway.connect();
            client.send(format!("GET /a/x HTTP/1.1\r\nHost: me\r\n{}\r\n", field(token)));
            client
        })
        .collect();
    let sent = before + tokens.len() as u64;
    gateway.wait_for_metric("penstock_token_cache_lookups_total", "outcome=\"miss\"", sent);
    clients
}

#[test]
fn requests_with_the_same_token_wait_for_one_response() {
    let server = Upstream::manual();
    let upstream = Upstream::fixed("in");
    let gateway = gateway(&[&Issuer::new("resident").introspected_by(&server)], &upstream);
    let mut clients = waiting(&gateway, &vec![TOKEN.to_owned(); 40]);
    let mut asked = server.accept();
    assert_eq!(token_of(&asked.request()), TOKEN);
    assert!(server.has_no_connection(), "asked once");
    asked.ok(ACTIVE);
    for client in &mut clients {
        assert_eq!(client.read().status, 200);
    }
    assert_eq!(fetch(&gateway, TOKEN).status, 200);
    assert!(server.has_no_connection());
}

#[test]
fn issuers_that_do_not_respond_share_one_deadline() {
    let (silent, active, upstream) =
        (Upstream::manual(), server(ACTIVE, ACTIVE), Upstream::fixed("in"));
    let issuer = |name: &str, server: &Upstream| Issuer::new(name).introspected_by(server);
    let issuers = [issuer("one", &silent), issuer("two", &silent), issuer("three", &active)];
    let gateway = gateway(&issuers.each_ref(), &upstream);
    assert_eq!(fetch(&gateway, "first").status_and_code(), "503 503003");
    assert_eq!(gateway.metric("penstock_introspections_total", "outcome=\"failed\""), 2);
    assert_eq!(active.requests(), [], "the client has waited long enough");
}

#[test]
fn a_response_is_cached_even_if_the_client_has_left() {
    let server = Upstream::manual();
    let upstream = Upstream::fixed("in");
    let gateway = gateway(&[&Issuer::new("resident").introspected_by(&server)], &upstream);
    waiting(&gateway, &[TOKEN.to_owned()]).into_iter().for_each(Client::reset);
    let mut asked = server.accept();
    asked.request();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
    asked.ok(ACTIVE);
    assert_eq!(fetch(&gateway, TOKEN).status, 200);
    assert!(server.has_no_connection());
}

#[test]
fn a_client_with_a_flood_of_tokens_leaves_the_issuer_to_others() {
    let server = Upstream::manual();
    let upstream = Upstream::fixed("in");
    let gateway = gateway(&[&Issuer::new("resident").introspected_by(&server)], &upstream);
    let most = INTROSPECTIONS_PER_CLIENT_MAX;
    let tokens: Vec<_> = (0..4 * most).map(|number| format!("unknown-{number}")).collect();
    let _flood = waiting(&gateway, &tokens);
    let mut asked: Vec<_> = (0..most).map(|_| server.accept()).collect();
    asked.iter_mut().for_each(|connection| drop(connection.request()));
    assert!(server.has_no_connection(), "no more than {most} at a time");
    let mut other = Client::connect_from([127, 0, 0, 2].into(), gateway.http());
    other.send(format!("GET /a/x HTTP/1.1\r\nHost: me\r\n{}\r\n", field(TOKEN)));
    let mut connection = server.accept();
    assert_eq!(token_of(&connection.request()), TOKEN);
    connection.ok(ACTIVE);
    assert_eq!(other.read().status, 200);
}

#[test]
fn an_issuer_is_found_by_its_discovery_document() {
    let issuer = Issuer::new("resident");
    let origin = Arc::new(OnceLock::new());
    let (keys, own) = (issuer.jwks(), Arc::clone(&origin));
    let server = Upstream::responding(move |request| {
        let origin: &String = own.get().unwrap();
        match request.target() {
            "/realms/a/.well-known/openid-configuration" => CannedResponse::ok(&format!(
                r#"{{"issuer":"{origin}/realms/a","jwks_uri":"{origin}/keys"}}"#
            )),
            // The document of another issuer.
            "/.well-known/oauth-authorization-server/b" => CannedResponse::ok(&format!(
                r#"{{"issuer":"{origin}/realms/a","jwks_uri":"{origin}/keys"}}"#
            )),
            "/keys" => CannedResponse::ok(&keys),
            _ => CannedResponse::bytes("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
        }
    });
    let origin = origin.get_or_init(|| server.url());
    let upstream = Upstream::fixed("in");
    let description = format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n\
         x-wso2-production-endpoints: {{urls: ['{}']}}\n\
         paths:\n  /*:\n    get: {{responses: {{'200': {{description: ok}}}}}}\n",
        upstream.url()
    );
    let issuers = format!(
        "[[issuer]]\nissuer = \"{origin}/realms/a\"\n[[issuer]]\nissuer = \"{origin}/b\"\n"
    );
    let gateway = Files::new().api("a.yaml", &description).toml(&issuers).start();
    let of = |iss: &str| issuer.token().claim("iss", format!("{origin}{iss}")).sign();
    assert_eq!(fetch(&gateway, &of("/realms/a")).status, 200);
    assert_eq!(fetch(&gateway, &of("/realms/a/")).status_and_code(), "401 900901");
    assert_eq!(fetch(&gateway, &of("/b")).status_and_code(), "401 900901");
}
