//! Forwarding: choose an endpoint, lease a connection, send the request, wait for the response head.
//!
//! Life of a request: authorise -> **forward** -> deliver. Reads a [`Request`], a [`RequestBody`] and the
//! operation's endpoints; returns an [`UpstreamResponse`]: a response head, its body still on the wire. Whether a
//! client or the gateway itself sends the request makes no difference here.
//!
//! Architecture invariant: a request is sent again only if no byte of it was written, or if it is
//! idempotent and nothing of its body was sent (RFC 9110 section 9.2.2).

mod balance;
mod body;
mod head;
mod pool;

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use base::limits::INTERIM_RESPONSES_MAX;
use model::Fault;
use wire::http1::{BodyFraming, Known, Parsed};
use wire::tls::ClientTls;

pub(crate) use balance::Balancer;
pub(crate) use body::{RequestBody, Unwanted, while_wanted};
pub(crate) use pool::{Lease, PoolFigures, Pools};

use crate::buffer::{Buffer, Buffers};
use crate::flow::{BodyError, BodyReader, FlowError, Http1Source, Lend, Outflow, poll_read};
use crate::message::{Head, HeadEdits, Request};
use crate::resources::Resources;
use crate::watch::Pace;

use balance::{EndpointState, Failure, Tried};
use pool::Freshness;

/// An upstream's response. Its body, and possibly the rest of the request's body, are still to come.
pub(crate) struct UpstreamResponse {
    pub(crate) head: Box<Head>,
    pub(crate) body: UpstreamBody,
}

/// A response's body that is still on the wire.
pub(crate) struct UpstreamBody {
    pub(crate) lease: Lease,
    pub(crate) reader: BodyReader,
    pub(crate) upload: Upload,
    pub(crate) authority: Rc<str>,
}

impl UpstreamBody {
    pub(crate) fn source<'a>(&'a mut self, buffers: &'a Buffers) -> Http1Source<'a> {
        Http1Source { reader: &mut self.reader, stream: &mut self.lease.stream, buffers }
    }

    /// Continues the upload, if it is not done. Returns whether bytes moved.
    pub(crate) fn poll_upload<B: RequestBody>(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut B,
        buffers: &Buffers,
    ) -> bool {
        let Upload::Running(up) = &mut self.upload else { return false };
        let before = up.written;
        let run = up.poll_run(cx, body, &mut self.lease.stream);
        let moved = up.written != before;
        if let Poll::Ready(result) = run {
            up.release(buffers);
            self.upload = match result {
                Ok(()) => Upload::Done,
                Err(FlowError::Sink(error)) => Upload::Stopped(error.kind()),
                // The request is incomplete: the client's connection ends after this response.
                Err(FlowError::Source(_)) => Upload::Stopped(io::ErrorKind::UnexpectedEof),
            };
        }
        moved
    }

    /// Releases the buffers. The connection returns to its pool if it may serve another request (`keep_alive`),
    /// both bodies are complete, and nothing is unread.
    pub(crate) fn release(mut self, resources: &Resources, keep_alive: bool) {
        let clean = self.reader.buffer.is_empty() && self.reader.is_done();
        resources.buffers.release(std::mem::take(&mut self.reader.buffer));
        if let Upload::Running(up) = &mut self.upload {
            up.release(&resources.buffers);
        }
        if keep_alive && clean && matches!(self.upload, Upload::Done) {
            self.lease.release(resources.coarse_us());
        }
    }
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
    pub(crate) client_tls: &'a ClientTls,
    pub(crate) connect_ms: u32,
    pub(crate) stall_ms: u32,
    /// Least progress of a request body of known length, in bytes per second.
    pub(crate) min_rate: u32,
    /// Start of the exchange, on the worker's clock.
    pub(crate) begun_us: u64,
    /// Counts requests that are sent a second time.
    pub(crate) retries: &'a Cell<u64>,
    pub(crate) balancer: &'a Balancer,
    /// The routed path below the base path.
    pub(crate) remainder: &'a [u8],
    /// Names of identity fields that are forwarded from every client, in lower case.
    pub(crate) forward_fields: &'a [String],
    /// Changes to the request's fields.
    pub(crate) edits: &'a HeadEdits,
    /// The request may switch protocols.
    pub(crate) upgrade: bool,
}

/// Sends `request` with `body` to one of the endpoints and waits for the response head.
///
/// # Errors
/// A fault of the upstream; or of the client, if it closed or sent an invalid body.
pub(crate) async fn exchange<B: RequestBody>(
    resources: &Resources,
    forwarding: &Forwarding<'_>,
    request: &Request,
    body: &mut B,
) -> Result<UpstreamResponse, Fault> {
    let balancer = forwarding.balancer;
    let (mut tried, mut freshness, mut retried) = (Tried::default(), Freshness::Any, false);
    let mut cause = None;
    loop {
        let (position, endpoint) = match balancer.choose(resources.coarse_us(), tried) {
            Ok(chosen) => chosen,
            // An earlier failure is more informative than that no endpoint is left.
            Err(none_ready) => return Err(cause.unwrap_or(none_ready)),
        };
        let _guard = endpoint.guard_probe();
        let failed = match attempt(resources, forwarding, endpoint, freshness, request, body).await
        {
            Ok(response) => {
                endpoint.succeeded(resources.coarse_us());
                return Ok(response);
            }
            Err(failed) => failed,
        };
        let now_us = resources.now_us();
        if !failed.stale
            && !failed.endpoint_blameless
            && failed.fault.blame() == model::Blame::Upstream
        {
            balancer.failed(endpoint, Failure::of(&failed.fault), now_us);
        }
        let untouched = body.consumed() == 0;
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
        forwarding.retries.set(forwarding.retries.get().wrapping_add(1));
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
        | Fault::Truncated { .. }
        | Fault::ProtocolViolation { .. }
        | Fault::NotReady { .. }
        | Fault::NoReadyChild { .. }
        | Fault::ClientTimeout
        | Fault::ClientLeft => false,
    }
}

/// An attempt that starts later than this was preceded by a failed one, in microseconds.
const EARLIER_ATTEMPT_US: u64 = 1_000_000;

async fn attempt<B: RequestBody>(
    resources: &Resources,
    forwarding: &Forwarding<'_>,
    endpoint: &EndpointState,
    freshness: Freshness,
    request: &Request,
    body: &mut B,
) -> Result<UpstreamResponse, FailedAttempt> {
    // The limit for the response head includes all attempts.
    let spent_us = resources.coarse_us().saturating_sub(forwarding.begun_us);
    let wait_us = u64::from(forwarding.balancer.response_head_ms) * 1_000;
    let wait_us = wait_us.saturating_sub(spent_us);
    let connect_us = wait_us.min(u64::from(forwarding.connect_ms) * 1_000);
    body.watch().set(resources.coarse_us() + connect_us);
    let leased =
        endpoint.pool.lease(freshness, forwarding.client_tls, body, forwarding.connect_ms).await;
    let lease = leased.map_err(|failure| {
        let cut_short = connect_us < u64::from(forwarding.connect_ms) * 1_000;
        let endpoint_blameless = !failure.attempted || cut_short;
        FailedAttempt { fault: failure.fault, written: 0, stale: false, endpoint_blameless }
    })?;
    let mut text = resources.buffers.text();
    let framing = head::write_head(&mut text, request, &endpoint.config, forwarding);
    let mut attempt = Attempt {
        resources,
        authority: &endpoint.authority,
        lease,
        flow: Outflow::new(text, framing),
        cut_short: spent_us > EARLIER_ATTEMPT_US,
        uploaded: None,
        head: None,
        buffer: Buffer::default(),
        looked_at: 0,
        interim: 0,
        stall_us: u64::from(forwarding.stall_ms) * 1_000,
        pace: Pace::new(least_rate(forwarding, request), resources.coarse_us()),
        wait_us,
        request,
        upgrade: forwarding.upgrade,
    };
    body.watch().set(resources.coarse_us() + attempt.wait_limit_us());
    let outcome = poll_fn(|cx| attempt.poll(cx, body)).await;
    attempt.finish(outcome)
}

/// The least rate of the request's body. A stream of unknown length may be silent.
fn least_rate(forwarding: &Forwarding<'_>, request: &Request) -> u32 {
    match request.head.framing() {
        BodyFraming::Length(_) => forwarding.min_rate,
        BodyFraming::Chunked | BodyFraming::None => 0,
    }
}

/// One attempt to send a request on one connection, up to the response head.
struct Attempt<'a> {
    resources: &'a Resources,
    authority: &'a Rc<str>,
    lease: Lease,
    flow: Outflow,
    /// Earlier attempts used up a part of the time.
    cut_short: bool,
    /// How the upload ended; `None` while it runs.
    uploaded: Option<Upload>,
    /// Borrowed when the first bytes of the response arrive.
    head: Option<Box<Head>>,
    buffer: Buffer,
    /// The first bytes in the buffer that are an incomplete head.
    looked_at: usize,
    interim: u32,
    /// Longest time without progress of the upload.
    stall_us: u64,
    /// How fast the upload is.
    pace: Pace,
    /// Longest wait for the response head after the upload.
    wait_us: u64,
    request: &'a Request,
    upgrade: bool,
}

impl Attempt<'_> {
    fn poll<B: RequestBody>(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut B,
    ) -> Poll<Result<(), Fault>> {
        if self.uploaded.is_none() {
            let before = self.flow.written;
            match self.flow.poll_run(cx, body, &mut self.lease.stream) {
                Poll::Ready(Ok(())) => {
                    self.uploaded = Some(Upload::Done);
                    // Released before the wait, so that the next request uses the same memory.
                    self.flow.release(&self.resources.buffers);
                }
                Poll::Ready(Err(FlowError::Source(error))) => {
                    return Poll::Ready(Err(body_fault(error)));
                }
                Poll::Ready(Err(FlowError::Sink(error))) => {
                    self.uploaded = Some(Upload::Stopped(error.kind()));
                }
                Poll::Pending => {}
            }
            let now_us = self.resources.coarse_us();
            let moved = self.flow.written != before && self.pace.is_kept(self.flow.written, now_us);
            let waits = self.uploaded.is_none() && self.flow.waits_for_source();
            body.watch().client_is_slow(waits, now_us);
            if moved || self.uploaded.is_some() {
                body.watch().set(self.resources.coarse_us() + self.wait_limit_us());
            }
        }
        if let Poll::Ready(result) = self.poll_head(cx) {
            return Poll::Ready(result);
        }
        if let Poll::Ready(fault) = body.poll_left(cx, self.uploaded.is_none()) {
            return Poll::Ready(Err(fault));
        }
        if body.watch().poll_expired(cx) {
            let has_left = self.uploaded.is_some() && body.has_half_closed();
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
            if !self.buffer.is_empty() && self.buffer.may_hold_head(self.looked_at) {
                self.looked_at = self.buffer.filled().len();
                let head = self.head.get_or_insert_with(|| self.resources.head());
                let head = &mut head.parsed;
                match head.parse(self.buffer.filled(), self.request.head.method()) {
                    Err(rejection) => return Poll::Ready(Err(self.violation(rejection.reason))),
                    Ok(Parsed::Complete) if head.is_interim() => {
                        let len = head.len();
                        self.interim += 1;
                        if self.interim > INTERIM_RESPONSES_MAX {
                            return Poll::Ready(Err(self.violation("too many interim responses")));
                        }
                        self.buffer.consume(len);
                        self.looked_at = 0;
                        continue;
                    }
                    Ok(Parsed::Complete) if head.status() == 101 && !self.is_agreed() => {
                        return Poll::Ready(Err(self.violation("unrequested 101")));
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
            let lend = Lend::Head(&self.resources.buffers);
            match poll_read(cx, &mut self.lease.stream, &mut self.buffer, lend) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(count)) if count > 0 => {}
                Poll::Ready(_) => return Poll::Ready(Err(self.closed())),
            }
        }
    }

    /// Whether the 101 switches to the protocol that the client requested.
    fn is_agreed(&self) -> bool {
        let request = self.request.head.find(Known::Upgrade);
        let requested = request.map(|field| field.value.of(&self.request.bytes));
        let response = self.head.as_ref().and_then(|head| head.parsed.find(Known::Upgrade));
        let given = response.map(|field| field.value.of(self.buffer.filled()));
        let same = |(requested, given): (&[u8], &[u8])| requested.eq_ignore_ascii_case(given);
        self.upgrade && requested.zip(given).is_some_and(same)
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
        let buffers = &self.resources.buffers;
        match outcome {
            Ok(()) => {
                let upload = match self.uploaded {
                    None => Upload::Running(self.flow),
                    Some(ended) => {
                        self.flow.release(buffers);
                        ended
                    }
                };
                let mut head = self.head.unwrap_or_default();
                let len = head.parsed.len();
                head.bytes.extend_from_slice(self.buffer.filled().get(..len).unwrap_or_default());
                self.buffer.consume(len);
                let mut reader = BodyReader::idle(self.buffer);
                reader.start_response(head.parsed.framing());
                reader.drops_trailers = head.parsed.names_fields();
                let authority = Rc::clone(self.authority);
                let body = UpstreamBody { lease: self.lease, reader, upload, authority };
                Ok(UpstreamResponse { head, body })
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
                    self.resources.release_head(head);
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
