//! Where a body comes from: a [`Source`], one payload piece after another.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};
use wire::http1::Rejection;
use wire::stream::Stream;

use super::buffer::{Buffer, Buffers};
use super::decoder::Unread;

/// Why a body ended before its end.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// The peer closed, or the connection broke.
    Closed,
    /// The framing is wrong.
    Malformed(Rejection),
}

/// A body's payload, piece by piece, without framing.
pub(crate) trait Source {
    /// Ready once `data` is not empty or the body is at its end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>>;
    /// Ready once all of a short body can be sent, or the beginning of another. By default, of every body.
    fn poll_gather(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        self.poll_fill(cx)
    }
    /// Payload that can be sent now. Empty after a ready `poll_fill`: the body has ended.
    fn data(&self) -> &[u8];
    /// Drops `count` bytes of `data` from the front.
    fn consume(&mut self, count: usize);
    /// Trailer lines, each with its CRLF, once the body has ended.
    fn trailers(&self) -> &[u8];
    /// Nothing can be sent for now: memory that `data` does not need is released.
    fn park(&mut self) {}
    /// Reads bytes still in the socket directly into `to`, as far as that has room. False if the body has no known
    /// length, or if another step has to come first.
    fn poll_read_to(
        &mut self,
        _: &mut Context<'_>,
        _to: &mut Vec<u8>,
    ) -> Poll<Result<bool, BodyError>> {
        Poll::Ready(Ok(false))
    }
    /// The part of the body that is still in the socket and can be spliced. `None` if there is none or too
    /// little, or if it must be decoded.
    fn unread(&mut self) -> Option<Unread<'_>> {
        None
    }
}

/// An empty body.
pub(crate) struct Empty;

impl Source for Empty {
    fn poll_fill(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        &[]
    }

    fn consume(&mut self, _: usize) {}

    fn trailers(&self) -> &[u8] {
        &[]
    }
}

/// A complete body in memory.
#[derive(Debug, Default)]
pub(crate) struct Held {
    bytes: Bytes,
    consumed: usize,
}

impl Held {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self { bytes, consumed: 0 }
    }

    /// Bytes that were consumed.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed as u64
    }

    /// Begins again at the first byte.
    pub(crate) fn restart(&mut self) {
        self.consumed = 0;
    }

    /// The size of the whole body, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl Source for Held {
    fn poll_fill(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        self.bytes.get(self.consumed..).unwrap_or_default()
    }

    fn consume(&mut self, count: usize) {
        self.consumed = self.consumed.saturating_add(count).min(self.bytes.len());
    }

    fn trailers(&self) -> &[u8] {
        &[]
    }
}

/// The kind of buffer to borrow for a read.
#[derive(Clone, Copy)]
pub(crate) enum Lend<'a> {
    Head(&'a Buffers),
    Body(&'a Buffers),
}

/// One read into `buffer`, which is borrowed if absent and something arrived. `Ok(0)`: the peer sends no more.
pub(crate) fn poll_read(
    cx: &mut Context<'_>,
    stream: &mut Stream,
    buffer: &mut Buffer,
    lend: Lend<'_>,
) -> Poll<io::Result<usize>> {
    let (Lend::Head(buffers) | Lend::Body(buffers)) = lend;
    if buffer.is_absent() {
        ready!(stream.poll_readable(cx));
        *buffer = match lend {
            Lend::Head(buffers) => buffers.head(),
            Lend::Body(buffers) => buffers.body(),
        };
    } else if let Lend::Body(buffers) = lend
        && (buffer.is_empty() || !buffer.has_free_space())
    {
        buffer.compact();
        buffers.enlarge(buffer);
    } else if !buffer.has_free_space() {
        buffer.compact();
    }
    let mut room = ReadBuf::new(buffer.free_space());
    match Pin::new(stream).poll_read(cx, &mut room) {
        Poll::Ready(Ok(())) => {
            let count = room.filled().len();
            buffer.fill(count);
            Poll::Ready(Ok(count))
        }
        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        Poll::Pending => {
            if buffer.is_empty() {
                buffers.release(std::mem::take(buffer));
            }
            Poll::Pending
        }
    }
}
