//! Bodies in both directions, at the pace of the slower side.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use ::h2::{Error, Reason, RecvStream, SendStream};
use bytes::Bytes;
use http::HeaderMap;

/// A request's body. The client may send on only as its pieces are used up: asking for the next
/// piece gives back the window of the one before.
pub struct Incoming {
    stream: RecvStream,
    held_bytes: usize,
}

impl Incoming {
    pub fn new(stream: RecvStream) -> Self {
        Self { stream, held_bytes: 0 }
    }

    /// The next piece, at most a frame long; none at the end, where [`Self::trailers`] can follow.
    /// The h2 crate has held the length against Content-Length. Cancel safe.
    ///
    /// # Errors
    /// The client reset the stream, broke the protocol, or went away.
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

    /// What follows the body, if anything.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn trailers(&mut self) -> Result<Option<HeaderMap>, Error> {
        self.stream.trailers().await
    }

    /// Whether nothing more comes: no body, or all of it read, and no trailers.
    pub fn is_end(&self) -> bool {
        self.stream.is_end_stream()
    }
}

/// A response's body. Dropped before its end it resets the stream, so that the client never takes
/// a cut body for a whole one.
pub struct Outgoing {
    stream: SendStream<Bytes>,
    ended: bool,
}

impl Outgoing {
    pub fn new(stream: SendStream<Bytes>) -> Self {
        Self { stream, ended: false }
    }

    /// Sends `data`, waiting for as much window as it needs, so that no more than
    /// `limits::H2_SEND_BUFFER_BYTES` of it is held.
    ///
    /// # Errors
    /// The client reset the stream or went away.
    pub async fn write(&mut self, mut data: Bytes) -> Result<(), Error> {
        while !data.is_empty() {
            let room = poll_fn(|cx| self.poll_capacity(cx, data.len())).await?;
            self.send(data.split_to(room))?;
        }
        Ok(())
    }

    /// How many bytes of the `wanted` (at least one) can be sent now: at least one, and no more than
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
        // What was granted earlier is not announced again, so it is looked at first.
        loop {
            let room = self.stream.capacity().min(wanted);
            if room > 0 {
                return Poll::Ready(Ok(room));
            }
            match ready!(self.stream.poll_capacity(cx)) {
                Some(granted) => granted?,
                None => return Poll::Ready(Err(Reason::CANCEL.into())),
            };
        }
    }

    /// Sends `data`, no more than [`Self::poll_capacity`] said there is room for.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn send(&mut self, data: Bytes) -> Result<(), Error> {
        self.stream.send_data(data, false)
    }

    /// Ready when the client wants no more of this answer, or is gone.
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

    /// Cuts the body: the client learns that it is not whole, and why.
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
