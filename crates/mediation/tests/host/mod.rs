//! A host without sockets: endpoints answer from a script, and time passes when nothing else happens.

#![allow(dead_code, reason = "each test uses a part")]

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use penstock_mediation::{
    Answer, Ask, AskId, Body, BodyUse, Code, Compiler, Direction, Environment, Event, Exchange,
    Failure, Flow, Format, LogLevel, Memory, Message, Origin, PlainHead, Program, Run, Source,
    Target,
};
use xpath::Budget;

/// Bodies of responses, which stream as long as nothing reads them.
#[derive(Default)]
struct Streams(BTreeMap<Source, Bytes>);

impl Streams {
    /// Lets the body of the response to `ask` stream.
    fn take(&mut self, ask: AskId, answer: &mut Answer) {
        let Answer::Response(response) = answer else { return };
        let bytes = response.body.bytes(&Budget::large()).unwrap().unwrap_or_default();
        if !bytes.is_empty() {
            response.body = Body::streaming(response.body.format());
            self.0.insert(Source::Response(ask), bytes);
        }
    }

    fn read(&mut self, source: Source) -> Option<Bytes> {
        self.0.remove(&source)
    }

    /// Gives a message that leaves the run its body, unless that was read before.
    fn hold(&mut self, message: &mut Message, source: Source) {
        if message.body.state() == BodyUse::Untouched
            && let Some(bytes) = self.read(source)
        {
            message.hold(bytes);
        }
    }
}

#[derive(Default)]
pub(crate) struct World {
    log: RefCell<Vec<String>>,
    /// Since the start of the test, in milliseconds.
    time: Cell<i64>,
    memory: Memory,
    has_id: bool,
}

impl World {
    pub(crate) fn of(program: &Program) -> Self {
        Self { memory: Memory::new(program), ..Self::default() }
    }

    pub(crate) fn with_id() -> Self {
        Self { has_id: true, ..Self::default() }
    }

    pub(crate) fn advance(&self, ms: i64) {
        self.time.set(self.time.get() + ms);
    }
}

impl Environment for World {
    fn unix_ms(&self) -> i64 {
        1_700_000_000_000 + self.time.get()
    }

    /// Only sent messages have one, unless the run has one, too.
    fn message_id(&self, number: u32) -> Option<Cow<'_, str>> {
        (number > 0 || self.has_id).then(|| format!("urn:uuid:{number}").into())
    }

    fn memory(&self) -> Option<&Memory> {
        Some(&self.memory)
    }

    fn log(&self, level: LogLevel, line: &str) {
        let mark = if level == LogLevel::Debug { "debug: " } else { "" };
        self.log.borrow_mut().push(format!("{mark}{line}"));
    }
}

/// The artefacts as a program, and their diagnostics.
pub(crate) fn compile(artefacts: &str) -> (Program, Vec<String>) {
    let text =
        format!("<definitions xmlns=\"http://ws.apache.org/ns/synapse\">{artefacts}</definitions>");
    let document = xml::Document::parse(text.as_bytes()).unwrap();
    let origin = Origin { file: Path::new("test.xml"), document: &document };
    let (program, diagnostics) = Compiler::compile(&[origin]);
    (program, diagnostics.iter().map(ToString::to_string).collect())
}

#[track_caller]
pub(crate) fn program(artefacts: &str) -> Arc<Program> {
    let (program, found) = compile(artefacts);
    assert!(found.is_empty(), "{}", found.join("\n"));
    Arc::new(program)
}

#[track_caller]
pub(crate) fn diagnostics(artefacts: &str) -> Vec<String> {
    compile(artefacts).1
}

pub(crate) fn message(direction: Direction, format: Format, body: &str) -> Box<Message> {
    let head = PlainHead {
        method: "POST".to_owned(),
        target: "/orders".to_owned(),
        fields: vec![("Content-Type".to_owned(), format.content_type().to_owned())],
    };
    Message::new(direction, Box::new(head), Body::held(format, body.as_bytes().to_vec()))
}

fn format(body: &str) -> Format {
    if body.starts_with('<') { Format::guess(body.as_bytes()) } else { Format::Json }
}

pub(crate) fn request(body: &str) -> Box<Message> {
    message(Direction::Request, format(body), body)
}

pub(crate) fn response(body: &str) -> Box<Message> {
    message(Direction::Response, format(body), body)
}

/// Behaviour of an endpoint.
pub(crate) type Endpoint = dyn Fn(&str, &str) -> Option<Answer>;

/// The end of a run for its client, and the events before.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) log: Vec<String>,
    /// `URL body` of each exchange, in order.
    pub(crate) sent: Vec<String>,
    /// The most exchanges at a time.
    pub(crate) parallel: usize,
    pub(crate) timers: usize,
    /// Bodies of requests that were read.
    pub(crate) bodies: usize,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Responded(Box<Message>),
    Failed(Failure),
    /// 202 without a body, at the end.
    Nothing,
    /// The same, before the end.
    Accepted,
}

impl Ran {
    /// The response.
    #[track_caller]
    pub(crate) fn message(self) -> Box<Message> {
        let Outcome::Responded(message) = self.outcome else { panic!("{self:?}") };
        message
    }

    /// The body as the client gets it, and its content type.
    #[track_caller]
    pub(crate) fn finish(self) -> (String, String) {
        let mut message = self.message();
        let bytes = message.finish(&Budget::default()).unwrap().unwrap();
        let content_type = message.head.field("Content-Type").unwrap_or_default();
        (String::from_utf8_lossy(&bytes).into_owned(), content_type.into_owned())
    }

    /// The body of the response.
    #[track_caller]
    pub(crate) fn body(&self) -> String {
        let Outcome::Responded(message) = &self.outcome else { panic!("{self:?}") };
        message.body.text(&Budget::default()).unwrap().into_owned()
    }

    #[track_caller]
    pub(crate) fn failure(&self) -> Failure {
        let Outcome::Failed(failure) = &self.outcome else { panic!("{self:?}") };
        failure.clone()
    }
}

/// Runs `flow`; `endpoint` gets URL and body of each exchange, and `None` means that it never answers.
pub(crate) fn drive(
    program: &Arc<Program>,
    flow: Flow,
    message: Box<Message>,
    endpoint: &Endpoint,
) -> Ran {
    let run = Run::new(Arc::clone(program), flow, message, Budget::default());
    drive_run(run, endpoint)
}

pub(crate) fn drive_run(run: Box<Run>, endpoint: &Endpoint) -> Ran {
    drive_in(&World::default(), run, endpoint)
}

/// As [`drive_run`], in a world that goes on.
pub(crate) fn drive_in(world: &World, mut run: Box<Run>, endpoint: &Endpoint) -> Ran {
    let mut ran = Ran {
        outcome: Outcome::Nothing,
        log: Vec::new(),
        sent: Vec::new(),
        parallel: 0,
        timers: 0,
        bodies: 0,
    };
    let mut answers: VecDeque<(AskId, Answer)> = VecDeque::new();
    let (mut streams, mut silent) = (Streams::default(), 0);
    let mut timers = VecDeque::new();
    let mut is_answered = false;
    let mut answer_client = |outcome: Outcome, ran: &mut Ran| {
        assert!(!std::mem::replace(&mut is_answered, true), "a second response");
        ran.outcome = outcome;
    };
    loop {
        match run.next_heavy(world) {
            Event::Ask(id, Ask::Exchange(mut exchange)) => {
                streams.hold(&mut exchange.message, exchange.source);
                let Exchange { target, message, holds, .. } = *exchange;
                let body = message.body.text(&Budget::default()).unwrap_or_default().into_owned();
                let (url, noted) = (&target.url, noted(&target, &message));
                ran.sent.push(format!("{url} {noted}{body}").trim_end().to_owned());
                match endpoint(&target.url, &body) {
                    Some(mut answer) => {
                        if !holds {
                            streams.take(id, &mut answer);
                        }
                        answers.push_back((id, answer));
                    }
                    None => silent += 1,
                }
                ran.parallel = ran.parallel.max(answers.len() + silent);
            }
            Event::Ask(id, Ask::Timer(_)) => {
                ran.timers += 1;
                timers.push_back(id);
            }
            Event::Ask(id, Ask::Body(Source::Request)) => {
                ran.bodies += 1;
                run.answer(id, Answer::Body(STREAMED.into()));
            }
            Event::Ask(id, Ask::Body(source)) => {
                run.answer(id, streams.read(source).map_or(Answer::Lost, Answer::Body));
            }
            Event::Respond(mut message, source) => {
                streams.hold(&mut message, source);
                answer_client(Outcome::Responded(message), &mut ran);
            }
            Event::Accepted => answer_client(Outcome::Accepted, &mut ran),
            Event::Failed(failure) => answer_client(Outcome::Failed(failure), &mut ran),
            Event::Heavy => panic!("nothing is heavy here"),
            Event::Waiting => match (answers.pop_front(), timers.pop_front()) {
                (Some((id, answer)), timer) => {
                    timers.extend(timer);
                    run.answer(id, answer);
                }
                (None, Some(timer)) => run.answer(timer, Answer::Elapsed),
                (None, None) => {
                    assert!(silent > 0, "the run waits for nothing: {ran:?}");
                    ran.log = world.log.take();
                    return ran;
                }
            },
            Event::Done => break,
        }
    }
    assert!(matches!(run.next(world), Event::Done));
    ran.log = world.log.take();
    ran
}

/// The body that a streaming request has.
pub(crate) const STREAMED: &str = r#"{"symbol":"IBM"}"#;

pub(crate) const ENDPOINTS: &str = "<endpoint name=\"a\"><address uri=\"http://a/\"/></endpoint>\
                                    <endpoint name=\"b\"><address uri=\"http://b/\"/></endpoint>";

/// An endpoint that returns address and body of its request.
pub(crate) fn echo(url: &str, body: &str) -> Option<Answer> {
    Some(Answer::Response(response(&format!("{{\"from\":\"{url}\",\"got\":{body}}}"))))
}

pub(crate) fn refuse(_: &str, _: &str) -> Option<Answer> {
    Some(Answer::Failed(Failure::new(Code::NOT_CONNECTED, "refused"), None))
}

/// The flow of the only proxy.
pub(crate) fn flow(program: &Program) -> Flow {
    let [proxy] = program.proxies() else { panic!("{:?}", program.proxies()) };
    proxy.flow
}

/// A program of endpoints and a proxy with this target; `artefacts` are others.
#[track_caller]
pub(crate) fn of_proxy(artefacts: &str, target: &str) -> Arc<Program> {
    program(&format!("{ENDPOINTS}{artefacts}<proxy name=\"P\"><target{target}</target></proxy>"))
}

/// Runs such a proxy.
#[track_caller]
pub(crate) fn proxy(artefacts: &str, target: &str, endpoint: &Endpoint) -> Ran {
    drive_run(begin(&of_proxy(artefacts, target), request("1")), endpoint)
}

/// The run of a message through the only proxy.
pub(crate) fn begin(program: &Arc<Program>, message: Box<Message>) -> Box<Run> {
    Run::new(Arc::clone(program), flow(program), message, Budget::default())
}

/// The first thing that it sends.
#[track_caller]
pub(crate) fn first_exchange(program: &Arc<Program>, message: Box<Message>) -> Exchange {
    let event = begin(program, message).next(&World::default());
    let Event::Ask(_, Ask::Exchange(exchange)) = event else { panic!("{event:?}") };
    *exchange
}

/// The action and the longest wait of a message.
fn noted(target: &Target, message: &Message) -> String {
    let action = message.head.field("SOAPAction");
    let action = action.map(|action| format!("(SOAPAction: {action}) ")).unwrap_or_default();
    let content_type = message.head.field("Content-Type").filter(|of| of.contains("action="));
    let content_type = content_type.map(|of| format!("({of}) ")).unwrap_or_default();
    let timeout = target.timeout_ms.map(|ms| format!("({ms} ms) ")).unwrap_or_default();
    format!("{action}{content_type}{timeout}")
}

/// A body that the host has not read yet.
pub(crate) fn streaming() -> Box<Message> {
    let head = Box::<PlainHead>::default();
    Message::new(Direction::Request, head, Body::streaming(Format::Json))
}
