//! Policies of APIs: sequences of mediation around the forwarding of a request.
//!
//! An operation without policies never comes here. One with policies has a flow of mediation whose endpoints are those
//! of the operation. Policies that touch heads alone leave bodies streaming, both ways.

use std::rc::Rc;
use std::sync::Arc;

use expression::{Budget, json};
use mediation::{
    CLAIMS, Direction, Flow, Format, INVOCATION, Message, OperationFlow, PropertyScope,
    PropertyValue, Run,
};
use model::{Api, Fault, KeyType};
use stages::authenticate;

use super::environment::RunEnvironment;
use super::exchange::ApiUpstream;
use super::response::deliverable;
use super::session::{Outcome, Session};
use super::waiting::Waiting;
use super::{Start, budget, message};
use crate::account::Record;
use crate::artefacts::fault_of;
use crate::artefacts::policies::Served;
use crate::body::Source as _;
use crate::exchange::Exchange;
use crate::exchange::response::{Body, Response};
use crate::exchange::route::Route;
use crate::message::claims::claims_of;
use crate::message::{Request, RequestCopy};
use crate::own_requests::own_body::OwnBody;
use crate::tasks::boxed::boxed;
use crate::worker::Worker;
use crate::worker::compiled::{Compiled, Live};

/// The start of a request to an operation with policies.
///
/// # Errors
/// Its properties are larger than the budget.
pub(super) fn start(
    exchange: &Exchange<'_>,
    revision: &Compiled,
    (route, number): (&Route<'_>, usize),
    head: Box<RequestCopy>,
) -> Result<Start, Box<Fault>> {
    let Exchange { worker, request, .. } = *exchange;
    let found = revision.policies.find(route.api.routes(), number);
    // Both were compiled from one snapshot.
    let (served, operation) = found.ok_or_else(|| Fault::Mediation {
        code: 0,
        reason: "the policies were not compiled".to_owned(),
    })?;
    let budget = budget(&revision.live);
    let message =
        request_message(request, (route, number), head, (operation, &revision.live), &budget);
    let message = message.map_err(fault_of)?;
    let upstream = ApiUpstream {
        api: Rc::clone(&route.api),
        balancer: Rc::clone(route.balancer()?),
        operation: number,
        wants_trailers: crate::message::wants_trailers(request),
    };
    let environment = RunEnvironment::new(worker, &revision.live, &served.policies.program, None);
    Ok(Start { flow: operation.flow, message, budget, environment, upstream: Some(upstream) })
}

fn session(
    worker: &Worker,
    revision: &Rc<Compiled>,
    request: &Request,
    served: &Served,
    run: Box<Run>,
) -> Box<Session> {
    let environment = RunEnvironment::new(worker, &revision.live, &served.policies.program, None);
    let (revision, peer) = (Rc::clone(revision), Rc::clone(&request.peer));
    Session::new(worker.this(), revision, peer, environment, run)
}

/// The message of a request, with the properties that policies read.
fn request_message(
    request: &Request,
    (to, number): (&Route<'_>, usize),
    head: Box<RequestCopy>,
    (operation, live): (OperationFlow, &Live),
    budget: &Budget,
) -> Result<Box<Message>, mediation::Failure> {
    let api = &to.api.routes().api;
    let claims = (operation.reads_claims && to.has_token).then(|| match &to.session {
        Some(session) => claims_of(session.access_token.as_bytes()),
        None => claims(request, &api.auth_header),
    });
    let target = operation.reads_invocation.then(|| head.head.target(&head.bytes).to_vec());
    let mut message = message(head, request.head.framing(), live.held_body_bytes_max);
    message.arrival.secure = request.secure;
    if let Some(claims) = claims.flatten() {
        let claims = PropertyValue::Json(Arc::new(claims));
        message.set(PropertyScope::Synapse, CLAIMS, claims, budget)?;
    }
    if let Some(target) = target {
        let invocation =
            PropertyValue::Json(Arc::new(invocation(request, &target, (to, number), api)));
        message.set(PropertyScope::Synapse, INVOCATION, invocation, budget)?;
    }
    if operation.has_templates {
        describe(&mut message, (to, number), budget)?;
    }
    Ok(message)
}

/// The claims of the token, which was verified.
fn claims(request: &Request, field: &str) -> Option<json::Document<'static>> {
    let field = request.head.find_name(&request.bytes, field.as_bytes())?;
    let value = field.value.of(&request.bytes);
    let token = authenticate::bearer(value).or_else(|_| authenticate::bound(value)).ok()?;
    claims_of(token)
}

/// Data about the request, besides its parts, for an interceptor service. Source: Choreo Connect's `InvocationContext`;
/// names of Envoy's clusters do not apply here.
fn invocation(
    request: &Request,
    target: &[u8],
    (to, number): (&Route<'_>, usize),
    api: &Api,
) -> json::Document<'static> {
    let (head, bytes) = (&request.head, request.bytes.as_slice());
    let mut context = json::Builder::new();
    context.begin_object();
    let mut text = |name: &str, value: &[u8]| {
        context.key(name).string(&String::from_utf8_lossy(value));
    };
    if let Some(id) = head.find_name(bytes, b"x-request-id") {
        text("requestId", id.value.of(bytes));
    }
    text("scheme", if request.secure { b"https" } else { b"http" });
    text("apiName", api.name.as_bytes());
    text("apiVersion", api.version.as_bytes());
    text("vhost", head.host(bytes));
    text("method", head.method_bytes(bytes));
    text("basePath", api.base_path.as_bytes());
    text("path", target);
    let forwarded = head.find_name(bytes, b"x-forwarded-for").filter(|_| request.peer.trusted);
    match forwarded {
        Some(field) => text("source", field.value.of(bytes)),
        None => text("source", request.peer.address.to_string().as_bytes()),
    }
    if let Some(operation) = api.operations.get(number) {
        let same = api.operations.iter().filter(|other| other.template == operation.template);
        let methods: Vec<_> = same.map(|operation| operation.method.as_str()).collect();
        text("supportedMethods", methods.join(" ").as_bytes());
        let template = operation.template.as_str();
        text("pathTemplate", if template.is_empty() { b"/" } else { template.as_bytes() });
    }
    if let Some(key_type) = to.key_type {
        let key_type = match key_type {
            KeyType::Production => "PRODUCTION",
            KeyType::Sandbox => "SANDBOX",
        };
        let field = to.has_token.then_some(api.auth_header.as_bytes());
        let field = field.and_then(|name| head.find_name(bytes, name));
        let token = field.and_then(|field| authenticate::bearer(field.value.of(bytes)).ok());
        context.key("authenticationContext").begin_object();
        context.key("tokenType").string("JWT").key("keyType").string(key_type);
        context.key("token").string(&String::from_utf8_lossy(token.unwrap_or_default())).end();
    }
    context.end();
    context.finish()
}

/// WSO2's properties of the API and the operation, and the parameters of the path.
fn describe(
    message: &mut Message,
    (to, number): (&Route<'_>, usize),
    budget: &Budget,
) -> Result<(), mediation::Failure> {
    let api = &to.api.routes().api;
    let Some(operation) = api.operations.get(number) else { return Ok(()) };
    let texts = [
        ("API_NAME", api.name.as_str()),
        ("SYNAPSE_REST_API_VERSION", &api.version),
        ("REST_API_CONTEXT", &api.base_path),
        ("api.ut.resource", &operation.template),
        ("api.ut.HTTP_METHOD", operation.method.as_str()),
    ];
    for (name, text) in texts {
        message.set(PropertyScope::Synapse, name, PropertyValue::new(text), budget)?;
    }
    let remainder = String::from_utf8_lossy(to.remainder);
    for (name, value) in mediation::path_variables(&operation.template, &remainder) {
        let name = format!("uri.var.{name}");
        message.set(PropertyScope::Synapse, &name, PropertyValue::new(value), budget)?;
    }
    Ok(())
}

/// Replaces a fault by its response, through the policies for it, if there are any. If one of them fails, the response
/// remains as it is.
pub(crate) async fn mediate_fault(
    exchange: &mut Exchange<'_>,
    revision: &Rc<Compiled>,
    responded: &mut Result<Response, Box<Fault>>,
) {
    if let Err(fault) = responded
        && handle_fault(&exchange.record, fault)
        && let Some(own) = exchange.fault(fault, revision.live.fault_status)
    {
        // Boxed, so that it does not enlarge every task.
        *responded = Ok(boxed(|| mediate_own(exchange, revision, own)).await);
    }
}

/// Whether policies look at the response to a fault.
fn handle_fault(record: &Record, fault: &Fault) -> bool {
    if *fault == Fault::ClientLeft {
        return false;
    }
    let operation = record.api.as_ref().zip(record.operation);
    let operation = operation.and_then(|(api, at)| api.routes.api.operations.get(at));
    let policies = operation.and_then(|operation| operation.policies.as_ref());
    policies.is_some_and(|policies| !policies.fault.is_empty())
}

async fn mediate_own(
    exchange: &Exchange<'_>,
    revision: &Rc<Compiled>,
    response: Response,
) -> Response {
    let Exchange { worker, request, record, .. } = exchange;
    let bytes = match &response.body {
        Body::Held(body) => bytes::Bytes::copy_from_slice(body.data()),
        Body::Empty | Body::Streaming(_) => bytes::Bytes::new(),
    };
    let found = record.api.as_ref().zip(record.operation);
    let found = found.and_then(|(api, at)| revision.policies.find(&api.routes, at));
    let Some((served, OperationFlow { fault: Some(sequence), .. })) = found else {
        return response;
    };
    let (head, budget) = (response.head.clone(), budget(&revision.live));
    let mut message =
        Message::new(Direction::Response, head, mediation::Body::held(Format::Json, bytes));
    message.arrival.secure = request.secure;
    let code = PropertyValue::Integer(i64::from(record.code.unwrap_or_default()));
    if message.set(PropertyScope::Synapse, "ERROR_CODE", code, &budget).is_err() {
        return response;
    }
    let flow = Flow { request: Some(sequence), ..Flow::default() };
    let run = Run::new(Arc::clone(&served.policies.program), flow, message, budget);
    let mut session = session(worker, revision, request, served, run);
    let mut nobody = None::<Waiting<'_, OwnBody>>;
    let mediated = match session.go(&mut nobody).await {
        Ok(Outcome::Respond(message, source)) => {
            deliverable(worker, &mut session, message, source, &mut nobody).await
        }
        Ok(Outcome::Failed(failure)) => Err(fault_of(failure)),
        Ok(Outcome::Accepted | Outcome::Done) => return response,
        Err(fault) => Err(fault),
    };
    mediated.unwrap_or_else(|fault| {
        tracing::warn!("a policy for faults failed: {fault}");
        response
    })
}
