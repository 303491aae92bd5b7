//! A host without sockets: endpoints answer from a script, and time passes when nothing else happens.

#![allow(dead_code, reason = "each test uses a part")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use penstock_mediation::{
    Answer, Ask, AskId, Body, Compiler, Direction, Environment, Event, Exchange, Failure, Flow,
    Format, LogLevel, Message, Origin, PlainHead, Program, Run,
};
use xpath::Budget;

#[derive(Default)]
pub struct World(pub RefCell<Vec<String>>);

impl Environment for World {
    fn unix_ms(&self) -> i64 {
        1_700_000_000_000
    }

    fn log(&self, _: LogLevel, line: &str) {
        self.0.borrow_mut().push(line.to_owned());
    }
}

/// The artefacts as a program, and what was found wrong with them.
pub fn compile(artefacts: &str) -> (Program, Vec<String>) {
    let text =
        format!("<definitions xmlns=\"http://ws.apache.org/ns/synapse\">{artefacts}</definitions>");
    let document = xml::Document::parse(text.as_bytes()).unwrap();
    let origin = Origin { file: Path::new("test.xml"), document: &document };
    let (program, diagnostics) = Compiler::compile(&[origin]);
    (program, diagnostics.iter().map(ToString::to_string).collect())
}

#[track_caller]
pub fn program(artefacts: &str) -> Arc<Program> {
    let (program, found) = compile(artefacts);
    assert!(found.is_empty(), "{}", found.join("\n"));
    Arc::new(program)
}

#[track_caller]
pub fn diagnostics(artefacts: &str) -> Vec<String> {
    compile(artefacts).1
}

pub fn message(direction: Direction, format: Format, body: &str) -> Message {
    let head = PlainHead {
        method: "POST".to_owned(),
        target: "/orders".to_owned(),
        fields: vec![("Content-Type".to_owned(), format.content_type().to_owned())],
    };
    Message::new(direction, Box::new(head), Body::held(format, body.as_bytes().to_vec()))
}

pub fn request(body: &str) -> Message {
    message(Direction::Request, Format::guess(body.as_bytes()), body)
}

pub fn response(body: &str) -> Message {
    message(Direction::Response, Format::guess(body.as_bytes()), body)
}

/// What an endpoint does.
pub type Endpoint = dyn Fn(&str, &str) -> Option<Answer>;

/// How a run ended for its client, and what happened on the way.
#[derive(Debug)]
pub struct Ran {
    pub outcome: Outcome,
    pub log: Vec<String>,
    /// `URL body` of each exchange, in order.
    pub sent: Vec<String>,
    /// The most exchanges at a time.
    pub parallel: usize,
    pub timers: usize,
    pub bodies: usize,
    pub heavy: usize,
}

#[derive(Debug)]
pub enum Outcome {
    Responded(Box<Message>),
    Failed(Failure),
    /// 202 without a body.
    Nothing,
}

impl Ran {
    /// The body of the response.
    #[track_caller]
    pub fn body(&self) -> String {
        match &self.outcome {
            Outcome::Responded(message) => message.body.text().unwrap().into_owned(),
            other => panic!("{other:?} {:?} {:?}", self.log, self.sent),
        }
    }

    #[track_caller]
    pub fn failure(&self) -> &Failure {
        match &self.outcome {
            Outcome::Failed(failure) => failure,
            other => panic!("{other:?} {:?} {:?}", self.log, self.sent),
        }
    }
}

/// Runs `flow`; `endpoint` gets URL and body of each exchange, and `None` means that it never answers.
pub fn drive(program: &Arc<Program>, flow: Flow, message: Message, endpoint: &Endpoint) -> Ran {
    let run = Run::new(Arc::clone(program), flow, message, Budget::default());
    drive_run(run, endpoint)
}

pub fn drive_run(mut run: Run, endpoint: &Endpoint) -> Ran {
    let world = World::default();
    let mut ran = Ran {
        outcome: Outcome::Nothing,
        log: Vec::new(),
        sent: Vec::new(),
        parallel: 0,
        timers: 0,
        bodies: 0,
        heavy: 0,
    };
    let mut answers: VecDeque<(AskId, Option<Answer>)> = VecDeque::new();
    let mut timers = VecDeque::new();
    let mut is_answered = false;
    let mut answer_client = |outcome: Outcome, ran: &mut Ran| {
        assert!(!std::mem::replace(&mut is_answered, true), "a second response");
        ran.outcome = outcome;
    };
    loop {
        match run.next(&world) {
            Event::Ask(id, Ask::Exchange(exchange)) => {
                let Exchange { target, mut message, .. } = *exchange;
                let body = message.body.take_bytes().unwrap().unwrap_or_default();
                let body = String::from_utf8(body).unwrap();
                ran.sent.push(format!("{} {body}", target.url).trim_end().to_owned());
                answers.push_back((id, endpoint(&target.url, &body)));
                ran.parallel = ran.parallel.max(answers.len());
            }
            Event::Ask(id, Ask::Timer(_)) => {
                ran.timers += 1;
                timers.push_back(id);
            }
            Event::Ask(id, Ask::Body(_)) => {
                ran.bodies += 1;
                run.answer(id, Answer::Body(STREAMED.into()));
            }
            Event::Respond(message, _) => {
                answer_client(Outcome::Responded(Box::new(message)), &mut ran);
            }
            Event::Failed(failure) => answer_client(Outcome::Failed(failure), &mut ran),
            Event::Heavy => {
                ran.heavy += 1;
                // It may move to another thread and back.
                run = std::thread::spawn(move || run).join().unwrap();
                let event = run.next_heavy(&world);
                assert!(!matches!(event, Event::Heavy));
                panic!("a test with a heavy step looks at its events itself: {event:?}");
            }
            Event::Waiting => match (answers.pop_front(), timers.pop_front()) {
                (Some((id, Some(answer))), timer) => {
                    timers.extend(timer);
                    run.answer(id, answer);
                }
                (_, Some(timer)) => run.answer(timer, Answer::Elapsed),
                (Some(_), None) => {}
                (None, None) => panic!("the run waits for nothing: {ran:?}"),
            },
            Event::Done => break,
        }
    }
    assert!(matches!(run.next(&world), Event::Done));
    ran.log = world.0.into_inner();
    ran
}

/// The body that a streaming request has.
pub const STREAMED: &str = r#"{"symbol":"IBM"}"#;
