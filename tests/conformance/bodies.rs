//! Bodies both ways: lengths, chunks, trailers, and responses without a body.

use harness::{CannedResponse, Gateway, Upstream, api};

const GET: &str = "GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n";

fn gateway(upstream: &Upstream) -> Gateway {
    Gateway::of(api("/a").open("* /*").to(upstream)).start()
}

/// The upstream sends `sent`; the client reads `expect`, and the connection is kept.
#[track_caller]
fn check(request: &str, sent: &'static str, expect: &str) {
    let upstream = Upstream::responding(move |request| match request.target() {
        "/again" => CannedResponse::ok("again"),
        _ => CannedResponse::bytes(sent),
    });
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(request);
    let got = String::from_utf8(client.read_exactly(expect.len())).unwrap();
    assert_eq!(got, expect);
    assert_eq!(client.fetch("GET /a/again", "").text(), "again");
    assert_eq!(upstream.connections(), 1, "the upstream's connection was clean");
}

#[test]
fn a_response_to_head_keeps_its_length_and_has_no_body() {
    check(
        "HEAD /a/x HTTP/1.1\r\nHost: me\r\n\r\n",
        "HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 1234\r\n\r\n",
        "HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 1234\r\n\r\n",
    );
}

#[test]
fn a_204_and_a_304_have_no_body_whatever_their_length() {
    check(
        GET,
        "HTTP/1.1 204 No Content\r\nDate: now\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nDate: now\r\n\r\n",
    );
    check(
        GET,
        "HTTP/1.1 304 Not Modified\r\nDate: now\r\nContent-Length: 1234\r\nETag: \"x\"\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nDate: now\r\nContent-Length: 1234\r\nETag: \"x\"\r\n\r\n",
    );
}

#[test]
fn an_empty_body_has_length_zero() {
    check(
        GET,
        "HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nDate: now\r\ncontent-length: 0\r\n\r\n",
    );
}

#[test]
fn interim_responses_are_not_forwarded() {
    check(
        GET,
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
         HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nDate: now\r\ncontent-length: 2\r\n\r\nok",
    );
}

#[test]
fn a_chunked_response_arrives_with_its_trailers() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(GET);
    let mut connection = upstream.accept();
    connection.request();
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n");
    connection.send("5;ext=1\r\nhello\r\n");
    assert_eq!(client.read_head().header("transfer-encoding"), Some("chunked"));
    assert_eq!(
        client.read_exactly(10),
        b"5\r\nhello\r\n",
        "a piece arrives before the next is sent"
    );
    connection.send("6\r\n world\r\n0\r\nX-Sum: 42\r\nContent-Length: 7\r\n\r\n");
    assert_eq!(client.read_exactly(27), b"6\r\n world\r\n0\r\nX-Sum: 42\r\n\r\n");
    client.send(GET);
    connection.request();
    connection.ok("again");
    assert_eq!(client.read().text(), "again");
}

fn letters(count: usize) -> String {
    char::from(b'a' + u8::try_from(count % 26).unwrap()).to_string().repeat(count)
}

#[test]
fn many_short_chunks_arrive_in_order() {
    let chunks: String = (1..200).map(|n| format!("{n:x}\r\n{}\r\n", letters(n))).collect();
    let sent = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n");
    let upstream = Upstream::responding(move |_| CannedResponse::bytes(&sent));
    let response = gateway(&upstream).connect().fetch("GET /a/x", "");
    let whole: String = (1..200).map(letters).collect();
    assert!(response.text() == whole);
}

#[test]
fn bytes_before_a_broken_chunk_arrive_and_the_response_is_truncated() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(GET);
    let mut connection = upstream.accept();
    connection.request_head();
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\nzz\r\n");
    assert_eq!(client.read_head().status, 200);
    assert_eq!(client.read_exactly(9), b"4\r\ngood\r\n");
    client.expect_close();
}

#[test]
fn a_request_with_a_broken_first_chunk_reaches_no_upstream() {
    let upstream = Upstream::echo();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    assert_eq!(client.read().status, 400);
    assert!(upstream.requests().is_empty());
}

#[test]
fn a_message_whose_connection_field_names_fields_loses_its_trailers() {
    const FIELDS: &str = "Connection: X-Hop\r\nTransfer-Encoding: chunked\r\n\r\n";
    const BODY: &str = "5\r\nhello\r\n0\r\nX-Hop: 1\r\nX-Sum: 42\r\n\r\n";
    let upstream = Upstream::responding(|_| {
        CannedResponse::bytes(format!("HTTP/1.1 200 OK\r\n{FIELDS}{BODY}"))
    });
    let gateway = gateway(&upstream);
    let request = format!("POST /a/x HTTP/1.1\r\nHost: me\r\n{FIELDS}{BODY}");
    let response = gateway.connect().send(request).read();
    assert_eq!((response.text().as_str(), response.trailers.as_str()), ("hello", ""));
    let request = &upstream.requests()[0];
    assert_eq!((request.text().as_str(), request.trailers.as_str()), ("hello", ""));
}

#[test]
fn trailers_are_forwarded_except_those_that_frame_route_or_identify() {
    let upstream = Upstream::echo();
    let gateway = gateway(&upstream);
    let response = gateway
        .connect()
        .send(
            "POST /a/x HTTP/1.1\r\nHost: me\r\nTE: trailers\r\nConnection: TE\r\n\
             Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 42\r\n\
             Content-Length: 1\r\nTransfer-Encoding: chunked\r\nHost: evil\r\n\
             Authorization: Bearer x\r\nX-Forwarded-For: 6.6.6.6\r\nX-JWT-Assertion: a\r\n\r\n",
        )
        .read();
    assert_eq!(response.text(), "hello");
    let request = &upstream.requests()[0];
    assert_eq!(request.trailers, "X-Sum: 42\r\n");
    assert_eq!(
        (request.header("te"), request.header("connection")),
        (Some("trailers"), Some("TE"))
    );
}

#[test]
fn a_chunked_response_to_http_1_0_ends_with_the_connection() {
    let upstream = Upstream::responding(|_| {
        CannedResponse::bytes(
            "HTTP/1.1 200 OK\r\nDate: now\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        )
    });
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("GET /a/x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(
        client.read_until_close(),
        "HTTP/1.1 200 OK\r\nDate: now\r\nConnection: close\r\n\r\nhello"
    );
}

#[test]
fn a_response_that_ends_with_the_connection_becomes_chunked() {
    let upstream = Upstream::responding(|_| {
        CannedResponse::bytes("HTTP/1.1 200 OK\r\n\r\nhello").then_close()
    });
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    let response = client.send(GET).read();
    assert_eq!(
        (response.text().as_str(), response.header("transfer-encoding")),
        ("hello", Some("chunked"))
    );
    assert_eq!(client.send(GET).read().text(), "hello", "the client's connection is kept");
    assert_eq!(upstream.connections(), 2);
}

#[test]
fn an_http_1_0_upstream_is_supported() {
    let upstream =
        Upstream::responding(|_| CannedResponse::bytes("HTTP/1.0 200 OK\r\n\r\nold").then_close());
    let gateway = gateway(&upstream);
    let response = gateway.fetch("GET /a/x", "");
    assert_eq!((response.text().as_str(), response.head.starts_with("HTTP/1.1 ")), ("old", true));
}

#[test]
fn a_bodyless_request_has_content_length_0_where_its_method_expects_a_body() {
    for (method, expect) in
        [("GET", None), ("DELETE", None), ("POST", Some("0")), ("PUT", Some("0"))]
    {
        let upstream = Upstream::echo();
        let gateway = gateway(&upstream);
        assert_eq!(gateway.fetch(&format!("{method} /a/x"), "").status, 200);
        assert_eq!(upstream.requests()[0].header("content-length"), expect, "{method}");
    }
}

#[test]
fn a_get_with_a_body_is_forwarded_whole() {
    let upstream = Upstream::echo();
    let gateway = gateway(&upstream);
    assert_eq!(gateway.connect().fetch_with_body("GET /a/x", "", "a body").text(), "a body");
}

#[test]
fn a_body_of_many_megabytes_comes_back_unchanged() {
    let upstream = Upstream::echo();
    let gateway = gateway(&upstream);
    let body: String = (0..1_500_000_u32).map(|n| format!("{n:07}")).collect();
    for framing in ["length", "chunked"] {
        let mut client = gateway.connect();
        let head = "POST /a/x HTTP/1.1\r\nHost: me\r\n";
        if framing == "length" {
            client.send(format!("{head}Content-Length: {}\r\n\r\n", body.len())).send(&body);
        } else {
            client.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n"));
            for piece in body.as_bytes().chunks(100_000) {
                client.send(format!("{:x}\r\n", piece.len())).send(piece).send("\r\n");
            }
            client.send("0\r\n\r\n");
        }
        assert!(client.read().text() == body, "{framing}");
    }
}

#[test]
fn an_upload_goes_on_after_a_response_that_came_first() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("PUT /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 10\r\n\r\n01234");
    let mut connection = upstream.accept();
    connection.request_head();
    assert_eq!(connection.read_exactly(5), b"01234");
    connection.send("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read().status, 202);
    client.send("56789");
    assert_eq!(connection.read_exactly(5), b"56789");
    client.send(GET);
    connection.request_head();
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nkept");
    assert_eq!(client.read().text(), "kept");
}
