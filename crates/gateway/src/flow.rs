//! Bodies on their way: from a [`Source`] (the caller's request, the backend's response) through a
//! bounded buffer into a connection, re-framed by us. Whatever its size, a body is never held.
//!
//! In the ordinary case the head that was written and the whole body that came with the other head
//! leave in one `writev`. The rest of a long body between two sockets in clear goes through the kernel
//! alone ([`wire::splice`]).

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

/// Payload bytes, piece by piece, without their framing.
pub(crate) trait Source {
    /// Ready once `data` is not empty or the body is at its end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>>;
    /// Payload that can be sent now. Empty after a ready `poll_fill`: the body is at its end.
    fn data(&self) -> &[u8];
    /// Drops `count` bytes of `data` from the front.
    fn consume(&mut self, count: usize);
    /// Trailer lines, each with its CRLF, once the body is at its end.
    fn trailers(&self) -> &[u8];
    /// What of the body is still in a socket and could go on without being read. None: nothing, too
    /// little, or it has to be decoded.
    fn unread(&mut self) -> Option<Unread<'_>> {
        None
    }
}

/// The rest of a body, still in the socket that it came by.
pub(crate) struct Unread<'a> {
    reader: &'a mut BodyReader,
    tcp: &'a TcpStream,
    buffers: &'a Buffers,
}

impl Unread<'_> {
    /// Moves some of it into a pipe that is lent for it. None: the body has to be read after all.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<LentPipe>, BodyError>> {
        // Nothing is lent while nothing is in flight.
        self.buffers.release(std::mem::take(&mut self.reader.buffer));
        // An error shows itself in the splice.
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

/// How many payload bytes an HTTP/1.1 peer still owes, and how they are framed.
#[derive(Debug)]
enum Decode {
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
}

/// The state of one incoming HTTP/1.1 body. Its buffer is lent: absent while nothing is in flight.
#[derive(Debug)]
pub(crate) struct BodyReader {
    pub(crate) buffer: Buffer,
    decode: Decode,
    /// Payload bytes at the front of the buffer.
    ready: usize,
    /// All payload is in `ready`.
    complete: bool,
    /// Some of it was handed on.
    touched: bool,
    /// It does not go on unread: it comes in small pieces, or there is no pipe for it.
    in_pieces: bool,
}

impl BodyReader {
    /// A connection between two bodies.
    pub(crate) fn idle(buffer: Buffer) -> Self {
        let decode = Decode::Length(0);
        Self { buffer, decode, ready: 0, complete: true, touched: false, in_pieces: false }
    }

    /// Starts a request's body; what came with the head is in the buffer.
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

    /// Whether every payload byte was read and handed on.
    pub(crate) fn is_done(&self) -> bool {
        self.complete && self.ready == 0
    }

    /// Whether nothing of the body was handed on yet.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.touched
    }

    /// Payload bytes that are not even in the buffer, where their number is known.
    fn unread_len(&self) -> u64 {
        match self.decode {
            Decode::Length(left) if self.ready == 0 && self.buffer.is_empty() => left,
            Decode::Length(_) | Decode::Chunked(_) | Decode::UntilClose => 0,
        }
    }

    /// The rest of the body, where it is worth moving unread.
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

    /// `count` more bytes of the body left its socket without being read.
    fn was_spliced(&mut self, count: usize) {
        if let Decode::Length(left) = &mut self.decode {
            *left = left.saturating_sub(count as u64);
            self.complete = *left == 0;
            self.touched = true;
            self.in_pieces = count < SPLICE_PIECE_BYTES_MIN;
        }
    }

    /// Drops payload that is at hand already. True: that was all of the body.
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

    /// What decodes the body, where it is chunked.
    pub(crate) fn chunked(&self) -> Option<&ChunkedDecoder> {
        match &self.decode {
            Decode::Chunked(decoder) => Some(decoder),
            Decode::Length(_) | Decode::UntilClose => None,
        }
    }

    /// Finds payload among the bytes at hand. False: more have to be read.
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

    /// Reads until there is payload or the end of the body.
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

/// An HTTP/1.1 body together with the connection that it comes from.
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

/// A body without a byte.
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

/// Which shelf a read borrows from when it has no buffer.
#[derive(Clone, Copy)]
pub(crate) enum Lend<'a> {
    Head(&'a Buffers),
    Body(&'a Buffers),
}

/// One read into `buffer`, which is borrowed for it and given back if nothing came.
/// `Ok(0)`: the peer sends no more.
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
        && (buffer.is_empty() || !buffer.has_room())
    {
        buffer.compact();
        buffers.enlarge(buffer);
    } else if !buffer.has_room() {
        buffer.compact();
    }
    let mut room = ReadBuf::new(buffer.room());
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

/// Payload up to this length is copied behind its head, in bytes.
const COPIED_BYTES_MAX: usize = 2 * 1024;

/// Chunks are gathered until so much is ready to be written, in bytes.
const GATHERED_BYTES: usize = 16 * 1024;

/// How the body is framed for the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutFraming {
    /// The head says the length, or the connection's end does: bytes go as they are.
    Plain,
    Chunked,
}

/// What stopped a flow.
#[derive(Debug)]
pub(crate) enum FlowError {
    Source(BodyError),
    Sink(io::Error),
}

/// One message on its way out over an HTTP/1.1 connection: a head, then a source's payload.
#[derive(Debug)]
pub(crate) struct Outflow {
    /// Head and framing bytes, written before any payload.
    text: Vec<u8>,
    sent: usize,
    /// Payload bytes that the framing written so far has announced.
    announced: usize,
    framing: OutFraming,
    /// The end of the body stands in `text`.
    ended: bool,
    /// The source gave something.
    begun: bool,
    /// The source broke; told once all that came before is written.
    broken: Option<BodyError>,
    /// What takes payload past us.
    pipe: Option<LentPipe>,
    /// Bytes of the message that the connection took.
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

    /// Whether all that the source gave is written, so that the next move is the source's.
    pub(crate) fn waits_for_source(&self) -> bool {
        !self.ended && self.is_all_written() && self.piped() == 0
    }

    /// Whether neither text nor announced payload is left to write.
    fn is_all_written(&self) -> bool {
        self.announced == 0 && self.sent == self.text.len()
    }

    fn piped(&self) -> usize {
        self.pipe.as_ref().map_or(0, LentPipe::held)
    }

    /// Gives back what was lent: at the end, or when all is written.
    pub(crate) fn release(&mut self, buffers: &Buffers) {
        self.sent = 0;
        buffers.release_text(std::mem::take(&mut self.text));
        self.pipe = None;
    }

    /// Moves bytes from `source` into `sink` until all is written. `Pending`: one of them waits.
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

    /// Moves a part of a long body from socket to socket. False: there is nothing to move this way.
    fn poll_splice<S: Source>(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut S,
        sink: &TcpStream,
    ) -> Poll<Result<bool, FlowError>> {
        if self.piped() == 0 {
            // The one that is empty goes back before the wait for more.
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

    /// One write of the text and the announced part of `data`. Two short pieces are copied together:
    /// that costs less than a vectored write does.
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

    /// Announces what the source has at hand. Short chunks are gathered, so that those that came
    /// together leave together. True: the source has no more for now.
    fn gather<S: Source>(&mut self, cx: &mut Context<'_>, source: &mut S) -> bool {
        while !self.ended && self.announced == 0 && self.broken.is_none() {
            if self.text.len() > GATHERED_BYTES {
                return false;
            }
            match self.poll_announce(cx, source) {
                Poll::Pending => return true,
                Poll::Ready(Err(error)) => self.broken = Some(error),
                Poll::Ready(Ok(())) => self.take_short_chunk(source),
            }
        }
        false
    }

    /// Copies an announced chunk behind its header, where it is short. Not before something is
    /// written: until then the message may be sent elsewhere, and the source has to have all of it.
    fn take_short_chunk<S: Source>(&mut self, source: &mut S) {
        let is_short = (1..=COPIED_BYTES_MAX).contains(&self.announced);
        if self.framing == OutFraming::Chunked && self.written > 0 && is_short {
            let chunk = source.data().get(..self.announced).unwrap_or_default();
            self.text.extend_from_slice(chunk);
            http1::write::chunk_end(&mut self.text);
            source.consume(self.announced);
            self.announced = 0;
        }
    }

    /// Announces the payload that the source has, or the end.
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

    /// Chunks that are all at hand.
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
    async fn a_message_of_which_nothing_is_written_has_taken_nothing_from_its_source() {
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
    async fn short_chunks_at_hand_leave_in_order_with_the_end_behind_them() {
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
