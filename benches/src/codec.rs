//! The HTTP/1.1 codec: the heads and bodies of an ordinary API call.

use std::hint::black_box;

use base::Method;
use wire::http1::{
    ChunkedDecoder, Known, KnownSet, Parsed, Piece, RequestHead, ResponseHead, Side, write,
};

/// A typical API request; the token is as long as an RS256 one.
fn request() -> Vec<u8> {
    let token = "x".repeat(700);
    format!(
        "POST /orders-0500/1.0.0/orders?dry=1 HTTP/1.1\r\nHost: api.example.org:8280\r\n\
         User-Agent: orders-client/2.4.1 (linux)\r\nAccept: application/json\r\nAccept-Encoding: gzip, br\r\n\
         Content-Type: application/json\r\nContent-Length: 1024\r\nX-Request-Id: 7d3f0c52b1e94b0c\r\n\
         Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\
         Authorization: Bearer {token}\r\nConnection: keep-alive\r\n\r\n"
    )
    .into_bytes()
}

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 00:00:00 GMT\r\nServer: backend\r\n\
    Content-Type: application/json\r\nContent-Length: 1024\r\nCache-Control: no-store\r\nVary: Accept\r\n\r\n";

pub(super) fn parse_request_head(times: usize) {
    let buf = request();
    let mut head = RequestHead::default();
    for _ in 0..times {
        let parsed = head.parse(black_box(&buf));
        assert!(matches!(parsed, Ok(Parsed::Complete)), "{parsed:?}");
        black_box(&head);
    }
}

pub(super) fn parse_response_head(times: usize) {
    let mut head = ResponseHead::default();
    for _ in 0..times {
        let parsed = head.parse(black_box(RESPONSE), Method::Post);
        assert!(matches!(parsed, Ok(Parsed::Complete)), "{parsed:?}");
        black_box(&head);
    }
}

/// The head as it is forwarded: another prefix, without the credential.
pub(super) fn write_request_head(times: usize) {
    const DROP: KnownSet = KnownSet::of(&[Known::Authorization, Known::Host]);
    let buf = request();
    let mut head = RequestHead::default();
    let parsed = head.parse(&buf);
    assert!(matches!(parsed, Ok(Parsed::Complete)), "{parsed:?}");
    let mut out = Vec::with_capacity(4096);
    for _ in 0..times {
        out.clear();
        let buf = black_box(buf.as_slice());
        write::request_line(
            &mut out,
            head.method_bytes(buf),
            b"/backend",
            head.path(buf),
            head.query(buf),
        );
        write::field(&mut out, b"host", b"127.0.0.1:8688");
        write::fields(&mut out, buf, head.fields(), DROP);
        write::end(&mut out);
        black_box(&out);
    }
}

pub(super) fn decode_chunked(times: usize) {
    let mut body = Vec::new();
    write::chunk_header(&mut body, 1024);
    body.extend([b'x'; 1024]);
    write::chunk_end(&mut body);
    write::last_chunk(&mut body, b"");
    for _ in 0..times {
        let mut decoder = ChunkedDecoder::new(Side::Request);
        let mut left = black_box(body.as_slice());
        let mut taken = 0;
        while let Ok(Piece::Data { skip, take }) = decoder.next(left) {
            taken += take;
            left = left.get(skip + take..).unwrap_or_default();
        }
        assert_eq!(taken, 1024);
        black_box(&decoder);
    }
}
