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

/// Parses the head, which is subject to the same checks as over HTTP/1.1.
pub(super) fn parse_head(request: &mut Request) -> Result<(), Rejection> {
    match request.head.parse(&request.bytes)? {
        Parsed::Complete if request.head.len() == request.bytes.len() => Ok(()),
        Parsed::Complete | Parsed::Partial => {
            Err(Rejection { status: 400, reason: "head is malformed" })
        }
    }
}
