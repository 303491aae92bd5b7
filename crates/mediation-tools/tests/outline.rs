//! Bodies in `penstock explain`: through every branch, before and after steps that replace them.

use std::path::PathBuf;

use mediation::Compiler;
use model::{Artefact, ArtefactKind, ArtefactSet};
use penstock_mediation_tools::outline::{self, Outline, PassingBody};

/// Named sequences that the cases use; line 1.
const OTHERS: &str = "<sequence name=\"reads\"><log level=\"full\"/></sequence>\
    <sequence name=\"calls\"><call><endpoint key=\"e\"/></call></sequence>\
    <sequence name=\"handled\" onError=\"reads\"><property name=\"a\" value=\"b\"/></sequence>\
    <sequence name=\"endless\"><sequence key=\"endless\"/></sequence>\
    <endpoint name=\"e\"><address uri=\"http://e/\"/></endpoint>";

fn outlines(artefacts: &str) -> Vec<Outline> {
    let text = format!(
        "<definitions xmlns=\"http://ws.apache.org/ns/synapse\">{OTHERS}{artefacts}</definitions>"
    );
    let artefact = Artefact {
        kind: ArtefactKind::Definitions,
        name: String::new(),
        version: String::new(),
        file: PathBuf::from("a.xml"),
        bytes: text.into_bytes().into(),
        configs: std::collections::BTreeMap::default(),
        documents: std::collections::BTreeMap::default(),
        contains: Vec::new(),
        problems: Vec::new(),
        application: None,
    };
    let set = ArtefactSet { artefacts: vec![artefact], ..ArtefactSet::default() };
    let (program, diagnostics) = Compiler::compile_set(&set);
    assert_eq!(diagnostics, []);
    outline::of(&set, &program, Some("it"))
}

/// Each step is on a line of its own, the first one on line 2.
#[track_caller]
fn check(steps: &[&str], expect: &[&str]) {
    let outlines = outlines(&format!("<sequence name=\"it\">\n{}\n</sequence>", steps.join("\n")));
    let bodies = outlines[0].flows[0].bodies();
    let described: Vec<_> = bodies.iter().map(described).collect();
    assert_eq!(described, expect);
}

/// `the body: 2 4, else streams`
fn described(body: &PassingBody<'_>) -> String {
    let holders = body.holders.iter().map(|node| node.place.line.to_string());
    let ways = holders.chain(body.streams.then(|| "streams".to_owned())).collect::<Vec<_>>();
    format!("{}: {}", body.name, ways.join(" "))
}

const CALL: &str = "<call><endpoint key=\"e\"/></call>";
const READ: &str = "<log level=\"full\"/>";
const LOG: &str = "<log level=\"custom\"/>";

#[test]
fn a_call_replaces_the_body() {
    check(&[CALL, READ], &["the body: streams", "the response to `call` in line 2: 3"]);
    check(&[READ, CALL, LOG], &["the body: 2", "the response to `call` in line 3: streams"]);
    check(
        &[
            "<call><source type=\"body\"/><target type=\"property\">p</target><endpoint key=\"e\"/></call>",
            READ,
        ],
        &["the body: 2"],
    );
}

#[test]
fn branches_are_followed_apart_and_meet_again() {
    let filter = |then: &str, other: &str| {
        format!("<filter source=\"$trp:a\" regex=\"b\"><then>{then}</then>{other}</filter>")
    };
    check(&[&filter(READ, "")], &["the body: 2 streams"]);
    check(&[&filter(READ, &format!("<else>{LOG}</else>")), READ], &["the body: 2 3"]);
    check(&[&filter(READ, &format!("<else>\n{READ}</else>")), READ], &["the body: 2 3"]);
    // The sibling has not called.
    check(
        &[&filter(CALL, &format!("<else>\n{READ}</else>")), LOG, READ],
        &["the body: 3 streams", "the response to `call` in line 2: 5"],
    );
    check(
        &[&filter(CALL, ""), READ],
        &["the body: 3 streams", "the response to `call` in line 2: 3"],
    );
    check(
        &[&filter(&format!("{CALL}<respond/>"), ""), READ],
        &["the body: 3 streams", "the response to `call` in line 2: streams"],
    );
    let switch = format!(
        "<switch source=\"$trp:a\"><case regex=\"b\">\n{READ}</case><default>{LOG}</default></switch>"
    );
    check(&[&switch], &["the body: 3 streams"]);
}

#[test]
fn sequences_are_followed_each_time() {
    let reads = "<sequence key=\"reads\"/>";
    check(
        &[CALL, reads, CALL, reads],
        &[
            "the body: streams",
            "the response to `call` in line 2: 1",
            "the response to `call` in line 4: 1",
        ],
    );
    check(
        &["<sequence key=\"calls\"/>", READ],
        &["the body: streams", "the response to `call` in line 1: 3"],
    );
    check(&["<sequence key=\"endless\"/>", READ], &["the body: 3"]);
    let inner = format!("<sequence name=\"inner\">\n{CALL}</sequence>");
    check(&[&inner, READ], &["the body: streams", "the response to `call` in line 3: 4"]);
}

#[test]
fn copies_and_parts_have_bodies_of_their_own() {
    let clone = |more: &str, steps: &str| {
        format!("<clone {more}><target><sequence>{steps}</sequence></target></clone>")
    };
    check(&[&clone("", CALL), READ], &["the body: 2", "the response to `call` in line 2: 3"]);
    check(&[&clone("", LOG), READ], &["the body: 2"]);
    check(
        &[CALL, &clone("continueParent=\"true\"", READ), LOG],
        &["the body: streams", "the response to `call` in line 2: 3"],
    );
    let iterate = |steps: &str| {
        format!(
            "<iterate expression=\"//a\"><target><sequence>{steps}</sequence></target></iterate>"
        )
    };
    check(&[&iterate(CALL), READ], &["the body: 2", "the response to `call` in line 2: 3"]);
    check(&[&iterate(READ)], &["the body: 2"]);
    let aggregate = format!(
        "<aggregate><completeCondition><messageCount min=\"-1\" max=\"-1\"/></completeCondition>\
         <onComplete expression=\"//a\">{READ}</onComplete></aggregate>"
    );
    check(
        &[&iterate(CALL), &aggregate, READ],
        &["the body: 2", "the response to `call` in line 2: 3"],
    );
    let foreach = format!("<foreach expression=\"//a\"><sequence>{READ}</sequence></foreach>");
    check(&[CALL, &foreach, READ], &["the body: streams", "the response to `call` in line 2: 3"]);
    let each = |more: &str| format!("<foreach {more}><sequence>\n{CALL}</sequence></foreach>");
    let waits = each("expression=\"//a\"");
    check(&[&waits], &["the body: 2", "the response to `call` in line 3: 2"]);
    let scatter = format!("<scatter-gather><sequence>\n{CALL}</sequence></scatter-gather>");
    check(&[&scatter], &["the body: 2", "the response to `call` in line 3: 2"]);
}

#[test]
fn handlers_get_what_failed() {
    check(&["<sequence key=\"handled\"/>"], &["the body: 1 streams"]);
    check(
        &[
            "<clone><target><sequence onError=\"reads\">\n<call><endpoint key=\"e\"/></call><log/></sequence></target></clone>",
        ],
        &["the body: 2", "the response to `call` in line 3: 1 streams"],
    );
    let outlines = outlines("<sequence name=\"it\" onError=\"reads\"><log/></sequence>");
    let flows: Vec<_> = outlines[0].flows.iter().map(|flow| flow.label.as_str()).collect();
    assert_eq!(flows, ["steps", "onError: sequence reads"]);
    assert_eq!(described(&outlines[0].flows[1].bodies()[0]), "the body: 1");
}

#[test]
fn an_inbound_endpoint_runs_its_sequence() {
    let inbound = "<inboundEndpoint name=\"it\" protocol=\"http\" sequence=\"calls\" onError=\"reads\"><parameters>\
                   <parameter name=\"inbound.http.port\">8085</parameter></parameters></inboundEndpoint>";
    let outlines = outlines(inbound);
    let [outline] = &outlines[..] else { panic!("{outlines:?}") };
    assert_eq!((&*outline.kind, &*outline.address), ("inboundEndpoint", "http, port 8085"));
    let flows: Vec<_> = outline.flows.iter().map(|flow| flow.label.as_str()).collect();
    assert_eq!(flows, ["sequence calls", "onError: sequence reads"]);
}

#[test]
fn responses_of_send_have_their_own_way() {
    check(
        &["<send receive=\"reads\"><endpoint key=\"e\"/></send>", LOG],
        &["the body: streams", "the response to `send` in line 2: 1"],
    );
    let filter = "<filter source=\"$trp:a\" regex=\"b\"><then>";
    for later in [READ.to_owned(), format!("{filter}{READ}</then></filter>")] {
        check(&["<send><endpoint key=\"e\"/></send>", &later], &["the body: 2"]);
    }
}

#[test]
fn endpoints_hold_what_they_convert_or_may_repeat() {
    let address = "<endpoint><address uri=\"http://e/\"/></endpoint>";
    let kinds = [
        ("<address uri=\"http://e/\" format=\"soap11\"/>", "2"),
        ("<address uri=\"http://e/\" format=\"rest\"/>", "streams"),
        ("<address uri=\"http://e/\"><enableAddressing/></address>", "2"),
        (&format!("<failover>{address}</failover>"), "streams"),
        (
            "<failover><endpoint><address uri=\"http://e/\"><retryConfig><enabledErrorCodes>101504</enabledErrorCodes>\
             </retryConfig></address></endpoint></failover>",
            "2",
        ),
        (&format!("<recipientlist>{address}</recipientlist>"), "2"),
        (
            "<loadbalance><endpoint><address uri=\"http://e/\" format=\"pox\"/></endpoint></loadbalance>",
            "2",
        ),
        ("<address uri=\"http://e/\"/><property name=\"OUT_ONLY\" value=\"true\"/>", "2"),
        ("<address uri=\"http://e/\"/><property name=\"OUT_ONLY\" value=\"false\"/>", "streams"),
    ];
    for (kind, expect) in kinds {
        let sent = format!("<send><endpoint>{kind}</endpoint></send>");
        check(&[&sent], &[&format!("the body: {expect}")]);
        let proxy = format!(
            "<proxy name=\"it\"><target>\n<endpoint>{kind}</endpoint></target></proxy>\
             <api name=\"it\" context=\"/it\"><resource methods=\"GET\"><inSequence><respond/></inSequence></resource>\
             <resource methods=\"POST\"><inSequence/>\n<endpoint>{kind}</endpoint></resource></api>"
        );
        let outlines = outlines(&proxy);
        assert_eq!(outlines.len(), 2, "{proxy}");
        for (outline, line) in outlines.iter().zip(["2", "3"]) {
            let last = outline.flows.last().unwrap().bodies().pop().unwrap();
            let expect = expect.replace('2', line);
            assert_eq!(described(&last), format!("the body: {expect}"), "{}", outline.kind);
        }
    }
}

#[test]
fn properties_hold_what_is_sent_after_them() {
    let set = |name: &str, value: &str, scope: &str| {
        format!("<property name=\"{name}\" {value} scope=\"{scope}\"/>")
    };
    let yes = "value=\"true\"";
    let one_way = set("OUT_ONLY", yes, "default");
    check(&[&one_way, "<send><endpoint key=\"e\"/></send>"], &["the body: 3"]);
    check(
        &[&set("OUT_ONLY", "value=\"false\"", "default"), CALL],
        &["the body: streams", "the response to `call` in line 3: streams"],
    );
    check(
        &[&one_way, &set("OUT_ONLY", "action=\"remove\"", "default"), CALL],
        &["the body: streams", "the response to `call` in line 4: streams"],
    );
    check(
        &[&set("FORCE_SC_ACCEPTED", "expression=\"$trp:a\"", "axis2"), CALL],
        &["the body: 3 streams", "the response to `call` in line 3: streams"],
    );
    // Only if its length is not known, and only of this message.
    check(
        &[&set("DISABLE_CHUNKING", yes, "axis2"), CALL, "<send><endpoint key=\"e\"/></send>"],
        &["the body: 3 streams", "the response to `call` in line 3: streams"],
    );
    check(
        &[&set("FORCE_ERROR_ON_SOAP_FAULT", yes, "default"), CALL],
        &["the body: 3", "the response to `call` in line 3: 3"],
    );
    let filter = format!("<filter source=\"$trp:a\" regex=\"b\"><then>{one_way}</then></filter>");
    check(&[&filter, "<send><endpoint key=\"e\"/></send>"], &["the body: 3 streams"]);
}

#[test]
fn every_branch_that_may_be_the_most_expensive_counts() {
    let costs = |steps: &str| {
        let outlines = outlines(&format!("<sequence name=\"it\">{steps}</sequence>"));
        outlines[0].flows[0].costs_ns()
    };
    let one = costs(READ);
    assert!(one.iter().all(|ns| *ns > 0) && one.is_sorted(), "{one:?}");
    let twice = one.map(|ns| 2 * ns);
    assert_eq!(costs("<sequence key=\"reads\"/><sequence key=\"reads\"/>"), twice);
    let both = format!(
        "<filter source=\"$trp:a\" regex=\"b\"><then>{READ}</then><else>{READ}{READ}</else></filter>"
    );
    assert_eq!(costs(&both), twice);
    assert_eq!(costs(LOG), [0; 3]);
}
