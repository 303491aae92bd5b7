//! One attempt to send a request on one connection, up to the response head.

use std::future::poll_fn;
use std::task::{Context, Poll};

use base::limits::INTERIM_RESPONSES_MAX;
use model::Fault;
use wire::http1::{BodyFraming, Known, Parsed, ResponseHead};
use wire::websocket;

use super::balance::EndpointState;
use super::pool::{ConnectFailure, Connection, Freshness, Leasing};
use super::{Forwarding, Upload, UpstreamBody, UpstreamResponse, head};
use crate::body::request_body::{RequestBody, body_fault};
use crate::body::{FlowError, Lend, poll_read};
use crate::message::resources::Resources;
use crate::message::{Head, Outgoing};
use crate::tasks::watch::Pace;

/// Why one attempt failed.
pub(super) struct FailedAttempt {
    pub(super) fault: Box<Fault>,
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
    let Some(_waiting) = endpoint.pool.await_response(forwarding.endpoint_waiting_max) else {
        let fault = Fault::EndpointBusy { authority: endpoint.authority.to_string() }.into();
        return Err(FailedAttempt { fault, written: 0, stale: false, endpoint_blameless: true });
    };
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
    let mut connection = leased.map_err(|ConnectFailure { fault, endpoint_blameless }| {
        FailedAttempt { fault, written: 0, stale: false, endpoint_blameless }
    })?;
    let mut text = resources.buffers.text();
    let framing = head::write_head(&mut text, request, &endpoint.config, forwarding.forward_fields);
    let pace = Pace::new(least_rate(forwarding, request), resources.coarse_us());
    connection.begin((text, framing), pace, &endpoint.authority);
    let mut attempt = Attempt {
        resources,
        connection,
        cut_short: spent_us > EARLIER_ATTEMPT_US && left_us < try_us,
        head: None,
        looked_at: 0,
        interim: 0,
        stall_us: us(forwarding.stall_ms),
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

/// The least rate of the request's body. A gRPC stream lasts as long as its messages come.
fn least_rate(forwarding: &Forwarding<'_>, request: &Outgoing<'_>) -> u32 {
    match request.framing {
        BodyFraming::Chunked if request.is_grpc() => 0,
        BodyFraming::Length(_) | BodyFraming::Chunked | BodyFraming::None => forwarding.min_rate,
    }
}

/// Whether the 101 in `bytes` switches to the protocol that the client requested.
fn is_agreed(request: &Outgoing<'_>, head: &ResponseHead, bytes: &[u8]) -> bool {
    let given = head.find(Known::Upgrade).map(|field| field.value.of(bytes));
    let same = |(requested, given): (&[u8], &[u8])| requested.eq_ignore_ascii_case(given);
    request.upgrade.zip(given).is_some_and(same)
        && (!request.has_own_key || is_accepted(request, head, bytes))
}

/// Whether the upstream has accepted the key of the WebSocket handshake. Source: RFC 6455 section 4.1.
fn is_accepted(request: &Outgoing<'_>, head: &ResponseHead, bytes: &[u8]) -> bool {
    let mut fields = request.fields.iter().map(|field| (field, field.name.of(request.bytes)));
    let key = fields.find(|(_, name)| name.eq_ignore_ascii_case(b"sec-websocket-key"));
    let accepted = head.find_name(bytes, b"sec-websocket-accept");
    key.zip(accepted).is_some_and(|((key, _), accepted)| {
        let expect = websocket::accept(key.value.of(request.bytes));
        accepted.value.of(bytes) == expect.as_bytes()
    })
}

/// One attempt to send a request on one connection, up to the response head.
struct Attempt<'a> {
    resources: &'a Resources,
    connection: Box<Connection>,
    /// Earlier attempts used up a part of the time.
    cut_short: bool,
    /// Borrowed when the first bytes of the response arrive.
    head: Option<Box<Head>>,
    /// The first bytes in the connection's buffer that are an incomplete head.
    looked_at: usize,
    interim: u32,
    /// Longest time without progress of the upload.
    stall_us: u64,
    /// Longest wait for the response head after the upload.
    wait_us: u64,
    request: &'a Outgoing<'a>,
}

impl Attempt<'_> {
    fn poll<B: RequestBody>(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut B,
    ) -> Poll<Result<(), Box<Fault>>> {
        if self.uploads() {
            let Connection { stream, out, upload, .. } = &mut *self.connection;
            let before = out.written;
            match out.poll_run(cx, body, stream) {
                Poll::Ready(Ok(())) => {
                    *upload = Upload::Done;
                    // Released before the wait, so that the next request uses the same memory.
                    out.release(&self.resources.buffers);
                }
                Poll::Ready(Err(FlowError::Source(error))) => {
                    return Poll::Ready(Err(body_fault(error)));
                }
                Poll::Ready(Err(FlowError::Sink(error))) => {
                    *upload = Upload::Stopped(error.kind());
                }
                Poll::Pending => {}
            }
            let now_us = self.resources.coarse_us();
            let Connection { out, pace, .. } = &mut *self.connection;
            let moved = out.written != before && pace.is_kept(out.written, now_us);
            body.watch().client_is_slow(self.waits_for_client(), now_us);
            if moved || !self.uploads() {
                body.watch().set(now_us + self.wait_limit_us());
            }
        }
        if let Poll::Ready(result) = self.poll_head(cx) {
            return Poll::Ready(result);
        }
        if let Poll::Ready(fault) = body.poll_left(cx, self.uploads()) {
            return Poll::Ready(Err(fault));
        }
        if body.watch().poll_expired(cx) {
            let has_left = !self.uploads() && body.has_half_closed();
            return Poll::Ready(Err(if has_left {
                Fault::ClientLeft.into()
            } else {
                self.timed_out()
            }));
        }
        Poll::Pending
    }

    fn uploads(&self) -> bool {
        self.connection.upload == Upload::Running
    }

    /// Longest wait for progress of the upload, or for the response head after it.
    fn wait_limit_us(&self) -> u64 {
        if self.uploads() { self.stall_us } else { self.wait_us }
    }

    fn waits_for_client(&self) -> bool {
        self.uploads() && self.connection.out.waits_for_source()
    }

    fn timed_out(&self) -> Box<Fault> {
        if self.waits_for_client() {
            return Fault::ClientTimeout.into();
        }
        let waited_ms = u32::try_from(self.wait_limit_us() / 1_000).unwrap_or(u32::MAX);
        Fault::ResponseTimeout { authority: self.connection.authority.to_string(), waited_ms }
            .into()
    }

    /// Reads until the final response head is complete. Interim responses are dropped: the gateway sends
    /// its own 100.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Box<Fault>>> {
        loop {
            let Connection { stream, reader, .. } = &mut *self.connection;
            let buffer = &mut reader.buffer;
            if !buffer.is_empty() && buffer.may_hold_head(self.looked_at) {
                self.looked_at = buffer.filled().len();
                let head = self.head.get_or_insert_with(|| self.resources.head());
                let head = &mut head.parsed;
                match head.parse(buffer.filled(), self.request.method) {
                    Err(rejection) => return Poll::Ready(Err(self.violation(rejection.reason))),
                    Ok(Parsed::Complete) if head.is_interim() => {
                        let len = head.len();
                        self.interim += 1;
                        if self.interim > INTERIM_RESPONSES_MAX {
                            return Poll::Ready(Err(self.violation("too many interim responses")));
                        }
                        buffer.consume(len);
                        self.looked_at = 0;
                        continue;
                    }
                    Ok(Parsed::Complete)
                        if head.status() == 101
                            && !is_agreed(self.request, head, buffer.filled()) =>
                    {
                        return Poll::Ready(Err(self.violation("unrequested 101")));
                    }
                    Ok(Parsed::Complete) => return Poll::Ready(Ok(())),
                    Ok(Parsed::Partial) => {
                        if !buffer.make_room() {
                            return Poll::Ready(Err(
                                self.violation("the response head is too large")
                            ));
                        }
                    }
                }
            }
            let lend = Lend::Head(&self.resources.buffers);
            match poll_read(cx, stream, buffer, lend) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(count)) if count > 0 => {}
                Poll::Ready(_) => return Poll::Ready(Err(self.closed())),
            }
        }
    }

    fn violation(&self, reason: &'static str) -> Box<Fault> {
        Fault::ProtocolViolation { authority: self.connection.authority.to_string(), reason }.into()
    }

    fn closed(&self) -> Box<Fault> {
        let authority = self.connection.authority.to_string();
        Box::new(match self.connection.upload {
            Upload::Stopped(kind) => Fault::SendFailed { authority, cause: kind.to_string() },
            Upload::Done | Upload::Running => Fault::Closed { authority },
        })
    }

    fn finish(
        mut self,
        outcome: Result<(), Box<Fault>>,
    ) -> Result<UpstreamResponse, FailedAttempt> {
        let buffers = &self.resources.buffers;
        let uploads = self.uploads();
        let connection = &mut *self.connection;
        match outcome {
            Ok(()) => {
                if !uploads {
                    connection.out.release(buffers);
                }
                let mut head = self.head.unwrap_or_default();
                let reader = &mut connection.reader;
                let received = reader.buffer.filled().get(..head.parsed.len());
                head.bytes.extend_from_slice(received.unwrap_or_default());
                reader.buffer.consume(head.parsed.len());
                reader.start_response(head.parsed.framing());
                reader.drops_trailers = head.parsed.names_fields();
                connection.keep_alive = head.parsed.keep_alive();
                let body = UpstreamBody::new(self.connection);
                Ok(UpstreamResponse { head, body })
            }
            Err(fault) => {
                let silent = connection.reader.buffer.is_empty() && self.interim == 0;
                let ended = matches!(*fault, Fault::Closed { .. } | Fault::SendFailed { .. });
                let failed = FailedAttempt {
                    stale: connection.reused && silent && ended,
                    endpoint_blameless: self.cut_short
                        && matches!(*fault, Fault::ResponseTimeout { .. }),
                    written: connection.out.written,
                    fault,
                };
                connection.release_buffers(buffers);
                if let Some(head) = self.head {
                    self.resources.release_head(head);
                }
                Err(failed)
            }
        }
    }
}
