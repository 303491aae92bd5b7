use base::limits;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request};

use super::{converted, parsed};
use crate::h2::*;
use crate::http1::{BodyFraming, ChunkedDecoder, Parsed, Piece, RequestHead, Side, write};

fn parts(method: &str, uri: &str, fields: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(uri);
    for &(name, value) in fields {
        request = request.header(name, value);
    }
    request.body(()).unwrap().into_parts().0
}

const BASE: &str = "http://a.test/p";

#[test]
fn a_head_is_rendered_as_http_1() {
    check("GET", "https://a.test:8243/p/q?x=%2F&y", &[], "GET /p/q?x=%2F&y\nhost: a.test:8243\n");
    check("OPTIONS", "http://a.test/p", &[], "OPTIONS /p\nhost: a.test\n");
    check("GET", BASE, &[("x-a", "1"), ("x-a", "2")], "GET /p\nhost: a.test\nx-a: 1\nx-a: 2\n");
    check("GET", BASE, &[("host", "A.test")], "GET /p\nhost: a.test\n");
    check("GET", "/p", &[("host", "b.test")], "GET /p\nhost: b.test\n");
    check(
        "GET",
        BASE,
        &[("cookie", "a=1"), ("x-b", "2"), ("cookie", "c=3; d=4"), ("cookie", "e=5")],
        "GET /p\nhost: a.test\nx-b: 2\ncookie: a=1; c=3; d=4; e=5\n",
    );
    check("GET", BASE, &[("cookie", "a=1")], "GET /p\nhost: a.test\ncookie: a=1\n");
    check("GET", BASE, &[("te", "trailers")], "GET /p\nhost: a.test\nte: trailers\n");
    check("POST", BASE, &[("content-length", "0")], "POST /p\nhost: a.test\ncontent-length: 0\n");

    /// `expect`: the head without ` HTTP/1.1`, lines ended by LF, no empty line.
    #[track_caller]
    fn check(method: &str, uri: &str, fields: &[(&str, &str)], expect: &str) {
        let mut out = Vec::new();
        head_bytes(&mut out, &parts(method, uri, fields), true).unwrap();
        let expect = expect.replacen('\n', " HTTP/1.1\n", 1).replace('\n', "\r\n") + "\r\n";
        assert_eq!(String::from_utf8(out.clone()).unwrap(), expect);
        assert_eq!(RequestHead::default().parse(&out), Ok(Parsed::Complete));
    }
}

#[test]
fn the_asterisk_form_is_only_for_options() {
    let mut asterisk = parts("OPTIONS", "*", &[("host", "a.test")]);
    let mut out = Vec::new();
    head_bytes(&mut out, &asterisk, true).unwrap();
    assert!(out.starts_with(b"OPTIONS * HTTP/1.1\r\nhost: a.test\r\n"));
    asterisk.method = http::Method::GET;
    assert_eq!(head_bytes(&mut out, &asterisk, true).unwrap_err().status, 400);
}

#[test]
fn framing_follows_from_the_length_and_the_end_of_the_stream() {
    check(&[], true, BodyFraming::None);
    check(&[], false, BodyFraming::Chunked);
    check(&[("content-length", "7")], false, BodyFraming::Length(7));
    check(&[("content-length", "0")], true, BodyFraming::Length(0));

    fn check(fields: &[(&str, &str)], end_of_stream: bool, expect: BodyFraming) {
        let mut out = Vec::new();
        head_bytes(&mut out, &parts("POST", BASE, fields), end_of_stream).unwrap();
        let mut head = RequestHead::default();
        assert_eq!(head.parse(&out), Ok(Parsed::Complete));
        assert_eq!(head.framing(), expect, "{fields:?}, end: {end_of_stream}");
    }
}

#[test]
fn malformed_requests_are_rejected_as_over_http_1() {
    check("CONNECT", "a.test:443", &[], 501);
    check("GET", "/p", &[], 400);
    check("GET", "/p", &[("host", "a.test"), ("host", "a.test")], 400);
    check("GET", BASE, &[("host", "b.test")], 400);
    check("GET", BASE, &[("host", "a.test:80")], 400);
    check("GET", BASE, &[("host", "")], 400);
    check("GET", "http://user@a.test/p", &[], 400);
    check("GET", BASE, &[("te", "gzip")], 400);
    check("GET", BASE, &[("te", "trailers"), ("te", "gzip")], 400);
    check("GET", BASE, &[("te", "trailers, gzip")], 400);
    check("GET", BASE, &[("content-length", "5")], 400);
    check("GET", BASE, &[("content-length", "x")], 400);
    check("GET", BASE, &[("content-length", "0"), ("content-length", "0")], 400);
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        check("GET", BASE, &[(name, "x")], 400);
    }
    // Rejected by the HTTP/1.1 parser.
    check("GET", "http://a.test/%00", &[], 400);
    check("GET", "http://a.test/%zz", &[], 400);
    check("GET", "http://a.test/a/..%2fb", &[], 400);
    check("GET", "http://a.test/a%5c%2e%2e/b", &[], 400);
    let long = "v".repeat(limits::HEAD_BYTES_MAX as usize);
    check("GET", BASE, &[("x-long", long.as_str())], 431);

    #[track_caller]
    fn check(method: &str, uri: &str, fields: &[(&str, &str)], expect: u16) {
        let mut out = Vec::new();
        let result = head_bytes(&mut out, &parts(method, uri, fields), true)
            .and_then(|()| RequestHead::default().parse(&out));
        assert_eq!(result.map_err(|rejection| rejection.status), Err(expect), "{method} {uri}");
    }
}

#[test]
fn a_response_head_loses_connection_specific_fields() {
    check(
        "HTTP/1.1 200 Fine\nContent-Length: 3\nX-A: 1\nX-A: 2\n\n",
        "200 content-length: 3, x-a: 1, x-a: 2",
    );
    check("HTTP/1.1 204 No Content\nDate: now\n\n", "204 date: now");
    check(
        "HTTP/1.1 200 OK\nConnection: close, X-Hop\nX-Hop: 1\nKeep-Alive: 5\nTransfer-Encoding: chunked\n\n",
        "200",
    );
    check("HTTP/1.1 101 Switching Protocols\nConnection: upgrade\nUpgrade: websocket\n\n", "502");

    #[track_caller]
    fn check(head: &str, expect: &str) {
        let (head, bytes) = parsed(head);
        let result = match converted(&head, &bytes) {
            Ok(response) => {
                let fields = response.headers().iter();
                let fields =
                    fields.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
                let fields = fields.collect::<Vec<_>>().join(", ");
                format!("{} {fields}", response.status().as_u16()).trim().to_owned()
            }
            Err(rejection) => rejection.status.to_string(),
        };
        assert_eq!(result, expect);
    }
}

#[test]
fn trailers_are_converted_except_known_fields() {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers.insert("content-length", HeaderValue::from_static("5"));
    trailers.insert("x-jwt-assertion", HeaderValue::from_static("forged"));
    for name in ["content_length", "transfer_encoding", "x_forwarded_for", "x_jwt_assertion"] {
        trailers.insert(name, HeaderValue::from_static("forged"));
    }
    let mut lines = Vec::new();
    trailer_lines(&mut lines, &trailers).unwrap();
    assert_eq!(lines, b"grpc-status: 0\r\n");

    let mut body = Vec::new();
    write::last_chunk(&mut body, b"grpc-status: 0\r\nHost: x\r\nGRPC-Message: ok\r\n");
    let mut decoder = ChunkedDecoder::new(Side::Response);
    assert_eq!(decoder.next(&body), Ok(Piece::End { used: body.len() }));
    let map = trailer_map(decoder.trailers()).unwrap().unwrap();
    assert_eq!(
        (map.len(), &map["grpc-status"], &map["grpc-message"]),
        (2, &"0".parse().unwrap(), &"ok".parse().unwrap())
    );

    let mut decoder = ChunkedDecoder::new(Side::Response);
    decoder.next(b"0\r\n\r\n").unwrap();
    assert_eq!(trailer_map(decoder.trailers()), Ok(None));

    trailers.insert("x-long", "v".repeat(limits::TRAILER_BYTES_MAX as usize).parse().unwrap());
    assert_eq!(trailer_lines(&mut lines, &trailers).unwrap_err().status, 431);
}

#[test]
fn the_preface_is_recognised_by_its_first_bytes() {
    let with_more = [PREFACE, b"\0\0\0"].concat();
    for cut in 0..PREFACE.len() {
        assert_eq!(match_preface(&PREFACE[..cut]), PrefaceMatch::Partial, "cut at {cut}");
    }
    assert_eq!(match_preface(PREFACE), PrefaceMatch::Yes);
    assert_eq!(match_preface(&with_more), PrefaceMatch::Yes);
    for other in ["GET / HTTP/1.1\r\n", "P ", "PRI * HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSN"]
    {
        assert_eq!(match_preface(other.as_bytes()), PrefaceMatch::No, "{other}");
    }
}
