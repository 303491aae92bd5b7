//! The properties with generated input: valid heads, heads with a few bytes changed, and random bytes.

use proptest::prelude::*;

use super::super::properties;

/// Field lines, some of them valid.
const LINES: &[&str] = &[
    "Host: a\r\n",
    "Host: b:80\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 5,5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip\r\n",
    "Connection: close, x-a\r\n",
    "Connection: host\r\n",
    "X-A:b\r\n",
    "x-a: \t b \t\r\n",
    "X-Empty:\r\n",
    "Expect: 100-continue\r\n",
    "Expect: x\r\n",
    "Upgrade: websocket\r\n",
    "Cookie: a=b; c=d\r\n",
    "X-High: \u{e9}\r\n",
    "Bad Name: x\r\n",
    "NoColon\r\n",
    " folded\r\n",
    "Lf: x\n",
    "Cr: x\ry\r\n",
    "X_Forwarded_For: c\r\n",
    "Transfer_Encoding: chunked\r\n",
    "content-length: 9007199254740992\r\n",
];
const STARTS: &[&str] = &[
    "GET / HTTP/1.1\r\n",
    "POST /a/../b%41?c HTTP/1.1\r\n",
    "GET http://a/b HTTP/1.1\r\n",
    "OPTIONS * HTTP/1.1\r\n",
    "CONNECT a:1 HTTP/1.1\r\n",
    "GET /%2e%2e HTTP/1.1\r\n",
    "PUT /a HTTP/1.0\r\n",
    "GET / HTTP/2.0\r\n",
    "\r\nGET / HTTP/1.1\r\n",
    "GET /# HTTP/1.1\r\n",
    "GET / HTTP/1.1\n",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 204\r\n",
    "HTTP/1.0 304 \r\n",
    "HTTP/1.1 100 a\r\n",
    "HTTP/1.1 101 b\r\n",
    "HTTP/1.1 600 c\r\n",
    "HTTP/1.1 200\tOK\r\n",
];
const CHUNKS: &[&str] = &[
    "5\r\nhello\r\n",
    "A;x=\"y\"\r\n0123456789\r\n",
    "1 ;x\r\n",
    ";a = \"\\\"\";b\r\n",
    "0\r\n",
    "\r\n",
    "X-T: u\r\n",
    "Host: x\r\n",
    "1\nx\r\n",
    "g\r\n",
    "ffffffffffffffff\r\n",
    "11111111111111111\r\n",
    "2\r\n\r\n\r\n",
    "Bad\r\n",
];

fn lines(
    starts: &'static [&'static str],
    lines: &'static [&'static str],
) -> impl Strategy<Value = Vec<u8>> {
    let start = proptest::sample::select(starts);
    let rest = proptest::collection::vec(proptest::sample::select(lines), 0..8);
    let changes = proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..3);
    (start, rest, any::<bool>(), changes).prop_map(|(start, rest, ended, changes)| {
        let mut bytes = [start.as_bytes(), rest.concat().as_bytes()].concat();
        bytes.extend_from_slice(if ended { b"\r\n" } else { b"" });
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_result_for_a_head_does_not_depend_on_how_it_is_split(bytes in lines(STARTS, LINES)) {
        properties::request_head(&bytes);
        properties::response_head(&bytes);
    }

    #[test]
    fn the_payload_of_a_chunked_body_does_not_depend_on_how_it_is_split(
        bytes in lines(CHUNKS, CHUNKS),
    ) {
        properties::chunked(&bytes);
    }

    #[test]
    fn the_result_for_random_bytes_does_not_depend_on_how_they_are_split(
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        properties::request_head(&bytes);
        properties::response_head(&bytes);
        properties::chunked(&bytes);
    }

    #[test]
    fn extensions_of_special_pieces_follow_the_grammar(
        pieces in proptest::collection::vec(
            proptest::sample::select(&[";", "=", "a", "b1", "\"", "\\", " ", "\t", "\"c d\"", "\u{e9}", "\0", ","][..]),
            0..10,
        ),
    ) {
        properties::chunked(pieces.concat().as_bytes());
    }

    #[test]
    fn a_path_of_special_pieces_is_normalised_once(
        pieces in proptest::collection::vec(
            proptest::sample::select(&["/", ".", "..", "%2e", "%2F", "%25", "%61", "a", ";", "%", "\\", "%00", "//", "?", "%5c", "..%2f", "%5C.", "%3b", "%3F", "%23"][..]),
            0..10,
        ),
    ) {
        let head = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", pieces.concat());
        properties::request_head(head.as_bytes());
    }
}
