//! Where messages go: sends, calls, responses, error handlers, and what is left for the host.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod host;

use std::sync::Arc;

use host::{Outcome, Ran, World, diagnostics, drive, drive_run, program, request, response};
use penstock_mediation::{
    Answer, Ask, Body, Code, Direction, Event, Failure, Flow, Format, Message, PlainHead, Program,
    PropertyScope, Run, Source,
};
use xpath::Budget;

const ENDPOINTS: &str = "<endpoint name=\"a\"><address uri=\"http://a/\"/></endpoint>\
                         <endpoint name=\"b\"><address uri=\"http://b/\"/></endpoint>";

/// An endpoint that returns where and what was sent.
fn echo(url: &str, body: &str) -> Option<Answer> {
    Some(Answer::Response(response(&format!("{{\"from\":\"{url}\",\"got\":{body}}}"))))
}

fn refuse(_: &str, _: &str) -> Option<Answer> {
    Some(Answer::Failed(Failure::new(Code::NOT_CONNECTED, "refused"), None))
}

fn flow(program: &Program) -> Flow {
    let [proxy] = program.proxies() else { panic!("{:?}", program.proxies()) };
    proxy.flow
}

/// Runs a proxy with this target; `artefacts` are others.
#[track_caller]
fn proxy(artefacts: &str, target: &str, endpoint: &host::Endpoint) -> Ran {
    let proxy = format!("{ENDPOINTS}{artefacts}<proxy name=\"P\"><target{target}</target></proxy>");
    let program = program(&proxy);
    drive(&program, flow(&program), request("1"), endpoint)
}

fn mark(text: &str) -> String {
    format!("<log level=\"custom\"><property name=\"at\" value=\"{text}\"/></log>")
}

/// Puts a property around the body.
fn wrap(name: &str) -> String {
    format!(
        "<payloadFactory media-type=\"json\"><format>{{\"{name}\":$1}}</format>\
         <args><arg evaluator=\"json\" expression=\"$\"/></args></payloadFactory>"
    )
}

#[test]
fn a_run_moves_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Run>();
    is_send::<Event>();
    is_send::<Answer>();
}

#[test]
fn a_proxy_without_sequences_forwards_both_ways() {
    let ran = proxy("", " endpoint=\"a\">", &echo);
    assert_eq!(ran.sent, ["http://a/ 1"]);
    assert_eq!(ran.body(), r#"{"from":"http://a/","got":1}"#);
}

#[test]
fn the_end_of_the_in_sequence_sends_and_the_end_of_the_out_sequence_responds() {
    let target = format!(
        " endpoint=\"a\"><inSequence>{}</inSequence><outSequence>{}</outSequence>",
        wrap("in"),
        wrap("out")
    );
    let ran = proxy("", &target, &echo);
    assert_eq!(ran.sent, [r#"http://a/ {"in":1}"#]);
    assert_eq!(ran.body(), r#"{"out":{"from":"http://a/","got":{"in":1}}}"#);
}

#[test]
fn a_message_that_was_sent_is_not_sent_again_at_the_end() {
    let target = " endpoint=\"a\"><inSequence><send><endpoint key=\"b\"/></send></inSequence>";
    assert_eq!(proxy("", target, &echo).sent, ["http://b/ 1"]);
    let in_out = " endpoint=\"a\"><inSequence/><outSequence><send/></outSequence>";
    assert_eq!(proxy("", in_out, &echo).sent, ["http://a/ 1"]);
}

#[test]
fn a_sequence_goes_on_after_send() {
    let target = format!(
        "><inSequence><send><endpoint key=\"a\"/></send>{}{}</inSequence><outSequence>{}</outSequence>",
        mark("after"),
        wrap("later"),
        mark("out")
    );
    let ran = proxy("", &target, &echo);
    assert_eq!(ran.log, ["at = after", "at = out"]);
    assert_eq!(ran.body(), r#"{"from":"http://a/","got":1}"#);
}

#[test]
fn a_response_continues_in_receive_instead_of_the_out_sequence() {
    let receive = format!("<sequence name=\"r\">{}<respond/></sequence>", wrap("r"));
    let target = format!(
        "><inSequence><send receive=\"r\"><endpoint key=\"a\"/></send></inSequence><outSequence>{}</outSequence>",
        mark("out")
    );
    let ran = proxy(&receive, &target, &echo);
    assert!(ran.log.is_empty(), "{ran:?}");
    assert_eq!(ran.body(), r#"{"r":{"from":"http://a/","got":1}}"#);
}

#[test]
fn a_chain_of_sends_reaches_the_client() {
    let chain = "<sequence name=\"r\"><send><endpoint key=\"b\"/></send></sequence>";
    let target = "><inSequence><send receive=\"r\"><endpoint key=\"a\"/></send></inSequence>";
    let ran = proxy(chain, target, &echo);
    assert_eq!(ran.sent, ["http://a/ 1", r#"http://b/ {"from":"http://a/","got":1}"#]);
    assert!(ran.body().starts_with(r#"{"from":"http://b/""#), "{ran:?}");
}

#[test]
fn call_returns_to_its_place_and_direction() {
    let target = format!(
        "><inSequence><call><endpoint key=\"a\"/></call><in>{}</in>{}<respond/></inSequence>",
        mark("still in"),
        wrap("c")
    );
    let ran = proxy("", &target, &echo);
    assert_eq!(ran.log, ["at = still in"]);
    assert_eq!(ran.body(), r#"{"c":{"from":"http://a/","got":1}}"#);
}

#[test]
fn the_message_type_survives_a_call_and_other_transport_properties_do_not() {
    let target = "><inSequence><property name=\"messageType\" value=\"application/json\" scope=\"axis2\"/>\
                  <property name=\"HTTP_SC\" value=\"299\" scope=\"axis2\"/>\
                  <call><endpoint key=\"a\"/></call><respond/></inSequence>";
    let xml = |_: &str, _: &str| Some(Answer::Response(response("<a><b>1</b></a>")));
    let ran = proxy("", target, &xml);
    assert_eq!(ran.body(), r#"{"a":{"b":1}}"#);
    let Outcome::Responded(message) = ran.outcome else { panic!() };
    assert!(message.properties.get(PropertyScope::Axis2, "HTTP_SC").is_none());
}

#[test]
fn call_sends_its_source_and_fills_its_target() {
    let target = |source: &str, target: &str| {
        format!(
            "><inSequence><call><source {source}</source><target {target}</target><endpoint key=\"a\"/></call>\
             <log level=\"custom\"><message>${{vars.v.got}} ${{payload}}</message></log><respond/></inSequence>"
        )
    };
    let inline = "type=\"inline\" contentType=\"application/json\">{\"i\":2}";
    let ran = proxy("", &target(inline, "type=\"variable\">v"), &echo);
    assert_eq!(ran.sent, [r#"http://a/ {"i":2}"#]);
    assert_eq!(ran.log, [r#"{"i":2} 1"#]);
    assert_eq!(ran.body(), "1");
    let ran = proxy("", &target("type=\"custom\">${payload + 1}", "type=\"body\">"), &echo);
    assert_eq!(ran.sent, ["http://a/ 2"]);
    assert_eq!(ran.body(), r#"{"from":"http://a/","got":2}"#);
}

#[test]
fn the_first_response_wins() {
    let ran = proxy(
        "",
        &format!(
            "><inSequence><send><endpoint key=\"a\"/></send>{}<respond/></inSequence>",
            wrap("first")
        ),
        &echo,
    );
    assert_eq!(ran.body(), r#"{"first":1}"#);
    assert_eq!(ran.log, ["a second response to the client is dropped"]);
}

#[test]
fn loopback_continues_as_a_response_and_never_twice() {
    let target = format!(
        "><inSequence><loopback/>{}</inSequence><outSequence><out>{}</out></outSequence>",
        mark("no"),
        mark("out")
    );
    let ran = proxy("", &target, &echo);
    assert_eq!((ran.log.clone(), ran.body()), (vec!["at = out".to_owned()], "1".to_owned()));
    let twice = "><inSequence><loopback/></inSequence><outSequence><loopback/></outSequence>";
    assert!(proxy("", twice, &echo).failure().message.contains("never end"));
}

#[test]
fn nothing_to_return_is_no_failure() {
    for target in ["><inSequence><drop/></inSequence>", "><inSequence/>"] {
        assert!(matches!(proxy("", target, &echo).outcome, Outcome::Nothing), "{target}");
    }
}

#[test]
fn nobody_needs_the_response_of_an_out_only_message() {
    let only = "<property name=\"OUT_ONLY\" value=\"true\"/>";
    let out = format!("<outSequence>{}</outSequence>", mark("out"));
    let target = format!(" endpoint=\"a\"><inSequence>{only}</inSequence>{out}");
    let ran = proxy("", &target, &echo);
    assert!(matches!(ran.outcome, Outcome::Nothing) && ran.log.is_empty(), "{ran:?}");
    let call =
        format!("><inSequence>{only}<call><endpoint key=\"a\"/></call><respond/></inSequence>");
    let ran = proxy("", &call, &echo);
    assert_eq!((ran.sent.len(), ran.body()), (1, "1".to_owned()));
}

/// A handler that logs the error and runs `then`.
fn handler(name: &str, then: &str) -> String {
    format!(
        "<sequence name=\"{name}\"><log level=\"custom\"><property name=\"{name}\" expression=\"$ctx:ERROR_CODE\"/>\
         <property name=\"m\" expression=\"$ctx:ERROR_MESSAGE\"/></log>{then}</sequence>"
    )
}

#[test]
fn the_code_of_a_thrown_error_is_its_type() {
    let target =
        "><inSequence><throwError type=\"STOCK\" errorMessage=\"none left\"/></inSequence>";
    let fault = handler("fault", "<respond/>");
    assert_eq!(proxy(&fault, target, &echo).log, ["fault = STOCK, m = none left"]);
}

#[test]
fn the_failure_of_an_endpoint_has_its_code_and_the_message_that_was_sent() {
    let fault = handler("f", "<respond/>");
    let target = " endpoint=\"a\" faultSequence=\"f\">";
    let returned = |_: &str, body: &str| {
        let failure = Failure::new(Code::NOT_CONNECTED, "refused");
        Some(Answer::Failed(failure, Some(request(body))))
    };
    let ran = proxy(&fault, target, &returned);
    assert_eq!(ran.log, ["f = 101503, m = refused"]);
    assert_eq!(ran.body(), "1");
}

#[test]
fn a_failure_in_a_handler_goes_to_the_next_one_outside() {
    let throw = |name: &str| format!("<throwError type=\"{name}\" errorMessage=\"{name}\"/>");
    let artefacts = format!(
        "<sequence name=\"outer\" onError=\"second\"><sequence key=\"inner\"/></sequence>\
         <sequence name=\"inner\" onError=\"first\">{}</sequence>{}{}{}",
        throw("ONE"),
        handler("first", &throw("TWO")),
        handler("second", &throw("THREE")),
        handler("last", "<respond/>"),
    );
    let target = " inSequence=\"outer\" faultSequence=\"last\">";
    let ran = proxy(&artefacts, target, &echo);
    assert_eq!(
        ran.log,
        ["first = ONE, m = ONE", "second = TWO, m = TWO", "last = THREE, m = THREE"]
    );
    assert_eq!(ran.body(), "1");
}

#[test]
fn a_handler_outlives_a_call_and_ends_with_its_sequence() {
    let artefacts = format!(
        "<sequence name=\"s\" onError=\"inner\"><call><endpoint key=\"a\"/></call></sequence>{}{}",
        handler("inner", "<respond/>"),
        handler("outer", "<respond/>")
    );
    let target = format!(
        " faultSequence=\"outer\"><inSequence><sequence key=\"s\"/>{}</inSequence>",
        "<call><endpoint key=\"b\"/></call>"
    );
    let only = |bad: &'static str| {
        move |url: &str, body: &str| if url == bad { refuse(url, body) } else { echo(url, body) }
    };
    let log = |bad| proxy(&artefacts, &target, &only(bad)).log;
    assert_eq!(log("http://a/"), ["inner = 101503, m = refused"]);
    assert_eq!(log("http://b/"), ["outer = 101503, m = refused"]);
}

#[test]
fn the_template_that_fails_has_the_handler_of_its_call() {
    let artefacts = format!(
        "<template name=\"t\"><sequence><throwError type=\"T\" errorMessage=\"t\"/></sequence></template>{}",
        handler("h", "<respond/>")
    );
    let target = "><inSequence><call-template target=\"t\" onError=\"h\"/></inSequence>";
    assert_eq!(proxy(&artefacts, target, &echo).log, ["h = T, m = t"]);
}

#[test]
fn an_inline_sequence_has_its_handler() {
    let artefacts = handler("h", "<respond/>");
    let target =
        "><inSequence onError=\"h\"><throwError type=\"T\" errorMessage=\"t\"/></inSequence>";
    assert_eq!(proxy(&artefacts, target, &echo).log, ["h = T, m = t"]);
}

#[test]
fn a_failure_without_a_handler_has_its_place() {
    let target =
        "><inSequence><throwError type=\"T\" errorMessage=\"{concat('a', 'b')}\"/></inSequence>";
    let ran = proxy("", target, &echo);
    assert_eq!(ran.failure().message, "ab");
    assert!(ran.failure().place.as_ref().unwrap().starts_with("throwError at test.xml:1:"));
}

#[test]
fn a_time_out_that_is_discarded_reaches_no_handler() {
    let artefacts = format!(
        "<endpoint name=\"slow\"><address uri=\"http://slow/\"><timeout><duration>10</duration>\
         <responseAction>discard</responseAction></timeout></address></endpoint>{}",
        handler("f", "<respond/>")
    );
    let late = |_: &str, _: &str| {
        Some(Answer::Failed(Failure::new(Code::TIMEOUT, "no response in time"), None))
    };
    let ran = proxy(&artefacts, " endpoint=\"slow\" faultSequence=\"f\">", &late);
    assert!(ran.log.is_empty() && matches!(ran.outcome, Outcome::Nothing), "{ran:?}");
}

#[test]
fn a_sequence_that_calls_itself_fails() {
    let main = "<sequence name=\"main\"><sequence key=\"main\"/></sequence>";
    let ran = proxy(main, " inSequence=\"main\">", &echo);
    assert!(ran.failure().message.contains("nested deeper"), "{ran:?}");
}

#[test]
fn a_loop_of_calls_ends_with_the_budget() {
    let again =
        "<sequence name=\"again\"><send receive=\"again\"><endpoint key=\"a\"/></send></sequence>";
    let program = program(&format!("{ENDPOINTS}{again}"));
    let flow = Flow { request: program.sequence("again"), ..Flow::default() };
    let budget = Budget::new(10_000, 1 << 20);
    let run = Run::new(Arc::clone(&program), flow, request("1"), budget);
    let ran = drive_run(run, &|_, _| Some(Answer::Response(response("1"))));
    assert!(ran.failure().message.contains("10000 steps"), "{:?}", ran.outcome);
    assert!(ran.sent.len() < 300, "{}", ran.sent.len());
}

fn streaming() -> Message {
    Message::new(Direction::Request, Box::<PlainHead>::default(), Body::streaming(Format::Json))
}

#[test]
fn a_body_that_nobody_reads_streams_both_ways() {
    let target = format!(
        " endpoint=\"a\"><inSequence>{}</inSequence><outSequence>{}</outSequence>",
        mark("in"),
        mark("out")
    );
    let program =
        program(&format!("{ENDPOINTS}<proxy name=\"P\"><target{target}</target></proxy>"));
    let world = World::default();
    let mut run = Run::new(Arc::clone(&program), flow(&program), streaming(), Budget::default());
    let Event::Ask(id, Ask::Exchange(exchange)) = run.next(&world) else { panic!() };
    assert_eq!(
        (exchange.source, exchange.message.body.state()),
        (Source::Request, penstock_mediation::BodyUse::Untouched)
    );
    assert!(matches!(run.next(&world), Event::Waiting));
    run.answer(id, Answer::Response(streaming()));
    let Event::Respond(message, source) = run.next(&world) else { panic!() };
    assert_eq!(
        (source, message.body.state()),
        (Source::Response(id), penstock_mediation::BodyUse::Untouched)
    );
    assert!(matches!(run.next(&world), Event::Done));
}

#[test]
fn a_body_is_read_once_before_the_step_that_needs_it() {
    let target = format!(
        "><inSequence>{}<log level=\"custom\"><property name=\"s\" expression=\"json-eval($.symbol)\"/></log>{}<respond/></inSequence>",
        mark("before"),
        wrap("w")
    );
    let program = program(&format!("<proxy name=\"P\"><target{target}</target></proxy>"));
    let ran = drive(&program, flow(&program), streaming(), &echo);
    assert_eq!(
        (ran.bodies, ran.log.clone()),
        (1, vec!["at = before".to_owned(), "s = IBM".to_owned()])
    );
    assert_eq!(ran.body(), r#"{"w":{"symbol":"IBM"}}"#);
}

#[test]
fn a_streaming_body_is_held_before_send_if_a_later_step_reads_it() {
    let rest =
        "<log level=\"custom\"><property name=\"s\" expression=\"json-eval($.symbol)\"/></log>";
    let target = format!("><inSequence><send><endpoint key=\"a\"/></send>{rest}</inSequence>");
    let program =
        program(&format!("{ENDPOINTS}<proxy name=\"P\"><target{target}</target></proxy>"));
    let ran = drive(&program, flow(&program), streaming(), &echo);
    assert_eq!((ran.bodies, ran.sent.len(), ran.log), (1, 1, vec!["s = IBM".to_owned()]));
}

#[test]
fn a_large_body_makes_a_step_heavy() {
    let target = format!("><inSequence>{}<respond/></inSequence>", wrap("w"));
    let program = program(&format!("<proxy name=\"P\"><target{target}</target></proxy>"));
    let world = World::default();
    let large = format!("\"{}\"", "x".repeat(1 << 20));
    let mut run = Run::new(Arc::clone(&program), flow(&program), request(&large), Budget::large());
    assert!(matches!(run.next(&world), Event::Heavy));
    assert!(matches!(run.next(&world), Event::Heavy), "until it may");
    let (event, mut run) = std::thread::spawn(move || {
        let event = run.next_heavy(&World::default());
        (event, run)
    })
    .join()
    .unwrap();
    let Event::Respond(message, _) = event else { panic!("{event:?}") };
    assert_eq!(
        message.body.text(&Budget::default()).unwrap().len(),
        large.len() + "{\"w\":}".len()
    );
    assert!(matches!(run.next(&world), Event::Done));
}

#[test]
fn an_answer_that_nobody_waits_for_is_ignored() {
    let program =
        program(&format!("{ENDPOINTS}<proxy name=\"P\"><target endpoint=\"a\"/></proxy>"));
    let world = World::default();
    let mut run = Run::new(Arc::clone(&program), flow(&program), request("1"), Budget::default());
    let Event::Ask(id, _) = run.next(&world) else { panic!() };
    run.answer(id, Answer::Response(response("2")));
    run.answer(id, Answer::Response(response("3")));
    assert!(!run.is_done());
    let Event::Respond(message, _) = run.next(&world) else { panic!() };
    assert!(run.is_done());
    assert_eq!(message.body.text(&Budget::default()).unwrap(), "2");
    assert!(matches!(run.next(&world), Event::Done));
    run.answer(id, Answer::Elapsed);
    assert!(matches!(run.next(&world), Event::Done));
}

#[test]
fn an_endpoint_gets_its_address_from_the_message() {
    let url = |endpoint: &str, steps: &str| {
        let target = format!("><inSequence>{steps}</inSequence><endpoint>{endpoint}</endpoint>");
        proxy("", &target, &echo).sent.first().unwrap().split(' ').next().unwrap().to_owned()
    };
    let set = |name: &str, value: &str, scope: &str| {
        format!("<property name=\"{name}\" value=\"{value}\" scope=\"{scope}\"/>")
    };
    let postfix = set("REST_URL_POSTFIX", "/7?x=1", "axis2");
    assert_eq!(url("<address uri=\"http://h/base\"/>", &postfix), "http://h/base/7?x=1");
    assert_eq!(url("<address uri=\"http://h/base/?k=v\"/>", &postfix), "http://h/base/7?k=v&x=1");
    let id = set("uri.var.id", "a b/ü", "default");
    assert_eq!(
        url("<http method=\"get\" uri-template=\"http://h/{uri.var.id}{?uri.var.none}\"/>", &id),
        "http://h/a%20b%2F%C3%BC"
    );
    assert_eq!(
        url("<http uri-template=\"http://h/{+uri.var.id}\"/>", &id),
        "http://h/a%20b/%C3%BC"
    );
    assert_eq!(url("<default/>", "<header name=\"To\" value=\"http://own/x\"/>"), "http://own/x");
}

#[test]
fn the_format_of_an_endpoint_decides_how_the_body_is_written() {
    let target = "><endpoint><address uri=\"http://a/\" format=\"soap12\"/></endpoint>";
    let program = program(&format!("<proxy name=\"P\"><target{target}</target></proxy>"));
    let ran = drive(&program, flow(&program), streaming(), &|_, _| None);
    assert_eq!(ran.bodies, 1);
    let sent = "http://a/ <soapenv:Envelope xmlns:soapenv=\"http://www.w3.org/2003/05/soap-envelope\">\
                <soapenv:Body><jsonObject><symbol>IBM</symbol></jsonObject></soapenv:Body></soapenv:Envelope>";
    assert_eq!(ran.sent, [sent]);
}

#[test]
fn a_group_of_endpoints_is_resolved_for_the_host() {
    let member = |name: &str| format!("<endpoint key=\"{name}\"/>");
    let group = |kind: &str| {
        format!(
            "<endpoint name=\"g\"><{kind}>{}<endpoint><failover>{}</failover></endpoint></{kind}></endpoint>",
            member("a"),
            member("b")
        )
    };
    for kind in ["loadbalance", "failover", "recipientlist"] {
        let artefacts =
            format!("{ENDPOINTS}{}<proxy name=\"P\"><target endpoint=\"g\"/></proxy>", group(kind));
        let program = program(&artefacts);
        let mut run =
            Run::new(Arc::clone(&program), flow(&program), request("1"), Budget::default());
        let Event::Ask(_, Ask::Exchange(exchange)) = run.next(&World::default()) else { panic!() };
        let [first, second] = &*exchange.target.members else { panic!("{:?}", exchange.target) };
        assert_eq!((&*first.url, &*second.members[0].url), ("http://a/", "http://b/"), "{kind}");
        assert_eq!(exchange.target.endpoint, program.endpoint("g"));
    }
}

#[test]
fn an_endpoint_by_computed_name_must_exist() {
    let target = |name: &str| {
        format!(
            "><inSequence><property name=\"to\" value=\"{name}\"/><call><endpoint key-expression=\"$ctx:to\"/></call><respond/></inSequence>"
        )
    };
    assert_eq!(proxy("", &target("b"), &echo).sent, ["http://b/ 1"]);
    assert_eq!(proxy("", &target("c"), &echo).failure().code, Code::NO_ENDPOINT);
}

#[test]
fn what_nobody_reads_is_an_error_with_a_place() {
    for (artefact, expect) in [
        ("<sequence name=\"s\"><call sorce=\"x\"/></sequence>", "`call` has no attribute `sorce`"),
        (
            "<sequence name=\"s\"><send><endpont key=\"a\"/></send></sequence>",
            "`send` has no child `endpont`",
        ),
        (
            "<sequence name=\"s\"><respond><log/></respond></sequence>",
            "`respond` has no child `log`",
        ),
        (
            "<proxy name=\"p\"><target><inSequnce/></target></proxy>",
            "`target` has no child `inSequnce`",
        ),
        (
            "<api name=\"a\" context=\"/a\"><resource method=\"GET\"/></api>",
            "`resource` has no attribute `method`",
        ),
        (
            "<endpoint name=\"e\"><address uri=\"http://a/\" encodign=\"x\"/></endpoint>",
            "`address` has no attribute `encodign`",
        ),
    ] {
        let found = diagnostics(artefact);
        assert!(
            found.iter().any(|text| text.contains(expect)
                && text.contains("test.xml:1:")
                && text.contains("error")),
            "{expect}\n{found:#?}"
        );
    }
}

#[test]
fn an_artefact_with_an_error_is_not_served_nor_is_one_that_uses_it() {
    let (program, found) = host::compile(
        "<sequence name=\"broken\"><lgo/></sequence>\
         <sequence name=\"user\"><sequence key=\"broken\"/></sequence>\
         <sequence name=\"good\"><log/></sequence>\
         <endpoint name=\"bad\"><address/></endpoint>\
         <proxy name=\"A\"><target inSequence=\"user\"/></proxy>\
         <proxy name=\"B\"><target inSequence=\"good\"/></proxy>\
         <api name=\"C\" context=\"/c\"><resource endpoint=\"bad\"/></api>",
    );
    let mut sequences: Vec<_> = program.sequences().map(|(name, _)| name).collect();
    sequences.sort_unstable();
    assert_eq!(sequences, ["good"]);
    let proxies: Vec<_> = program.proxies().iter().map(|proxy| &*proxy.name).collect();
    assert_eq!((proxies, program.apis().len()), (vec!["B"], 0));
    assert!(program.endpoint("bad").is_none());
    for expect in
        ["uses the sequence `broken`", "uses the sequence `user`", "uses the endpoint `bad`"]
    {
        assert!(found.iter().any(|text| text.contains(expect)), "{expect}\n{found:#?}");
    }
}

#[test]
fn the_first_of_two_artefacts_with_one_name_is_served() {
    let (program, found) = host::compile(
        "<sequence name=\"s\"><drop/></sequence><sequence name=\"s\"><respond/></sequence>",
    );
    assert!(found.iter().any(|text| text.contains("two of `sequence`")), "{found:?}");
    let program = Arc::new(program);
    let flow = Flow { request: program.sequence("s"), ..Flow::default() };
    let ran = drive(&program, flow, request("1"), &echo);
    assert!(matches!(ran.outcome, Outcome::Nothing), "{ran:?}");
}

#[test]
fn a_parameter_in_two_pairs_of_braces_is_an_expression() {
    let artefacts = "<template name=\"t\"><parameter name=\"p\"/><sequence><log level=\"custom\">\
                     <property name=\"p\" expression=\"$func:p\"/></log></sequence></template>";
    let target = |value: &str| {
        format!(
            "><inSequence><call-template target=\"t\"><with-param name=\"p\" value=\"{value}\"/></call-template></inSequence>"
        )
    };
    for value in ["{${payload.a}}", "${payload.a}", "{json-eval($.a)}", "{{json-eval($.a)}}"] {
        let program = program(&format!(
            "{artefacts}<proxy name=\"P\"><target{}</target></proxy>",
            target(value)
        ));
        let ran = drive(&program, flow(&program), request(r#"{"a":5}"#), &echo);
        assert_eq!(ran.log, ["p = 5"], "{value}");
    }
}

#[test]
fn a_detail_of_a_fault_keeps_its_elements() {
    let target = "><inSequence><makefault version=\"soap11\"><code value=\"x:Client\"/><reason value=\"r\"/>\
                  <detail><d xmlns=\"urn:d\">1</d></detail></makefault><respond/></inSequence>";
    let body = proxy("", target, &echo).body();
    assert!(body.contains("<detail><d xmlns=\"urn:d\">1</d></detail>"), "{body}");
}
