//! One attempt to send a request on one connection, up to the response head.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use base::limits::INTERIM_RESPONSES_MAX;
use model::Fault;
use wire::http1::{BodyFraming, Known, Parsed};

use super::balance::EndpointState;
use super::body::RequestBody;
use super::pool::{ConnectFailure, Freshness, Lease, Leasing};
use super::{Forwarding, Upload, UpstreamBody, UpstreamResponse, body_fault, head};
use crate::buffer::Buffer;
use crate::flow::{BodyReader, FlowError, Lend, Outflow, poll_read};
use crate::message::{Head, Outgoing};
use crate::resources::Resources;
use crate::watch::Pace;

/// Why one attempt failed.
pub(super) struct FailedAttempt {
    pub(super) fault: Fault,
    /// Bytes of the request written to the connection.
    pub(super) written: u64,
    /// The upstream closed a reused connection without sending anything.
    pub(super) stale: bool,
    /// The endpoint is not to blame: the queue was full, or earlier attempts used up the time.
    pub(super) endpoint_blameless: bool,
}

/// An attempt that starts later than this was preceded by a failed one, in microseconds.
const EARLIER_ATTEMPT_US: u64 = 1_000_000;

pub(super) async fn attempt<B: RequestBody>(
    resources: &Resources,
    forwarding: &Forwarding<'_>,
    endpoint: &EndpointState,
    freshness: Freshness,
    request: &Outgoing<'_>,
    body: &mut B,
) -> Result<UpstreamResponse, FailedAttempt> {
    // The limit for the response head includes all attempts.
    let now_us = resources.coarse_us();
    let spent_us = now_us.saturating_sub(forwarding.begun_us);
    let left_us = us(forwarding.balancer.response_head_ms).saturating_sub(spent_us);
    let try_us = forwarding.balancer.try_ms.map_or(u64::MAX, us);
    let wait_us = left_us.min(try_us);
    let connect_ms = forwarding.balancer.try_ms.unwrap_or(u32::MAX).min(forwarding.connect_ms);
    let leasing = Leasing {
        resources,
        freshness,
        tls: forwarding.client_tls,
        limits: &endpoint.limits,
        connect_ms,
        latest_us: now_us.saturating_add(left_us),
    };
    let leased = endpoint.pool.lease(leasing, body).await;
    let lease = leased.map_err(|ConnectFailure { fault, endpoint_blameless }| FailedAttempt {
        fault,
        written: 0,
        stale: false,
        endpoint_blameless,
    })?;
    let mut text = resources.buffers.text();
    let framing = head::write_head(&mut text, request, &endpoint.config, forwarding.forward_fields);
    let mut attempt = Attempt {
        resources,
        authority: &endpoint.authority,
        lease,
        flow: Outflow::new(text, framing),
        cut_short: spent_us > EARLIER_ATTEMPT_US && left_us < try_us,
        uploaded: None,
        head: None,
        buffer: Buffer::default(),
        looked_at: 0,
        interim: 0,
        stall_us: us(forwarding.stall_ms),
        pace: Pace::new(least_rate(forwarding, request), resources.coarse_us()),
        wait_us,
        request,
    };
    body.watch().set(resources.coarse_us() + attempt.wait_limit_us());
    let outcome = poll_fn(|cx| attempt.poll(cx, body)).await;
    attempt.finish(outcome)
}

fn us(ms: u32) -> u64 {
    u64::from(ms) * 1_000
}

/// The least rate of the request's body. A stream of unknown length may be silent.
fn least_rate(forwarding: &Forwarding<'_>, request: &Outgoing<'_>) -> u32 {
    match request.framing {
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
    request: &'a Outgoing<'a>,
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
                match head.parse(self.buffer.filled(), self.request.method) {
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
        let requested = self.request.upgrade;
        let response = self.head.as_ref().and_then(|head| head.parsed.find(Known::Upgrade));
        let given = response.map(|field| field.value.of(self.buffer.filled()));
        let same = |(requested, given): (&[u8], &[u8])| requested.eq_ignore_ascii_case(given);
        requested.zip(given).is_some_and(same)
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
                let keep_alive = head.parsed.keep_alive();
                let body =
                    UpstreamBody { lease: self.lease, reader, upload, authority, keep_alive };
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
