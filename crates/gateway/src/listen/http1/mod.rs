//! HTTP/1.1 connections of clients: one request after another.

mod client;

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use base::limits::DRAIN_MS_MAX;
use model::Fault;
use wire::h2::{PrefaceMatch, match_preface};
use wire::http1::{BodyFraming, Parsed};
use wire::stream::Stream;

use super::linger::linger;
use super::{rejected, request_from};
use crate::body::buffer::Buffer;
use crate::body::{BodyReader, Lend, Outflow, poll_read};
use crate::message::{Peer, Request};
use crate::own_requests::own_body::OwnBody;
use crate::pipeline;
use crate::shares::gate::Pass;
use crate::tasks::boxed::boxed;
use crate::tasks::watch::Watch;
use crate::worker::Worker;

/// A client's connection.
pub(super) struct Connection<'w> {
    pub(super) worker: &'w Worker,
    pub(super) stream: Stream,
    /// The request's body, and the bytes read beyond it.
    pub(super) reader: BodyReader,
    pub(super) watch: Rc<Watch>,
    peer: Rc<Peer>,
    /// The connection may start with the preface of HTTP/2.
    prior_knowledge: bool,
    /// Unsent bytes of the `100 Continue` that the client expects.
    interim: &'static [u8],
    /// The client closed its sending side; it may still read.
    ended: bool,
    /// The same, and nothing is left to read: the current response is the last.
    half_closed: bool,
    /// The request's framing is unknown: the current response is the last.
    is_unframed: bool,
    /// The response that is being sent.
    out: Outflow,
    /// Bytes of an interim response at the front of `out`.
    out_interim: &'static [u8],
    /// The body of the response ends with the connection.
    ends_with_close: bool,
    /// The connection serves another request after this response.
    keep: bool,
    after: After,
    /// The turn of the request that is about to be read.
    turn: Option<Pass>,
}

/// The action on a connection after a response.
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
    pub(super) read: Buffer,
}

/// The result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// Some arrived, or the watch expired.
    Bytes,
    /// The client sends no more.
    Ended,
    /// Nothing has arrived, and the gateway drains.
    Drained,
    /// Something can be read, but other requests come first.
    Waits,
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
/// `prior_knowledge`: the preface is accepted.
pub(super) async fn serve(
    worker: &Worker,
    stream: Stream,
    peer: Rc<Peer>,
    prior_knowledge: bool,
) -> Option<Http2> {
    let mut connection = Connection {
        worker,
        stream,
        reader: BodyReader::idle(Buffer::default()),
        watch: worker.resources.watches.add(),
        peer,
        prior_knowledge,
        interim: &[],
        ended: false,
        half_closed: false,
        is_unframed: false,
        out: Outflow::idle(),
        out_interim: &[],
        ends_with_close: false,
        keep: false,
        after: After::Close,
        turn: None,
    };
    connection.watch.belong_to_client(connection.peer.network());
    let mut first = true;
    loop {
        let after = match connection.read_head(first).await {
            Ok(Next::Request(request)) => {
                connection.after = After::Close;
                connection.out.clear();
                if connection.turn.is_some() {
                    // Recently used memory costs less than the memory that this task last used long ago.
                    boxed(|| pipeline::exchange(worker, Ok(()), &request, &mut connection)).await;
                } else {
                    // Pinned where it is made: it is large.
                    pin!(pipeline::exchange(worker, Ok(()), &request, &mut connection)).await;
                }
                worker.resources.release_request(request);
                connection.after
            }
            Ok(Next::End) => break,
            Ok(Next::Http2) => {
                let Connection { stream, reader, .. } = connection;
                return Some(Http2 { stream, read: reader.buffer });
            }
            Err(fault) => {
                let unknown = rejected((&connection.peer, connection.stream.is_secure()));
                connection.out.clear();
                connection.is_unframed = true;
                connection.reader.start_request(BodyFraming::None);
                pipeline::exchange(worker, Err(fault), &unknown, &mut connection).await;
                After::Linger
            }
        };
        match after {
            After::Keep => first = false,
            After::Close => break,
            After::Linger => {
                let Connection { stream, reader, watch, .. } = &mut connection;
                linger(worker, stream, &mut reader.buffer, watch).await;
                break;
            }
        }
    }
    worker.resources.buffers.release(std::mem::take(&mut connection.reader.buffer));
    None
}

impl Connection<'_> {
    /// Reads one head.
    async fn read_head(&mut self, first: bool) -> Result<Next, Box<Fault>> {
        let compiled = self.worker.compiled();
        let (head_ms, idle_ms) = (compiled.live.head_ms, compiled.live.idle_ms);
        drop(compiled);
        let mut begun = !self.reader.buffer.is_empty();
        let limit_ms = if begun || first { head_ms } else { idle_ms };
        self.wait_at_most(limit_ms);
        let mut since_us = self.worker.resources.coarse_us();
        self.watch.client_is_slow(false, since_us);
        self.watch.client_is_slow(true, since_us);
        let (mut looked_at, mut drained, mut has_waited) = (0, false, false);
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
                            self.watch.client_is_slow(false, since_us);
                            return Ok(Next::Request(request));
                        }
                    }
                    PrefaceMatch::Partial => {}
                }
                // Only a request that is there can use it.
                self.turn = None;
            }
            match self.read_more((!begun).then_some(since_us), has_waited).await {
                Ok(Read::Bytes) => {}
                // Once more after the event queue was looked at: a request may have arrived just now.
                Ok(Read::Drained) if !drained => {
                    drained = true;
                    tokio::task::yield_now().await;
                }
                Ok(Read::Waits) => {
                    Box::pin(self.wait_for_turn()).await;
                    // A request has arrived: the connection was not idle.
                    since_us = self.worker.resources.coarse_us();
                    self.wait_at_most(limit_ms);
                    has_waited = true;
                    continue;
                }
                Ok(Read::Drained | Read::Ended) | Err(_) => return Ok(Next::End),
            }
            if self.watch_expired() {
                return if begun { Err(Fault::ClientTimeout.into()) } else { Ok(Next::End) };
            }
        }
    }

    /// Waits until a request may be read, so that it waits in the socket, and holds nothing. Without a turn it is read
    /// too, and then waits or is rejected when it is admitted.
    async fn wait_for_turn(&mut self) {
        let resources = &self.worker.resources;
        self.watch.client_is_slow(false, resources.coarse_us());
        let mut nothing = OwnBody::empty(&self.watch);
        self.turn = self.worker.saturation.turn(resources, &mut nothing).await.ok();
        self.watch.client_is_slow(true, resources.coarse_us());
    }

    /// Whether this is HTTP/2 by prior knowledge: only in cleartext, without ALPN, and never after a request. Source:
    /// RFC 9113 section 3.3.
    fn preface(&self, first: bool) -> PrefaceMatch {
        if first && self.prior_knowledge {
            match_preface(self.reader.buffer.filled())
        } else {
            PrefaceMatch::No
        }
    }

    fn wait_at_most(&self, ms: u32) {
        self.watch.set(self.worker.resources.deadline_us(ms));
    }

    fn watch_expired(&self) -> bool {
        self.watch.is_expired()
    }

    /// Parses the head, if it is complete. The first `looked_at` bytes were incomplete before. The request is borrowed
    /// for parsing: a waiting connection holds none.
    fn parse_head(&mut self, looked_at: &mut usize) -> Result<Option<Box<Request>>, Box<Fault>> {
        let buffer = &mut self.reader.buffer;
        if !buffer.may_hold_head(*looked_at) {
            return Ok(None);
        }
        *looked_at = buffer.filled().len();
        let of = (&self.peer, self.stream.is_secure());
        let read = request_from(self.worker, of, |request| {
            let parsed = request.head.parse(buffer.filled())?;
            if parsed == Parsed::Complete {
                let head = buffer.filled().get(..request.head.len()).unwrap_or_default();
                request.bytes.clear();
                request.bytes.extend_from_slice(head);
            }
            Ok(parsed)
        })?;
        let Some(request) = read else {
            if buffer.make_room() {
                return Ok(None);
            }
            let reason = "Request Header Fields Too Large";
            return Err(Fault::Malformed { status: 431, reason }.into());
        };
        buffer.consume(request.head.len());
        self.begin_body(&request);
        Ok(Some(request))
    }

    fn begin_body(&mut self, request: &Request) {
        self.reader.start_request(request.head.framing());
        self.reader.drops_trailers = request.head.names_fields();
        let waits = request.head.expects_continue() && self.reader.buffer.is_empty();
        self.interim = if waits { CONTINUE } else { &[] };
    }

    /// One read. Also returns when the watch expires. `idle_since_us`: since when it waits for a request, of which
    /// nothing has arrived. While the gateway drains, it does so for at most `DRAIN_MS_MAX`: a client that has just
    /// read a response can send its next request, and one that is idle is closed. `has_waited`: for its turn.
    async fn read_more(
        &mut self,
        idle_since_us: Option<u64>,
        has_waited: bool,
    ) -> io::Result<Read> {
        let buffers = &self.worker.resources.buffers;
        poll_fn(|cx| {
            if idle_since_us.is_some()
                && !has_waited
                && self.worker.saturation.is_full()
                && self.stream.poll_readable(cx).is_ready()
                && !self.peer.is_own(self.worker.own_connections())
            {
                return Poll::Ready(Ok(Read::Waits));
            }
            buffers.unpark(&mut self.reader.buffer);
            let lend = Lend::Head(buffers);
            let read = poll_read(cx, &mut self.stream, &mut self.reader.buffer, lend);
            if read.is_pending() {
                buffers.park(&mut self.reader.buffer);
                // There was no request after all, such as in half a TLS record.
                self.turn = None;
            }
            if read.is_pending()
                && self.worker.draining.get()
                && let Some(idle_since_us) = idle_since_us
            {
                let latest_us = idle_since_us.saturating_add(u64::from(DRAIN_MS_MAX) * 1_000);
                if latest_us <= self.worker.resources.coarse_us() {
                    return Poll::Ready(Ok(Read::Drained));
                }
                self.watch.bring_forward(latest_us);
            }
            if read.is_pending() && self.watch.poll_expired(cx) {
                // The caller checks the watch next.
                return Poll::Ready(Ok(Read::Bytes));
            }
            read.map_ok(|count| if count == 0 { Read::Ended } else { Read::Bytes })
        })
        .await
    }
}
