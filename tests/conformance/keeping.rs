//! Connections of callers: how long they are kept, and in what order they are answered.

use harness::{Answer, Gateway, Upstream, api};

fn echo_target() -> Upstream {
    Upstream::answering(|request| Answer::ok(request.target()))
}

/// Sends `request` twice on one connection; says what came of both.
#[track_caller]
fn check(request: &str, expect_kept: bool, expect_field: Option<&str>) {
    let upstream = echo_target();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let mut client = gateway.connect();
    let answer = client.send(request).read();
    assert_eq!((answer.status, answer.header("connection")), (200, expect_field), "{request:?}");
    if expect_kept {
        assert_eq!(client.send(request).read().status, 200, "{request:?}");
    } else {
        assert_eq!(client.read_until_close(), "", "{request:?}");
    }
}

#[test]
fn http_1_1_keeps_the_connection_unless_the_caller_says_close() {
    check("GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n", true, None);
    check("GET /a/x HTTP/1.1\r\nHost: me\r\nConnection: keep-alive\r\n\r\n", true, None);
    check("GET /a/x HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n", false, Some("close"));
    check("GET /a/x HTTP/1.1\r\nHost: me\r\nConnection: x, CLOSE\r\n\r\n", false, Some("close"));
}

#[test]
fn http_1_0_closes_unless_the_caller_says_keep_alive() {
    check("GET /a/x HTTP/1.0\r\n\r\n", false, Some("close"));
    check("GET /a/x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true, Some("keep-alive"));
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
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
    assert_eq!(client.read().verdict(), "404 404");
    client.send("rt");
    assert_eq!(client.read().text(), "fourt");
}

#[test]
fn a_request_in_single_bytes_is_the_same_request() {
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
fn a_denied_request_whose_body_is_there_keeps_the_connection() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").secured("POST /*").open("GET /*").to(&upstream)).start();
    let mut client = gateway.connect();
    assert_eq!(client.ask_with("POST /a/x", "", "unwanted").verdict(), "401 900902");
    assert_eq!(client.ask("GET /a/x", "").status, 200);
}

#[test]
fn a_denied_request_whose_body_is_still_to_come_ends_the_connection_after_its_answer() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").secured("POST /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 100000\r\n\r\nsome");
    let answer = client.read();
    assert_eq!(answer.verdict(), "401 900902");
    assert_eq!(answer.header("connection"), Some("close"));
    client.offer("more of it");
    client.expect_close();
    assert!(upstream.is_left_alone());
}
