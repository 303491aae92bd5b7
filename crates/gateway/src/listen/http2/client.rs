//! The client of one stream, for the pipeline.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use model::Fault;
use wire::h2::{self, Incoming, Outgoing, Reason, SendResponse};
use wire::http1::Rejection;

use super::{OpenStream, Shared};
use crate::client::{Begin, Client};
use crate::flow::{BodyError, FlowError, Source};
use crate::forward::{RequestBody, UpstreamBody};
use crate::message::{Head, Request};
use crate::watch::Watch;

/// The request's body, the response, and the client that may reset the stream.
pub(super) struct StreamClient<'a> {
    connection: &'a Shared,
    body: Incoming,
    respond: SendResponse<Bytes>,
    watch: Rc<Watch>,
    /// Payload that was read and not consumed: at most one frame.
    piece: Bytes,
    /// Trailer lines, once `ended`.
    trailers: Vec<u8>,
    ended: bool,
    /// The client waits for a 100 before it sends its body.
    pub(super) waits_for_continue: bool,
    /// Some of the body was consumed.
    touched: bool,
    /// The response has no body, whatever its length. Known even if the head is malformed.
    pub(super) is_head: bool,
    out: Out,
    sent: u64,
    /// The source of the response's body has nothing to send now.
    waits_for_body: bool,
}

/// The state of the response.
enum Out {
    /// Nothing was sent.
    Idle,
    /// The head was sent, and payload follows.
    Body(Outgoing),
    /// Everything was sent.
    Done,
    /// The client reset the stream or closed the connection.
    Gone,
}

/// Size of the `:status` field.
const STATUS_BYTES: usize = 10;

impl<'a> StreamClient<'a> {
    pub(super) fn new(
        stream: &'a OpenStream,
        body: Incoming,
        respond: SendResponse<Bytes>,
    ) -> Self {
        let connection = &*stream.0;
        Self {
            watch: connection.worker().resources.watches.add(),
            connection,
            body,
            respond,
            piece: Bytes::new(),
            trailers: Vec::new(),
            ended: false,
            waits_for_continue: false,
            touched: false,
            is_head: false,
            out: Out::Idle,
            sent: 0,
            waits_for_body: false,
        }
    }

    /// Drops what the client still sends after the response, within limits. Dropping the stream instead
    /// would reset it, and some clients (curl 7.88) then discard the response.
    pub(super) async fn skip_rest(&mut self, bytes_max: usize, ms_max: u32) {
        self.waits_for_continue = false;
        self.watch.set(self.connection.worker().resources.deadline_us(ms_max));
        let mut left = bytes_max;
        poll_fn(|cx| {
            loop {
                match self.poll_fill(cx) {
                    Poll::Pending if self.watch.poll_expired(cx) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Ready(Ok(())) => {}
                }
                let held = self.data().len();
                if held == 0 || held > left {
                    return Poll::Ready(());
                }
                left -= held;
                self.consume(held);
            }
        })
        .await;
    }

    /// Waits until the frames so far are sent, so that a reset does not discard them. Ends when the watch
    /// expires or the client resets.
    async fn until_sent(&self, out: &mut Outgoing) {
        let mark = self.connection.outbox.mark();
        poll_fn(|cx| {
            if out.poll_reset(cx).is_ready() || self.watch.poll_expired(cx) {
                return Poll::Ready(());
            }
            self.connection.outbox.poll_sent(cx, mark)
        })
        .await;
    }
}

impl Source for StreamClient<'_> {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        if std::mem::take(&mut self.waits_for_continue) {
            // If the client is gone, reading its body fails.
            let _ = h2::send_continue(&mut self.respond);
        }
        while self.piece.is_empty() && !self.ended {
            match ready!(self.body.poll_next(cx)) {
                Some(Ok(piece)) => self.piece = piece,
                Some(Err(_)) => return Poll::Ready(Err(BodyError::Closed)),
                None => {
                    let trailers = ready!(self.body.poll_trailers(cx));
                    if let Some(trailers) = trailers.map_err(|_| BodyError::Closed)? {
                        h2::trailer_lines(&mut self.trailers, &trailers)
                            .map_err(BodyError::Malformed)?;
                    }
                    self.ended = true;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        &self.piece
    }

    fn consume(&mut self, count: usize) {
        self.touched = true;
        self.piece.advance(count.min(self.piece.len()));
    }

    fn trailers(&self) -> &[u8] {
        &self.trailers
    }
}

impl RequestBody for StreamClient<'_> {
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        self.respond.poll_reset(cx).map(|_| Fault::ClientLeft)
    }

    fn is_untouched(&self) -> bool {
        !self.touched
    }

    fn watch(&self) -> &Watch {
        &self.watch
    }

    /// HTTP/2 has no half-closed clients: ending the request is normal, and one that is gone resets.
    fn has_half_closed(&self) -> bool {
        false
    }
}

impl Client for StreamClient<'_> {
    fn begin(&mut self, _: &Request, response: &Begin<'_>) -> Result<(), Rejection> {
        let fields = || response.head.fields(response.framing);
        let length = response.framing.length();
        let head = h2::response_head(response.head.status(), fields(), length)?;
        let size: usize = fields().map(|(name, value)| name.len() + value.len()).sum();
        let size = size + STATUS_BYTES;
        let is_all = response.is_bodiless || self.is_head;
        self.sent = size as u64;
        self.connection.outbox.add(size);
        self.out = match self.respond.send_response(head, is_all) {
            Ok(stream) if !is_all => Out::Body(Outgoing::new(stream)),
            Ok(_) => Out::Done,
            Err(_) => Out::Gone,
        };
        Ok(())
    }

    /// Moves payload to the connection's queue, as far as its window and the queue's limit allow.
    fn poll_send<S: Source>(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut S,
    ) -> Poll<Result<(), FlowError>> {
        let outbox = &self.connection.outbox;
        let gone = || FlowError::Sink(io::ErrorKind::ConnectionReset.into());
        let out = match &mut self.out {
            Out::Body(out) => out,
            Out::Idle | Out::Done => return Poll::Ready(Ok(())),
            Out::Gone => return Poll::Ready(Err(gone())),
        };
        if out.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(gone()));
        }
        loop {
            self.waits_for_body = false;
            // First, so that a stream that has to wait does not read bytes that it would have to hold.
            ready!(outbox.poll_capacity(cx));
            self.waits_for_body = true;
            ready!(body.poll_fill(cx)).map_err(FlowError::Source)?;
            self.waits_for_body = false;
            let data = body.data();
            if data.is_empty() {
                break;
            }
            let room = ready!(out.poll_capacity(cx, data.len())).map_err(|_| gone())?;
            let piece = Bytes::copy_from_slice(data.get(..room).unwrap_or(data));
            let count = piece.len();
            out.send(piece).map_err(|_| gone())?;
            outbox.add(count);
            body.consume(count);
            self.sent = self.sent.saturating_add(count as u64);
        }
        let trailers = h2::trailer_map(body.trailers())
            .map_err(|rejection| FlowError::Source(BodyError::Malformed(rejection)))?;
        let Out::Body(out) = std::mem::replace(&mut self.out, Out::Done) else {
            return Poll::Ready(Ok(()));
        };
        let ended = match trailers {
            Some(trailers) => out.trailers(trailers),
            None => out.finish(),
        };
        Poll::Ready(ended.map_err(|_| gone()))
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn waits_for_body(&self) -> bool {
        self.waits_for_body
    }

    /// [`Client::poll_send`] notices.
    fn poll_gone(&mut self, _: &mut Context<'_>) -> bool {
        false
    }

    async fn end(&mut self, complete: bool) {
        let Out::Body(mut out) = std::mem::replace(&mut self.out, Out::Done) else { return };
        if !complete && self.waits_for_body {
            // The upstream's fault.
            let stall_ms = self.connection.worker().compiled().live.stall_ms;
            self.watch.set(self.connection.worker().resources.deadline_us(stall_ms));
            self.until_sent(&mut out).await;
            out.reset(Reason::INTERNAL_ERROR);
        } else {
            out.reset(Reason::CANCEL);
        }
    }

    /// No HTTP/2 request asks for an upgrade, so no upstream agrees to one.
    async fn tunnel(&mut self, _: &Request, _: &Head, _: &mut UpstreamBody) {}
}
