//! The HTTP/1.1 codec: bytes in, offsets and verdicts out. No sockets, no clock, no allocation in
//! the steady state.
//!
//! Life of a request: **listen** parses a [`RequestHead`] over the connection's own buffer;
//! **forward** writes the next head with [`write`] from those offsets, and reads the backend's
//! [`ResponseHead`]. Chunked bodies pass through [`ChunkedDecoder`].
//!
//! A head is read several bytes at a time ([`swar`]), which finds a plain, complete head or nothing.
//! If nothing, [`scan`] reads the bytes once more, one by one from left to right, and says which:
//! unfinished, or refused and why. Both accept the same heads, and no head that `httparse` refuses.
//!
//! Architecture invariant: the answer depends on the bytes alone, never on how they were cut into
//! reads. What is wrong in the spelling is told at the first byte that shows it; what is wrong in
//! the meaning (framing, Host, path), when the head is complete.
//!
//! Source: RFC 9110, RFC 9112, DESIGN.md section 3.

mod chunked;
mod fields;
mod framing;
mod known;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod request;
mod response;
mod scan;
mod swar;
mod target;
#[cfg(test)]
mod tests;
pub mod write;

pub use chunked::{ChunkedDecoder, Piece};
pub use fields::{Field, Upgrade};
pub use framing::{BodyFraming, ResponseFraming};
pub use known::{Known, KnownSet};
pub use request::RequestHead;
pub use response::ResponseHead;

/// A place in the buffer that a head was parsed from: bytes `start` up to, without, `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// The bytes at this place of `buf`; empty when `buf` is shorter than that.
    #[must_use]
    pub fn of(self, buf: &[u8]) -> &[u8] {
        buf.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// How many bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// `None` for offsets past 4 GiB, which no head has.
    fn new(start: usize, end: usize) -> Option<Self> {
        Some(Self { start: u32::try_from(start).ok()?, end: u32::try_from(end).ok()? })
    }
}

/// How far a head has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Nothing wrong so far, and not all there. Read more, and parse the longer buffer again.
    Partial,
    /// The whole head is there and valid.
    Complete,
}

/// The protocol version of a head. Others are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    Http10,
    #[default]
    Http11,
}

/// Why a message cannot be accepted, and the status to answer: 4xx or 5xx for a request, 502 for a
/// response. After it the connection's framing is unknown, so the connection has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} ({status})")]
pub struct Rejection {
    pub status: u16,
    /// For the log: what was wrong, in a few words that hold none of the peer's bytes.
    pub reason: &'static str,
}

impl Rejection {
    /// A rejection that is answered with `status`.
    #[must_use]
    pub const fn new(status: u16, reason: &'static str) -> Self {
        Self { status, reason }
    }

    /// 400.
    const fn bad(reason: &'static str) -> Self {
        Self::new(400, reason)
    }
}

/// Whose bytes are read. What is a 4xx for a caller is a 502 when a backend did it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    #[default]
    Request,
    Response,
}

impl Side {
    const fn reject(self, request_status: u16, reason: &'static str) -> Rejection {
        match self {
            Self::Request => Rejection::new(request_status, reason),
            Self::Response => Rejection::new(502, reason),
        }
    }
}
