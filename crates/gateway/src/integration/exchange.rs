//! One message that mediation sends: from its head and body to the head of the response.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use expression::Budget;
use mediation::{
    Body, Code, Direction, Failure, Format, Message, PlainHead, Properties, PropertyScope, Target,
};
use model::Fault;
use wire::http1::{BodyFraming, Field};

use super::environment::RunEnvironment;
use super::fault_check::{Checked, Checks};
use crate::artefacts::origins::{Address, Configured};
use crate::body::Held;
use crate::body::request_body::RequestBody;
use crate::exchange::fault;
use crate::exchange::held_request::HeldRequest;
use crate::forward::{Balancer, Forwarding, UpstreamResponse};
use crate::message::resources::Resources;
use crate::message::{Head, HeadEdits, Outgoing, Peer, RequestCopy};
use crate::tasks::boxed::boxed;
use crate::upstream_auth::backend_auth;
use crate::worker::Worker;
use crate::worker::api::WorkerApi;
use crate::worker::compiled::Compiled;

/// A message that is ready to be sent.
pub(super) struct Sender {
    head: SentHead,
    /// Direction of the message when it arrived.
    direction: Direction,
    format: Format,
    /// `None`: the message's own.
    method: Option<String>,
    pub(super) peer: Rc<Peer>,
    framing: BodyFraming,
    target: Target,
    environment: RunEnvironment,
    upstream: Option<ApiUpstream>,
    /// By the property `NO_KEEPALIVE`.
    closes: bool,
    /// By the property `POST_TO_URI`.
    is_absolute: bool,
    /// By the property `FORCE_HTTP_1.0`.
    is_http10: bool,
    /// By the property `FORCE_ERROR_ON_SOAP_FAULT`.
    pub(super) checks: Option<Rc<Checks>>,
    /// The body of the response that counts, if it had to be read.
    pub(super) checked: Cell<Option<Box<Checked>>>,
}

/// The endpoints of the operation whose policies run.
#[derive(Clone)]
pub(super) struct ApiUpstream {
    pub(super) api: Rc<WorkerApi>,
    pub(super) balancer: Rc<Balancer>,
    /// The number of the operation.
    pub(super) operation: usize,
    /// The client accepts trailers.
    pub(super) wants_trailers: bool,
}

/// Fields that a request without a body does not have.
const OF_BODIES: [&[u8]; 5] =
    [b"Content-Type", b"Content-Encoding", b"Content-Digest", b"Content-MD5", b"Digest"];

/// The head that a message is sent with.
enum SentHead {
    Request(Box<RequestCopy>),
    /// The head of a response that is sent on, or of a message that mediation made.
    Response(Box<Head>),
}

impl SentHead {
    fn of(head: Box<dyn mediation::Head>) -> Self {
        match head.into_any().downcast::<RequestCopy>() {
            Ok(request) => Self::Request(request),
            Err(other) => Self::Response(match other.downcast::<PlainHead>() {
                Ok(made) => Box::new(Head::of_fields(&made)),
                // There are no others.
                Err(other) => other.downcast().unwrap_or_default(),
            }),
        }
    }

    /// Drops fields about the server from a response that becomes a request. Source: Micro Integrator's
    /// `PassThroughHttpSender`.
    fn drop_origin(&mut self) {
        if let Self::Response(head) = self {
            head.edits.remove(b"Server");
            head.edits.remove(b"Date");
        }
    }

    fn into_head(self) -> Box<dyn mediation::Head> {
        match self {
            Self::Request(request) => request,
            Self::Response(head) => head,
        }
    }

    fn parts(&self) -> (&[u8], &[Field], &HeadEdits) {
        match self {
            Self::Request(request) => (&request.bytes, request.head.fields(), &request.edits),
            Self::Response(head) => (&head.bytes, head.parsed.fields(), &head.edits),
        }
    }

    fn method(&self) -> Option<&[u8]> {
        match self {
            Self::Request(request) => Some(request.head.method_bytes(&request.bytes)),
            Self::Response(_) => None,
        }
    }

    /// The host that the client asked for.
    fn host(&self) -> &[u8] {
        match self {
            Self::Request(request) => request.head.host(&request.bytes),
            Self::Response(_) => &[],
        }
    }
}

impl ApiUpstream {
    fn forward_fields(&self) -> &[String] {
        &self.api.routes().api.forward_fields
    }

    /// The endpoints of a set of this name.
    ///
    /// # Errors
    /// The API has no set of this name, which is the fault of the policy that chose it.
    fn named(&self, name: &str) -> Result<&Rc<Balancer>, Box<Fault>> {
        let sets = &self.api.routes().api.named_upstreams;
        let position = sets.iter().find(|(known, _)| known == name).map(|(_, position)| *position);
        position.and_then(|position| self.api.balancers.get(position)).ok_or_else(|| {
            let reason = format!("there is no endpoint set `{name}` in `x-wso2-endpoints`");
            Fault::Mediation { code: Code::INTERCEPTOR_RESPONSE.0, reason }.into()
        })
    }
}

impl Sender {
    /// `properties`: the message's; `framing`: of the body that is sent; `upstream`: endpoints that it may go to.
    pub(super) fn new(
        environment: RunEnvironment,
        (target, message): (Target, Box<Message>),
        properties: Option<&Properties>,
        peer: &Rc<Peer>,
        framing: BodyFraming,
        upstream: Option<ApiUpstream>,
    ) -> Self {
        let method = target.named_method(properties);
        let mut head = SentHead::of(message.head);
        head.drop_origin();
        let says = |name| {
            let set = properties.and_then(|all| all.get(PropertyScope::Axis2, name));
            set.is_some_and(|value| value.value().truth())
        };
        Self {
            direction: message.direction,
            format: message.body.format(),
            head,
            method,
            peer: Rc::clone(peer),
            framing,
            target,
            environment,
            upstream,
            closes: says("NO_KEEPALIVE"),
            is_absolute: says("POST_TO_URI"),
            is_http10: says("FORCE_HTTP_1.0"),
            checks: None,
            checked: Cell::default(),
        }
    }

    /// Sends it to one target or to all, and waits for the head of the response; of several responses, the first
    /// counts.
    ///
    /// # Errors
    /// Any fault of the last target, or the client's.
    pub(super) async fn run<B: RequestBody>(
        &self,
        worker: &Worker,
        revision: &Compiled,
        body: &mut B,
    ) -> Result<UpstreamResponse, Box<Fault>> {
        if self.target.members.is_empty() {
            return self.run_to(&self.target, worker, revision, body).await;
        }
        // Boxed, as in `run_group`: rare, and large.
        boxed(|| self.run_group(&self.target, worker, revision, body)).await
    }

    /// # Errors
    /// As [`Sender::run`].
    pub(super) async fn run_to<B: RequestBody>(
        &self,
        target: &Target,
        worker: &Worker,
        revision: &Compiled,
        body: &mut B,
    ) -> Result<UpstreamResponse, Box<Fault>> {
        let (address, upstream) = self.address(target, worker)?;
        if has_dot_segment(address.path) {
            let cause = "its path has a `.` or `..` segment".to_owned();
            let authority = target.url.clone();
            return Err(Fault::Unreachable { authority, cause, is_local: false }.into());
        }
        let (bytes, fields, edits) = self.head.parts();
        let mut own_edits = HeadEdits::default();
        let query = address.query.map(str::as_bytes);
        // A member of a group may have a method of its own.
        let method = target.method.as_deref().map_or(self.method(), str::as_bytes);
        let drops_body = self.drops_body(method, (target, upstream));
        let credential = &address.balancer.credential;
        let authorization = target.authorization.as_ref().filter(|_| credential.is_none());
        let edits = if authorization.is_some() || drops_body {
            own_edits.clone_from(edits);
            if let Some(value) = authorization {
                own_edits.remove(b"Authorization");
                own_edits.append(b"Authorization", value.as_bytes());
            }
            OF_BODIES.iter().filter(|_| drops_body).for_each(|name| own_edits.remove(name));
            &own_edits
        } else {
            edits
        };
        let path = address.path.as_bytes();
        let outgoing = Outgoing {
            bytes,
            fields,
            framing: match target.body.as_deref() {
                _ if drops_body => BodyFraming::None,
                Some(own) => framing(own),
                None => self.framing,
            },
            host: self.head.host(),
            wants_trailers: upstream.is_some_and(|upstream| upstream.wants_trailers),
            authority: target.host.as_deref().map(str::as_bytes),
            query,
            closes: self.closes,
            is_absolute: self.is_absolute,
            is_http10: self.is_http10,
            ..Outgoing::own(method, path, edits, &self.peer)
        };
        let (retries, now_us) = (&worker.tally.retries, worker.resources.now_us());
        let is_judged_later = self.checks.is_some() && upstream.is_none();
        // Until the body was read: it may have a fault.
        let probe = Cell::new(None);
        let forwarding = Forwarding {
            operation: upstream.map_or(0, |upstream| upstream.operation),
            forward_fields: upstream.map_or(&[], ApiUpstream::forward_fields),
            judged_later: is_judged_later.then_some(&probe),
            ..revision.live.forwarding(retries, &address.balancer, now_us)
        };
        let mut response = if drops_body {
            // Boxed, so that it does not enlarge the future of exchanges with a body.
            boxed(|| self.run_without_body((worker, revision), &forwarding, &outgoing, body))
                .await?
        } else {
            backend_auth::forward(worker, revision, &forwarding, &outgoing, body).await?
        };
        if let Some(checks) = &self.checks {
            boxed(|| self.check(checks, &mut response, (worker, revision))).await;
        }
        if is_judged_later {
            let (code, reason) = (Code::SOAP_FAULT.0, String::new());
            let fault = self.has_fault().then_some(Fault::Mediation { code, reason });
            let now_us = worker.resources.coarse_us();
            address.balancer.judged(response.head.status(), fault.as_ref(), now_us);
        }
        Ok(response)
    }

    /// # Errors
    /// As [`Sender::run`].
    async fn run_without_body<B: RequestBody>(
        &self,
        (worker, revision): (&Worker, &Compiled),
        forwarding: &Forwarding<'_>,
        outgoing: &Outgoing<'_>,
        body: &mut B,
    ) -> Result<UpstreamResponse, Box<Fault>> {
        let mut none = HeldRequest { client: body, held: Held::new(Bytes::new()) };
        let sent = backend_auth::forward(worker, revision, forwarding, outgoing, &mut none);
        let mut response = sent.await?;
        none.finish_upload(&worker.resources, &mut response, revision.live.stall_ms).await;
        Ok(response)
    }

    /// Whether the message goes without its body, which stays unread: with `GET`, unless it is a client's own to an
    /// API's endpoints. Source: Micro Integrator's `TargetRequestFactory`.
    fn drops_body(
        &self,
        method: &[u8],
        (target, upstream): (&Target, Option<&ApiUpstream>),
    ) -> bool {
        let is_own = upstream.is_some() && self.method.is_none() && target.method.is_none();
        self.framing != BodyFraming::None && method == b"GET" && !is_own
    }

    /// The method: the one set by a mediator, else the request's own.
    pub(super) fn method(&self) -> &[u8] {
        let default: &[u8] = if self.framing == BodyFraming::None { b"GET" } else { b"POST" };
        match &self.method {
            Some(named) => named.as_bytes(),
            None => self.head.method().unwrap_or(default),
        }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn environment(&self) -> &RunEnvironment {
        &self.environment
    }

    /// The environment and the endpoints of the run that sends it.
    pub(super) fn surroundings(&self) -> (RunEnvironment, Option<ApiUpstream>) {
        (self.environment.clone(), self.upstream.clone())
    }

    /// Releases lent heads.
    pub(super) fn release(self, resources: &Resources) {
        match self.head {
            SentHead::Request(request) => resources.release_copy(request),
            SentHead::Response(head) => resources.release_head(head),
        }
    }

    /// Where a target is; for the operation's own endpoints, those as well.
    fn address<'t>(
        &'t self,
        target: &'t Target,
        worker: &Worker,
    ) -> Result<(Address<'t>, Option<&'t ApiUpstream>), Box<Fault>> {
        if let Some(upstream) = &self.upstream
            && (target.url.is_empty() || target.url.starts_with(['/', '?']))
        {
            let balancer = match &target.set {
                Some(name) => upstream.named(name)?,
                None => &upstream.balancer,
            };
            return Ok((Address::below(Rc::clone(balancer), &target.url), Some(upstream)));
        }
        let environment = &self.environment;
        let program = environment.program();
        let configured = target.endpoint.and_then(|number| {
            let id = Some(number).filter(|_| environment.integration.is_some());
            let (endpoint, timeout_ms) = (program.endpoint_at(number)?, target.timeout_ms);
            Some(Configured { id, endpoint, timeout_ms })
        });
        let is_current = environment.integration.as_ref().is_none_or(|of| worker.serves(of));
        let address = worker.origins.find(&target.url, configured, is_current, &worker.pools);
        let unreachable = |reason: &str| Fault::Unreachable {
            authority: target.url.clone(),
            cause: reason.to_owned(),
            is_local: false,
        };
        Ok((address.map_err(unreachable)?, None))
    }

    /// The message as it was, for the error handler. `bytes`: its body, if the run has held it.
    pub(super) fn into_message(self, bytes: Option<Bytes>) -> Box<Message> {
        let body = match bytes {
            Some(bytes) => Body::held(self.format, bytes),
            None => super::body(self.framing, self.format),
        };
        let body = body.decoded_up_to(self.environment.body_bytes_max);
        Message::new(self.direction, self.head.into_head(), body)
    }
}

/// Whether a server could read the path as another one: clients' values in addresses are not checked otherwise. As in
/// clients' own paths, escaped dots and separators count.
fn has_dot_segment(path: &str) -> bool {
    // Usually there are none of these.
    let has_any = memchr::memchr3(b'.', b'%', b'\\', path.as_bytes()).is_some();
    if !has_any || !path.contains("/.") && !path.contains(['%', '\\']) {
        return false;
    }
    let plain = path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/");
    let plain = plain.replace("%5c", "/").replace('\\', "/");
    // Where some servers cut a segment off, after they have decoded it.
    let plain = plain.replace("%3b", ";").replace("%3f", ";").replace("%23", ";");
    let mut segments = plain.split('/').filter_map(|segment| segment.split(';').next());
    segments.any(|segment| matches!(segment, "." | ".."))
}

/// A response as a message for mediation. The body streams unless it is empty.
pub(super) fn response(head: Box<Head>, is_empty: bool, body_bytes_max: usize) -> Box<Message> {
    use mediation::Head as _;
    let format = head.field("Content-Type").map_or(Format::Binary, |of| Format::of(&of));
    let body = if is_empty { Body::held(format, Bytes::new()) } else { Body::streaming(format) };
    Message::new(Direction::Response, head, body.decoded_up_to(body_bytes_max))
}

/// A fault as mediation's error handlers see it. Addresses and causes are in its detail: `ERROR_MESSAGE` often goes to
/// clients.
pub(super) fn failure(fault: &Fault) -> Failure {
    let failure = if let Fault::Denied(denial) = fault {
        Failure::denied(*denial, denial.row().description)
    } else {
        Failure::new(Code(fault.code()), fault::description(fault.code()))
    };
    failure.with_detail(fault.to_string())
}

/// The framing of a body in memory.
pub(super) fn framing(bytes: &[u8]) -> BodyFraming {
    match bytes.len() {
        0 => BodyFraming::None,
        len => BodyFraming::Length(len as u64),
    }
}

/// A body that its run has written already.
pub(super) fn written(body: &Body) -> Bytes {
    body.bytes(&Budget::default()).ok().flatten().unwrap_or_default()
}
