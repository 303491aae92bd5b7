//! What the way back of an answer is made of, whatever protocol its caller speaks.

use std::task::{Context, Poll};

use base::Method;
use model::{Blame, Fault};
use wire::http1::{Known, KnownSet, ResponseFraming, Version, write};

use crate::account::{CLIENT_LEFT, Record};
use crate::cross_origin;
use crate::flow::FlowError;
use crate::forward::{Upload, UpstreamResponse};
use crate::request::{Client, Request};
use crate::respond::OwnResponse;
use crate::worker::Worker;

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

/// How the answer's body is framed for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// No body follows: what the backend said of its length stays (HEAD, 304).
    Declared,
    Length(u64),
    Chunked,
    /// The connection's end is the body's.
    Close,
}

pub(super) fn framing_for(request: &Request, answer: &UpstreamResponse) -> Framing {
    match (answer.head.framing(), request.head.version()) {
        (ResponseFraming::None, _) if request.head.method() == Method::Head => Framing::Declared,
        (ResponseFraming::None, _) if answer.head.status() == 304 => Framing::Declared,
        (ResponseFraming::None, _) => match answer.head.status() {
            204 => Framing::Declared,
            _ => Framing::Length(0),
        },
        (ResponseFraming::Length(bytes), _) => Framing::Length(bytes),
        (_, Version::Http11) => Framing::Chunked,
        (_, Version::Http10) => Framing::Close,
    }
}

/// Appends the status line and every field of a backend's answer that passes, with the length where
/// it is known. What a connection says of itself, and the empty line, are left to the caller.
pub(super) fn write_upstream(
    text: &mut Vec<u8>,
    request: &Request,
    answer: &UpstreamResponse,
    framing: Framing,
    record: &Record,
) {
    let (head, bytes) = (&answer.head, answer.reader.buffer.filled());
    write::status_line(text, head.status(), head.reason(bytes));
    let rules = record.api.as_ref().filter(|api| api.routes.api.cors.is_some());
    // A 204 has no length to tell (RFC 9110 section 8.6), whatever the backend said.
    let as_declared = framing == Framing::Declared && head.status() != 204;
    let mut drop = if as_declared { KnownSet::EMPTY } else { FRAMING };
    if rules.is_some() {
        drop = drop.union(CORS);
    }
    write::fields(text, bytes, head.fields(), drop);
    if let Some(api) = rules {
        cross_origin::append(request, &api.routes, text);
    }
    if let Framing::Length(bytes) = framing {
        write::content_length(text, bytes);
    }
}

/// The same for one of the gateway's own answers.
pub(super) fn write_own(
    text: &mut Vec<u8>,
    request: &Request,
    local: &OwnResponse,
    record: &Record,
) {
    write::status_line(text, local.status, write::reason(local.status).as_bytes());
    text.extend_from_slice(&local.lines);
    if let Some(content_type) = local.content_type {
        write::field(text, b"Content-Type", content_type.as_bytes());
    }
    if local.status != 204 {
        write::field_number(text, b"Content-Length", local.body.len() as u64);
    }
    if let Some(api) = record.api.as_ref().filter(|_| record.code.is_some()) {
        cross_origin::append(request, &api.routes, text);
    }
}

/// Goes on with a request body that the response overtook. Says whether bytes moved.
pub(super) fn poll_upload<C: Client>(
    cx: &mut Context<'_>,
    client: &mut C,
    answer: &mut UpstreamResponse,
) -> bool {
    let Upload::Running(up) = &mut answer.upload else { return false };
    let before = up.written;
    let run = up.poll_run(cx, client, &mut answer.lease.stream);
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

/// Whose end stopped a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Client,
    Upstream,
}

/// Whether the caller got all of it; otherwise the record says why not.
pub(super) fn finish_delivery(
    worker: &Worker,
    ended: Result<(), Ended>,
    record: &mut Record,
) -> bool {
    let Err(by) = ended else { return true };
    record.truncated = true;
    match by {
        Ended::Client => {
            record.status = CLIENT_LEFT;
            record.blame = Some(Blame::Caller);
        }
        Ended::Upstream => {
            let cause = "the response broke off";
            record.blame = Some(Blame::Upstream);
            let authority = String::new();
            log_fault(worker, &Fault::SendFailed { authority, cause: cause.to_owned() }, record);
        }
    }
    false
}

/// A connection goes back to its pool only when both bodies are done and nothing is unread.
pub(super) fn release(worker: &Worker, mut answer: UpstreamResponse, done: bool) {
    let clean = answer.reader.buffer.is_empty() && answer.head.keep_alive();
    worker.buffers.release(std::mem::take(&mut answer.reader.buffer));
    worker.release_response_head(answer.head);
    if done && clean && answer.reader.is_done() {
        answer.lease.release(worker.coarse_us());
    }
}

/// Notes a fault that is not the caller's in the process's log. No path, header or token.
pub(super) fn log_fault(worker: &Worker, fault: &Fault, record: &Record) {
    let api = record.api.as_ref().map_or("", |api| api.routes.api.name.as_str());
    let request = || record.id(worker);
    match fault.blame() {
        Blame::Upstream => {
            tracing::warn!(api, code = record.code, request = request(), "{fault}");
        }
        Blame::Gateway => {
            tracing::error!(api, code = record.code, request = request(), "{fault}");
        }
        Blame::Caller => {}
    }
}
