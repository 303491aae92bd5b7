//! The body of a request as `forward` sees it, and a watch for clients that disconnect.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use model::Fault;

use super::{BodyError, Source};
use crate::tasks::watch::Watch;

/// The body of a request that is sent upstream, and its sender's interest in the response.
pub(crate) trait RequestBody: Source {
    /// Ready when the client no longer wants the response. `is_read`: the body is being read meanwhile, and its reader
    /// notices a disconnect.
    fn poll_left(&mut self, cx: &mut Context<'_>, is_read: bool) -> Poll<Box<Fault>>;
    /// Payload bytes that were consumed.
    fn consumed(&self) -> u64;
    /// Whether all of it can be sent to another endpoint.
    fn can_restart(&self) -> bool {
        self.consumed() == 0
    }
    /// Begins again at the first byte, if [`RequestBody::can_restart`].
    fn restart(&mut self) {}
    /// All of it, if it is in memory.
    fn held(&self) -> Option<&[u8]> {
        None
    }
    /// The deadline of the exchange's current wait.
    fn watch(&self) -> &Watch;
    /// The client sends no more, but may still read.
    fn has_half_closed(&self) -> bool;
}

/// Why a wait ended without its result.
#[derive(Debug)]
pub(crate) enum Unwanted {
    /// The watch expired.
    TimeUp,
    /// The sender of the request left.
    Left(Box<Fault>),
}

/// The output of `future`, unless the watch of `body` expires or its sender leaves first.
pub(crate) async fn while_wanted<B: RequestBody, F: Future>(
    body: &mut B,
    future: F,
) -> Result<F::Output, Unwanted> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        if let Poll::Ready(fault) = body.poll_left(cx, false) {
            return Poll::Ready(Err(Unwanted::Left(fault)));
        }
        if body.watch().poll_expired(cx) {
            let left = body.has_half_closed();
            let left = left.then_some(Unwanted::Left(Fault::ClientLeft.into()));
            return Poll::Ready(Err(left.unwrap_or(Unwanted::TimeUp)));
        }
        Poll::Pending
    })
    .await
}

/// The fault of a client whose request body failed.
pub(crate) fn body_fault(error: BodyError) -> Box<Fault> {
    Box::new(match error {
        BodyError::Closed => Fault::ClientLeft,
        BodyError::Malformed(rejection) => {
            Fault::Malformed { status: rejection.status, reason: rejection.reason }
        }
    })
}

/// The fault of an upstream whose response's body failed.
pub(crate) fn upstream_fault(authority: &str, error: &BodyError) -> Box<Fault> {
    let authority = authority.to_owned();
    Box::new(match error {
        BodyError::Closed => Fault::Truncated { authority, reason: "the connection was closed" },
        BodyError::Malformed(rejection) => {
            Fault::ProtocolViolation { authority, reason: rejection.reason }
        }
    })
}
