//! Messages that become several, and several that become one.

use std::sync::Arc;

use crate::host;
use crate::host::{
    ENDPOINTS, Outcome, Ran, begin, diagnostics, drive_run, flow, of_proxy, refuse, request,
    response,
};
use penstock_mediation::{Answer, Run};
use xpath::Budget;

/// Returns the sent message, in a property with the endpoint's name.
fn echo(url: &str, body: &str) -> Option<Answer> {
    let name = url.trim_start_matches("http://").trim_end_matches('/');
    let body = if body.starts_with('<') {
        format!("<{name}>{body}</{name}>")
    } else {
        format!("{{\"{name}\":{body}}}")
    };
    Some(Answer::Response(response(&body)))
}

fn silent(_: &str, _: &str) -> Option<Answer> {
    None
}

#[track_caller]
fn run(body: &str, target: &str, endpoint: &host::Endpoint) -> Ran {
    run_with("", body, target, endpoint)
}

/// The same with other artefacts.
#[track_caller]
fn run_with(artefacts: &str, body: &str, target: &str, endpoint: &host::Endpoint) -> Ran {
    let program = of_proxy(artefacts, &format!(">{target}"));
    drive_run(begin(&program, request(body)), endpoint)
}

/// An `aggregate` that puts JSON bodies in an array and responds.
fn aggregate(conditions: &str) -> String {
    format!(
        "<aggregate>{conditions}<onComplete expression=\"json-eval($)\"><respond/></onComplete></aggregate>"
    )
}

const CLONE: &str = "<clone><target endpoint=\"a\"/><target endpoint=\"b\"/></clone>";
const ITEMS: &str = r#"{"items":[{"n":1},{"n":2.50},{"n":3}],"of":"me"}"#;

#[test]
fn clones_wait_side_by_side_and_their_responses_are_aggregated() {
    let target =
        format!("<inSequence>{CLONE}</inSequence><outSequence>{}</outSequence>", aggregate(""));
    let ran = run("1", &target, &echo);
    assert_eq!(
        (&*ran.sent, ran.parallel),
        (&["http://a/ 1".to_owned(), "http://b/ 1".to_owned()][..], 2)
    );
    assert_eq!(ran.body(), r#"[{"a":1},{"b":1}]"#);
}

#[test]
fn clones_call_in_their_sequences_and_meet_there() {
    let part = |name: &str| {
        format!(
            "<target><sequence><call><endpoint key=\"{name}\"/></call><sequence key=\"join\"/></sequence></target>"
        )
    };
    let join = format!("<sequence name=\"join\">{}</sequence>", aggregate(""));
    let target = format!("<inSequence><clone>{}{}</clone></inSequence>", part("a"), part("b"));
    let ran = run_with(&join, "1", &target, &echo);
    assert_eq!((ran.body().as_str(), ran.parallel), (r#"[{"a":1},{"b":1}]"#, 2));
}

#[test]
fn the_parent_continues_if_it_should() {
    let clone = |continues: &str| {
        format!(
            "<inSequence><clone {continues}><target><sequence><drop/></sequence></target></clone><respond/></inSequence>"
        )
    };
    assert_eq!(run("1", &clone("continueParent=\"true\""), &echo).body(), "1");
    assert!(matches!(run("1", &clone(""), &echo).outcome, Outcome::Nothing));
}

#[test]
fn each_item_of_an_array_goes_its_own_way() {
    let target = format!(
        "<inSequence><iterate expression=\"json-eval($.items)\"><target endpoint=\"a\"/></iterate></inSequence>\
         <outSequence>{}</outSequence>",
        aggregate("")
    );
    let ran = run(ITEMS, &target, &echo);
    assert_eq!(ran.parallel, 3);
    assert_eq!(ran.body(), r#"[{"a":{"n":1}},{"a":{"n":2.50}},{"a":{"n":3}}]"#);
}

#[test]
fn an_item_keeps_the_rest_of_the_payload_if_it_should() {
    let iterate = |attach: &str| {
        format!(
            "<inSequence><iterate preservePayload=\"true\" expression=\"json-eval($.items)\" attachPath=\"json-eval({attach})\">\
             <target endpoint=\"a\"/></iterate></inSequence>"
        )
    };
    let ran = run(ITEMS, &iterate("$.of"), &silent);
    assert_eq!(ran.sent[1], r#"http://a/ {"items":[],"of":{"n":2.50}}"#);
    let ran = run(ITEMS, &iterate("$.items"), &silent);
    assert_eq!(ran.sent[0], r#"http://a/ {"items":{"n":1},"of":"me"}"#);
}

const ENVELOPE: &str = "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Header><h/></e:Header>\
                        <e:Body><o><i>1</i><k/><i>2</i></o></e:Body></e:Envelope>";

#[test]
fn each_element_goes_its_own_way_with_the_header_of_the_envelope() {
    let iterate = |more: &str| {
        format!(
            "<inSequence><iterate expression=\"//i\" {more}><target endpoint=\"a\"/></iterate></inSequence>"
        )
    };
    let plain = run(ENVELOPE, &iterate(""), &silent).sent;
    assert_eq!(plain.len(), 2);
    let ends = |sent: &str, header: &str, body: &str| sent.contains(header) && sent.contains(body);
    assert!(ends(&plain[1], "<e:Header><h/></e:Header>", ">2</i></e:Body>"), "{plain:?}");
    let kept = run(ENVELOPE, &iterate("preservePayload=\"true\" attachPath=\"//k\""), &silent);
    assert!(matches!(kept.outcome, Outcome::Nothing), "{kept:?}");
    let kept = kept.sent;
    assert!(ends(&kept[0], "<h/>", ">1</i></k></o>"), "{kept:?}");
}

#[test]
fn parts_that_called_meet_in_the_sequence_after_the_splitter() {
    let call = "<target><sequence><call><endpoint key=\"a\"/></call></sequence></target>";
    let parts = r#"[{"a":{"n":1}},{"a":{"n":2.50}},{"a":{"n":3}}]"#;
    let iterate = format!("<iterate expression=\"json-eval($.items)\">{call}</iterate>");
    let meet = "<aggregate><onComplete expression=\"json-eval($)\"><log level=\"custom\"/></onComplete></aggregate>";
    let responds = format!("<inSequence>{iterate}{meet}<respond/></inSequence>");
    let ran = run(ITEMS, &responds, &echo);
    assert_eq!((ran.body().as_str(), ran.parallel), (parts, 3));
    let nested = format!(
        "<inSequence><filter xpath=\"true()\"><then>{iterate}</then></filter>{meet}<respond/></inSequence>"
    );
    assert_eq!(run(ITEMS, &nested, &echo).body(), parts, "out of the filter too");
    let clone = format!("<inSequence><clone>{call}{call}</clone>{meet}<respond/></inSequence>");
    assert_eq!(run("1", &clone, &echo).body(), r#"[{"a":1},{"a":1}]"#);
    let named = "<iterate expression=\"json-eval($.items)\"><target sequence=\"s\"/></iterate>";
    let sequence = "<sequence name=\"s\"><call><endpoint key=\"a\"/></call></sequence>";
    let target = format!("<inSequence>{named}{meet}<respond/></inSequence>");
    assert_eq!(run_with(sequence, ITEMS, &target, &echo).body(), parts);
}

#[test]
fn nested_splits_meet_one_after_the_other() {
    let target = "<inSequence><iterate id=\"o\" expression=\"json-eval($)\"><target><sequence>\
         <iterate id=\"i\" expression=\"json-eval($)\"><target><sequence>\
         <call><endpoint key=\"a\"/></call></sequence></target></iterate>\
         <aggregate id=\"i\"><onComplete expression=\"json-eval($.a)\"><log/></onComplete></aggregate>\
         </sequence></target></iterate>\
         <aggregate id=\"o\"><onComplete expression=\"json-eval($)\"><log/></onComplete></aggregate><respond/></inSequence>";
    assert_eq!(run("[[1,2],[3]]", target, &echo).body(), "[[1,2],[3]]");
}

/// As in Synapse, which resumes a part only when the response to a `call` arrives.
#[test]
fn a_part_that_did_not_call_ends_with_its_target() {
    for inside in ["<log/>", "<send><endpoint key=\"a\"/></send>"] {
        let target = format!(
            "<inSequence><clone><target><sequence>{inside}</sequence></target></clone>\
             <log level=\"custom\"><property name=\"at\" value=\"after\"/></log></inSequence>\
             <outSequence><send/></outSequence>"
        );
        let ran = run("1", &target, &echo);
        assert!(!ran.log.contains(&"at = after".to_owned()), "{inside}: {ran:?}");
    }
}

#[test]
fn a_failure_after_the_splitter_is_handled_once() {
    let target = "<inSequence><clone><target><sequence onError=\"h\"><call><endpoint key=\"a\"/></call>\
         </sequence></target></clone><throwError type=\"T\" errorMessage=\"m\"/></inSequence>\
         <faultSequence><log level=\"custom\"><property name=\"e\" expression=\"$ctx:ERROR_CODE\"/></log><respond/>\
         </faultSequence>";
    let handler = "<sequence name=\"h\"><log level=\"custom\"><property name=\"at\" value=\"h\"/></log></sequence>";
    let ran = run_with(handler, "1", target, &echo);
    assert_eq!(ran.log, ["e = T"], "the handler of a sequence that ended is not asked");
}

#[test]
fn elements_are_aggregated_in_an_envelope_or_in_an_enclosing_element() {
    let target = |enclosing: &str| {
        format!(
            "<inSequence><property name=\"all\"><all xmlns=\"\"/></property>\
             <iterate expression=\"//i\"><target endpoint=\"a\"/></iterate></inSequence>\
             <outSequence><aggregate><onComplete expression=\"//i\" {enclosing}><respond/></onComplete></aggregate></outSequence>"
        )
    };
    let plain = "<o><i>1</i><i>2</i></o>";
    let enclosed = "enclosingElementProperty=\"all\"";
    assert_eq!(run(plain, &target(enclosed), &echo).body(), "<all><i>1</i><i>2</i></all>");
    assert_eq!(run(plain, &target(""), &echo).body(), "<aggregate><i>1</i><i>2</i></aggregate>");
}

/// An element gets the namespaces declared around it, except those that it declares itself.
#[test]
fn elements_that_are_split_and_aggregated_stay_as_they_were_written() {
    let all = "//*[local-name()='i']";
    let target = format!(
        "<inSequence><iterate expression=\"{all}\"><target endpoint=\"a\"/></iterate></inSequence>\
         <outSequence><aggregate><onComplete expression=\"{all}\"><respond/></onComplete></aggregate></outSequence>"
    );
    for (body, parts) in [
        (
            "<o><i x = '\"'><![CDATA[&]]></i ><i></i></o>",
            ["<i x = '\"'><![CDATA[&]]></i >", "<i></i>"],
        ),
        (
            "<p:o xmlns:p='u' xmlns='v'><p:i p:x='1'/><i xmlns='w' a='&#62;'/></p:o>",
            ["<p:i xmlns:p=\"u\" xmlns=\"v\" p:x='1'/>", "<i xmlns:p=\"u\" xmlns='w' a='&#62;'/>"],
        ),
        (
            "<o xmlns='v'><o xmlns=''><i/></o>\
             <i xmlns='' xmlns:xml='http://www.w3.org/XML/1998/namespace'>1</i></o>",
            ["<i/>", "<i xmlns='' xmlns:xml='http://www.w3.org/XML/1998/namespace'>1</i>"],
        ),
        (
            "<o xmlns:p='u&amp;v'><p:i>1</p:i><i b='2'/></o>",
            ["<p:i xmlns:p=\"u&amp;v\">1</p:i>", "<i xmlns:p=\"u&amp;v\" b=\"2\"/>"],
        ),
    ] {
        let ran = run(body, &target, &echo);
        assert_eq!(ran.sent, parts.map(|part| format!("http://a/ {part}")));
        assert_eq!(ran.body(), format!("<aggregate>{}</aggregate>", parts.concat()));
    }
}

#[test]
fn an_aggregate_is_complete_when_enough_arrived_and_later_ones_are_dropped() {
    let condition = "<completeCondition><messageCount min=\"2\" max=\"-1\"/></completeCondition>";
    let target = format!(
        "<inSequence><iterate expression=\"json-eval($.items)\"><target endpoint=\"a\"/></iterate></inSequence>\
         <outSequence>{}</outSequence>",
        aggregate(condition)
    );
    let ran = run(ITEMS, &target, &echo);
    assert_eq!(ran.body(), r#"[{"a":{"n":1}},{"a":{"n":2.50}}]"#);
    assert!(ran.log.is_empty(), "{ran:?}");
}

#[test]
fn parts_are_aggregated_in_the_order_of_the_split_whichever_arrives_first() {
    let join = format!("<sequence name=\"join\">{}</sequence>", aggregate(""));
    let target = "<inSequence><clone><target><sequence><call><endpoint key=\"a\"/></call><sequence key=\"join\"/></sequence>\
                  </target><target sequence=\"join\"/></clone></inSequence>";
    assert_eq!(run_with(&join, "1", target, &echo).body(), r#"[{"a":1},1]"#);
}

/// The others wait as the items that they are made of.
#[test]
fn no_more_parts_are_made_than_the_host_sends_at_a_time() {
    let most = base::limits::MEDIATED_EXCHANGES_MAX;
    let items: Vec<_> = (0..300).map(|n| n.to_string()).collect();
    let target = format!(
        "><inSequence><iterate expression=\"json-eval($)\"><target endpoint=\"a\"/></iterate></inSequence>\
         <outSequence>{}</outSequence>",
        aggregate("")
    );
    let program = of_proxy("", &target);
    let all: Vec<_> = items.iter().map(|item| format!("{{\"a\":{item}}}")).collect();
    for (limit, parallel) in [(0, 1), (3, 3), (most, most), (usize::MAX, most)] {
        let message = request(&format!("[{}]", items.join(",")));
        let mut run = begin(&program, message);
        run.limit_exchanges(limit);
        let ran = drive_run(run, &echo);
        assert_eq!(ran.body(), format!("[{}]", all.join(",")));
        assert_eq!(ran.parallel, parallel);
    }
}

#[test]
fn the_client_does_not_wait_for_parts_that_nobody_needs_an_answer_to() {
    let items: Vec<_> = (0..100).map(|n| n.to_string()).collect();
    let ran = run(&format!("[{}]", items.join(",")), &one_way("json-eval($)"), &silent);
    assert!(matches!(ran.outcome, Outcome::Accepted), "{ran:?}");
    assert_eq!(ran.sent.len(), 100);
}

fn one_way(items: &str) -> String {
    format!(
        "<inSequence><property name=\"OUT_ONLY\" value=\"true\"/><iterate expression=\"{items}\"><target endpoint=\"a\"/>\
         </iterate></inSequence>"
    )
}

/// Sent messages are released; their number is not bounded otherwise.
#[test]
fn parts_with_a_long_header_use_up_the_budget() {
    let header = format!("<e:Header><h>{}</h></e:Header>", "h".repeat(100_000));
    let items = format!("<o>{}</o>", "<i/>".repeat(300));
    let body = format!(
        "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\">{header}<e:Body>{items}</e:Body></e:Envelope>"
    );
    let program = of_proxy("", &format!(">{}", one_way("//i")));
    let flow = flow(&program);
    let with = |steps| {
        let budget = Budget::new(steps, 256 << 20);
        drive_run(Run::new(Arc::clone(&program), flow, request(&body), budget), &silent)
    };
    let ran = with(100_000);
    let Outcome::Failed(failure) = &ran.outcome else { panic!("{} were sent", ran.sent.len()) };
    assert!(failure.to_string().contains("steps"), "{failure}");
    assert!((100..300).contains(&ran.sent.len()), "{} were sent", ran.sent.len());
    assert_eq!(with(1_000_000).sent.len(), 300);
}

#[test]
fn looking_for_the_namespaces_around_parts_uses_up_the_budget() {
    let program = of_proxy("", &format!(">{}", one_way("//i")));
    let flow = flow(&program);
    let sent = |around: &str| {
        let items = "<i xmlns:p=\"v\"/>".repeat(400);
        let body = format!("{}{items}{}", around.repeat(200), "</a>".repeat(200));
        let run =
            Run::new(Arc::clone(&program), flow, request(&body), Budget::new(60_000, 1 << 26));
        drive_run(run, &silent)
    };
    assert_eq!(sent("<a>").sent.len(), 400);
    // All 200 declarations are read for each of them.
    let ran = sent("<a xmlns:p=\"u\">");
    let Outcome::Failed(failure) = &ran.outcome else { panic!("{} were sent", ran.sent.len()) };
    assert!(failure.to_string().contains("steps"), "{failure}");
}

#[test]
fn a_part_that_cannot_be_made_fails_the_message() {
    let properties: String =
        (0..1_024).map(|n| format!("<property name=\"p{n}\" value=\"\"/>")).collect();
    let target = format!(
        "<inSequence>{properties}<iterate expression=\"json-eval($.items)\"><target endpoint=\"a\"/></iterate></inSequence>"
    );
    let ran = run(ITEMS, &target, &echo);
    assert!(ran.failure().message.contains("more than 1024 properties"), "{ran:?}");
    assert!(ran.sent.is_empty(), "{ran:?}");
}

#[test]
fn messages_of_different_formats_are_aggregated_in_that_of_the_first() {
    let join = "<sequence name=\"join\"><aggregate><onComplete><respond/></onComplete></aggregate></sequence>";
    let target = |first: &str, second: &str| {
        let part = |payload: &str, kind: &str| {
            format!(
                "<target><sequence><payloadFactory media-type=\"{kind}\"><format>{payload}</format></payloadFactory>\
                 <sequence key=\"join\"/></sequence></target>"
            )
        };
        let of = |kind: &str| match kind {
            "xml" => part("<x xmlns=\"\">1</x>", kind),
            _ => part("{\"j\":2}", kind),
        };
        format!("<inSequence><clone>{}{}</clone></inSequence>", of(first), of(second))
    };
    assert_eq!(run_with(join, "1", &target("json", "xml"), &echo).body(), r#"[{"j":2},{"x":1}]"#);
    let xml = run_with(join, "1", &target("xml", "json"), &echo).body();
    assert!(xml.contains("<x>1</x><jsonObject><j>2</j></jsonObject>"), "{xml}");
}

#[test]
fn a_time_limit_completes_an_aggregate_with_what_is_there() {
    let limit = "<completeCondition timeout=\"5\"/>";
    let target =
        format!("<inSequence>{CLONE}</inSequence><outSequence>{}</outSequence>", aggregate(limit));
    let only_a = |url: &str, body: &str| if url == "http://a/" { echo(url, body) } else { None };
    let ran = run("1", &target, &only_a);
    assert_eq!((ran.timers, ran.body().as_str()), (1, r#"[{"a":1}]"#));
}

#[test]
fn an_aggregate_that_nobody_can_complete_does_not_wait() {
    let target =
        format!("<inSequence>{CLONE}</inSequence><outSequence>{}</outSequence>", aggregate(""));
    let only_a = |url: &str, body: &str| {
        if url == "http://a/" { echo(url, body) } else { refuse(url, body) }
    };
    assert_eq!(run("1", &target, &only_a).body(), r#"[{"a":1}]"#);
}

#[test]
fn nested_splits_are_aggregated_by_their_ids() {
    let target = "<inSequence><iterate id=\"outer\" expression=\"json-eval($)\"><target><sequence>\
         <iterate id=\"inner\" expression=\"json-eval($)\"><target><sequence>\
         <aggregate id=\"inner\"><onComplete expression=\"json-eval($)\">\
         <aggregate id=\"outer\"><onComplete expression=\"json-eval($)\"><respond/></onComplete></aggregate>\
         </onComplete></aggregate>\
         </sequence></target></iterate></sequence></target></iterate></inSequence>";
    assert_eq!(run("[[1,2],[3]]", target, &silent).body(), "[[1,2],[3]]");
}

#[test]
fn messages_are_correlated_by_what_they_have_in_common() {
    let target = "<inSequence><iterate expression=\"json-eval($)\"><target><sequence>\
         <aggregate><correlateOn expression=\"json-eval($.k)\"/><completeCondition><messageCount min=\"2\"/></completeCondition>\
         <onComplete expression=\"json-eval($.v)\"><log level=\"full\"/></onComplete></aggregate>\
         </sequence></target></iterate></inSequence>";
    let body = r#"[{"k":"x","v":1},{"k":"y","v":2},{"k":"x","v":3},{"k":"y","v":4}]"#;
    let log = run(body, target, &silent).log.join("\n");
    assert!(log.contains("[1,3]") && log.contains("[2,4]"), "{log}");
}

#[test]
fn what_messages_have_in_common_is_charged_as_long_as_others_may_come() {
    // 2 MB for each of 100.
    let target = "<inSequence><property name=\"long\" expression=\"json-eval($.long)\"/>\
         <iterate expression=\"json-eval($.items)\"><target><sequence>\
         <aggregate><correlateOn expression=\"concat(get-property('long'), get-property('messageSequence'))\"/>\
         <completeCondition><messageCount min=\"2\"/></completeCondition>\
         <onComplete expression=\"json-eval($)\"><drop/></onComplete></aggregate>\
         </sequence></target></iterate></inSequence>\
         <faultSequence><log level=\"custom\"><property name=\"e\" expression=\"$ctx:ERROR_MESSAGE\"/></log></faultSequence>";
    let body = format!("{{\"long\":\"{}\",\"items\":[{}1]}}", "x".repeat(2 << 20), "1,".repeat(99));
    let log = run(&body, target, &silent).log.join("\n");
    assert!(log.contains("it needs more than"), "{log}");
}

#[test]
fn a_failure_of_one_part_does_not_end_the_others() {
    let target = format!(
        "<inSequence>{CLONE}</inSequence><outSequence>{}</outSequence>\
         <faultSequence><log level=\"custom\"><property name=\"e\" expression=\"$ctx:ERROR_CODE\"/></log></faultSequence>",
        aggregate("")
    );
    let only_b = |url: &str, body: &str| {
        if url == "http://b/" { echo(url, body) } else { refuse(url, body) }
    };
    let ran = run("1", &target, &only_b);
    assert_eq!(
        (ran.log.clone(), ran.body()),
        (vec!["e = 101503".to_owned()], r#"[{"b":1}]"#.to_owned())
    );
}

#[test]
fn foreach_puts_the_results_in_the_places_of_the_items() {
    let wrap = "<payloadFactory media-type=\"json\"><format>{\"w\":$1}</format><args><arg evaluator=\"json\" expression=\"$.n\"/></args></payloadFactory>";
    let each = |attributes: &str, steps: &str| {
        format!(
            "<inSequence><foreach {attributes}><sequence>{steps}</sequence></foreach><respond/></inSequence>"
        )
    };
    let expect = r#"{"items":[{"w":1},{"w":2.50},{"w":3}],"of":"me"}"#;
    for attributes in [
        "expression=\"json-eval($.items)\"",
        "collection=\"${payload.items}\"",
        "collection=\"${payload.items}\" parallel-execution=\"false\"",
    ] {
        assert_eq!(run(ITEMS, &each(attributes, wrap), &silent).body(), expect, "{attributes}");
    }
    let xml = "<payloadFactory media-type=\"xml\"><format><j xmlns=\"\">$1</j></format><args><arg expression=\"string(//i)\"/></args></payloadFactory>";
    let body = run("<o><i>1</i><k/><i>2</i></o>", &each("expression=\"//i\"", xml), &silent).body();
    assert_eq!(body, "<o><j>1</j><k/><j>2</j></o>");
}

#[test]
fn foreach_waits_for_each_call_unless_it_is_parallel() {
    let each = |parallel: bool| {
        format!(
            "<inSequence><foreach collection=\"${{payload.items}}\" parallel-execution=\"{parallel}\" counter-variable=\"i\">\
             <sequence><call><endpoint key=\"a\"/></call><log level=\"custom\"><message>${{vars.i}}</message></log></sequence></foreach><respond/></inSequence>"
        )
    };
    let (one, all) = (run(ITEMS, &each(false), &echo), run(ITEMS, &each(true), &echo));
    assert_eq!((one.parallel, all.parallel), (1, 3));
    assert_eq!(one.body(), all.body());
    assert_eq!(one.log, ["0", "1", "2"]);
}

#[test]
fn the_results_of_foreach_go_to_a_variable_or_nowhere() {
    let each = |attributes: &str| {
        format!(
            "<inSequence><foreach collection=\"${{payload.items}}\" {attributes}><sequence><log level=\"custom\"><message>m</message></log></sequence></foreach>\
             <log level=\"custom\"><message>${{vars.v}}</message></log><respond/></inSequence>"
        )
    };
    let ran = run(
        ITEMS,
        &each("update-original=\"false\" target-variable=\"v\" result-content-type=\"JSON\""),
        &silent,
    );
    assert_eq!(ran.log[3], r#"[{"n":1},{"n":2.50},{"n":3}]"#);
    assert_eq!(ran.body(), ITEMS);
    let ran = run(ITEMS, &each("continue-without-aggregation=\"true\""), &silent);
    assert_eq!((ran.log.len(), ran.body().as_str()), (4, ITEMS));
}

#[test]
fn a_failure_inside_foreach_fails_the_message() {
    let target = "<inSequence><foreach collection=\"${payload.items}\"><sequence><throwError type=\"T\" errorMessage=\"m\"/></sequence></foreach>\
                  <respond/></inSequence><faultSequence><log level=\"custom\"><property name=\"e\" expression=\"$ctx:ERROR_CODE\"/></log><respond/></faultSequence>";
    let ran = run(ITEMS, target, &silent);
    assert_eq!((ran.log.clone(), ran.body()), (vec!["e = T".to_owned()], ITEMS.to_owned()));
}

fn scatter(attributes: &str, aggregation: &str) -> String {
    format!(
        "<inSequence><scatter-gather {attributes}><aggregation {aggregation}/>\
         <sequence><call><endpoint key=\"a\"/></call></sequence><sequence><call><endpoint key=\"b\"/></call></sequence></scatter-gather>\
         <log level=\"custom\"><message>${{vars.v}}</message></log><respond/></inSequence>"
    )
}

#[test]
fn scatter_gather_collects_what_its_sequences_make() {
    let ran = run("1", &scatter("", "expression=\"json-eval($)\""), &echo);
    assert_eq!((ran.parallel, ran.body().as_str()), (2, r#"[{"a":1},{"b":1}]"#));
    let ran = run(
        "1",
        &scatter("parallel-execution=\"false\"", "condition=\"${exists(payload.b)}\""),
        &echo,
    );
    assert_eq!((ran.parallel, ran.body().as_str()), (1, r#"[{"b":1}]"#));
    let ran = run("1", &scatter("target=\"Variable\" target-variable=\"v\"", ""), &echo);
    assert_eq!((ran.log[0].as_str(), ran.body().as_str()), (r#"[{"a":1},{"b":1}]"#, "1"));
    let xml = "result-content-type=\"XML\" result-enclosing-element=\"all\"";
    let ran = run("<x/>", &scatter(xml, ""), &echo);
    assert_eq!(ran.body(), "<all><a><x/></a><b><x/></b></all>");
}

#[test]
fn scatter_gather_goes_on_with_enough_or_when_its_time_is_over() {
    let ran = run("1", &scatter("", "min-messages=\"1\""), &echo);
    assert_eq!(ran.body(), r#"[{"a":1}]"#);
    let only_b = |url: &str, body: &str| if url == "http://b/" { echo(url, body) } else { None };
    let ran = run("1", &scatter("", "timeout=\"50\""), &only_b);
    assert_eq!((ran.timers, ran.body().as_str()), (1, r#"[{"b":1}]"#));
}

#[test]
fn too_many_parts_are_a_clear_fault() {
    let many = format!("[{}]", vec!["1"; 20_000].join(","));
    let target = "<inSequence><iterate expression=\"json-eval($)\"><target endpoint=\"a\"/></iterate></inSequence>";
    assert!(run(&many, target, &echo).failure().message.contains("20000 parts"));
    let bomb = "<sequence name=\"bomb\"><clone><target sequence=\"bomb\"/><target sequence=\"bomb\"/></clone></sequence>";
    let program = of_proxy(bomb, "><inSequence><sequence key=\"bomb\"/></inSequence>");
    let flow = flow(&program);
    let failure = drive_run(Run::new(program, flow, request("1"), Budget::large()), &silent);
    assert!(failure.failure().message.contains("branches of a message"), "{failure:?}");
}

#[test]
fn a_splitter_in_its_own_target_is_a_clear_fault() {
    let again = "<sequence name=\"again\"><clone><target sequence=\"again\"/></clone></sequence>";
    let target = "<inSequence><sequence key=\"again\"/></inSequence>";
    let ran = run_with(again, "1", target, &silent);
    let message = &ran.failure().message;
    assert!(message.contains("sequences are nested deeper than 64"), "{message}");
}

#[test]
fn a_split_that_is_written_wrong_has_a_place() {
    for (mediator, expect) in [
        ("<clone><target/></clone>", "the target is empty"),
        ("<iterate expression=\"//a\"/>", "`iterate` needs a `target`"),
        (
            "<iterate expression=\"json-eval($.a)\" preservePayload=\"true\"><target endpoint=\"a\"/></iterate>",
            "needs an `attachPath`",
        ),
        ("<aggregate/>", "`aggregate` needs `onComplete`"),
        ("<foreach expression=\"//a\"/>", "`foreach` needs a `sequence`"),
        ("<scatter-gather/>", "`scatter-gather` needs a `sequence`"),
    ] {
        let found = diagnostics(&format!("{ENDPOINTS}<sequence name=\"s\">{mediator}</sequence>"));
        assert!(found.iter().any(|text| text.contains(expect)), "{expect}\n{found:#?}");
    }
}

#[test]
fn sequential_parts_wait_for_each_other_unless_they_were_sent() {
    let call = "<call><endpoint key=\"a\"/></call>";
    let send = "<send><endpoint key=\"a\"/></send>";
    for (sequential, step, parallel) in
        [("false", call, 3), ("true", call, 1), ("true", send, 3), ("false", send, 3)]
    {
        let joined = aggregate("");
        let target = format!(
            "<inSequence><iterate expression=\"json-eval($)\" sequential=\"{sequential}\">\
             <target><sequence>{step}</sequence></target></iterate>{joined}</inSequence>\
             <outSequence>{joined}</outSequence>"
        );
        let ran = run("[1,2,3]", &target, &echo);
        assert_eq!(ran.body(), r#"[{"a":1},{"a":2},{"a":3}]"#, "{sequential} {step}");
        assert_eq!(ran.parallel, parallel, "{sequential} {step}");
    }
}

#[test]
fn a_part_that_fails_does_not_stop_those_behind_it() {
    let call = "<target><sequence><call><endpoint key=\"a\"/></call><drop/></sequence></target>";
    let fail = "<target><sequence><throwError type=\"T\" errorMessage=\"m\"/></sequence></target>";
    let target =
        format!("<inSequence><clone sequential=\"true\">{call}{fail}{call}</clone></inSequence>");
    let ran = run("1", &target, &echo);
    assert_eq!((ran.sent.len(), ran.parallel), (2, 1), "{ran:?}");
}

#[test]
fn parts_that_fail_are_one_line_in_the_log() {
    let iterate = |then: &str| {
        format!(
            "<inSequence><iterate expression=\"json-eval($)\"><target><sequence>{then}</sequence></target></iterate></inSequence>"
        )
    };
    let lines = |then: &str, body: &str| {
        let (debug, warnings): (Vec<_>, Vec<_>) = run(body, &iterate(then), &refuse)
            .log
            .into_iter()
            .partition(|line| line.starts_with("debug: "));
        (debug.len(), warnings)
    };
    let call = "<call><endpoint key=\"a\"/></call>";
    // The client gets the first failure.
    assert_eq!(lines(call, "[1]"), (0, vec![]));
    let (each, one) = lines(call, "[1,2]");
    assert_eq!((each, one.len()), (1, 1));
    assert!(one[0].starts_with("no error handler responds to: call at "), "{one:?}");
    let (each, one) = lines(call, "[1,2,3,4,5]");
    assert_eq!((each, one.len()), (4, 1));
    assert!(one[0].starts_with("no error handler responds to 4 failures, the first: call at "));
    // The first one would have been the response.
    let throw = |message: &str| format!("<throwError errorMessage=\"{message}\"/>");
    let then = format!(
        "<switch source=\"json-eval($)\"><case regex=\"1\">{}</case><case regex=\"2\">{}</case>\
         <default><respond/></default></switch>",
        throw("one"),
        throw("two"),
    );
    let (each, one) = lines(&then, "[1,2,3]");
    assert_eq!((each, one.len()), (2, 1), "{one:?}");
    assert!(one[0].contains("to 2 failures, the first: throwError at ") && one[0].ends_with("one"));
    let (each, one) = lines("<respond/>", "[1,2,3,4]");
    assert_eq!((each, one), (0, vec!["3 further responses to the client are dropped".to_owned()]));
}

#[test]
fn a_list_of_recipients_sends_copies_whose_responses_can_be_aggregated() {
    let list = "<endpoint><recipientlist><endpoint key=\"a\"/><endpoint key=\"b\"/></recipientlist></endpoint>";
    let join = format!("<outSequence>{}</outSequence>", aggregate(""));
    let sent = format!("<inSequence><send>{list}</send></inSequence>{join}");
    for target in [sent, format!("{list}{join}")] {
        let ran = run("1", &target, &echo);
        assert_eq!((&*ran.body(), ran.parallel), (r#"[{"a":1},{"b":1}]"#, 2), "{target}");
    }
    let first = run("1", list, &echo);
    assert_eq!(first.body(), r#"{"a":1}"#);
    assert_eq!(first.log, ["a second response to the client is dropped"]);
    let goes_on =
        format!("<inSequence><send>{list}</send><log level=\"custom\"/></inSequence>{join}");
    let ran = run("1", &goes_on, &echo);
    assert_eq!((&*ran.body(), ran.sent.len()), (r#"[{"a":1},{"b":1}]"#, 2));
}

#[test]
fn each_response_of_a_list_of_recipients_goes_on_after_the_call() {
    let list = "<endpoint><recipientlist><endpoint key=\"a\"/><endpoint key=\"b\"/></recipientlist></endpoint>";
    let dynamic = "<endpoint><recipientlist><endpoints value=\"http://a/,http://b/\"/></recipientlist></endpoint>";
    let join = "<aggregate><onComplete expression=\"json-eval($)\"><log level=\"custom\"/></onComplete></aggregate>";
    let inner = format!("<endpoint><recipientlist>{list}{list}</recipientlist></endpoint>");
    let both = r#"[{"a":1},{"b":1}]"#;
    let rows = [
        (format!("<call>{list}</call>{join}<respond/>"), both, 2),
        (format!("<call>{dynamic}</call>{join}<respond/>"), both, 2),
        (format!("<sequence key=\"calls\"/>{join}<respond/>"), both, 2),
        (
            format!("<call>{list}<source type=\"inline\">2</source></call>{}", aggregate("")),
            r#"[{"a":2},{"b":2}]"#,
            2,
        ),
        // The parts are lists again.
        (
            format!("<call>{inner}</call>{join}{join}<respond/>"),
            r#"[[{"a":1},{"b":1}],[{"a":1},{"b":1}]]"#,
            4,
        ),
        // The next call is not part of the list.
        (
            format!("<call>{list}</call><call><endpoint key=\"b\"/></call>{join}<respond/>"),
            r#"[{"b":{"a":1}},{"b":{"b":1}}]"#,
            2,
        ),
    ];
    let calls = format!("<sequence name=\"calls\"><call>{list}</call></sequence>");
    for (steps, expected, parallel) in rows {
        let target = format!("<inSequence>{steps}</inSequence>");
        let ran = run_with(&calls, "1", &target, &echo);
        assert_eq!((&*ran.body(), ran.parallel), (expected, parallel), "{steps}");
    }
    let first = run("1", &format!("<inSequence><call>{list}</call><respond/></inSequence>"), &echo);
    assert_eq!((&*first.body(), first.sent.len()), (r#"{"a":1}"#, 2));
    assert_eq!(first.log, ["a second response to the client is dropped"]);
    // One that fails has its error handler, and the others are joined without it.
    let one =
        |url: &str, body: &str| if url.contains('a') { refuse(url, body) } else { echo(url, body) };
    let target = format!(
        "<inSequence><call>{list}</call>{join}<respond/></inSequence><faultSequence><drop/></faultSequence>"
    );
    assert_eq!(run("1", &target, &one).body(), r#"[{"b":1}]"#);
    // A branch that waits for a part gets one result.
    let scatter = format!(
        "<inSequence><scatter-gather parallel-execution=\"true\" target=\"body\"><aggregation expression=\"${{payload}}\"/>\
         <sequence><call>{list}</call></sequence></scatter-gather><respond/></inSequence>"
    );
    assert_eq!(run("1", &scatter, &echo).sent.len(), 1);
}

#[test]
fn a_list_of_recipients_that_is_in_itself_ends() {
    let list = "<endpoint><recipientlist><endpoint key=\"r\"/><endpoint key=\"r\"/></recipientlist></endpoint>";
    let list = list.replacen("<endpoint>", "<endpoint name=\"r\">", 1);
    for step in ["send", "call"] {
        let target = format!("<inSequence><{step}><endpoint key=\"r\"/></{step}></inSequence>");
        let ran = run_with(&list, "1", &target, &echo);
        assert!(matches!(ran.outcome, Outcome::Failed(_)), "{ran:?}");
        assert!(ran.sent.is_empty(), "{ran:?}");
    }
}
