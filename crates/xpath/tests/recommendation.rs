//! The recommendation, section by section: `data/core.cases` over `data/shop.xml`, and the limits.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;

use xml::{Document, Kind, Node};
use xpath::{Context, Expression, Item, Nothing, StaticContext, Value};

const SHOP: &[u8] = include_bytes!("data/shop.xml");
const CASES: &str = include_str!("data/core.cases");

struct Prefixes;

impl StaticContext for Prefixes {
    fn namespace(&self, prefix: &str) -> Option<String> {
        (prefix == "p").then(|| "urn:p".to_owned())
    }
}

/// Section, expression, answer. The expression may hold the separator.
fn cases() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    CASES.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(|line| {
        let (section, rest) = line.split_once(" |").expect("a section");
        let (expression, answer) = rest.rsplit_once("| ").expect("an answer");
        (section, expression.trim(), answer)
    })
}

#[test]
fn every_case_of_the_recommendation_has_its_answer() {
    let document = Document::parse(SHOP).unwrap();
    let mut wrong = Vec::new();
    for (section, text, expected) in cases() {
        let found = answer(&document, text);
        if found != expected.trim_end() {
            wrong.push(format!("{section}: {text}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases().count(), wrong.join("\n"));
}

#[test]
fn what_stops_early_and_what_is_complete_agree() {
    let document = Document::parse(SHOP).unwrap();
    let context = Context::new(document.root());
    for (section, text, _) in cases() {
        let Ok(expression) = Expression::compile(text, &Prefixes) else { continue };
        let value = expression.evaluate(context, &mut Nothing).unwrap();
        let string = expression.evaluate_string(context, &mut Nothing).unwrap();
        assert_eq!(string, value.string(), "{section}: string({text})");
        let truth = expression.evaluate_boolean(context, &mut Nothing).unwrap();
        assert_eq!(truth, value.boolean(), "{section}: boolean({text})");
        let number = expression.evaluate_number(context, &mut Nothing).unwrap();
        assert_eq!(number.to_bits(), value.number().to_bits(), "{section}: number({text})");
        if let Value::NodeSet(nodes) = value {
            let first = expression.evaluate_first(context, &mut Nothing).unwrap();
            assert_eq!(first, nodes.first(), "{section}: first of {text}");
        }
    }
}

#[test]
fn every_core_function_has_a_case() {
    let all: String = cases().map(|(_, text, _)| text).collect();
    let missing: BTreeSet<&str> =
        xpath::core_functions().filter(|name| !all.contains(&format!("{name}("))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn answer(document: &Document, text: &str) -> String {
    let Ok(expression) = Expression::compile(text, &Prefixes) else { return "!".to_owned() };
    match expression.evaluate(Context::new(document.root()), &mut Nothing).unwrap() {
        Value::NodeSet(nodes) => {
            let shown: Vec<String> = nodes.iter().map(path).collect();
            shown.join(" ")
        }
        Value::String(text) => format!("\"{text}\""),
        number @ Value::Number(_) => number.string().into_owned(),
        Value::Boolean(value) => value.to_string(),
    }
}

/// `/shop[1]/item[2]/@id`
fn path(item: Item<'_>) -> String {
    let Some(node) = item.node() else { return format!("namespace {}", item.local_name()) };
    let above = match node.parent() {
        Some(parent) if parent.kind() != Kind::Root => path(parent.into()),
        Some(_) | None => String::new(),
    };
    let own = match node.kind() {
        Kind::Root => return "/".to_owned(),
        Kind::Attribute => return format!("{above}/@{}", item.qualified_name()),
        Kind::Element => item.qualified_name().into_owned(),
        Kind::Text => "text()".to_owned(),
        Kind::Comment => "comment()".to_owned(),
        Kind::ProcessingInstruction => "processing-instruction()".to_owned(),
        Kind::Namespace => "namespace()".to_owned(),
    };
    format!("{above}/{own}[{}]", rank(node))
}

fn rank(node: Node<'_>) -> usize {
    let alike = |other: &Node<'_>| other.kind() == node.kind() && other.name() == node.name();
    let mut rank = 1;
    let mut before = node.previous_sibling();
    while let Some(sibling) = before {
        rank += usize::from(alike(&sibling));
        before = sibling.previous_sibling();
    }
    rank
}

/// Section 4.1: ids come from the document type's declarations; a node-set argument is each node's text.
#[test]
fn id_finds_elements_by_declared_ids() {
    let text = b"<!DOCTYPE r [<!ATTLIST e id ID #IMPLIED>]><r><e id='a'/><e id='b'>a c</e><e id='c'>b</e></r>";
    let options = xml::Options { doctype: xml::Doctype::ReadInternal, ..xml::Options::default() };
    let document = Document::parse_with(text, &options).unwrap();
    let cases = [
        ("id('b')", "/r[1]/e[2]"),
        ("id(' c  a c ')", "/r[1]/e[1] /r[1]/e[3]"),
        ("id('x')", ""),
        ("id(/r/e)", "/r[1]/e[1] /r[1]/e[2] /r[1]/e[3]"),
        ("id(id('b'))/@id", "/r[1]/e[1]/@id /r[1]/e[3]/@id"),
        ("id('a') | id('b')[2]", "/r[1]/e[1]"),
        ("id(string(//e[@id = 'c']))/@id", "/r[1]/e[2]/@id"),
        ("count(id(5))", "0"),
    ];
    for (text, expected) in cases {
        assert_eq!(answer(&document, text), expected, "{text}");
    }
}
