//! What a message takes in memory, its body included.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod host;

use std::fmt::Write as _;
use std::sync::Arc;

use host::{World, flow, program, request, response};
use penstock_mediation::{Answer, Ask, Event, Run};
use xpath::Budget;

/// As WSO2's performance tests have it: `bytes`, of which each order takes about 100.
fn orders(bytes: usize) -> String {
    let mut text = String::from(
        "<soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\"><soapenv:Header>\
         <routing xmlns=\"http://someuri\">xadmin;server1;community#1.0##</routing></soapenv:Header><soapenv:Body>\
         <m:buyStocks xmlns:m=\"http://services.samples/xsd\">",
    );
    while text.len() < bytes {
        text.push_str(
            "\n<order><symbol>IBM</symbol><buyerID>john</buyerID><price>140.34</price><volume>2000</volume></order>",
        );
    }
    let _ = write!(text, "\n</m:buyStocks></soapenv:Body></soapenv:Envelope>");
    text
}

/// The most that a run takes when the host is asked something, body included, in bodies.
fn held(target: &str, body: &str) -> f64 {
    let program = program(&format!("<proxy name=\"P\"><target>{target}</target></proxy>"));
    let mut run = Run::new(Arc::clone(&program), flow(&program), request(body), Budget::default());
    let world = World::of(&program);
    let mut most = 0;
    loop {
        let event = run.next(&world);
        most = most.max(run.bytes_used());
        match event {
            Event::Ask(id, Ask::Exchange(_)) => {
                run.answer(id, Answer::Response(Box::new(response(body))));
            }
            Event::Heavy => {
                let _ = run.next_heavy(&world);
            }
            Event::Respond(..) => {}
            Event::Done => return (most as f64 + body.len() as f64) / body.len() as f64,
            Event::Ask(..) | Event::Accepted | Event::Failed(_) | Event::Waiting => {
                panic!("{event:?}")
            }
        }
    }
}

#[test]
fn a_message_takes_four_times_its_body_at_most() {
    let call =
        "<call><endpoint><address uri=\"http://a/\"/></endpoint></call><respond/></inSequence>";
    for (name, steps) in [
        ("sent on", ""),
        ("by a header", "<filter source=\"$trp:routing\" regex=\"x\"><then/></filter>"),
        ("by the body", "<filter source=\"//order[1]/symbol\" regex=\".*\"><then/></filter>"),
        (
            "made anew",
            "<payloadFactory><format><payload xmlns=\"\">$1</payload></format>\
             <args><arg expression=\"$body/*\"/></args></payloadFactory>",
        ),
        (
            "kept",
            "<enrich><source type=\"body\"/><target type=\"property\" property=\"p\"/></enrich>",
        ),
    ] {
        // Smaller ones are dominated by what a message takes without a body.
        for bytes in [10_000, 100_000] {
            let times = held(&format!("<inSequence>{steps}{call}"), &orders(bytes));
            println!("{name}, {bytes} bytes: {times:.2}");
            assert!(times <= 4.0, "{name}, {bytes} bytes: {times:.2}");
        }
    }
}
