//! Parsing a response incrementally: bytes in, the request's outcome out. No socket, no clock.
//!
//! Bytes are processed in the read buffer; only an incomplete head is stored. A body is counted and searched,
//! never stored.
//!
//! Architecture invariant: the outcome does not depend on how the response was split into reads.

use std::fmt;

use base::Method;

use crate::limits;
use crate::load::search::Search;
use serde::{Deserialize, Serialize};
use wire::http1::{ChunkedDecoder, Parsed, Piece, Rejection, ResponseFraming, ResponseHead, Side};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// A 2xx whose body contains the expected text.
    Good,
    /// No connection, or no TLS session.
    Connect,
    /// The connection failed while the request was being written, without a response.
    Write,
    /// The connection ended before the response was complete.
    Closed,
    /// No complete response within the timeout.
    Timeout,
    /// Never sent, because no connection was free within the timeout (open loop).
    Unsent,
    /// The response was not valid HTTP.
    Protocol,
    /// The server reset the stream (HTTP/2).
    Reset,
    /// The body did not contain the expected text.
    BodyMismatch,
    /// The response lacks a value of the scenario, or such values make a request invalid, which is then not sent.
    Extract,
    /// A status other than 2xx.
    Status(u16),
    /// A gRPC status other than 0.
    Grpc(u16),
}

impl Outcome {
    /// The outcome of a complete response. `found`: its body contains the expected text.
    pub(crate) fn of_response(status: u16, found: bool) -> Self {
        match status {
            200..=299 if found => Self::Good,
            200..=299 => Self::BodyMismatch,
            status => Self::Status(status),
        }
    }

    pub(crate) fn is_error(self) -> bool {
        self != Self::Good
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good => out.write_str("good"),
            Self::Connect => out.write_str("connect"),
            Self::Write => out.write_str("write"),
            Self::Closed => out.write_str("closed"),
            Self::Timeout => out.write_str("timeout"),
            Self::Unsent => out.write_str("unsent"),
            Self::Protocol => out.write_str("protocol"),
            Self::Reset => out.write_str("reset"),
            Self::BodyMismatch => out.write_str("body-mismatch"),
            Self::Extract => out.write_str("extract"),
            Self::Status(status) => write!(out, "status-{status}"),
            Self::Grpc(status) => write!(out, "grpc-{status}"),
        }
    }
}

/// The state after the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadState {
    /// The response is incomplete.
    More,
    /// The response is complete. `keep`: the connection can be reused.
    Over { outcome: Outcome, keep: bool },
}

/// Parses the responses of one connection, one after another.
pub(crate) struct ResponseReader {
    method: Method,
    search: Option<Search>,
    captured: Captured,
    head: ResponseHead,
    /// An incomplete head.
    partial: Vec<u8>,
    interim: u32,
    state: State,
    status: u16,
    keep: bool,
    /// Bytes of the current response so far.
    received: u64,
}

enum State {
    Head,
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
}

/// `Some(rest)` if the body is complete, with `rest` bytes after its end.
type Beyond = Option<usize>;

impl ResponseReader {
    /// For responses to `method`, whose bodies must contain `expect`.
    pub(crate) fn new(method: Method, expect: Option<&[u8]>) -> Self {
        Self {
            method,
            search: expect.map(Search::new),
            captured: Captured::default(),
            head: ResponseHead::default(),
            partial: Vec::new(),
            interim: 0,
            state: State::Head,
            status: 0,
            keep: true,
            received: 0,
        }
    }

    /// Prepares for the next response.
    pub(crate) fn restart(&mut self) {
        self.partial.clear();
        self.interim = 0;
        self.state = State::Head;
        self.status = 0;
        self.keep = true;
        self.received = 0;
        if let Some(search) = &mut self.search {
            search.restart();
        }
    }

    /// Prepares for the response to another request.
    pub(crate) fn restart_for(
        &mut self,
        method: Method,
        search: Option<Search>,
        captured: Captured,
    ) {
        (self.method, self.search, self.captured) = (method, search, captured);
        self.restart();
    }

    pub(crate) fn captured(&self) -> &Captured {
        &self.captured
    }

    /// Bytes of the current response so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Status of the current response; 0 while there is none.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Processes the next bytes of the connection. Bytes after the end of a response are an error, since only
    /// one request is in flight.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> ReadState {
        self.received += bytes.len() as u64;
        match self.take(bytes) {
            Ok(None) => ReadState::More,
            Ok(Some(0)) => self.over(),
            Ok(Some(_)) | Err(_) => BROKEN,
        }
    }

    /// The connection ended.
    pub(crate) fn end(&mut self) -> ReadState {
        self.keep = false;
        match self.state {
            State::UntilClose => self.over(),
            State::Head | State::Length(_) | State::Chunked(_) => {
                ReadState::Over { outcome: Outcome::Closed, keep: false }
            }
        }
    }

    fn over(&self) -> ReadState {
        let found = self.search.as_ref().is_none_or(|search| search.found);
        ReadState::Over { outcome: Outcome::of_response(self.status, found), keep: self.keep }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<Beyond, Rejection> {
        match self.state {
            State::Head if self.partial.is_empty() => self.take_heads(bytes),
            State::Head => {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(bytes);
                let beyond = self.take_heads(&whole);
                // Keeps the allocation for the next incomplete head.
                if self.partial.is_empty() {
                    whole.clear();
                    self.partial = whole;
                }
                beyond
            }
            State::Length(_) | State::Chunked(_) | State::UntilClose => self.take_body(bytes),
        }
    }

    fn take_heads(&mut self, mut bytes: &[u8]) -> Result<Beyond, Rejection> {
        loop {
            match self.head.parse(bytes, self.method)? {
                Parsed::Partial => {
                    if bytes.len() > limits::RESPONSE_HEAD_BYTES_MAX as usize {
                        return Err(Rejection::new(502, "head too large"));
                    }
                    self.partial.extend_from_slice(bytes);
                    return Ok(None);
                }
                Parsed::Complete => {
                    if !self.head.is_interim() {
                        self.captured.add_head(bytes.get(..self.head.len()).unwrap_or_default());
                    }
                    bytes = bytes.get(self.head.len()..).unwrap_or_default();
                    if !self.head.is_interim() {
                        return self.begin_body(bytes);
                    }
                    self.interim += 1;
                    if self.interim > limits::INTERIM_RESPONSES_MAX {
                        return Err(Rejection::new(502, "too many interim responses"));
                    }
                }
            }
        }
    }

    fn begin_body(&mut self, bytes: &[u8]) -> Result<Beyond, Rejection> {
        self.status = self.head.status();
        self.keep = self.head.keep_alive();
        self.state = match self.head.framing() {
            ResponseFraming::None => State::Length(0),
            ResponseFraming::Length(length) => State::Length(length),
            ResponseFraming::Chunked => State::Chunked(ChunkedDecoder::new(Side::Response)),
            ResponseFraming::UntilClose => State::UntilClose,
        };
        self.take_body(bytes)
    }

    fn take_body(&mut self, bytes: &[u8]) -> Result<Beyond, Rejection> {
        match &mut self.state {
            State::Length(left) => {
                let here = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                let (body, rest) = bytes.split_at(here);
                *left -= here as u64;
                let over = *left == 0;
                see(&mut self.search, &mut self.captured, body);
                Ok(over.then_some(rest.len()))
            }
            State::Chunked(decoder) => {
                take_chunks(decoder, &mut self.search, &mut self.captured, bytes)
            }
            State::UntilClose => {
                see(&mut self.search, &mut self.captured, bytes);
                Ok(None)
            }
            State::Head => Err(Rejection::new(502, "body before head")),
        }
    }
}

const BROKEN: ReadState = ReadState::Over { outcome: Outcome::Protocol, keep: false };

fn take_chunks(
    decoder: &mut ChunkedDecoder,
    search: &mut Option<Search>,
    captured: &mut Captured,
    mut bytes: &[u8],
) -> Result<Beyond, Rejection> {
    loop {
        match decoder.next(bytes)? {
            Piece::NeedMore { .. } => return Ok(None),
            Piece::Data { skip, take } => {
                let body = bytes.get(skip..).unwrap_or_default();
                let (body, rest) = body.split_at_checked(take).unwrap_or((body, &[]));
                see(search, captured, body);
                bytes = rest;
            }
            Piece::End { used } => return Ok(Some(bytes.len().saturating_sub(used))),
        }
    }
}

fn see(search: &mut Option<Search>, captured: &mut Captured, body: &[u8]) {
    if let Some(search) = search {
        search.see(body);
    }
    captured.add_body(body);
}

/// Parts of a response from which values are extracted.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    head: Option<Vec<u8>>,
    body: Option<Vec<u8>>,
    is_cut: bool,
}

impl Captured {
    /// Keeps the parts that are wanted.
    pub(crate) fn new(head: bool, body: bool) -> Self {
        Self { head: head.then(Vec::new), body: body.then(Vec::new), is_cut: false }
    }

    /// The header fields, one per line.
    pub(crate) fn head(&self) -> &[u8] {
        self.head.as_deref().unwrap_or_default()
    }

    /// `None`: it was too long.
    pub(crate) fn body(&self) -> Option<&[u8]> {
        self.body.as_deref().filter(|_| !self.is_cut)
    }

    pub(crate) fn add_head(&mut self, bytes: &[u8]) {
        if let Some(head) = &mut self.head {
            head.extend_from_slice(bytes);
        }
    }

    pub(crate) fn add_body(&mut self, bytes: &[u8]) {
        let Some(body) = &mut self.body else { return };
        self.is_cut |= body.len().saturating_add(bytes.len()) > limits::SCENARIO_BODY_BYTES_MAX;
        if !self.is_cut {
            body.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const CHUNKED: &str =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";

    #[test]
    fn a_2xx_with_the_expected_text_is_good() {
        check(OK, Some("hello"), "good keep");
        check(OK, Some("ell"), "good keep");
        check(OK, Some(""), "good keep");
        check(OK, None, "good keep");
        check("HTTP/1.1 204 No Content\r\n\r\n", None, "good keep");
    }

    #[test]
    fn a_text_is_found_across_chunks() {
        check(CHUNKED, Some("hello"), "good keep");
        check(CHUNKED, Some("lo"), "good keep");
        check(CHUNKED, Some("hallo"), "body-mismatch keep");
    }

    #[test]
    fn only_the_body_is_searched() {
        check(OK, Some("200"), "body-mismatch keep");
        check(OK, Some("hellooo"), "body-mismatch keep");
        check("HTTP/1.1 204 No Content\r\n\r\n", Some("x"), "body-mismatch keep");
    }

    #[test]
    fn other_statuses_take_precedence_over_the_body() {
        check("HTTP/1.1 503 Busy\r\nContent-Length: 1\r\n\r\nx", Some("x"), "status-503 keep");
        check("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", None, "status-302 keep");
        check("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", None, "status-304 keep");
    }

    #[test]
    fn connection_close_is_not_an_error() {
        check(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
            Some("hi"),
            "good close",
        );
        check("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", None, "good close");
    }

    #[test]
    fn a_body_until_close_ends_with_the_connection() {
        check("HTTP/1.1 200 OK\r\n\r\nhello", Some("hello"), "more good close");
        check("HTTP/1.1 200 OK\r\n\r\nhello", Some("x"), "more body-mismatch close");
    }

    #[test]
    fn a_truncated_response_is_closed() {
        check("", None, "more closed close");
        check("HTTP/1.1 200 OK\r\nConte", None, "more closed close");
        check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", None, "more closed close");
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
            None,
            "more closed close",
        );
    }

    #[test]
    fn interim_responses_are_skipped_up_to_a_limit() {
        let interim = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
        let most = interim.repeat(limits::INTERIM_RESPONSES_MAX as usize);
        check(&format!("{interim}{OK}"), Some("hello"), "good keep");
        check(&format!("{most}{OK}"), None, "good keep");
        check(&format!("{most}{interim}{OK}"), None, "protocol close");
    }

    #[test]
    fn invalid_http_is_a_protocol_error() {
        check("SSH-2.0-OpenSSH\r\n\r\n", None, "protocol close");
        check("HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\nx", None, "protocol close");
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", None, "protocol close");
    }

    #[test]
    fn bytes_after_the_response_are_a_protocol_error() {
        let mut reader = ResponseReader::new(Method::Post, None);
        assert_eq!(reader.feed(format!("{OK}HTTP/1.1").as_bytes()), BROKEN);
        reader.restart();
        assert_eq!(reader.feed(format!("{CHUNKED}H").as_bytes()), BROKEN);
    }

    #[test]
    fn a_response_to_head_has_no_body() {
        let mut reader = ResponseReader::new(Method::Head, None);
        let head = OK.trim_end_matches("hello");
        let good = ReadState::Over { outcome: Outcome::Good, keep: true };
        assert_eq!(reader.feed(head.as_bytes()), good);
    }

    #[test]
    fn an_endless_head_is_a_protocol_error() {
        let mut reader = ResponseReader::new(Method::Get, None);
        let mut reading = reader.feed(b"HTTP/1.1 200 OK\r\nX: ");
        let mut pieces = 0_u32;
        while reading == ReadState::More {
            reading = reader.feed(&[b'x'; 1_000]);
            pieces += 1;
            assert!(pieces * 1_000 < 2 * limits::RESPONSE_HEAD_BYTES_MAX);
        }
        assert_eq!(reading, BROKEN);
    }

    #[test]
    fn bytes_are_counted_per_response() {
        let mut reader = ResponseReader::new(Method::Post, None);
        reader.feed(OK.as_bytes());
        assert_eq!(reader.received(), OK.len() as u64);
        reader.restart();
        assert_eq!(reader.received(), 0);
    }

    /// The outcome must be the same for the whole response, any split in two, and byte by byte.
    #[track_caller]
    fn check(response: &str, text: Option<&str>, expect: &str) {
        let bytes = response.as_bytes();
        for cut in 0..=bytes.len() {
            let (left, right) = bytes.split_at(cut);
            assert_eq!(verdict(&[left, right], text), expect, "cut at {cut} of {response:?}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(verdict(&single, text), expect, "byte by byte: {response:?}");
    }

    fn verdict(pieces: &[&[u8]], text: Option<&str>) -> String {
        let mut reader = ResponseReader::new(Method::Post, text.map(str::as_bytes));
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            if let ReadState::Over { outcome, keep } = reader.feed(piece) {
                return format!("{outcome} {}", kept(keep));
            }
        }
        match reader.end() {
            ReadState::Over { outcome, keep } => format!("more {outcome} {}", kept(keep)),
            ReadState::More => "more".to_owned(),
        }
    }

    fn kept(keep: bool) -> &'static str {
        if keep { "keep" } else { "close" }
    }
}
