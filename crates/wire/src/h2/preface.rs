//! Detection of HTTP/2 by the first bytes of a cleartext connection, and a stream that replays them. Source: RFC 9113 sections 3.3 and 3.4.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{FrameBudget, FrameScanner};
use crate::stream::Stream;

/// The first bytes from a client with prior knowledge.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefaceMatch {
    /// Not HTTP/2: read it as HTTP/1.1.
    No,
    /// Undecided: read more.
    Partial,
    /// HTTP/2. More bytes may follow the preface.
    Yes,
}

/// Compares the first bytes of a connection with [`PREFACE`].
pub fn match_preface(bytes: &[u8]) -> PrefaceMatch {
    if bytes.starts_with(PREFACE) {
        PrefaceMatch::Yes
    } else if PREFACE.starts_with(bytes) {
        PrefaceMatch::Partial
    } else {
        PrefaceMatch::No
    }
}

/// A stream that first returns the bytes that were already read from it.
#[derive(Debug)]
pub struct Rewind {
    read: Bytes,
    stream: Stream,
    held: Arc<AtomicBool>,
    scanner: FrameScanner,
    budget: Arc<FrameBudget>,
}

impl Rewind {
    pub fn new(read: Bytes, stream: Stream) -> Self {
        let scanner = FrameScanner::default();
        Self { read, stream, held: Arc::default(), scanner, budget: Arc::default() }
    }

    /// The budget of what is read.
    pub(super) fn budget(&self) -> Arc<FrameBudget> {
        Arc::clone(&self.budget)
    }

    /// Whether the last write is still pending. A shared flag, because the h2 crate owns the stream.
    pub(super) fn held(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.held)
    }

    fn record<T>(&self, outcome: Poll<T>) -> Poll<T> {
        self.held.store(outcome.is_pending(), Ordering::Relaxed);
        outcome
    }
}

impl AsyncRead for Rewind {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.budget.is_exhausted() {
            // Whoever drives the connection closes it.
            if !this.budget.is_closed() {
                cx.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
        let before = buf.filled().len();
        if this.read.is_empty() {
            ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        } else {
            let replayed = this.read.split_to(this.read.len().min(buf.remaining()));
            buf.put_slice(replayed.chunk());
        }
        this.scanner.scan(buf.filled().get(before..).unwrap_or_default(), &this.budget);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewind {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.record(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.record(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        this.record(flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
