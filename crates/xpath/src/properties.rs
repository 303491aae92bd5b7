//! What must hold for any expression on any document: driven by the fuzz target and by this crate's
//! own tests.

mod generate;
mod reference;

use xml::Document;

use crate::budget::Budget;
use crate::context::{Context, NoBindings, StaticContext};
use crate::evaluate::Run;
use crate::parser;
use crate::properties::generate::Dice;
use crate::properties::reference::Reference;
use crate::value::Value;
use crate::{EvalError, Expression, Pattern};

struct Prefixes;

impl StaticContext for Prefixes {
    fn namespace(&self, prefix: &str) -> Option<String> {
        matches!(prefix, "p" | "q").then(|| format!("urn:{prefix}"))
    }
}

/// Few steps, so that no input takes long.
fn small() -> Budget {
    Budget::new(200_000, 1_000_000)
}

/// A document and an expression made of the input: the engine agrees with the reference, and each way
/// of asking with the others. Then the input as it is: whatever the text, it is refused or evaluated
/// within its budget.
///
/// # Panics
/// When the property is broken.
pub fn agreement(input: &[u8]) {
    let mut dice = Dice::of_bytes(input);
    let expression = generate::expression(&mut dice);
    check(&generate::document(&mut dice), &expression);
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
        assert!(matches!(error, EvalError::Budget(_)), "{error}");
    }
    if let Ok(pattern) = Pattern::compile(text, &Prefixes) {
        for node in document.root().descendants() {
            if let Err(error) = pattern.matches(node, &mut NoBindings, &small()) {
                assert!(matches!(error, EvalError::Budget(_)), "{error}");
            }
        }
    }
}

fn check(text: &str, expression: &str) {
    check_on(
        &Document::parse(text.as_bytes()).expect("what is generated is well-formed"),
        expression,
    );
}

fn check_on(document: &Document, expression: &str) {
    let text = document.root().string_value();
    let context = Context::new(document.root());
    let written = parser::as_written(expression, &Prefixes).expect("what is generated is XPath");
    let expected = Reference::new(document).value(&written, context);
    let compiled = Expression::compile(expression, &Prefixes).expect("what is generated is XPath");
    let found = compiled.evaluate(context, &mut NoBindings, &Budget::large()).expect("it is small");
    assert!(same(&found, &expected), "{text}\n{expression}\n{found:?}\n{expected:?}");
    let mut nothing = NoBindings;
    let budget = Budget::large();
    let mut run = Run::new(&mut nothing, &budget);
    let plain = run.value(&written, context).expect("it is small");
    assert!(same(&plain, &expected), "{text}\n{expression}\n{plain:?}\n{expected:?}");
    let string =
        compiled.evaluate_string(context, &mut NoBindings, &Budget::large()).expect("it is small");
    assert_eq!(string, expected.string(), "{text}\n{expression}");
    let truth =
        compiled.evaluate_boolean(context, &mut NoBindings, &Budget::large()).expect("it is small");
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
        for seed in 1..30 {
            let mut dice = Dice::seeded(seed);
            let document = generate::document(&mut dice);
            for _ in 0..12 {
                check(&document, &generate::expression(&mut dice));
            }
        }
    }

    #[test]
    fn it_agrees_on_edited_documents_too() {
        for seed in 1..20 {
            let mut dice = Dice::seeded(seed);
            let mut document = Document::parse(generate::document(&mut dice).as_bytes()).unwrap();
            for _ in 0..6 {
                shuffle(&mut dice, &mut document);
            }
            for _ in 0..12 {
                check_on(&document, &generate::expression(&mut dice));
            }
        }
    }

    /// Moves one node to before another.
    fn shuffle(dice: &mut Dice, document: &mut Document) {
        let all: Vec<xml::NodeId> = document.root().descendants().skip(1).map(Node::id).collect();
        if all.is_empty() {
            return;
        }
        let (one, other) = (all[dice.roll(all.len())], all[dice.roll(all.len())]);
        // Refused where it would put a node inside itself.
        let _ = document.insert_before(other, one);
    }

    #[test]
    fn any_bytes_keep_the_property() {
        let mut dice = Dice::seeded(7);
        for _ in 0..150 {
            let bytes: Vec<u8> =
                (0..dice.roll(60)).map(|_| u8::try_from(dice.roll(256)).unwrap()).collect();
            agreement(&bytes);
        }
    }

    #[test]
    fn any_text_is_refused_or_evaluated() {
        for text in ["", "//", "a[", "1 div", "//*[//*[//*]]", "((((1))))", "@", "é", "\u{0}"] {
            agreement(text.as_bytes());
        }
    }
}
