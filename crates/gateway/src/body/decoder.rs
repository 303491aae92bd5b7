//! Incoming HTTP/1.1 bodies: framing is removed, and the rest of a long body can be spliced.

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use base::limits::{GATHERED_BODY_BYTES_MAX, SPLICE_BYTES_MIN, SPLICE_PIECE_BYTES_MIN};
use bytes::BufMut as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use wire::http1::{BodyFraming, ChunkedDecoder, Piece, Rejection, ResponseFraming, Side};
use wire::splice;
use wire::stream::Stream;

use super::buffer::{Buffer, Buffers, LentPipe};
use super::source::{BodyError, Lend, Source, poll_read};

/// The rest of a body, still unread in its socket.
pub(crate) struct Unread<'a> {
    reader: &'a mut BodyReader,
    tcp: &'a TcpStream,
    buffers: &'a Buffers,
}

impl Unread<'_> {
    /// Moves some of it into a lent pipe. `None`: splicing is not possible, the body must be read.
    pub(super) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<LentPipe>, BodyError>> {
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
            Ok(_) | Err(_) => {
                self.reader.broke = true;
                Poll::Ready(Err(BodyError::Closed))
            }
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

/// The state of one incoming HTTP/1.1 body. The buffer is lent while bytes are in flight.
#[derive(Debug)]
pub(crate) struct BodyReader {
    pub(crate) buffer: Buffer,
    decode: Decode,
    /// Payload bytes at the front of the buffer.
    ready: usize,
    /// All payload is in `ready`.
    complete: bool,
    /// Payload bytes that were consumed.
    consumed: u64,
    /// The trailers are not forwarded: some of them may be named by `Connection`.
    pub(crate) drops_trailers: bool,
    /// The peer cut it off, or it is not valid.
    pub(crate) broke: bool,
    /// It is not spliced: it arrives in small pieces, or no pipe is available.
    in_pieces: bool,
}

impl BodyReader {
    /// A connection between two bodies.
    pub(crate) fn idle(buffer: Buffer) -> Self {
        let decode = Decode::Length(0);
        Self {
            buffer,
            decode,
            ready: 0,
            complete: true,
            consumed: 0,
            drops_trailers: false,
            broke: false,
            in_pieces: false,
        }
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
        (self.consumed, self.drops_trailers, self.in_pieces) = (0, false, false);
        self.broke = false;
    }

    /// Whether every payload byte was read and consumed.
    pub(crate) fn is_done(&self) -> bool {
        self.complete && self.ready == 0
    }

    /// Whether the body has no other end than that of the connection.
    pub(crate) fn ends_with_connection(&self) -> bool {
        matches!(self.decode, Decode::UntilClose)
    }

    /// Whether more bytes of a body of known length must arrive.
    pub(crate) fn lacks_bytes(&self) -> bool {
        let held = self.buffer.filled().len().saturating_sub(self.ready);
        matches!(self.decode, Decode::Length(left) if left > held as u64)
    }

    /// The length of the body that is left, if it is known.
    pub(crate) fn announced(&self) -> Option<u64> {
        match self.decode {
            Decode::Length(left) => Some(left),
            Decode::Chunked(_) | Decode::UntilClose => None,
        }
    }

    /// Payload bytes of the current body that were consumed.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
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
        self.passed(count);
        self.in_pieces = count < SPLICE_PIECE_BYTES_MIN;
    }

    /// Records that `count` bytes of a body of known length did not come through the buffer.
    fn passed(&mut self, count: usize) {
        if let Decode::Length(left) = &mut self.decode {
            *left = left.saturating_sub(count as u64);
            self.complete = *left == 0;
            self.consumed = self.consumed.saturating_add(count as u64);
        }
    }

    /// [`Source::poll_read_to`].
    fn poll_read_to(
        &mut self,
        cx: &mut Context<'_>,
        (stream, buffers): (&mut Stream, &Buffers),
        to: &mut Vec<u8>,
    ) -> Poll<Result<bool, BodyError>> {
        let most = usize::try_from(self.unread_len()).unwrap_or(usize::MAX);
        let most = most.min(to.capacity().saturating_sub(to.len()));
        if most == 0 {
            return Poll::Ready(Ok(false));
        }
        buffers.release(std::mem::take(&mut self.buffer));
        match ready!(pin!(stream.read_buf(&mut to.limit(most))).poll(cx)) {
            Ok(count) if count > 0 => {
                self.passed(count);
                Poll::Ready(Ok(true))
            }
            Ok(_) | Err(_) => Poll::Ready(Err(BodyError::Closed)),
        }
    }

    /// Drops buffered payload, which does not count as consumed. Returns whether that was the rest of the body.
    pub(crate) fn skip_held(&mut self) -> bool {
        loop {
            self.buffer.consume(self.ready);
            self.ready = 0;
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
        self.consumed = self.consumed.saturating_add(count as u64);
        self.buffer.consume(count);
    }

    pub(crate) fn trailers(&self) -> &[u8] {
        self.chunked().filter(|_| !self.drops_trailers).map_or(&[], ChunkedDecoder::trailers)
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

    /// Reads until all of a body of at most `GATHERED_BODY_BYTES_MAX` is buffered, or the beginning of another.
    pub(crate) fn poll_gather(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        buffers: &Buffers,
    ) -> Poll<Result<(), BodyError>> {
        ready!(self.poll_fill(cx, stream, buffers))?;
        while let Decode::Length(left) = self.decode
            && (1..=GATHERED_BODY_BYTES_MAX).contains(&left)
        {
            self.buffer.compact();
            if !self.buffer.has_free_space() {
                break;
            }
            match ready!(poll_read(cx, stream, &mut self.buffer, Lend::Head(buffers))) {
                Ok(0) | Err(_) => return Poll::Ready(Err(BodyError::Closed)),
                Ok(count) => {
                    let take = usize::try_from(left).unwrap_or(usize::MAX).min(count);
                    let left = left.saturating_sub(take as u64);
                    self.decode = Decode::Length(left);
                    self.ready = self.ready.saturating_add(take);
                    self.complete = left == 0;
                }
            }
        }
        Poll::Ready(Ok(()))
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
        let filled = self.reader.poll_fill(cx, self.stream, self.buffers);
        self.reader.broke |= matches!(filled, Poll::Ready(Err(_)));
        filled
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

    fn poll_read_to(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut Vec<u8>,
    ) -> Poll<Result<bool, BodyError>> {
        let read = self.reader.poll_read_to(cx, (self.stream, self.buffers), to);
        self.reader.broke |= matches!(read, Poll::Ready(Err(_)));
        read
    }

    fn park(&mut self) {
        self.buffers.park(&mut self.reader.buffer);
    }

    fn unread(&mut self) -> Option<Unread<'_>> {
        self.reader.unread(self.stream, self.buffers)
    }
}
