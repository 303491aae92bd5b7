//! Client connections: keep-alive, and the order of responses.

use harness::{CannedResponse, Gateway, Upstream, api};

fn echo_target() -> Upstream {
    Upstream::responding(|request| CannedResponse::ok(request.target()))
}

/// Sends `request` twice on one connection.
#[track_caller]
fn check(request: &str, expect_kept: bool, expect_field: Option<&str>) {
    let upstream = echo_target();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let mut client = gateway.connect();
    let response = client.send(request).read();
    assert_eq!(
        (response.status, response.header("connection")),
        (200, expect_field),
        "{request:?}"
    );
    if expect_kept {
        assert_eq!(client.send(request).read().status, 200, "{request:?}");
    } else {
        assert_eq!(client.read_until_close(), "", "{request:?}");
    }
}

#[test]
fn http_1_1_keeps_the_connection_unless_the_client_says_close() {
    check("GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n", true, None);
    check("GET /a/x HTTP/1.1\r\nHost: me\r\nConnection: keep-alive\r\n\r\n", true, None);
    check("GET /a/x HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n", false, Some("close"));
    check("GET /a/x HTTP/1.1\r\nHost: me\r\nConnection: x, CLOSE\r\n\r\n", false, Some("close"));
}

#[test]
fn http_1_0_closes_unless_the_client_says_keep_alive() {
    check("GET /a/x HTTP/1.0\r\n\r\n", false, Some("close"));
    check("GET /a/x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true, Some("keep-alive"));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let upstream = echo_target();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let mut client = gateway.connect();
    let requests: String =
        (0..20).map(|number| format!("GET /a/{number} HTTP/1.1\r\nHost: me\r\n\r\n")).collect();
    client.send(requests);
    for number in 0..20 {
        assert_eq!(client.read().text(), format!("/{number}"));
    }
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn a_pipelined_request_waits_for_the_body_before_it() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send(
        "POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 5\r\n\r\nfirst\
         POST /a/x HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nsecond\r\n0\r\n\r\n\
         GET /elsewhere HTTP/1.1\r\nHost: me\r\n\r\n\
         POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 5\r\n\r\nfou",
    );
    assert_eq!(client.read().text(), "first");
    assert_eq!(client.read().text(), "second");
    assert_eq!(client.read().status_and_code(), "404 404");
    client.send("rt");
    assert_eq!(client.read().text(), "fourt");
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let mut client = gateway.connect();
    let request = "POST /a/x HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5\r\nhello\r\n0\r\nX-Trailer: t\r\n\r\n";
    for byte in request.bytes() {
        client.send([byte]);
    }
    assert_eq!(client.read().text(), "hello");
    assert_eq!(upstream.requests()[0].trailers, "X-Trailer: t\r\n");
}

#[test]
fn a_denied_request_whose_body_was_read_keeps_the_connection() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").secured("POST /*").open("GET /*").to(&upstream)).start();
    let mut client = gateway.connect();
    assert_eq!(client.fetch_with_body("POST /a/x", "", "unwanted").status_and_code(), "401 900902");
    assert_eq!(client.fetch("GET /a/x", "").status, 200);
}

#[test]
fn a_denied_request_with_an_unread_body_closes_the_connection_after_its_response() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").secured("POST /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 100000\r\n\r\nsome");
    let response = client.read();
    assert_eq!(response.status_and_code(), "401 900902");
    assert_eq!(response.header("connection"), Some("close"));
    client.try_send("more of it");
    client.expect_close();
    assert!(upstream.has_no_connection());
}
