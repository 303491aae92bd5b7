//! Bodies that a run reads, and the rest of bodies that it does not read.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use base::limits::UNREAD_BYTES_MAX;
use bytes::Bytes;
use mediation::{Answer, AskId, Failure};
use model::{Denial, Fault};

use super::exchange;
use crate::body::held::{Hold, HoldError, Holding};
use crate::body::request_body::{RequestBody, upstream_fault};
use crate::body::{BodyError, Source as _};
use crate::forward::UpstreamBody;
use crate::message::resources::Resources;
use crate::own_requests::own_body::OwnBody;
use crate::tasks::watch::Pace;
use crate::worker::Worker;
use crate::worker::compiled::Stall;

/// Bodies of responses that a message may still read. Mostly one, which needs no memory.
#[derive(Default)]
pub(super) struct Streams {
    one: Option<(AskId, UpstreamBody)>,
    others: Vec<(AskId, UpstreamBody)>,
}

impl Streams {
    pub(super) fn insert(&mut self, ask: AskId, stream: UpstreamBody) {
        match &self.one {
            None => self.one = Some((ask, stream)),
            Some(_) => self.others.push((ask, stream)),
        }
    }

    /// Takes one out whose number is `wanted`.
    pub(super) fn take(&mut self, wanted: impl Fn(AskId) -> bool) -> Option<UpstreamBody> {
        let found = self.one.take_if(|(ask, _)| wanted(*ask)).or_else(|| {
            let at = self.others.iter().position(|(ask, _)| wanted(*ask))?;
            Some(self.others.swap_remove(at))
        });
        found.map(|(_, stream)| stream)
    }
}

/// Reads the body of an answer that a step needs at once.
pub(super) async fn hold_answer(
    worker: &Worker,
    answer: &mut Answer,
    stream: UpstreamBody,
    holding: &Holding,
    stall: Stall,
) {
    match hold_beside(worker, stream, holding, stall).await {
        Ok(bytes) => {
            if let Answer::Response(message) = answer {
                message.hold(bytes);
            }
        }
        Err(failure) => *answer = Answer::Failed(failure, None),
    }
}

/// As [`hold_response`], for a response whose request has been sent.
pub(super) async fn hold_beside(
    worker: &Worker,
    stream: UpstreamBody,
    holding: &Holding,
    stall: Stall,
) -> Result<Bytes, Failure> {
    let client = None::<&mut OwnBody>;
    // The gateway's own requests have no client that could leave.
    let held = hold_response(worker, stream, client, holding, stall).await;
    held.unwrap_or_else(|fault| Err(exchange::failure(&fault)))
}

/// The failure of a run whose bodies exceed the limit of held bytes.
pub(super) fn exhausted() -> Failure {
    let text = "the held bodies of this worker use up `held_bytes_max`";
    Failure::denied(Denial::HeldBytesUsed, text)
}

/// Reads the body of a response, and sends the rest of the request's body meanwhile.
///
/// # Errors
/// The sender of the request left. The inner error is the upstream's, or the body lacks room.
pub(super) async fn hold_response<B: RequestBody>(
    worker: &Worker,
    mut stream: UpstreamBody,
    request_body: Option<&mut B>,
    holding: &Holding,
    stall: Stall,
) -> Result<Result<Bytes, Failure>, Box<Fault>> {
    let held = read_response(worker, &mut stream, request_body, holding, stall).await;
    stream.release(&worker.resources, matches!(held, Ok(Ok(_))));
    held
}

/// As [`hold_response`]; the caller releases the response.
pub(super) async fn read_response<B: RequestBody>(
    worker: &Worker,
    stream: &mut UpstreamBody,
    mut request_body: Option<&mut B>,
    holding: &Holding,
    stall: Stall,
) -> Result<Result<Bytes, Failure>, Box<Fault>> {
    let resources = &worker.resources;
    if let Some(body) = &request_body {
        body.watch().set(u64::MAX);
    }
    let mut left = None;
    let watch = resources.watches.add();
    watch.set(resources.deadline_us(stall.ms));
    let mut pace = Pace::new(stall.min_rate, resources.coarse_us());
    let authority = Rc::clone(&stream.connection.authority);
    let announced = stream.connection.reader.announced();
    let held = match Hold::begin(holding, announced) {
        Err(error) => Err(error),
        Ok(mut hold) => {
            let mut all = None;
            poll_fn(|cx| {
                let before = hold.len();
                let buffers = &resources.buffers;
                let mut moved = match &mut request_body {
                    Some(body) => stream.poll_upload(cx, *body, resources),
                    None => false,
                };
                if all.is_none()
                    && let Poll::Ready(held) = hold.poll(cx, &mut stream.source(buffers))
                {
                    match held {
                        Ok(bytes) => all = Some(bytes),
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
                let uploads = request_body.is_some() && stream.uploads();
                if let Some(bytes) = all.take_if(|_| !uploads) {
                    return Poll::Ready(Ok(bytes));
                }
                if let Some(body) = &mut request_body
                    && let Poll::Ready(fault) = poll_left(cx, *body, uploads)
                {
                    left = Some(fault);
                    return Poll::Ready(Err(HoldError::Body(BodyError::Closed)));
                }
                let (len, now_us) = (hold.len(), resources.coarse_us());
                moved |= len > before && pace.is_kept(len as u64, now_us);
                if moved {
                    watch.set(resources.deadline_us(stall.ms));
                }
                if watch.poll_expired(cx) {
                    // Whichever side stopped the upload, the response is there.
                    return Poll::Ready(all.take().ok_or(HoldError::Body(BodyError::Closed)));
                }
                Poll::Pending
            })
            .await
        }
    };
    if let Some(fault) = left {
        return Err(fault);
    }
    Ok(held.map_err(|error| match error {
        HoldError::TooLarge => {
            let text = format!("the response of {authority} is larger than `held_body_bytes_max`");
            Failure::denied(Denial::ResponseTooLarge, text)
        }
        HoldError::Exhausted => exhausted(),
        HoldError::Body(error) => exchange::failure(&upstream_fault(&authority, &error)),
    }))
}

/// Ready when the sender of a body has left. `is_read`: the body is being read.
fn poll_left<B: RequestBody>(
    cx: &mut Context<'_>,
    body: &mut B,
    is_read: bool,
) -> Poll<Box<Fault>> {
    if let Poll::Ready(fault) = body.poll_left(cx, is_read) {
        return Poll::Ready(fault);
    }
    // It has a deadline only if it may be gone.
    if body.watch().poll_expired(cx) {
        Poll::Ready(Fault::ClientLeft.into())
    } else {
        Poll::Pending
    }
}

/// Skips the rest of a body, if it has arrived, so that its connection can be used again.
pub(super) fn skip_rest(cx: &mut Context<'_>, stream: &mut UpstreamBody, resources: &Resources) {
    let mut source = stream.source(&resources.buffers);
    let mut left = UNREAD_BYTES_MAX;
    while let Poll::Ready(Ok(())) = source.poll_fill(cx) {
        let len = source.data().len();
        if len == 0 || len > left {
            break;
        }
        left -= len;
        source.consume(len);
    }
}
