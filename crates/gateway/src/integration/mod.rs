//! Integration: Synapse's proxies and APIs, served by mediation.
//!
//! Life of a request: route -> **mediate** -> deliver. A [`mediation::Run`] decides what happens to the message; this
//! module sends what it asks to send, reads the bodies that it asks for, and hands its response to the pipeline.

mod bodies;
mod environment;
mod exchange;
mod fault_check;
mod group;
mod head;
mod own;
mod pass_through;
mod pending;
pub(crate) mod policies;
mod response;
mod session;
mod waiting;

use std::rc::Rc;
use std::sync::Arc;

use base::Method;
use bytes::Bytes;
use expression::Budget;
use mediation::{
    Asked, Body, BodyUse, Detour, Direction, Flow, Format, Found, Matched, Message, Program, Run,
    SequenceId, Served,
};
use model::{Denial, Fault};
use wire::http1::BodyFraming;

use crate::account::Record;
use crate::admission::{Admitted, admit};
use crate::artefacts::{Service, Target, fault_of};
use crate::boxed::boxed;
use crate::client::Client;
use crate::compiled::{Compiled, Live};
use crate::credentials;
use crate::cross_origin;
use crate::deliver::Stall;
use crate::exchange::Exchange;
use crate::flow::Held;
use crate::forward::{IDENTITY, OwnBody};
use crate::gate::Pass;
use crate::message::{Request, RequestCopy};
use crate::request_body::RequestBody;
use crate::response::{Body as ResponseBody, Response};
use crate::tasks;

use environment::RunEnvironment;
use own::{allowed, description, methods};
use pass_through::{Passed, Passing};
use response::deliverable;
use session::{Outcome, Session};
use waiting::Waiting;

pub use environment::variable;

/// What a run starts with.
struct Start {
    flow: Flow,
    message: Box<Message>,
    budget: Budget,
}

/// From the request to the response: through the service's sequences.
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
    if let Some(description) = description(&integration.program, service_at, request, prefix_len) {
        let _admitted = admit(exchange, &revision.live, &service, client).await?;
        let client = request.peer.address;
        let (content_type, text) = boxed(|| description.text(worker, revision, client)).await?;
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
    worker.forwarded_certificates.write(request, &mut head.edits);
    if let Some(signer) = &revision.live.backend_jwt {
        // It says nothing of callers here, and no client may.
        signer.write(None, &mut head.edits);
    }
    let program = &integration.program;
    let (flow, resource) =
        flow(program, service_at, (request, &head), remainder, &mut exchange.record)?;
    let Admitted { early_upload, turn } = admit(exchange, &revision.live, &service, client).await?;
    let (framing, budget) = (request.head.framing(), budget(&revision.live));
    let mut message = message(head, framing, revision.live.held_body_bytes_max);
    message.arrival.secure = request.secure;
    if let Service::Proxy(number) = service_at {
        message.arrival.service = Some(Served::Proxy(number));
    }
    if let Some(resource) = resource {
        resource.describe(&mut message, &budget).map_err(fault_of)?;
    }
    let environment = RunEnvironment::new(worker, &revision.live, program, Some(integration));
    let mut waiting = Waiting { client, framing, early_upload, turn };
    let mut found = program.passes_through(&flow, &message, &environment, &budget);
    let mut held = None;
    if matches!(found, Err(Detour::Body)) {
        let (holding, stall) =
            (worker.holding(&revision.live, &request.peer), Stall::of(&revision.live));
        let bytes = boxed(|| waiting.hold(worker, &holding, stall)).await?;
        message.hold(bytes.clone());
        held = Some(bytes);
        found = program.passes_through(&flow, &message, &environment, &budget);
        if found.is_ok() {
            worker.saturation.before_sending().await;
        }
    }
    let is_mediated = found.as_ref().is_ok_and(|passage| passage.response.is_some());
    if is_mediated && ask_for_readable(&mut message, program, &flow) {
        // What chooses sees what is sent.
        found = program.passes_through(&flow, &message, &environment, &budget);
    }
    let passed = if let Ok(passage) = found {
        let start = Start { flow, message, budget };
        let passing = Passing::new(start, environment, passage, (request, held));
        passing.pass(exchange, revision, &mut waiting).await?
    } else {
        let start = Start { flow, message, budget };
        Passed::Mediated(begin(exchange, revision, start, environment))
    };
    let mut response = match passed {
        Passed::Returned(response) => response,
        // Boxed, so that it does not enlarge what passes through.
        Passed::Mediated(session) => boxed(|| mediate(exchange, session, waiting)).await?,
    };
    cross_origin::mediate(request, routes, &mut response.head.edits);
    Ok(response)
}

/// A run of the service's sequences.
fn begin(
    exchange: &Exchange<'_>,
    revision: &Rc<Compiled>,
    start: Start,
    environment: RunEnvironment,
) -> Box<Session> {
    let Start { flow, mut message, budget } = start;
    let program = Arc::clone(environment.shared_program());
    ask_for_readable(&mut message, &program, &flow);
    session(exchange, revision, environment, Run::new(program, flow, message, budget))
}

fn session(
    exchange: &Exchange<'_>,
    revision: &Rc<Compiled>,
    environment: RunEnvironment,
    run: Box<Run>,
) -> Box<Session> {
    let (worker, revision) = (exchange.worker.this(), Rc::clone(revision));
    Session::new(worker, revision, Rc::clone(&exchange.request.peer), environment, run)
}

/// The response of a run.
///
/// # Errors
/// Any [`Fault`].
async fn mediate<B: RequestBody>(
    exchange: &mut Exchange<'_>,
    mut session: Box<Session>,
    waiting: Waiting<'_, B>,
) -> Result<Response, Box<Fault>> {
    let mut waiting = Some(waiting);
    let outcome = session.go(&mut waiting).await?;
    drop(waiting.as_mut().and_then(|waiting| waiting.turn.take()));
    conclude(exchange, session, outcome, waiting).await
}

/// If the sequences of `flow` read bodies, a whole one is asked for. Returns whether that changes the message.
fn ask_for_readable(message: &mut Message, program: &Program, flow: &Flow) -> bool {
    let sequences = [flow.request, flow.response, flow.fault];
    let is_read = |of| program.body_use(of) != BodyUse::Untouched;
    sequences.into_iter().flatten().any(is_read) && ask_for_whole_body(message)
}

/// Mediators read whole bodies, and no compressed ones. Returns whether the message asked for others.
fn ask_for_whole_body(message: &mut Message) -> bool {
    let mut is_changed = false;
    for name in ["Accept-Encoding", "Range", "If-Range"] {
        if message.head.field(name).is_some() {
            message.head.remove_field(name);
            is_changed = true;
        }
    }
    is_changed
}

/// The response of a run, which goes on without its client if something is left to do.
///
/// # Errors
/// The run failed, or its response cannot be held.
async fn conclude<B: RequestBody>(
    exchange: &mut Exchange<'_>,
    mut session: Box<Session>,
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

/// A run gets no more memory than all bodies of its worker, with what its error handlers get.
fn budget(live: &Live) -> Budget {
    let most = Budget::default();
    let bytes = live.held_bytes_max.saturating_sub(mediation::limits::HANDLER_BYTES);
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    Budget::new(most.steps_left(), most.bytes_left().min(bytes))
}

/// The sequences for a request, and the resource of an API.
///
/// # Errors
/// The API has no resource for it.
fn flow<'p>(
    program: &'p Program,
    service: Service,
    (request, copy): (&Request, &RequestCopy),
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
    let method = head::text(request.head.method_bytes(&request.bytes));
    let rest = head::text(remainder);
    let query = request.head.query(&request.bytes).unwrap_or_default();
    let framing = request.head.framing();
    let has_body = !matches!(framing, BodyFraming::None | BodyFraming::Length(0));
    let asked = Asked { method: &method, secure: request.secure, head: copy, has_body };
    match program.resource_of(api, &asked, &rest, &head::text(query)) {
        Matched::Resource(found) => Ok((found.resource.flow, Some(found))),
        Matched::MethodNotAllowed { handler, allowed, .. } => {
            let allowed = allowed.iter().map(|name| Method::from_bytes(name.as_bytes()));
            record.allow = allowed.collect();
            handled(handler, Denial::MethodNotAllowed)
        }
        Matched::NotAdmitted => Err(Fault::Denied(Denial::NotAdmitted).into()),
        Matched::NoResource { handler, .. } => handled(handler, Denial::NoResource),
        Matched::NoApi { handler } => handled(handler, Denial::NoApi),
    }
}

/// The body of a request that has just arrived.
fn body(framing: BodyFraming, format: Format) -> Body {
    match framing {
        BodyFraming::None | BodyFraming::Length(0) => Body::held(format, Bytes::new()),
        BodyFraming::Length(_) | BodyFraming::Chunked => Body::streaming(format),
    }
}

/// `body_bytes_max`: the limit of its body when it is decoded.
fn message(head: Box<RequestCopy>, framing: BodyFraming, body_bytes_max: usize) -> Box<Message> {
    use mediation::Head as _;
    let content_type = head.field("Content-Type");
    let format = content_type.map_or(Format::Binary, |content_type| Format::of(&content_type));
    let body = body(framing, format).decoded_up_to(body_bytes_max);
    Message::new(Direction::Request, head, body)
}

/// Takes a run to its end after its client has the response. A shutdown waits for it.
async fn finish(mut session: Box<Session>) {
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
