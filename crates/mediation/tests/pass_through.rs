//! Requests that need no run: the decision without one equals that of a run.

use std::sync::Arc;

use crate::host::{World, program};
use model::{Api, Operation, Place, Policies, Policy, Security};
use penstock_mediation::{
    Answer, ApiPolicies, Arrival, Ask, AskId, Body, BodyUse, Code, Detour, Direction, Event,
    Exchange, Failure, Flow, Format, Message, Passage, PlainHead, Program, Properties, Run, Source,
    Target,
};
use xpath::Budget;

const ENDPOINTS: &str = "
    <endpoint name=\"address\"><address uri=\"http://address/\"/></endpoint>
    <endpoint name=\"soap\"><address uri=\"http://soap/\" format=\"soap11\"/></endpoint>
    <endpoint name=\"http\"><http method=\"put\" uri-template=\"http://http/{uri.var.id}\"/></endpoint>
    <endpoint name=\"latin\"><address uri=\"http://latin/\" encoding=\"ISO-8859-1\"/></endpoint>
    <endpoint name=\"own\"><default/></endpoint>
    <endpoint name=\"timed\"><address uri=\"http://timed/\"><timeout><duration>{$trp:ms}</duration></timeout></address></endpoint>
    <endpoint name=\"marked\"><address uri=\"http://marked/\"/><property name=\"a\" value=\"b\"/></endpoint>
    <endpoint name=\"both\"><loadbalance><endpoint key=\"address\"/><endpoint key=\"http\"/></loadbalance></endpoint>
    <sequence name=\"send\"><send><endpoint key=\"address\"/></send></sequence>
    <sequence name=\"loop\"><sequence key=\"loop\"/><sequence key=\"loop\"/></sequence>";

/// Requests of each kind: with a body that streams and without one, with and without a SOAP action.
fn requests() -> Vec<(String, Box<Message>)> {
    let mut all = Vec::new();
    for method in ["GET", "POST"] {
        for media in ["application/json", "text/xml", "application/soap+xml; action=a"] {
            for has_body in [false, true] {
                let fields = [("Content-Type", media), ("SOAPAction", "a"), ("routing", "gold")];
                let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
                let (method, target) = (method.to_owned(), "/orders".to_owned());
                let head = PlainHead { method, target, fields: fields.to_vec() };
                let format = Format::of(media);
                let body =
                    if has_body { Body::streaming(format) } else { Body::held(format, Vec::new()) };
                let name = format!("{} {media}, body: {has_body}", head.method);
                all.push((name, Message::new(Direction::Request, Box::new(head), body)));
            }
        }
    }
    all
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

fn passage(program: &Program, message: &Message) -> Result<Passage, Detour> {
    program.passes_through(&flow(program), message, &World::of(program), &Budget::default())
}

/// Where the request is sent, if no run is needed.
fn found(program: &Program, message: &Message) -> Result<Target, Detour> {
    let passage = passage(program, message)?;
    if passage.response.is_some() { Err(Detour::Run) } else { Ok(passage.target) }
}

fn fields(message: &Message) -> Vec<String> {
    let mut all = Vec::new();
    message.head.fields(&mut |name, value| all.push(format!("{name}: {value}")));
    all
}

/// Where a run sends the request first.
fn sent(run: &mut Run, world: &World) -> (AskId, Box<Exchange>) {
    let Event::Ask(ask, Ask::Exchange(sent)) = run.next(world) else { panic!("nothing is sent") };
    assert!(matches!(run.next(world), Event::Waiting));
    (ask, sent)
}

/// Checks that a run sends the same message to `target`, and that it returns the response, or fails as the exchange
/// does.
#[track_caller]
fn check_run(
    program: &Arc<Program>,
    requests: (Box<Message>, Box<Message>),
    target: &Target,
    what: &str,
) {
    let world = World::of(program);
    let run = |message| Run::new(Arc::clone(program), flow(program), message, Budget::default());
    let (request, second) = requests;
    let before = fields(&request);
    let mut returning = run(request);
    let (ask, exchange) = sent(&mut returning, &world);
    assert_eq!((&exchange.target, &fields(&exchange.message)), (target, &before), "{what}");
    let body = Body::streaming(Format::Json);
    let response = Message::new(Direction::Response, Box::new(PlainHead::default()), body);
    returning.answer(ask, Answer::Response(response));
    let Event::Respond(message, source) = returning.next(&world) else { panic!("{what}") };
    assert_eq!((source, fields(&message)), (Source::Response(ask), Vec::new()), "{what}");
    let mut failing = run(second);
    let (ask, exchange) = sent(&mut failing, &world);
    let failure = Failure::new(Code::NOT_SENT, "refused");
    failing.answer(ask, Answer::Failed(failure, Some(exchange.message)));
    assert!(matches!(failing.next(&world), Event::Failed(_)), "{what}");
}

#[track_caller]
fn passes(artefacts: &str, url: &str) {
    let program = program(&format!("{ENDPOINTS}{artefacts}"));
    for ((what, request), (_, again)) in requests().into_iter().zip(requests()) {
        let what = format!("{what}: {artefacts}");
        let found = found(&program, &request).unwrap_or_else(|why| panic!("{why:?} for {what}"));
        assert!(found.url.starts_with(url), "{}: {what}", found.url);
        check_run(&program, (request, again), &found, &what);
    }
}

#[track_caller]
fn needs_a_run(artefacts: &str) {
    let program = program(&format!("{ENDPOINTS}{artefacts}"));
    for (what, request) in requests() {
        assert_eq!(passage(&program, &request), Err(Detour::Run), "{what}: {artefacts}");
    }
}

#[test]
fn a_body_that_is_read_to_choose_is_held_first() {
    let send = "<send><endpoint key=\"address\"/></send>";
    let json = "source=\"json-eval($.order)\" regex=\"1\"";
    for (condition, body, url) in [
        (json, "{\"order\": 1}", Ok("http://address/")),
        (json, "{\"order\": 2}", Ok("http://implied/")),
        ("xpath=\"//order\"", "{\"order\": 1}", Ok("http://address/")),
        (json, "{\"order\": ", Err(Detour::Run)),
    ] {
        let program = program(&format!(
            "{ENDPOINTS}<endpoint name=\"implied\"><address uri=\"http://implied/\"/></endpoint>\
             <sequence name=\"in\"><filter {condition}>{send}</filter></sequence>"
        ));
        let what = format!("{condition} on {body}");
        let streaming = || {
            let (_, request) = requests()
                .into_iter()
                .find(|(what, _)| what == "POST application/json, body: true")
                .unwrap();
            assert_eq!(request.body.state(), BodyUse::Untouched);
            request
        };
        assert_eq!(found(&program, &streaming()), Err(Detour::Body), "{what}");
        let held = || {
            let mut request = streaming();
            request.hold(body);
            request
        };
        let target = found(&program, &held());
        assert_eq!(target.as_ref().map(|target| &*target.url), url.as_ref().copied(), "{what}");
        if let Ok(target) = target {
            check_run(&program, (held(), held()), &target, &what);
        }
    }
}

#[test]
fn what_the_beginning_of_a_body_decides_reads_no_further() {
    let order = |symbol: &str| format!("<order><symbol>{symbol}</symbol></order>");
    let (ibm, others) = (order("IBM"), order("MSFT").repeat(100));
    let first = format!("<orders>{ibm}{others}");
    let last = format!("<orders>{others}{ibm}</orders>");
    let prolog = format!("<!--{}--><orders>x</orders>", "x".repeat(3000));
    let soap = "xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"";
    let enveloped = format!("<s:Envelope {soap}><s:Body>{first}");
    let is_ibm = "xpath=\"//symbol = 'IBM'\"";
    let (is_right, is_other) = (Ok("http://address/"), Ok("http://implied/"));
    // An unread body is not known to be malformed.
    for (condition, body, url) in [
        (is_ibm, &first, is_right),
        (is_ibm, &last, is_right),
        (is_ibm, &last.replace("</orders>", ""), Err(Detour::Run)),
        (is_ibm, &last.replace("IBM", "SUN"), is_other),
        ("xpath=\"//symbol != 'IBM'\"", &first, Err(Detour::Run)),
        ("source=\"//order[1]/symbol\" regex=\"IBM\"", &first, Err(Detour::Run)),
        (&format!("{soap} xpath=\"//s:Body//symbol = 'IBM'\""), &enveloped, is_right),
        (&format!("{soap} xpath=\"$body//symbol = 'IBM'\""), &enveloped, is_right),
        // It has no element.
        ("xpath=\". = ''\"", &prolog, is_other),
        // An error in the beginning is none of the whole.
        ("xpath=\"//symbol = 'IBM' or $ctx:order/symbol = 'IBM'\"", &last, is_right),
    ] {
        let program = program(&format!(
            "{ENDPOINTS}<endpoint name=\"implied\"><address uri=\"http://implied/\"/></endpoint>\
             <sequence name=\"in\"><filter {condition}><send><endpoint key=\"address\"/></send></filter></sequence>"
        ));
        let mut all = requests().into_iter();
        let (_, mut request) = all.find(|(what, _)| what == "POST text/xml, body: true").unwrap();
        let what = format!("{condition} on {} bytes", body.len());
        request.hold(body.clone());
        let target = found(&program, &request);
        assert_eq!(target.as_ref().map(|target| &*target.url), url.as_ref().copied(), "{what}");
    }
}

#[test]
fn a_body_that_takes_long_to_read_needs_a_run() {
    let program = program(&format!(
        "{ENDPOINTS}<sequence name=\"in\"><filter xpath=\"json-eval($.order)\">\
         <send><endpoint key=\"address\"/></send></filter></sequence>"
    ));
    let (_, mut request) = requests().remove(1);
    request.hold(format!("{{\"order\": \"{}\"}}", "x".repeat(1_000_000)));
    assert_eq!(found(&program, &request), Err(Detour::Run));
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

/// The result of the response, with all effects of the run.
fn answered(mut run: Box<Run>, ask: AskId, world: &World) -> Vec<String> {
    let body = Body::streaming(Format::Json);
    let mut response = Message::new(Direction::Response, Box::new(PlainHead::default()), body);
    response.set_field("Content-Type", "application/json").unwrap();
    run.answer(ask, Answer::Response(response));
    let mut all = Vec::new();
    loop {
        match run.next(world) {
            Event::Ask(ask, Ask::Body(source)) => {
                all.push(format!("the body of {source:?} is read"));
                run.answer(ask, Answer::Body(r#"{"size": "1B", "rest": [1.0]}"#.into()));
            }
            Event::Ask(_, Ask::Exchange(exchange)) => {
                all.push(format!(
                    "sent to {}: {:?}",
                    exchange.target.url,
                    fields(&exchange.message)
                ));
                return all;
            }
            Event::Respond(message, source) => {
                let bytes = message.body.bytes(&Budget::default()).unwrap();
                let (fields, properties) = (fields(&message), &message.properties);
                all.push(format!("{source:?}: {fields:?} {properties:?} {bytes:?}"));
            }
            Event::Done => return all,
            other @ (Event::Ask(..)
            | Event::Accepted
            | Event::Failed(_)
            | Event::Heavy
            | Event::Waiting) => all.push(format!("{other:?}")),
        }
    }
}

#[test]
fn a_run_goes_on_with_the_response_as_one_that_sent_the_request() {
    let implied = "<endpoint name=\"implied\"><address uri=\"http://implied/\"/></endpoint>";
    let call = "<call><endpoint key=\"address\"/></call>";
    let send = "<send><endpoint key=\"address\"/></send>";
    let change = "<payloadFactory media-type=\"json\"><format>{\"was\": $1}</format><args>\
                  <arg evaluator=\"json\" expression=\"$.size\"/></args></payloadFactory>\
                  <property name=\"a\" value=\"b\"/><header name=\"x\" value=\"y\" scope=\"transport\"/>";
    let fail = "<throwError type=\"mine\" errorMessage=\"no\"/>";
    let gold = "source=\"$trp:routing\" regex=\"gold\"";
    let in_sequence = |mediators: &str| format!("<sequence name=\"in\">{mediators}</sequence>");
    let out_sequence = |mediators: &str| format!("<sequence name=\"out\">{mediators}</sequence>");
    for artefacts in [
        in_sequence(call),
        in_sequence(&format!("{call}{change}<respond/>")),
        in_sequence(&format!("{call}{call}<respond/>")),
        in_sequence(&format!("{call}<drop/>")),
        in_sequence(&format!("{call}<loopback/>")) + &out_sequence(&format!("{change}<send/>")),
        in_sequence(&format!(
            "<filter {gold}><sequence key=\"none\"/></filter>{call}{change}<respond/>"
        )) + "<sequence name=\"none\"/>",
        format!("<sequence name=\"in\" onError=\"handler\">{call}{fail}</sequence>")
            + &format!("<sequence name=\"handler\">{change}<respond/></sequence>"),
        implied.to_owned() + &in_sequence(&format!("{call}{change}")),
        implied.to_owned() + &out_sequence(&format!("{change}<send/>")),
        in_sequence(send) + &out_sequence(&format!("{change}<send/>")),
        in_sequence("<sequence key=\"send\"/>") + &out_sequence(&format!("{change}{fail}")),
        in_sequence(send) + &out_sequence(send),
        in_sequence(send) + &out_sequence("<drop/>"),
    ] {
        let program = program(&format!("{ENDPOINTS}{artefacts}"));
        let world = World::of(&program);
        for ((what, request), (_, again)) in requests().into_iter().zip(requests()) {
            let what = format!("{what}: {artefacts}");
            let Passage { target, response } = passage(&program, &request).expect(&what);
            let response = response.unwrap_or_else(|| panic!("the response is returned: {what}"));
            let (before, flow) = (fields(&again), flow(&program));
            let mut whole = Run::new(Arc::clone(&program), flow, again, Budget::default());
            let (ask, exchange) = sent(&mut whole, &world);
            assert_eq!((&exchange.target, fields(&exchange.message)), (&target, before), "{what}");
            let known = (request.properties, request.arrival);
            let (rest, waits_for) =
                Run::sent(Arc::clone(&program), flow, known, Budget::default(), response);
            assert_eq!(waits_for, ask, "{what}");
            assert_eq!(answered(rest, ask, &world), answered(whole, ask, &world), "{what}");
        }
    }
}

#[test]
fn a_held_body_for_an_endpoint_with_an_encoding_needs_a_run() {
    for (endpoint, is_passed) in [("address", true), ("latin", false)] {
        let program = program(&format!(
            "{ENDPOINTS}<sequence name=\"none\"/><sequence name=\"in\"><filter xpath=\"json-eval($.a)\"><sequence key=\"none\"/></filter>\
             <send><endpoint key=\"{endpoint}\"/></send></sequence>"
        ));
        let (_, mut request) = requests().remove(1);
        request.hold("{\"b\": \"é\"}");
        assert_eq!(passage(&program, &request).is_ok(), is_passed, "{endpoint}");
    }
}

#[test]
fn memory_that_a_choice_took_is_released() {
    let program = program(&format!(
        "{ENDPOINTS}<sequence name=\"none\"/><sequence name=\"in\"><filter xpath=\"contains(translate(//b, 'x', 'y'), 'z')\">\
         <sequence key=\"none\"/></filter><call><endpoint key=\"address\"/></call><respond/></sequence>"
    ));
    let (_, mut request) = requests().remove(1);
    request.hold(format!("{{\"b\": \"{}\"}}", "x".repeat(2000)));
    let budget = Budget::default();
    let passage = program.passes_through(&flow(&program), &request, &World::of(&program), &budget);
    assert!(passage.is_ok(), "{passage:?}");
    assert_eq!(budget.bytes_used(), request.body.charged() as u64, "its views are kept");
    request.body.settle(&budget);
    assert_eq!(budget.bytes_used(), 0);
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
        "<sequence name=\"called\"><call><endpoint key=\"address\"/></call></sequence>\
         <sequence name=\"in\"><sequence key=\"called\"/><log/></sequence>"
            .to_owned(),
        in_sequence(&format!("<log/>{send}")),
        in_sequence(&format!("{send}<log/>")),
        in_sequence(&format!("{send}{send}")),
        in_sequence("<send receive=\"send\"><endpoint key=\"address\"/></send>"),
        in_sequence("<send buildmessage=\"true\"><endpoint key=\"address\"/></send>"),
        in_sequence("<loopback/>"),
        in_sequence("<sequence key=\"loop\"/>"),
        named("soap"),
        named("own"),
        named("marked"),
        named("timed"),
        named("both"),
    ] {
        needs_a_run(&artefacts);
    }
}

/// The program and the flow of an operation with these policies.
fn policies(request: &[&str], response: &[&str]) -> (Arc<Program>, Flow) {
    let policies = |names: &[&str]| -> Vec<_> {
        let policy = |name: &&str| Policy {
            name: (*name).to_owned(),
            parameters: vec![("headerName".to_owned(), "x-a".to_owned())],
            place: Place { line: 1, column: 1 },
        };
        names.iter().map(policy).collect()
    };
    let all =
        Policies { request: policies(request), response: policies(response), fault: Vec::new() };
    let operation = Operation {
        method: base::Method::Get,
        template: "/*".to_owned(),
        security: Security::Open,
        production: None,
        sandbox: None,
        plan: None,
        policies: Some(Arc::new(all)),
        response_cache: None,
    };
    let api = Api {
        operations: vec![operation],
        ..Api::new(String::new(), String::new(), "/a".to_owned())
    };
    let compiled = ApiPolicies::compile(&api).unwrap();
    let flow = compiled.operations[0].unwrap().flow;
    (compiled.program, flow)
}

#[test]
fn an_operation_whose_policies_are_for_responses_needs_no_run_until_there_is_one() {
    for (request, response, passes) in [
        (&[][..], &["removeHeader"][..], true),
        (&["removeHeader"], &["removeHeader"], false),
        (&["removeHeader"], &[], false),
    ] {
        let (program, flow) = policies(request, response);
        let world = World::of(&program);
        for (what, message) in requests() {
            let found = program.passes_through(&flow, &message, &world, &Budget::default());
            let Ok(Passage { target, response: Some(after) }) = found else {
                assert!(!passes, "{what}: {found:?}");
                continue;
            };
            assert!(passes, "{what}");
            // A run from the beginning sends the same message there.
            let run = |message| Run::new(Arc::clone(&program), flow, message, Budget::default());
            let (_, exchange) = sent(&mut run(message), &world);
            assert_eq!(exchange.target, target, "{what}");
            let kept = (Properties::default(), Arrival::default());
            let (mut run, ask) =
                Run::sent(Arc::clone(&program), flow, kept, Budget::default(), after);
            let head = PlainHead {
                fields: vec![("x-a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())],
                ..PlainHead::default()
            };
            let body = Body::streaming(Format::Json);
            run.answer(
                ask,
                Answer::Response(Message::new(Direction::Response, Box::new(head), body)),
            );
            let Event::Respond(response, _) = run.next(&world) else { panic!("{what}") };
            assert_eq!(fields(&response), ["b: 2"], "{what}");
        }
    }
}
