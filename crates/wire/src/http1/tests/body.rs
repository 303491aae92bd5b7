//! Chunked bodies.

use base::limits;

use super::super::{ChunkedDecoder, Piece, Side, properties};

#[test]
fn payload_is_separated_from_framing() {
    for (body, expect) in [
        ("0\r\n\r\n", "[] end"),
        ("5\r\nhello\r\n0\r\n\r\n", "[hello] end"),
        ("5\r\nhello\r\n6\r\n world\r\n000\r\n\r\n", "[hello world] end"),
        ("00000000000000aA\r\n", "[] more"),
        ("3\r\n\r\n0\r\n0\r\n\r\nGET /", "[\\r\\n0] end, 5 left"),
        ("5;a=b\r\nhello\r\n0; c = \"d e\"\t;f\r\n\r\n", "[hello] end"),
        ("5\r\nhel", "[hel] more"),
        ("5\r\nhello", "[hello] more"),
        ("", "[] more"),
        ("fffffffffffffffF\r\nab", "[ab] more"),
    ] {
        check(body, expect);
    }
}

#[test]
fn chunk_sizes_are_pure_hexadecimal_within_64_bits() {
    for body in [
        "\r\n",
        ";a\r\n",
        "g\r\n",
        "0x5\r\n",
        "+5\r\n",
        "-1\r\n",
        " 5\r\n",
        "5 \r\n",
        "5\t;a\r\n",
        "5_0\r\n",
        "5.\r\n",
        "10000000000000000\r\n",
        "00000000000000000\r\n",
        "5,5\r\n",
        "\u{665}\r\n",
        "\0",
    ] {
        check(body, "400");
    }
}

#[test]
fn lines_and_chunks_end_with_crlf() {
    for body in [
        "5\nhello\r\n0\r\n\r\n",
        "5\rhello",
        "5\r\r\n",
        "5;a\nhello",
        "5;a\rb\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhellox",
        "5\r\nhello\rx",
        "0\r\n\n",
        "0\r\n\rx",
        "0\n\r\n",
        "0\r\nA: b\n\r\n",
        "0\r\nA: b\r\r\n",
        "0\r\nA: b\r\n\n",
    ] {
        check(body, "400");
    }
}

#[test]
fn extensions_are_dropped() {
    for extensions in [
        ";a",
        ";a=b",
        ";a=\"\"",
        ";a=\"b;c=\\\"\\\\ \t\u{e9}\"",
        "; a\t= b ;c \t; d=\"e\" ;f",
        ";!#$%&'*+-.^_`|~09azAZ=1",
        ";chunk-signature=0123456789abcdef",
    ] {
        check(&format!("5{extensions}\r\nhello\r\n0{extensions}\r\n\r\n"), "[hello] end");
    }
}

#[test]
fn malformed_extensions_are_rejected() {
    for extensions in [
        ";",
        "; ",
        ";;a",
        ";a;",
        ";a=",
        ";a= ",
        ";a=;b",
        ";=b",
        ";a ",
        ";a=b ",
        ";a=\"b\" ",
        ";a b",
        ";a=b c",
        ";a=b=c",
        ";a=b\"c\"",
        ";a=\"b\"c",
        ";a=\"b",
        ";a=\"b\\\"",
        ";\"a\"",
        ";a/b",
        ";a=b,c",
        ";a=\u{e9}",
        ";a\0",
        ";a=\"\0\"",
        ";a=\"\\\u{7f}\"",
        ";a=\"b\r\nc\"",
        ";a=\"b\nc\"",
        ";a\n",
        ";a\rb",
    ] {
        check(&format!("0{extensions}\r\n\r\n"), "400");
        check(&format!("5{extensions}\r\nhello\r\n0\r\n\r\n"), "400");
    }
}

#[test]
fn extensions_of_a_chunk_are_limited() {
    let max = limits::CHUNK_EXTENSION_BYTES_MAX as usize;
    let chunk = |bytes: usize| format!("1;{}\r\nx\r\n", "a".repeat(bytes - 1));
    check(&format!("{}{}0\r\n\r\n", chunk(max), chunk(max)), "[xx] end");
    check(&chunk(max + 1), "400");
    check(&format!("1;a=\"{}", " ".repeat(max - 4)), "[] more");
    check(&format!("1;a=\"{}", " ".repeat(max - 3)), "400");
}

#[test]
fn extensions_above_the_payload_are_limited_in_sum() {
    let max = limits::CHUNK_OVERHEAD_BYTES_MAX as usize;
    let extension = format!(";{}", "a".repeat(15));
    // Each of these chunks has as many bytes of extensions as of payload.
    let signed = format!("10{extension}\r\n0123456789abcdef\r\n").repeat(2 * max / 16);
    decodes(&format!("{signed}0\r\n\r\n"), true);
    let wordy = format!("1{extension}\r\nx\r\n");
    let allowed = max / 15;
    decodes(&format!("{}0\r\n\r\n", wordy.repeat(allowed)), true);
    decodes(&format!("{}0\r\n\r\n", wordy.repeat(allowed + 1)), false);
    // Small chunks without extensions are legitimate.
    decodes(&format!("{}0\r\n\r\n", "1\r\nx\r\n".repeat(max)), true);

    #[track_caller]
    fn decodes(body: &str, expect: bool) {
        let mut decoder = ChunkedDecoder::new(Side::Request);
        let mut rest = body.as_bytes();
        let complete = loop {
            match decoder.next(rest) {
                Ok(Piece::Data { skip, take }) => rest = &rest[skip + take..],
                Ok(Piece::NeedMore { .. }) => panic!("the body is incomplete"),
                Ok(Piece::End { .. }) => break true,
                Err(rejection) => {
                    assert_eq!(rejection.status, 400);
                    break false;
                }
            }
        };
        assert_eq!(complete, expect);
    }
}

#[test]
fn trailers_are_forwarded_except_known_fields() {
    check(
        "0\r\nGrpc-Status:0 \r\nEtag: \"x\"\r\nX-Empty:\r\n\r\n",
        "[] end + Grpc-Status: 0|Etag: \"x\"|X-Empty: ",
    );
    for name in [
        "Content-Length",
        "Transfer-Encoding",
        "Host",
        "Connection",
        "Keep-Alive",
        "Trailer",
        "TE",
        "Upgrade",
        "Authorization",
        "Proxy-Authorization",
        "Expect",
        "Content-Type",
        "Content-Encoding",
        "Content-Range",
        "Range",
        "Cookie",
        "Set-Cookie",
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Whatever",
        "X_Forwarded_For",
        "X_Forwarded_Whatever",
        "X-JWT-Assertion",
        "X_JWT_Assertion",
        "Transfer_Encoding",
        "content_length",
        "Set_Cookie",
        "Proxy_Authorization",
        "Access-Control_Allow-Origin",
        "ApiKey",
        "Internal-Key",
        "Cache-Control",
        "If-None-Match",
        "Max-Forwards",
        "Location",
        "WWW-Authenticate",
        "Date",
        "Vary",
        "Origin",
        "Access-Control-Allow-Origin",
    ] {
        check(&format!("0\r\nA: b\r\n{name}: x\r\nC: d\r\n\r\n"), "[] end + A: b|C: d");
    }
    check("0\r\ncontent-length: 5\r\n\r\nhello", "[] end, 5 left");
}

#[test]
fn malformed_trailers_are_rejected() {
    for section in [
        "A\r\n",
        "A : b\r\n",
        ": b\r\n",
        " A: b\r\n",
        "A: b\r\n c\r\n",
        "A: \0\r\n",
        "A b: c\r\n",
        "\u{e9}: b\r\n",
    ] {
        check(&format!("0\r\n{section}\r\n"), "400");
    }
}

#[test]
fn trailers_above_their_limits_are_rejected() {
    let largest = limits::TRAILER_BYTES_MAX as usize - "A: \r\n\r\n".len();
    let expect = format!("[] end + A: {}", "b".repeat(largest));
    check(&format!("0\r\nA: {}\r\n\r\n", "b".repeat(largest)), &expect);
    check(&format!("0\r\nA: {}\r\n\r\n", "b".repeat(largest + 1)), "431");
    check(&format!("0\r\n{}\r\n", "A: b\r\n".repeat(limits::HEADER_FIELDS_MAX + 1)), "431");
}

#[test]
fn an_error_in_a_response_is_502_and_is_final() {
    let mut decoder = ChunkedDecoder::new(Side::Response);
    let first = decoder.next(b"x");
    assert_eq!(first.map_err(|rejection| rejection.status), Err(502));
    assert_eq!(decoder.next(b"5\r\n"), first);
    assert!(!decoder.is_done() && decoder.trailers().is_empty());
}

#[test]
fn a_finished_decoder_consumes_nothing() {
    let mut decoder = ChunkedDecoder::default();
    assert_eq!(decoder.next(b"0\r\n\r\nGET"), Ok(Piece::End { used: 5 }));
    assert_eq!(decoder.next(b"GET"), Ok(Piece::End { used: 0 }));
}

/// Decodes `body` as a request's, and compares payload, end, number of bytes left and trailers.
#[track_caller]
fn check(body: &str, expect: &str) {
    properties::chunked(body.as_bytes());
    let mut decoder = ChunkedDecoder::new(Side::Request);
    let (mut payload, mut rest) = (Vec::new(), body.as_bytes());
    let result = loop {
        match decoder.next(rest) {
            Ok(Piece::Data { skip, take }) => {
                payload.extend_from_slice(&rest[skip..skip + take]);
                rest = &rest[skip + take..];
            }
            Ok(Piece::NeedMore { .. }) => break format!("[{}] more", payload.escape_ascii()),
            Ok(Piece::End { used }) => {
                let left = rest.len() - used;
                let left = if left > 0 { format!(", {left} left") } else { String::new() };
                let trailers = String::from_utf8(decoder.trailers().to_vec()).unwrap();
                let lines: Vec<_> = trailers.split_terminator("\r\n").collect();
                let plus = if lines.is_empty() { "" } else { " + " };
                break format!("[{}] end{left}{plus}{}", payload.escape_ascii(), lines.join("|"));
            }
            Err(rejection) => break rejection.status.to_string(),
        }
    };
    assert_eq!(result, expect, "{body:?}");
}
