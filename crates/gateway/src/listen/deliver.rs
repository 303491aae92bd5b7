//! Delivery of an upstream's response over HTTP/1.1, while the rest of the request may still be sent to
//! the upstream.

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
    /// Streams `response` to the client.
    pub(super) async fn deliver(
        &mut self,
        request: &Request,
        mut response: UpstreamResponse,
        record: &mut Record,
    ) -> After {
        record.status = response.head.status();
        if response.head.status() == 101 {
            // Boxed, so that it does not enlarge every task.
            return Box::pin(tunnel::run(self, request, response, record)).await;
        }
        let framing = framing_for(request, &response);
        let is_uploading = !matches!(response.upload, Upload::Done);
        let keep = request.head.keep_alive()
            && !self.half_closed
            && !self.worker.draining.get()
            && framing != Framing::Close
            && (response.head.status() < 400 || !is_uploading);
        let interim = self.take_interim(upload_continues(&response));
        let mut text = self.response_head(request, &response, framing, keep, record);
        if !interim.is_empty() {
            text.splice(..0, interim.iter().copied());
        }
        let head_len = response.head.len();
        response.reader.buffer.consume(head_len);
        response.reader.start_response(response.head.framing());
        let out = if framing == Framing::Chunked { OutFraming::Chunked } else { OutFraming::Plain };
        let mut down = Outflow::new(text, out);
        let stall_us = u64::from(self.worker.compiled().live.stall_ms) * 1_000;
        self.watch.set(self.worker.coarse_us() + stall_us);
        let ended = poll_fn(|cx| self.poll_deliver(cx, &mut response, &mut down, stall_us)).await;
        record.sent = down.written;
        down.release(&self.worker.buffers);
        let complete = finish_delivery(self.worker, ended, record);
        if !complete && framing == Framing::Close {
            // The body ends with the connection: only a reset shows that it is incomplete.
            let _ = self.stream.tcp().set_zero_linger();
        }
        let uploaded = matches!(response.upload, Upload::Done);
        release(self.worker, response, complete && uploaded);
        match (complete, keep && self.body_is_done()) {
            (false, _) => After::Close,
            (true, true) => After::Keep,
            (true, false) => After::Linger,
        }
    }

    fn response_head(
        &self,
        request: &Request,
        response: &UpstreamResponse,
        framing: Framing,
        keep: bool,
        record: &Record,
    ) -> Vec<u8> {
        let mut text = self.worker.buffers.text();
        write_upstream(&mut text, request, response, framing, record);
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
        response: &mut UpstreamResponse,
        down: &mut Outflow,
        stall_us: u64,
    ) -> Poll<Result<(), Ended>> {
        let mut moved = poll_upload(cx, self, response);
        let before = down.written;
        let mut source = Http1Source {
            reader: &mut response.reader,
            stream: &mut response.lease.stream,
            buffers: &self.worker.buffers,
        };
        match down.poll_run(cx, &mut source, &mut self.stream) {
            Poll::Ready(Ok(())) if !upload_continues(response) => return Poll::Ready(Ok(())),
            // The response is complete; the upload continues.
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

/// Whether the upload continues after the response. After an error status it does not.
fn upload_continues(response: &UpstreamResponse) -> bool {
    matches!(response.upload, Upload::Running(_)) && response.head.status() < 400
}
