//! Telling HTTP/2 from HTTP/1.1 by the first bytes of a connection in clear, and giving back those
//! bytes. Source: RFC 9113 sections 3.3 and 3.4.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::Stream;

/// What a client with prior knowledge sends first.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefaceMatch {
    /// Not HTTP/2: read it as HTTP/1.1.
    No,
    /// Could become either: read on.
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

/// A stream that first gives the bytes that were read from it already.
#[derive(Debug)]
pub struct Rewind {
    read: Bytes,
    stream: Stream,
    held: Arc<AtomicBool>,
}

impl Rewind {
    pub fn new(read: Bytes, stream: Stream) -> Self {
        Self { read, stream, held: Arc::default() }
    }

    /// Whether the last bytes that were to be written still wait for the peer to read. The h2 crate
    /// keeps the stream to itself, so whoever wants to know takes this along before.
    pub(super) fn held(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.held)
    }

    fn note<T>(&self, outcome: Poll<T>) -> Poll<T> {
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
        if this.read.is_empty() {
            return Pin::new(&mut this.stream).poll_read(cx, buf);
        }
        let given = this.read.split_to(this.read.len().min(buf.remaining()));
        buf.put_slice(given.chunk());
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
        this.note(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        this.note(flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
