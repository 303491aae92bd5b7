//! The client of an HTTP/1.1 connection, for the pipeline.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base::limits::HALF_CLOSE_MS_MAX;
use model::{Denial, Fault};
use tokio::io::AsyncWrite;
use wire::http1::{Known, Rejection, ResponseFraming, Version, write};

use super::{After, CONTINUE, Connection};
use crate::body::request_body::RequestBody;
use crate::body::{BodyError, FlowError, Http1Source, Lend, OutFraming, Source, Unread, poll_read};
use crate::exchange::client::{Begin, Client};
use crate::forward::UpstreamBody;
use crate::listen::tunnel;
use crate::message::{Framing, Head, Request};
use crate::shares::gate::Pass;
use crate::tasks::watch::Watch;

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
        Http1Source { reader, stream, buffers: &self.worker.resources.buffers }.poll_fill(cx)
    }

    fn poll_gather(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let mut gathered = self.poll_fill(cx);
        if let Poll::Ready(Ok(())) = gathered {
            let buffers = &self.worker.resources.buffers;
            gathered = self.reader.poll_gather(cx, &mut self.stream, buffers);
        }
        if gathered.is_pending() {
            // A slow upload does not keep other requests waiting.
            self.turn = None;
        }
        gathered
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
        if !self.interim.is_empty() {
            return Poll::Ready(Ok(false));
        }
        let (reader, stream) = (&mut self.reader, &mut self.stream);
        Http1Source { reader, stream, buffers: &self.worker.resources.buffers }.poll_read_to(cx, to)
    }

    fn unread(&mut self) -> Option<Unread<'_>> {
        if !self.interim.is_empty() {
            return None;
        }
        self.reader.unread(&self.stream, &self.worker.resources.buffers)
    }
}

impl RequestBody for Connection<'_> {
    /// A client that closed its sending side may still wait for the response, and cannot be distinguished
    /// from one that is gone. The wait is limited to `HALF_CLOSE_MS_MAX`; a reset ends it immediately.
    fn poll_left(&mut self, cx: &mut Context<'_>, is_read: bool) -> Poll<Box<Fault>> {
        if self.watch.gives_way() {
            return Poll::Ready(Fault::Denied(Denial::Overloaded).into());
        }
        if is_read {
            return Poll::Pending;
        }
        let buffers = &self.worker.resources.buffers;
        buffers.unpark(&mut self.reader.buffer);
        let left = self.poll_ended(cx);
        // A request that waits with a short body holds no buffer.
        buffers.park(&mut self.reader.buffer);
        left
    }

    fn consumed(&self) -> u64 {
        self.reader.consumed()
    }

    fn watch(&self) -> &Watch {
        &self.watch
    }

    fn has_half_closed(&self) -> bool {
        self.ended
    }
}

impl Client for Connection<'_> {
    fn take_turn(&mut self) -> Option<Pass> {
        self.turn.take()
    }

    fn begin(&mut self, request: &Request, response: &Begin<'_>) -> Result<(), Rejection> {
        // It is still there if the request was not forwarded.
        self.turn = None;
        let interim = match self.out_interim {
            [] => self.take_interim(response.uploads),
            unsent => unsent,
        };
        let body_ends = response.uploads || self.body_is_done() || self.reader.skip_held();
        self.ends_with_close = response.framing == Framing::Close;
        self.keep = body_ends
            && !self.is_unframed
            && request.head.keep_alive()
            && !self.half_closed
            && !self.worker.draining.get()
            && !self.ends_with_close
            && response.head.status() != 408;
        let buffers = &self.worker.resources.buffers;
        let mut text = buffers.text();
        text.extend_from_slice(interim);
        response.head.write(&mut text, response.framing);
        let chunked = response.framing == Framing::Chunked;
        if chunked {
            write::transfer_encoding_chunked(&mut text);
        }
        connection_field(&mut text, request, self.keep);
        write::end(&mut text);
        self.out.release(buffers);
        self.out.begin(text, if chunked { OutFraming::Chunked } else { OutFraming::Plain });
        self.out_interim = interim;
        Ok(())
    }

    fn poll_send<S: Source>(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut S,
    ) -> Poll<Result<(), FlowError>> {
        self.out.poll_run(cx, body, &mut self.stream)
    }

    fn sent(&self) -> u64 {
        self.out.written
    }

    fn waits_for_body(&self) -> bool {
        self.out.waits_for_source()
    }

    /// Whether the connection failed. A client that only closed its sending side may still read.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> bool {
        let lend = Lend::Head(&self.worker.resources.buffers);
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

    async fn end(&mut self, complete: bool) {
        self.out.release(&self.worker.resources.buffers);
        self.out_interim = &[];
        if !complete && self.ends_with_close {
            // The body ends with the connection: only a reset shows that it is incomplete.
            self.stream.reset_when_dropped();
        }
        self.after = match (complete, self.body_is_done()) {
            (false, _) if self.ends_with_close => After::Close,
            // Bytes already sent can be read.
            (false, _) => After::Linger,
            (true, true) if self.keep => After::Keep,
            (true, true) if self.half_closed && self.reader.buffer.is_empty() => After::Close,
            (true, _) => After::Linger,
        };
    }

    async fn tunnel(
        &mut self,
        request: &Request,
        head: &Head,
        upstream: &mut UpstreamBody,
        moved: &dyn Fn(u64, u64),
    ) {
        self.after = After::Close;
        let resources = &self.worker.resources;
        let mut text = resources.buffers.text();
        head.write(&mut text, Framing::None);
        let protocol = request.head.find(Known::Upgrade);
        let protocol = protocol.map_or(&b""[..], |field| field.value.of(&request.bytes));
        text.extend_from_slice(b"Connection: Upgrade\r\n");
        write::field(&mut text, b"Upgrade", protocol);
        write::end(&mut text);
        self.out.begin(text, OutFraming::Tunnel);
        self.reader.start_response(ResponseFraming::UntilClose);
        tunnel::run(self, upstream, resources, moved).await;
        self.out.release(&resources.buffers);
    }
}

impl Connection<'_> {
    /// Reads bytes after the used part of the request, to notice that the client disconnects.
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Box<Fault>> {
        let lend = Lend::Head(&self.worker.resources.buffers);
        while !self.ended && (self.reader.buffer.is_absent() || self.reader.buffer.has_free_space())
        {
            match ready!(poll_read(cx, &mut self.stream, &mut self.reader.buffer, lend)) {
                // The request will never be complete.
                Ok(0) if self.reader.lacks_bytes() => return Poll::Ready(Fault::ClientLeft.into()),
                Ok(0) => self.ended = true,
                Ok(_) => {}
                Err(_) => return Poll::Ready(Fault::ClientLeft.into()),
            }
        }
        if self.ended {
            self.half_closed = self.reader.buffer.is_empty();
            self.watch.bring_forward(self.worker.resources.deadline_us(HALF_CLOSE_MS_MAX));
        }
        Poll::Pending
    }

    /// The bytes of a `100 Continue` to send before the final head: the rest of one that is partly written,
    /// or a whole one if the body is still `wanted`. None is sent afterwards.
    fn take_interim(&mut self, wanted: bool) -> &'static [u8] {
        let left = std::mem::take(&mut self.interim);
        let begun = left.len() < CONTINUE.len();
        if begun || wanted { left } else { &[] }
    }

    /// Whether the request's body was read completely.
    fn body_is_done(&self) -> bool {
        self.reader.is_done() && self.interim.is_empty()
    }
}

/// Appends `Connection` if it differs from the version's default.
fn connection_field(out: &mut Vec<u8>, request: &Request, keep: bool) {
    match (keep, request.head.version()) {
        (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
        (true, Version::Http10) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (true, Version::Http11) => {}
    }
}
