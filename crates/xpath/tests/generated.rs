//! Regression cases: generated documents and expressions with their results, `data/generated.cases`. They are also
//! compared with the installed libxml2. `differential.rs` compares many more, which aren't stored.

use crate::cases;
use crate::generate;
use crate::xmllint;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use generate::Choices;
use xml::{Document, Node};
use xpath::NodeSet;

const CASES: &str = include_str!("data/generated.cases");
const HEAD: &str = "\
# Generated. `cargo test -p penstock-xpath --test xpath_tests -- --ignored generated` writes it again.
# A document, then lines `expression | result`. Nodes are numbered in document order, after `#`: 0 is the root, 3@id an
# attribute of 3, 5-7 are three nodes. libxml2 gives the same results, except where `libxml2:` names the section of the
# recommendation that it departs from (differences.cases).
";
const DOCUMENTS: u64 = 5;
const EXPRESSIONS: usize = 140;
/// Longer expressions and results are left out.
const LONG: usize = 140;
/// Empty results that are kept per document.
const EMPTY: usize = 10;

struct Case {
    document: &'static str,
    expression: &'static str,
    result: &'static str,
    differs: bool,
}

fn all() -> Vec<Case> {
    let mut document = "";
    let mut all = Vec::new();
    for line in CASES.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with('<') {
            document = line;
            continue;
        }
        let (rest, differs) = match line.rsplit_once(" | libxml2: ") {
            Some((rest, _)) => (rest, true),
            None => (line, false),
        };
        let (expression, result) = rest.rsplit_once(" | ").unwrap();
        all.push(Case { document, expression, result, differs });
    }
    all
}

/// The numbers of nodes in document order.
struct Places<'d>(HashMap<Node<'d>, usize>);

impl<'d> Places<'d> {
    fn of(document: &'d Document) -> Self {
        let below = document.root().descendants();
        Self(std::iter::once(document.root()).chain(below).zip(0..).collect())
    }

    /// `#3 5-7 9@id`
    fn show(&self, nodes: &NodeSet<'_>) -> String {
        let mut out = "#".to_owned();
        let mut run: Option<(usize, usize)> = None;
        for item in nodes {
            let node = item.node().unwrap();
            let Some(place) = self.0.get(&node).copied() else {
                end(&mut run, &mut out);
                _ = write!(out, "{}@{} ", self.0[&node.parent().unwrap()], item.qualified_name());
                continue;
            };
            match &mut run {
                Some((_, last)) if *last + 1 == place => *last = place,
                _ => {
                    end(&mut run, &mut out);
                    run = Some((place, place));
                }
            }
        }
        end(&mut run, &mut out);
        out.trim_end().to_owned()
    }
}

fn end(run: &mut Option<(usize, usize)>, out: &mut String) {
    match run.take() {
        Some((first, last)) if first == last => _ = write!(out, "{first} "),
        Some((first, last)) => _ = write!(out, "{first}-{last} "),
        None => {}
    }
}

fn result(document: &Document, expression: &str) -> String {
    let places = Places::of(document);
    cases::result(document, expression, |nodes| places.show(nodes))
}

#[test]
fn every_generated_case_has_its_result() {
    let all = all();
    let mut wrong = Vec::new();
    for group in all.chunk_by(|one, next| one.document == next.document) {
        let document = cases::document(group[0].document);
        for case in group {
            let found = result(&document, case.expression);
            if found != case.result {
                wrong.push(format!(
                    "{}\n  expected {}\n  found    {found}",
                    case.expression, case.result
                ));
            }
        }
    }
    let few = wrong.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {}, among them\n{few}", wrong.len(), all.len());
    assert!(all.len() >= 300, "{}", all.len());
}

#[test]
fn libxml2_has_the_same_results() {
    let all = all();
    let mut wrong = Vec::new();
    for group in all.chunk_by(|one, next| one.document == next.document) {
        let document = cases::document(group[0].document);
        let compared: Vec<&Case> = group.iter().filter(|case| !case.differs).collect();
        let expressions: Vec<String> =
            compared.iter().map(|case| case.expression.to_owned()).collect();
        let results = xmllint::run(group[0].document, &expressions);
        assert_eq!(results.len(), expressions.len());
        for (expression, theirs) in expressions.iter().zip(&results) {
            if !xmllint::same(&xmllint::result(&document, expression), theirs) {
                wrong.push(format!("{expression}: {theirs}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "writes data/generated.cases"]
fn write_the_cases() {
    let mut out = HEAD.to_owned();
    for seed in 1..=DOCUMENTS {
        let mut choices = Choices::seeded(seed + 1_000);
        let text = generate::document(&mut choices);
        let document = cases::document(&text);
        let expressions: BTreeSet<String> =
            (0..EXPRESSIONS).map(|_| generate::expression(&mut choices)).collect();
        let mut empty = 0;
        let kept: Vec<(String, String)> = expressions
            .into_iter()
            .map(|expression| (result(&document, &expression), expression))
            .filter(|(result, expression)| {
                empty += usize::from(result == "#");
                let short = result.len() <= LONG && expression.len() <= LONG;
                short && (result != "#" || empty <= EMPTY)
            })
            .map(|(result, expression)| (expression, result))
            .collect();
        let expressions: Vec<String> = kept.iter().map(|(one, _)| one.clone()).collect();
        let theirs = xmllint::run(&text, &expressions);
        assert_eq!(theirs.len(), kept.len(), "a result for each expression");
        _ = writeln!(out, "{text}");
        for ((expression, result), theirs) in kept.iter().zip(&theirs) {
            _ = write!(out, "{expression} | {result}");
            let ours = xmllint::result(&document, expression);
            if !xmllint::same(&ours, theirs) {
                let section = xmllint::decided_by(expression);
                let section =
                    section.unwrap_or_else(|| panic!("{text}\n{expression}\n{ours}\n{theirs}"));
                _ = write!(out, " | libxml2: {section}");
            }
            out.push('\n');
        }
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/generated.cases");
    std::fs::write(file, out).unwrap();
}
