//! Integration: Synapse's proxies and APIs, served by mediation.
//!
//! Life of a request: route -> **mediate** -> deliver. A [`mediation::Run`] decides what happens to the message; this
//! module sends what it asks to send, reads the bodies that it asks for, and hands its response to the pipeline.

mod exchange;
mod head;
mod origins;
pub(crate) mod policies;
mod session;

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use base::Method;
use bytes::Bytes;
use expression::Budget;
use mediation::{
    Body, BodyUse, Compiler, Direction, Environment, Failure, Flow, Format, LogLevel, Matched,
    Memory, Message, PlainHead, Program, PropertyScope, Run, SequenceId, Source,
};
use model::{Api, ApiState, ArtefactSet, Denial, Fault, LoadedApi, Severity, Snapshot, Transports};
use stages::Routes;
use wire::http1::BodyFraming;

use crate::account::Record;
use crate::admission;
use crate::client::Client;
use crate::compiled::Compiled;
use crate::flow::Held;
use crate::forward::{OwnBody, RequestBody};
use crate::message::{Head, Request};
use crate::response::{Body as ResponseBody, Response};
use crate::worker::Worker;

use head::MediatedRequest;
use session::{Outcome, Session, Waiting};

pub(crate) use origins::Origins;

/// Compiled artefacts. Workers share them.
pub(crate) struct Integration {
    /// What they were compiled from: compiled again only if that changed.
    artefacts: Arc<ArtefactSet>,
    program: Arc<Program>,
    /// The base paths of the services, and their accounts. None has operations: the artefact says what it serves.
    pub(crate) routes: Arc<Routes>,
    /// By slot in `routes`.
    services: HashMap<u32, Service>,
    /// What its mediators keep between messages, for all workers.
    memory: Memory,
}

/// The number of a service in its program.
#[derive(Clone, Copy, Debug)]
enum Service {
    Proxy(usize),
    /// The program finds its resources.
    Api,
    /// The sequence `main` gets what no other service takes, at the empty base path.
    Main(SequenceId),
}

impl Integration {
    /// Compiles the artefacts of `snapshot`, unless `previous` has them already.
    pub(crate) fn compile(snapshot: &Snapshot, previous: Option<&Arc<Self>>) -> Arc<Self> {
        let artefacts = &snapshot.artefacts;
        if let Some(previous) = previous
            && Arc::ptr_eq(&previous.artefacts, artefacts)
        {
            return Arc::clone(previous);
        }
        let (program, diagnostics) = Compiler::compile_set(artefacts);
        for diagnostic in diagnostics {
            match diagnostic.severity {
                Severity::Error => tracing::error!(target: LOG, "{diagnostic}"),
                Severity::Warning => tracing::warn!(target: LOG, "{diagnostic}"),
            }
        }
        let served = services(&program);
        let apis = served
            .iter()
            .map(|(_, api)| LoadedApi { api: Arc::clone(api), state: ApiState::Serving });
        let snapshot =
            Snapshot { revision: snapshot.revision, apis: apis.collect(), ..Snapshot::default() };
        let routes = Routes::compile(&snapshot, previous.map(|previous| &*previous.routes));
        let number = |api: &Arc<stages::ApiRoutes>| {
            let (service, _) = served.iter().find(|(_, known)| Arc::ptr_eq(known, &api.api))?;
            Some((api.slot, *service))
        };
        Arc::new(Self {
            memory: Memory::new(&program),
            artefacts: Arc::clone(artefacts),
            program: Arc::new(program),
            services: routes.apis().filter_map(number).collect(),
            routes: Arc::new(routes),
        })
    }

    /// Whether they are other artefacts than those of `other`.
    pub(crate) fn differs(&self, other: &Self) -> bool {
        !Arc::ptr_eq(&self.program, &other.program)
    }
}

/// The services of a program, each as an API without operations.
fn services(program: &Program) -> Vec<(Service, Arc<Api>)> {
    let transports =
        |given: mediation::Transports| Transports { http: given.http, https: given.https };
    let proxies = program.proxies().iter().enumerate().map(|(number, proxy)| {
        let path = format!("/services/{}", proxy.name);
        let transports = transports(proxy.transports);
        let api = Api { transports, ..Api::new(proxy.name.clone(), String::new(), path) };
        (Service::Proxy(number), Arc::new(api))
    });
    let apis = program.apis().iter().map(|api| {
        let path = api.base_path.clone();
        let transports = transports(api.transports);
        let found = Api { transports, ..Api::new(api.name.clone(), String::new(), path) };
        (Service::Api, Arc::new(found))
    });
    let main = program.sequence("main").map(|main| {
        let api = Api::new("main".to_owned(), String::new(), String::new());
        (Service::Main(main), Arc::new(api))
    });
    // Of two services with one path, the first is served: an API at `/` comes before.
    proxies.chain(apis).chain(main).collect()
}

/// The target of what artefacts and their authors log: each line says something else.
const LOG: &str = "penstock_mediation::log";

/// What expressions read besides the message, and the mediators' log.
#[derive(Clone)]
pub(crate) struct RunEnvironment {
    program: Arc<Program>,
    /// With registry and memory. Policies of APIs have neither.
    integration: Option<Arc<Integration>>,
    unix_ms: i64,
}

impl RunEnvironment {
    fn new(worker: &Worker, program: &Arc<Program>, of: Option<&Arc<Integration>>) -> Self {
        let now_us = worker.resources.unix_us(worker.resources.coarse_us());
        let unix_ms = i64::try_from(now_us / 1_000).unwrap_or(i64::MAX);
        Self { program: Arc::clone(program), integration: of.cloned(), unix_ms }
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

    fn registry(&self, path: &str, property: Option<&str>) -> Option<Cow<'_, str>> {
        let resource = self.integration.as_ref()?.artefacts.resources.get(path)?;
        match property {
            None => Some(String::from_utf8_lossy(&resource.bytes)),
            Some("mediaType") => Some(Cow::Borrowed(&resource.media_type)),
            Some(_) => None,
        }
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
    worker: &Worker,
    revision: &Rc<Compiled>,
    request: &Request,
    client: &mut C,
    record: &mut Record,
) -> Result<Response, Fault> {
    let integration = &revision.integration;
    let (head, bytes) = (&request.head, request.bytes.as_slice());
    let (host, path) = (head.host(bytes), head.path(bytes));
    // Services have no operations: what is found is their base path.
    let Err(not_found) = integration.routes.find(host, head.method(), path, request.secure) else {
        return Err(Fault::Denied(Denial::NoResource));
    };
    let Some(routes) = not_found.api else { return Err(Fault::Denied(not_found.denial)) };
    let service = worker.services.get(routes, &worker.pools);
    record.api = Some(Rc::clone(&service.account));
    if not_found.denial == Denial::UnsupportedTransport {
        return Err(Fault::Denied(Denial::UnsupportedTransport));
    }
    let number = integration.services.get(&routes.slot).ok_or(Fault::Denied(Denial::NoApi))?;
    let prefix_len = path.len().saturating_sub(not_found.remainder.len());
    let head = MediatedRequest::of(request, prefix_len);
    let framing = request.head.framing();
    let budget = Budget::default();
    let program = &integration.program;
    let (mut message, flow) = begin(program, *number, head, framing, &budget, record)?;
    let sequences = [flow.request, flow.response, flow.fault];
    if sequences.into_iter().flatten().any(|of| program.body_use(of) != BodyUse::Untouched) {
        // Mediators read no compressed bodies.
        message.head.remove_field("Accept-Encoding");
    }
    let admitted = admission::admit(worker, &revision.live, request, &service, client).await?;
    record.places = admitted.places;
    let run = Run::new(Arc::clone(program), flow, message, budget);
    let environment = RunEnvironment::new(worker, program, Some(integration));
    let (owner, revision) = (worker.this(), Rc::clone(revision));
    let mut session = Session::new(owner, revision, Rc::clone(&request.peer), environment, run);
    let mut waiting = Some(Waiting { client, framing });
    let outcome = session.go(&mut waiting).await?;
    drop(admitted.early_upload);
    conclude(worker, session, outcome, waiting, record).await
}

/// The response of a run, which goes on without its client if something is left to do.
///
/// # Errors
/// The run failed, or its response cannot be held.
async fn conclude<B: RequestBody>(
    worker: &Worker,
    mut session: Session,
    outcome: Outcome,
    mut waiting: Option<Waiting<'_, B>>,
    record: &mut Record,
) -> Result<Response, Fault> {
    let response = match outcome {
        Outcome::Respond(message, source) => {
            deliverable(worker, &mut session, *message, source, &mut waiting).await
        }
        Outcome::Failed(failure) => Err(fault_of(failure)),
        Outcome::Accepted | Outcome::Done => Ok(worker.own_response(202)),
    };
    if session.is_waiting() {
        session.places = std::mem::take(&mut record.places);
        tokio::task::spawn_local(finish(session));
    }
    response
}

/// The message of a request, and the sequences for it.
///
/// # Errors
/// The API has no resource for it, or too many parameters.
fn begin(
    program: &Program,
    service: Service,
    head: MediatedRequest,
    framing: BodyFraming,
    budget: &Budget,
    record: &mut Record,
) -> Result<(Message, Flow), Fault> {
    let (method, target) = (head.method(), head.target());
    let mut message = message(head, framing);
    let handled = |handler: Option<SequenceId>, denial| match handler {
        Some(handler) => Ok(Flow { request: Some(handler), ..Flow::default() }),
        None => Err(Fault::Denied(denial)),
    };
    let flow = match service {
        Service::Proxy(number) => {
            program.proxies().get(number).ok_or(Fault::Denied(Denial::NoApi))?.flow
        }
        // Its responses come back to it, as in Synapse.
        Service::Main(main) => {
            Flow { request: Some(main), response: Some(main), ..Flow::default() }
        }
        Service::Api => match program.resource(&method, &target) {
            Matched::Resource(found) => {
                found.describe(&mut message, budget).map_err(fault_of)?;
                found.resource.flow
            }
            Matched::MethodNotAllowed { handler, allowed, .. } => {
                let allowed = allowed.iter().map(|name| Method::from_bytes(name.as_bytes()));
                record.allow = allowed.collect();
                handled(handler, Denial::MethodNotAllowed)?
            }
            Matched::NoResource { handler, .. } => handled(handler, Denial::NoResource)?,
            Matched::NoApi { handler } => handled(handler, Denial::NoApi)?,
        },
    };
    Ok((message, flow))
}

fn message(head: MediatedRequest, framing: BodyFraming) -> Message {
    use mediation::Head as _;
    let content_type = head.field("Content-Type");
    let format = content_type.map_or(Format::Binary, |content_type| Format::of(&content_type));
    let body = match framing {
        BodyFraming::None | BodyFraming::Length(0) => Body::held(format, Bytes::new()),
        BodyFraming::Length(_) | BodyFraming::Chunked => Body::streaming(format),
    };
    Message::new(Direction::Request, Box::new(head), body)
}

/// The response that a run gives to its client.
///
/// # Errors
/// The body of the request, which it returns, cannot be held.
async fn deliverable<B: RequestBody>(
    worker: &Worker,
    session: &mut Session,
    message: Message,
    source: Source,
    waiting: &mut Option<Waiting<'_, B>>,
) -> Result<Response, Fault> {
    let axis2 = |name| message.properties.get(PropertyScope::Axis2, name);
    let status = axis2("HTTP_SC").and_then(|status| status.text().parse().ok());
    let status = status.filter(|status| (200..600).contains(status));
    // The body of a message that got one of these statuses, or that had it from its upstream, is not sent.
    let status_now = status.or_else(|| {
        message
            .head
            .property(PropertyScope::Axis2, "HTTP_SC")
            .and_then(|status| status.parse().ok())
    });
    let is_bodiless = matches!(status_now, Some(204 | 304))
        || axis2("NO_ENTITY_BODY").is_some_and(|value| value.value().truth());
    let is_streaming = message.body.state() == BodyUse::Untouched;
    let stream = if is_streaming { session.take_stream(source) } else { None };
    let charged = session.holding.clone();
    let held = |bytes| ResponseBody::Held { body: Held::new(bytes), _charged: Some(charged) };
    let body = match stream {
        Some(stream) if !is_bodiless => ResponseBody::Streaming(stream),
        Some(stream) => {
            stream.release(&worker.resources, false);
            ResponseBody::Empty
        }
        None if is_bodiless => ResponseBody::Empty,
        None if is_streaming => held(session.hold(source, waiting).await?.map_err(fault_of)?),
        None => match exchange::written(&message.body) {
            bytes if bytes.is_empty() => ResponseBody::Empty,
            bytes => held(bytes),
        },
    };
    let mut head = match message.head.into_any().downcast::<Head>() {
        Ok(head) => head,
        Err(other) => match other.downcast::<PlainHead>() {
            Ok(own) => Box::new(Head::of_fields(&own)),
            Err(other) => response_head(worker, other),
        },
    };
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

/// The head of a request that is returned to its client: its other fields remain, as in Synapse.
fn response_head(worker: &Worker, request: Box<dyn std::any::Any>) -> Box<Head> {
    use mediation::Head as _;
    let mut head = worker.resources.head();
    let edits = &mut head.edits;
    let mut keep = |name: &str, value: &str| {
        if !REQUEST_FIELDS.iter().any(|dropped| name.eq_ignore_ascii_case(dropped)) {
            edits.append(name.as_bytes(), value.as_bytes());
        }
    };
    if let Ok(request) = request.downcast::<MediatedRequest>() {
        request.fields(&mut keep);
    }
    head
}

/// What a client gets if no sequence handles a failure.
fn fault_of(failure: Failure) -> Fault {
    if let Some(denial) = failure.denial {
        return Fault::Denied(denial);
    }
    Fault::Mediation { code: failure.code.0, reason: failure.to_string() }
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
