//! One stream: the pipeline serves its request.

use base::limits::{DRAIN_BYTES_MAX, DRAIN_MS_MAX};
use base::{Entropy as _, SystemEntropy};
use model::Fault;
use wire::http1::{Known, Parsed, Rejection, write};
use wire::websocket;

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
    let mut parsed = request.head.parse(&request.bytes)?;
    // Over HTTP/2, only an extended CONNECT has it.
    if request.head.find(Known::Upgrade).is_some() {
        request.is_connect = true;
        add_key(&mut request.bytes);
        parsed = request.head.parse(&request.bytes)?;
    }
    Ok(if request.head.len() == request.bytes.len() { parsed } else { Parsed::Partial })
}

/// Adds the key to a WebSocket handshake, which has none over HTTP/2. Source: RFC 8441 section 5.
fn add_key(head: &mut Vec<u8>) {
    let mut random = [0; 16];
    SystemEntropy.fill(&mut random);
    head.truncate(head.len().saturating_sub(b"\r\n".len()));
    write::field(head, b"Sec-WebSocket-Key", websocket::key(random).as_bytes());
    write::end(head);
}

/// The fault of a head that ends early, or is followed by something.
pub(super) fn incomplete() -> Box<Fault> {
    Fault::Malformed { status: 400, reason: "head is malformed" }.into()
}
