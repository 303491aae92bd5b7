//! One stream: its head becomes a [`Request`], and the pipeline serves it.

use std::rc::Rc;

use base::limits::{DRAIN_BYTES_MAX, DRAIN_MS_MAX};
use model::Fault;
use wire::h2::{self, Accepted, Incoming};
use wire::http1::{Parsed, Rejection};

use super::OpenStream;
use super::client::StreamClient;
use crate::message::Request;
use crate::pipeline;

/// Serves one stream.
pub(super) async fn serve(opened: OpenStream, (parts, body, respond): Accepted) {
    let worker = opened.0.worker();
    let body = Incoming::new(body);
    let mut request = worker.resources.request();
    request.bytes.clear();
    let head = h2::head_bytes(&mut request.bytes, &parts, body.is_end());
    let parsed = match head.and_then(|()| parse_head(&mut request)) {
        Ok(()) => Ok(()),
        Err(Rejection { status, reason }) => {
            // Nothing of a rejected head may be logged.
            *request = Request::default();
            Err(Fault::Malformed { status, reason })
        }
    };
    request.peer = Rc::clone(&opened.0.peer);
    request.secure = opened.0.secure;
    let mut client = StreamClient::new(&opened, body, respond);
    client.is_head = parts.method == "HEAD";
    client.waits_for_continue = request.head.expects_continue();
    pipeline::exchange(worker, parsed, &request, &mut client).await;
    client.skip_rest(DRAIN_BYTES_MAX as usize, DRAIN_MS_MAX).await;
    drop(client);
    worker.resources.release_request(request);
}

/// Parses the head, which is subject to the same checks as over HTTP/1.1.
fn parse_head(request: &mut Request) -> Result<(), Rejection> {
    match request.head.parse(&request.bytes)? {
        Parsed::Complete if request.head.len() == request.bytes.len() => Ok(()),
        Parsed::Complete | Parsed::Partial => {
            Err(Rejection { status: 400, reason: "head is malformed" })
        }
    }
}
