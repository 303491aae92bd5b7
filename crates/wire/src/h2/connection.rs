//! One HTTP/2 connection of a client, with every limit that the protocol leaves to the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::h2::server::{self, SendResponse};
use ::h2::{Error, RecvStream};
use base::limits;
use bytes::Bytes;
use http::request::Parts;

use super::Rewind;
use crate::stream::Stream;

/// A request's head, its body to come, and the way to answer it.
pub type Accepted = (Parts, RecvStream, SendResponse<Bytes>);

/// The server's side of a connection. See the module's note on who drives it.
pub struct Connection {
    inner: server::Connection<Rewind, Bytes>,
    held: Arc<AtomicBool>,
}

impl Connection {
    /// Exchanges prefaces and settings. `read` is what was taken from `stream` to tell the protocol
    /// (empty after ALPN). The caller bounds the wait.
    ///
    /// # Errors
    /// The socket's, or a peer that doesn't speak HTTP/2.
    pub async fn handshake(stream: Stream, read: Bytes) -> Result<Self, Error> {
        let stream = Rewind::new(read, stream);
        let held = stream.held();
        let inner = builder().handshake(stream).await?;
        Ok(Self { inner, held })
    }

    /// The next request. Drives all streams of the connection meanwhile. None: the connection is
    /// over, in good order. Cancel safe.
    pub async fn accept(&mut self) -> Option<Result<Accepted, Error>> {
        let next = self.inner.accept().await?;
        Some(next.map(|(request, respond)| {
            let (parts, body) = request.into_parts();
            (parts, body, respond)
        }))
    }

    /// Tells the client to open no more streams; those it opened are served. [`Self::accept`] has
    /// to be called until it gives none.
    pub fn graceful_shutdown(&mut self) {
        self.inner.graceful_shutdown();
    }

    /// Whether frames wait for the client to read. Asked after [`Self::accept`] had nothing to give:
    /// if none do, all that was handed over before is on its way.
    pub fn is_blocked(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether no stream is open: such a connection may be closed when it idled long enough.
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
