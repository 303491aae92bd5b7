//! HTTP/1.1 connections of clients: one request after another.

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

/// A client's connection.
pub(super) struct Connection<'w> {
    pub(super) worker: &'w Worker,
    pub(super) stream: Stream,
    /// The request's body, and the bytes read beyond it.
    pub(super) reader: BodyReader,
    pub(super) watch: Rc<Watch>,
    peer: Rc<Peer>,
    /// Unsent bytes of the `100 Continue` that the client expects.
    interim: &'static [u8],
    /// The client closed its sending side; it may still read.
    ended: bool,
    /// The same, and nothing is left to read: the current response is the last.
    pub(super) half_closed: bool,
}

/// What to do with a connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Read the next request.
    Keep,
    /// Close; nothing is unread.
    Close,
    /// The client may still be sending: let it read the response before closing.
    Linger,
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A cleartext HTTP/2 connection, and the bytes already read from it.
pub(super) struct Http2 {
    pub(super) stream: Stream,
    pub(super) read: Bytes,
}

/// The result of reading a head.
enum Next {
    Request(Box<Request>),
    /// The connection starts with the preface of HTTP/2.
    Http2,
    /// The connection ended or was idle too long between requests.
    End,
}

/// Serves requests until the connection ends, or starts with the HTTP/2 preface.
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
            Ok(Next::Request(request)) => connection.serve_request(request).await,
            Ok(Next::End) => break,
            Ok(Next::Http2) => {
                let read = Bytes::copy_from_slice(connection.reader.buffer.filled());
                worker.buffers.release(connection.reader.buffer);
                return Some(Http2 { stream: connection.stream, read });
            }
            Err(fault) => connection.reject(&fault).await,
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
        let limit_ms = if begun || first { head_ms } else { idle_ms };
        self.wait_at_most(limit_ms);
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

    /// Whether this is HTTP/2 by prior knowledge: only in cleartext, where there is no ALPN, and never after
    /// a request. Source: RFC 9113 section 3.3.
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

    /// Parses the head, if it is complete. The first `looked_at` bytes were incomplete before: they are
    /// parsed again only when a line ends or the buffer is full, so that a head sent byte by byte is parsed
    /// once per line. The request is borrowed for parsing: a waiting connection holds none.
    fn parse_head(&mut self, looked_at: &mut usize) -> Result<Option<Box<Request>>, Fault> {
        let buffer = &mut self.reader.buffer;
        let fresh = buffer.filled().get(*looked_at..).unwrap_or_default();
        if *looked_at > 0 && buffer.has_free_space() && !fresh.contains(&b'\n') {
            return Ok(None);
        }
        *looked_at = buffer.filled().len();
        let mut request = self.worker.request();
        match request.head.parse(buffer.filled()) {
            Ok(Parsed::Partial) => {
                self.worker.release_request(request);
                buffer.compact();
                if !buffer.has_free_space() && !buffer.grow() {
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

    /// One read. Also returns when the watch expires.
    async fn read_more(&mut self) -> io::Result<usize> {
        poll_fn(|cx| {
            let lend = Lend::Head(&self.worker.buffers);
            let read = poll_read(cx, &mut self.stream, &mut self.reader.buffer, lend);
            if read.is_pending() && self.watch.poll_expired(cx) {
                // The caller checks the watch next.
                return Poll::Ready(Ok(1));
            }
            read
        })
        .await
    }

    /// Whether the client's connection failed. A client that only closed its sending side may still read.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> bool {
        let lend = Lend::Head(&self.worker.buffers);
        while self.body_is_done()
            && !self.half_closed
            && (self.reader.buffer.is_absent() || self.reader.buffer.has_free_space())
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

    /// The bytes of a `100 Continue` to send before the final head: the rest of one that is partly written,
    /// or a whole one if the body is still `wanted`. None is sent afterwards.
    pub(super) fn take_interim(&mut self, wanted: bool) -> &'static [u8] {
        let left = std::mem::take(&mut self.interim);
        let begun = left.len() < CONTINUE.len();
        if begun || wanted { left } else { &[] }
    }

    /// Whether the request's body was read completely.
    pub(super) fn body_is_done(&self) -> bool {
        self.reader.is_done() && self.interim.is_empty()
    }

    /// Shuts down the sending side, and drops what the client still sends, so that the response is not lost
    /// to a reset. Limited in time and bytes. Source: RFC 9112 section 9.6.
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
    /// A client that closed its sending side may still wait for the response, and cannot be distinguished
    /// from one that is gone. The wait is limited to `HALF_CLOSE_MS_MAX`; a reset ends it immediately.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        let lend = Lend::Head(&self.worker.buffers);
        while !self.ended && (self.reader.buffer.is_absent() || self.reader.buffer.has_free_space())
        {
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
