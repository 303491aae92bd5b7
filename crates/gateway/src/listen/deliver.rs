//! A backend's answer on its way to a caller over HTTP/1.1, while the rest of the request may still
//! be on its way to the backend.

use std::future::poll_fn;
use std::task::{Context, Poll};

use base::Method;
use model::{Blame, Fault};
use wire::http1::{Known, KnownSet, ResponseFraming, Version, write};

use super::answer::connection_field;
use super::http1::{After, Connection};
use super::tunnel;
use crate::account::{CLIENT_LEFT, Record};
use crate::call::Call;
use crate::cross_origin;
use crate::flow::{FlowError, Http1Source, OutFraming, Outflow};
use crate::forward::{Upload, Upstreamed};

/// Framing is ours to write.
const FRAMING: KnownSet = KnownSet::of(&[Known::ContentLength, Known::TransferEncoding]);

/// Where the API has CORS rules, they decide alone.
const CORS: KnownSet = KnownSet::of(&[
    Known::AccessControlAllowCredentials,
    Known::AccessControlAllowHeaders,
    Known::AccessControlAllowMethods,
    Known::AccessControlAllowOrigin,
    Known::AccessControlExposeHeaders,
    Known::AccessControlMaxAge,
]);

impl Connection<'_> {
    /// Streams `answer` to the caller.
    pub(super) async fn deliver(
        &mut self,
        call: &Call,
        mut answer: Upstreamed,
        record: &mut Record,
    ) -> After {
        record.status = answer.head.status();
        if answer.head.status() == 101 {
            return tunnel::run(self, call, answer, record).await;
        }
        let framing = framing_for(call, &answer);
        let ends_with_close = framing == Framing::Close;
        let keep = call.head.keep_alive()
            && !self.half_closed
            && !self.worker.draining.get()
            && !ends_with_close
            && !(answer.head.status() >= 400 && !matches!(answer.upload, Upload::Done));
        let text = self.response_head(call, &answer, framing, keep, record);
        let head_len = answer.head.len();
        answer.reader.buffer.consume(head_len);
        answer.reader.start_response(answer.head.framing());
        let out = if framing == Framing::Chunked { OutFraming::Chunked } else { OutFraming::Plain };
        let mut down = Outflow::new(text, out);
        let stall_us = u64::from(self.worker.compiled().live.stall_ms) * 1_000;
        self.watch.set(self.worker.coarse_us() + stall_us);
        let ended = poll_fn(|cx| self.poll_deliver(cx, &mut answer, &mut down, stall_us)).await;
        record.sent = down.written;
        self.worker.buffers.give_back_text(down.into_text());
        let whole = self.conclude(ended, record);
        let uploaded = matches!(answer.upload, Upload::Done);
        self.release(answer, whole && uploaded);
        match (whole, keep && self.body_is_done()) {
            (false, _) => After::Close,
            (true, true) => After::Keep,
            (true, false) if self.body_is_done() && self.reader.buffer.is_empty() => After::Close,
            (true, false) => After::Linger,
        }
    }

    fn response_head(
        &self,
        call: &Call,
        answer: &Upstreamed,
        framing: Framing,
        keep: bool,
        record: &Record,
    ) -> Vec<u8> {
        let mut text = self.worker.buffers.text();
        let (head, bytes) = (&answer.head, answer.reader.buffer.filled());
        write::status_line(&mut text, head.status(), head.reason(bytes));
        let rules = record.api.as_ref().filter(|api| api.routes.api.cors.is_some());
        let mut drop = if framing == Framing::AsSaid { KnownSet::EMPTY } else { FRAMING };
        if rules.is_some() {
            drop = drop.union(CORS);
        }
        write::fields(&mut text, bytes, head.fields(), drop);
        if let Some(api) = rules {
            cross_origin::append(call, &api.routes, &mut text);
        }
        match framing {
            Framing::Length(bytes) => write::content_length(&mut text, bytes),
            Framing::Chunked => write::transfer_encoding_chunked(&mut text),
            Framing::AsSaid | Framing::Close => {}
        }
        connection_field(&mut text, call, keep);
        write::end(&mut text);
        text
    }

    fn poll_deliver(
        &mut self,
        cx: &mut Context<'_>,
        answer: &mut Upstreamed,
        down: &mut Outflow,
        stall_us: u64,
    ) -> Poll<Result<(), Ended>> {
        let mut moved = self.poll_upload(cx, answer);
        let before = down.written;
        let mut source = Http1Source {
            reader: &mut answer.reader,
            stream: &mut answer.lease.stream,
            buffers: &self.worker.buffers,
        };
        match down.poll_run(cx, &mut source, &mut self.stream) {
            Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
            Poll::Ready(Err(FlowError::Source(_))) => return Poll::Ready(Err(Ended::Upstream)),
            Poll::Ready(Err(FlowError::Sink(_))) => return Poll::Ready(Err(Ended::Caller)),
            Poll::Pending => {}
        }
        moved |= down.written != before;
        if moved {
            self.watch.set(self.worker.coarse_us() + stall_us);
        }
        if self.watch.poll_expired(cx) {
            let by = if down.waits_for_source() { Ended::Upstream } else { Ended::Caller };
            return Poll::Ready(Err(by));
        }
        Poll::Pending
    }

    /// Goes on with a request body that the response overtook. Says whether bytes moved.
    fn poll_upload(&mut self, cx: &mut Context<'_>, answer: &mut Upstreamed) -> bool {
        let Upload::Running(up) = &mut answer.upload else { return false };
        let before = up.written;
        let run = up.poll_run(cx, self, &mut answer.lease.stream);
        let moved = up.written != before;
        match run {
            Poll::Ready(Ok(())) => answer.upload = Upload::Done,
            Poll::Ready(Err(FlowError::Sink(error))) => {
                answer.upload = Upload::Refused(error.kind());
            }
            // The caller's body broke off: its connection is at its end after this answer.
            Poll::Ready(Err(FlowError::Source(_))) => {
                answer.upload = Upload::Refused(std::io::ErrorKind::UnexpectedEof);
            }
            Poll::Pending => {}
        }
        moved
    }

    /// Whether the caller got all of it; otherwise the record says why not.
    fn conclude(&self, ended: Result<(), Ended>, record: &mut Record) -> bool {
        let Err(by) = ended else { return true };
        record.truncated = true;
        match by {
            Ended::Caller => {
                record.status = CLIENT_LEFT;
                record.blame = Some(Blame::Caller);
            }
            Ended::Upstream => {
                let cause = "the response broke off";
                record.blame = Some(Blame::Upstream);
                let authority = String::new();
                self.log_fault(&Fault::SendFailed { authority, cause: cause.to_owned() }, record);
            }
        }
        false
    }

    /// A connection goes back to its pool only when both bodies are done and nothing is unread.
    fn release(&self, mut answer: Upstreamed, done: bool) {
        let buffers = &self.worker.buffers;
        let clean = answer.reader.buffer.is_empty() && answer.head.keep_alive();
        buffers.give_back(std::mem::take(&mut answer.reader.buffer));
        self.worker.give_back_response_head(answer.head);
        if done && clean && answer.reader.is_done() {
            answer.lease.give_back(self.worker.coarse_us());
        }
    }
}

/// Whose end stopped a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Caller,
    Upstream,
}

/// How the answer's body is framed for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// No body follows: what the backend said of its length stays (HEAD, 304).
    AsSaid,
    Length(u64),
    Chunked,
    /// The connection's end is the body's.
    Close,
}

fn framing_for(call: &Call, answer: &Upstreamed) -> Framing {
    match (answer.head.framing(), call.head.version()) {
        (ResponseFraming::None, _) if call.head.method() == Method::Head => Framing::AsSaid,
        (ResponseFraming::None, _) if answer.head.status() == 304 => Framing::AsSaid,
        (ResponseFraming::None, _) => match answer.head.status() {
            204 => Framing::AsSaid,
            _ => Framing::Length(0),
        },
        (ResponseFraming::Length(bytes), _) => Framing::Length(bytes),
        (_, Version::Http11) => Framing::Chunked,
        (_, Version::Http10) => Framing::Close,
    }
}
