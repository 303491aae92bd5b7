//! Messages that make mediation work hard.

use harness::{Client, Files, Upstream};

use crate::target::{MIB, Target};

/// A gateway with these sequences as proxies: name and `inSequence`; `HERE` is the address of an upstream.
fn target(proxies: &[(&str, &str)]) -> Target {
    let targets = proxies
        .iter()
        .map(|(name, sequence)| (*name, format!("<inSequence>{sequence}</inSequence>")));
    let targets: Vec<_> = targets.collect();
    let calls = "<sequence name=\"calls\"><call><endpoint><address uri=\"HERE/\"/></endpoint></call>\
         <sequence key=\"calls\"/></sequence>";
    let targets: Vec<_> = targets.iter().map(|(name, target)| (*name, &**target)).collect();
    target_with(&targets, calls, "")
}

/// A gateway with these proxies (name and `target`), other artefacts, and keys in `[gateway]`.
pub(crate) fn target_with(proxies: &[(&str, &str)], others: &str, keys: &str) -> Target {
    let upstream = Upstream::fixed("in");
    let proxies = proxies
        .iter()
        .map(|(name, target)| format!("<proxy name=\"{name}\"><target>{target}</target></proxy>"));
    let artefacts = format!(
        "<definitions xmlns=\"http://ws.apache.org/ns/synapse\">{}{others}</definitions>",
        proxies.collect::<String>()
    );
    let files = Files::new()
        .gateway(keys)
        .toml("[integration]\nhttp = \"127.0.0.1:0\"\nartifacts = [\"integration/\"]\n");
    std::fs::create_dir(files.path("integration")).unwrap();
    files.write("integration/attacked.xml", &artefacts.replace("HERE", &upstream.url()));
    Target::of(files, upstream)
}

pub(crate) fn connect(target: &Target) -> Client {
    Client::connect(target.process.address("integration_http"))
}

/// Sends `body` to a proxy.
pub(crate) fn send(client: &mut Client, proxy: &str, content_type: &str, body: &str) {
    let length = body.len();
    client.try_send(format!(
        "POST /services/{proxy} HTTP/1.1\r\nHost: me\r\nContent-Type: {content_type}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    ));
}

/// The status of the response.
fn post(target: &Target, proxy: &str, content_type: &str, body: &str) -> u16 {
    let mut client = connect(target);
    send(&mut client, proxy, content_type, body);
    client.read().status
}

const READS: &str = "<property name=\"a\" expression=\"count(//item)\"/><respond/>";

#[test]
fn bodies_that_grow_or_nest_are_rejected() {
    let mut target = target(&[
        ("reads", READS),
        ("json", "<property name=\"a\" expression=\"json-eval($.a)\"/><respond/>"),
    ]);
    let entities: String = (1..30)
        .map(|number| {
            let again = format!("&e{};", number - 1).repeat(10);
            format!("<!ENTITY e{number} \"{again}\">")
        })
        .collect();
    let bomb = format!("<!DOCTYPE a [<!ENTITY e0 \"x\">{entities}]><a>&e29;</a>");
    let deep_xml = "<a>".repeat(50_000);
    let deep_json = "[".repeat(50_000);
    for _ in 0..2 {
        assert_eq!(post(&target, "reads", "application/xml", &bomb), 500);
        assert_eq!(post(&target, "reads", "application/xml", &deep_xml), 500);
        assert_eq!(post(&target, "json", "application/json", &deep_json), 500);
        target.serves_others();
    }
    target.serves_others_within(32 * MIB);
}

#[test]
fn endless_calls_and_too_many_parts_end() {
    let split = "<iterate expression=\"//item\"><target><sequence><log level=\"custom\"/></sequence>\
        </target></iterate>";
    let mut target = target(&[("calls", "<sequence key=\"calls\"/>"), ("splits", split)]);
    let items = format!("<all>{}</all>", "<item/>".repeat(100_000));
    for (proxy, body) in [("calls", "<a/>"), ("splits", &items)] {
        let mut client = connect(&target);
        send(&mut client, proxy, "application/xml", body);
        target.serves_others();
        assert_eq!(client.read().status, 500, "{proxy}");
        target.serves_others();
    }
    target.wait_for_metric("penstock_held_body_bytes", 0);
}

#[test]
fn aggregates_that_are_never_complete_end() {
    let waits = "<iterate expression=\"//item\"><target><sequence><aggregate><completeCondition>\
        <messageCount min=\"1000\" max=\"1000\"/></completeCondition><onComplete expression=\"//item\"><respond/>\
        </onComplete></aggregate></sequence></target></iterate>";
    let mut target = target(&[("waits", waits)]);
    let items = format!("<all>{}</all>", "<item/>".repeat(100));
    assert_eq!(post(&target, "waits", "application/xml", &items), 200, "with those that came");
    for _ in 0..20 {
        let mut client = connect(&target);
        send(&mut client, "waits", "application/xml", &items);
        client.reset();
        target.serves_others();
    }
    target.wait_for_metric("penstock_held_body_bytes", 0);
    target.serves_others_within(32 * MIB);
}

#[test]
fn clients_that_leave_during_heavy_work_leave_nothing() {
    let mut target = target(&[("reads", READS)]);
    let items = format!("<all>{}</all>", "<item>text</item>".repeat(50_000));
    for _ in 0..8 {
        let mut client = connect(&target);
        send(&mut client, "reads", "application/xml", &items);
        client.reset();
    }
    target.serves_others();
    target.wait_for_metric("penstock_held_body_bytes", 0);
    target.serves_others();
}
