//! What forwarding needs from the sender of the request.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use model::Fault;

use crate::flow::{BodyError, Held, Source};
use crate::resources::Resources;
use crate::watch::Watch;

/// The body of a request that is sent upstream, and its sender's interest in the response.
pub(crate) trait RequestBody: Source {
    /// Ready when its sender no longer wants the response. `is_read`: the body is being read meanwhile, so that whoever
    /// reads it notices.
    fn poll_left(&mut self, cx: &mut Context<'_>, is_read: bool) -> Poll<Fault>;
    /// Payload bytes that were consumed.
    fn consumed(&self) -> u64;
    /// Whether all of it can be sent to another endpoint.
    fn can_restart(&self) -> bool {
        self.consumed() == 0
    }
    /// Begins again at the first byte, if [`RequestBody::can_restart`].
    fn restart(&mut self) {}
    /// The deadline of the exchange's current wait.
    fn watch(&self) -> &Watch;
    /// The client sends no more, but may still read.
    fn has_half_closed(&self) -> bool;
}

/// The body of a request of the gateway's own, whose sender waits until the end.
pub(crate) struct OwnBody {
    held: Held,
    watch: Rc<Watch>,
}

impl OwnBody {
    pub(crate) fn new(held: Held, resources: &Resources) -> Self {
        Self { held, watch: resources.watches.add() }
    }

    /// No body, and the watch of what waits.
    pub(crate) fn empty(watch: &Rc<Watch>) -> Self {
        Self { held: Held::default(), watch: Rc::clone(watch) }
    }
}

impl Source for OwnBody {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        self.held.poll_fill(cx)
    }

    fn data(&self) -> &[u8] {
        self.held.data()
    }

    fn consume(&mut self, count: usize) {
        self.held.consume(count);
    }

    fn trailers(&self) -> &[u8] {
        self.held.trailers()
    }
}

impl RequestBody for OwnBody {
    fn poll_left(&mut self, _: &mut Context<'_>, _: bool) -> Poll<Fault> {
        Poll::Pending
    }

    fn consumed(&self) -> u64 {
        self.held.consumed()
    }

    fn can_restart(&self) -> bool {
        true
    }

    fn restart(&mut self) {
        self.held.restart();
    }

    fn watch(&self) -> &Watch {
        &self.watch
    }

    fn has_half_closed(&self) -> bool {
        false
    }
}

/// Why a wait ended without its result.
#[derive(Debug)]
pub(crate) enum Unwanted {
    /// The watch expired.
    TimeUp,
    /// The sender of the request left.
    Left(Fault),
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
            let left = left.then_some(Unwanted::Left(Fault::ClientLeft));
            return Poll::Ready(Err(left.unwrap_or(Unwanted::TimeUp)));
        }
        Poll::Pending
    })
    .await
}
