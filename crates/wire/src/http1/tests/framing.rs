//! Where a request's body ends, and known payloads of request smuggling.

use super::super::{BodyFraming, RequestHead};
use super::{check, check_fields, with_fields};

#[test]
fn a_body_is_framed_by_length_or_by_chunks() {
    for (lines, expect) in [
        ("", BodyFraming::None),
        ("Content-Length: 0\r\n", BodyFraming::Length(0)),
        ("content-length: 9007199254740991\r\n", BodyFraming::Length((1 << 53) - 1)),
        ("Content-Length:  007 \r\n", BodyFraming::Length(7)),
        ("Transfer-Encoding: chunked\r\n", BodyFraming::Chunked),
        ("transfer-encoding:CHUNKED\t\r\n", BodyFraming::Chunked),
    ] {
        let text = with_fields(lines);
        check(&text, "ok");
        let mut head = RequestHead::default();
        head.parse(text.as_bytes()).unwrap();
        assert_eq!(head.framing(), expect, "{lines:?}");
    }
}

#[test]
fn an_ambiguous_length_is_rejected() {
    check_fields(
        &[
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: 5,\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: -5\r\n",
            "Content-Length: 5.0\r\n",
            "Content-Length: 0x5\r\n",
            "Content-Length: 5 5\r\n",
            "Content-Length: 5a\r\n",
            "Content-Length: \"5\"\r\n",
            "Content-Length:\r\n",
            "Content-Length: \u{665}\r\n",
            "Content-Length: 9007199254740992\r\n",
            "Content-Length: 18446744073709551615\r\n",
            "Content-Length: 18446744073709551616\r\n",
            "Content-Length: 99999999999999999999999\r\n",
        ],
        "400",
    );
}

#[test]
fn the_transfer_coding_must_be_exactly_chunked() {
    check_fields(
        &[
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: chunked,\r\n",
            "Transfer-Encoding: ,chunked\r\n",
            "Transfer-Encoding: chunked;q=1\r\n",
            "Transfer-Encoding: \"chunked\"\r\n",
            "Transfer-Encoding:\r\n",
            "Transfer-Encoding: \u{b}chunked\r\n",
            "Transfer-Encoding: chun ked\r\n",
        ],
        "400",
    );
    check_fields(
        &[
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked, gzip\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: xchunked\r\n",
        ],
        "501",
    );
    let old = with_fields("Transfer-Encoding: chunked\r\n").replace("HTTP/1.1", "HTTP/1.0");
    check(&old, "400");
}

#[test]
fn known_smuggling_payloads_are_rejected() {
    check_fields(
        &[
            // CL.TE and TE.CL: implementations disagree about which of the two applies.
            "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
            // TE.TE: one of two implementations ignores it.
            "Transfer-Encoding: chunked\r\nTransfer-encoding: x\r\n",
            "Transfer-Encoding : chunked\r\n",
            "Transfer-Encoding:\r\n chunked\r\n",
            "X: X\nTransfer-Encoding: chunked\r\n",
            " Transfer-Encoding: chunked\r\n",
            "X: X\rTransfer-Encoding: chunked\r\n",
            "Transfer\0-Encoding: chunked\r\n",
            // A disguised length.
            "Content-Length: 0\r\nContent-Length: 44\r\n",
            "Content-Length\u{b}: 44\r\n",
            "\u{feff}Content-Length: 44\r\n",
            // A second head within a value.
            "X-A: b\r\n\nGET /admin HTTP/1.1\r\n",
            "X-A: b\n\nGET /admin HTTP/1.1\r\nHost: a\r\n",
            // A second Host, plain and disguised.
            "Host: internal\r\n",
            " Host: internal\r\n",
        ],
        "400",
    );
}
