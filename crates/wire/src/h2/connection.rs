//! A client's HTTP/2 connection, with all limits that the protocol leaves to the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::h2::server::{self, SendResponse};
use ::h2::{Error, Reason, RecvStream};
use base::limits;
use bytes::Bytes;
use http::request::Parts;

use super::{FrameBudget, Rewind};
use crate::stream::Stream;

/// A request's head, its body, and the handle for the response.
pub type Accepted = (Parts, RecvStream, SendResponse<Bytes>);

/// The server's side of a connection. It makes progress only in [`Connection::accept`].
pub struct Connection {
    inner: server::Connection<Rewind, Bytes>,
    held: Arc<AtomicBool>,
    budget: Arc<FrameBudget>,
}

impl Connection {
    /// Exchanges prefaces and settings. `read` are the bytes already read from `stream` (none after ALPN). The
    /// caller limits the wait.
    ///
    /// # Errors
    /// The socket's, or a peer that does not use HTTP/2.
    pub async fn handshake(stream: Stream, read: Bytes) -> Result<Self, Error> {
        let stream = Rewind::new(read, stream);
        let (held, budget) = (stream.held(), stream.budget());
        let inner = builder().handshake(stream).await?;
        Ok(Self { inner, held, budget })
    }

    /// The next request. Drives all streams while it waits. `None`: the connection has ended properly. Cancel safe.
    pub async fn accept(&mut self) -> Option<Result<Accepted, Error>> {
        let next = self.inner.accept().await?;
        Some(next.map(|(request, respond)| {
            let (parts, body) = request.into_parts();
            (parts, body, respond)
        }))
    }

    /// Sends GOAWAY: the client opens no more streams. Call [`Self::accept`] until it returns `None`.
    pub fn graceful_shutdown(&mut self) {
        self.inner.graceful_shutdown();
    }

    /// The client's budget of control frames.
    pub fn budget(&self) -> &Arc<FrameBudget> {
        &self.budget
    }

    /// Sends GOAWAY with ENHANCE_YOUR_CALM and reads no more. Call [`Self::accept`] until it returns `None` or an
    /// error.
    pub fn calm_down(&mut self) {
        self.budget.close();
        self.inner.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
    }

    /// Whether frames are waiting for the socket. If not, after [`Self::accept`] was pending, everything queued
    /// before was written.
    pub fn is_blocked(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether no stream is open.
    pub fn is_idle(&self) -> bool {
        !self.inner.has_streams()
    }
}

fn builder() -> server::Builder {
    let mut builder = server::Builder::new();
    builder
        .max_concurrent_streams(limits::H2_STREAMS_MAX)
        .max_header_list_size(limits::HEAD_BYTES_MAX)
        .initial_window_size(limits::H2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::H2_CONNECTION_WINDOW_BYTES)
        .max_send_buffer_size(limits::H2_SEND_BUFFER_BYTES)
        .max_concurrent_reset_streams(limits::H2_RESET_STREAMS_MAX)
        .max_pending_accept_reset_streams(limits::H2_PENDING_RESETS_MAX)
        .max_local_error_reset_streams(Some(limits::H2_ERROR_RESETS_MAX));
    builder
}
