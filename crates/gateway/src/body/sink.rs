//! Outgoing HTTP/1.1 messages: a head, then the payload of a source with new framing.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use wire::http1;
use wire::stream::Stream;

use super::buffer::{Buffers, LentPipe};
use super::source::{BodyError, Source};

/// Longest payload that is copied after its head, in bytes.
const COPIED_BYTES_MAX: usize = 2 * 1024;

/// Chunks are gathered up to this size before they are written, in bytes.
const GATHERED_BYTES: usize = 16 * 1024;

/// How the body is framed for the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutFraming {
    /// By length, or until close: the payload is sent unchanged.
    Plain,
    Chunked,
    /// As plain, for a tunnel: the end of the payload closes the connection for writing.
    Tunnel,
}

/// Why a flow failed.
#[derive(Debug)]
pub(crate) enum FlowError {
    Source(BodyError),
    Sink(io::Error),
}

/// A message being written to an HTTP/1.1 connection: a head, then the payload of a source.
#[derive(Debug)]
pub(crate) struct Outflow {
    /// Bytes of head and framing, written before the payload.
    text: Vec<u8>,
    sent: usize,
    /// Payload bytes announced by the framing so far.
    announced: usize,
    framing: OutFraming,
    /// `text` holds the end of the body.
    ended: bool,
    /// The source has returned payload or its end.
    begun: bool,
    /// The source failed; reported after everything before is written.
    broken: Option<BodyError>,
    /// Holds spliced payload.
    pipe: Option<LentPipe>,
    /// Bytes of the message written to the connection.
    pub(crate) written: u64,
}

impl Outflow {
    /// `head`: a complete head with its empty line.
    pub(crate) fn new(head: Vec<u8>, framing: OutFraming) -> Self {
        let (sent, announced, written) = (0, 0, 0);
        let (broken, pipe) = (None, None);
        Self {
            text: head,
            sent,
            announced,
            framing,
            begun: false,
            ended: false,
            broken,
            pipe,
            written,
        }
    }

    /// Begins the next message, as [`Outflow::new`]. The last one must be released.
    pub(crate) fn begin(&mut self, head: Vec<u8>, framing: OutFraming) {
        self.clear();
        (self.text, self.framing, self.ended) = (head, framing, false);
    }

    /// Forgets the last message, which must be released: nothing is written.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        (self.sent, self.announced, self.written) = (0, 0, 0);
        (self.begun, self.ended, self.broken) = (false, true, None);
        self.release_pipe();
    }

    fn release_pipe(&mut self) {
        // Usually `None`, and the check is cheaper than a drop.
        if self.pipe.is_some() {
            self.pipe = None;
        }
    }

    /// No message: nothing is written.
    pub(crate) fn idle() -> Self {
        Self { ended: true, ..Self::new(Vec::new(), OutFraming::Plain) }
    }

    /// Whether everything from the source is written, so that the flow waits for more.
    pub(crate) fn waits_for_source(&self) -> bool {
        !self.ended && self.is_all_written() && self.piped() == 0
    }

    /// Whether no text or announced payload is left to write.
    fn is_all_written(&self) -> bool {
        self.announced == 0 && self.sent == self.text.len()
    }

    fn piped(&self) -> usize {
        self.pipe.as_ref().map_or(0, LentPipe::held)
    }

    /// Releases the lent buffers: at the end, or when everything is written.
    pub(crate) fn release(&mut self, buffers: &Buffers) {
        self.sent = 0;
        buffers.release_text(std::mem::take(&mut self.text));
        self.release_pipe();
    }

    /// Moves bytes from `source` to `sink` until everything is written.
    pub(crate) fn poll_run<S: Source>(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut S,
        sink: &mut Stream,
    ) -> Poll<Result<(), FlowError>> {
        loop {
            if !self.ended
                && self.is_all_written()
                && self.broken.is_none()
                && let Some(socket) = sink.clear()
                && ready!(self.poll_splice(cx, source, socket))?
            {
                continue;
            }
            let waits = self.gather(cx, source);
            if (!self.begun || self.is_all_written())
                && let Some(error) = self.broken.take()
            {
                return Poll::Ready(Err(FlowError::Source(error)));
            }
            let text = self.text.get(self.sent..).unwrap_or_default();
            let Some(data) = source.data().get(..self.announced) else {
                // Payload was consumed elsewhere: the message can never be completed.
                return Poll::Ready(Err(FlowError::Source(BodyError::Closed)));
            };
            if text.is_empty() && data.is_empty() {
                if waits {
                    let _ = Pin::new(sink).poll_flush(cx).map_err(FlowError::Sink)?;
                    return Poll::Pending;
                }
                let ended = match self.framing {
                    OutFraming::Tunnel => Pin::new(sink).poll_shutdown(cx),
                    OutFraming::Plain | OutFraming::Chunked => Pin::new(sink).poll_flush(cx),
                };
                return ended.map_err(FlowError::Sink);
            }
            match ready!(self.poll_write(cx, source.data(), sink)) {
                Ok(0) => return Poll::Ready(Err(FlowError::Sink(io::ErrorKind::WriteZero.into()))),
                Ok(count) => self.advance(count, source),
                Err(error) => return Poll::Ready(Err(FlowError::Sink(error))),
            }
        }
    }

    /// Splices a part of a long body. Returns false if there is nothing to splice.
    fn poll_splice<S: Source>(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut S,
        sink: &TcpStream,
    ) -> Poll<Result<bool, FlowError>> {
        if self.piped() == 0 {
            // An empty pipe is released before waiting for more.
            self.release_pipe();
            if self.framing != OutFraming::Plain {
                return Poll::Ready(Ok(false));
            }
            let Some(mut unread) = source.unread() else { return Poll::Ready(Ok(false)) };
            self.pipe = ready!(unread.poll_fill(cx)).map_err(FlowError::Source)?;
        }
        let Some(pipe) = self.pipe.as_mut().and_then(LentPipe::pipe) else {
            return Poll::Ready(Ok(false));
        };
        match ready!(pipe.poll_drain(cx, sink)) {
            Ok(0) => Poll::Ready(Err(FlowError::Sink(io::ErrorKind::WriteZero.into()))),
            Ok(count) => {
                self.written = self.written.saturating_add(count as u64);
                Poll::Ready(Ok(true))
            }
            Err(error) => Poll::Ready(Err(FlowError::Sink(error))),
        }
    }

    /// One write of the text and the announced part of `data`. Short payload is copied after the text,
    /// which costs less than a vectored write.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        sink: &mut Stream,
    ) -> Poll<io::Result<usize>> {
        let sink = Pin::new(sink);
        let data = data.get(..self.announced).unwrap_or_default();
        let text = self.text.get(self.sent..).unwrap_or_default();
        if data.is_empty() {
            return sink.poll_write(cx, text);
        }
        if text.is_empty() {
            return sink.poll_write(cx, data);
        }
        if data.len() > COPIED_BYTES_MAX {
            return sink.poll_write_vectored(cx, &[IoSlice::new(text), IoSlice::new(data)]);
        }
        let len = self.text.len();
        self.text.extend_from_slice(data);
        let taken = sink.poll_write(cx, self.text.get(self.sent..).unwrap_or_default());
        self.text.truncate(len);
        taken
    }

    /// Announces the payload that the source has now. Short chunks are gathered, to be sent in one write.
    /// Returns true if the source has no more for now.
    fn gather<S: Source>(&mut self, cx: &mut Context<'_>, source: &mut S) -> bool {
        while !self.ended && self.announced == 0 && self.broken.is_none() {
            if self.text.len() > GATHERED_BYTES {
                return false;
            }
            match self.poll_announce(cx, source) {
                Poll::Pending => return true,
                Poll::Ready(Err(error)) => self.broken = Some(error),
                Poll::Ready(Ok(())) => self.copy_short_chunk(source),
            }
        }
        false
    }

    /// Copies a short announced chunk after its header. Only after something was written: until then the
    /// message may be sent to another endpoint, and nothing may be consumed from the source.
    fn copy_short_chunk<S: Source>(&mut self, source: &mut S) {
        let is_short = (1..=COPIED_BYTES_MAX).contains(&self.announced);
        if self.framing == OutFraming::Chunked && self.written > 0 && is_short {
            let chunk = source.data().get(..self.announced).unwrap_or_default();
            self.text.extend_from_slice(chunk);
            http1::write::chunk_end(&mut self.text);
            source.consume(self.announced);
            self.announced = 0;
        }
    }

    /// Announces the payload of the source, or the end.
    fn poll_announce<S: Source>(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut S,
    ) -> Poll<Result<(), BodyError>> {
        ready!(source.poll_fill(cx))?;
        self.begun = true;
        self.announced = source.data().len();
        self.ended = self.announced == 0;
        if self.framing == OutFraming::Chunked {
            if self.ended {
                http1::write::last_chunk(&mut self.text, source.trailers());
            } else {
                http1::write::chunk_header(&mut self.text, self.announced as u64);
            }
        }
        Poll::Ready(Ok(()))
    }

    fn advance<S: Source>(&mut self, count: usize, source: &mut S) {
        self.written = self.written.saturating_add(count as u64);
        let of_text = count.min(self.text.len().saturating_sub(self.sent));
        self.sent += of_text;
        if self.sent == self.text.len() {
            self.text.clear();
            self.sent = 0;
        }
        let of_data = count - of_text;
        if of_data > 0 {
            source.consume(of_data);
            self.announced = self.announced.saturating_sub(of_data);
            if self.announced == 0 && self.framing == OutFraming::Chunked {
                http1::write::chunk_end(&mut self.text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::net::TcpListener;

    use super::*;

    /// Chunks that are available immediately.
    struct Chunks {
        left: &'static [&'static [u8]],
        consumed: usize,
    }

    impl Source for Chunks {
        fn poll_fill(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
            Poll::Ready(Ok(()))
        }

        fn data(&self) -> &[u8] {
            self.left.first().copied().unwrap_or_default()
        }

        fn consume(&mut self, count: usize) {
            assert_eq!(count, self.data().len());
            self.left = self.left.get(1..).unwrap_or_default();
            self.consumed += count;
        }

        fn trailers(&self) -> &[u8] {
            &[]
        }
    }

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dialled = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (dialled, listener.accept().await.unwrap().0)
    }

    #[tokio::test(flavor = "current_thread")]
    async fn nothing_is_consumed_from_the_source_before_something_is_written() {
        let (ours, theirs) = pair().await;
        theirs.set_zero_linger().unwrap();
        drop(theirs);
        let mut sink = Stream::Clear(ours);
        let mut source = Chunks { left: &[b"hello", b"world"], consumed: 0 };
        let mut flow = Outflow::new(b"POST / HTTP/1.1\r\n\r\n".to_vec(), OutFraming::Chunked);
        let outcome = poll_fn(|cx| flow.poll_run(cx, &mut source, &mut sink)).await;
        assert!(matches!(outcome, Err(FlowError::Sink(_))), "the connection was reset");
        assert_eq!((flow.written, source.consumed), (0, 0));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn available_short_chunks_are_sent_in_order() {
        let (ours, theirs) = pair().await;
        let mut sink = Stream::Clear(ours);
        let mut source = Chunks { left: &[b"one", b"two", b"three"], consumed: 0 };
        let mut flow = Outflow::new(b"HEAD\r\n\r\n".to_vec(), OutFraming::Chunked);
        poll_fn(|cx| flow.poll_run(cx, &mut source, &mut sink)).await.unwrap();
        drop(sink);
        let mut got = Vec::new();
        let mut theirs = theirs;
        tokio::io::AsyncReadExt::read_to_end(&mut theirs, &mut got).await.unwrap();
        let expect = "HEAD\r\n\r\n3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n";
        assert_eq!(String::from_utf8(got).unwrap(), expect);
    }
}
