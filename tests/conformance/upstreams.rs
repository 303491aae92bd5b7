//! Misbehaving upstreams: the response to the client, and which connections are reused.

use base::limits;
use harness::{CannedResponse, Gateway, Upstream, UpstreamConnection, api};

const GET: &str = "GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n";
const POST: &str = "POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 2\r\n\r\nhi";

fn gateway(upstream: &Upstream) -> Gateway {
    Gateway::of(api("/a").open("* /*").to(upstream)).start()
}

/// Every response in `responses` becomes `expect`, and its connection is not reused.
#[track_caller]
fn check_response(request: &str, responses: &[&str], expect: &str) {
    for &sent in responses {
        let upstream = Upstream::manual();
        let gateway = gateway(&upstream);
        let mut client = gateway.connect();
        client.send(request);
        let mut connection = upstream.accept();
        connection.request();
        connection.try_send(sent).half_close();
        let shown: String = sent.chars().take(200).collect();
        assert_eq!(client.read().status_and_code(), expect, "{shown:?}");
        connection.expect_close();
        // The client is not at fault: its connection is kept.
        client.send(request);
        let mut connection = upstream.accept();
        connection.request();
        connection.ok("fine");
        assert_eq!(client.read().text(), "fine", "{shown:?}");
    }
}

#[test]
fn a_response_whose_framing_is_ambiguous_is_a_protocol_violation() {
    check_response(
        POST,
        &[
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ],
        "500 101506",
    );
}

#[test]
fn anything_but_http_is_a_protocol_violation() {
    check_response(
        POST,
        &[
            "garbage\r\n\r\n",
            "\u{16}\u{3}\u{1}",
            "HTTP/2.0 200 OK\r\n\r\n",
            "HTTP/1.1 99 Low\r\n\r\n",
            "HTTP/1.1 OK\r\n\r\n",
            "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
            "HTTP/1.1 200 OK\r\nX-A : b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX-A: b\r\n folded\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX-A: b\0\r\n\r\n",
            " HTTP/1.1 200 OK\r\n\r\n",
        ],
        "500 101506",
    );
}

#[test]
fn misused_interim_responses_are_a_protocol_violation() {
    let many = "HTTP/1.1 100 Continue\r\n\r\n".repeat(limits::INTERIM_RESPONSES_MAX as usize + 1);
    check_response(
        POST,
        &[
            "HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\nhi",
            "HTTP/1.1 102 Processing\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            &many,
        ],
        "500 101506",
    );
}

#[test]
fn a_response_head_beyond_its_limits_is_a_protocol_violation() {
    let large = format!("HTTP/1.1 200 OK\r\nX-Large: {}\r\n\r\n", "x".repeat(64 * 1024));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X-Many: 1\r\n".repeat(129));
    check_response(POST, &[&large, &many], "500 101506");
}

#[test]
fn an_upstream_that_closes_before_its_response_is_101505() {
    check_response(POST, &["", "HTTP/1.1 20", "HTTP/1.1 100 Continue\r\n\r\n"], "500 101505");
}

/// The client gets the head and the first bytes and can detect the truncation.
#[track_caller]
fn check_broken(sent: &str, expect: &str) {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(GET);
    let mut connection = upstream.accept();
    connection.request();
    connection.send(sent).half_close();
    let got = client.read_until_close();
    // The end of the last whole chunk may have been sent.
    assert_eq!(got.strip_suffix("\r\n").unwrap_or(&got), expect, "{sent:?}");
    connection.expect_close();
    gateway.wait_for_metric("penstock_faults_total", "blame=\"upstream\"", 1);
}

#[test]
fn a_broken_body_that_arrives_with_its_head_is_101506() {
    let upstream = Upstream::responding(|_| {
        CannedResponse::bytes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    });
    let gateway = gateway(&upstream);
    assert_eq!(gateway.fetch("GET /a/x", "").status_and_code(), "500 101506");
    assert_eq!(gateway.fetch("GET /a/x", "").status_and_code(), "500 101506", "and the next one");
}

#[test]
fn a_truncated_response_ends_the_clients_connection() {
    check_broken(
        "HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 100\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nDate: now\r\ncontent-length: 100\r\n\r\nhalf",
    );
    check_broken(
        "HTTP/1.1 200 OK\r\nDate: now\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "HTTP/1.1 200 OK\r\nDate: now\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf",
    );
    check_broken(
        "HTTP/1.1 200 OK\r\nDate: now\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nx\r\n",
        "HTTP/1.1 200 OK\r\nDate: now\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf",
    );
}

#[test]
fn a_truncated_response_to_http_1_0_ends_with_a_reset() {
    for (sent, is_whole) in
        [("4\r\nhalf\r\n", false), ("4\r\nhalf\r\nx\r\n", false), ("4\r\nhalf\r\n0\r\n\r\n", true)]
    {
        let upstream = Upstream::manual();
        let gateway = gateway(&upstream);
        for mut client in [gateway.connect(), gateway.connect_tls()] {
            client.send("GET /a/x HTTP/1.0\r\nHost: me\r\n\r\n");
            let mut connection = upstream.accept();
            connection.request();
            connection.send(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{sent}"));
            let got = client.read_head();
            assert_eq!((got.status, got.header("content-length")), (200, None));
            connection.close();
            assert_eq!(client.read_until_close(), "half", "{sent:?}");
            assert_eq!(client.was_truncated(), !is_whole, "{sent:?}");
        }
    }
}

/// Whether the upstream connection is reused after this response to `request`.
#[track_caller]
fn check_reuse(request: &str, sent: &str, expect: bool) {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(request);
    let mut connection = upstream.accept();
    connection.request();
    connection.send(sent);
    if request.starts_with("HEAD") {
        client.read_for_head()
    } else {
        client.read()
    };
    let mut other = gateway.connect();
    other.send(GET);
    if expect {
        connection.request();
        connection.ok("again");
    } else {
        connection.expect_close();
        let mut fresh = upstream.accept();
        fresh.request();
        fresh.ok("again");
    }
    assert_eq!(other.read().text(), "again", "{sent:?}");
}

#[test]
fn a_connection_is_reused_after_a_clean_response() {
    check_reuse(GET, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true);
    check_reuse(GET, "HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nok", true);
    check_reuse(
        GET,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        true,
    );
    check_reuse(GET, "HTTP/1.1 204 No Content\r\n\r\n", true);
    check_reuse(
        GET,
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        true,
    );
    check_reuse(POST, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true);
    let head = "HEAD /a/x HTTP/1.1\r\nHost: me\r\n\r\n";
    check_reuse(head, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", true);
}

#[test]
fn a_connection_is_not_reused_after_close_or_surplus_bytes() {
    check_reuse(GET, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", false);
    check_reuse(GET, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false);
    check_reuse(GET, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more", false);
    check_reuse(GET, "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok", false);
    let head = "HEAD /a/x HTTP/1.1\r\nHost: me\r\n\r\n";
    check_reuse(head, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false);
}

#[test]
fn an_unsolicited_response_is_never_used_for_the_next_request() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(GET);
    let mut connection = upstream.accept();
    connection.request();
    connection.ok("first");
    assert_eq!(client.read().text(), "first");
    // In the pool, the connection receives an unsolicited response.
    connection.ok("poison");
    client.send(GET);
    let mut fresh = upstream.accept();
    fresh.request();
    fresh.ok("second");
    assert_eq!(client.read().text(), "second");
    connection.expect_close();
}

#[test]
fn a_response_to_a_half_sent_request_is_not_followed_by_another_request() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 100\r\n\r\nhalf");
    let mut connection = upstream.accept();
    connection.request_head();
    connection.send("HTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!(client.read().status, 400);
    let mut other = gateway.connect();
    other.send(GET);
    let mut fresh = upstream.accept();
    assert_eq!(fresh.request().line(), "GET /x HTTP/1.1");
    fresh.ok("fine");
    assert_eq!(other.read().text(), "fine");
    assert_eq!(connection.read_until_close(), "half");
}

/// Leaves one connection in the pool and returns its other end.
fn pooled(gateway: &Gateway, upstream: &Upstream) -> UpstreamConnection {
    let mut client = gateway.connect();
    client.send(GET);
    let mut connection = upstream.accept();
    connection.request();
    connection.ok("first");
    assert_eq!(client.read().text(), "first");
    connection
}

#[test]
fn a_closed_pooled_connection_is_detected_before_use() {
    for request in [GET, POST] {
        let upstream = Upstream::manual();
        let gateway = gateway(&upstream);
        pooled(&gateway, &upstream).close();
        let mut client = gateway.connect();
        client.send(request);
        let mut connection = upstream.accept();
        connection.request();
        connection.ok("second");
        assert_eq!(client.read().text(), "second", "{request}");
        assert_eq!(gateway.metric("penstock_retries_total", ""), 0, "{request}");
    }
}

#[test]
fn an_idempotent_request_is_retried_when_a_pooled_connection_closes() {
    let requests = [
        GET,
        "HEAD /a/x HTTP/1.1\r\nHost: me\r\n\r\n",
        "DELETE /a/x HTTP/1.1\r\nHost: me\r\n\r\n",
        "OPTIONS /a/x HTTP/1.1\r\nHost: me\r\n\r\n",
        "PUT /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 0\r\n\r\n",
    ];
    for request in requests {
        let upstream = Upstream::manual();
        let gateway = gateway(&upstream);
        let mut kept = pooled(&gateway, &upstream);
        let mut client = gateway.connect();
        client.send(request);
        kept.request();
        kept.close();
        let mut fresh = upstream.accept();
        fresh.request();
        fresh.send("HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(client.read().status, 204, "{request}");
        assert_eq!(gateway.metric("penstock_retries_total", ""), 1, "{request}");
    }
}

#[test]
fn a_request_is_retried_at_most_once() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut kept = pooled(&gateway, &upstream);
    let mut client = gateway.connect();
    client.send(GET);
    kept.request();
    kept.close();
    let mut fresh = upstream.accept();
    fresh.request();
    fresh.close();
    assert_eq!(client.read().status_and_code(), "500 101505");
    assert!(upstream.has_no_connection());
}

#[test]
fn a_request_that_is_not_idempotent_is_not_retried() {
    for request in [POST, "PATCH /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 0\r\n\r\n"] {
        let upstream = Upstream::manual();
        let gateway = gateway(&upstream);
        let mut kept = pooled(&gateway, &upstream);
        let mut client = gateway.connect();
        client.send(request);
        kept.request();
        kept.close();
        assert_eq!(client.read().status_and_code(), "500 101505", "{request}");
        assert!(upstream.has_no_connection());
    }
}

#[test]
fn an_idempotent_request_whose_body_was_sent_is_not_retried() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut kept = pooled(&gateway, &upstream);
    let mut client = gateway.connect();
    client.send("PUT /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 2\r\n\r\nhi");
    kept.request();
    kept.close();
    assert_eq!(client.read().status_and_code(), "500 101505");
    assert!(upstream.has_no_connection());
}

#[test]
fn nothing_is_retried_after_a_response_has_begun() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut kept = pooled(&gateway, &upstream);
    let mut client = gateway.connect();
    client.send(GET);
    kept.request();
    kept.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    kept.close();
    assert!(client.read_until_close().ends_with("half"));
    assert!(upstream.has_no_connection());
}

#[test]
fn fault_status_http_uses_http_statuses() {
    let upstream = Upstream::responding(|_| CannedResponse::bytes("garbage\r\n\r\n"));
    let refusing = Upstream::refusing();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .api(api("/refused").open("* /*").to(&refusing))
        .http_statuses()
        .start();
    assert_eq!(gateway.fetch("GET /a/x", "").status_and_code(), "502 101506");
    assert_eq!(gateway.fetch("GET /refused/x", "").status_and_code(), "502 101503");
}
