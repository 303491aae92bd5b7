//! One request over HTTP/2: from its head to the last frame of its answer.

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

/// Answers one stream.
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
    let replied = match head.and_then(|()| judge(&mut request)) {
        Ok(()) => {
            request.peer = Rc::clone(&opened.0.peer);
            request.secure = opened.0.secure;
            client.expect_continue(request.head.expects_continue());
            let answering =
                pipeline::exchange(worker, &compiled, &request, &mut client, &mut record);
            unless_reset(&respond, answering).await
        }
        Err(Rejection { status, reason }) => {
            // What the head meant is unknown: nothing of it may stay.
            *request = Request { peer: Rc::clone(&opened.0.peer), ..Request::default() };
            Err(Fault::Malformed { status, reason })
        }
    };
    let (outbox, is_head) = (&opened.0.outbox, parts.method == "HEAD");
    let mut response = ResponseStream { worker, outbox, request: &request, client, is_head };
    let fault = match replied {
        Ok(Response::Upstream(answer)) => response.deliver(answer, &mut record).await.err(),
        Ok(Response::Own(local)) => {
            record.status = local.status;
            response.send_own(local, &mut record).await;
            None
        }
        Err(fault) => Some(fault),
    };
    if let Some(fault) = fault {
        let own = respond::fault_response(&fault, record.allow, compiled.live.fault_status);
        record.fault(&fault, own.response.status, own.code);
        log_fault(worker, &fault, &record);
        if fault != Fault::ClientLeft {
            response.send_own(own.response, &mut record).await;
        }
    }
    response.skip_rest().await;
    drop(response);
    worker.close(record, &request);
    worker.release_request(request);
}

/// The head in `call` is judged as any other.
fn judge(request: &mut Request) -> Result<(), Rejection> {
    match request.head.parse(&request.bytes)? {
        Parsed::Complete if request.head.len() == request.bytes.len() => Ok(()),
        Parsed::Complete | Parsed::Partial => {
            Err(Rejection { status: 400, reason: "head is malformed" })
        }
    }
}

/// `answering`'s outcome, unless the caller resets its stream first. What was under way towards a
/// backend is then dropped, its connection closed.
async fn unless_reset<T>(
    respond: &Responder,
    answering: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let mut answering = pin!(answering);
    poll_fn(|cx| {
        if respond.borrow_mut().poll_reset(cx).is_ready() {
            return Poll::Ready(Err(Fault::ClientLeft));
        }
        answering.as_mut().poll(cx)
    })
    .await
}

/// One stream with an answer under way.
struct ResponseStream<'a> {
    worker: &'a Worker,
    /// Frames of all streams of the connection.
    outbox: &'a Outbox,
    request: &'a Request,
    client: StreamClient<'a>,
    /// The answer has no body, whatever it says of its length. Known even of a malformed head.
    is_head: bool,
}

impl ResponseStream<'_> {
    /// Streams a backend's answer to the client.
    ///
    /// # Errors
    /// An answer that HTTP/2 cannot carry; nothing of it was sent.
    async fn deliver(
        &mut self,
        mut answer: UpstreamResponse,
        record: &mut Record,
    ) -> Result<(), Fault> {
        let worker = self.worker;
        let mut text = worker.buffers.text();
        let framing = framing_for(self.request, &answer);
        write_upstream(&mut text, self.request, &answer, framing, record);
        write::end(&mut text);
        let status = answer.head.status();
        let head_len = answer.head.len();
        answer.reader.buffer.consume(head_len);
        answer.reader.start_response(answer.head.framing());
        let begun = self.send_head(&text, answer.reader.is_done());
        record.sent = text.len() as u64;
        worker.buffers.release_text(text);
        let ended = match begun {
            Ok(Some(_)) if answer.reader.is_done() => Ok(()),
            Ok(Some(stream)) => self.pump(Outgoing::new(stream), &mut answer, record).await,
            Ok(None) => Err(Ended::Client),
            Err(rejection) => {
                record.sent = 0;
                let authority = answer.authority.to_string();
                release(worker, answer, false);
                return Err(Fault::ProtocolViolation { authority, reason: rejection.reason });
            }
        };
        record.status = status;
        let whole = finish_delivery(worker, ended, record);
        let uploaded = matches!(answer.upload, Upload::Done);
        release(worker, answer, whole && uploaded);
        Ok(())
    }

    /// Sends one of the gateway's own answers.
    async fn send_own(&mut self, local: OwnResponse, record: &mut Record) {
        let worker = self.worker;
        let mut text = worker.buffers.text();
        write_own(&mut text, self.request, &local, record);
        write::end(&mut text);
        let is_all = self.is_head || local.body.is_empty();
        let begun = self.send_head(&text, is_all);
        record.sent = text.len() as u64;
        worker.buffers.release_text(text);
        let Ok(Some(stream)) = begun else { return };
        if is_all {
            return;
        }
        let (mut out, mut body) = (Outgoing::new(stream), Held(Bytes::from(local.body)));
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
            // A caller that is gone by now is gone after its answer.
            Ok(()) => drop(out.finish()),
            Err(_) => out.reset(Reason::CANCEL),
        }
    }

    /// Drops what the caller still sends after its answer, within limits. Dropping the stream instead
    /// would reset it, and some callers (curl 7.88) then throw away the answer that they have.
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

    /// Sends the head that stands in `text` as HTTP/1.1; `is_all`: no body follows. None: the caller
    /// is gone.
    ///
    /// # Errors
    /// HTTP/2 cannot carry it.
    fn send_head(&self, text: &[u8], is_all: bool) -> Result<Option<SendStream<Bytes>>, Rejection> {
        let mut head = self.worker.response_head();
        let response = head
            .parse(text, self.request.head.method())
            .and_then(|_| h2::response_parts(&head, text));
        self.worker.release_response_head(head);
        self.outbox.add(text.len());
        Ok(self.client.respond.borrow_mut().send_response(response?, is_all).ok())
    }

    /// Moves the body, and the rest of the request's the other way.
    async fn pump(
        &mut self,
        mut out: Outgoing,
        answer: &mut UpstreamResponse,
        record: &mut Record,
    ) -> Result<(), Ended> {
        let stall_us = u64::from(self.worker.compiled().live.stall_ms) * 1_000;
        self.client.watch.set(self.worker.coarse_us() + stall_us);
        let moved = poll_fn(|cx| self.poll_pump(cx, &mut out, answer, record, stall_us)).await;
        let trailers = answer.reader.chunked().map(h2::trailer_map).transpose();
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

    /// Waits until what was handed over is on its way, so that a reset does not take it back: a head
    /// and the beginning of a body say more than a reset alone. Not longer than the watch says, and
    /// not for a caller that is gone.
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
        answer: &mut UpstreamResponse,
        record: &mut Record,
        stall_us: u64,
    ) -> Poll<Result<(), Ended>> {
        let mut moved = poll_upload(cx, &mut self.client, answer);
        if out.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(Ended::Client));
        }
        let before = record.sent;
        let mut source = Http1Source {
            reader: &mut answer.reader,
            stream: &mut answer.lease.stream,
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
            let starved = answer.reader.data().is_empty();
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
        // First, so that a stream that has to wait reads nothing that it would then have to hold.
        ready!(outbox.poll_room(cx));
        ready!(source.poll_fill(cx)).map_err(|_| Ended::Upstream)?;
        let data = source.data();
        if data.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let room = ready!(out.poll_room(cx, data.len())).map_err(|_| Ended::Client)?;
        let piece = Bytes::copy_from_slice(data.get(..room).unwrap_or(data));
        let count = piece.len();
        out.send(piece).map_err(|_| Ended::Client)?;
        outbox.add(count);
        source.consume(count);
        *sent = sent.saturating_add(count as u64);
    }
}

/// A body that is all there.
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
