//! One stream: the pipeline serves its request.

use base::limits::{DRAIN_BYTES_MAX, DRAIN_MS_MAX};
use model::Fault;
use wire::http1::{Parsed, Rejection};

use super::OpenStream;
use super::client::StreamClient;
use crate::message::Request;
use crate::pipeline;

/// The request of a new stream.
pub(super) struct Opened {
    pub(super) stream: OpenStream,
    pub(super) request: Box<Request>,
    pub(super) parsed: Result<(), Box<Fault>>,
    pub(super) is_head_method: bool,
}

/// Serves one stream.
pub(super) async fn serve(opened: Opened) {
    let Opened { stream, request, parsed, is_head_method } = opened;
    let worker = stream.connection.worker();
    let mut client = StreamClient::new(&stream, &request, is_head_method);
    pipeline::exchange(worker, parsed, &request, &mut client).await;
    client.skip_rest(DRAIN_BYTES_MAX as usize, DRAIN_MS_MAX).await;
    drop(client);
    worker.resources.release_request(request);
}

/// Parses the head, which is subject to the same checks as over HTTP/1.1. It is all there is.
pub(super) fn parse_head(request: &mut Request) -> Result<Parsed, Rejection> {
    let parsed = request.head.parse(&request.bytes)?;
    Ok(if request.head.len() == request.bytes.len() { parsed } else { Parsed::Partial })
}

/// The fault of a head that ends early, or is followed by something.
pub(super) fn incomplete() -> Box<Fault> {
    Fault::Malformed { status: 400, reason: "head is malformed" }.into()
}
