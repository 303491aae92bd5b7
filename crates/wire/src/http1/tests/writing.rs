//! Serialisation of heads and chunk framing.

use super::super::{Known, KnownSet, RequestHead, write};
use super::with_fields;

#[test]
fn a_request_line_has_prefix_path_and_query() {
    check(|out| write::request_line(out, b"GET", b"", b"/a", None), "GET /a HTTP/1.1\r\n");
    check(
        |out| write::request_line(out, b"PUT", b"/v1", b"/a", Some(b"b=c")),
        "PUT /v1/a?b=c HTTP/1.1\r\n",
    );
    check(|out| write::request_line(out, b"GET", b"", b"/a", Some(b"")), "GET /a? HTTP/1.1\r\n");
    let old = |out: &mut Vec<u8>| {
        write::request_line(out, b"GET", b"", b"/a", None);
        write::as_http10(out);
    };
    check(old, "GET /a HTTP/1.0\r\n");
}

#[test]
fn a_status_line_has_its_reason() {
    check(|out| write::status_line(out, 200, write::reason(200).as_bytes()), "HTTP/1.1 200 OK\r\n");
    check(|out| write::status_line(out, 299, write::reason(299).as_bytes()), "HTTP/1.1 299 \r\n");
    check(|out| write::status_line(out, 502, b"a\r\nb: c"), "HTTP/1.1 502 a  b: c\r\n");
}

#[test]
fn every_status_that_the_gateway_sends_has_a_reason() {
    for status in
        [100, 400, 401, 403, 404, 405, 408, 413, 414, 417, 429, 431, 500, 501, 502, 503, 504, 505]
    {
        assert!(!write::reason(status).is_empty(), "{status}");
    }
}

#[test]
fn numbers_are_written_with_all_digits() {
    for number in [0, 1, 9, 10, 15, 16, 255, 256, 65_535, 1 << 32, u64::MAX - 1, u64::MAX] {
        check(|out| write::decimal(out, number), &number.to_string());
        check(|out| write::content_length(out, number), &format!("content-length: {number}\r\n"));
        if number > 0 {
            check(|out| write::chunk_header(out, number), &format!("{number:x}\r\n"));
        }
    }
}

#[test]
fn a_value_cannot_start_another_line() {
    check(|out| write::field(out, b"x-a", b"b\r\nc: d\0e\n"), "x-a: b  c: d e \r\n");
    check(|out| write::field(out, b"x-a", b""), "x-a: \r\n");
}

#[test]
fn the_last_chunk_is_followed_by_the_trailers() {
    check(|out| write::last_chunk(out, b""), "0\r\n\r\n");
    check(|out| write::last_chunk(out, b"A: b\r\n"), "0\r\nA: b\r\n\r\n");
}

#[test]
fn fields_are_copied_except_hop_by_hop_and_dropped_ones() {
    const DROP: KnownSet = KnownSet::of(&[Known::Host, Known::Authorization]);
    let lines = "A: 1\r\nB: 2\r\nAuthorization: x\r\nC:3\r\nD: \t 4  \r\nE:\r\nConnection: f\r\nF: 6\r\nG: 7\r\nH: 8\r\n";
    let text = with_fields(lines);
    let mut head = RequestHead::default();
    head.parse(text.as_bytes()).unwrap();
    check(
        |out| write::fields(out, text.as_bytes(), head.fields(), DROP),
        "A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: \r\nG: 7\r\nH: 8\r\n",
    );
    check(
        |out| {
            write::fields_where(out, text.as_bytes(), head.fields(), |field| {
                field.known == Known::Host
            })
        },
        "Host: api.example.org\r\n",
    );
    check(
        |out| write::fields(out, b"", head.fields(), KnownSet::of(&[Known::Other, Known::Host])),
        ": \r\n",
    );
}

#[track_caller]
fn check(write: impl Fn(&mut Vec<u8>), expect: &str) {
    let mut out = b"before ".to_vec();
    write(&mut out);
    assert_eq!(String::from_utf8(out).unwrap(), format!("before {expect}"));
}
