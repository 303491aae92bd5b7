//! Mediation by flows: the sequences of Synapse's services, and the policies of operations.
//!
//! Life of a request: admit -> **mediate** -> deliver. A [`mediation::Run`] processes the message; this module sends
//! its messages, reads the bodies that it needs, and hands its response to the pipeline.

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
use base::limits::HELD_SHARE;
use bytes::Bytes;
use expression::Budget;
use mediation::{
    Asked, Body, BodyUse, Detour, Direction, Flow, Format, Found, Matched, Message, Passage,
    Program, Run, SequenceId, Served,
};
use model::{Denial, Fault};
use wire::http1::BodyFraming;

use crate::account::Record;
use crate::artefacts::{Service, fault_of};
use crate::body::request_body::RequestBody;
use crate::exchange::Exchange;
use crate::exchange::client::Client;
use crate::exchange::response::Response;
use crate::exchange::route::{Route, Target};
use crate::identity::outgoing_head;
use crate::message::{Request, RequestCopy};
use crate::own_requests::own_body::OwnBody;
use crate::shares::gate::Pass;
use crate::shares::share::Admitted;
use crate::tasks;
use crate::tasks::boxed::boxed;
use crate::worker::compiled::{Compiled, Live, Stall};

use environment::RunEnvironment;
use exchange::ApiUpstream;
use own::description;
use pass_through::{Passed, Passing};
use response::deliverable;
use session::{Outcome, Session};
use waiting::Waiting;

pub use environment::variable;

/// A message that has arrived, and the flow that carries it.
struct Start {
    flow: Flow,
    message: Box<Message>,
    budget: Budget,
    environment: RunEnvironment,
    /// The endpoints of the operation. `None`: a service, whose artefacts name their own.
    upstream: Option<ApiUpstream>,
}

impl Start {
    /// Asks for a whole response if mediators read it. Returns whether that changes the message.
    fn ask_for_readable(&mut self) -> bool {
        let Flow { request, response, fault, .. } = self.flow;
        let program = self.environment.program();
        let is_read = |of| program.body_use(of) != BodyUse::Untouched;
        let is_read = match self.upstream {
            // Responses to its calls may reach any sequence of a service.
            None => [request, response, fault].into_iter().flatten().any(is_read),
            Some(_) => response.is_some_and(is_read),
        };
        is_read && ask_for_whole_body(&mut self.message)
    }

    fn passes_through(&self) -> Result<Passage, Detour> {
        let Self { flow, message, budget, environment, .. } = self;
        environment.program().passes_through(flow, message, environment, budget)
    }
}

/// From an admitted request to its response, through the flow of its service or of its operation's policies. A request
/// that the flow only sends on needs no run until its response is mediated.
///
/// # Errors
/// Any [`Fault`].
pub(crate) async fn mediate<C: Client>(
    exchange: &mut Exchange<'_>,
    revision: &Rc<Compiled>,
    route: &Route<'_>,
    Admitted { early_upload, turn }: Admitted,
    client: &mut C,
) -> Result<Response, Box<Fault>> {
    let Exchange { worker, request, .. } = *exchange;
    if let Some(description) = description(revision, route, request) {
        return boxed(|| description.respond(worker, revision, request.peer.address)).await;
    }
    let mut start = start(exchange, revision, route)?;
    let mut waiting = Waiting { client, framing: request.head.framing(), early_upload, turn };
    let (mut found, mut held) = (start.passes_through(), None);
    if matches!(found, Err(Detour::Body)) {
        let (holding, stall) =
            (worker.holding(&revision.live, &request.peer), Stall::of(&revision.live));
        let bytes = boxed(|| waiting.hold(worker, &holding, stall)).await?;
        start.message.hold(bytes.clone());
        held = Some(bytes);
        found = start.passes_through();
        if found.is_ok() {
            worker.saturation.before_sending().await;
        }
    }
    let is_mediated = found.as_ref().is_ok_and(|passage| passage.response.is_some());
    if is_mediated && start.ask_for_readable() {
        // Conditions read the body that is sent.
        found = start.passes_through();
    }
    let passed = if let Ok(passage) = found {
        let passing = Passing::new(start, passage, (request, held));
        passing.pass(exchange, revision, &mut waiting).await?
    } else {
        Passed::Mediated(begin(exchange, revision, start))
    };
    match passed {
        Passed::Returned(response) => Ok(response),
        // Boxed, so that it does not enlarge the future of requests that pass through.
        Passed::Mediated(session) => boxed(|| run(exchange, session, waiting)).await,
    }
}

/// The message of a request, and its flow.
///
/// # Errors
/// The service has no resource for the request, or the message is larger than the budget.
fn start(
    exchange: &mut Exchange<'_>,
    revision: &Rc<Compiled>,
    route: &Route<'_>,
) -> Result<Start, Box<Fault>> {
    let Exchange { worker, request, .. } = *exchange;
    let path_len = request.head.path(&request.bytes).len();
    let mut head = worker.resources.copy(request);
    head.prefix_len = path_len.saturating_sub(route.remainder.len());
    outgoing_head::prepare(exchange, revision, route, &mut head.edits);
    // Mediators read it from the head.
    let RequestCopy { head: parsed, bytes, edits, .. } = &mut *head;
    if let Some(query) = edits.take_query() {
        parsed.shorten_query(bytes, &query);
    }
    match route.target {
        Target::Service(service) => of_service(exchange, revision, (route, service), head),
        Target::Operation(number) => policies::start(exchange, revision, (route, number), head),
    }
}

/// The start of a request to a service.
///
/// # Errors
/// As [`start`].
fn of_service(
    exchange: &mut Exchange<'_>,
    revision: &Compiled,
    (route, service): (&Route<'_>, Service),
    head: Box<RequestCopy>,
) -> Result<Start, Box<Fault>> {
    let Exchange { worker, request, .. } = *exchange;
    let (live, integration) = (&revision.live, &revision.integration);
    let program = &integration.program;
    let (flow, resource) =
        flow(program, service, (request, &head), route.remainder, &mut exchange.record)?;
    let budget = budget(live);
    let mut message = message(head, request.head.framing(), live.held_body_bytes_max);
    message.arrival.secure = request.secure;
    if let Service::Proxy(number) = service {
        message.arrival.service = Some(Served::Proxy(number));
    }
    if let Some(resource) = resource {
        resource.describe(&mut message, &budget).map_err(fault_of)?;
    }
    let environment = RunEnvironment::new(worker, live, program, Some(integration));
    Ok(Start { flow, message, budget, environment, upstream: None })
}

/// A run from the beginning of the flow.
fn begin(exchange: &Exchange<'_>, revision: &Rc<Compiled>, mut start: Start) -> Box<Session> {
    start.ask_for_readable();
    let Start { flow, message, budget, environment, upstream } = start;
    let run = Run::new(Arc::clone(environment.shared_program()), flow, message, budget);
    session(exchange, revision, (environment, upstream), run)
}

fn session(
    exchange: &Exchange<'_>,
    revision: &Rc<Compiled>,
    (environment, upstream): (RunEnvironment, Option<ApiUpstream>),
    run: Box<Run>,
) -> Box<Session> {
    let (worker, revision) = (exchange.worker.this(), Rc::clone(revision));
    let mut session =
        Session::new(worker, revision, Rc::clone(&exchange.request.peer), environment, run);
    session.upstream = upstream;
    session
}

/// The response of a run.
///
/// # Errors
/// Any [`Fault`].
async fn run<B: RequestBody>(
    exchange: &mut Exchange<'_>,
    mut session: Box<Session>,
    waiting: Waiting<'_, B>,
) -> Result<Response, Box<Fault>> {
    let mut waiting = Some(waiting);
    let outcome = session.go(&mut waiting).await?;
    drop(waiting.as_mut().and_then(|waiting| waiting.turn.take()));
    conclude(exchange, session, outcome, waiting).await
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

/// A run gets no more memory than the largest share of a client, including the memory of its error handlers: a message
/// that outgrows it fails, instead of waiting for room that there cannot be.
fn budget(live: &Live) -> Budget {
    let most = Budget::default();
    let share = (live.held_bytes_max / (HELD_SHARE + 1)).saturating_mul(HELD_SHARE);
    let bytes = share.saturating_sub(mediation::limits::HANDLER_BYTES);
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
        // Responses to requests of `main` return to `main`, as in Synapse.
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
            // The client has another response already.
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
