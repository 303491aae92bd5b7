//! gRPC calls over HTTP/2: messages with a length prefix, and a status in the trailers. Messages are bytes: nothing
//! here knows a `.proto` file.
//!
//! A call with any number of messages is one request. Source: "gRPC over HTTP2", grpc/grpc.

use crate::limits;
use crate::load::LoadError;
use crate::load::response::Outcome;

/// Header fields of every call.
pub(super) const FIELDS: [(&str, &str); 2] =
    [("content-type", "application/grpc"), ("te", "trailers")];

/// Compression flag and length.
const PREFIX_BYTES: usize = 5;

/// A request body of `count` uncompressed messages.
///
/// # Errors
/// [`LoadError::Usage`]: it is too long.
pub(super) fn framed(message: &[u8], count: usize) -> Result<Vec<u8>, LoadError> {
    let most = limits::PAYLOAD_BYTES_MAX;
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    if message.len().saturating_add(PREFIX_BYTES).saturating_mul(count) > most {
        return Err(LoadError::Usage(format!("grpc: a call of more than {most} bytes")));
    }
    Ok([&[0][..], &length, message].concat().repeat(count))
}

/// Counts the messages of a response body, which arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct Messages {
    prefix: [u8; PREFIX_BYTES],
    /// Bytes of the prefix so far.
    has: usize,
    /// Bytes that the current message lacks.
    left: usize,
    pub(super) count: u64,
}

impl Messages {
    pub(super) fn see(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let here = self.left.min(bytes.len());
                self.left -= here;
                self.count += u64::from(self.left == 0);
                bytes = bytes.get(here..).unwrap_or_default();
                continue;
            }
            if let Some(place) = self.prefix.get_mut(self.has) {
                *place = *first;
            }
            self.has += 1;
            bytes = rest;
            if self.has == PREFIX_BYTES {
                let [_, length @ ..] = self.prefix;
                self.left = u32::from_be_bytes(length) as usize;
                self.has = 0;
                self.count += u64::from(self.left == 0);
            }
        }
    }

    /// The outcome of a response that ended with these fields: its trailers, or its head if there was nothing else.
    pub(super) fn outcome(&self, of_http: Outcome, fields: &[u8]) -> Outcome {
        if matches!(of_http, Outcome::Status(_)) {
            return of_http;
        }
        let fields = String::from_utf8_lossy(fields);
        let mut fields = fields.lines().filter_map(|line| line.split_once(':'));
        let status = fields.find(|(name, _)| *name == "grpc-status");
        match status.and_then(|(_, status)| status.trim().parse().ok()) {
            Some(0) if self.left > 0 || self.has > 0 => Outcome::Protocol,
            Some(0) => of_http,
            Some(status) => Outcome::Grpc(status),
            None => Outcome::Protocol,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn framed(message: &[u8], count: usize) -> Vec<u8> {
        super::framed(message, count).unwrap()
    }

    #[test]
    fn messages_are_counted_however_they_are_split() {
        let body = [framed(b"one", 2), framed(b"", 1), framed(&[7; 300], 1)].concat();
        for size in 1..=body.len() {
            let mut messages = Messages::default();
            body.chunks(size).for_each(|part| messages.see(part));
            assert_eq!((messages.count, messages.left, messages.has), (4, 0, 0), "{size}");
        }
    }

    #[test]
    fn the_status_of_the_trailers_decides() {
        let status = |text: &str| format!("a: b\r\ngrpc-status: {text}\r\n").into_bytes();
        for (body, http, fields, expect) in [
            (framed(b"x", 1), Outcome::Good, status("0"), Outcome::Good),
            (framed(b"x", 1), Outcome::BodyMismatch, status("0"), Outcome::BodyMismatch),
            (vec![0, 0], Outcome::Good, status("0"), Outcome::Protocol),
            (vec![0, 0, 0, 0, 2, 7], Outcome::Good, status("0"), Outcome::Protocol),
            (vec![], Outcome::Good, status("14"), Outcome::Grpc(14)),
            (vec![], Outcome::Good, status("x"), Outcome::Protocol),
            (vec![], Outcome::Good, vec![], Outcome::Protocol),
            (vec![], Outcome::Status(503), vec![], Outcome::Status(503)),
        ] {
            let mut messages = Messages::default();
            messages.see(&body);
            assert_eq!(messages.outcome(http, &fields), expect, "{body:?}");
        }
    }

    #[test]
    fn a_call_has_a_greatest_length() {
        let message = vec![0; limits::PAYLOAD_BYTES_MAX / 10];
        assert!(super::framed(&message, 9).is_ok() && super::framed(&message, 10).is_err());
    }
}
