//! Streaming of bodies: from a [`Source`] (the client's request or the upstream's response) through a
//! bounded buffer into a connection, with new framing. No body is held in memory, whatever its size.
//!
//! Usually a head and the complete body that arrived with the peer's head are sent with one `writev`. The
//! rest of a long body between two cleartext sockets is moved within the kernel ([`wire::splice`]).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base::limits::{SPLICE_BYTES_MIN, SPLICE_PIECE_BYTES_MIN};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use wire::http1::{self, BodyFraming, ChunkedDecoder, Piece, Rejection, ResponseFraming, Side};
use wire::splice;
use wire::stream::Stream;

use crate::buffer::{Buffer, Buffers, LentPipe};

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
    /// Payload that can be sent now. Empty after a ready `poll_fill`: the body has ended.
    fn data(&self) -> &[u8];
    /// Drops `count` bytes of `data` from the front.
    fn consume(&mut self, count: usize);
    /// Trailer lines, each with its CRLF, once the body has ended.
    fn trailers(&self) -> &[u8];
    /// The part of the body that is still in the socket and can be spliced. `None` if there is none or too
    /// little, or if it must be decoded.
    fn unread(&mut self) -> Option<Unread<'_>> {
        None
    }
}

/// The rest of a body, still unread in its socket.
pub(crate) struct Unread<'a> {
    reader: &'a mut BodyReader,
    tcp: &'a TcpStream,
    buffers: &'a Buffers,
}

impl Unread<'_> {
    /// Moves some of it into a lent pipe. `None`: splicing is not possible, the body must be read.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<LentPipe>, BodyError>> {
        // Buffers are lent only while bytes are in flight.
        self.buffers.release(std::mem::take(&mut self.reader.buffer));
        // An error is reported by the splice.
        let _ = ready!(self.tcp.poll_read_ready(cx));
        let most = usize::try_from(self.reader.unread_len()).unwrap_or(usize::MAX);
        let mut lent = self.buffers.pipe();
        let Some(pipe) = lent.as_mut().and_then(LentPipe::pipe) else {
            self.reader.in_pieces = true;
            return Poll::Ready(Ok(None));
        };
        match ready!(pipe.poll_fill(cx, self.tcp, most)) {
            Ok(count) if count > 0 => {
                self.reader.was_spliced(count);
                Poll::Ready(Ok(lent))
            }
            Err(error) if splice::is_unsupported(&error) => {
                self.reader.in_pieces = true;
                Poll::Ready(Ok(None))
            }
            Ok(_) | Err(_) => Poll::Ready(Err(BodyError::Closed)),
        }
    }
}

/// The framing of a body, and the number of payload bytes still to come.
#[derive(Debug)]
enum Decode {
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
}

/// The state of one incoming HTTP/1.1 body. Its buffer is lent while bytes are in flight.
#[derive(Debug)]
pub(crate) struct BodyReader {
    pub(crate) buffer: Buffer,
    decode: Decode,
    /// Payload bytes at the front of the buffer.
    ready: usize,
    /// All payload is in `ready`.
    complete: bool,
    /// Some of it was consumed.
    touched: bool,
    /// It is not spliced: it arrives in small pieces, or no pipe is available.
    in_pieces: bool,
}

impl BodyReader {
    /// A connection between two bodies.
    pub(crate) fn idle(buffer: Buffer) -> Self {
        let decode = Decode::Length(0);
        Self { buffer, decode, ready: 0, complete: true, touched: false, in_pieces: false }
    }

    /// Starts a request's body. The bytes that arrived with the head are in the buffer.
    pub(crate) fn start_request(&mut self, framing: BodyFraming) {
        self.start(match framing {
            BodyFraming::None => Decode::Length(0),
            BodyFraming::Length(bytes) => Decode::Length(bytes),
            BodyFraming::Chunked => Decode::Chunked(ChunkedDecoder::new(Side::Request)),
        });
    }

    /// Starts a response's body.
    pub(crate) fn start_response(&mut self, framing: ResponseFraming) {
        self.start(match framing {
            ResponseFraming::None => Decode::Length(0),
            ResponseFraming::Length(bytes) => Decode::Length(bytes),
            ResponseFraming::Chunked => Decode::Chunked(ChunkedDecoder::new(Side::Response)),
            ResponseFraming::UntilClose => Decode::UntilClose,
        });
    }

    fn start(&mut self, decode: Decode) {
        self.complete = matches!(decode, Decode::Length(0));
        self.decode = decode;
        self.ready = 0;
        (self.touched, self.in_pieces) = (false, false);
    }

    /// Whether every payload byte was read and consumed.
    pub(crate) fn is_done(&self) -> bool {
        self.complete && self.ready == 0
    }

    /// Whether nothing of the body was consumed yet.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.touched
    }

    /// The number of payload bytes still in the socket, if nothing is buffered; 0 if unknown.
    fn unread_len(&self) -> u64 {
        match self.decode {
            Decode::Length(left) if self.ready == 0 && self.buffer.is_empty() => left,
            Decode::Length(_) | Decode::Chunked(_) | Decode::UntilClose => 0,
        }
    }

    /// The rest of the body, if it is long enough to be spliced.
    pub(crate) fn unread<'a>(
        &'a mut self,
        stream: &'a Stream,
        buffers: &'a Buffers,
    ) -> Option<Unread<'a>> {
        let tcp = stream.clear()?;
        (!self.in_pieces && self.unread_len() >= SPLICE_BYTES_MIN).then_some(Unread {
            reader: self,
            tcp,
            buffers,
        })
    }

    /// Records that `count` bytes of the body were spliced.
    fn was_spliced(&mut self, count: usize) {
        if let Decode::Length(left) = &mut self.decode {
            *left = left.saturating_sub(count as u64);
            self.complete = *left == 0;
            self.touched = true;
            self.in_pieces = count < SPLICE_PIECE_BYTES_MIN;
        }
    }

    /// Drops buffered payload. Returns whether that was the rest of the body.
    pub(crate) fn skip_held(&mut self) -> bool {
        loop {
            self.consume(self.ready);
            match self.advance() {
                Ok(true) if self.is_done() => return true,
                Ok(true) => {}
                Ok(false) | Err(_) => return false,
            }
        }
    }

    pub(crate) fn data(&self) -> &[u8] {
        self.buffer.filled().get(..self.ready).unwrap_or_default()
    }

    pub(crate) fn consume(&mut self, count: usize) {
        let count = count.min(self.ready);
        self.ready -= count;
        self.touched |= count > 0;
        self.buffer.consume(count);
    }

    pub(crate) fn trailers(&self) -> &[u8] {
        self.chunked().map_or(&[], ChunkedDecoder::trailers)
    }

    /// The decoder of a chunked body.
    pub(crate) fn chunked(&self) -> Option<&ChunkedDecoder> {
        match &self.decode {
            Decode::Chunked(decoder) => Some(decoder),
            Decode::Length(_) | Decode::UntilClose => None,
        }
    }

    /// Finds payload in the buffer. Returns false if more must be read.
    fn advance(&mut self) -> Result<bool, Rejection> {
        if self.ready > 0 || self.complete {
            return Ok(true);
        }
        let held = self.buffer.filled().len();
        match &mut self.decode {
            Decode::Length(left) => {
                let take = usize::try_from(*left).unwrap_or(usize::MAX).min(held);
                *left -= take as u64;
                self.ready = take;
                self.complete = *left == 0;
            }
            Decode::UntilClose => self.ready = held,
            Decode::Chunked(decoder) => loop {
                match decoder.next(self.buffer.filled())? {
                    Piece::Data { skip, take } => {
                        self.buffer.consume(skip);
                        self.ready = take;
                        if take > 0 {
                            break;
                        }
                    }
                    Piece::NeedMore { used } => {
                        self.buffer.consume(used);
                        break;
                    }
                    Piece::End { used } => {
                        self.buffer.consume(used);
                        self.complete = true;
                        break;
                    }
                }
            },
        }
        Ok(self.ready > 0 || self.complete)
    }

    /// Reads until payload is available or the body ends.
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        buffers: &Buffers,
    ) -> Poll<Result<(), BodyError>> {
        while !self.advance().map_err(BodyError::Malformed)? {
            match ready!(poll_read(cx, stream, &mut self.buffer, Lend::Body(buffers))) {
                Ok(0) | Err(_) if !matches!(self.decode, Decode::UntilClose) => {
                    return Poll::Ready(Err(BodyError::Closed));
                }
                Ok(0) => self.complete = true,
                Ok(_) => {}
                Err(_) => return Poll::Ready(Err(BodyError::Closed)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// An HTTP/1.1 body and its connection.
pub(crate) struct Http1Source<'a> {
    pub(crate) reader: &'a mut BodyReader,
    pub(crate) stream: &'a mut Stream,
    pub(crate) buffers: &'a Buffers,
}

impl Source for Http1Source<'_> {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        self.reader.poll_fill(cx, self.stream, self.buffers)
    }

    fn data(&self) -> &[u8] {
        self.reader.data()
    }

    fn consume(&mut self, count: usize) {
        self.reader.consume(count);
    }

    fn trailers(&self) -> &[u8] {
        self.reader.trailers()
    }

    fn unread(&mut self) -> Option<Unread<'_>> {
        self.reader.unread(self.stream, self.buffers)
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

/// The kind of buffer to borrow for a read.
#[derive(Clone, Copy)]
pub(crate) enum Lend<'a> {
    Head(&'a Buffers),
    Body(&'a Buffers),
}

/// One read into `buffer`, which is borrowed if absent, and released if nothing arrived. `Ok(0)`: the peer
/// sends no more.
pub(crate) fn poll_read(
    cx: &mut Context<'_>,
    stream: &mut Stream,
    buffer: &mut Buffer,
    lend: Lend<'_>,
) -> Poll<io::Result<usize>> {
    let (Lend::Head(buffers) | Lend::Body(buffers)) = lend;
    if buffer.is_absent() {
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
        self.pipe = None;
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
            let data = source.data().get(..self.announced).unwrap_or_default();
            if text.is_empty() && data.is_empty() {
                if waits {
                    let _ = Pin::new(sink).poll_flush(cx).map_err(FlowError::Sink)?;
                    return Poll::Pending;
                }
                return Pin::new(sink).poll_flush(cx).map_err(FlowError::Sink);
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
            self.pipe = None;
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
