//! A backend's answer on its way to a caller over HTTP/1.1, while the rest of the request may still
//! be on its way to the backend.

use std::future::poll_fn;
use std::task::{Context, Poll};

use wire::http1::write;

use super::http1::{After, Connection};
use super::response::{
    Ended, Framing, finish_delivery, framing_for, poll_upload, release, write_upstream,
};
use super::serve::connection_field;
use super::tunnel;
use crate::account::Record;
use crate::flow::{FlowError, Http1Source, OutFraming, Outflow};
use crate::forward::{Upload, UpstreamResponse};
use crate::request::Request;

impl Connection<'_> {
    /// Streams `answer` to the caller.
    pub(super) async fn deliver(
        &mut self,
        request: &Request,
        mut answer: UpstreamResponse,
        record: &mut Record,
    ) -> After {
        record.status = answer.head.status();
        if answer.head.status() == 101 {
            // Boxed, so that it takes no room in the tasks of the others.
            return Box::pin(tunnel::run(self, request, answer, record)).await;
        }
        let framing = framing_for(request, &answer);
        let overtaken = !matches!(answer.upload, Upload::Done);
        let keep = request.head.keep_alive()
            && !self.half_closed
            && !self.worker.draining.get()
            && framing != Framing::Close
            && (answer.head.status() < 400 || !overtaken);
        let interim = self.take_interim(wants_more(&answer));
        let mut text = self.response_head(request, &answer, framing, keep, record);
        if !interim.is_empty() {
            text.splice(..0, interim.iter().copied());
        }
        let head_len = answer.head.len();
        answer.reader.buffer.consume(head_len);
        answer.reader.start_response(answer.head.framing());
        let out = if framing == Framing::Chunked { OutFraming::Chunked } else { OutFraming::Plain };
        let mut down = Outflow::new(text, out);
        let stall_us = u64::from(self.worker.compiled().live.stall_ms) * 1_000;
        self.watch.set(self.worker.coarse_us() + stall_us);
        let ended = poll_fn(|cx| self.poll_deliver(cx, &mut answer, &mut down, stall_us)).await;
        record.sent = down.written;
        down.release(&self.worker.buffers);
        let whole = finish_delivery(self.worker, ended, record);
        if !whole && framing == Framing::Close {
            // The connection's end is the body's: only a reset tells that this one is not whole.
            let _ = self.stream.tcp().set_zero_linger();
        }
        let uploaded = matches!(answer.upload, Upload::Done);
        release(self.worker, answer, whole && uploaded);
        match (whole, keep && self.body_is_done()) {
            (false, _) => After::Close,
            (true, true) => After::Keep,
            (true, false) => After::Linger,
        }
    }

    fn response_head(
        &self,
        request: &Request,
        answer: &UpstreamResponse,
        framing: Framing,
        keep: bool,
        record: &Record,
    ) -> Vec<u8> {
        let mut text = self.worker.buffers.text();
        write_upstream(&mut text, request, answer, framing, record);
        if framing == Framing::Chunked {
            write::transfer_encoding_chunked(&mut text);
        }
        connection_field(&mut text, request, keep);
        write::end(&mut text);
        text
    }

    fn poll_deliver(
        &mut self,
        cx: &mut Context<'_>,
        answer: &mut UpstreamResponse,
        down: &mut Outflow,
        stall_us: u64,
    ) -> Poll<Result<(), Ended>> {
        let mut moved = poll_upload(cx, self, answer);
        let before = down.written;
        let mut source = Http1Source {
            reader: &mut answer.reader,
            stream: &mut answer.lease.stream,
            buffers: &self.worker.buffers,
        };
        match down.poll_run(cx, &mut source, &mut self.stream) {
            Poll::Ready(Ok(())) if !wants_more(answer) => return Poll::Ready(Ok(())),
            // The answer is out; the rest of the request still goes to a backend that takes it.
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(FlowError::Source(_))) => return Poll::Ready(Err(Ended::Upstream)),
            Poll::Ready(Err(FlowError::Sink(_))) => return Poll::Ready(Err(Ended::Client)),
            Poll::Pending => {}
        }
        moved |= down.written != before;
        if moved {
            self.watch.set(self.worker.coarse_us() + stall_us);
        }
        if down.waits_for_source() && self.poll_gone(cx) {
            return Poll::Ready(Err(Ended::Client));
        }
        if self.watch.poll_expired(cx) {
            let by = if down.waits_for_source() { Ended::Upstream } else { Ended::Client };
            return Poll::Ready(Err(by));
        }
        Poll::Pending
    }
}

/// Whether the backend still takes the request's body after its answer. One that refused is not
/// sent the rest.
fn wants_more(answer: &UpstreamResponse) -> bool {
    matches!(answer.upload, Upload::Running(_)) && answer.head.status() < 400
}
