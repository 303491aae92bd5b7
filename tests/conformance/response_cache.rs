//! The response cache: responses that are served without asking the upstream again, and those that never are.

use std::sync::atomic::{AtomicUsize, Ordering};

use harness::{CannedResponse, Files, Gateway, Issuer, Request, Upstream};

fn gateway(upstream: &Upstream, more: &str) -> Gateway {
    let text = format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n{more}\
         x-wso2-response-cache: {{enabled: true, cacheTimeoutInSeconds: 60}}\n\
         x-wso2-production-endpoints: {{urls: ['{}']}}\n\
         paths:\n  /*: {{get: &it {{}}, head: *it, post: *it, put: *it}}\n",
        upstream.url()
    );
    Files::new().api("a.yaml", &text).start()
}

const OPEN: &str = "security: []\n";

/// An upstream that numbers its responses, which have these fields.
fn numbering(fields: &'static str) -> Upstream {
    let count = AtomicUsize::new(0);
    Upstream::responding(move |request: &Request| {
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        if request.header("if-none-match") == Some("\"e\"") {
            return CannedResponse::bytes(format!(
                "HTTP/1.1 304 Not Modified\r\nX-Number: {number}\r\n{fields}\r\n"
            ));
        }
        CannedResponse::bytes(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n{fields}\r\n{number}"
        ))
    })
}

/// The bodies of the responses to two requests.
#[track_caller]
fn check(fields: &'static str, first: &str, second: &str, expect: [&str; 2]) {
    let upstream = numbering(fields);
    let gateway = gateway(&upstream, OPEN);
    let mut client = gateway.connect();
    let texts = [first, second].map(|fields| client.fetch("GET /a/x", fields).text());
    assert_eq!(texts, expect, "{fields}{first}{second}");
}

#[test]
fn an_operation_may_have_a_cache_of_its_own() {
    let upstream = numbering("");
    let text = |policies: &str| {
        format!(
            "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\nsecurity: []\n\
             x-wso2-production-endpoints: {{urls: ['{}']}}\npaths:\n  /x:\n    get: {{x-penstock-policies: {{{policies}}}}}\n    \
             put: {{}}\n  /y: {{get: {{}}}}\n",
            upstream.url()
        )
    };
    let cached = "response: [{name: responseCache, parameters: {cacheTimeoutInSeconds: 60}}]";
    let gateway = Files::new().api("a.yaml", &text(cached)).start();
    let mut client = gateway.connect();
    let mut get = |line: &str| client.fetch(line, "").text();
    assert_eq!([get("GET /a/x"), get("GET /a/x")], ["1", "1"]);
    assert_eq!([get("GET /a/y"), get("GET /a/y")], ["2", "3"], "another operation has none");
    assert_eq!(get("PUT /a/x"), "4");
    assert_eq!(get("GET /a/x"), "5", "an unsafe request invalidates");
}

#[test]
fn a_response_is_stored_unless_the_upstream_or_the_client_says_otherwise() {
    check("", "", "", ["1", "1"]);
    check("Cache-Control: max-age=60\r\n", "", "", ["1", "1"]);
    for never in ["no-store", "no-cache", "private", "max-age=0"] {
        let fields = format!("Cache-Control: {never}\r\n").leak();
        check(fields, "", "", ["1", "2"]);
    }
    check("Set-Cookie: a=b\r\n", "", "", ["1", "2"]);
    check("", "Cache-Control: no-store\r\n", "", ["1", "2"]);
    check("", "", "Cache-Control: no-cache\r\n", ["1", "2"]);
    check("", "", "Range: bytes=0-\r\n", ["1", "2"]);
}

#[test]
fn responses_that_vary_are_found_by_the_fields_that_they_name() {
    let vary = "Vary: Accept, accept-language\r\n";
    check(vary, "Accept: a\r\n", "Accept: a\r\nX-Other: 1\r\n", ["1", "1"]);
    check(vary, "Accept: a\r\n", "Accept: b\r\n", ["1", "2"]);
    check(vary, "Accept: a\r\n", "", ["1", "2"]);
    check("Vary: *\r\n", "", "", ["1", "2"]);
}

#[test]
fn a_stored_response_has_its_fields_and_its_age() {
    let upstream = numbering("X-Kept: yes\r\nAge: 7\r\nConnection: X-Hop\r\nX-Hop: 1\r\n");
    let gateway = gateway(&upstream, OPEN);
    let first = gateway.fetch("GET /a/x?b=1", "");
    let second = gateway.fetch("GET /a/x?b=1", "");
    let fields = ["x-kept", "content-length", "x-hop"].map(|name| second.header(name));
    assert_eq!(fields, [Some("yes"), Some("1"), None]);
    assert_eq!(second.header("date"), first.header("date"));
    let age: u32 = second.header("age").unwrap().parse().unwrap();
    assert!(age >= 7, "{age}");
    assert_eq!(gateway.fetch("GET /a/x?b=2", "").text(), "2", "another target");
    assert_eq!(gateway.fetch("HEAD /a/x?b=1", "").status, 200);
    assert_eq!(upstream.requests().len(), 3);
}

#[test]
fn a_client_that_has_the_response_gets_304() {
    let upstream = numbering("ETag: \"e\"\r\n");
    let gateway = gateway(&upstream, OPEN);
    assert_eq!(gateway.fetch("GET /a/x", "").status, 200);
    let response = gateway.fetch("GET /a/x", "If-None-Match: \"d\", W/\"e\"\r\n");
    assert_eq!((response.status, response.header("etag")), (304, Some("\"e\"")));
    assert_eq!(gateway.fetch("GET /a/x", "If-None-Match: \"d\"\r\n").status, 200);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_stored_response_that_the_client_does_not_trust_is_validated() {
    let upstream = numbering("ETag: \"e\"\r\nCache-Control: max-age=60\r\n");
    let gateway = gateway(&upstream, OPEN);
    assert_eq!(gateway.fetch("GET /a/x", "").text(), "1");
    let validated = gateway.fetch("GET /a/x", "Cache-Control: no-cache\r\n");
    assert_eq!((validated.status, validated.text()), (200, "1".to_owned()));
    assert_eq!(validated.header("x-number"), Some("2"), "fields of the 304 replace the old ones");
    assert_eq!(validated.all("etag"), "\"e\"");
    assert_eq!(gateway.fetch("GET /a/x", "").header("x-number"), Some("2"));
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn an_unsafe_request_removes_what_is_stored() {
    let upstream = numbering("");
    let gateway = gateway(&upstream, OPEN);
    let texts = ["GET", "PUT", "GET", "GET"]
        .map(|method| gateway.fetch(&format!("{method} /a/x"), "Content-Length: 0\r\n").text());
    assert_eq!(texts, ["1", "2", "3", "3"]);
}

#[test]
fn a_token_is_verified_before_a_stored_response_is_served() {
    let (upstream, issuer) = (numbering(""), Issuer::new("resident"));
    let text = format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n\
         x-wso2-response-cache: {{enabled: true}}\n\
         x-wso2-production-endpoints: {{urls: ['{}']}}\npaths: {{/*: {{get: {{}}}}}}\n",
        upstream.url()
    );
    let with = |more: &str| {
        let files = Files::new().api("a.yaml", &format!("{text}{more}"));
        let files = files.issuer("resident", &issuer);
        files.start()
    };
    let token = format!("Authorization: {}\r\n", issuer.token().bearer());
    let plain = with("");
    assert_eq!(plain.fetch("GET /a/x", &token).text(), "1");
    assert_eq!(plain.fetch("GET /a/x", "").status_and_code(), "401 900902");
    assert_eq!(plain.fetch("GET /a/x", &token).text(), "1");
    // An upstream that gets the token may respond to one user alone.
    let forwarding = with("x-penstock-forward-auth-header: true\n");
    let texts = [(); 2].map(|()| forwarding.fetch("GET /a/x", &token).text());
    assert_eq!(texts, ["2", "3"]);
}

#[test]
fn a_body_long_enough_to_be_spliced_is_stored_whole() {
    let long: String = (0..60_000).map(|number| format!("{number},")).collect();
    let (body, count) = (long.clone(), AtomicUsize::new(0));
    let upstream = Upstream::responding(move |_: &Request| {
        let asked = count.fetch_add(1, Ordering::Relaxed);
        let body = if asked == 0 { body.as_str() } else { "asked again" };
        CannedResponse::bytes(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    });
    let gateway = gateway(&upstream, OPEN);
    let mut client = gateway.connect();
    for _ in 0..2 {
        assert!(client.fetch("GET /a/x", "").text() == long);
    }
}

#[test]
fn a_response_that_ends_early_or_is_too_long_is_not_stored() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream, OPEN);
    let mut client = gateway.connect();
    client.send("GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n");
    let mut connection = upstream.accept();
    connection.request();
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    assert_eq!((client.read_head().status, client.read_exactly(4)), (200, b"half".to_vec()));
    connection.close();
    assert_eq!(client.read_until_close(), "");
    let long = "x".repeat(1024 * 1024 + 1);
    for _ in 0..2 {
        let mut client = gateway.connect();
        client.send("GET /a/x HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n");
        let mut connection = upstream.accept();
        connection.request();
        connection.send(format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{long}",
            long.len()
        ));
        assert_eq!(client.read().body.len(), long.len());
    }
}

#[test]
fn an_edited_api_serves_nothing_that_was_stored_before() {
    let upstream = numbering("");
    let text = |more: &str| {
        format!(
            "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n{OPEN}{more}\
             x-wso2-response-cache: {{enabled: true}}\n\
             x-wso2-production-endpoints: {{urls: ['{}']}}\npaths: {{/*: {{get: {{}}}}}}\n",
            upstream.url()
        )
    };
    let files = Files::new().api("a.yaml", &text(""));
    let gateway = files.start();
    let texts = [(); 2].map(|()| gateway.fetch("GET /a/x", "").text());
    assert_eq!(texts, ["1", "1"]);
    files.write("apis/a.yaml", &text("x-penstock-strict-paths: true\n"));
    while gateway.fetch("GET /a/x", "").text() == "1" {
        std::thread::yield_now();
    }
}

#[test]
fn a_response_for_one_client_is_not_stored() {
    for personal in [
        "Cookie: session=1\r\n",
        "apikey: k\r\n",
        "Remote-User: me\r\n",
        "X-JWT-Assertion: e30.e30.e30\r\n",
    ] {
        check("", personal, personal, ["1", "2"]);
        check("", "", personal, ["1", "2"]);
        check("Cache-Control: public\r\n", "", personal, ["1", "1"]);
        check("Cache-Control: public\r\n", personal, personal, ["1", "1"]);
    }
}

#[test]
fn a_stored_response_has_the_cors_fields_of_the_gateway_alone() {
    let upstream = numbering("Access-Control-Allow-Origin: *\r\n");
    let cors = "x-wso2-cors: {access-control-allow-origins: ['https://a.example']}\n";
    let gateway = gateway(&upstream, &format!("{OPEN}{cors}"));
    let allowed = |origin: &str| {
        let response = gateway.fetch("GET /a/x", &format!("Origin: {origin}\r\n"));
        (response.text(), response.all("access-control-allow-origin"))
    };
    for _ in 0..2 {
        assert_eq!(allowed("https://b.example"), ("1".to_owned(), String::new()));
        assert_eq!(allowed("https://a.example").1, "https://a.example");
    }
}

#[test]
fn a_304_does_not_say_that_the_response_is_empty() {
    let upstream = numbering("ETag: \"e\"\r\n");
    let gateway = gateway(&upstream, OPEN);
    assert_eq!(gateway.fetch("GET /a/x", "").status, 200);
    let response = gateway.fetch("GET /a/x", "If-None-Match: \"e\"\r\n");
    assert_eq!((response.status, response.header("content-length")), (304, None));
}

#[test]
fn the_most_recent_of_several_responses_is_served() {
    let count = AtomicUsize::new(0);
    let upstream = Upstream::responding(move |_| {
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        let vary = if number > 1 { "Vary: Accept\r\n" } else { "" };
        CannedResponse::bytes(format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n{vary}\r\n{number}"))
    });
    let gateway = gateway(&upstream, OPEN);
    let texts =
        ["", "Cache-Control: no-cache\r\n", ""].map(|of| gateway.fetch("GET /a/x", of).text());
    assert_eq!(texts, ["1", "2", "2"]);
}
