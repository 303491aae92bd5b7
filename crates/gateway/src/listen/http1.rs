//! HTTP/1.1 from callers: one connection, one request after the other.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use base::limits::{DRAIN_BYTES_MAX, DRAIN_MS_MAX, HALF_CLOSE_MS_MAX};
use bytes::Bytes;
use model::Fault;
use tokio::io::AsyncWrite;
use wire::h2::{PrefaceMatch, match_preface};
use wire::http1::Parsed;
use wire::stream::Stream;

use crate::buffer::Buffer;
use crate::flow::{BodyError, BodyReader, Http1Source, Lend, Source, Unread, poll_read};
use crate::request::{Client, Peer, Request};
use crate::watch::Watch;
use crate::worker::Worker;

/// One caller's connection.
pub(super) struct Connection<'w> {
    pub(super) worker: &'w Worker,
    pub(super) stream: Stream,
    /// The request's body, and whatever was read beyond it.
    pub(super) reader: BodyReader,
    pub(super) watch: Rc<Watch>,
    peer: Rc<Peer>,
    /// Bytes of the `100 Continue` that the caller still waits for.
    interim: &'static [u8],
    /// The caller closed its side: it can read, and sends no more.
    ended: bool,
    /// It did, and nothing that it sent is left: the answer under way is the last.
    pub(super) half_closed: bool,
}

/// What becomes of a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The next request may come.
    Keep,
    /// Nothing of the caller's is unread: close.
    Close,
    /// The caller may still be sending: let it read the answer first.
    Linger,
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A connection in clear whose caller speaks HTTP/2, and what was read of it.
pub(super) struct Http2 {
    pub(super) stream: Stream,
    pub(super) read: Bytes,
}

/// What a connection gives when a head is asked of it.
enum Next {
    /// A request.
    Request(Box<Request>),
    /// The preface of HTTP/2, as the very first bytes.
    Http2,
    /// The connection ended, or idled too long, between requests.
    End,
}

/// Serves requests until one side ends the connection, or it turns out to be another protocol's.
pub(super) async fn serve(worker: &Worker, stream: Stream, peer: Rc<Peer>) -> Option<Http2> {
    let mut connection = Connection {
        worker,
        stream,
        reader: BodyReader::idle(Buffer::default()),
        watch: worker.watches.add(),
        peer,
        interim: &[],
        ended: false,
        half_closed: false,
    };
    let mut first = true;
    loop {
        let after = match connection.read_head(first).await {
            Ok(Next::Request(request)) => connection.serve_one(request).await,
            Ok(Next::End) => break,
            Ok(Next::Http2) => {
                let read = Bytes::copy_from_slice(connection.reader.buffer.filled());
                worker.buffers.release(connection.reader.buffer);
                return Some(Http2 { stream: connection.stream, read });
            }
            Err(fault) => connection.refuse(&fault).await,
        };
        match after {
            After::Keep => first = false,
            After::Close => break,
            After::Linger => {
                connection.linger().await;
                break;
            }
        }
    }
    worker.buffers.release(std::mem::take(&mut connection.reader.buffer));
    None
}

impl Connection<'_> {
    /// Reads one head.
    async fn read_head(&mut self, first: bool) -> Result<Next, Fault> {
        let compiled = self.worker.compiled();
        let (head_ms, idle_ms) = (compiled.live.head_ms, compiled.live.idle_ms);
        drop(compiled);
        let mut begun = !self.reader.buffer.is_empty();
        let patience_ms = if begun || first { head_ms } else { idle_ms };
        self.wait_at_most(patience_ms);
        let mut looked_at = 0;
        loop {
            if !self.reader.buffer.is_empty() {
                if !begun {
                    begun = true;
                    self.wait_at_most(head_ms);
                }
                match self.preface(first) {
                    PrefaceMatch::Yes => return Ok(Next::Http2),
                    PrefaceMatch::No => {
                        if let Some(request) = self.parse_head(&mut looked_at)? {
                            return Ok(Next::Request(request));
                        }
                    }
                    PrefaceMatch::Partial => {}
                }
            }
            match self.read_more().await {
                Ok(0) | Err(_) => return Ok(Next::End),
                Ok(_) => {}
            }
            if self.watch_expired() {
                return if begun { Err(Fault::ClientTimeout) } else { Ok(Next::End) };
            }
        }
    }

    /// Whether this is HTTP/2 by prior knowledge: in clear, where no handshake could agree on it, and
    /// never after a request. Source: RFC 9113 section 3.3.
    fn preface(&self, first: bool) -> PrefaceMatch {
        if first && !self.stream.is_secure() {
            match_preface(self.reader.buffer.filled())
        } else {
            PrefaceMatch::No
        }
    }

    pub(super) fn peer(&self) -> &Rc<Peer> {
        &self.peer
    }

    pub(super) fn wait_at_most(&self, ms: u32) {
        self.watch.set(self.worker.coarse_us() + u64::from(ms) * 1_000);
    }

    fn watch_expired(&self) -> bool {
        self.watch.is_expired()
    }

    /// A call whose head is complete, with its own bytes. `looked_at` bytes were not a whole head
    /// before: they are looked at again only when a line or the buffer ends since, so that a head sent
    /// byte by byte costs a look for each line, not for each byte. The call is borrowed for the look:
    /// a connection that waits holds none.
    fn parse_head(&mut self, looked_at: &mut usize) -> Result<Option<Box<Request>>, Fault> {
        let buffer = &mut self.reader.buffer;
        let fresh = buffer.filled().get(*looked_at..).unwrap_or_default();
        if *looked_at > 0 && buffer.has_room() && !fresh.contains(&b'\n') {
            return Ok(None);
        }
        *looked_at = buffer.filled().len();
        let mut request = self.worker.request();
        match request.head.parse(buffer.filled()) {
            Ok(Parsed::Partial) => {
                self.worker.release_request(request);
                buffer.compact();
                if !buffer.has_room() && !buffer.grow() {
                    let reason = "Request Header Fields Too Large";
                    return Err(Fault::Malformed { status: 431, reason });
                }
                Ok(None)
            }
            Ok(Parsed::Complete) => {
                let len = request.head.len();
                request.bytes.clear();
                request.bytes.extend_from_slice(buffer.filled().get(..len).unwrap_or_default());
                request.peer = Rc::clone(&self.peer);
                request.secure = self.stream.is_secure();
                buffer.consume(len);
                self.begin_body(&request);
                Ok(Some(request))
            }
            Err(rejection) => {
                self.worker.release_request(request);
                Err(Fault::Malformed { status: rejection.status, reason: rejection.reason })
            }
        }
    }

    fn begin_body(&mut self, request: &Request) {
        self.reader.start_request(request.head.framing());
        let waits = request.head.expects_continue() && self.reader.buffer.is_empty();
        self.interim = if waits { CONTINUE } else { &[] };
    }

    /// One read. Ready with an error kind `TimedOut` when the watch's time is up.
    async fn read_more(&mut self) -> io::Result<usize> {
        poll_fn(|cx| {
            let lend = Lend::Head(&self.worker.buffers);
            let read = poll_read(cx, &mut self.stream, &mut self.reader.buffer, lend);
            if read.is_pending() && self.watch.poll_expired(cx) {
                // The caller of this looks at the watch next.
                return Poll::Ready(Ok(1));
            }
            read
        })
        .await
    }

    /// Whether the caller broke the connection while its answer waits for the backend. One that only
    /// closed its side may still read.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> bool {
        let lend = Lend::Head(&self.worker.buffers);
        while self.body_is_done()
            && !self.half_closed
            && (self.reader.buffer.is_absent() || self.reader.buffer.has_room())
        {
            match poll_read(cx, &mut self.stream, &mut self.reader.buffer, lend) {
                Poll::Ready(Ok(0)) => self.half_closed = true,
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return true,
                Poll::Pending => return false,
            }
        }
        false
    }

    /// What of a `100 Continue` has to go before a final head: the rest of one that is partly written,
    /// or a whole one where the body is still `wanted`. From here on none is written beside the answer.
    pub(super) fn take_interim(&mut self, wanted: bool) -> &'static [u8] {
        let left = std::mem::take(&mut self.interim);
        let begun = left.len() < CONTINUE.len();
        if begun || wanted { left } else { &[] }
    }

    /// Whether the caller's body was read to its end.
    pub(super) fn body_is_done(&self) -> bool {
        self.reader.is_done() && self.interim.is_empty()
    }

    /// Sends nothing more, and drops what the caller still sends, so that the answer is not lost to
    /// a reset. Bounded in time and bytes. Source: RFC 9112 section 9.6.
    async fn linger(&mut self) {
        self.wait_at_most(DRAIN_MS_MAX);
        let mut left = DRAIN_BYTES_MAX as usize;
        let mut buffer = std::mem::take(&mut self.reader.buffer);
        let mut shut = false;
        poll_fn(|cx| {
            if !shut {
                match Pin::new(&mut self.stream).poll_shutdown(cx) {
                    Poll::Ready(Ok(())) => shut = true,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => {}
                }
            }
            loop {
                let unread = buffer.filled().len();
                buffer.consume(unread);
                let lend = Lend::Head(&self.worker.buffers);
                match poll_read(cx, &mut self.stream, &mut buffer, lend) {
                    Poll::Ready(Ok(count)) if count > 0 && count < left => left -= count,
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending if self.watch.poll_expired(cx) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
        self.reader.buffer = buffer;
    }
}

impl Source for Connection<'_> {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        while !self.interim.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, self.interim)) {
                Ok(count) if count > 0 => {
                    self.interim = self.interim.get(count..).unwrap_or_default();
                }
                Ok(_) | Err(_) => return Poll::Ready(Err(BodyError::Closed)),
            }
        }
        let (reader, stream) = (&mut self.reader, &mut self.stream);
        Http1Source { reader, stream, buffers: &self.worker.buffers }.poll_fill(cx)
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
        if !self.interim.is_empty() {
            return None;
        }
        self.reader.unread(&self.stream, &self.worker.buffers)
    }
}

impl Client for Connection<'_> {
    /// A caller that closed its side may still wait for its answer; one that is gone looks the same
    /// until something is sent to it. So it gets `HALF_CLOSE_MS_MAX`; a reset ends the wait at once.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        let lend = Lend::Head(&self.worker.buffers);
        while !self.ended && (self.reader.buffer.is_absent() || self.reader.buffer.has_room()) {
            match ready!(poll_read(cx, &mut self.stream, &mut self.reader.buffer, lend)) {
                Ok(0) => self.ended = true,
                Ok(_) => {}
                Err(_) => return Poll::Ready(Fault::ClientLeft),
            }
        }
        if self.ended {
            self.half_closed = self.reader.buffer.is_empty();
            let latest_us = self.worker.coarse_us() + u64::from(HALF_CLOSE_MS_MAX) * 1_000;
            self.watch.bring_forward(latest_us);
        }
        Poll::Pending
    }

    fn has_half_closed(&self) -> bool {
        self.ended
    }

    fn is_untouched(&self) -> bool {
        self.reader.is_untouched()
    }

    fn watch(&self) -> &Watch {
        &self.watch
    }
}
