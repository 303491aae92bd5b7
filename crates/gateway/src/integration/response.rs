//! The response to the client, from the result of mediation or of an upstream.

use mediation::{BodyUse, Message, PlainHead, PropertyScope, Source};
use model::Fault;
use wire::http1::Known;

use super::session::Session;
use super::waiting::Waiting;
use crate::artefacts::fault_of;
use crate::body::Held;
use crate::body::request_body::RequestBody;
use crate::exchange::response::{Body as ResponseBody, Response};
use crate::forward::{Upload, UpstreamBody, UpstreamResponse};
use crate::message::resources::Resources;
use crate::message::{Head, RequestCopy};
use crate::tasks::boxed::boxed;
use crate::worker::Worker;

/// An upstream's response.
pub(super) struct Returned {
    pub(super) head: Box<Head>,
    /// `None`: the body is empty.
    pub(super) stream: Option<UpstreamBody>,
}

impl Returned {
    pub(super) fn of(response: UpstreamResponse, resources: &Resources) -> Self {
        let UpstreamResponse { head, mut body } = response;
        let is_empty = body.is_done() && body.connection.upload == Upload::Done;
        if head.status() >= 400 {
            // As for any response: the rest of the request is of no use any more.
            body.stop_upload(resources);
        }
        if is_empty {
            body.release(resources, true);
            return Self { head, stream: None };
        }
        Self { head, stream: Some(body) }
    }
}

/// A response as it came from its upstream.
pub(super) fn returned(
    worker: &Worker,
    mut head: Box<Head>,
    stream: Option<UpstreamBody>,
) -> Response {
    let body = match stream {
        Some(stream) if is_bodiless(head.status()) => {
            stream.release(&worker.resources, false);
            ResponseBody::Empty
        }
        Some(stream) => ResponseBody::Streaming(stream),
        None => ResponseBody::Empty,
    };
    if head.parsed.find(Known::Date).is_none() {
        worker.resources.append_date(&mut head.edits);
    }
    Response { head, body, tap: None }
}

/// The body of a message that got one of these statuses, or that had it from its upstream, is not sent.
fn is_bodiless(status: u16) -> bool {
    matches!(status, 204 | 304)
}

/// The response that a run gives to its client.
///
/// # Errors
/// The body of the request, which it returns, cannot be held.
pub(super) async fn deliverable<B: RequestBody>(
    worker: &Worker,
    session: &mut Session,
    message: Box<Message>,
    source: Source,
    waiting: &mut Option<Waiting<'_, B>>,
) -> Result<Response, Box<Fault>> {
    let Message { head, body, properties, .. } = *message;
    let mut head = response_head(worker, head);
    let axis2 = |name| properties.get(PropertyScope::Axis2, name);
    let status = axis2("HTTP_SC").and_then(|status| status.text().parse().ok());
    let status = status.filter(|status| (200..600).contains(status));
    let is_bodiless = is_bodiless(status.unwrap_or_else(|| head.status()))
        || axis2("NO_ENTITY_BODY").is_some_and(|value| value.value().truth());
    let is_streaming = body.state() == BodyUse::Untouched;
    let stream = if is_streaming { session.take_stream(source) } else { None };
    let held = |bytes| ResponseBody::Held(Held::new(bytes));
    let body = match stream {
        Some(stream) if !is_bodiless => ResponseBody::Streaming(stream),
        Some(stream) => {
            stream.release(&worker.resources, false);
            ResponseBody::Empty
        }
        None if is_bodiless => ResponseBody::Empty,
        None if is_streaming => {
            let bytes = boxed(|| session.hold(source, waiting)).await?.map_err(fault_of)?;
            bytes.map_or(ResponseBody::Empty, held)
        }
        None => match session.charged(&body).map_err(fault_of)? {
            bytes if bytes.is_empty() => ResponseBody::Empty,
            bytes => held(bytes),
        },
    };
    if let Some(reason) = axis2("HTTP_SC_DESC") {
        head.edits.set_reason(&reason.text());
    }
    if let Some(status) = status {
        head.edits.set_status(status);
    } else if head.status() == 0 {
        head.edits.set_status(200);
    }
    if mediation::Head::field(&*head, "Date").is_none() {
        worker.resources.append_date(&mut head.edits);
    }
    Ok(Response { head, body, tap: None })
}

/// Fields of a request that a response does not have.
const REQUEST_FIELDS: [&str; 20] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "authorization",
    "content-length",
    "cookie",
    "date",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "max-forwards",
    "range",
    "referer",
    "transfer-encoding",
    "user-agent",
];

/// The head of a response; of a request that is returned to its client, the other fields remain, as in Synapse.
fn response_head(worker: &Worker, head: Box<dyn mediation::Head>) -> Box<Head> {
    let request = match head.into_any().downcast::<Head>() {
        Ok(head) => return head,
        Err(other) => other,
    };
    let mut head = worker.resources.head();
    let edits = &mut head.edits;
    let mut keep = |name: &str, value: &str| {
        if !REQUEST_FIELDS.iter().any(|dropped| name.eq_ignore_ascii_case(dropped)) {
            edits.append(name.as_bytes(), value.as_bytes());
        }
    };
    match request.downcast::<RequestCopy>() {
        Ok(request) => {
            mediation::Head::fields(&*request, &mut keep);
            worker.resources.release_copy(request);
        }
        Err(other) => {
            if let Ok(plain) = other.downcast::<PlainHead>() {
                mediation::Head::fields(&*plain, &mut keep);
            }
        }
    }
    head
}
