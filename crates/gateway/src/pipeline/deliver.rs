//! Delivery of a response to the client, while the rest of the request may still be sent to the upstream.

use std::future::poll_fn;
use std::task::{Context, Poll};

use model::{Denial, Fault, FaultStatus};

use crate::body::request_body::upstream_fault;
use crate::body::{Empty, FlowError, Source, Tap, Tapped};
use crate::exchange::Exchange;
use crate::exchange::client::{Begin, Client};
use crate::exchange::response::{Body, Response};
use crate::message::resources::Resources;
use crate::tasks::watch::{Pace, Place};
use crate::worker::compiled::{Live, Stall};

/// How responses are delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    stall: Stall,
    statuses: FaultStatus,
}

impl Delivery {
    pub(crate) fn of(live: &Live) -> Self {
        Self { stall: Stall::of(live), statuses: live.fault_status }
    }
}

/// Sends a response to the client: that of a fault, if `responded` is one or the response fails before its first byte.
pub(super) async fn deliver<C: Client>(
    exchange: &mut Exchange<'_>,
    responded: Result<Response, Box<Fault>>,
    mut delivery: Delivery,
    client: &mut C,
) {
    let api = exchange.record.api.as_ref().map(|account| &account.routes.api);
    if let Some(stall_ms) = api.and_then(|api| api.stall_ms) {
        delivery.stall.ms = stall_ms;
    }
    let sent = match responded {
        Ok(response) => send(exchange, client, response, delivery).await,
        Err(fault) => {
            exchange.record.received = client.consumed();
            Err(fault)
        }
    };
    if let Err(fault) = sent
        && let Some(own) = exchange.fault(&fault, delivery.statuses)
        && let Err(fault) = send(exchange, client, own, delivery).await
    {
        // No client is left to get another response.
        exchange.fault(&fault, delivery.statuses);
    }
    client.watch().has(Place::None);
}

/// Sends a response, or becomes its tunnel. Afterwards everything is released, and the record has its sizes.
///
/// # Errors
/// As [`send_whole`].
async fn send<C: Client>(
    exchange: &mut Exchange<'_>,
    client: &mut C,
    mut response: Response,
    delivery: Delivery,
) -> Result<(), Box<Fault>> {
    if response.is_tunnel() {
        tunnel(exchange, &mut response, client).await;
        return Ok(());
    }
    let record = &mut exchange.record;
    let now_ms = exchange.worker.quota_ms(record.started_us);
    record.quota.write_fields(now_ms, response.head.edits.lines_mut());
    record.status = response.head.status();
    let sent = send_whole(exchange, client, &mut response, delivery.stall).await;
    response.release(&exchange.worker.resources, sent.is_ok());
    let record = &mut exchange.record;
    (record.received, record.sent) = (client.consumed(), client.sent());
    sent
}

/// Turns the client's connection into a tunnel.
async fn tunnel<C: Client>(exchange: &mut Exchange<'_>, response: &mut Response, client: &mut C) {
    exchange.record.status = 101;
    exchange.worker.count_tunnel();
    let (request, tunnelled) = (exchange.request, |up, down| exchange.tunnelled(up, down));
    if let Body::Streaming(upstream) = &mut response.body {
        // Boxed, so that it does not enlarge every task.
        Box::pin(client.tunnel(request, &response.head, upstream, &tunnelled)).await;
    }
}

/// Sends `response` to the client, while the rest of the request may still be sent to the upstream.
///
/// # Errors
/// [`Fault::ClientLeft`], or a fault of the upstream, whose body ended early or is invalid. While [`Client::sent`]
/// is zero, another response can be delivered.
async fn send_whole<C: Client>(
    exchange: &Exchange<'_>,
    client: &mut C,
    response: &mut Response,
    stall: Stall,
) -> Result<(), Box<Fault>> {
    let (request, resources) = (exchange.request, &exchange.worker.resources);
    let framing = response.framing(request);
    let uploads = response.uploads();
    if !uploads {
        // Before the client drops the rest of its body: nothing of it may be taken for sent.
        response.stop_upload(resources);
    }
    let is_bodiless = response.is_bodiless(request);
    let begin = Begin { head: &response.head, framing, is_bodiless, uploads };
    let begun = client.begin(request, &begin);
    let result = match begun {
        Ok(()) => {
            client.watch().set(resources.deadline_us(stall.ms));
            let pace = Pace::new(stall.min_rate, resources.coarse_us());
            let response = &mut *response;
            let mut sending = Sending { resources, response, is_bodiless, stall, pace };
            poll_fn(|cx| sending.poll(cx, client)).await
        }
        Err(rejection) => Err(response.violation(rejection.reason)),
    };
    if result.is_ok()
        || client.sent() > 0
        || result.as_ref().is_err_and(|fault| **fault == Fault::ClientLeft)
    {
        client.end(result.is_ok()).await;
    }
    if let Some(tap) = response.tap.take() {
        tap.end(result.is_ok());
    }
    result
}

/// A response that is being sent.
struct Sending<'a> {
    resources: &'a Resources,
    response: &'a mut Response,
    is_bodiless: bool,
    stall: Stall,
    /// How fast the client takes available data.
    pace: Pace,
}

impl Sending<'_> {
    fn poll<C: Client>(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut C,
    ) -> Poll<Result<(), Box<Fault>>> {
        let before = client.sent();
        let mut moved = self.response.poll_upload(cx, client, self.resources);
        let run = match &mut self.response.body {
            _ if self.is_bodiless => client.poll_send(cx, &mut Empty),
            Body::Empty => client.poll_send(cx, &mut Empty),
            Body::Held(body) => poll_tapped(cx, client, body, &mut self.response.tap),
            Body::Streaming(body) => {
                let mut source = body.source(&self.resources.buffers);
                poll_tapped(cx, client, &mut source, &mut self.response.tap)
            }
        };
        let is_complete = match run {
            Poll::Ready(Ok(())) if !self.response.uploads() => return Poll::Ready(Ok(())),
            // The upload continues.
            Poll::Ready(Ok(())) => true,
            Poll::Pending => false,
            Poll::Ready(Err(FlowError::Source(error))) => {
                return Poll::Ready(Err(upstream_fault(&self.response.authority(), &error)));
            }
            Poll::Ready(Err(FlowError::Sink(_))) => {
                return Poll::Ready(Err(Fault::ClientLeft.into()));
            }
        };
        let (waits, sent, now_us) =
            (client.waits_for_body(), client.sent(), self.resources.coarse_us());
        let holds_up = !waits && !is_complete;
        if moved {
            self.pace.restart(sent);
        }
        moved |= self.pace.is_kept(sent, now_us) || waits && sent != before;
        moved |= self.pace.holds_up(holds_up);
        client.watch().client_is_slow(!waits, now_us);
        let held_ms = if holds_up { self.pace.held_ms() } else { 0 };
        if held_ms > self.stall.ms {
            return Poll::Ready(Err(Fault::ClientLeft.into()));
        }
        if moved {
            client.watch().set(self.resources.deadline_us(self.stall.ms.saturating_sub(held_ms)));
        }
        if waits && client.poll_gone(cx) {
            return Poll::Ready(Err(Fault::ClientLeft.into()));
        }
        if client.watch().poll_expired(cx) {
            if is_complete {
                // Whichever side stopped the upload, the client has its response.
                self.response.stop_upload(self.resources);
                return Poll::Ready(Ok(()));
            }
            if client.watch().gives_way() {
                return Poll::Ready(Err(Fault::Denied(Denial::Overloaded).into()));
            }
            return Poll::Ready(Err(if waits {
                self.response.stalled()
            } else {
                Fault::ClientLeft.into()
            }));
        }
        Poll::Pending
    }
}

/// Sends the available data of `source`, seen by the tap if there is one.
fn poll_tapped<C: Client, S: Source>(
    cx: &mut Context<'_>,
    client: &mut C,
    source: &mut S,
    tap: &mut Option<Box<dyn Tap>>,
) -> Poll<Result<(), FlowError>> {
    match tap {
        None => client.poll_send(cx, source),
        Some(tap) => client.poll_send(cx, &mut Tapped { source, tap: &mut **tap }),
    }
}
