//! The body of a client's request in memory, from where it can be sent more than once.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;
use model::{Denial, Fault};
use wire::http1::BodyFraming;

use crate::deliver::Stall;
use crate::flow::{BodyError, Held, Source};
use crate::forward::UpstreamResponse;
use crate::gate::Pass;
use crate::held::{Hold, HoldError, Holding};
use crate::request_body::{RequestBody, body_fault};
use crate::resources::Resources;
use crate::watch::{Pace, Watch};
use crate::worker::Worker;

/// Reads the body of the client's request, which loses its turn if its body is slow.
pub(crate) async fn hold_request<B: RequestBody>(
    worker: &Worker,
    (client, turn): (&mut B, &mut Option<Pass>),
    framing: BodyFraming,
    holding: &Holding,
    stall: Stall,
) -> Result<Bytes, Box<Fault>> {
    let announced = match framing {
        BodyFraming::None => Some(0),
        BodyFraming::Length(bytes) => Some(bytes),
        BodyFraming::Chunked => None,
    };
    let mut hold = Hold::begin(holding, announced).map_err(denied)?;
    let resources = &worker.resources;
    client.watch().set(resources.deadline_us(stall.ms));
    let mut pace = Pace::new(stall.min_rate, resources.coarse_us());
    let held = poll_fn(|cx| {
        let before = hold.len();
        if let Poll::Ready(held) = hold.poll(cx, client) {
            return Poll::Ready(held.map_err(denied));
        }
        *turn = None;
        if let Poll::Ready(fault) = client.poll_left(cx, true) {
            return Poll::Ready(Err(fault));
        }
        let (len, now_us) = (hold.len(), resources.coarse_us());
        client.watch().client_is_slow(true, now_us);
        if len > before && pace.is_kept(len as u64, now_us) {
            client.watch().set(resources.deadline_us(stall.ms));
        }
        if client.watch().poll_expired(cx) {
            return Poll::Ready(Err(Fault::ClientTimeout.into()));
        }
        Poll::Pending
    })
    .await;
    client.watch().client_is_slow(false, resources.coarse_us());
    held
}

/// Why a request's body is not held.
fn denied(error: HoldError) -> Box<Fault> {
    match error {
        HoldError::TooLarge => Fault::Denied(Denial::BodyTooLarge).into(),
        HoldError::Exhausted => Fault::Denied(Denial::HeldBytesUsed).into(),
        HoldError::Body(error) => body_fault(error),
    }
}

/// A client whose body was read: it is still waited for, and its body is in memory.
pub(crate) struct HeldRequest<'c, B> {
    pub(crate) client: &'c mut B,
    pub(crate) held: Held,
}

impl<B: RequestBody> HeldRequest<'_, B> {
    /// Sends the rest of a body whose response has begun already, since the client that gets the response has it no more.
    pub(crate) async fn finish_upload(
        &mut self,
        resources: &Resources,
        response: &mut UpstreamResponse,
        stall_ms: u32,
    ) {
        if !response.body.uploads() {
            return;
        }
        self.watch().set(resources.deadline_us(stall_ms));
        poll_fn(|cx| {
            if response.body.poll_upload(cx, self, resources) {
                self.watch().set(resources.deadline_us(stall_ms));
            }
            let is_over = self.watch().poll_expired(cx) || self.poll_left(cx, false).is_ready();
            if is_over {
                response.body.stop_upload(resources);
            }
            if response.body.uploads() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }
}

impl<B: RequestBody> Source for HeldRequest<'_, B> {
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

impl<B: RequestBody> RequestBody for HeldRequest<'_, B> {
    fn poll_left(&mut self, cx: &mut Context<'_>, _: bool) -> Poll<Box<Fault>> {
        self.client.poll_left(cx, false)
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

    fn held(&self) -> Option<&[u8]> {
        Some(self.held.data())
    }

    fn watch(&self) -> &Watch {
        self.client.watch()
    }

    fn has_half_closed(&self) -> bool {
        self.client.has_half_closed()
    }
}
