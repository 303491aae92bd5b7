//! Forwarding: choose an endpoint, lease a connection, send the request, wait for the response head.
//!
//! Life of a request: authorise -> **forward** -> deliver. Reads a [`Request`] and the operation's
//! endpoints; returns an [`UpstreamResponse`]: a response head, its body still on the wire.
//!
//! Architecture invariant: a request is sent again only if no byte of it was written, or if it is
//! idempotent and nothing of its body was sent (RFC 9110 section 9.2.2).

mod balance;
mod head;
mod pool;

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use base::limits::INTERIM_RESPONSES_MAX;
use model::Fault;
use wire::http1::{Parsed, ResponseHead};

pub(crate) use balance::Balancer;
pub(crate) use pool::{Lease, PoolFigures, Pools, within};

use crate::buffer::Buffer;
use crate::compiled::Live;
use crate::flow::{BodyError, BodyReader, FlowError, Lend, Outflow, poll_read};
use crate::request::{Client, Request};
use crate::worker::Worker;

use balance::{EndpointState, Tried};
use pool::Freshness;

/// An upstream's response head. Its body, and possibly the rest of the request's body, are still to come.
pub(crate) struct UpstreamResponse {
    pub(crate) lease: Lease,
    pub(crate) head: Box<ResponseHead>,
    /// The head's bytes are at the front of its buffer.
    pub(crate) reader: BodyReader,
    pub(crate) upload: Upload,
    pub(crate) authority: Rc<str>,
    /// The request may switch protocols.
    pub(crate) upgrade: bool,
}

/// The state of the request's body.
#[derive(Debug)]
pub(crate) enum Upload {
    /// All of it is written.
    Done,
    /// The response came first: the upload continues while it streams.
    Running(Outflow),
    /// The upstream stopped reading. Its response is still valid.
    Stopped(io::ErrorKind),
}

/// Why one attempt failed.
struct FailedAttempt {
    fault: Fault,
    /// Bytes of the request written to the connection.
    written: u64,
    /// The upstream closed a reused connection without sending anything.
    stale: bool,
    /// The endpoint is not to blame: the queue was full, or earlier attempts used up the time.
    endpoint_blameless: bool,
}

/// How a request is forwarded.
pub(crate) struct Forwarding<'a> {
    pub(crate) live: &'a Live,
    /// Start of the request, on the worker's clock.
    pub(crate) begun_us: u64,
    pub(crate) balancer: &'a Balancer,
    /// The routed path below the base path.
    pub(crate) remainder: &'a [u8],
    /// Name of the credential's field in lower case, if it is not forwarded.
    pub(crate) withhold: Option<&'a str>,
    /// The request may switch protocols.
    pub(crate) upgrade: bool,
}

/// Sends `request` to one of the endpoints and waits for the response head.
///
/// # Errors
/// A fault of the upstream; or of the client, if it closed or sent an invalid body.
pub(crate) async fn send<C: Client>(
    worker: &Worker,
    forwarding: &Forwarding<'_>,
    request: &Request,
    client: &mut C,
) -> Result<UpstreamResponse, Fault> {
    let balancer = forwarding.balancer;
    let (mut tried, mut freshness, mut retried) = (Tried::default(), Freshness::Any, false);
    let mut cause = None;
    loop {
        let (position, endpoint) = match balancer.choose(worker.coarse_us(), tried) {
            Ok(chosen) => chosen,
            // An earlier failure is more informative than that no endpoint is left.
            Err(none_ready) => return Err(cause.unwrap_or(none_ready)),
        };
        let _guard = endpoint.guard_probe();
        let failed = match attempt(worker, forwarding, endpoint, freshness, request, client).await {
            Ok(response) => {
                endpoint.succeeded();
                return Ok(response);
            }
            Err(failed) => failed,
        };
        let now_us = worker.now_us();
        if !failed.stale
            && !failed.endpoint_blameless
            && failed.fault.blame() == model::Blame::Upstream
        {
            balancer.failed(endpoint, now_us);
        }
        let untouched = client.is_untouched();
        let nothing_sent = failed.written == 0 && untouched;
        let repeatable = request.head.method().is_idempotent() && untouched;
        if !is_retryable(&failed.fault) || !(nothing_sent || repeatable) {
            return Err(failed.fault);
        }
        if !failed.stale {
            tried.add(position);
            if nothing_sent && balancer.has_another(now_us, tried) {
                cause = Some(failed.fault);
                continue;
            }
        }
        let spent_us = now_us.saturating_sub(forwarding.begun_us);
        if retried || spent_us >= u64::from(balancer.response_head_ms) * 1_000 {
            return Err(failed.fault);
        }
        cause = Some(failed.fault);
        worker.count_retry();
        (retried, freshness, tried) = (true, Freshness::Fresh, Tried::default());
    }
}

/// Whether another attempt could succeed.
fn is_retryable(fault: &Fault) -> bool {
    match fault {
        Fault::Unreachable { .. }
        | Fault::ConnectTimeout { .. }
        | Fault::Closed { .. }
        | Fault::SendFailed { .. } => true,
        Fault::Denied(_)
        | Fault::Malformed { .. }
        | Fault::ResponseTimeout { .. }
        | Fault::ProtocolViolation { .. }
        | Fault::NotReady { .. }
        | Fault::NoReadyChild { .. }
        | Fault::ClientTimeout
        | Fault::ClientLeft => false,
    }
}

/// An attempt that starts later than this was preceded by a failed one, in microseconds.
const EARLIER_ATTEMPT_US: u64 = 1_000_000;

async fn attempt<C: Client>(
    worker: &Worker,
    forwarding: &Forwarding<'_>,
    endpoint: &EndpointState,
    freshness: Freshness,
    request: &Request,
    client: &mut C,
) -> Result<UpstreamResponse, FailedAttempt> {
    let live = forwarding.live;
    // The limit for the response head includes all attempts.
    let spent_us = worker.coarse_us().saturating_sub(forwarding.begun_us);
    let wait_us = u64::from(forwarding.balancer.response_head_ms) * 1_000;
    let wait_us = wait_us.saturating_sub(spent_us);
    let connect_us = wait_us.min(u64::from(live.connect_ms) * 1_000);
    client.watch().set(worker.coarse_us() + connect_us);
    let lease = endpoint
        .pool
        .lease(freshness, &live.client_tls, client.watch(), live.connect_ms)
        .await
        .map_err(|failure| {
            let cut_short = connect_us < u64::from(live.connect_ms) * 1_000;
            let endpoint_blameless = !failure.attempted || cut_short;
            FailedAttempt { fault: failure.fault, written: 0, stale: false, endpoint_blameless }
        })?;
    let mut text = worker.buffers.text();
    let framing = head::write_head(&mut text, request, &endpoint.config, forwarding);
    let mut attempt = Attempt {
        worker,
        authority: &endpoint.authority,
        lease,
        flow: Outflow::new(text, framing),
        cut_short: spent_us > EARLIER_ATTEMPT_US,
        uploaded: None,
        head: None,
        buffer: Buffer::default(),
        interim: 0,
        stall_us: u64::from(live.stall_ms) * 1_000,
        wait_us,
        method: request.head.method(),
        upgrade: forwarding.upgrade,
    };
    client.watch().set(worker.coarse_us() + attempt.wait_limit_us());
    let outcome = poll_fn(|cx| attempt.poll(cx, client)).await;
    attempt.finish(outcome)
}

/// One attempt to send a request on one connection, up to the response head.
struct Attempt<'a> {
    worker: &'a Worker,
    authority: &'a Rc<str>,
    lease: Lease,
    flow: Outflow,
    /// Earlier attempts used up a part of the time.
    cut_short: bool,
    /// How the upload ended; `None` while it runs.
    uploaded: Option<Upload>,
    /// Borrowed when the first bytes of the response arrive.
    head: Option<Box<ResponseHead>>,
    buffer: Buffer,
    interim: u32,
    /// Longest time without progress of the upload.
    stall_us: u64,
    /// Longest wait for the response head after the upload.
    wait_us: u64,
    method: base::Method,
    upgrade: bool,
}

impl Attempt<'_> {
    fn poll<C: Client>(&mut self, cx: &mut Context<'_>, client: &mut C) -> Poll<Result<(), Fault>> {
        if self.uploaded.is_none() {
            let before = self.flow.written;
            match self.flow.poll_run(cx, client, &mut self.lease.stream) {
                Poll::Ready(Ok(())) => {
                    self.uploaded = Some(Upload::Done);
                    // Released before the wait, so that the next request uses the same memory.
                    self.flow.release(&self.worker.buffers);
                }
                Poll::Ready(Err(FlowError::Source(error))) => {
                    return Poll::Ready(Err(body_fault(error)));
                }
                Poll::Ready(Err(FlowError::Sink(error))) => {
                    self.uploaded = Some(Upload::Stopped(error.kind()));
                }
                Poll::Pending => {}
            }
            if self.flow.written != before || self.uploaded.is_some() {
                client.watch().set(self.worker.coarse_us() + self.wait_limit_us());
            }
        }
        if let Poll::Ready(result) = self.poll_head(cx) {
            return Poll::Ready(result);
        }
        if self.uploaded.is_some()
            && let Poll::Ready(fault) = client.poll_left(cx)
        {
            return Poll::Ready(Err(fault));
        }
        if client.watch().poll_expired(cx) {
            let has_left = self.uploaded.is_some() && client.has_half_closed();
            return Poll::Ready(Err(if has_left { Fault::ClientLeft } else { self.timed_out() }));
        }
        Poll::Pending
    }

    /// Longest wait for progress of the upload, or for the response head after it.
    fn wait_limit_us(&self) -> u64 {
        if self.uploaded.is_some() { self.wait_us } else { self.stall_us }
    }

    fn timed_out(&self) -> Fault {
        if self.uploaded.is_none() && self.flow.waits_for_source() {
            return Fault::ClientTimeout;
        }
        let waited_ms = u32::try_from(self.wait_limit_us() / 1_000).unwrap_or(u32::MAX);
        Fault::ResponseTimeout { authority: self.authority.to_string(), waited_ms }
    }

    /// Reads until the final response head is complete. Interim responses are dropped: the gateway sends
    /// its own 100.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        loop {
            if !self.buffer.is_empty() {
                let head = self.head.get_or_insert_with(|| self.worker.response_head());
                match head.parse(self.buffer.filled(), self.method) {
                    Err(rejection) => return Poll::Ready(Err(self.violation(rejection.reason))),
                    Ok(Parsed::Complete) if head.is_interim() => {
                        let len = head.len();
                        self.interim += 1;
                        if self.interim > INTERIM_RESPONSES_MAX {
                            return Poll::Ready(Err(self.violation("too many interim responses")));
                        }
                        self.buffer.consume(len);
                        continue;
                    }
                    Ok(Parsed::Complete) => return Poll::Ready(Ok(())),
                    Ok(Parsed::Partial) => {
                        self.buffer.compact();
                        if !self.buffer.has_free_space() && !self.buffer.grow() {
                            return Poll::Ready(Err(
                                self.violation("the response head is too large")
                            ));
                        }
                    }
                }
            }
            let lend = Lend::Head(&self.worker.buffers);
            match poll_read(cx, &mut self.lease.stream, &mut self.buffer, lend) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(count)) if count > 0 => {}
                Poll::Ready(_) => return Poll::Ready(Err(self.closed())),
            }
        }
    }

    fn violation(&self, reason: &'static str) -> Fault {
        Fault::ProtocolViolation { authority: self.authority.to_string(), reason }
    }

    fn closed(&self) -> Fault {
        let authority = self.authority.to_string();
        match self.uploaded {
            Some(Upload::Stopped(kind)) => Fault::SendFailed { authority, cause: kind.to_string() },
            Some(Upload::Done | Upload::Running(_)) | None => Fault::Closed { authority },
        }
    }

    fn finish(mut self, outcome: Result<(), Fault>) -> Result<UpstreamResponse, FailedAttempt> {
        let buffers = &self.worker.buffers;
        match outcome {
            Ok(()) => {
                let upload = match self.uploaded {
                    None => Upload::Running(self.flow),
                    Some(ended) => {
                        self.flow.release(buffers);
                        ended
                    }
                };
                Ok(UpstreamResponse {
                    lease: self.lease,
                    head: self.head.unwrap_or_default(),
                    reader: BodyReader::idle(self.buffer),
                    upload,
                    authority: Rc::clone(self.authority),
                    upgrade: self.upgrade,
                })
            }
            Err(fault) => {
                let silent = self.buffer.is_empty() && self.interim == 0;
                let ended = matches!(fault, Fault::Closed { .. } | Fault::SendFailed { .. });
                let failed = FailedAttempt {
                    stale: self.lease.reused && silent && ended,
                    endpoint_blameless: self.cut_short
                        && matches!(fault, Fault::ResponseTimeout { .. }),
                    written: self.flow.written,
                    fault,
                };
                buffers.release(self.buffer);
                self.flow.release(buffers);
                if let Some(head) = self.head {
                    self.worker.release_response_head(head);
                }
                Err(failed)
            }
        }
    }
}

/// The fault of a client whose request body failed.
pub(crate) fn body_fault(error: BodyError) -> Fault {
    match error {
        BodyError::Closed => Fault::ClientLeft,
        BodyError::Malformed(rejection) => {
            Fault::Malformed { status: rejection.status, reason: rejection.reason }
        }
    }
}
