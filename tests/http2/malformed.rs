//! Requests that RFC 9113 calls malformed, and what HTTP/1.1 rejects as well.

use std::io::Write;
use std::net::TcpStream;

use harness::{Gateway, Upstream, api};

use crate::raw::{connect, frame, read};

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END_HEADERS: u8 = 4;
const WHOLE: u8 = 5;
const PROTOCOL_ERROR: &[u8] = &1_u32.to_be_bytes();

/// A block of literal fields. Source: RFC 7541 section 6.2.2.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let string = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    fields
        .iter()
        .flat_map(|(name, value)| [vec![0], string(name), string(value)].concat())
        .collect()
}

const GOOD: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":path", "/a/x"), (":authority", "me")];

/// The next frame that concerns a stream: its type, and what follows the header.
fn next(tcp: &mut TcpStream) -> (u8, Vec<u8>) {
    loop {
        let (kind, payload) = read(tcp).expect("the connection stays open");
        if matches!(kind, 0 | HEADERS | RST_STREAM) {
            return (kind, payload);
        }
    }
}

#[test]
fn a_malformed_field_ends_its_stream_and_not_the_connection() {
    let upstream = Upstream::fixed("in");
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let mut tcp = connect(&gateway);
    let malformed = [
        ("X-Upper", "1"),
        ("x y", "1"),
        ("x", "1\r\ny: 2"),
        ("x", "\0"),
        ("", "1"),
        (":unknown", "1"),
    ];
    for (stream, field) in (1..).step_by(4).zip(malformed) {
        let fields = [&GOOD[..], &[field]].concat();
        tcp.write_all(&frame(HEADERS, WHOLE, stream, &block(&fields))).unwrap();
        assert_eq!(next(&mut tcp), (RST_STREAM, PROTOCOL_ERROR.to_vec()), "{field:?}");
        tcp.write_all(&frame(HEADERS, WHOLE, stream + 2, &block(&GOOD))).unwrap();
        assert_eq!((next(&mut tcp).0, next(&mut tcp).1), (HEADERS, b"in".to_vec()), "{field:?}");
    }
    assert_eq!(upstream.requests().len(), malformed.len());
}

#[test]
fn a_fragment_is_rejected_as_over_http_1_1() {
    let upstream = Upstream::refusing();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let mut tcp = connect(&gateway);
    let mut fields = GOOD;
    fields[2] = (":path", "/a/x#y");
    tcp.write_all(&frame(HEADERS, WHOLE, 1, &block(&fields))).unwrap();
    let (kind, head) = next(&mut tcp);
    // After the size of the dynamic table, `:status: 400` is entry 12 of the static one.
    assert_eq!((kind, head.get(..2)), (HEADERS, Some(&[0x20, 0x8c][..])));
    assert_eq!(gateway.fetch("POST /a/x#y", "").status, 400);
}

#[test]
fn pseudo_fields_in_trailers_reset_the_stream() {
    for trailers in [
        &[(":path", "/q"), ("x-t", "1")][..],
        &[("x-t", "1"), (":path", "/q")],
        &[(":status", "200")],
    ] {
        let upstream = Upstream::manual();
        let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
        let mut tcp = connect(&gateway);
        tcp.write_all(&frame(HEADERS, END_HEADERS, 1, &block(&GOOD))).unwrap();
        let mut connection = upstream.accept();
        connection.request_head();
        tcp.write_all(&frame(HEADERS, WHOLE, 1, &block(trailers))).unwrap();
        assert_eq!(next(&mut tcp), (RST_STREAM, PROTOCOL_ERROR.to_vec()), "{trailers:?}");
        connection.expect_close();
    }
}
