//! WebSocket messages of the echo backend: each frame is returned as it is. Source: RFC 6455.
//!
//! Whether fragments belong together is not checked: a client gets its own mistakes back.
//!
//! Architecture invariant: the result does not depend on how the frames were split into reads.

use base::Method;
use wire::http1::{Rejection, RequestHead};

use crate::frame::{self, BINARY, CLOSE, CONTROL_BYTES_MAX, FIN, MASKED, PING, PONG, masked};
use crate::limits;

/// Status codes of a CLOSE. Source: RFC 6455 section 7.4.1.
const PROTOCOL_ERROR: u16 = 1_002;
const TOO_BIG: u16 = 1_009;

/// Writes the response to an opening handshake.
///
/// # Errors
/// 400: it is incomplete.
pub(super) fn accept(head: &RequestHead, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Rejection> {
    const INVALID: Rejection = Rejection::new(400, "invalid WebSocket handshake");
    let field = |name: &[u8]| head.find_name(bytes, name).map(|field| field.value.of(bytes));
    let key = field(b"sec-websocket-key");
    let is_version_13 = field(b"sec-websocket-version") == Some(&b"13"[..]);
    let key = key.filter(|_| is_version_13 && head.method() == Method::Get).ok_or(INVALID)?;
    out.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n",
    );
    let accepted = wire::websocket::accept(key);
    out.extend_from_slice(format!("sec-websocket-accept: {accepted}\r\n\r\n").as_bytes());
    Ok(())
}

/// The result of [`echo`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echoed {
    /// Bytes at the front of the input that are done with.
    pub used: usize,
    /// Messages that were complete.
    pub messages: u64,
    /// The connection ends when the output is written.
    pub is_closed: bool,
}

/// Appends the responses to the complete frames of `input` to `out`.
pub fn echo(input: &[u8], out: &mut Vec<u8>) -> Echoed {
    let mut echoed = Echoed::default();
    while !echoed.is_closed {
        match Frame::read(input.get(echoed.used..).unwrap_or_default()) {
            Ok(None) => break,
            Ok(Some(frame)) => {
                echoed.used += frame.bytes;
                frame.answer(out, &mut echoed);
            }
            Err(status) => {
                echoed.is_closed = true;
                frame::header(out, FIN | CLOSE, 0, size_of::<u16>());
                out.extend_from_slice(&status.to_be_bytes());
            }
        }
    }
    echoed
}

/// A whole frame of a client.
struct Frame<'a> {
    first: u8,
    mask: [u8; 4],
    payload: &'a [u8],
    /// Length of the frame, with the header.
    bytes: usize,
}

impl<'a> Frame<'a> {
    /// The frame at the front of `input`; `None`: it is not complete. The error: the status to close with.
    fn read(input: &'a [u8]) -> Result<Option<Self>, u16> {
        let [first, second, rest @ ..] = input else { return Ok(None) };
        let (opcode, short) = (first & 0x0f, second & !MASKED);
        let extended = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let is_valid = match opcode {
            0..=BINARY => true,
            CLOSE..=PONG => first & FIN != 0 && usize::from(short) <= CONTROL_BYTES_MAX,
            _ => false,
        };
        // A client masks, and no extension was negotiated.
        if !is_valid || second & MASKED == 0 || first & 0x70 != 0 {
            return Err(PROTOCOL_ERROR);
        }
        let Some((length, rest)) = rest.split_at_checked(extended) else { return Ok(None) };
        let length = match extended {
            0 => u64::from(short),
            _ => length.iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > limits::ECHO_BODY_BYTES_MAX {
            return Err(TOO_BIG);
        }
        let Some((mask, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let bytes = input.len().saturating_sub(rest.len()).saturating_add(length);
        Ok(Some(Self { first: *first, mask: *mask, payload, bytes }))
    }

    fn answer(&self, out: &mut Vec<u8>, echoed: &mut Echoed) {
        let first = match self.first & 0x0f {
            PONG => return,
            PING => FIN | PONG,
            opcode => {
                echoed.is_closed = opcode == CLOSE;
                echoed.messages += u64::from(opcode < CLOSE && self.first & FIN != 0);
                self.first
            }
        };
        frame::header(out, first, 0, self.payload.len());
        masked(out, self.payload, self.mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_returned_without_their_mask() {
        check(&[&[0x81, 0x82, 1, 2, 3, 4], &[b'h' ^ 1, b'i' ^ 2]], b"\x81\x02hi", 1);
        let long = [&[0x82, 0xfe, 0, 200, 0, 0, 0, 0][..], &[7; 200]].concat();
        check(&[&long], &[&[0x82, 126, 0, 200][..], &[7; 200]].concat(), 1);
        check(
            &[&[0x01, 0x81, 0, 0, 0, 0, b'h'], &[0x80, 0x81, 0, 0, 0, 0, b'i']],
            b"\x01\x01h\x80\x01i",
            1,
        );
        check(&[&[0x89, 0x81, 0, 0, 0, 0, 7], &[0x8a, 0x80, 0, 0, 0, 0]], b"\x8a\x01\x07", 0);
        check(&[&[0x81, 0x82, 1, 2, 3]], b"", 0);
    }

    #[test]
    fn a_close_is_returned_and_ends_the_connection() {
        check(
            &[&[0x88, 0x82, 0, 0, 0, 0, 3, 0xe8], &[0x81, 0x80, 0, 0, 0, 0]],
            b"\x88\x02\x03\xe8",
            0,
        );
    }

    #[test]
    fn invalid_frames_end_the_connection() {
        let status = |status: u16| [&[0x88, 2][..], &status.to_be_bytes()].concat();
        for frame in [[0x81, 2], [0xc1, 0x82], [0x83, 0x80], [0x09, 0x80], [0x89, 0xfe]] {
            check(&[&frame], &status(1_002), 0);
        }
        check(&[&[0x82, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 1]], &status(1_009), 0);
    }

    /// The result must be the same however the input is split.
    #[track_caller]
    fn check(frames: &[&[u8]], expect: &[u8], messages: u64) {
        let bytes = frames.concat();
        for size in [bytes.len(), 1, 3] {
            let (mut input, mut out, mut found) = (Vec::new(), Vec::new(), 0);
            for part in bytes.chunks(size) {
                input.extend_from_slice(part);
                let echoed = echo(&input, &mut out);
                input.drain(..echoed.used);
                found += echoed.messages;
                if echoed.is_closed {
                    break;
                }
            }
            assert_eq!((&out[..], found), (expect, messages), "{bytes:x?} by {size}");
        }
    }
}
