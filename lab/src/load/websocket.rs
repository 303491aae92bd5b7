//! WebSocket messages: each user has a connection and sends one message after another, each when the message before
//! it was answered by one. Source: RFC 6455.
//!
//! The frame of the message is prepared once, with one mask for the whole measurement: masks protect proxies from
//! content that a script chose (section 10.3), and a generator runs no scripts. A PING is answered with the next
//! message.
//!
//! Architecture invariant: the outcome does not depend on how the frames were split into reads.

use base::{Entropy, Method, SystemEntropy};
use echo::frame::{
    BINARY, CLOSE, CONTROL_BYTES_MAX, FIN, MASKED, PING, PONG, TEXT, header, masked,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::http1::{Parsed, ResponseHead};
use wire::stream::Stream;
use wire::websocket;

use crate::limits;
use crate::load::request::Prepared;
use crate::load::response::Outcome;
use crate::load::search::Search;

const VERSION: &str = "13";

/// Opening handshake of all connections of a measurement.
pub(crate) struct Handshake {
    key: [u8; 16],
    mask: [u8; 4],
}

impl Handshake {
    pub(crate) fn new() -> Self {
        let mut own = Self { key: [0; 16], mask: [0; 4] };
        SystemEntropy.fill(&mut own.key);
        SystemEntropy.fill(&mut own.mask);
        own
    }

    /// The header fields of the opening handshake.
    pub(crate) fn fields(&self) -> [(String, String); 4] {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        [
            field("Upgrade", "websocket"),
            field("Connection", "Upgrade"),
            field("Sec-WebSocket-Version", VERSION),
            field("Sec-WebSocket-Key", &websocket::key(self.key)),
        ]
    }

    pub(crate) fn message(&self, payload: &[u8]) -> Prepared {
        Prepared::of_frame(message(payload, self.mask))
    }

    /// Sends the opening handshake with token number `turn`, and reads its response. The error has the reason.
    pub(crate) async fn open(
        &self,
        stream: &mut Stream,
        request: &Prepared,
        turn: usize,
    ) -> Result<(), Outcome> {
        let request = request.rest(turn, 0).map(|part| part.to_vec()).concat();
        stream.write_all(&request).await.map_err(|_| Outcome::Write)?;
        stream.flush().await.map_err(|_| Outcome::Write)?;
        let mut received = Vec::new();
        let mut head = ResponseHead::default();
        loop {
            // Byte by byte: the bytes after the head are the first frame.
            received.push(stream.read_u8().await.map_err(|_| Outcome::Closed)?);
            if received.len() > limits::RESPONSE_HEAD_BYTES_MAX as usize {
                return Err(Outcome::Protocol);
            }
            if !received.ends_with(b"\r\n\r\n") {
                continue;
            }
            match head.parse(&received, Method::Get) {
                Ok(Parsed::Complete) if head.is_interim() => received.clear(),
                Ok(Parsed::Complete) => break,
                Ok(Parsed::Partial) | Err(_) => return Err(Outcome::Protocol),
            }
        }
        if head.status() != 101 {
            return Err(Outcome::Status(head.status()));
        }
        let accepted = head.find_name(&received, b"sec-websocket-accept");
        let expect = websocket::accept(websocket::key(self.key).as_bytes());
        let is_right = accepted.is_some_and(|field| field.value.of(&received) == expect.as_bytes());
        if is_right { Ok(()) } else { Err(Outcome::Protocol) }
    }
}

/// A frame with a whole message: text if it is UTF-8, otherwise binary.
fn message(payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let opcode = if std::str::from_utf8(payload).is_ok() { TEXT } else { BINARY };
    frame(opcode, payload, mask)
}

fn frame(opcode: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let mut out = Vec::new();
    header(&mut out, FIN | opcode, MASKED, payload.len());
    out.extend_from_slice(&mask);
    masked(&mut out, payload, mask);
    out
}

/// Reads the frames of a server.
pub(crate) struct MessageReader {
    search: Option<Search>,
    /// Bytes of the current frame's header so far.
    header: Vec<u8>,
    /// Bytes that the current frame lacks.
    left: u64,
    opcode: u8,
    is_final: bool,
    /// A message has begun, and its last frame is missing.
    is_fragmented: bool,
    control: Vec<u8>,
    /// The payload of a PING that is to be answered.
    pinged: Option<Vec<u8>>,
    received: u64,
}

impl MessageReader {
    pub(crate) fn new(expect: Option<&[u8]>) -> Self {
        Self {
            search: expect.map(Search::new),
            header: Vec::new(),
            left: 0,
            opcode: 0,
            is_final: false,
            is_fragmented: false,
            control: Vec::new(),
            pinged: None,
            received: 0,
        }
    }

    /// Prepares for the response to the next message, on the same connection or on a new one.
    pub(super) fn restart(&mut self, is_new: bool) {
        self.received = 0;
        if let Some(search) = &mut self.search {
            search.restart();
        }
        if is_new {
            self.header.clear();
            (self.left, self.is_fragmented, self.pinged) = (0, false, None);
        }
    }

    /// Bytes since the last message was sent.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// The PONG to send before anything else.
    pub(super) fn pong(&mut self, handshake: &Handshake) -> Option<Vec<u8>> {
        self.pinged.take().map(|payload| frame(PONG, &payload, handshake.mask))
    }

    /// Processes the next bytes of the connection. `Some`: a message is complete, or the connection of no more use.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Option<Outcome> {
        self.received += bytes.len() as u64;
        let mut complete = None;
        while let Some((first, rest)) = bytes.split_first() {
            if self.header_ends() {
                let here = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                let (part, rest) = bytes.split_at(here);
                self.left -= here as u64;
                bytes = rest;
                self.payload(part);
            } else {
                self.header.push(*first);
                bytes = rest;
                if self.header_ends() && self.begin().is_none() {
                    return Some(Outcome::Protocol);
                }
            }
            if !self.header_ends() || self.left > 0 {
                continue;
            }
            self.header.clear();
            match self.end() {
                // Two messages, though one was sent.
                Some(Outcome::Good | Outcome::BodyMismatch) if complete.is_some() => {
                    return Some(Outcome::Protocol);
                }
                Some(Outcome::Closed) => return Some(Outcome::Closed),
                ended => complete = ended.or(complete),
            }
        }
        complete
    }

    /// Whether the header of the current frame is complete.
    fn header_ends(&self) -> bool {
        let more = match self.header.get(1).map(|length| length & 0x7f) {
            None => return false,
            Some(126) => 2,
            Some(127) => 8,
            Some(_) => 0,
        };
        self.header.len() >= 2 + more
    }

    /// Begins a frame. `None`: it is not valid.
    fn begin(&mut self) -> Option<()> {
        let (first, second) = (*self.header.first()?, *self.header.get(1)?);
        let extended = self.header.get(2..)?.iter();
        let extended = extended.fold(0, |length, byte| length << 8 | u64::from(*byte));
        self.left = if second < 126 { u64::from(second) } else { extended };
        (self.opcode, self.is_final) = (first & 0x0f, first & FIN != 0);
        let is_control = self.opcode >= CLOSE;
        let is_valid = match self.opcode {
            // A continuation needs a beginning, and a beginning none.
            0 => self.is_fragmented,
            TEXT | BINARY => !self.is_fragmented,
            CLOSE..=PONG => self.is_final && self.left <= CONTROL_BYTES_MAX as u64,
            _ => false,
        };
        self.control.clear();
        if !is_control {
            self.is_fragmented = !self.is_final;
        }
        // A server does not mask, and no extension was negotiated.
        (is_valid && second & MASKED == 0 && first & 0x70 == 0).then_some(())
    }

    fn payload(&mut self, part: &[u8]) {
        if self.opcode >= CLOSE {
            self.control.extend_from_slice(part);
        } else if let Some(search) = &mut self.search {
            search.see(part);
        }
    }

    /// The current frame is complete.
    fn end(&mut self) -> Option<Outcome> {
        match self.opcode {
            CLOSE => Some(Outcome::Closed),
            PING => {
                self.pinged = Some(std::mem::take(&mut self.control));
                None
            }
            0..CLOSE if self.is_final => {
                let found = self.search.as_ref().is_none_or(|search| search.found);
                Some(if found { Outcome::Good } else { Outcome::BodyMismatch })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_masked_and_have_their_length() {
        // Section 5.7.
        let hello = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        assert_eq!(message(b"Hello", [0x37, 0xfa, 0x21, 0x3d]), hello);
        assert_eq!(message(&[0xff; 126], [0; 4])[..4], [0x82, 0xfe, 0, 126]);
        let long = message(&vec![b'x'; 65_536], [0; 4]);
        assert_eq!(long[..10], [0x81, 0xff, 0, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn responses_are_read_however_they_are_split() {
        let hello: &[u8] = &[0x81, 5, b'H', b'e', b'l', b'l', b'o'];
        check(&[hello], "good");
        check(&[&[0x81, 126, 0, 5], b"Hello"], "good");
        check(&[&[0x81, 127, 0, 0, 0, 0, 0, 0, 0, 5], b"Hello"], "good");
        check(&[&[0x01, 2, b'H', b'e'], &[0x80, 3, b'l', b'l', b'o']], "good");
        check(&[&[0x01, 2, b'H', b'e'], &[0x89, 1, 7], &[0x80, 3, b'l', b'l', b'o']], "good pong");
        check(&[&[0x89, 0], hello], "good pong");
        check(&[&[0x8a, 0], hello], "good");
        check(&[hello, &[0x89, 0]], "good pong");
        check(&[&[0x82, 1, b'x']], "body-mismatch");
        check(&[&[0x82, 0]], "body-mismatch");
        check(&[&[0x88, 2, 3, 0xe8]], "closed");
        check(&[&[0x81, 0x85, 0, 0, 0, 0], b"Hello"], "protocol");
        check(&[&[0xc1, 5], b"Hello"], "protocol");
        check(&[&[0x80, 5], b"Hello"], "protocol");
        check(&[&[0x01, 1, b'H'], &[0x81, 4], b"ello"], "protocol");
        check(&[&[0x89, 126, 0, 126]], "protocol");
        check(&[&[0x83, 0]], "protocol");
        check(&[&[0x81, 5, b'H']], "more");
    }

    /// The outcome must be the same for the whole response and byte by byte.
    #[track_caller]
    fn check(frames: &[&[u8]], expect: &str) {
        let bytes = frames.concat();
        for size in [bytes.len(), 1, 3] {
            let mut reader = MessageReader::new(Some(b"Hello"));
            let mut found = "more".to_owned();
            for part in bytes.chunks(size) {
                let outcome = reader.feed(part);
                if let Some(outcome) = outcome {
                    found = outcome.to_string();
                    if matches!(outcome, Outcome::Protocol | Outcome::Closed) {
                        break;
                    }
                }
            }
            if reader.pong(&Handshake::new()).is_some() {
                found.push_str(" pong");
            }
            assert_eq!(found, expect, "{bytes:x?} by {size}");
        }
    }
}
