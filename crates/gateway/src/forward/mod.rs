//! Forwarding: choose an endpoint, lease a connection, send the request, wait for the response head.
//!
//! Life of a request: mediate -> **forward** -> mediate. Reads an [`Outgoing`] request, a [`RequestBody`] and the
//! operation's endpoints; returns an [`UpstreamResponse`]: a response head, its body still on the wire. Whether a
//! client or the gateway itself sends the request makes no difference here.
//!
//! Architecture invariant: a request is sent again only if no byte of it was written, or if it is
//! idempotent and nothing of its body was sent (RFC 9110 section 9.2.2), or if a reused connection ended and the
//! request is the gateway's own and harmless to repeat ([`Repetition`]).

mod addresses;
mod attempt;
mod balance;
mod connect;
pub(crate) mod credential;
pub(crate) mod document;
mod head;
mod health;
mod lookup;
mod names;
mod pool;
mod ports;
mod retry;
mod shared;
mod turns;
mod unjudged;
mod window;

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use model::Fault;
use wire::http1::{Known, ResponseFraming};
use wire::tls::ClientTls;

pub(crate) use balance::Balancer;
#[cfg(test)]
pub(crate) use balance::tests::{endpoint, run as run_balancer};
pub(crate) use connect::Address;
pub(crate) use head::IDENTITY;
pub(crate) use health::Checked;
pub(crate) use names::Follower;
pub(crate) use pool::{Connection, PoolFigures, PoolLimits, Pools};
pub(crate) use ports::{PortFigures, check_sources};
pub(crate) use retry::RetryCounts;
pub(crate) use shared::{CheckedEndpoint, Shared, Watched};

use crate::body::buffer::Buffers;
use crate::body::request_body::{RequestBody, Unwanted, while_wanted};
use crate::body::{FlowError, Http1Source, OutFraming};
use crate::message::resources::Resources;
use crate::message::{Head, Outgoing, Repetition};
use crate::tasks;

use attempt::{FailedAttempt, attempt};
use balance::{Chosen, Probe};
use pool::Freshness;
use retry::{FailedTry, Next, Tries};
use unjudged::Unjudged;

/// An upstream's response. The body, and possibly the rest of the request's body, are still to come.
pub(crate) struct UpstreamResponse {
    pub(crate) head: Box<Head>,
    pub(crate) body: UpstreamBody,
}

impl UpstreamResponse {
    /// Whether its body may be silent for long, and have no end.
    fn is_event_stream(&self) -> bool {
        const EVENTS: &[u8] = b"text/event-stream";
        let kind = self.head.parsed.find(Known::ContentType);
        let kind = kind.map_or(&[][..], |field| field.value.of(&self.head.bytes));
        kind.get(..EVENTS.len()).is_some_and(|start| start.eq_ignore_ascii_case(EVENTS))
    }

    /// Drops a response that is not sent to the client. The connection is used again if the response is completely
    /// read.
    pub(crate) fn release(self, resources: &Resources) {
        self.body.release(resources, true);
        resources.release_head(self.head);
    }
}

/// A response's body that is still on the wire.
pub(crate) struct UpstreamBody {
    pub(crate) connection: Box<Connection>,
    /// `Some` until the outcome of the exchange is recorded.
    unjudged: Option<Unjudged>,
}

impl UpstreamBody {
    fn new(connection: Box<Connection>) -> Self {
        Self { connection, unjudged: None }
    }

    /// Records that no more of the body came in time.
    pub(crate) fn has_stalled(&mut self) {
        self.connection.reader.broke = true;
    }

    pub(crate) fn source<'a>(&'a mut self, buffers: &'a Buffers) -> Http1Source<'a> {
        let Connection { stream, reader, .. } = &mut *self.connection;
        Http1Source { reader, stream, buffers }
    }

    /// Whether all of it was read and sent on.
    pub(crate) fn is_done(&self) -> bool {
        self.connection.reader.is_done()
    }

    /// Whether the rest of the request's body is still sent.
    pub(crate) fn uploads(&self) -> bool {
        self.connection.upload == Upload::Running
    }

    /// Continues the upload, if it is not done. Returns whether it is fast enough to extend a deadline.
    pub(crate) fn poll_upload<B: RequestBody>(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut B,
        resources: &Resources,
    ) -> bool {
        let now_us = resources.coarse_us();
        if let Some(unjudged) = self.unjudged.take_if(|unjudged| unjudged.is_due(now_us)) {
            unjudged.judge(self.connection.reader.broke, now_us);
        }
        if !self.uploads() {
            return false;
        }
        let Connection { stream, out, pace, upload, .. } = &mut *self.connection;
        let before = out.written;
        let run = out.poll_run(cx, body, stream);
        let moved = out.written != before && pace.is_kept(out.written, resources.coarse_us());
        if let Poll::Ready(result) = run {
            out.release(&resources.buffers);
            *upload = match result {
                Ok(()) => Upload::Done,
                Err(FlowError::Sink(error)) => Upload::Stopped(error.kind()),
                // The request is incomplete: the client's connection ends after this response.
                Err(FlowError::Source(_)) => Upload::Stopped(io::ErrorKind::UnexpectedEof),
            };
        }
        moved
    }

    /// Becomes a tunnel: from now on bytes pass unchanged in both directions, until the end of each.
    pub(crate) fn begin_tunnel(&mut self) {
        let connection = &mut *self.connection;
        connection.out.begin(Vec::new(), OutFraming::Tunnel);
        connection.upload = Upload::Running;
        connection.reader.start_response(ResponseFraming::UntilClose);
    }

    /// Ends a tunnel that both sides have closed in order: the last bytes written still arrive.
    pub(crate) fn end_tunnel(&mut self) {
        self.connection.is_closed_by_upstream();
    }

    /// Bytes that were written to the connection since its request, or its tunnel, began.
    pub(crate) fn uploaded(&self) -> u64 {
        self.connection.out.written
    }

    /// Ends an upload that is not complete: the connection is not used again.
    pub(crate) fn stop_upload(&mut self, resources: &Resources) {
        if self.uploads() {
            self.connection.out.release(&resources.buffers);
            self.connection.upload = Upload::Stopped(io::ErrorKind::Interrupted);
        }
    }

    /// Releases the buffers. The connection returns to its pool if it may serve another request, the exchange is
    /// `complete`, both bodies are, and nothing is unread.
    pub(crate) fn release(mut self, resources: &Resources, complete: bool) {
        let connection = &mut *self.connection;
        if let Some(unjudged) = self.unjudged.take() {
            unjudged.judge(connection.reader.broke, resources.coarse_us());
        }
        let clean = connection.reader.buffer.is_empty() && connection.reader.is_done();
        connection.release_buffers(&resources.buffers);
        let is_over = complete && clean && connection.upload == Upload::Done;
        if is_over && connection.keep_alive {
            self.connection.release(resources.coarse_us());
        } else if is_over && connection.reader.ends_with_connection() {
            connection.is_closed_by_upstream();
        }
    }
}

/// The state of the request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upload {
    /// All of it is written.
    Done,
    /// It continues, also while the response streams.
    Running,
    /// The upstream stopped reading. The response is still valid.
    Stopped(io::ErrorKind),
}

/// How a request is forwarded.
pub(crate) struct Forwarding<'a> {
    pub(crate) client_tls: &'a ClientTls,
    pub(crate) connect_ms: u32,
    pub(crate) stall_ms: u32,
    /// Least progress of a request's body, in bytes per second.
    pub(crate) min_rate: u32,
    /// Maximum number of requests that wait for a connection to one endpoint or for the head of its response.
    pub(crate) endpoint_waiting_max: usize,
    /// Start of the exchange, on the worker's clock.
    pub(crate) begun_us: u64,
    pub(crate) retries: &'a RetryCounts,
    pub(crate) balancer: &'a Rc<Balancer>,
    /// The operation's number in the API, if the set is an API's.
    pub(crate) operation: usize,
    /// Names of identity fields that are forwarded from every client, in lower case.
    pub(crate) forward_fields: &'a [String],
    /// Set if the body of a response decides whether its endpoint failed: the caller records the result with
    /// [`Balancer::judged`], and holds the request's probe until then.
    pub(crate) judged_later: Option<&'a Cell<Option<Probe>>>,
}

/// Sends `request` with `body` to one of the endpoints and waits for the response head.
///
/// # Errors
/// A fault of the upstream; or of the client, if it closed or sent an invalid body.
pub(crate) async fn exchange<B: RequestBody>(
    resources: &Resources,
    forwarding: &Forwarding<'_>,
    request: &Outgoing<'_>,
    body: &mut B,
) -> Result<UpstreamResponse, Box<Fault>> {
    let balancer = forwarding.balancer;
    let mut tries = Tries::new(balancer, forwarding.operation, forwarding.begun_us);
    if request.repetition == Repetition::SingleUse {
        tries.freshness = Freshness::Fresh;
    }
    let mut cause = None;
    loop {
        let mut chosen = match balancer.choose(resources.coarse_us(), tries.tried) {
            Ok(chosen) => chosen,
            // An earlier failure is more informative than that no endpoint is left.
            Err(none_ready) => return Err(cause.unwrap_or(none_ready)),
        };
        let tried =
            attempt(resources, forwarding, chosen.endpoint, tries.freshness, request, body).await;
        let (outcome, next) = match tried {
            Ok(mut response) => {
                began(forwarding, &mut chosen, &mut response, resources.coarse_us());
                let next = after_response(resources, &mut tries, &chosen, &response, request, body);
                (Ok(response), next)
            }
            Err(failed) => {
                let next = after_failure(resources, &mut tries, &chosen, &failed, request, body);
                (Err(failed.fault), next)
            }
        };
        let pause_ms = match next {
            Next::Stop => return outcome,
            Next::Denied => {
                RetryCounts::add(&forwarding.retries.denied);
                return outcome;
            }
            Next::Choose => 0,
            Next::Retry { pause_ms } => {
                RetryCounts::add(&forwarding.retries.sent);
                pause_ms
            }
        };
        cause = match outcome {
            Ok(response) => {
                response.release(resources);
                // The response is dropped without being judged.
                drop(forwarding.judged_later.and_then(Cell::take));
                None
            }
            Err(fault) => Some(fault),
        };
        body.restart();
        if pause_ms > 0 {
            pause(resources, pause_ms, body).await?;
        }
    }
}

/// Records the head of a response; if the endpoint's health depends on the body too, prepares that check.
fn began(
    forwarding: &Forwarding<'_>,
    chosen: &mut Chosen<'_>,
    response: &mut UpstreamResponse,
    now_us: u64,
) {
    let (balancer, operation) = (forwarding.balancer, forwarding.operation);
    let (status, is_stream) = (response.head.status(), response.is_event_stream());
    let body = &mut response.body;
    let reader = &body.connection.reader;
    let is_enough = is_stream || reader.is_done() || reader.ends_with_connection();
    if let Some(probe) = forwarding.judged_later {
        probe.set(chosen.probe.take());
    } else if is_enough || balancer.breaks_at(status) {
        balancer.responded(chosen.endpoint, status, operation, now_us);
    } else {
        body.unjudged = Some(Unjudged::new(balancer, chosen, operation, (status, now_us)));
    }
}

fn after_response<B: RequestBody>(
    resources: &Resources,
    tries: &mut Tries<'_>,
    chosen: &Chosen<'_>,
    response: &UpstreamResponse,
    request: &Outgoing<'_>,
    body: &B,
) -> Next {
    let (status, now_us) = (response.head.status(), resources.coarse_us());
    let is_wanted = tries.balancer.retry.statuses.contains(&status);
    let is_safe = request.method.is_idempotent() && body.can_restart();
    if is_wanted && is_safe { tries.after_status(chosen.position, now_us) } else { Next::Stop }
}

fn after_failure<B: RequestBody>(
    resources: &Resources,
    tries: &mut Tries<'_>,
    chosen: &Chosen<'_>,
    failed: &FailedAttempt,
    request: &Outgoing<'_>,
    body: &B,
) -> Next {
    let (balancer, now_us) = (tries.balancer, resources.now_us());
    let is_evidence = !failed.stale && !failed.endpoint_blameless;
    if is_evidence
        && failed.fault.blame() == model::Blame::Upstream
        && let Some(failure) = balancer.evidence(&failed.fault, tries.operation)
    {
        balancer.failed(chosen.endpoint, failure, now_us);
    }
    let untouched = body.can_restart();
    let nothing_sent = failed.written == 0 && untouched;
    let is_harmless = match request.repetition {
        Repetition::ByMethod => request.method.is_idempotent(),
        Repetition::Harmless => failed.stale,
        Repetition::SingleUse => false,
    };
    let is_safe = nothing_sent || is_harmless && untouched;
    let repeatable = is_safe && is_retryable(&failed.fault, balancer);
    let is_shed = matches!(*failed.fault, Fault::EndpointBusy { .. });
    let failed = FailedTry { stale: failed.stale, nothing_sent, is_shed, repeatable };
    tries.after_failure(failed, chosen.position, now_us)
}

/// Waits before a retry.
async fn pause<B: RequestBody>(
    resources: &Resources,
    pause_ms: u32,
    body: &mut B,
) -> Result<(), Box<Fault>> {
    body.watch().set(resources.deadline_us(pause_ms.saturating_mul(2)));
    let pause = tasks::sleep(pause_ms.into());
    match while_wanted(body, pause).await {
        Ok(()) | Err(Unwanted::TimeUp) => Ok(()),
        Err(Unwanted::Left(fault)) => Err(fault),
    }
}

/// Whether another attempt could succeed.
fn is_retryable(fault: &Fault, balancer: &Balancer) -> bool {
    match fault {
        Fault::Unreachable { .. }
        | Fault::ConnectTimeout { .. }
        | Fault::Closed { .. }
        | Fault::SendFailed { .. }
        | Fault::EndpointBusy { .. } => true,
        // There is time for another try only if each has a limit of its own.
        Fault::ResponseTimeout { .. } => balancer.try_ms.is_some(),
        Fault::Denied(_)
        | Fault::Malformed { .. }
        | Fault::Truncated { .. }
        | Fault::ProtocolViolation { .. }
        | Fault::NotReady { .. }
        | Fault::NoReadyChild { .. }
        | Fault::Mediation { .. }
        | Fault::MalformedBody { .. }
        | Fault::ClientTimeout
        | Fault::ClientLeft => false,
    }
}
