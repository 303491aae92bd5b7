//! Ambiguous requests are rejected, never repaired: the client gets a status, the connection is closed, and nothing
//! reaches an upstream.

use harness::{Gateway, Upstream, api};

const GET: &str = "GET /a/x HTTP/1.1\r\nHost: gateway\r\n";
const POST: &str = "POST /a/x HTTP/1.1\r\nHost: gateway\r\n";
/// The request that an attacker tries to smuggle to the upstream.
const SMUGGLED: &str = "GET /a/smuggled HTTP/1.1\r\nHost: gateway\r\n\r\n";

/// Each of `rows` gets its status and a closed connection; the upstream sees nothing.
#[track_caller]
fn check_rejected(rows: &[(String, u16)]) {
    let upstream = Upstream::fixed("reached");
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    for (bytes, status) in rows {
        let shown: String = bytes.chars().take(200).collect();
        let mut client = gateway.connect();
        let response = client.try_send(bytes).read();
        assert_eq!(
            (response.status, response.header("connection")),
            (*status, Some("close")),
            "{shown:?}"
        );
        assert_eq!(client.read_until_close(), "", "{shown:?}");
    }
    drop(gateway);
    assert_eq!(upstream.finish(), []);
}

/// A request with these additional lines, followed by a second one.
fn with_lines(lines: &[&str], status: u16) -> Vec<(String, u16)> {
    lines.iter().map(|line| (format!("{POST}{line}\r\n\r\n{SMUGGLED}"), status)).collect()
}

/// Whole requests, each followed by a second one.
fn whole(requests: &[&str], status: u16) -> Vec<(String, u16)> {
    requests.iter().map(|request| (format!("{request}{SMUGGLED}"), status)).collect()
}

#[test]
fn a_content_length_that_is_repeated_a_list_signed_or_not_a_number_is_rejected() {
    check_rejected(&with_lines(
        &[
            "Content-Length: 5\r\nContent-Length: 5",
            "Content-Length: 5\r\nContent-Length: 6",
            "Content-Length: 5, 5",
            "Content-Length: +5",
            "Content-Length: -5",
            "Content-Length: 0x5",
            "Content-Length: 5 5",
            "Content-Length: 5;",
            "Content-Length:",
            "Content-Length: 9007199254740992",
            "Content-Length: 18446744073709551616",
            "Content-Length: 99999999999999999999999999",
        ],
        400,
    ));
}

#[test]
fn content_length_with_transfer_encoding_is_rejected() {
    check_rejected(&with_lines(
        &[
            "Content-Length: 6\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 6",
            "Content-Length: 0\r\nTransfer-Encoding: chunked",
        ],
        400,
    ));
}

#[test]
fn a_transfer_encoding_other_than_exactly_chunked_is_rejected() {
    check_rejected(&with_lines(
        &[
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked, chunked",
            "Transfer-Encoding: chunked, identity\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: \"chunked\"",
            "Transfer-Encoding: chunked;a=b",
            "Transfer-Encoding:",
        ],
        400,
    ));
    check_rejected(&with_lines(
        &[
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: identity",
            "Transfer-Encoding: xchunked",
        ],
        501,
    ));
}

#[test]
fn transfer_encoding_on_http_1_0_is_rejected() {
    let old = "POST /a/x HTTP/1.0\r\nHost: gateway\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    check_rejected(&whole(&[old], 400));
}

#[test]
fn an_obfuscated_transfer_encoding_is_rejected() {
    check_rejected(&with_lines(
        &[
            "Transfer-Encoding : chunked",
            " Transfer-Encoding: chunked",
            "X: y\r\n Transfer-Encoding: chunked",
            "X: y\nTransfer-Encoding: chunked",
            "X: y\rTransfer-Encoding: chunked",
            "Transfer-Encoding:\r\n chunked",
            "Transfer-Encoding: \u{b}chunked",
            "Transfer-Encoding: chunked\r\nTransfer-encoding: x",
            "Transfer-Encoding\t: chunked",
        ],
        400,
    ));
}

#[test]
fn bare_line_ends_folded_lines_and_invalid_names_are_rejected() {
    check_rejected(&with_lines(
        &[
            "X-A: b\nX-C: d",
            "X-A: b\rX-C: d",
            "X-A: b\r\n folded",
            "X-A: b\r\n\tfolded",
            "X-A : b",
            ": b",
            "X A: b",
            "X-A",
            "X(A): b",
            "X-A: b\0c",
            "X-A: b\u{7f}c",
        ],
        400,
    ));
    check_rejected(&whole(
        &[
            "\r\nGET /a/x HTTP/1.1\r\nHost: gateway\r\n\r\n",
            "GET /a/x HTTP/1.1\nHost: gateway\n\n",
            "GET /a/x HTTP/1.1\r\nHost: gateway\r\n\n",
            "GET  /a/x HTTP/1.1\r\nHost: gateway\r\n\r\n",
            "GET /a/x HTTP/1.1 \r\nHost: gateway\r\n\r\n",
            " GET /a/x HTTP/1.1\r\nHost: gateway\r\n\r\n",
        ],
        400,
    ));
}

#[test]
fn a_host_that_is_missing_repeated_or_conflicting_is_rejected() {
    check_rejected(&whole(
        &[
            "GET /a/x HTTP/1.1\r\n\r\n",
            "GET /a/x HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET /a/x HTTP/1.1\r\nHost: a, b\r\n\r\n",
            "GET /a/x HTTP/1.1\r\nHost: a b\r\n\r\n",
            "GET /a/x HTTP/1.1\r\nHost: user@a\r\n\r\n",
            "GET /a/x HTTP/1.1\r\nHost: a:99999\r\n\r\n",
            "GET http://one/a/x HTTP/1.1\r\nHost: other\r\n\r\n",
            "GET http://one:81/a/x HTTP/1.1\r\nHost: one\r\n\r\n",
        ],
        400,
    ));
}

#[test]
fn a_target_with_a_fragment_control_characters_or_an_unknown_form_is_rejected() {
    check_rejected(&whole(
        &[
            "GET /a/x#top HTTP/1.1\r\nHost: gateway\r\n\r\n",
            "GET /a/\u{1}x HTTP/1.1\r\nHost: gateway\r\n\r\n",
            "GET /a/\u{7f} HTTP/1.1\r\nHost: gateway\r\n\r\n",
            "GET /a/\u{e9} HTTP/1.1\r\nHost: gateway\r\n\r\n",
            "GET a/x HTTP/1.1\r\nHost: gateway\r\n\r\n",
            "GET ftp://gateway/a/x HTTP/1.1\r\nHost: gateway\r\n\r\n",
            "GET * HTTP/1.1\r\nHost: gateway\r\n\r\n",
            "GET HTTP/1.1\r\nHost: gateway\r\n\r\n",
        ],
        400,
    ));
}

#[test]
fn other_versions_and_methods_are_rejected() {
    check_rejected(&whole(
        &["GET /a/x HTTP/1.2\r\nHost: gateway\r\n\r\n", "GET /a/x HTTP/3.0\r\n\r\n"],
        505,
    ));
    check_rejected(&whole(&["CONNECT gateway:443 HTTP/1.1\r\nHost: gateway:443\r\n\r\n"], 501));
    let long = format!("{} /a/x HTTP/1.1\r\nHost: gateway\r\n\r\n", "M".repeat(33));
    check_rejected(&whole(&[&long], 501));
    check_rejected(&with_lines(&["Expect: 200-ok\r\nContent-Length: 0"], 417));
}

#[test]
fn heads_above_their_limits_are_rejected() {
    let long_target = format!("GET /a/{} HTTP/1.1\r\nHost: gateway\r\n\r\n", "x".repeat(17 * 1024));
    check_rejected(&whole(&[&long_target], 414));
    let large_field = format!("{GET}X-Large: {}\r\n\r\n", "x".repeat(64 * 1024));
    let many_fields = format!("{GET}{}\r\n", "X-Many: 1\r\n".repeat(129));
    check_rejected(&whole(&[&large_field, &many_fields], 431));
}

#[test]
fn a_head_just_within_its_limits_passes() {
    let upstream = Upstream::fixed("reached");
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let target = format!("GET /a/{}", "x".repeat(16 * 1024 - "/a/".len()));
    assert_eq!(gateway.fetch(&target, "").status, 200);
    let value = "x".repeat(60 * 1024);
    assert_eq!(gateway.fetch("GET /a/x", &format!("X-Large: {value}\r\n")).status, 200);
    assert_eq!(gateway.fetch("GET /a/x", &"X-Many: 1\r\n".repeat(120)).status, 200);
}

#[test]
fn a_rejection_is_json_and_counted() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let response = gateway.connect().try_send("GET / HTTP/1.1\r\n\r\n").read();
    assert_eq!(
        response.text(),
        "{\"code\":\"400\",\"type\":\"Status report\",\"message\":\"Bad Request\",\
         \"description\":\"host is missing\"}"
    );
    gateway.wait_for_metric("penstock_requests_total", "status=\"400\"", 1);
    assert!(upstream.has_no_connection());
}

/// The head of a chunked request is forwarded before its body is known to be broken; then the
/// upstream's connection ends without the last chunk, and the client gets `status`.
#[track_caller]
fn check_broken_chunks(chunks: &[&str], status: u16) {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    for broken in chunks {
        let mut client = gateway.connect();
        client.send(format!("{POST}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"));
        let mut connection = upstream.accept();
        connection.request_head();
        assert_eq!(connection.read_exactly(8), b"5\r\nhello");
        client.try_send(broken).try_send(SMUGGLED);
        let shown: String = broken.chars().take(100).collect();
        assert_eq!(client.read().status, status, "{shown:?}");
        assert_eq!(client.read_until_close(), "", "{shown:?}");
        assert_eq!(connection.read_until_close(), "\r\n", "{shown:?}");
    }
}

#[test]
fn a_chunk_size_that_is_not_pure_hex_or_overflows_breaks_the_request() {
    check_broken_chunks(
        &[
            "x\r\n",
            "0x5\r\nhello\r\n0\r\n\r\n",
            "+5\r\nhello\r\n0\r\n\r\n",
            "-1\r\n",
            " 5\r\nhello\r\n0\r\n\r\n",
            "\r\n",
            "10000000000000000\r\n",
            "fffffffffffffffff\r\n",
            "5_0\r\n",
        ],
        400,
    );
}

#[test]
fn a_chunk_without_crlf_breaks_the_request() {
    check_broken_chunks(
        &[
            "5\nhello\r\n0\r\n\r\n",
            "5\rhello\r\n0\r\n\r\n",
            "0\n\n",
            "0\r\nX: y\n\r\n",
            "0\r\n X: y\r\n\r\n",
        ],
        400,
    );
    let long_extension = format!("5;{}\r\n", "x".repeat(2_000));
    check_broken_chunks(&[&long_extension], 400);
    let large_trailer = format!("0\r\nX: {}\r\n\r\n", "y".repeat(9_000));
    check_broken_chunks(&[&large_trailer], 431);
}

#[test]
fn the_excess_of_a_chunk_never_reaches_the_upstream() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send(format!("{POST}Transfer-Encoding: chunked\r\n\r\n5\r\nhelloEVIL\r\n0\r\n\r\n"));
    assert_eq!(client.read().status, 400);
    client.expect_close();
    let mut connection = upstream.accept();
    connection.request_head();
    assert!(!connection.read_until_close().contains("EVIL"));
}

#[test]
fn forwarded_bodies_are_reframed() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send(format!(
        "{POST}Transfer-Encoding:\tChunked \r\n\r\n00005;a=b;c=\"d\"\r\nhello\r\n0;x\r\n\r\n"
    ));
    let mut connection = upstream.accept();
    let head = connection.request_head();
    assert!(head.ends_with("Transfer-Encoding: chunked\r\n\r\n"), "{head}");
    assert_eq!(connection.read_exactly(15), b"5\r\nhello\r\n0\r\n\r\n");
    connection.ok("");
    assert_eq!(client.read().status, 200);
    client.send(format!("{POST}content-length:  0005 \r\n\r\nhello"));
    let head = connection.request_head();
    assert!(head.ends_with("Content-Length: 5\r\n\r\n"), "{head}");
}

#[test]
fn a_head_may_arrive_byte_by_byte() {
    let upstream = Upstream::fixed("whole");
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = gateway.connect();
    for byte in "GET /a/x HTTP/1.1\r\nHost: me\r\nX-Long: a b\r\n\r\n".chars() {
        client.send(byte.to_string());
    }
    assert_eq!(client.read().text(), "whole");
    assert_eq!(upstream.requests()[0].header("x-long"), Some("a b"));
}
