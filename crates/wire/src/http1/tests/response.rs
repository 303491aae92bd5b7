//! Response heads of upstreams.

use base::{Method, limits};

use super::super::{Known, Parsed, ResponseFraming, ResponseHead, Upgrade, properties};

#[test]
fn a_valid_head_is_parsed() {
    let bytes = b"HTTP/1.1 404 Not \xe9 Here\r\nContent-Length: 5\r\nX-A:b\r\n\r\nhello";
    let head = parsed(bytes, Method::Get);
    assert_eq!((head.len(), head.status()), (bytes.len() - 5, 404));
    assert_eq!(head.reason(bytes), b"Not \xe9 Here");
    assert_eq!(head.framing(), ResponseFraming::Length(5));
    assert_eq!(head.find_name(bytes, b"x-a").map(|f| f.value.of(bytes)), Some(b"b".as_slice()));
    assert!(head.find(Known::ContentLength).is_some() && head.find(Known::SetCookie).is_none());
    assert!(head.keep_alive() && !head.is_interim());
}

#[test]
fn the_reason_may_be_empty_with_or_without_space() {
    for text in ["HTTP/1.1 200 \r\n\r\n", "HTTP/1.1 200\r\n\r\n", "HTTP/1.1 200\r\nA: b\r\n\r\n"] {
        assert_eq!(parsed(text.as_bytes(), Method::Get).reason(text.as_bytes()), b"");
    }
    let tabbed = b"HTTP/1.0 200  a\tb \r\n\r\n";
    assert_eq!(parsed(tabbed, Method::Get).reason(tabbed), b" a\tb ");
}

#[test]
fn a_malformed_head_is_rejected() {
    for text in [
        "HTTP/1.1 200 OK\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n\n",
        "HTTP/1.1 200\n\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 600 OK\r\n\r\n",
        "HTTP/1.1 999\r\n\r\n",
        "HTTP/1.1 +20 OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.2 200 OK\r\n\r\n",
        "HTTP/1.10 200 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "http/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 O\0K\r\n\r\n",
        "HTTP/1.1 200 O\rK\r\n\r\n",
        "HTTP/1.1 200 O\u{7f}\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\r\n A: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: \0\r\n\r\n",
        "HTTP/1.1 200-OK\r\n\r\n",
        "<html>",
        "HTTP/1.1 200\tOK\r\n\r\n",
    ] {
        rejected(text, Method::Get);
    }
}

#[test]
fn contradictory_framing_is_rejected_for_every_method() {
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length:\r\n",
        "Content-Length: 9007199254740992\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Connection: content-length\r\n",
    ] {
        for method in [Method::Get, Method::Head] {
            rejected(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n"), method);
            rejected(&format!("HTTP/1.1 304 Not Modified\r\n{lines}\r\n"), method);
        }
    }
    rejected("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Method::Get);
}

#[test]
fn framing_follows_from_method_status_and_fields() {
    use ResponseFraming::{Chunked, Length, None, UntilClose};
    for (start, lines, method, framing, kept) in [
        ("1.1 200", "", Method::Get, UntilClose, false),
        ("1.0 200", "Connection: keep-alive\r\n", Method::Get, UntilClose, false),
        ("1.1 200", "Content-Length: 0\r\n", Method::Get, Length(0), true),
        ("1.1 200", "Content-Length: 5\r\nConnection: close\r\n", Method::Get, Length(5), false),
        ("1.0 200", "Content-Length: 5\r\n", Method::Get, Length(5), false),
        (
            "1.0 200",
            "Content-Length: 5\r\nConnection: keep-alive\r\n",
            Method::Get,
            Length(5),
            true,
        ),
        ("1.1 500", "Transfer-Encoding: Chunked\r\n", Method::Post, Chunked, true),
        ("1.1 200", "Content-Length: 5\r\n", Method::Head, None, true),
        ("1.1 200", "Transfer-Encoding: chunked\r\n", Method::Head, None, true),
        ("1.1 200", "", Method::Head, None, true),
        ("1.1 304", "Content-Length: 5\r\n", Method::Get, None, true),
        ("1.1 304", "", Method::Get, None, true),
        ("1.1 204", "", Method::Delete, None, true),
        ("1.1 204", "Content-Length: 0\r\n", Method::Get, None, true),
        ("1.1 204", "Content-Length: 5\r\n", Method::Get, None, false),
        ("1.1 204", "Transfer-Encoding: chunked\r\n", Method::Get, None, false),
    ] {
        let text = format!("HTTP/{start} x\r\n{lines}\r\n");
        let head = parsed(text.as_bytes(), method);
        assert_eq!((head.framing(), head.keep_alive()), (framing, kept), "{text:?} for {method:?}");
    }
}

#[test]
fn an_interim_head_has_no_body_and_101_is_none_of_them() {
    for (status, interim) in
        [(100, true), (102, true), (103, true), (199, true), (101, false), (200, false)]
    {
        let text =
            format!("HTTP/1.1 {status} x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
        let head = parsed(text.as_bytes(), Method::Get);
        assert_eq!(head.is_interim(), interim, "{status}");
        assert_eq!(head.upgrade(text.as_bytes()), Upgrade::WebSocket);
        let no_body = head.framing() == ResponseFraming::None;
        assert_eq!(no_body, status < 200, "{status}");
    }
    for status in [100, 101, 103] {
        rejected(&format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n"), Method::Get);
        rejected(
            &format!("HTTP/1.1 {status} x\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Method::Get,
        );
    }
}

#[test]
fn a_head_above_its_limits_is_rejected_early() {
    let most = "A: b\r\n".repeat(limits::HEADER_FIELDS_MAX);
    parsed(format!("HTTP/1.1 200 OK\r\n{most}\r\n").as_bytes(), Method::Get);
    rejected(&format!("HTTP/1.1 200 OK\r\n{most}A"), Method::Get);
    let large = "a".repeat(limits::RESPONSE_HEAD_BYTES_MAX as usize);
    rejected(&format!("HTTP/1.1 200 {large}"), Method::Get);
}

fn parsed(bytes: &[u8], method: Method) -> ResponseHead {
    properties::response_head(bytes);
    let mut head = ResponseHead::default();
    assert_eq!(head.parse(bytes, method), Ok(Parsed::Complete), "{}", bytes.escape_ascii());
    head
}

#[track_caller]
fn rejected(text: &str, method: Method) {
    properties::response_head(text.as_bytes());
    let status = ResponseHead::default()
        .parse(text.as_bytes(), method)
        .map_err(|rejection| rejection.status);
    assert_eq!(status, Err(502), "{text:?} for {method:?}");
}
