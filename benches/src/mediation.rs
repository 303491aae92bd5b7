//! Mediation: the cost of the engines that a proxy service needs, on the SOAP orders of the published tests, 1 KB.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use ::mediation::{
    Answer, Ask, BenchHead, Body, Compiler, Direction, Environment, Event, Format, LogLevel,
    Message, Origin, PlainHead, Program, Run,
};
use expression::Budget;

const ORDERS: &[u8] = include_bytes!("../data/buy-stocks.xml");

macro_rules! artefacts {
    ($($path:literal),*) => {
        [$(($path, include_str!(concat!("../../examples/micro-integrator/synapse-configs/default/", $path)))),*]
    };
}

pub(super) fn parse_soap(times: usize) {
    for _ in 0..times {
        let document = xml::Document::parse(black_box(ORDERS));
        assert!(black_box(document).is_ok());
    }
}

/// Long names, and two attributes on every second element.
pub(super) fn parse_attributes(times: usize) {
    let item = "<ns1:purchaseOrderIdentifier>4711</ns1:purchaseOrderIdentifier>\
                <ns1:requestedDeliveryDate zone=\"Europe/Berlin\" kind=\"latest\">2026-11-27</ns1:requestedDeliveryDate>\n";
    let items = item.repeat(6);
    let text = format!(
        "<ns1:purchaseOrders xmlns:ns1=\"http://services.samples/orders\">\n{items}</ns1:purchaseOrders>"
    );
    assert!((1_000..1_200).contains(&text.len()), "{} bytes", text.len());
    for _ in 0..times {
        let document = xml::Document::parse(black_box(text.as_bytes()));
        assert!(black_box(document).is_ok());
    }
}

pub(super) fn direct_proxy(times: usize) {
    proxy("DirectProxy", times);
}

pub(super) fn route_by_body(times: usize) {
    proxy("CBRProxy", times);
}

pub(super) fn route_by_body_10_kb(times: usize) {
    // Nearly as the published requests of 10 KB, without their line ends.
    let order = "<order><symbol>IBM</symbol><buyerID>asankha</buyerID><price>140.34</price><volume>2000</volume></order>";
    let orders = order.repeat(96);
    let body = format!(
        "<soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\"><soapenv:Header/><soapenv:Body>\
         <m:buyStocks xmlns:m=\"http://services.samples/xsd\">{orders}</m:buyStocks></soapenv:Body></soapenv:Envelope>"
    );
    proxy_of("CBRProxy", Format::Soap11, body.leak().as_bytes(), times);
}

pub(super) fn two_transforms(times: usize) {
    proxy("XSLTProxy", times);
}

pub(super) fn json_template(times: usize) {
    // As the lab's payload `symbols-json`.
    let symbols = [r#""json""#; 60].join(",\n      ");
    let body =
        format!("{{\n  \"payload\": {{\n    \"symbol\": [\n      {symbols}\n    ]\n  }}\n}}\n");
    proxy_of("JsonToSOAPProxy", Format::Json, body.leak().as_bytes(), times);
}

pub(super) fn iterate_10(times: usize) {
    // As the lab's payload `100-elements`, with a tenth of them.
    let order = "<order><symbol>IBM</symbol><buyerID>john</buyerID><price>140.34</price><volume>100</volume></order>\n";
    let orders = order.repeat(10);
    let body =
        format!("<m:buyStocks xmlns:m=\"http://services.samples/xsd\">\n{orders}</m:buyStocks>");
    proxy_of("IterateAndAggregateProxy", Format::Xml, body.leak().as_bytes(), times);
}

fn proxy(name: &str, times: usize) {
    proxy_of(name, Format::Soap11, ORDERS, times);
}

/// Takes requests through a proxy service whose endpoint echoes, to the bytes of the response.
fn proxy_of(name: &str, format: Format, body: &'static [u8], times: usize) {
    let program = program();
    let flow = program.proxies().iter().find(|proxy| proxy.name == name).map(|proxy| proxy.flow);
    let flow = flow.expect("it is among the artefacts");
    for _ in 0..times {
        let body = Body::held(format, body);
        let message = Message::new(Direction::Request, head(format), body);
        let budget = Budget::large();
        let mut run = Run::new(Arc::clone(&program), flow, message, budget);
        let mut response = 0;
        let mut is_heavy = false;
        loop {
            let event =
                if std::mem::take(&mut is_heavy) { run.next_heavy(&Host) } else { run.next(&Host) };
            match event {
                Event::Ask(id, Ask::Exchange(exchange)) => {
                    let sent = &exchange.message.body;
                    let (format, bytes) = (sent.format(), sent.bytes(&Budget::large()));
                    let echo = Body::held(format, bytes.ok().flatten().expect("the body is held"));
                    let echo = Message::new(Direction::Response, head(format), echo);
                    run.answer(id, Answer::Response(echo));
                }
                Event::Respond(message, _) => {
                    let bytes = message.body.bytes(&Budget::large());
                    response = bytes.ok().flatten().map_or(0, |bytes| bytes.len());
                }
                Event::Heavy => is_heavy = true,
                Event::Done => break,
                other @ (Event::Ask(..) | Event::Accepted | Event::Failed(_) | Event::Waiting) => {
                    panic!("{name}: {other:?}")
                }
            }
        }
        assert!(response > 900, "{name}: a response of {response} bytes");
    }
}

fn head(format: Format) -> Box<BenchHead> {
    let field = ("Content-Type".to_owned(), format.content_type().to_owned());
    let plain =
        PlainHead { method: "POST".to_owned(), target: "/".to_owned(), fields: vec![field] };
    Box::new(BenchHead { plain, ..BenchHead::default() })
}

fn program() -> Arc<Program> {
    let files = artefacts!(
        "endpoints/RealService.xml",
        "local-entries/xslt_transform.xml",
        "local-entries/xslt_transform_reverse.xml",
        "proxy-services/CBRProxy.xml",
        "proxy-services/DirectProxy.xml",
        "proxy-services/IterateAndAggregateProxy.xml",
        "proxy-services/JsonToSOAPProxy.xml",
        "proxy-services/XSLTProxy.xml"
    );
    let documents = files.map(|(path, text)| {
        (path, xml::Document::parse(text.as_bytes()).expect("the examples are well-formed"))
    });
    let origins: Vec<_> = documents
        .iter()
        .map(|(path, document)| Origin { file: Path::new(path), document })
        .collect();
    let (program, diagnostics) = Compiler::compile(&origins);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    Arc::new(program)
}

struct Host;

impl Environment for Host {
    fn unix_ms(&self) -> i64 {
        0
    }

    fn log(&self, _: LogLevel, line: &str) {
        black_box(line);
    }
}
