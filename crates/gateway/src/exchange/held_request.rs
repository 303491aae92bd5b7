//! The body of a client's request in memory, from where it can be sent more than once.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;
use model::{Denial, Fault};
use wire::http1::BodyFraming;

use crate::body::held::{Hold, HoldError, Holding};
use crate::body::request_body::{RequestBody, Unwanted, body_fault, while_wanted};
use crate::body::{BodyError, Held, Source};
use crate::forward::UpstreamResponse;
use crate::message::resources::Resources;
use crate::shares::gate::Pass;
use crate::tasks::watch::{HeldBody, Pace, Watch};
use crate::worker::Worker;
use crate::worker::compiled::Stall;

/// The nominal rate of a body that is held, in bytes per second: the slowest are those that lag furthest behind it.
const NOMINAL_RATE: u64 = 64 * 1024;

/// Reads the body of the client's request, which loses its turn if its body is slow, or has to wait for room.
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
    let begun_us = worker.resources.coarse_us();
    let held = loop {
        match read(worker, (client, turn), &mut hold, begun_us, stall).await {
            Ok(None) => {}
            Ok(Some(bytes)) => break Ok(bytes),
            Err(fault) => break Err(fault),
        }
        // Boxed, so that the rare case does not enlarge every future.
        let lacking = || (!hold.finds_room()).then(|| (hold.charged(), hold.lacks()));
        if let Err(fault) =
            Box::pin(wait_for_room(worker, client, (holding, begun_us), lacking)).await
        {
            break Err(fault);
        }
    };
    client.watch().client_is_slow(false, worker.resources.coarse_us());
    client.watch().holds_body(None);
    held
}

/// Reads the whole body. `None`: more of it does not fit.
async fn read<B: RequestBody>(
    worker: &Worker,
    (client, turn): (&mut B, &mut Option<Pass>),
    hold: &mut Hold,
    begun_us: u64,
    stall: Stall,
) -> Result<Option<Bytes>, Box<Fault>> {
    let resources = &worker.resources;
    client.watch().set(resources.deadline_us(stall.ms));
    let mut pace = Pace::new(stall.min_rate, resources.coarse_us());
    let mut moved_us = resources.coarse_us();
    poll_fn(|cx| {
        let before = hold.len();
        match hold.poll(cx, client) {
            Poll::Ready(Ok(bytes)) => return Poll::Ready(Ok(Some(bytes))),
            Poll::Ready(Err(HoldError::Exhausted)) => {
                *turn = None;
                return Poll::Ready(Ok(None));
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(denied(error))),
            Poll::Pending => {}
        }
        *turn = None;
        if let Poll::Ready(fault) = client.poll_left(cx, true) {
            return Poll::Ready(Err(fault));
        }
        let (len, now_us) = (hold.len(), resources.coarse_us());
        let watch = client.watch();
        watch.client_is_slow(true, now_us);
        if len > before {
            moved_us = now_us;
        }
        let nominal_us = (len as u64).saturating_mul(1_000_000) / NOMINAL_RATE;
        let since_us = begun_us.saturating_add(nominal_us).min(moved_us);
        watch.holds_body(Some(HeldBody { bytes: hold.charged(), lacks: 0, since_us }));
        if len > before && pace.is_kept(len as u64, now_us) {
            watch.set(resources.deadline_us(stall.ms));
        }
        if watch.poll_expired(cx) {
            return Poll::Ready(Err(Fault::ClientTimeout.into()));
        }
        Poll::Pending
    })
    .await
}

/// Waits until there is room. `since_us`: when the waiting body began; the newest gives way last. `lacking`: the bytes
/// that are held and the bytes that lack room, or `None` when there is room.
///
/// # Errors
/// [`Denial::HeldBytesUsed`] if there is none in time, or if other bodies are faster; or the client left.
pub(crate) async fn wait_for_room<B: RequestBody>(
    worker: &Worker,
    client: &mut B,
    (holding, since_us): (&Holding, u64),
    mut lacking: impl FnMut() -> Option<(usize, usize)>,
) -> Result<(), Box<Fault>> {
    client.watch().set(worker.resources.deadline_us(holding.wait_ms));
    client.watch().client_is_slow(false, since_us);
    let waited = loop {
        let Some((bytes, lacks)) = lacking() else { break Ok(()) };
        client.watch().holds_body(Some(HeldBody { bytes, lacks, since_us }));
        match while_wanted(client, holding.freed()).await {
            Ok(()) => {}
            Err(Unwanted::Left(fault)) if !client.watch().gives_way() => break Err(fault),
            Err(Unwanted::TimeUp | Unwanted::Left(_)) => break Err(Holding::exhausted()),
        }
    };
    client.watch().holds_body(None);
    waited
}

/// Why a request's body is not held.
fn denied(error: HoldError) -> Box<Fault> {
    match error {
        HoldError::TooLarge => Fault::Denied(Denial::BodyTooLarge).into(),
        HoldError::Exhausted => Holding::exhausted(),
        HoldError::Body(error) => body_fault(error),
    }
}

/// A client whose body was read: it is still waited for, and its body is in memory.
pub(crate) struct HeldRequest<'c, B> {
    pub(crate) client: &'c mut B,
    pub(crate) held: Held,
}

impl<B: RequestBody> HeldRequest<'_, B> {
    /// Sends the rest of a body whose response has begun already, since the client that gets the response has it no
    /// more.
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
