//! What the way back of an answer is made of, whatever protocol its caller speaks.

use std::task::{Context, Poll};

use base::Method;
use model::{Blame, Fault};
use wire::http1::{Known, KnownSet, ResponseFraming, Version, write};

use crate::account::{CLIENT_LEFT, Record};
use crate::call::{Call, Client};
use crate::cross_origin;
use crate::flow::FlowError;
use crate::forward::{Upload, Upstreamed};
use crate::respond::Local;
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
    AsSaid,
    Length(u64),
    Chunked,
    /// The connection's end is the body's.
    Close,
}

pub(super) fn framing_for(call: &Call, answer: &Upstreamed) -> Framing {
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

/// Appends the status line and every field of a backend's answer that passes, with the length where
/// it is known. What a connection says of itself, and the empty line, are left to the caller.
pub(super) fn write_upstream(
    text: &mut Vec<u8>,
    call: &Call,
    answer: &Upstreamed,
    framing: Framing,
    record: &Record,
) {
    let (head, bytes) = (&answer.head, answer.reader.buffer.filled());
    write::status_line(text, head.status(), head.reason(bytes));
    let rules = record.api.as_ref().filter(|api| api.routes.api.cors.is_some());
    // A 204 has no length to tell (RFC 9110 section 8.6), whatever the backend said.
    let as_said = framing == Framing::AsSaid && head.status() != 204;
    let mut drop = if as_said { KnownSet::EMPTY } else { FRAMING };
    if rules.is_some() {
        drop = drop.union(CORS);
    }
    write::fields(text, bytes, head.fields(), drop);
    if let Some(api) = rules {
        cross_origin::append(call, &api.routes, text);
    }
    if let Framing::Length(bytes) = framing {
        write::content_length(text, bytes);
    }
}

/// The same for one of the gateway's own answers.
pub(super) fn write_local(text: &mut Vec<u8>, call: &Call, local: &Local, record: &Record) {
    write::status_line(text, local.status, write::reason(local.status).as_bytes());
    text.extend_from_slice(&local.lines);
    if let Some(content_type) = local.content_type {
        write::field(text, b"Content-Type", content_type.as_bytes());
    }
    if local.status != 204 {
        write::field_number(text, b"Content-Length", local.body.len() as u64);
    }
    if let Some(api) = record.api.as_ref().filter(|_| record.code.is_some()) {
        cross_origin::append(call, &api.routes, text);
    }
}

/// Goes on with a request body that the response overtook. Says whether bytes moved.
pub(super) fn poll_upload<C: Client>(
    cx: &mut Context<'_>,
    client: &mut C,
    answer: &mut Upstreamed,
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
    Caller,
    Upstream,
}

/// Whether the caller got all of it; otherwise the record says why not.
pub(super) fn conclude(worker: &Worker, ended: Result<(), Ended>, record: &mut Record) -> bool {
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
            log_fault(worker, &Fault::SendFailed { authority, cause: cause.to_owned() }, record);
        }
    }
    false
}

/// A connection goes back to its pool only when both bodies are done and nothing is unread.
pub(super) fn release(worker: &Worker, mut answer: Upstreamed, done: bool) {
    let clean = answer.reader.buffer.is_empty() && answer.head.keep_alive();
    worker.buffers.give_back(std::mem::take(&mut answer.reader.buffer));
    worker.give_back_response_head(answer.head);
    if done && clean && answer.reader.is_done() {
        answer.lease.give_back(worker.coarse_us());
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
