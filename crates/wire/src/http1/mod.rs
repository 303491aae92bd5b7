//! The HTTP/1.1 codec: parses bytes into offsets, or rejects them. No sockets, no clock, no allocation in the
//! steady state.
//!
//! Life of a request: **listen** parses a [`RequestHead`] over the connection's own buffer;
//! **forward** writes the forwarded head with [`write`] from those offsets, and parses the upstream's
//! [`ResponseHead`]. Chunked bodies are decoded by [`ChunkedDecoder`].
//!
//! A fast parser reads a head several bytes at a time ([`find`]); it either finds a complete and valid head,
//! or nothing. In the latter case [`scan`] reads it again byte by byte, and returns whether it is incomplete,
//! or why it is rejected. Both accept the same heads, and none that `httparse` rejects.
//!
//! Architecture invariant: the result depends only on the bytes, never on how they were split into reads. A
//! syntax error is reported at its first byte; an invalid meaning (framing, Host, path) when the head is
//! complete.
//!
//! Source: RFC 9110, RFC 9112.

mod chunked;
mod extension;
mod fields;
mod find;
mod framing;
mod known;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod request;
mod response;
mod scan;
mod target;
#[cfg(test)]
mod tests;
pub mod write;

pub use chunked::{ChunkedDecoder, Piece};
pub use fields::{Field, Upgrade};
pub use find::is_token;
pub(crate) use find::is_value;
pub use framing::{BodyFraming, ResponseFraming};
pub use known::{Known, KnownSet};
pub use request::RequestHead;
pub use response::ResponseHead;
pub(crate) use scan::is_tchar;

/// A range in the buffer that a head was parsed from: bytes `start` to `end`, exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// The bytes of this range in `buf`; empty if `buf` is too short.
    #[must_use]
    pub fn of(self, buf: &[u8]) -> &[u8] {
        buf.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// The number of bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// `None` for offsets beyond 4 GiB, which no head has.
    fn new(start: usize, end: usize) -> Option<Self> {
        Some(Self { start: u32::try_from(start).ok()?, end: u32::try_from(end).ok()? })
    }
}

/// The result of parsing a head that is not rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Valid so far, but incomplete. Read more, and parse the longer buffer again.
    Partial,
    /// Complete and valid.
    Complete,
}

/// The protocol version of a head. Others are rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    Http10,
    #[default]
    Http11,
}

/// Why a message is rejected, and the status of the response: 4xx or 5xx for a request, 502 for a response.
/// The framing is unknown afterwards, so the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} ({status})")]
pub struct Rejection {
    pub status: u16,
    /// The reason, for the log; contains none of the peer's bytes.
    pub reason: &'static str,
}

impl Rejection {
    /// A rejection with `status`.
    #[must_use]
    pub const fn new(status: u16, reason: &'static str) -> Self {
        Self { status, reason }
    }

    /// 400.
    const fn bad(reason: &'static str) -> Self {
        Self::new(400, reason)
    }
}

/// The kind of message. An error that is a 4xx for a request is a 502 for a response.
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
