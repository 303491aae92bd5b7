//! The recommendation, section by section: `data/core.cases` on `data/shop.xml`.

use crate::cases;

use std::collections::BTreeSet;

use cases::{Given, paths, result};
use xml::Document;
use xpath::{Budget, Context, Expression};

const SHOP: &[u8] = include_bytes!("data/shop.xml");
const CASES: &str = include_str!("data/core.cases");

/// Section, expression, result. The expression may contain the separator.
fn cases() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    CASES.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(|line| {
        let (section, rest) = line.split_once(" |").expect("a section");
        let (expression, result) = rest.rsplit_once("| ").expect("a result");
        (section, expression.trim(), result)
    })
}

#[test]
fn every_case_has_its_result() {
    let document = Document::parse(SHOP).unwrap();
    let mut wrong = Vec::new();
    for (section, text, expected) in cases() {
        let found = result(&document, text, paths);
        if found != expected.trim_end() {
            wrong.push(format!("{section}: {text}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases().count(), wrong.join("\n"));
}

#[test]
fn all_ways_of_evaluation_agree() {
    let document = Document::parse(SHOP).unwrap();
    let context = Context::new(document.root());
    for (section, text, _) in cases() {
        let Ok(expression) = Expression::compile(text, &Given) else { continue };
        let value = expression.evaluate(context, &mut Given, &Budget::large()).unwrap();
        let string = expression.evaluate_string(context, &mut Given, &Budget::large()).unwrap();
        assert_eq!(string, value.string(), "{section}: string({text})");
        let truth = expression.evaluate_boolean(context, &mut Given, &Budget::large()).unwrap();
        assert_eq!(truth, value.boolean(), "{section}: boolean({text})");
        let number = expression.evaluate_number(context, &mut Given, &Budget::large()).unwrap();
        assert_eq!(number.to_bits(), value.number().to_bits(), "{section}: number({text})");
    }
}

#[test]
fn every_core_function_has_a_case() {
    let all: String = cases().map(|(_, text, _)| text).collect();
    let missing: BTreeSet<&str> =
        xpath::core_function_names().filter(|name| !all.contains(&format!("{name}("))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Section 4.1: IDs are declared by the document type; in a node-set, the text of each node counts.
#[test]
fn id_finds_elements_by_declared_ids() {
    let text = "<!DOCTYPE r [<!ATTLIST e id ID #IMPLIED>]><r><e id='a'/><e id='b'>a c</e><e id='c'>b</e></r>";
    let document = cases::document(text);
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
        assert_eq!(result(&document, text, paths), expected, "{text}");
    }
}
