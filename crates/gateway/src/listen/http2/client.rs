//! The client of one stream, for the pipeline.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use base::limits::GATHERED_BODY_BYTES_MAX;
use model::{Denial, Fault};
use wire::h2::{self, Reason};
use wire::http1::{BodyFraming, Rejection};

use super::{OpenStream, Shared};
use crate::body::request_body::RequestBody;
use crate::body::{BodyError, FlowError, Source};
use crate::exchange::client::{Begin, Client};
use crate::forward::UpstreamBody;
use crate::listen::tunnel;
use crate::message::{Framing, Head, Request};
use crate::tasks::watch::Watch;

/// The request's body, the response, and the client that may reset the stream.
pub(super) struct StreamClient<'a> {
    connection: &'a Shared,
    slot: usize,
    watch: Rc<Watch>,
    /// Payload that was received; the first `used` bytes were consumed.
    payload: Vec<u8>,
    used: usize,
    /// Trailer lines, once `ended`.
    trailers: Vec<u8>,
    ended: bool,
    /// The client waits for a 100 before it sends its body.
    waits_for_continue: bool,
    /// The request's body is so short that it is gathered before it is forwarded.
    is_short: bool,
    /// Payload bytes of the request that were consumed.
    consumed: u64,
    /// The request method is HEAD: the response has no body, regardless of its length. Known even if the head is
    /// malformed.
    is_head_method: bool,
    out: Out,
    /// The encoded head, until it is sent.
    head: Vec<u8>,
    sent: u64,
    /// The source of the response's body has nothing to send now.
    waits_for_body: bool,
    /// The request is an extended CONNECT that the upstream has not accepted yet: its payload is not the request's
    /// body, and waits in the stream's window.
    is_held_back: bool,
}

/// The state of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Out {
    Idle,
    /// The head waits for the first bytes of the body.
    Head {
        is_all: bool,
    },
    /// The head was sent, and payload follows.
    Body,
    /// Everything was sent, or the stream was reset.
    Done,
}

impl<'a> StreamClient<'a> {
    pub(super) fn new(stream: &'a OpenStream, request: &Request, is_head_method: bool) -> Self {
        let (connection, slot) = (&*stream.connection, stream.slot);
        let is_short = match request.head.framing() {
            BodyFraming::Length(bytes) => bytes <= GATHERED_BODY_BYTES_MAX,
            BodyFraming::None | BodyFraming::Chunked => false,
        };
        Self {
            watch: {
                let resources = &connection.worker().resources;
                connection.inboxes.borrow_mut().watch(slot, &connection.watch, resources)
            },
            connection,
            slot,
            payload: Vec::new(),
            used: 0,
            trailers: Vec::new(),
            ended: false,
            waits_for_continue: request.head.expects_continue(),
            is_short,
            consumed: 0,
            is_head_method,
            out: Out::Idle,
            head: Vec::new(),
            sent: 0,
            waits_for_body: false,
            is_held_back: request.is_connect,
        }
    }

    fn is_reset(&self) -> bool {
        self.connection.engine.borrow().is_reset(self.slot)
    }

    /// Drops data that the client still sends after the response, within limits. Resetting the stream instead makes
    /// some clients (curl 7.88) discard the response.
    pub(super) async fn skip_rest(&mut self, bytes_max: usize, ms_max: u32) {
        (self.waits_for_continue, self.is_held_back) = (false, false);
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

    fn encode_head<'f>(
        &mut self,
        status: u16,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        length: Option<u64>,
    ) -> Result<(), Rejection> {
        if self.head.capacity() == 0 {
            self.head = self.connection.worker().resources.buffers.text();
        }
        self.head.clear();
        h2::head_block(&mut self.head, status, fields, length)
    }

    /// Sends the head. `is_all`: nothing follows.
    fn send_head(&mut self, is_all: bool) {
        self.connection.engine.borrow_mut().send_head(self.slot, &self.head, is_all);
        self.sent = self.head.len() as u64;
        self.connection.worker().resources.buffers.release_text(std::mem::take(&mut self.head));
        self.out = if is_all { Out::Done } else { Out::Body };
    }

    /// Sends the front of `data`. Pending if the client's window, or the queue, is full.
    fn poll_data(&mut self, data: &[u8]) -> Poll<usize> {
        let count = self.connection.engine.borrow_mut().send_data(self.slot, data);
        if count == 0 {
            self.connection.block(self.slot);
            return Poll::Pending;
        }
        self.sent = self.sent.saturating_add(count as u64);
        Poll::Ready(count)
    }

    /// Ends the response.
    fn finish(&mut self, trailers: &[u8]) -> Result<(), Rejection> {
        if trailers.is_empty() {
            self.connection.engine.borrow_mut().finish(self.slot);
        } else {
            let mut block = Vec::new();
            h2::trailer_block(&mut block, trailers)?;
            self.connection.engine.borrow_mut().send_trailers(self.slot, &block);
        }
        self.out = Out::Done;
        Ok(())
    }
}

impl Drop for StreamClient<'_> {
    fn drop(&mut self) {
        // Not available only if this is dropped by a panic during its use.
        if let Ok(mut engine) = self.connection.engine.try_borrow_mut() {
            engine.close(self.slot);
        }
        let buffers = &self.connection.worker().resources.buffers;
        buffers.release_text(std::mem::take(&mut self.payload));
        buffers.release_text(std::mem::take(&mut self.head));
    }
}

impl Source for StreamClient<'_> {
    fn poll_fill(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        if std::mem::take(&mut self.waits_for_continue) {
            self.connection.engine.borrow_mut().send_continue(self.slot);
        }
        if self.is_held_back || self.ended || self.used < self.payload.len() {
            return Poll::Ready(Ok(()));
        }
        if self.is_reset() {
            return Poll::Ready(Err(BodyError::Closed));
        }
        let mut inboxes = self.connection.inboxes.borrow_mut();
        let Some(inbox) = inboxes.get(self.slot) else {
            return Poll::Ready(Err(BodyError::Closed));
        };
        if !inbox.payload.is_empty() {
            (self.payload, self.used) = (inbox.take_payload(std::mem::take(&mut self.payload)), 0);
        } else if inbox.ended {
            self.ended = true;
            self.trailers = std::mem::replace(&mut inbox.trailers, Ok(Vec::new()))
                .map_err(BodyError::Malformed)?;
        } else {
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    /// Gathered bytes take from the connection's window. When half of it is taken, a body is forwarded as it comes.
    fn poll_gather(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let lacks_bytes = self.is_short
            && !self.connection.engine.borrow().is_crowded()
            && !self.waits_for_continue
            && self.data().is_empty()
            && self
                .connection
                .inboxes
                .borrow_mut()
                .get(self.slot)
                .is_some_and(|inbox| !inbox.ended);
        if lacks_bytes && !self.is_reset() { Poll::Pending } else { self.poll_fill(cx) }
    }

    fn data(&self) -> &[u8] {
        self.payload.get(self.used..).unwrap_or_default()
    }

    fn consume(&mut self, count: usize) {
        let count = count.min(self.data().len());
        self.consumed = self.consumed.saturating_add(count as u64);
        self.used += count;
        self.connection.engine.borrow_mut().consumed(self.slot, count);
    }

    fn trailers(&self) -> &[u8] {
        &self.trailers
    }
}

impl RequestBody for StreamClient<'_> {
    fn poll_left(&mut self, _: &mut Context<'_>, _: bool) -> Poll<Box<Fault>> {
        if self.watch.gives_way() {
            return Poll::Ready(Fault::Denied(Denial::Overloaded).into());
        }
        if self.is_reset() { Poll::Ready(Fault::ClientLeft.into()) } else { Poll::Pending }
    }

    fn consumed(&self) -> u64 {
        self.consumed
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
        let (status, length) = (response.head.status(), response.framing.length());
        // To the client it would be a tunnel. Source: RFC 9113 section 8.5.
        if self.is_held_back && (200..300).contains(&status) {
            return Err(Rejection::new(
                502,
                "the response to the WebSocket handshake is not a 101",
            ));
        }
        let fields = response.head.fields(response.framing);
        self.encode_head(status, fields, length)?;
        self.out = Out::Head { is_all: response.is_bodiless || self.is_head_method };
        Ok(())
    }

    /// Moves payload to the connection's output, as far as its window and the output's limit allow. The head leaves
    /// with the first bytes.
    fn poll_send<S: Source>(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut S,
    ) -> Poll<Result<(), FlowError>> {
        loop {
            if matches!(self.out, Out::Idle | Out::Done) {
                return Poll::Ready(Ok(()));
            }
            self.waits_for_body = false;
            if self.is_reset() {
                let gone = io::ErrorKind::ConnectionReset.into();
                return Poll::Ready(Err(FlowError::Sink(gone)));
            }
            // First, so that a stream that has to wait does not read bytes that it would have to hold.
            if self.connection.engine.borrow().is_full() {
                self.connection.block(self.slot);
                return Poll::Pending;
            }
            if self.out == (Out::Head { is_all: true }) {
                self.send_head(true);
                continue;
            }
            self.waits_for_body = true;
            let filled = body.poll_fill(cx).map_err(FlowError::Source);
            let ready = match filled {
                Poll::Ready(filled) => {
                    filled?;
                    true
                }
                Poll::Pending => false,
            };
            if self.out == (Out::Head { is_all: false }) {
                let is_all = ready && body.data().is_empty() && body.trailers().is_empty();
                self.send_head(is_all);
                if is_all {
                    continue;
                }
            }
            if !ready {
                return Poll::Pending;
            }
            let data = body.data();
            if data.is_empty() {
                // A malformed trailer is the upstream's fault: bytes already sent are written before the reset.
                let ended = self.finish(body.trailers()).map_err(BodyError::Malformed);
                ended.map_err(FlowError::Source)?;
                continue;
            }
            self.waits_for_body = false;
            match self.poll_data(data) {
                Poll::Ready(count) => body.consume(count),
                Poll::Pending => {
                    body.park();
                    return Poll::Pending;
                }
            }
        }
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

    async fn end(&mut self, _: bool) {
        if std::mem::replace(&mut self.out, Out::Done) != Out::Done {
            let upstreams_fault = self.waits_for_body;
            let reason = if upstreams_fault { Reason::InternalError } else { Reason::Cancel };
            self.connection.engine.borrow_mut().reset(self.slot, reason);
        }
    }

    /// The 101 becomes a 200. A tunnel that does not end in order is reset. Source: RFC 8441 section 5.
    async fn tunnel(
        &mut self,
        _: &Request,
        head: &Head,
        upstream: &mut UpstreamBody,
        moved: &dyn Fn(u64, u64),
    ) {
        let fields = head.fields(Framing::None);
        let fields = fields.filter(|(name, _)| !name.eq_ignore_ascii_case(b"sec-websocket-accept"));
        let mut is_complete = false;
        if self.encode_head(200, fields, None).is_ok() {
            (self.out, self.is_held_back) = (Out::Head { is_all: false }, false);
            let resources = &self.connection.worker().resources;
            is_complete = tunnel::run(self, upstream, resources, moved).await;
        }
        self.out = Out::Done;
        if !is_complete {
            self.connection.engine.borrow_mut().reset(self.slot, Reason::Cancel);
        }
    }
}
