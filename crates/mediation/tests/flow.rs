//! Destinations of messages: sends, calls, responses, and duties of the host.

use std::sync::Arc;

use crate::host::{
    ENDPOINTS, Outcome, World, begin, drive, echo, flow, of_proxy, program, proxy, request,
    response, streaming,
};
use penstock_mediation::{
    Answer, Ask, Body, Direction, Event, Format, Message, PlainHead, PropertyScope, PropertyValue,
    Run, Source,
};
use xpath::Budget;

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
fn a_body_is_read_for_its_address_only_if_it_is_read_anyway_or_nothing_else_has_one() {
    let reads = "<filter source=\"get-property('To')\" regex=\".*\"><then/></filter>";
    let sends = "<send><endpoint key=\"a\"/></send>";
    let branch = "<filter source=\"$trp:X\" regex=\"y\"><then>BODY</then><else><send><endpoint key=\"a\"/></send></else></filter>";
    let addressed = "<header name=\"To\" value=\"http://b/\"/>";
    for (steps, format, bodies) in [
        (format!("{reads}{sends}"), Format::Soap11, 0),
        (format!("{reads}{}", branch.replace("BODY", &wrap("x"))), Format::Soap11, 1),
        (format!("{reads}{}", branch.replace("BODY", &wrap("x"))), Format::Json, 0),
        (branch.replace("BODY", &wrap("x")), Format::Soap11, 0),
        ("<send/>".to_owned(), Format::Soap11, 1),
        ("<call/><respond/>".to_owned(), Format::Soap12, 1),
        ("<send><endpoint><default/></endpoint></send>".to_owned(), Format::Soap11, 1),
        ("<send/>".to_owned(), Format::Json, 0),
        (format!("{addressed}<send/>"), Format::Soap11, 0),
    ] {
        let target = format!("><inSequence>{steps}</inSequence>");
        let program =
            program(&format!("{ENDPOINTS}<proxy name=\"P\"><target{target}</target></proxy>"));
        let message =
            Message::new(Direction::Request, Box::<PlainHead>::default(), Body::streaming(format));
        let ran = drive(&program, flow(&program), message, &echo);
        assert_eq!(ran.bodies, bodies, "{steps} {format:?}: {ran:?}");
    }
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
fn a_property_names_the_sequence_for_the_next_response() {
    let receive = format!("<sequence name=\"r\">{}<send/></sequence>", wrap("r"));
    let set = "<property name=\"RECEIVING_SEQUENCE\" value=\"r\"/>";
    let target = format!(
        "><inSequence>{set}<send><endpoint key=\"a\"/></send></inSequence><outSequence>{}</outSequence>",
        mark("out")
    );
    let ran = proxy(&receive, &target, &echo);
    assert!(ran.log.is_empty(), "{ran:?}");
    assert_eq!(ran.body(), r#"{"r":{"from":"http://a/","got":1}}"#);
    let ran = proxy("", &target, &echo);
    assert_eq!(ran.failure().message, "there is no sequence `r`");
    // The step is repeated when the body is there.
    let pox = "<endpoint><address uri=\"http://a/\" format=\"pox\"/></endpoint>";
    let target_pox = target.replace("<endpoint key=\"a\"/>", pox);
    let held = program(&format!("{receive}<proxy name=\"P\"><target{target_pox}</target></proxy>"));
    let ran = drive(&held, flow(&held), streaming(), &|_: &str, _: &str| {
        Some(Answer::Response(response("2")))
    });
    assert_eq!((ran.bodies, ran.body()), (1, r#"{"r":2}"#.to_owned()));
    let call = "<call><endpoint key=\"a\"/></call><send>";
    let ran = proxy(&receive, &target.replace("<send>", call), &echo);
    assert_eq!(ran.log, ["at = out"]);
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
                  <call><endpoint key=\"a\"/></call><log level=\"full\"/><respond/></inSequence>";
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
             <log level=\"custom\"><message>${{vars.v.payload.got}} ${{vars.v.attributes.statusCode}} ${{vars.v.headers['Content-Type']}} ${{payload}}</message></log><respond/></inSequence>"
        )
    };
    let inline = "type=\"inline\" contentType=\"application/json\">{\"i\":2}";
    let ran = proxy("", &target(inline, "type=\"variable\">v"), &echo);
    assert_eq!(ran.sent, [r#"http://a/ {"i":2}"#]);
    assert_eq!(ran.log, [r#"{"i":2} 200 application/json; charset=UTF-8 1"#]);
    assert_eq!(ran.body(), "1");
    let xml = |_: &str, _: &str| Some(Answer::Response(response("<a><b>3</b></a>")));
    let ran = proxy(
        "",
        "><inSequence><call><target type=\"variable\">v</target><endpoint key=\"a\"/></call>\
         <log level=\"custom\"><message>${xpath('//b', 'v.payload')} ${vars.v.payload}</message></log><respond/></inSequence>",
        &xml,
    );
    assert_eq!(ran.log, ["3 <a><b>3</b></a>"]);
    let ran = proxy("", &target("type=\"custom\">${payload + 1}", "type=\"body\">"), &echo);
    assert_eq!(ran.sent, ["http://a/ 2"]);
    assert_eq!(ran.body(), r#"{"from":"http://a/","got":2}"#);
}

#[test]
fn the_response_to_a_source_has_no_transport_properties_of_the_request() {
    let returned = |source: &str| {
        let target = format!(
            "><inSequence><property name=\"HTTP_SC\" value=\"299\" scope=\"axis2\"/>\
             <property name=\"NO_ENTITY_BODY\" value=\"true\" scope=\"axis2\"/>\
             <property name=\"messageType\" value=\"text/plain\" scope=\"axis2\"/>\
             <call><source {source}</source><endpoint key=\"a\"/></call><respond/></inSequence>"
        );
        let xml = |_: &str, _: &str| Some(Answer::Response(response("<a><b>1</b></a>")));
        let ran = proxy("", &target, &xml);
        let Outcome::Responded(message) = &ran.outcome else { panic!("{ran:?}") };
        assert!(message.properties.get(PropertyScope::Axis2, "HTTP_SC").is_none());
        ran.body()
    };
    assert_eq!(
        returned("type=\"inline\" contentType=\"application/json\">{\"i\":2}"),
        r#"{"a":{"b":1}}"#,
        "as what was sent"
    );
    assert_eq!(returned("type=\"inline\">{\"i\":2}"), "<a><b>1</b></a>");
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
    assert!(matches!(ran.outcome, Outcome::Accepted) && ran.log.is_empty(), "{ran:?}");
    let call =
        format!("><inSequence>{only}<call><endpoint key=\"a\"/></call><respond/></inSequence>");
    let ran = proxy("", &call, &echo);
    assert_eq!((ran.sent.len(), ran.body()), (1, "1".to_owned()));
}

#[test]
fn a_body_that_nobody_reads_streams_both_ways() {
    let target = format!(
        " endpoint=\"a\"><inSequence>{}</inSequence><outSequence>{}</outSequence>",
        mark("in"),
        mark("out")
    );
    let program = of_proxy("", &target);
    let world = World::default();
    let mut run = begin(&program, streaming());
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
    let program = of_proxy("", &target);
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
fn a_large_body_is_written_on_a_thread_for_heavy_work() {
    let sends = "<inSequence><send><endpoint><address uri=\"http://a/\" format=\"soap11\"/></endpoint></send></inSequence>";
    let edits = "<inSequence><enrich><source type=\"inline\">SUN</source><target xpath=\"//s\"/></enrich><respond/></inSequence>";
    let declares = "<inSequence><property name=\"ContentType\" value=\"text/xml\" scope=\"axis2\"/><respond/></inSequence>";
    let begin = |target: &str, body: &str| {
        let program = program(&format!("<proxy name=\"P\"><target>{target}</target></proxy>"));
        let flow = flow(&program);
        Run::new(program, flow, request(body), Budget::large())
    };
    let world = World::default();
    let (small, large) = ("x".repeat(1_000), "x".repeat(200_000));
    for (target, event) in [(sends, "Ask"), (declares, "Respond")] {
        for text in [&small, &large] {
            let mut run = begin(target, &format!("{{\"s\":\"{text}\"}}"));
            let mut first = run.next(&world);
            assert_eq!(matches!(first, Event::Heavy), *text == large, "{target}");
            if *text == large {
                first = run.next_heavy(&world);
            }
            assert!(format!("{first:?}").starts_with(event), "{first:?}");
        }
    }
    // Each recipient gets it, in order.
    for formats in [&["pox", "rest"][..], &["pox"; 2], &["pox"; 5]] {
        let address = |(at, format): (usize, &&str)| {
            format!("<endpoint><address uri=\"http://a/{at}\" format=\"{format}\"/></endpoint>")
        };
        let members: String = formats.iter().enumerate().map(address).collect();
        let received = format!(
            "<sequence name=\"r\"><respond/></sequence><proxy name=\"P\"><target><inSequence><send receive=\"r\">\
             <endpoint><recipientlist>{members}</recipientlist></endpoint></send></inSequence></target></proxy>"
        );
        let program = program(&received);
        let body = request(&format!("\"{large}\""));
        let mut run = Run::new(Arc::clone(&program), flow(&program), body, Budget::large());
        let (mut sent, mut heavy) = (Vec::new(), 0);
        loop {
            let mut event = run.next(&world);
            if matches!(event, Event::Heavy) {
                (event, heavy) = (run.next_heavy(&world), heavy + 1);
            }
            let Event::Ask(id, Ask::Exchange(exchange)) = event else {
                assert!(matches!(event, Event::Waiting), "{event:?}");
                break;
            };
            sent.push((exchange.target.url, id));
        }
        let urls: Vec<_> = sent.iter().map(|(url, _)| &**url).collect();
        let all: Vec<_> = (0..formats.len()).map(|at| format!("http://a/{at}")).collect();
        assert_eq!(urls, all);
        assert_eq!(heavy, formats.iter().filter(|format| **format == "pox").count());
        run.answer(sent[0].1, Answer::Response(response("1")));
        assert!(matches!(run.next(&world), Event::Respond(..)), "in the sequence `r`");
    }
    // An edited body is written where it was edited.
    let mut run = begin(edits, &format!("<a><s>IBM</s>{large}</a>"));
    assert!(matches!(run.next(&world), Event::Heavy));
    assert!(matches!(run.next_heavy(&world), Event::Respond(..)));
    // The memory of its nodes does not count.
    let items = "<item>0123456789</item>".repeat(4_000);
    let mut run = begin(edits, &format!("<a><s>IBM</s>{items}</a>"));
    assert!(matches!(run.next(&world), Event::Respond(..)));
    // One that cannot be written fails with its place.
    let mut run = begin(declares, &format!("{{{large}"));
    assert!(matches!(run.next(&world), Event::Heavy));
    let Event::Failed(failure) = run.next_heavy(&world) else { panic!() };
    assert!(failure.place.as_deref().unwrap().starts_with("respond at test.xml:1:"));
}

#[test]
fn a_step_that_takes_longer_than_estimated_is_repeated_as_a_heavy_one() {
    let sheet = "<localEntry key=\"s\"><xsl:stylesheet xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\" version=\"1.0\">\
        <xsl:template match=\"/*\"><n><xsl:value-of select=\"count(//i[count(preceding-sibling::i[. != 1]) &gt; 0])\"/></n>\
        </xsl:template></xsl:stylesheet></localEntry>";
    let steps = "<inSequence><xslt key=\"s\"/><respond/></inSequence>";
    let program = program(&format!("{sheet}<proxy name=\"P\"><target>{steps}</target></proxy>"));
    let begin = |items: usize| {
        let body = format!("<l>{}</l>", "<i>2</i>".repeat(items));
        Run::new(Arc::clone(&program), flow(&program), request(&body), Budget::default())
    };
    let world = World::default();
    let mut run = begin(10);
    let Event::Respond(message, _) = run.next(&world) else { panic!("it is short") };
    assert!(message.body.text(&Budget::default()).unwrap().ends_with(">9</n>"));
    let mut run = begin(1_000);
    assert!(matches!(run.next(&world), Event::Heavy));
    let Event::Respond(message, _) = run.next_heavy(&world) else { panic!("it ends") };
    assert!(message.body.text(&Budget::default()).unwrap().ends_with(">999</n>"));
}

#[test]
fn many_small_parts_make_their_splitter_and_their_join_heavy() {
    let target = "><inSequence><iterate expression=\"json-eval($)\"><target><sequence><call><endpoint key=\"a\"/></call>\
         </sequence></target></iterate><aggregate><onComplete expression=\"json-eval($)\"><respond/></onComplete></aggregate>\
         </inSequence>";
    let program = of_proxy("", target);
    let world = World::default();
    let list = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    let begin =
        |body: &str| Run::new(Arc::clone(&program), flow(&program), request(body), Budget::large());
    assert!(matches!(begin(&list(20_000)).next(&world), Event::Heavy), "so many parts");
    let mut run = begin(&list(4));
    let mut asks = Vec::new();
    while let Event::Ask(id, _) = run.next(&world) {
        asks.push(id);
    }
    let large = format!("\"{}\"", "x".repeat(50_000));
    for id in asks {
        run.answer(id, Answer::Response(response(&large)));
    }
    assert!(matches!(run.next(&world), Event::Heavy), "each response is small, and all are not");
    let Event::Respond(message, _) = run.next_heavy(&world) else { panic!() };
    assert!(message.body.size() > 4 * large.len());
}

#[test]
fn parts_with_much_around_them_are_made_by_a_heavy_thread() {
    let target = "><inSequence><iterate preservePayload=\"true\" attachPath=\"//list\" expression=\"//item\"><target>\
         <sequence><call><endpoint key=\"a\"/></call></sequence></target></iterate></inSequence>";
    let program =
        program(&format!("{ENDPOINTS}<proxy name=\"P\"><target{target}</target></proxy>"));
    let body =
        format!("<all><other>{}</other><list><item/><item/></list></all>", "x".repeat(500_000));
    let mut run = Run::new(Arc::clone(&program), flow(&program), request(&body), Budget::default());
    let world = World::default();
    for part in ["the first", "the second"] {
        assert!(matches!(run.next(&world), Event::Heavy), "{part}");
        let Event::Ask(_, Ask::Exchange(exchange)) = run.next_heavy(&world) else {
            panic!("{part}")
        };
        assert!(exchange.message.body.size() > 500_000);
    }
    assert!(matches!(run.next(&world), Event::Waiting));
}

#[test]
fn a_long_response_is_searched_for_a_fault_by_a_heavy_thread() {
    let envelope = |reason: &str| {
        format!(
            "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body><s:Fault>\
             <faultcode>s:Server</faultcode><faultstring>{reason}</faultstring></s:Fault></s:Body></s:Envelope>"
        )
    };
    let fails = "<property name=\"FORCE_ERROR_ON_SOAP_FAULT\" value=\"true\"/>";
    let call = |blocking: &str| format!("<call{blocking}><endpoint key=\"a\"/></call>");
    for (steps, status) in
        [(format!("{fails}{}", call("")), "200"), (call(" blocking=\"true\""), "500")]
    {
        let program = program(&format!(
            "{ENDPOINTS}<proxy name=\"P\"><target><inSequence>{steps}<respond/></inSequence></target></proxy>"
        ));
        let world = World::default();
        let begin = |reason: &str| {
            let mut run =
                Run::new(Arc::clone(&program), flow(&program), request("1"), Budget::default());
            let Event::Ask(id, _) = run.next(&world) else { panic!("{steps}") };
            let mut response = response(&envelope(reason));
            let budget = Budget::default();
            response
                .set(PropertyScope::Axis2, "HTTP_SC", PropertyValue::new(status), &budget)
                .unwrap();
            run.answer(id, Answer::Response(response));
            run
        };
        let Event::Failed(failure) = begin("short").next(&world) else { panic!("{steps}") };
        assert_eq!(failure.message, "short");
        let mut run = begin(&"long ".repeat(200_000));
        assert!(matches!(run.next(&world), Event::Heavy), "{steps}");
        let Event::Failed(failure) = run.next_heavy(&world) else { panic!("{steps}") };
        assert!(failure.message.starts_with("long long"), "{steps}");
    }
}

#[test]
fn an_answer_that_nobody_waits_for_is_ignored() {
    let program =
        program(&format!("{ENDPOINTS}<proxy name=\"P\"><target endpoint=\"a\"/></proxy>"));
    let world = World::default();
    let mut run = begin(&program, request("1"));
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
