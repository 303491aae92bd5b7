//! Integration: Synapse's proxies and APIs, served by mediation.
//!
//! Life of a request: route -> **mediate** -> deliver. A [`mediation::Run`] decides what happens to the message; this
//! module sends what it asks to send, reads the bodies that it asks for, and hands its response to the pipeline.

mod bodies;
mod exchange;
mod head;
pub(crate) mod policies;
mod session;
mod variables;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use base::Method;
use bytes::Bytes;
use expression::Budget;
use mediation::{
    Asked, Body, BodyUse, Direction, Environment, Flow, Format, Found, LogLevel, Matched, Memory,
    Message, PlainHead, Program, PropertyScope, Run, SequenceId, Source,
};
use model::{Denial, Fault, MethodSet};
use wire::http1::BodyFraming;

use crate::account::Record;
use crate::admission::{Admitted, admit};
use crate::artefacts::{Integration, LOG, Service, Target, fault_of};
use crate::client::Client;
use crate::compiled::{Compiled, Live};
use crate::credentials;
use crate::cross_origin;
use crate::exchange::Exchange;
use crate::flow::Held;
use crate::forward::{IDENTITY, OwnBody};
use crate::gate::Pass;
use crate::message::{Head, Request, RequestCopy};
use crate::request_body::RequestBody;
use crate::response::{Body as ResponseBody, Response};
use crate::tasks;
use crate::worker::Worker;

use session::{Outcome, Session, Waiting};

pub use variables::variable;

/// What expressions read besides the message, and the mediators' log.
#[derive(Clone)]
pub(crate) struct RunEnvironment {
    program: Arc<Program>,
    /// With registry and memory. Policies of APIs have neither.
    integration: Option<Arc<Integration>>,
    unix_ms: i64,
    /// Of the run.
    id: u128,
    /// The limit of one body, decoded or not.
    body_bytes_max: usize,
}

impl RunEnvironment {
    fn new(
        worker: &Worker,
        live: &Live,
        program: &Arc<Program>,
        of: Option<&Arc<Integration>>,
    ) -> Self {
        let now_us = worker.resources.unix_us(worker.resources.coarse_us());
        let unix_ms = i64::try_from(now_us / 1_000).unwrap_or(i64::MAX);
        let id = worker.next_run_id();
        let body_bytes_max = live.held_body_bytes_max;
        let program = Arc::clone(program);
        Self { program, integration: of.cloned(), unix_ms, id, body_bytes_max }
    }

    fn program(&self) -> &Program {
        &self.program
    }
}

impl Environment for RunEnvironment {
    fn memory(&self) -> Option<&Memory> {
        self.integration.as_ref().map(|integration| &integration.memory)
    }

    fn unix_ms(&self) -> i64 {
        self.unix_ms
    }

    /// A UUID of version 8, whose bits are ours. Source: RFC 9562 section 5.8.
    fn message_id(&self) -> Option<Cow<'_, str>> {
        const VERSION: u128 = 0x8 << 76;
        const VARIANT: u128 = 0b10 << 62;
        let bits = self.id & !(0xf << 76) & !(0b11 << 62) | VERSION | VARIANT;
        let hex = format!("{bits:032x}");
        let (a, rest) = hex.split_at_checked(8)?;
        let (b, rest) = rest.split_at_checked(4)?;
        let (c, rest) = rest.split_at_checked(4)?;
        let (d, e) = rest.split_at_checked(4)?;
        Some(Cow::Owned(format!("urn:uuid:{a}-{b}-{c}-{d}-{e}")))
    }

    fn config(&self, name: &str) -> Option<Cow<'_, str>> {
        self.program.config(name).map(Cow::Borrowed)
    }

    fn registry(&self, path: &str, property: Option<&str>) -> Option<Cow<'_, str>> {
        let resource = self.integration.as_ref()?.artefacts.resources.get(path)?;
        match property {
            None => Some(String::from_utf8_lossy(&resource.bytes)),
            Some("mediaType") => Some(Cow::Borrowed(&resource.media_type)),
            Some(_) => None,
        }
    }

    /// Policies of APIs have none: whoever writes an API need not know the gateway's environment.
    fn variable(&self, scope: PropertyScope, name: &str) -> Option<Cow<'_, str>> {
        self.integration.as_ref()?;
        variable(scope, name)
    }

    fn log(&self, level: LogLevel, line: &str) {
        match level {
            LogLevel::Trace => tracing::trace!(target: LOG, "{line}"),
            LogLevel::Debug => tracing::debug!(target: LOG, "{line}"),
            LogLevel::Info => tracing::info!(target: LOG, "{line}"),
            LogLevel::Warn => tracing::warn!(target: LOG, "{line}"),
            LogLevel::Error => tracing::error!(target: LOG, "{line}"),
        }
    }
}

/// From the request to the response: a run of the service's sequences.
///
/// # Errors
/// Any [`Fault`].
pub(crate) async fn respond<C: Client>(
    exchange: &mut Exchange<'_>,
    revision: &Rc<Compiled>,
    client: &mut C,
) -> Result<Response, Box<Fault>> {
    let Exchange { worker, request, .. } = *exchange;
    let integration = &revision.integration;
    let (head, bytes) = (&request.head, request.bytes.as_slice());
    if head.path(bytes) == b"*" {
        return Ok(worker.own_response(200));
    }
    let Target { routes, service: service_at, remainder, is_served } = integration.find(request)?;
    let service = worker.services.get(routes, &worker.pools);
    exchange.record.api = Some(Rc::clone(&service.account));
    if !is_served {
        return Err(Fault::Denied(Denial::UnsupportedTransport).into());
    }
    let prefix_len = head.path(bytes).len().saturating_sub(remainder.len());
    if let Service::Api(number) = service_at
        && let Some(fields) = cross_origin::preflight(request, routes, || {
            methods(&integration.program, number, request, remainder)
        })
    {
        return Ok(worker.own_response_with(204, &fields));
    }
    if let Service::Api(number) = service_at
        && let Some(allow) = allowed(&integration.program, number, request, remainder)
    {
        return Ok(worker.own_response_with(200, allow.as_bytes()));
    }
    if let Some((content_type, text)) =
        description(&integration.program, service_at, request, prefix_len)
    {
        admit(exchange, &revision.live, &service, client).await?;
        let mut response = worker.own_response(200);
        response.head.edits.append(b"Content-Type", content_type.as_bytes());
        let body = Held::new(Bytes::from(text));
        return Ok(Response { body: ResponseBody::Held(body), ..response });
    }
    let mut head = worker.resources.copy(request);
    credentials::hide_sessions(request, &revision.live.logins, &mut head.edits);
    head.prefix_len = prefix_len;
    if !request.peer.trusted {
        // No artefact believes what a client says of itself.
        head.edits.remove_known(IDENTITY);
    }
    if let Some(signer) = &revision.live.backend_jwt {
        // It says nothing of callers here, and no client may.
        signer.write(None, &mut head.edits);
    }
    let framing = request.head.framing();
    let budget = budget(&revision.live);
    let program = &integration.program;
    let mut message = message(head, framing, revision.live.held_body_bytes_max);
    let (flow, resource) =
        flow(program, service_at, (request, &message), remainder, &mut exchange.record)?;
    if let Some(resource) = resource {
        resource.describe(&mut message, &budget).map_err(fault_of)?;
    }
    let sequences = [flow.request, flow.response, flow.fault];
    if sequences.into_iter().flatten().any(|of| program.body_use(of) != BodyUse::Untouched) {
        ask_for_whole_body(&mut message);
    }
    let Admitted { early_upload, turn } = admit(exchange, &revision.live, &service, client).await?;
    let run = Run::new(Arc::clone(program), flow, message, budget);
    let environment = RunEnvironment::new(worker, &revision.live, program, Some(integration));
    let (owner, revision) = (worker.this(), Rc::clone(revision));
    let mut session = Session::new(owner, revision, Rc::clone(&request.peer), environment, run);
    let mut waiting = Some(Waiting { client, framing, early_upload, turn });
    let outcome = session.go(&mut waiting).await?;
    drop(waiting.as_mut().and_then(|waiting| waiting.turn.take()));
    let mut response = conclude(exchange, session, outcome, waiting).await?;
    cross_origin::mediate(request, routes, &mut response.head.edits);
    Ok(response)
}

/// The methods of an API's resources at a path.
fn methods(program: &Program, api: usize, request: &Request, remainder: &[u8]) -> MethodSet {
    let Some(api) = program.apis().get(api) else { return MethodSet::EMPTY };
    let query = request.head.query(&request.bytes).unwrap_or_default();
    let (rest, query) = (String::from_utf8_lossy(remainder), String::from_utf8_lossy(query));
    let all = Method::NAMED.into_iter();
    match api.methods(&rest, &query) {
        None => all.fold(MethodSet::EMPTY, MethodSet::with),
        Some(named) => {
            all.filter(|one| named.contains(&one.as_str())).fold(MethodSet::EMPTY, MethodSet::with)
        }
    }
}

/// Mediators read whole bodies, and no compressed ones.
fn ask_for_whole_body(message: &mut Message) {
    for name in ["Accept-Encoding", "Range", "If-Range"] {
        message.head.remove_field(name);
    }
}

/// The response of a run, which goes on without its client if something is left to do.
///
/// # Errors
/// The run failed, or its response cannot be held.
async fn conclude<B: RequestBody>(
    exchange: &mut Exchange<'_>,
    mut session: Session,
    outcome: Outcome,
    mut waiting: Option<Waiting<'_, B>>,
) -> Result<Response, Box<Fault>> {
    let Exchange { worker, record, .. } = exchange;
    let response = match outcome {
        Outcome::Respond(message, source) => {
            deliverable(worker, &mut session, message, source, &mut waiting).await
        }
        Outcome::Failed(failure) => Err(fault_of(failure)),
        Outcome::Accepted | Outcome::Done => Ok(worker.own_response(202)),
    };
    record.upstream_us = session.responded_us.map(|us| us.saturating_sub(record.started_us));
    if session.is_waiting() {
        // The response has its own.
        session.places = record.places.each_ref().map(|place| place.as_ref().map(Pass::again));
        tasks::spawn(finish(session));
    }
    response
}

/// What a service says of itself, if the query asks for it: its WSDL or its OpenAPI description.
fn description(
    program: &Program,
    service: Service,
    request: &Request,
    prefix_len: usize,
) -> Option<(&'static str, String)> {
    let (head, bytes) = (&request.head, request.bytes.as_slice());
    let query = head.query(bytes).filter(|_| head.method() == Method::Get)?;
    let (base_path, below) = head.path(bytes).split_at_checked(prefix_len)?;
    let base_path = std::str::from_utf8(base_path).ok().filter(|_| matches!(below, b"" | b"/"))?;
    let url = || {
        let scheme = if request.secure { "https" } else { "http" };
        format!("{scheme}://{}{base_path}", String::from_utf8_lossy(head.host(bytes)))
    };
    match service {
        Service::Proxy(number) => {
            let wsdl = program.proxies().get(number)?.wsdl.as_ref()?;
            let text = wsdl.text(std::str::from_utf8(query).ok()?, &url())?;
            Some(("text/xml; charset=UTF-8", text))
        }
        Service::Api(number) if query == b"swagger.json" || query == b"swagger.yaml" => {
            let api = program.apis().get(number)?;
            // Every JSON text is one of YAML.
            let is_json = query == b"swagger.json";
            let content_type = if is_json { "application/json" } else { "text/yaml" };
            Some((content_type, api.openapi(&url())))
        }
        Service::Api(_) | Service::Inbound(_) | Service::Main(_) => None,
    }
}

/// What the gateway says of `OPTIONS` where resources have other methods alone. Source: Synapse's `Resource.sendOptions`.
fn allowed(program: &Program, api: usize, request: &Request, remainder: &[u8]) -> Option<String> {
    if request.head.method() != Method::Options {
        return None;
    }
    let all = methods(program, api, request, remainder);
    let is_mediated = all.is_empty() || all.contains(Method::Options);
    (!is_mediated).then(|| format!("Allow: {all}\r\n"))
}

/// A run gets no more memory than all bodies of its worker.
fn budget(live: &Live) -> Budget {
    let most = Budget::default();
    let bytes = u64::try_from(live.held_bytes_max).unwrap_or(u64::MAX);
    Budget::new(most.steps_left(), most.bytes_left().min(bytes))
}

/// The sequences for a request, and the resource of an API.
///
/// # Errors
/// The API has no resource for it.
fn flow<'p>(
    program: &'p Program,
    service: Service,
    (request, message): (&Request, &Message),
    remainder: &[u8],
    record: &mut Record,
) -> Result<(Flow, Option<Found<'p>>), Box<Fault>> {
    let handled = |handler: Option<SequenceId>, denial| match handler {
        Some(handler) => Ok((Flow { request: Some(handler), ..Flow::default() }, None)),
        None => Err(Fault::Denied(denial).into()),
    };
    let number = match service {
        Service::Proxy(number) => {
            let proxy = program.proxies().get(number).ok_or(Fault::Denied(Denial::NoApi))?;
            return Ok((proxy.flow, None));
        }
        Service::Inbound(number) => {
            let inbound = program.inbounds().get(number).ok_or(Fault::Denied(Denial::NoApi))?;
            return Ok((inbound.flow, None));
        }
        // Its responses come back to it, as in Synapse.
        Service::Main(main) => {
            let both = Flow { request: Some(main), response: Some(main), ..Flow::default() };
            return Ok((both, None));
        }
        Service::Api(number) => number,
    };
    let api = program.apis().get(number).ok_or(Fault::Denied(Denial::NoApi))?;
    let method = String::from_utf8_lossy(request.head.method_bytes(&request.bytes));
    let rest = String::from_utf8_lossy(remainder);
    let query = request.head.query(&request.bytes).unwrap_or_default();
    let (secure, has_body) = (request.secure, !message.body.is_empty());
    let asked = Asked { method: &method, secure, head: &*message.head, has_body };
    match program.resource_of(api, &asked, &rest, &String::from_utf8_lossy(query)) {
        Matched::Resource(found) => Ok((found.resource.flow, Some(found))),
        Matched::MethodNotAllowed { handler, allowed, .. } => {
            let allowed = allowed.iter().map(|name| Method::from_bytes(name.as_bytes()));
            record.allow = allowed.collect();
            handled(handler, Denial::MethodNotAllowed)
        }
        Matched::NoResource { handler, .. } => handled(handler, Denial::NoResource),
        Matched::NoApi { handler } => handled(handler, Denial::NoApi),
    }
}

/// `body_bytes_max`: the limit of its body when it is decoded.
fn message(head: Box<RequestCopy>, framing: BodyFraming, body_bytes_max: usize) -> Message {
    use mediation::Head as _;
    let content_type = head.field("Content-Type");
    let format = content_type.map_or(Format::Binary, |content_type| Format::of(&content_type));
    let body = match framing {
        BodyFraming::None | BodyFraming::Length(0) => Body::held(format, Bytes::new()),
        BodyFraming::Length(_) | BodyFraming::Chunked => Body::streaming(format),
    };
    Message::new(Direction::Request, head, body.decoded_up_to(body_bytes_max))
}

/// The response that a run gives to its client.
///
/// # Errors
/// The body of the request, which it returns, cannot be held.
async fn deliverable<B: RequestBody>(
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
    // The body of a message that got one of these statuses, or that had it from its upstream, is not sent.
    let is_bodiless = matches!(status.unwrap_or_else(|| head.status()), 204 | 304)
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
            held(Box::pin(session.hold(source, waiting)).await?.map_err(fault_of)?)
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
const REQUEST_FIELDS: [&str; 13] = [
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
    "referer",
    "transfer-encoding",
    "user-agent",
];

/// That of a response; of a request that is returned to its client, the other fields remain, as in Synapse.
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

/// Takes a run to its end after its client has the response. A shutdown waits for it.
async fn finish(mut session: Session) {
    let worker = Rc::clone(&session.worker);
    let busy = worker.busy();
    loop {
        match session.go::<OwnBody>(&mut None).await {
            Ok(Outcome::Done) => break,
            // Its client has another response already.
            Ok(Outcome::Respond(..) | Outcome::Accepted) => {}
            Ok(Outcome::Failed(failure)) => {
                tracing::warn!(code = failure.code.0, "after the response: {failure}");
            }
            Err(fault) => {
                tracing::warn!("after the response: {fault}");
                break;
            }
        }
    }
    drop(busy);
    worker.notice_the_end();
}
