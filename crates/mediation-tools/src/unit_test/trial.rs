//! Runs a test case.

use std::cell::RefCell;
use std::sync::Arc;

use expression::Budget;
use mediation::{
    Answer, Asked, Body, Code, Direction, Environment, Exchange, Failure, Flow, Format, LogLevel,
    Matched, Memory, Message, PlainHead, Program, Properties, PropertyScope, PropertyValue, Served,
    View,
};
use model::Place;

use super::compare::is_same;
use super::mock::{self, Instead, MockService, Sent};
use super::{Actual, Assertion, Case, HARNESS, Subject};
use crate::bench::{Bench, BenchHead, perform};

/// State that the cases of a unit test share.
pub struct Setting<'s> {
    pub program: Arc<Program>,
    pub subject: Subject,
    pub mocks: Vec<MockService>,
    /// The clock and the registry.
    pub environment: &'s dyn Environment,
}

/// How a test case ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Empty: it passed.
    pub problems: Vec<Problem>,
    /// Lines of the log mediators, and requests that were not mocked.
    pub log: Vec<String>,
}

/// A failed assertion, or why nothing could be asserted.
#[derive(Debug, Default)]
pub struct Problem {
    pub place: Option<Place>,
    /// Without a full stop.
    pub what: String,
    /// The author's words.
    pub message: String,
    /// The expected and the actual value.
    pub difference: Option<(String, String)>,
}

/// Result of the message.
#[derive(Default)]
struct Ended {
    /// The response, or the message at the end of the sequence.
    message: Option<Box<Message>>,
    failure: Option<Failure>,
    /// Response to a request without a resource.
    status: Option<u16>,
}

impl Setting<'_> {
    /// Runs a case.
    #[must_use]
    pub fn run(&self, case: &Case) -> Outcome {
        let host = Host { setting: self, log: RefCell::default(), response: RefCell::default() };
        let ended = self.ended(case, &host);
        let mut log = host.log.into_inner();
        let problems = match ended {
            Ok(ended) => {
                let unhandled = ended.failure.as_ref().map(unhandled);
                log.extend(unhandled.clone());
                let problems = self.asserted(case, &ended);
                match unhandled {
                    // Nothing is left to assert.
                    Some(what) if self.subject.is_sequence() => {
                        vec![Problem { what, ..Problem::default() }]
                    }
                    // The client gets 500, which nothing asserts.
                    Some(what) if !case.asserts_status() => {
                        let unhandled = Problem { what, ..Problem::default() };
                        problems.into_iter().chain([unhandled]).collect()
                    }
                    _ => problems,
                }
            }
            Err(what) => vec![Problem { what, ..Problem::default() }],
        };
        Outcome { problems, log }
    }

    fn ended(&self, case: &Case, host: &Host<'_>) -> Result<Ended, String> {
        let mut message = self.message(case)?;
        message.arrival.secure = case.input.secure;
        let (flow, status) =
            self.flow(case, &mut message).map_err(|failure| failure.to_string())?;
        let Some(flow) = flow else { return Ok(Ended { status, ..Ended::default() }) };
        let failure = perform((Arc::clone(&self.program), flow), message, host).err();
        Ok(Ended { message: host.response.take(), failure, status })
    }

    /// The sequences that the message runs through. `None`: the status that the client gets instead.
    fn flow(
        &self,
        case: &Case,
        message: &mut Message,
    ) -> Result<(Option<Flow>, Option<u16>), Failure> {
        let of = |request| Flow { request, ..Flow::default() };
        Ok(match &self.subject {
            Subject::Sequence(_) => (self.program.sequence(HARNESS).map(|id| of(Some(id))), None),
            Subject::Proxy(name) => {
                let mut all = self.program.proxies().iter().enumerate();
                let proxy = all.find(|(_, proxy)| proxy.name == *name);
                message.arrival.service = proxy.map(|(number, _)| Served::Proxy(number));
                or_status(proxy.map(|(_, proxy)| proxy.flow), 404)
            }
            Subject::Api(_) => {
                let method = self.method(case);
                let asked = Asked {
                    method: &method,
                    secure: case.input.secure,
                    head: &*message.head,
                    has_body: !message.body.is_empty(),
                };
                let found = self.program.resource(&asked, &self.target(case));
                match found {
                    Matched::Resource(found) => {
                        found.describe(message, &Budget::large())?;
                        (Some(found.resource.flow), None)
                    }
                    Matched::MethodNotAllowed { handler, .. } => {
                        or_status(handler.map(|handler| of(Some(handler))), 405)
                    }
                    Matched::NotAdmitted => or_status(None, 400),
                    Matched::NoResource { handler, .. } | Matched::NoApi { handler } => {
                        or_status(handler.map(|handler| of(Some(handler))), 404)
                    }
                }
            }
        })
    }

    /// Path and query of the request.
    fn target(&self, case: &Case) -> String {
        let path = case.input.path.as_deref().unwrap_or_default();
        let rest = path.trim_start_matches('/');
        let slash = if rest.is_empty() || rest.starts_with('?') { "" } else { "/" };
        format!("{}{slash}{rest}", self.prefix())
    }

    fn method(&self, case: &Case) -> String {
        let is_read = case.input.payload.is_none() && !matches!(self.subject, Subject::Proxy(_));
        let usual = if is_read { "GET" } else { "POST" };
        case.input.method.clone().unwrap_or_else(|| usual.to_owned())
    }

    /// The service's own path.
    fn prefix(&self) -> String {
        match &self.subject {
            Subject::Sequence(_) => String::new(),
            Subject::Proxy(name) => format!("/services/{name}"),
            Subject::Api(key) => {
                let api = self.program.apis().iter().find(|api| api.key() == *key);
                api.map(|api| api.base_path.clone()).unwrap_or_default()
            }
        }
    }

    fn message(&self, case: &Case) -> Result<Box<Message>, String> {
        let payload = case.input.payload.as_deref().unwrap_or_default();
        let of_scope = |wanted: PropertyScope| {
            let all = case.input.properties.iter().filter(move |(scope, ..)| *scope == wanted);
            all.map(|(_, name, value)| (name.clone(), value.clone()))
        };
        let mut fields: Vec<_> = of_scope(PropertyScope::Transport).collect();
        let is_type = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("content-type");
        let declared = fields.iter().find(is_type).map(|(_, value)| Format::of(value));
        let format = declared.unwrap_or_else(|| Format::guess(payload.as_bytes()));
        if declared.is_none() && !payload.is_empty() {
            fields.push(("Content-Type".to_owned(), format.content_type().to_owned()));
        }
        let plain = PlainHead { method: self.method(case), target: self.target(case), fields };
        let head = BenchHead { plain, prefix_len: self.prefix().len(), status: None };
        let body = Body::held(format, payload.as_bytes().to_vec());
        let mut message = Message::new(Direction::Request, Box::new(head), body);
        // A service is tested from outside, where only header fields can be set.
        let scopes: &[PropertyScope] = match self.subject {
            Subject::Sequence(_) => &[PropertyScope::Synapse, PropertyScope::Axis2],
            Subject::Proxy(_) | Subject::Api(_) => &[],
        };
        for scope in scopes {
            for (name, value) in of_scope(*scope) {
                let value = PropertyValue::new(value);
                let set = message.set(*scope, &name, value, &Budget::large());
                set.map_err(|failure| failure.to_string())?;
            }
        }
        Ok(message)
    }

    fn asserted(&self, case: &Case, ended: &Ended) -> Vec<Problem> {
        case.assertions.iter().filter_map(|assertion| self.problem(assertion, ended)).collect()
    }

    /// The problem, if there is one.
    fn problem(&self, assertion: &Assertion, ended: &Ended) -> Option<Problem> {
        let source = &assertion.source;
        let (what, difference) = match (self.actual(assertion, ended), &assertion.expected) {
            (Err(reason), _) => (format!("{source}: {reason}"), None),
            (Ok(Some(_)), None) => return None,
            (Ok(Some(actual)), Some(expected)) if is_same(&actual, expected) => return None,
            (Ok(None), None) => (format!("{source} does not exist"), None),
            (Ok(None), Some(expected)) => {
                (format!("{source} does not exist"), Some((expected.clone(), String::new())))
            }
            (Ok(Some(actual)), Some(expected)) => {
                (format!("{source} differs"), Some((expected.clone(), actual)))
            }
        };
        let (place, message) = (Some(assertion.place), assertion.message.clone());
        Some(Problem { place, what, message, difference })
    }

    /// `None` if it does not exist.
    fn actual(&self, assertion: &Assertion, ended: &Ended) -> Result<Option<String>, String> {
        let is_sequence = self.subject.is_sequence();
        match &assertion.actual {
            Actual::Status | Actual::Version if is_sequence => {
                Err("can be asserted of a proxy or an API only".to_owned())
            }
            Actual::Status => Ok(Some(ended.status().to_string())),
            Actual::Version => Ok(Some("HTTP/1.1".to_owned())),
            Actual::Body => {
                let Some(message) = &ended.message else { return Ok(None) };
                let body =
                    if is_sequence { payload(message) } else { body(message, ended.status()) };
                body.map_err(|failure| failure.to_string())
            }
            Actual::Expression(expression) => {
                let is_inner = ["$ctx:", "$axis2:", "get-property("];
                if !is_sequence
                    && is_inner.iter().any(|prefix| assertion.source.starts_with(prefix))
                {
                    return Err("can be asserted of a sequence only".to_owned());
                }
                let Some(message) = &ended.message else { return Ok(None) };
                let budget = Budget::large();
                let view = View::new(message, &[], (&self.program, self.environment), &budget);
                match expression.evaluate_within(&view, &budget) {
                    Ok(value) if value.is_null() => Ok(None),
                    Ok(value) => Ok(Some(value.text().into_owned())),
                    Err(expression::Error::Missing(_)) => Ok(None),
                    Err(error) => Err(error.to_string()),
                }
            }
        }
    }
}

/// The status is for a request without sequences only: a run without a response is 202.
fn or_status(flow: Option<Flow>, status: u16) -> (Option<Flow>, Option<u16>) {
    let status = flow.is_none().then_some(status);
    (flow, status)
}

fn unhandled(failure: &Failure) -> String {
    let place = failure.place.as_deref().map(|place| format!("{place}: ")).unwrap_or_default();
    format!("no error handler responds to: {place}{failure}")
}

impl Ended {
    /// The status of the response.
    fn status(&self) -> u16 {
        let Some(message) = &self.message else {
            let failed = self.failure.as_ref().map(|_| 500);
            return failed.or(self.status).unwrap_or(202);
        };
        message.status()
    }
}

/// The payload of a message that is not sent: without its envelope.
fn payload(message: &Message) -> Result<Option<String>, Failure> {
    let budget = Budget::large();
    let is_markup = matches!(message.body.format(), Format::Xml | Format::Soap11 | Format::Soap12);
    if is_markup && !message.body.is_empty() {
        let payload = message.body.payload(&budget)?;
        let written = payload.map(mediation::serialise);
        return Ok(written.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
    }
    body(message, 200)
}

/// The body that a client gets.
fn body(message: &Message, status: u16) -> Result<Option<String>, Failure> {
    let no_body = message.properties.get(PropertyScope::Axis2, "NO_ENTITY_BODY");
    let is_empty = no_body.is_some_and(|value| value.value().truth());
    if matches!(status, 204 | 304) || is_empty || message.body.is_empty() {
        return Ok(None);
    }
    Ok(Some(message.body.text(&Budget::large())?.into_owned()))
}

/// Mock services in place of a network.
struct Host<'h> {
    setting: &'h Setting<'h>,
    log: RefCell<Vec<String>>,
    response: RefCell<Option<Box<Message>>>,
}

impl Host<'_> {
    /// The response of the target, or of the first of its members that is mocked.
    fn answer(
        &self,
        (method, body): (&str, &str),
        exchange: &Exchange,
    ) -> Result<Box<Message>, Instead> {
        let (program, target) = (&self.setting.program, &exchange.target);
        let members = target.members.iter();
        let mut instead = None;
        for member in members.chain(target.members.is_empty().then_some(target)) {
            let endpoint = member.endpoint.and_then(|id| Some((id, program.endpoint_at(id)?)));
            let sent = Sent {
                endpoint: endpoint.and_then(|(id, _)| program.endpoint_name(id)),
                postfix: mock::postfix(member, endpoint.map(|(_, endpoint)| &endpoint.kind)),
                method,
                url: &member.url,
                message: &exchange.message,
                body,
            };
            match mock::answer(&self.setting.mocks, &sent) {
                Ok(response) => return Ok(response),
                Err(other) => instead = instead.or(Some(other)),
            }
        }
        let empty = || Instead::Unmocked("the endpoint has no members".to_owned());
        Err(instead.unwrap_or_else(empty))
    }
}

impl Bench for Host<'_> {
    fn exchange(&self, exchange: Exchange, properties: Option<&Properties>) -> Option<Answer> {
        let method = exchange.method(properties);
        let sent =
            exchange.sends_body(properties).then(|| exchange.message.body.text(&Budget::large()));
        let body = sent.transpose().ok().flatten().unwrap_or_default();
        let answer = self.answer((&method, &body), &exchange);
        if let Err(instead) = &answer {
            self.log.borrow_mut().push(instead.note().to_owned());
        }
        Some(match answer {
            Ok(response) => Answer::Response(response),
            Err(Instead::NotFound(_)) => Answer::Response(mock::not_found()),
            Err(Instead::Unmocked(note)) => {
                let failure = Failure::new(Code::NOT_CONNECTED, note);
                Answer::Failed(failure, Some(exchange.message))
            }
        })
    }

    fn respond(&self, message: Box<Message>) {
        *self.response.borrow_mut() = Some(message);
    }

    /// Without a response, the status is 202 anyway.
    fn accept(&self) {}
}

impl Environment for Host<'_> {
    fn unix_ms(&self) -> i64 {
        self.setting.environment.unix_ms()
    }

    fn config(&self, name: &str) -> Option<std::borrow::Cow<'_, str>> {
        self.setting.environment.config(name)
    }

    fn registry(&self, path: &str, property: Option<&str>) -> Option<std::borrow::Cow<'_, str>> {
        self.setting.environment.registry(path, property)
    }

    fn variable(&self, scope: PropertyScope, name: &str) -> Option<std::borrow::Cow<'_, str>> {
        self.setting.environment.variable(scope, name)
    }

    fn memory(&self) -> Option<&Memory> {
        self.setting.environment.memory()
    }

    fn log(&self, level: LogLevel, line: &str) {
        self.log.borrow_mut().push(format!("{} {line}", level.as_str()));
    }
}
