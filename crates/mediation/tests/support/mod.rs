//! Runs sequences on messages, without a runtime.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use penstock_mediation::{
    Body, Compiler, Direction, Environment, Event, Failure, Flow, Format, LogLevel, Message,
    Origin, PlainHead, Program, Run,
};
use xpath::Budget;

#[derive(Default)]
pub(crate) struct World(RefCell<Vec<String>>);

impl Environment for World {
    fn unix_ms(&self) -> i64 {
        1_700_000_000_000
    }

    fn message_id(&self, _: u32) -> Option<std::borrow::Cow<'_, str>> {
        Some("urn:uuid:of-the-run".into())
    }

    fn log(&self, _: LogLevel, line: &str) {
        self.0.borrow_mut().push(line.to_owned());
    }
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Ended,
    Failed(Failure),
}

/// What became of a message.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) log: Vec<String>,
    pub(crate) message: Message,
}

impl Ran {
    /// The body as its next receiver gets it, and its content type.
    #[track_caller]
    pub(crate) fn finish(mut self) -> (String, String) {
        assert!(!matches!(self.outcome, Outcome::Failed(_)), "{:?}", self.outcome);
        let bytes = self.message.finish(&Budget::default()).unwrap().unwrap();
        let content_type = self.message.head.field("Content-Type").unwrap_or_default();
        (String::from_utf8_lossy(&bytes).into_owned(), content_type.into_owned())
    }

    #[track_caller]
    pub(crate) fn failure(self) -> Failure {
        let Outcome::Failed(failure) = self.outcome else { panic!("{:?}", self.outcome) };
        failure
    }
}

/// The artefacts as a program, or what is wrong with them.
pub(crate) fn compile(artefacts: &str) -> (Program, Vec<String>) {
    let text =
        format!("<definitions xmlns=\"http://ws.apache.org/ns/synapse\">{artefacts}</definitions>");
    let document = xml::Document::parse(text.as_bytes()).unwrap();
    let origin = Origin { file: Path::new("test.xml"), document: &document };
    let (program, diagnostics) = Compiler::compile(&[origin]);
    (program, diagnostics.iter().map(ToString::to_string).collect())
}

/// A message with this content type and body.
pub(crate) fn message(content_type: &str, body: &str) -> Message {
    let fields = vec![("Content-Type".to_owned(), content_type.to_owned())];
    let head = PlainHead { method: "POST".to_owned(), target: "/".to_owned(), fields };
    let body = Body::held(Format::of(content_type), body.as_bytes().to_vec());
    Message::new(Direction::Request, Box::new(head), body)
}

/// Runs the sequence `main` of the artefacts.
#[track_caller]
pub(crate) fn run_main(artefacts: &str, message: Message, budget: Budget) -> Ran {
    // What becomes of the message is its response.
    let responds = "<sequence name=\"run\"><sequence key=\"main\"/><respond/></sequence>";
    let (program, diagnostics) = compile(&format!("{artefacts}{responds}"));
    assert!(diagnostics.is_empty(), "{}", diagnostics.join("\n"));
    let flow = Flow { request: program.sequence("run"), ..Flow::default() };
    let world = World::default();
    let mut run = Run::new(Arc::new(program), flow, message, budget);
    let (outcome, message) = match run.next_heavy(&world) {
        Event::Respond(message, _) => (Outcome::Ended, *message),
        Event::Failed(failure) => (Outcome::Failed(failure), self::message("text/plain", "")),
        event
        @ (Event::Accepted | Event::Ask(..) | Event::Heavy | Event::Waiting | Event::Done) => {
            panic!("{event:?}")
        }
    };
    Ran { outcome, log: world.0.into_inner(), message }
}

/// Runs mediators.
#[track_caller]
pub(crate) fn run(mediators: &str, message: Message) -> Ran {
    let artefacts = format!("<sequence name=\"main\">{mediators}</sequence>");
    run_main(&artefacts, message, Budget::default())
}

/// What `expression` is, as the log writes it.
#[track_caller]
pub(crate) fn logged(expression: &str, message: Message) -> String {
    let log =
        format!("<log level=\"custom\"><property name=\"v\" expression=\"{expression}\"/></log>");
    let ran = run(&log, message);
    assert!(matches!(ran.outcome, Outcome::Ended), "{ran:?}");
    ran.log.join("\n").trim_start_matches("v = ").to_owned()
}
