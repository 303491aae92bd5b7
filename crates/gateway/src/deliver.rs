//! Delivery of a response to the client, while the rest of the request may still be sent to the upstream.

use std::future::poll_fn;
use std::task::{Context, Poll};

use model::Fault;

use crate::client::{Begin, Client};
use crate::flow::{BodyError, Empty, FlowError, Tapped};
use crate::message::Request;
use crate::resources::Resources;
use crate::response::{Body, Response};
use crate::watch::Pace;

/// Sends `response` to the client. `stall`: longest time without progress.
///
/// # Errors
/// [`Fault::ClientLeft`], or a fault of the upstream, whose body ended early or is invalid. While [`Client::sent`]
/// is zero, another response can be delivered.
pub(crate) async fn deliver<C: Client>(
    resources: &Resources,
    client: &mut C,
    request: &Request,
    mut response: Response,
    stall: Stall,
) -> Result<(), Fault> {
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
            let response = &mut response;
            let mut delivery = Delivery { resources, response, is_bodiless, stall, pace };
            poll_fn(|cx| delivery.poll(cx, client)).await
        }
        Err(rejection) => Err(response.violation(rejection.reason)),
    };
    if result.is_ok() || client.sent() > 0 || result == Err(Fault::ClientLeft) {
        client.end(result.is_ok()).await;
    }
    if let Some(tap) = response.tap.take() {
        tap.end(result.is_ok());
    }
    response.release(resources, result.is_ok());
    result
}

/// The limit for bodies without progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stall {
    /// Longest time without it.
    pub(crate) ms: u32,
    /// Least progress, in bytes per second.
    pub(crate) min_rate: u32,
}

/// A response that is being sent.
struct Delivery<'a> {
    resources: &'a Resources,
    response: &'a mut Response,
    is_bodiless: bool,
    stall: Stall,
    /// How fast the client takes what is there.
    pace: Pace,
}

impl Delivery<'_> {
    fn poll<C: Client>(&mut self, cx: &mut Context<'_>, client: &mut C) -> Poll<Result<(), Fault>> {
        let before = client.sent();
        let mut moved = self.response.poll_upload(cx, client, self.resources);
        let run = match &mut self.response.body {
            _ if self.is_bodiless => client.poll_send(cx, &mut Empty),
            Body::Empty => client.poll_send(cx, &mut Empty),
            Body::Held(body) => client.poll_send(cx, body),
            Body::Streaming(body) => {
                let source = body.source(&self.resources.buffers);
                match self.response.tap.as_deref_mut() {
                    None => client.poll_send(cx, &mut { source }),
                    Some(tap) => client.poll_send(cx, &mut Tapped { source, tap }),
                }
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
            Poll::Ready(Err(FlowError::Sink(_))) => return Poll::Ready(Err(Fault::ClientLeft)),
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
            return Poll::Ready(Err(Fault::ClientLeft));
        }
        if moved {
            client.watch().set(self.resources.deadline_us(self.stall.ms.saturating_sub(held_ms)));
        }
        if waits && client.poll_gone(cx) {
            return Poll::Ready(Err(Fault::ClientLeft));
        }
        if client.watch().poll_expired(cx) {
            if is_complete {
                // Whichever side stopped the upload, the client has its response.
                self.response.stop_upload(self.resources);
                return Poll::Ready(Ok(()));
            }
            let stalled = || self.response.truncated("no data within `stall_ms`");
            return Poll::Ready(Err(if waits { stalled() } else { Fault::ClientLeft }));
        }
        Poll::Pending
    }
}

/// The fault of an upstream whose response's body failed.
pub(crate) fn upstream_fault(authority: &str, error: &BodyError) -> Fault {
    let authority = authority.to_owned();
    match error {
        BodyError::Closed => Fault::Truncated { authority, reason: "the connection was closed" },
        BodyError::Malformed(rejection) => {
            Fault::ProtocolViolation { authority, reason: rejection.reason }
        }
    }
}
