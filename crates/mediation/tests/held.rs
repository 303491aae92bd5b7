//! Memory of a message, its body included.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::host::{World, flow, message, program};
use bytes::Bytes;
use penstock_mediation::{
    Answer, Ask, Body, Direction, Event, Flow, Format, Message, Program, Run,
};
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

/// The bodies that the host holds, in bytes.
#[derive(Clone, Default)]
struct Host(Arc<AtomicUsize>);

struct Arrived(Vec<u8>, Host);

impl AsRef<[u8]> for Arrived {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        self.1.0.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

impl Host {
    fn message(&self, direction: Direction, body: &str) -> Box<Message> {
        self.0.fetch_add(body.len(), Ordering::Relaxed);
        let format = Format::guess(body.as_bytes());
        let mut message = message(direction, format, "");
        let bytes = Bytes::from_owner(Arrived(body.as_bytes().to_vec(), self.clone()));
        message.body = Body::held(format, bytes);
        message
    }
}

/// The most that a run takes when the host is asked something, and the bodies that the host holds for it, as a multiple
/// of those that were received and sent so far. In a thread of its own: documents have the names that it knows from
/// earlier ones.
fn held(program: &Arc<Program>, flow: Flow, body: &str) -> f64 {
    std::thread::scope(|scope| scope.spawn(|| held_here(program, flow, body)).join().unwrap())
}

fn held_here(program: &Arc<Program>, flow: Flow, body: &str) -> f64 {
    let host = Host::default();
    let request = host.message(Direction::Request, body);
    let mut run = Run::new(Arc::clone(program), flow, request, Budget::default());
    let world = World::of(program);
    let (mut most, mut bodies, mut is_heavy) = (0.0_f64, body.len(), false);
    let mut sent = VecDeque::new();
    loop {
        let event = if is_heavy { run.next_heavy(&world) } else { run.next(&world) };
        is_heavy = matches!(event, Event::Heavy);
        let new = |body: &Body| if body.is_new() { body.size() } else { 0 };
        let asked = match &event {
            Event::Ask(_, Ask::Exchange(exchange)) => new(&exchange.message.body),
            Event::Respond(message, _) => new(&message.body),
            Event::Ask(..)
            | Event::Accepted
            | Event::Failed(_)
            | Event::Heavy
            | Event::Waiting
            | Event::Done => 0,
        };
        let waiting: usize = sent.iter().map(|(_, body)| new(body)).sum();
        let held = host.0.load(Ordering::Relaxed) + asked + waiting;
        let all = run.bytes_used() + held as u64;
        bodies += asked;
        most = most.max(all as f64 / bodies as f64);
        match event {
            Event::Ask(id, Ask::Exchange(exchange)) => sent.push_back((id, exchange.message.body)),
            Event::Waiting => {
                let (id, body) = sent.pop_front().unwrap();
                let echoed = body.text(&Budget::default()).unwrap();
                bodies += echoed.len();
                let response = host.message(Direction::Response, &echoed);
                run.answer(id, Answer::Response(response));
            }
            Event::Heavy | Event::Respond(..) => {}
            Event::Done => return most,
            Event::Ask(..) | Event::Accepted | Event::Failed(_) => panic!("{event:?}"),
        }
    }
}

/// The artefacts of WSO2's performance tests.
fn published() -> Arc<Program> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/micro-integrator");
    let mut artefacts = String::new();
    for folder in ["endpoints", "local-entries", "proxy-services"] {
        let folder = root.join("synapse-configs/default").join(folder);
        for file in std::fs::read_dir(folder).unwrap() {
            artefacts += &std::fs::read_to_string(file.unwrap().path()).unwrap();
        }
    }
    let mapping = root.join("registry/governance/datamapper/orders.xslt");
    let mapping = std::fs::read_to_string(mapping).unwrap();
    artefacts += &format!("<localEntry key=\"mapping\">{mapping}</localEntry>");
    program(&artefacts.replace("gov:/datamapper/orders.xslt", "mapping"))
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
        (
            "each sent on its own",
            "<foreach collection=\"//order\" continue-without-aggregation=\"true\"><sequence>\
             <send><endpoint><address uri=\"http://b/\"/></endpoint></send></sequence></foreach>",
        ),
    ] {
        // Smaller ones are dominated by the memory of a message without a body.
        for bytes in [10_000, 100_000] {
            let program = program(&format!(
                "<proxy name=\"P\"><target><inSequence>{steps}{call}</target></proxy>"
            ));
            let times = held(&program, flow(&program), &orders(bytes));
            println!("{name}, {bytes} bytes: {times:.2}");
            assert!(times <= 4.0, "{name}, {bytes} bytes: {times:.2}");
        }
    }
}

#[test]
fn so_does_each_of_the_published_scenarios() {
    let program = published();
    for proxy in program.proxies() {
        for bytes in [1_000, 10_000, 100_000] {
            let body = match &*proxy.name {
                "JsonToSOAPProxy" => {
                    format!("{{\"symbols\":[{}\"IBM\"]}}", "\"IBM\",".repeat(bytes / 6))
                }
                _ => orders(bytes),
            };
            let times = held(&program, proxy.flow, &body);
            println!("{}, {bytes} bytes: {times:.2}", proxy.name);
            assert!(times <= 4.0, "{}, {bytes} bytes: {times:.2}", proxy.name);
        }
    }
}
