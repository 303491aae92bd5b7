//! When a request's body starts to flow.
//!
//! No upstream connection is opened before the first byte of the body is there, or a moment has passed: heads without
//! bodies, which cost a client little, must not take the connections from everybody else.

use std::future::poll_fn;
use std::task::Poll;

use base::limits::UPLOAD_START_MS;
use model::Fault;
use wire::http1::{BodyFraming, Known};

use crate::client::Client;
use crate::forward::body_fault;
use crate::message::Request;
use crate::worker::{Counted, Worker};

/// Waits for the first byte of the body, if the request has one. After `UPLOAD_START_MS` the request may go on without
/// it, if few others do; the guard counts it as one of them. gRPC does so at once, since its clients may read before
/// they write. `stall_ms`: longest wait.
///
/// # Errors
/// The body is malformed, or the client left or sent nothing in time.
pub(crate) async fn start<'w, C: Client>(
    worker: &'w Worker,
    request: &Request,
    client: &mut C,
    stall_ms: u32,
) -> Result<Option<Counted<'w>>, Fault> {
    if request.head.framing() == BodyFraming::None {
        return Ok(None);
    }
    // One that waits for a 100 gets it when the upstream connection is there.
    if request.head.expects_continue()
        && let Some(early) = worker.early_upload()
    {
        return Ok(Some(early));
    }
    let may_wait = !is_grpc(request);
    client.watch().set(worker.resources.deadline_us(UPLOAD_START_MS));
    let mut is_late = false;
    poll_fn(|cx| {
        match client.poll_fill(cx) {
            Poll::Ready(Ok(())) => return Poll::Ready(Ok(None)),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(body_fault(error))),
            Poll::Pending => {}
        }
        if let Poll::Ready(fault) = client.poll_left(cx, true) {
            return Poll::Ready(Err(fault));
        }
        let expired = client.watch().poll_expired(cx);
        if expired && is_late {
            return Poll::Ready(Err(Fault::ClientTimeout));
        }
        if expired || !may_wait && !is_late {
            if let Some(early) = worker.early_upload() {
                return Poll::Ready(Ok(Some(early)));
            }
            is_late = true;
            client.watch().set(worker.resources.deadline_us(stall_ms));
        }
        Poll::Pending
    })
    .await
}

fn is_grpc(request: &Request) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    request.head.find(Known::ContentType).is_some_and(|field| {
        let value = field.value.of(&request.bytes);
        value.get(..GRPC.len()).is_some_and(|start| start.eq_ignore_ascii_case(GRPC))
    })
}
