//! Properties of any expression on any document, checked by the fuzz target and by unit tests.

mod generate;
mod reference;

use xml::{Document, DocumentFeed, Options};

use crate::budget::Budget;
use crate::context::{Context, NoBindings, StaticContext};
use crate::evaluate::Run;
use crate::parser;
use crate::properties::generate::Choices;
use crate::properties::reference::Reference;
use crate::value::Value;
use crate::{Error, Expression, Pattern};

struct Prefixes;

impl StaticContext for Prefixes {
    fn namespace(&self, prefix: &str) -> Option<String> {
        matches!(prefix, "p" | "q").then(|| format!("urn:{prefix}"))
    }
}

/// A small budget, so that no input takes long.
fn small() -> Budget {
    Budget::new(200_000, 1_000_000)
}

/// Generates a document and an expression from the input. The engine must agree with the reference evaluator,
/// and its ways of evaluation with one another. Then it compiles the input itself, which must be rejected or
/// evaluated within the budget.
///
/// # Panics
/// If the property doesn't hold.
pub fn agreement(input: &[u8]) {
    let mut choices = Choices::of_bytes(input);
    let (expression, condition) =
        (generate::expression(&mut choices), generate::condition(&mut choices));
    let document = generate::document(&mut choices);
    check(&document, &expression);
    check(&document, &condition);
    if let Ok(text) = std::str::from_utf8(input) {
        any_text(text);
    }
}

fn any_text(text: &str) {
    let document = Document::parse(b"<r><a n='1'><b/><a>x</a></a><!--c--><?t d?></r>");
    let document = document.expect("it is well-formed");
    let context = Context::new(document.root());
    if let Ok(expression) = Expression::compile(text, &Prefixes)
        && let Err(error) = expression.evaluate(context, &mut NoBindings, &small())
    {
        assert!(matches!(error, Error::Budget(_)), "{error}");
    }
    if let Ok(pattern) = Pattern::compile(text, &Prefixes) {
        for node in document.root().descendants() {
            if let Err(error) = pattern.matches(node, &mut NoBindings, &small()) {
                assert!(matches!(error, Error::Budget(_)), "{error}");
            }
        }
    }
}

/// Returns how many beginnings of the document decide the expression.
fn check(text: &str, expression: &str) -> usize {
    let document = Document::parse(text.as_bytes()).expect("generated documents are well-formed");
    check_on(&document, expression);
    check_beginnings(text, &document, expression)
}

/// Checks that an expression for which [`Expression::is_steady`] is true holds for the document if it holds for a
/// beginning. Returns the number of beginnings that decide it.
fn check_beginnings(text: &str, document: &Document, expression: &str) -> usize {
    let compiled =
        Expression::compile(expression, &Prefixes).expect("generated expressions are valid");
    if !compiled.is_steady() {
        return 0;
    }
    let holds = |document: &Document| {
        let context = Context::new(document.root());
        let holds = compiled.evaluate_boolean(context, &mut NoBindings, &Budget::large());
        holds.expect("within the budget")
    };
    let is_decided = |part: &&[u8]| {
        let mut feed = DocumentFeed::new(&Options::default());
        feed.feed(part).expect("generated documents are well-formed");
        let beginning = feed.cut();
        beginning.element().is_some() && holds(&beginning)
    };
    let ends = (1..text.len()).step_by(1 + text.len() / BEGINNINGS_MAX);
    let decided = ends.filter_map(|end| text.as_bytes().get(..end)).filter(is_decided).count();
    assert!(decided == 0 || holds(document), "{text}\n{expression}");
    decided
}

/// Maximum number of beginnings that one document is checked with.
const BEGINNINGS_MAX: usize = 40;

fn check_on(document: &Document, expression: &str) {
    let text = document.root().string_value();
    let context = Context::new(document.root());
    let written =
        parser::without_scans(expression, &Prefixes).expect("generated expressions are valid");
    let expected = Reference::new(document).value(&written, context);
    let compiled =
        Expression::compile(expression, &Prefixes).expect("generated expressions are valid");
    let found =
        compiled.evaluate(context, &mut NoBindings, &Budget::large()).expect("within the budget");
    assert!(same(&found, &expected), "{text}\n{expression}\n{found:?}\n{expected:?}");
    let mut bindings = NoBindings;
    let budget = Budget::large();
    let mut run = Run::new(&mut bindings, &budget);
    let plain = run.value(&written, context).expect("within the budget");
    assert!(same(&plain, &expected), "{text}\n{expression}\n{plain:?}\n{expected:?}");
    let string = compiled
        .evaluate_string(context, &mut NoBindings, &Budget::large())
        .expect("within the budget");
    assert_eq!(string, expected.string(), "{text}\n{expression}");
    let truth = compiled
        .evaluate_boolean(context, &mut NoBindings, &Budget::large())
        .expect("within the budget");
    assert_eq!(truth, expected.boolean(), "{text}\n{expression}");
}

fn same(one: &Value<'_>, other: &Value<'_>) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.is_nan() && other.is_nan())
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use xml::Node;

    use super::*;

    #[test]
    fn the_engine_agrees_with_the_reference() {
        let mut decided = 0;
        for seed in 1..30 {
            let mut choices = Choices::seeded(seed);
            let document = generate::document(&mut choices);
            for _ in 0..12 {
                decided += check(&document, &generate::expression(&mut choices));
                decided += check(&document, &generate::condition(&mut choices));
            }
        }
        assert!(decided > 0);
    }

    #[test]
    fn beginnings_decide_what_cannot_change() {
        let text = "<r><a n='1'><b>x</b><b>7</b></a><c>y<b>x</b></c><a n='2'><b>IBM</b></a></r>";
        let document = Document::parse(text.as_bytes()).unwrap();
        let decided = [
            "//b",
            "/r/a/@n",
            "//b = 'x'",
            "//b/text() = 'x'",
            "//b[. = 'x']",
            "//a[1]/b[2] > 6",
            "'x' = //b",
            "/r/a[b = 'x']",
            "//*[local-name() = 'b'] = 'x' and boolean(//a)",
            "//a[@n != '3'][b] or //q",
            "//a/@n != '3'",
            "contains(//b, 'x')",
            "starts-with(//c, 'y')",
            "string(//b) = 'x'",
            "normalize-space(/r/c/b) = 'x'",
            "//a | //c",
            "//a/b | //c = 'x'",
        ];
        for expression in decided {
            assert!(check_beginnings(text, &document, expression) > 0, "{expression}");
        }
        // Expressions that hold for a beginning but aren't steady, or are steady but hold for no beginning.
        let undecided = [
            "not(//q)",
            "count(//b) = 1",
            "//b[last()] = 'x'",
            "//a[b][2]",
            "//b[following::c]",
            "//b/..",
            "//a[text()]",
            "//b/text()",
            "//r != 'x'",
            "//a = //c",
            "string(//q) = ''",
            "contains(//q, '')",
            "//c = 'y'",
            "string(/r) = 'x'",
            "//b = '\0'",
            "contains(//b, '\0')",
        ];
        for expression in undecided {
            assert_eq!(check_beginnings(text, &document, expression), 0, "{expression}");
        }
    }

    #[test]
    fn the_engine_agrees_with_the_reference_on_edited_documents() {
        for seed in 1..20 {
            let mut choices = Choices::seeded(seed);
            let mut document =
                Document::parse(generate::document(&mut choices).as_bytes()).unwrap();
            for _ in 0..6 {
                shuffle(&mut choices, &mut document);
            }
            for _ in 0..12 {
                check_on(&document, &generate::expression(&mut choices));
            }
        }
    }

    /// Moves one node to before another.
    fn shuffle(choices: &mut Choices, document: &mut Document) {
        let all: Vec<xml::NodeId> = document.root().descendants().skip(1).map(Node::id).collect();
        if all.is_empty() {
            return;
        }
        let (one, other) = (all[choices.below(all.len())], all[choices.below(all.len())]);
        // Fails if it would move a node into itself.
        let _ = document.insert_before(other, one);
    }

    #[test]
    fn random_bytes_keep_the_property() {
        let mut choices = Choices::seeded(7);
        for _ in 0..150 {
            let bytes: Vec<u8> =
                (0..choices.below(60)).map(|_| u8::try_from(choices.below(256)).unwrap()).collect();
            agreement(&bytes);
        }
    }

    #[test]
    fn any_text_is_rejected_or_evaluated() {
        for text in ["", "//", "a[", "1 div", "//*[//*[//*]]", "((((1))))", "@", "é", "\u{0}"] {
            agreement(text.as_bytes());
        }
    }
}
