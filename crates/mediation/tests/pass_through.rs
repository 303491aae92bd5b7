//! Requests that need no run: what is found without one is what a run does.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod host;

use std::sync::Arc;

use host::{World, program};
use penstock_mediation::{
    Answer, Ask, Body, Direction, Event, Flow, Format, Message, PlainHead, Program, Run, Source,
    Target,
};
use xpath::Budget;

const ENDPOINTS: &str = "
    <endpoint name=\"address\"><address uri=\"http://address/\"/></endpoint>
    <endpoint name=\"soap\"><address uri=\"http://soap/\" format=\"soap11\"/></endpoint>
    <endpoint name=\"http\"><http method=\"put\" uri-template=\"http://http/{uri.var.id}\"/></endpoint>
    <endpoint name=\"own\"><default/></endpoint>
    <endpoint name=\"marked\"><address uri=\"http://marked/\"/><property name=\"a\" value=\"b\"/></endpoint>
    <endpoint name=\"both\"><failover><endpoint key=\"address\"/><endpoint key=\"http\"/></failover></endpoint>
    <sequence name=\"send\"><send><endpoint key=\"address\"/></send></sequence>
    <sequence name=\"loop\"><sequence key=\"loop\"/><sequence key=\"loop\"/></sequence>";

/// A request whose body streams.
fn request() -> Message {
    let fields = [("Content-Type", "application/json"), ("routing", "gold")];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let head = PlainHead { method: "POST".to_owned(), target: "/orders".to_owned(), fields };
    Message::new(Direction::Request, Box::new(head), Body::streaming(Format::Json))
}

fn flow(program: &Program) -> Flow {
    let sequence = |name| program.sequence(name);
    Flow {
        request: sequence("in"),
        response: sequence("out"),
        fault: None,
        endpoint: program.endpoint("implied"),
    }
}

fn found(program: &Program) -> Option<Target> {
    program.passes_through(&flow(program), &mut request(), &World::of(program))
}

/// What a run does: where it sends the request first, and whether it then responds with the body as it came.
fn by_run(program: &Arc<Program>) -> (Target, bool) {
    let mut run = Run::new(Arc::clone(program), flow(program), request(), Budget::default());
    let world = World::of(program);
    let Event::Ask(ask, Ask::Exchange(sent)) = run.next(&world) else { panic!("nothing is sent") };
    let body = Body::streaming(Format::Json);
    let head = Box::new(PlainHead::default());
    let response = Message::new(Direction::Response, head, body);
    assert!(matches!(run.next(&world), Event::Waiting));
    run.answer(ask, Answer::Response(Box::new(response)));
    let Event::Respond(message, source) = run.next(&world) else { return (sent.target, false) };
    let returns = source == Source::Response(ask) && message.head.field("Content-Type").is_none();
    (sent.target, returns)
}

#[track_caller]
fn passes(artefacts: &str, url: &str) {
    let program = program(&format!("{ENDPOINTS}{artefacts}"));
    let found = found(&program).unwrap_or_else(|| panic!("a run is needed for {artefacts}"));
    assert_eq!(found.url, url);
    assert_eq!(by_run(&program), (found, true), "{artefacts}");
}

#[track_caller]
fn needs_a_run(artefacts: &str) {
    assert_eq!(found(&program(&format!("{ENDPOINTS}{artefacts}"))), None, "{artefacts}");
}

#[test]
fn a_flow_that_only_sends_on_needs_no_run() {
    let implied = "<endpoint name=\"implied\"><address uri=\"http://implied/\"/></endpoint>";
    let gold = "source=\"$trp:routing\" regex=\"gold\"";
    let send = "<send><endpoint key=\"address\"/></send>";
    for (artefacts, url) in [
        (implied.to_owned(), "http://implied/"),
        (format!("{implied}<sequence name=\"in\"/>"), "http://implied/"),
        (format!("{implied}<sequence name=\"out\"/>"), "http://implied/"),
        (format!("{implied}<sequence name=\"out\"><send/></sequence>"), "http://implied/"),
        (format!("{implied}<sequence name=\"out\"><respond/></sequence>"), "http://implied/"),
        (format!("<sequence name=\"in\">{send}</sequence>"), "http://address/"),
        ("<sequence name=\"in\"><sequence key=\"send\"/></sequence>".to_owned(), "http://address/"),
        (
            "<sequence name=\"in\"><call><endpoint key=\"http\"/></call><respond/></sequence>"
                .to_owned(),
            "http://http/",
        ),
        (
            format!("{implied}<sequence name=\"in\"><filter {gold}>{send}</filter></sequence>"),
            "http://address/",
        ),
        (
            format!(
                "{implied}<sequence name=\"in\">\
                 <filter xpath=\"$trp:routing = 'lead'\">{send}</filter></sequence>"
            ),
            "http://implied/",
        ),
        (
            format!(
                "<sequence name=\"in\"><switch source=\"$trp:routing\"><case regex=\"lead\"><drop/></case>\
                 <default>{send}</default></switch></sequence>"
            ),
            "http://address/",
        ),
    ] {
        passes(&artefacts, url);
    }
}

#[test]
fn whatever_else_a_flow_does_needs_a_run() {
    let send = "<send><endpoint key=\"address\"/></send>";
    let in_sequence = |mediators: &str| format!("<sequence name=\"in\">{mediators}</sequence>");
    let named = |name: &str| in_sequence(&format!("<send><endpoint key=\"{name}\"/></send>"));
    for artefacts in [
        String::new(),
        in_sequence("<respond/>"),
        in_sequence("<send/>"),
        in_sequence("<call><endpoint key=\"address\"/></call>"),
        in_sequence(&format!("<log/>{send}")),
        in_sequence(&format!("{send}<log/>")),
        in_sequence(&format!("{send}{send}")),
        in_sequence("<send receive=\"send\"><endpoint key=\"address\"/></send>"),
        in_sequence("<send buildmessage=\"true\"><endpoint key=\"address\"/></send>"),
        in_sequence(&format!("<filter xpath=\"json-eval($.a)\">{send}</filter>")),
        in_sequence("<loopback/>"),
        in_sequence("<sequence key=\"loop\"/>"),
        named("soap"),
        named("own"),
        named("marked"),
        named("both"),
        format!("{}<sequence name=\"out\"><log/><send/></sequence>", in_sequence(send)),
        format!("{}<sequence name=\"out\"><drop/></sequence>", in_sequence(send)),
        format!("{}<sequence name=\"out\">{send}</sequence>", in_sequence(send)),
    ] {
        needs_a_run(&artefacts);
    }
}
