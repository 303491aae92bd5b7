//! What must hold for any input: driven by the fuzz targets and by this crate's own tests. An input is a source, a
//! line feed, and the JSON it is evaluated against.

use crate::json::{Document, Ref};
use crate::jsonpath::{Options, Path, Selection};
use crate::synapse::{Mode, SynapseExpression};
use crate::template::{Argument, FreeMarker, MediaType, PayloadTemplate, Settings};
use crate::{EvalError, Expression, Scope, Value};

struct Message<'s>(Document<'s>);

impl Scope for Message<'_> {
    fn json(&self) -> Result<Option<Ref<'_>>, EvalError> {
        Ok(Some(self.0.root()))
    }
    fn variable(&self, name: &str) -> Option<Value<'_>> {
        self.0.root().get(name).map(Value::Json)
    }
    fn unix_ms(&self) -> i64 {
        1_735_689_599_123
    }
}

fn split(input: &[u8]) -> Option<(&str, Document<'_>)> {
    let text = std::str::from_utf8(input).ok()?;
    let (source, document) = text.rsplit_once('\n')?;
    Some((source, Document::parse(document.as_bytes()).ok()?))
}

/// A document that is copied stays what it was; a path's answer is JSON; the places that it found lead back to
/// what it found.
///
/// # Panics
/// When the property is broken.
pub fn jsonpath(input: &[u8]) {
    let Some((source, document)) = split(input) else { return };
    let copy = Value::Json(document.root()).into_owned();
    assert!(copy.json().is_some_and(|copy| copy.raw() == document.root().raw()), "a copy differs");
    let Ok(path) = Path::compile(source) else { return };
    let Ok(found) = path.evaluate(document.root()) else { return };
    assert!(
        Document::parse(found.to_json().as_bytes()).is_ok() || found.to_json().len() > 1 << 20,
        "no JSON"
    );
    let places = Options { as_path_list: true, ..Options::default() };
    let places = Path::compile_with(source, places).map(|path| path.evaluate(document.root()));
    let (Ok(Ok(Selection::Many(places))), Selection::Many(values)) = (places, found) else {
        return;
    };
    for (place, value) in places.iter().zip(values).take(100) {
        let Value::Json(value) = value else { return };
        let again = Path::compile(&place.text()).map(|path| path.evaluate(document.root()));
        // A name that comes twice leads to its last member.
        if let Ok(Ok(Selection::One(Value::Json(again)))) = again {
            assert!(
                again.is_same_place(value) || again.offset() > value.offset(),
                "{}",
                place.text()
            );
        } else {
            assert!(place.text().len() > 1_000, "{} leads nowhere", place.text());
        }
    }
}

/// A compatible evaluation fails at a limit only, and strict success of an expression without logic is the same
/// text.
///
/// # Panics
/// When the property is broken.
pub fn synapse(input: &[u8]) {
    let Some((source, document)) = split(input) else { return };
    let message = Message(document);
    let Ok(compatible) = SynapseExpression::compile(source, Mode::Compatible) else { return };
    let told = match compatible.evaluate(&message) {
        Ok(value) => value.text().into_owned(),
        Err(error) => {
            assert!(matches!(error, EvalError::Limit(_)), "{error}");
            return;
        }
    };
    let logic = ["and", "or", "&&", "||"].iter().any(|sign| source.contains(sign));
    let chain = source.matches(['<', '>', '=']).count() > 1;
    if logic || chain {
        return;
    }
    if let Ok(strict) = SynapseExpression::compile(source, Mode::Strict)
        && let Ok(value) = strict.evaluate(&message)
    {
        assert_eq!(value.text(), told, "strict and compatible differ");
    }
}

/// A format that is JSON with a number for `$1` is JSON with any value; FreeMarker never panics.
///
/// # Panics
/// When the property is broken.
pub fn template(input: &[u8]) {
    let Some((source, document)) = split(input) else { return };
    let message = Message(document);
    let argument = || Expression::compile("json-eval($)");
    let (Ok(first), Ok(second)) = (argument(), argument()) else { return };
    if let Ok(compiled) = FreeMarker::compile(source, vec![first]) {
        let _ = compiled.render(&message, &mut Vec::new());
    }
    let settings = Settings::new(MediaType::Json);
    let Ok(compiled) = PayloadTemplate::compile(source, vec![Argument::new(second)], settings)
    else {
        return;
    };
    let mut made = Vec::new();
    let rendered = compiled.render(&message, &mut made);
    let plain = source.replace("$1", "1");
    if rendered.is_ok()
        && !source.contains("${")
        && !plain.contains('$')
        && Document::parse(plain.as_bytes()).is_ok()
    {
        // `2$1` is a number by accident of the figure put in, as is `$1` inside another number.
        let joined = source.match_indices("$1").any(|(at, _)| {
            let before = source.get(..at).and_then(|before| before.chars().last());
            let after = source.get(at + 2..).and_then(|after| after.chars().next());
            let touches = |next: Option<char>| {
                next.is_some_and(|next| next.is_ascii_alphanumeric() || "+-.\\".contains(next))
            };
            touches(before) || touches(after)
        });
        assert!(
            joined || source.contains('\\') || Document::parse(&made).is_ok(),
            "no JSON: {}",
            String::from_utf8_lossy(&made)
        );
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_properties_hold_for_soups_of_tokens(
            tokens in proptest::collection::vec(prop::sample::select(vec![
                "$", ".", "..", "*", "[", "]", "a", "'a'", "0", "1", ":", ",", "?(", ")", "@", "==", "&&", "(", "\"", "$1", "{", "}",
                "${", "payload", "vars", "length", "+", "-", "/", "<#if ", "<#list ", " as x", ">", "</#if>", "?", "!", "size", "in",
            ]), 0..16),
            document in prop::sample::select(vec!["null", "[1,[2],{\"a\":[0]}]", "{\"a\":{\"a\":1,\"a\":2},\"b\":[]}"]),
        ) {
            let input = format!("{}\n{document}", tokens.concat());
            super::jsonpath(input.as_bytes());
            super::synapse(input.as_bytes());
            super::template(input.as_bytes());
        }
    }
}
