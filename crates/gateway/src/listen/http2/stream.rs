//! One exchange over HTTP/2, from the request's head to the last frame of the response.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use base::limits::{DRAIN_BYTES_MAX, DRAIN_MS_MAX};
use bytes::Bytes;
use model::Fault;
use wire::h2::{self, Accepted, Incoming, Outgoing, Reason, SendStream};
use wire::http1::{Parsed, Rejection, write};

use super::OpenStream;
use super::client::{Responder, StreamClient};
use super::outbox::Outbox;
use crate::account::Record;
use crate::flow::{BodyError, Http1Source, Source};
use crate::forward::{Upload, UpstreamResponse};
use crate::listen::response::{
    Ended, finish_delivery, framing_for, log_fault, poll_upload, release, write_own, write_upstream,
};
use crate::pipeline::{self, Response};
use crate::request::Request;
use crate::respond::{self, OwnResponse};
use crate::worker::Worker;

/// Serves one stream.
pub(super) async fn serve(opened: OpenStream, (parts, body, respond): Accepted) {
    let worker = opened.0.worker();
    let _busy = worker.busy();
    let mut record = Record::open(worker.now_us());
    let respond = RefCell::new(respond);
    let mut client = StreamClient::new(Incoming::new(body), &respond, worker.watches.add());
    let mut request = worker.request();
    request.bytes.clear();
    let head = h2::head_bytes(&mut request.bytes, &parts, client.has_no_body());
    let compiled = worker.compiled();
    let outcome = match head.and_then(|()| parse_head(&mut request)) {
        Ok(()) => {
            request.peer = Rc::clone(&opened.0.peer);
            request.secure = opened.0.secure;
            client.expect_continue(request.head.expects_continue());
            let exchange =
                pipeline::exchange(worker, &compiled, &request, &mut client, &mut record);
            unless_reset(&respond, exchange).await
        }
        Err(Rejection { status, reason }) => {
            // Nothing of a rejected head may be logged.
            *request = Request { peer: Rc::clone(&opened.0.peer), ..Request::default() };
            Err(Fault::Malformed { status, reason })
        }
    };
    let (outbox, is_head) = (&opened.0.outbox, parts.method == "HEAD");
    let mut stream = ResponseStream { worker, outbox, request: &request, client, is_head };
    let fault = match outcome {
        Ok(Response::Upstream(response)) => stream.deliver(response, &mut record).await.err(),
        Ok(Response::Own(response)) => {
            record.status = response.status;
            stream.send_own(response, &mut record).await;
            None
        }
        Err(fault) => Some(fault),
    };
    if let Some(fault) = fault {
        let own = respond::fault_response(&fault, record.allow, compiled.live.fault_status);
        record.fault(&fault, own.response.status, own.code);
        log_fault(worker, &fault, &record);
        if fault != Fault::ClientLeft {
            stream.send_own(own.response, &mut record).await;
        }
    }
    stream.skip_rest().await;
    drop(stream);
    worker.close(record, &request);
    worker.release_request(request);
}

/// Parses the head, which is subject to the same checks as over HTTP/1.1.
fn parse_head(request: &mut Request) -> Result<(), Rejection> {
    match request.head.parse(&request.bytes)? {
        Parsed::Complete if request.head.len() == request.bytes.len() => Ok(()),
        Parsed::Complete | Parsed::Partial => {
            Err(Rejection { status: 400, reason: "head is malformed" })
        }
    }
}

/// The output of `exchange`, unless the client resets the stream first. The exchange is then dropped, and
/// its upstream connection closed.
async fn unless_reset<T>(
    respond: &Responder,
    exchange: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let mut exchange = pin!(exchange);
    poll_fn(|cx| {
        if respond.borrow_mut().poll_reset(cx).is_ready() {
            return Poll::Ready(Err(Fault::ClientLeft));
        }
        exchange.as_mut().poll(cx)
    })
    .await
}

/// A stream whose response is being sent.
struct ResponseStream<'a> {
    worker: &'a Worker,
    /// Frames of all streams of the connection.
    outbox: &'a Outbox,
    request: &'a Request,
    client: StreamClient<'a>,
    /// The response has no body, whatever its length. Known even if the head is malformed.
    is_head: bool,
}

impl ResponseStream<'_> {
    /// Streams an upstream's response to the client.
    ///
    /// # Errors
    /// The response cannot be represented in HTTP/2; nothing of it was sent.
    async fn deliver(
        &mut self,
        mut response: UpstreamResponse,
        record: &mut Record,
    ) -> Result<(), Fault> {
        let worker = self.worker;
        let mut text = worker.buffers.text();
        let framing = framing_for(self.request, &response);
        write_upstream(&mut text, self.request, &response, framing, record);
        write::end(&mut text);
        let status = response.head.status();
        let head_len = response.head.len();
        response.reader.buffer.consume(head_len);
        response.reader.start_response(response.head.framing());
        let begun = self.send_head(&text, response.reader.is_done());
        record.sent = text.len() as u64;
        worker.buffers.release_text(text);
        let ended = match begun {
            Ok(Some(_)) if response.reader.is_done() => Ok(()),
            Ok(Some(stream)) => self.pump(Outgoing::new(stream), &mut response, record).await,
            Ok(None) => Err(Ended::Client),
            Err(rejection) => {
                record.sent = 0;
                let authority = response.authority.to_string();
                release(worker, response, false);
                return Err(Fault::ProtocolViolation { authority, reason: rejection.reason });
            }
        };
        record.status = status;
        let whole = finish_delivery(worker, ended, record);
        let uploaded = matches!(response.upload, Upload::Done);
        release(worker, response, whole && uploaded);
        Ok(())
    }

    /// Sends a response generated by the gateway.
    async fn send_own(&mut self, response: OwnResponse, record: &mut Record) {
        let worker = self.worker;
        let mut text = worker.buffers.text();
        write_own(&mut text, self.request, &response, record);
        write::end(&mut text);
        let is_all = self.is_head || response.body.is_empty();
        let begun = self.send_head(&text, is_all);
        record.sent = text.len() as u64;
        worker.buffers.release_text(text);
        let Ok(Some(stream)) = begun else { return };
        if is_all {
            return;
        }
        let (mut out, mut body) = (Outgoing::new(stream), Held(Bytes::from(response.body)));
        let stall_ms = worker.compiled().live.stall_ms;
        self.client.watch.set(worker.coarse_us() + u64::from(stall_ms) * 1_000);
        let sent = poll_fn(|cx| {
            let run = poll_down(cx, &mut body, &mut out, self.outbox, &mut record.sent);
            if run.is_pending() && self.client.watch.poll_expired(cx) {
                return Poll::Ready(Err(Ended::Client));
            }
            run
        });
        match sent.await {
            // Fails if the client is gone, after the response.
            Ok(()) => drop(out.finish()),
            Err(_) => out.reset(Reason::CANCEL),
        }
    }

    /// Drops what the client still sends after the response, within limits. Dropping the stream instead
    /// would reset it, and some clients (curl 7.88) then discard the response.
    async fn skip_rest(&mut self) {
        self.client.expect_continue(false);
        self.client.watch.set(self.worker.coarse_us() + u64::from(DRAIN_MS_MAX) * 1_000);
        let mut left = DRAIN_BYTES_MAX as usize;
        poll_fn(|cx| {
            loop {
                match self.client.poll_fill(cx) {
                    Poll::Pending if self.client.watch.poll_expired(cx) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Ready(Ok(())) => {}
                }
                let held = self.client.data().len();
                if held == 0 || held > left {
                    return Poll::Ready(());
                }
                left -= held;
                self.client.consume(held);
            }
        })
        .await;
    }

    /// Sends the head, which is HTTP/1.1 in `text`; `is_all`: no body follows. `None` if the client is gone.
    ///
    /// # Errors
    /// It cannot be represented in HTTP/2.
    fn send_head(&self, text: &[u8], is_all: bool) -> Result<Option<SendStream<Bytes>>, Rejection> {
        let mut head = self.worker.response_head();
        let response = head
            .parse(text, self.request.head.method())
            .and_then(|_| h2::response_parts(&head, text));
        self.worker.release_response_head(head);
        self.outbox.add(text.len());
        Ok(self.client.respond.borrow_mut().send_response(response?, is_all).ok())
    }

    /// Moves the response's body, and the rest of the request's in the other direction.
    async fn pump(
        &mut self,
        mut out: Outgoing,
        response: &mut UpstreamResponse,
        record: &mut Record,
    ) -> Result<(), Ended> {
        let stall_us = u64::from(self.worker.compiled().live.stall_ms) * 1_000;
        self.client.watch.set(self.worker.coarse_us() + stall_us);
        let moved = poll_fn(|cx| self.poll_pump(cx, &mut out, response, record, stall_us)).await;
        let trailers = response.reader.chunked().map(h2::trailer_map).transpose();
        match moved.and(trailers.map_err(|_| Ended::Upstream)) {
            Ok(Some(Some(trailers))) => out.trailers(trailers).map_err(|_| Ended::Client),
            Ok(Some(None) | None) => out.finish().map_err(|_| Ended::Client),
            Err(Ended::Upstream) => {
                self.client.watch.set(self.worker.coarse_us() + stall_us);
                self.until_sent(&mut out).await;
                out.reset(Reason::INTERNAL_ERROR);
                Err(Ended::Upstream)
            }
            Err(Ended::Client) => {
                out.reset(Reason::CANCEL);
                Err(Ended::Client)
            }
        }
    }

    /// Waits until the frames so far are sent, so that a reset does not discard them. Ends when the watch
    /// expires or the client resets.
    async fn until_sent(&self, out: &mut Outgoing) {
        let mark = self.outbox.mark();
        poll_fn(|cx| {
            if out.poll_reset(cx).is_ready() || self.client.watch.poll_expired(cx) {
                return Poll::Ready(());
            }
            self.outbox.poll_sent(cx, mark)
        })
        .await;
    }

    fn poll_pump(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Outgoing,
        response: &mut UpstreamResponse,
        record: &mut Record,
        stall_us: u64,
    ) -> Poll<Result<(), Ended>> {
        let mut moved = poll_upload(cx, &mut self.client, response);
        if out.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(Ended::Client));
        }
        let before = record.sent;
        let mut source = Http1Source {
            reader: &mut response.reader,
            stream: &mut response.lease.stream,
            buffers: &self.worker.buffers,
        };
        if let Poll::Ready(ended) = poll_down(cx, &mut source, out, self.outbox, &mut record.sent) {
            return Poll::Ready(ended);
        }
        moved |= record.sent != before;
        if moved {
            self.client.watch.set(self.worker.coarse_us() + stall_us);
        }
        if self.client.watch.poll_expired(cx) {
            let starved = response.reader.data().is_empty();
            return Poll::Ready(Err(if starved { Ended::Upstream } else { Ended::Client }));
        }
        Poll::Pending
    }
}

/// Moves payload from `source` to the client, as far as its window and the connection allow. Ready at the end of the
/// source, when the end of the stream is still to be sent.
fn poll_down<S: Source>(
    cx: &mut Context<'_>,
    source: &mut S,
    out: &mut Outgoing,
    outbox: &Outbox,
    sent: &mut u64,
) -> Poll<Result<(), Ended>> {
    loop {
        // First, so that a stream that has to wait does not read bytes that it would have to hold.
        ready!(outbox.poll_capacity(cx));
        ready!(source.poll_fill(cx)).map_err(|_| Ended::Upstream)?;
        let data = source.data();
        if data.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let room = ready!(out.poll_capacity(cx, data.len())).map_err(|_| Ended::Client)?;
        let piece = Bytes::copy_from_slice(data.get(..room).unwrap_or(data));
        let count = piece.len();
        out.send(piece).map_err(|_| Ended::Client)?;
        outbox.add(count);
        source.consume(count);
        *sent = sent.saturating_add(count as u64);
    }
}

/// A complete body in memory.
struct Held(Bytes);

impl Source for Held {
    fn poll_fill(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        &self.0
    }

    fn consume(&mut self, count: usize) {
        let rest = self.0.split_off(count.min(self.0.len()));
        self.0 = rest;
    }

    fn trailers(&self) -> &[u8] {
        &[]
    }
}
