//! The cost of each mediator, as `penstock explain` shows it: crates/mediation/src/outline/costs.rs.
//!
//! The cost of a step is the CPU time of a run that ends with the response's bytes, minus that of the same run without
//! the step. It includes reading the body and writing the changed one.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use expression::Budget;
use mediation::{
    Answer, Bench, BenchHead, Body, Compiler, Direction, Environment, Exchange, Failure, Flow,
    Format, LogLevel, Message, Origin, PlainHead, Program, Properties, perform,
};

use crate::documents::{array_payload, buy_stocks};
use crate::{Output, least_ns};

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const RESPOND: &str = "<respond/>";

/// A step, and its run.
struct Case {
    element: &'static str,
    format: Format,
    /// The sequence without the step, and with it.
    base: &'static str,
    full: &'static str,
}

const fn case(element: &'static str, format: Format, full: &'static str) -> Case {
    Case { element, format, base: RESPOND, full }
}

/// The most expensive case of an element counts.
const CASES: &[Case] = &[
    Case {
        element: "aggregate",
        format: Format::Soap11,
        base: "<iterate expression=\"//order\"><target><sequence><call><endpoint><address uri=\"http://a/\"/></endpoint>\
            </call></sequence></target></iterate><respond/>",
        full: "<iterate expression=\"//order\"><target><sequence><call><endpoint><address uri=\"http://a/\"/></endpoint>\
            </call></sequence></target></iterate><aggregate><completeCondition><messageCount min=\"-1\" max=\"-1\"/>\
            </completeCondition><onComplete expression=\"$body/*[1]\"><respond/></onComplete></aggregate>",
    },
    case(
        "clone",
        Format::Soap11,
        "<clone continueParent=\"true\"><target><sequence><drop/></sequence></target>\
        <target><sequence><drop/></sequence></target></clone><respond/>",
    ),
    case(
        "enrich",
        Format::Soap11,
        "<enrich><source type=\"inline\"><a xmlns=\"\"/></source>\
        <target action=\"child\" xpath=\"//order[1]\"/></enrich><respond/>",
    ),
    case(
        "enrich",
        Format::Json,
        "<enrich><source type=\"inline\">{\"a\":1}</source>\
        <target action=\"child\" xpath=\"json-eval($)\"/></enrich><respond/>",
    ),
    case(
        "filter",
        Format::Soap11,
        "<filter xpath=\"//order[last()]/symbol = 'IBM'\"><then/><else/></filter><respond/>",
    ),
    case(
        "filter",
        Format::Json,
        "<filter source=\"json-eval($.payload[-1:])\" regex=\"a.*\"><then/><else/></filter><respond/>",
    ),
    case(
        "foreach",
        Format::Soap11,
        "<foreach expression=\"//order\"><sequence><property name=\"a\" value=\"b\"/></sequence>\
        </foreach><respond/>",
    ),
    case(
        "iterate",
        Format::Soap11,
        "<iterate expression=\"//order\" continueParent=\"true\"><target><sequence><drop/>\
        </sequence></target></iterate><respond/>",
    ),
    case("jsontransform", Format::Json, "<jsontransform schema=\"schema\"/><respond/>"),
    case("log", Format::Soap11, "<log level=\"full\"/><respond/>"),
    case("log", Format::Json, "<log level=\"full\"/><respond/>"),
    case(
        "makefault",
        Format::Soap11,
        "<makefault version=\"soap11\"><code \
        xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\" value=\"s:Server\"/><reason value=\"no\"/></makefault><respond/>",
    ),
    case(
        "payloadFactory",
        Format::Soap11,
        "<payloadFactory media-type=\"xml\"><format><all xmlns=\"\">$1</all></format><args>\
        <arg expression=\"//order\"/></args></payloadFactory><respond/>",
    ),
    case(
        "payloadFactory",
        Format::Json,
        "<payloadFactory media-type=\"json\"><format>{\"all\":$1}</format><args>\
        <arg evaluator=\"json\" expression=\"$.payload\"/></args></payloadFactory><respond/>",
    ),
    case(
        "property",
        Format::Soap11,
        "<property name=\"a\" expression=\"//order[last()]/symbol\"/><respond/>",
    ),
    case(
        "property",
        Format::Json,
        "<property name=\"a\" expression=\"json-eval($.payload[-1:])\"/><respond/>",
    ),
    case(
        "scatter-gather",
        Format::Json,
        "<scatter-gather parallel-execution=\"true\" target=\"Body\" \
        result-content-type=\"JSON\"><aggregation expression=\"${payload}\"/><sequence><log/></sequence><sequence><log/>\
        </sequence></scatter-gather><respond/>",
    ),
    case(
        "script",
        Format::Json,
        "<script language=\"js\">var o = mc.getPayloadJSON(); o.a = 1; mc.setPayloadJSON(o);</script>\
        <respond/>",
    ),
    case(
        "switch",
        Format::Soap11,
        "<switch source=\"//order[last()]/symbol\"><case regex=\"A.*\"/><default/></switch><respond/>",
    ),
    case(
        "validate",
        Format::Json,
        "<validate><schema key=\"schema\"/><on-fail><drop/></on-fail></validate><respond/>",
    ),
    case("xslt", Format::Soap11, "<xslt key=\"sheet\"/><respond/>"),
];

const HEADER: &str = "\
//! What mediators cost that need the body. `penstock-engines mediators` writes this file:
//! `cargo run --release -p penstock-engines -- mediators > crates/mediation/src/outline/costs.rs`.
//!
//! CPU time on one core, of SOAP orders or JSON, the larger of both where a mediator works on either. It includes
//! reading the body, which only the first of several steps does, and writing the changed one.

use expression::BodyUse;

/// The mediator, and nanoseconds for bodies of 1, 10 and 100 KB.
#[rustfmt::skip]
const COSTS_NS: &[(&str, [u64; 3])] = &[
";

const FOOTER: &str = "];

/// What a step of this element costs. The others evaluate an expression, as `property` does.
pub(super) fn of(element: &str, body_use: BodyUse) -> [u64; 3] {
    if body_use == BodyUse::Untouched {
        return [0; 3];
    }
    let known = match element {
        \"fastXSLT\" | \"datamapper\" => \"xslt\",
        known if COSTS_NS.iter().any(|(element, _)| *element == known) => known,
        _ => \"property\",
    };
    let found = COSTS_NS.iter().find(|(element, _)| *element == known);
    found.map(|(_, costs)| *costs).unwrap_or_default()
}
";

/// The file with the costs of all mediators.
pub(crate) fn costs() -> Output {
    let mut rows: Vec<(&str, [u64; 3])> = Vec::new();
    for case in CASES {
        let mut costs = [0; 3];
        let mut least = 0;
        for (cost, size) in costs.iter_mut().zip(SIZES) {
            // A cost that does not depend on the size varies by the precision of the measurement.
            least = case.cost_ns(size)?.max(least);
            *cost = least;
        }
        eprintln!("{}: {costs:?}", case.element);
        match rows.iter_mut().find(|(element, _)| *element == case.element) {
            Some((_, known)) => {
                known.iter_mut().zip(costs).for_each(|(one, other)| *one = other.max(*one))
            }
            None => rows.push((case.element, costs)),
        }
    }
    let mut file = HEADER.to_owned();
    for (element, costs) in rows {
        _ = writeln!(file, "    ({:17} {costs:?}),", format!("\"{element}\","));
    }
    Ok(file + FOOTER.trim_end())
}

impl Case {
    /// Rounded to two significant digits, the precision that repetitions confirm.
    fn cost_ns(&self, size: usize) -> Result<u64, Box<dyn std::error::Error>> {
        let body = if self.format == Format::Json {
            array_payload(size)
        } else {
            buy_stocks(size).into_bytes()
        };
        let run = |sequence: &str| -> Result<f64, Box<dyn std::error::Error>> {
            let program = program(sequence)?;
            mediated(&program, self.format, body.clone())
                .map_err(|failure| format!("{}: {failure}", self.element))?;
            Ok(least_ns(|| _ = mediated(&program, self.format, body.clone())))
        };
        let ns = (run(self.full)? - run(self.base)?).max(0.0);
        let digits = 10_f64.powf((ns.max(10.0).log10().floor() - 1.0).max(0.0));
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and below a minute"
        )]
        Ok(((ns / digits).round() * digits) as u64)
    }
}

fn program(sequence: &str) -> Result<Arc<Program>, Box<dyn std::error::Error>> {
    let sheet = std::fs::read_to_string("crates/xslt/tests/data/reverse.xslt")?;
    let sheet = sheet.get(sheet.find("<xsl:stylesheet").unwrap_or_default()..).unwrap_or_default();
    let artefacts = format!(
        "<definitions xmlns=\"http://ws.apache.org/ns/synapse\"><localEntry key=\"sheet\">{sheet}</localEntry>\
         <localEntry key=\"schema\"><![CDATA[{{\"type\":\"object\",\"properties\":{{\"size\":{{\"type\":\"string\"}},\
         \"payload\":{{\"type\":\"array\",\"items\":{{\"type\":\"string\"}}}}}},\"required\":[\"payload\"]}}]]>\
         </localEntry><sequence name=\"it\">{sequence}</sequence></definitions>"
    );
    let document = xml::Document::parse(artefacts.as_bytes())?;
    let (program, diagnostics) =
        Compiler::compile(&[Origin { file: Path::new("case.xml"), document: &document }]);
    match diagnostics.first() {
        Some(diagnostic) => Err(diagnostic.to_string().into()),
        None => Ok(Arc::new(program)),
    }
}

/// Runs a message, and returns the bytes of the response.
fn mediated(program: &Arc<Program>, format: Format, body: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let field = ("Content-Type".to_owned(), format.content_type().to_owned());
    let plain =
        PlainHead { method: "POST".to_owned(), target: "/".to_owned(), fields: vec![field] };
    let head = BenchHead { plain, ..BenchHead::default() };
    let message = Message::new(Direction::Request, Box::new(head), Body::held(format, body));
    let flow = Flow { request: program.sequence("it"), ..Flow::default() };
    let host = Host::default();
    perform((Arc::clone(program), flow), message, &host)?;
    match host.response.into_inner() {
        Some(message) => Ok(message.body.text(&Budget::large())?.as_bytes().to_vec()),
        None => Ok(Vec::new()),
    }
}

/// Endpoints echo.
#[derive(Default)]
struct Host {
    response: RefCell<Option<Box<Message>>>,
}

impl Environment for Host {
    fn unix_ms(&self) -> i64 {
        0
    }

    fn log(&self, _: LogLevel, line: &str) {
        std::hint::black_box(line);
    }
}

impl Bench for Host {
    fn exchange(&self, exchange: Exchange, _: Option<&Properties>) -> Option<Answer> {
        Some(Answer::Response(exchange.message))
    }

    fn respond(&self, message: Box<Message>) {
        self.response.replace(Some(message));
    }

    fn accept(&self) {}
}
