//! Bodies whose parts are found inside one another: what an evaluation makes of them, and looks at, is bounded.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod common;

use common::Message;
use penstock_expression::json::Document;
use penstock_expression::jsonpath::Path;
use penstock_expression::template::{Argument, FreeMarker, MediaType, PayloadTemplate, Settings};
use penstock_expression::{EvalError, Expression, Scope};

const DEPTH: usize = 900;
const MADE: EvalError = EvalError::Limit("40 MiB of text");
const VISITS: EvalError = EvalError::Limit("4,000,000 values");

/// An object in an object and so on, around a string of `bytes`.
fn json_chain(bytes: usize) -> String {
    let (open, close) = ("{\"a\":".repeat(DEPTH), "}".repeat(DEPTH));
    format!("{open}\"{}\"{close}", "x".repeat(bytes))
}

struct Xml(xml::Document);

impl Scope for Xml {
    fn xml(&self) -> Result<Option<&xml::Document>, EvalError> {
        Ok(Some(&self.0))
    }
    fn unix_ms(&self) -> i64 {
        0
    }
}

/// An element in an element and so on, around a text of `bytes` and so many empty elements.
fn xml_chain(bytes: usize, empty: usize) -> Xml {
    let (open, close) = ("<a>".repeat(DEPTH), "</a>".repeat(DEPTH));
    let text = format!("{open}{}{}{close}", "x".repeat(bytes), "<b/>".repeat(empty));
    Xml(xml::Document::parse(text.as_bytes()).unwrap())
}

fn told(source: &str, scope: &dyn Scope) -> Result<usize, EvalError> {
    Expression::compile(source).unwrap().evaluate(scope).map(|value| value.text().len())
}

#[test]
fn what_stands_inside_one_another_is_not_made_into_more_than_the_limit() {
    let (large, small) = (json_chain(1 << 20), json_chain(1));
    let (large, small) = (Message::new(&large, "{}"), Message::new(&small, "{}"));
    for (source, scope, expect) in [
        ("json-eval($..a)", &large, MADE),
        ("${payload..a}", &large, MADE),
        ("${$.a.a..a}", &large, MADE),
        ("${length(payload..a)}", &large, MADE),
        ("${payload[?(@..a size 3)]}", &large, VISITS),
        ("json-eval($.append($..a))", &large, VISITS),
        ("json-eval($.concat($..a))", &large, VISITS),
        ("json-eval($..a..a)", &small, VISITS),
        ("${payload..a..a}", &small, VISITS),
    ] {
        assert_eq!(told(source, scope), Err(expect), "{source}");
    }
    let xml = xml_chain(1 << 20, 0);
    for source in ["//a", "//a/text() | //a", "${xpath(\"//a\")}"] {
        assert_eq!(told(source, &xml), Err(MADE), "{source}");
    }
    assert_eq!(told("//a", &xml_chain(0, 10_000)), Err(VISITS));
    assert_eq!(told("//a", &xml_chain(1_000, 0)), Ok(DEPTH * 1_000));
}

#[test]
fn the_parts_of_an_expression_share_its_limit() {
    let large = format!("\"{}\"", "x".repeat(9 << 20));
    let large = Message::new(&large, "{}");
    for source in [
        "[payload, payload, payload, payload, payload]",
        "[toUpper(payload), toLower(payload), trim(payload), string(payload), toUpper(payload)]",
        "payload + payload + payload",
    ] {
        assert_eq!(told(&format!("${{{source}}}"), &large), Err(MADE), "{source}");
    }
    assert_eq!(told("${toUpper(payload) + payload}", &large), Ok(18 << 20));
    let list = format!("[{}1]", "1,".repeat(900_000));
    let list = Message::new(&list, "{}");
    assert!(told("${length(payload.*)}", &list).is_ok());
    assert_eq!(
        told("${length(payload.*) + length(payload.*) + length(payload.*)}", &list),
        Err(VISITS)
    );
}

#[test]
fn a_body_is_not_made_larger_than_the_limit() {
    let chain = json_chain(1 << 20);
    let chain = Message::new(&chain, "{}");
    // A name that every element of its array repeats.
    let named = format!("{{\"{}\":[1{}]}}", "n".repeat(1 << 20), ",1".repeat(1_000));
    let named = Message::new(&named, "{}");
    for (media, format, argument, scope) in [
        (MediaType::Json, "{\"a\":$1}", "json-eval($..a)", &chain),
        (MediaType::Xml, "<a>$1</a>", "json-eval($..a)", &chain),
        (MediaType::Xml, "<a>$1</a>", "json-eval($)", &named),
        (MediaType::Json, &format!("{{\"a\":\"{}\"}}", "$1".repeat(50)), "json-eval($.a)", &chain),
        (MediaType::Xml, "<a><!--$1--></a>", "json-eval($..a)", &chain),
        (MediaType::Text, &"$1".repeat(50), "json-eval($)", &chain),
    ] {
        let argument = Argument::new(Expression::compile(argument).unwrap());
        let template = PayloadTemplate::compile(format, vec![argument], Settings::new(media));
        let mut made = Vec::new();
        let told = template.unwrap().render(scope, &mut made);
        assert_eq!(told, Err(MADE), "{format}");
        assert!(made.capacity() <= 80 << 20, "{format}: {}", made.capacity());
    }
    let argument = vec![Expression::compile("json-eval($..a)").unwrap()];
    let template = FreeMarker::compile("${args.arg1}", argument).unwrap();
    assert_eq!(template.render(&chain, &mut Vec::new()), Err(MADE));
}

#[test]
fn an_answer_that_is_written_value_by_value_has_no_limit_of_its_own() {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let chain = json_chain(1 << 20);
    let document = Document::parse(chain.as_bytes()).unwrap();
    let found = Path::compile("$..a").unwrap().evaluate(document.root()).unwrap();
    assert_eq!(found.to_json(), Err(MADE));
    let mut count = Count(0);
    found.write_json(&mut count).unwrap();
    assert!(count.0 > DEPTH << 20, "{}", count.0);
}

#[test]
fn counting_the_characters_of_a_text_costs_what_it_takes() {
    let text = format!("{{\"s\":\"{}\",\"a\":[1{}]}}", "x".repeat(3_000_000), ",1".repeat(2_999));
    let message = Message::new(&text, "{}");
    for path in ["$.a[?($.s size 3)]", "$.a[?($.s empty true)]", "$.a[?($.s.length() == 3)]"] {
        assert_eq!(told(&format!("json-eval({path})"), &message), Err(VISITS), "{path}");
    }
}
