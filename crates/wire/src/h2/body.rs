//! Bodies in both directions, with flow control.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use ::h2::{Error, Reason, RecvStream, SendStream};
use bytes::Bytes;
use http::HeaderMap;

/// A request's body. Reading the next piece releases the flow-control window of the previous one.
pub struct Incoming {
    stream: RecvStream,
    held_bytes: usize,
}

impl Incoming {
    pub fn new(stream: RecvStream) -> Self {
        Self { stream, held_bytes: 0 }
    }

    /// The next piece, at most one frame; `None` at the end, after which [`Self::trailers`] may follow. The h2
    /// crate checks the length against Content-Length. Cancel safe.
    ///
    /// # Errors
    /// The client reset the stream, violated the protocol, or closed the connection.
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// [`Self::next`] for callers that poll.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let held_bytes = std::mem::take(&mut self.held_bytes);
        if held_bytes > 0
            && let Err(error) = self.stream.flow_control().release_capacity(held_bytes)
        {
            return Poll::Ready(Some(Err(error)));
        }
        let next = ready!(self.stream.poll_data(cx));
        if let Some(Ok(data)) = &next {
            self.held_bytes = data.len();
        }
        Poll::Ready(next)
    }

    /// [`Self::trailers`] for callers that poll.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn poll_trailers(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<HeaderMap>, Error>> {
        self.stream.poll_trailers(cx)
    }

    /// The trailers, if any.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn trailers(&mut self) -> Result<Option<HeaderMap>, Error> {
        self.stream.trailers().await
    }

    /// Whether the body was read completely, and no trailers follow.
    pub fn is_end(&self) -> bool {
        self.stream.is_end_stream()
    }
}

/// A response's body. Dropping it before its end resets the stream, so that the client does not mistake a
/// truncated body for a complete one.
pub struct Outgoing {
    stream: SendStream<Bytes>,
    ended: bool,
}

impl Outgoing {
    pub fn new(stream: SendStream<Bytes>) -> Self {
        Self { stream, ended: false }
    }

    /// Sends `data`, waiting for the flow-control window, so that at most `limits::H2_SEND_BUFFER_BYTES` are
    /// buffered.
    ///
    /// # Errors
    /// The client reset the stream or closed the connection.
    pub async fn write(&mut self, mut data: Bytes) -> Result<(), Error> {
        while !data.is_empty() {
            let count = poll_fn(|cx| self.poll_capacity(cx, data.len())).await?;
            self.send(data.split_to(count))?;
        }
        Ok(())
    }

    /// Ready with the number of bytes, of `wanted` (at least one), that can be sent now: from 1 to
    /// `limits::H2_SEND_BUFFER_BYTES`.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn poll_capacity(
        &mut self,
        cx: &mut Context<'_>,
        wanted: usize,
    ) -> Poll<Result<usize, Error>> {
        self.stream.reserve_capacity(wanted);
        // Capacity granted earlier is not reported again, so it is checked first.
        loop {
            let count = self.stream.capacity().min(wanted);
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
            match ready!(self.stream.poll_capacity(cx)) {
                Some(granted) => granted?,
                None => return Poll::Ready(Err(Reason::CANCEL.into())),
            };
        }
    }

    /// Sends `data`, at most as long as [`Self::poll_capacity`] returned.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn send(&mut self, data: Bytes) -> Result<(), Error> {
        self.stream.send_data(data, false)
    }

    /// Ready when the client has reset the stream, or is gone.
    pub fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_reset(cx).map(|_| ())
    }

    /// Ends the body.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn finish(mut self) -> Result<(), Error> {
        self.stream.send_data(Bytes::new(), true)?;
        self.ended = true;
        Ok(())
    }

    /// Ends the body with trailers.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn trailers(mut self, trailers: HeaderMap) -> Result<(), Error> {
        self.stream.send_trailers(trailers)?;
        self.ended = true;
        Ok(())
    }

    /// Aborts the body with `reason`.
    pub fn reset(mut self, reason: Reason) {
        self.stream.send_reset(reason);
        self.ended = true;
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if !self.ended {
            self.stream.send_reset(Reason::INTERNAL_ERROR);
        }
    }
}
