//! Requests that RFC 9113 calls malformed, and those that HTTP/1.1 rejects as well.

use harness::frames::{DATA, END_HEADERS, END_STREAM, FrameClient, HEADERS, RST_STREAM, frame};
use harness::{Gateway, Upstream, api};

const WHOLE: u8 = END_STREAM | END_HEADERS;
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

/// The next frame that concerns a stream: its type, and its payload.
fn next(client: &mut FrameClient) -> (u8, Vec<u8>) {
    loop {
        let (kind, payload) = client.read().expect("the connection stays open");
        if matches!(kind, DATA | HEADERS | RST_STREAM) {
            return (kind, payload);
        }
    }
}

#[test]
fn a_malformed_field_ends_its_stream_and_not_the_connection() {
    let upstream = Upstream::fixed("in");
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let mut client = FrameClient::connect(gateway.http());
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
        client.send(&frame(HEADERS, WHOLE, stream, &block(&fields)));
        assert_eq!(next(&mut client), (RST_STREAM, PROTOCOL_ERROR.to_vec()), "{field:?}");
        client.send(&frame(HEADERS, WHOLE, stream + 2, &block(&GOOD)));
        assert_eq!(
            (next(&mut client).0, next(&mut client).1),
            (HEADERS, b"in".to_vec()),
            "{field:?}"
        );
    }
    assert_eq!(upstream.requests().len(), malformed.len());
}

#[test]
fn a_fragment_is_rejected_as_over_http_1_1() {
    let upstream = Upstream::refusing();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let mut client = FrameClient::connect(gateway.http());
    let mut fields = GOOD;
    fields[2] = (":path", "/a/x#y");
    client.send(&frame(HEADERS, WHOLE, 1, &block(&fields)));
    let (kind, head) = next(&mut client);
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
        let mut client = FrameClient::connect(gateway.http());
        client.send(&frame(HEADERS, END_HEADERS, 1, &block(&GOOD)));
        let mut connection = upstream.accept();
        connection.request_head();
        client.send(&frame(HEADERS, WHOLE, 1, &block(trailers)));
        assert_eq!(next(&mut client), (RST_STREAM, PROTOCOL_ERROR.to_vec()), "{trailers:?}");
        connection.expect_close();
    }
}
