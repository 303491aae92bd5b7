//! Properties that hold for any input, checked by the fuzz targets and by this crate's tests. An input is a source, a
//! line feed, and the JSON that the source is evaluated on.

mod walk;

use std::borrow::Cow;

use crate::context::{EvalContext, PropertyScope};
use crate::error::Error;
use crate::expression::Expression;
use crate::json::{Document, Kind, Ref};
use crate::jsonpath::{Options, Path, Selection};
use crate::synapse::SynapseExpression;
use crate::template::{Argument, FreeMarker, MediaType, PayloadTemplate, Settings};
use crate::value::Value;

struct Message<'s>(Document<'s>);

impl EvalContext for Message<'_> {
    fn json(&self) -> Result<Option<Ref<'_>>, Error> {
        Ok(Some(self.0.root()))
    }
    fn property(&self, _scope: PropertyScope, name: &str) -> Option<Value<'_>> {
        match name {
            "json" => Some(Value::Json(self.0.root())),
            "text" => Some(Value::Text(self.0.text().into())),
            _ => None,
        }
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

/// A copy of a document equals it; a path of plain steps selects what a recursive walk selects; a result is JSON;
/// normalized paths select the values that they were made from; a property with the document equals the body.
///
/// # Panics
/// If the property does not hold.
pub fn jsonpath(input: &[u8]) {
    let Some((source, document)) = split(input) else { return };
    let copy = Value::Json(document.root()).into_owned();
    assert!(copy.json().is_some_and(|copy| copy.raw() == document.root().raw()), "a copy differs");
    let Ok(path) = Path::compile(source) else { return };
    of_property(source, &document);
    let result = path.evaluate(document.root());
    walk::check(source, document.root(), &result);
    let Ok(found) = result else { return };
    if let Ok(text) = found.to_json() {
        assert!(Document::parse(text.as_bytes()).is_ok(), "not JSON: {text}");
    }
    let options = Options { as_path_list: true, ..Options::default() };
    let paths = Path::compile_with(source, options).map(|path| path.evaluate(document.root()));
    let (Ok(Ok(Selection::Many(paths))), Selection::Many(values)) = (paths, found) else {
        return;
    };
    for (path, value) in paths.iter().zip(values).take(100) {
        let Value::Json(value) = value else { return };
        let again = Path::compile(&path.text()).map(|path| path.evaluate(document.root()));
        // A duplicate name selects the last member.
        if let Ok(Ok(Selection::One(Value::Json(again)))) = again {
            assert!(
                again.is_same_place(value) || again.offset() > value.offset(),
                "{}",
                path.text()
            );
        } else {
            assert!(path.text().len() > 1_000, "{} selects nothing", path.text());
        }
    }
}

fn of_property(source: &str, document: &Document<'_>) {
    let Some(steps) = source.strip_prefix('$').filter(|steps| steps.starts_with(['.', '['])) else {
        return;
    };
    let message = Message(document.clone());
    let json = |of: &str| {
        let expression = Expression::compile(&format!("json-eval({of}{steps})")).ok()?;
        expression.evaluate(&message).ok().map(|value| value.to_json())
    };
    let expect = json("$");
    for of in ["$ctx:json", "$ctx:text"] {
        // A copy may be too large for the budget.
        if let (Some(found), Some(expect)) = (json(of), &expect) {
            assert_eq!(found, *expect, "{of}{steps}");
        }
    }
}

/// Integer arithmetic is exact; a path after `payload` selects the values of the JSONPath; an evaluation fails only for
/// its budget.
///
/// # Panics
/// If the property does not hold.
pub fn synapse(input: &[u8]) {
    arithmetic(input);
    let Some((source, document)) = split(input) else { return };
    payload(source, &document);
    let message = Message(document);
    let Ok(expression) = SynapseExpression::compile(source) else { return };
    if let Err(error) = expression.evaluate(&message) {
        assert!(matches!(error, Error::Budget(_)), "{error}");
    }
}

/// The input as reverse Polish notation: digits, `+`, `-` and `*`.
fn arithmetic(input: &[u8]) {
    let mut stack: Vec<(i64, String)> = Vec::new();
    for &byte in input.iter().take(64) {
        if byte.is_ascii_digit() {
            stack.push((i64::from(byte - b'0'), char::from(byte).to_string()));
            continue;
        }
        let (Some((right, right_text)), Some((left, left_text))) = (stack.pop(), stack.pop())
        else {
            return;
        };
        let value = match byte {
            b'+' => left.checked_add(right),
            b'-' => left.checked_sub(right),
            b'*' => left.checked_mul(right),
            _ => None,
        };
        let Some(value) = value else { return };
        stack.push((value, format!("({left_text} {} {right_text})", char::from(byte))));
    }
    let Some((value, text)) = stack.pop() else { return };
    let Ok(expression) = SynapseExpression::compile(&text) else { return };
    let nothing = Document::parse(b"null").map(Message);
    let result = nothing.as_ref().map(|nothing| expression.evaluate(nothing));
    assert!(matches!(result, Ok(Ok(Value::Integer(sum))) if sum == value), "{text} is {value}");
}

fn payload(source: &str, document: &Document<'_>) {
    let Some(steps) = source.strip_prefix('$').filter(|steps| walk::steps(steps).is_some()) else {
        return;
    };
    // A Synapse expression fails on scalars, where a JSONPath selects nothing. A failure is the empty string.
    if !matches!(document.root().kind(), Kind::Object | Kind::Array) {
        return;
    }
    let message = Message(document.clone());
    let path = Path::compile(source).map(|path| path.evaluate(document.root())?.into_value());
    let hosted = SynapseExpression::compile(&format!("payload{steps}"));
    let (Ok(path), Ok(hosted)) = (path, hosted) else { return };
    let json =
        |value: Result<Value<'_>, Error>| value.map_or("\"\"".into(), |value| value.to_json());
    assert_eq!(json(hosted.evaluate(&message)), json(path), "payload{steps}");
}

/// A format that is well-formed JSON or XML with `1` for `$1` is well-formed with any value. FreeMarker leaves plain
/// text unchanged, and its escapes parse back to the original.
///
/// # Panics
/// If the property does not hold.
pub fn template(input: &[u8]) {
    let Some((source, document)) = split(input) else { return };
    freemarker(source, &document);
    let texts = document.root().string().map(Cow::into_owned);
    let message = Message(document);
    for media in [MediaType::Json, MediaType::Xml] {
        payload_template(source, media, Expression::compile("json-eval($)").ok(), &message);
        let literal = texts.as_deref().or(Some(message.0.text())).map(Expression::literal);
        payload_template(source, media, literal, &message);
    }
}

fn payload_template(
    source: &str,
    media: MediaType,
    argument: Option<Expression>,
    message: &Message<'_>,
) {
    let arguments = argument.into_iter().map(Argument::new).collect();
    let Ok(compiled) = PayloadTemplate::compile(source, arguments, Settings::new(media)) else {
        return;
    };
    let mut body = Vec::new();
    let rendered = compiled.render(message, &mut body);
    let plain = source.replace("$1", "1");
    // A reference can be completed by the text after it; a long body may be nested too deeply.
    let excluded = plain.contains(['$', '&', '\\']) || compiled.inserts_markup();
    if rendered.is_err() || excluded || message.0.text().len() > 1_000 {
        return;
    }
    let is_well_formed = |bytes: &[u8]| match media {
        MediaType::Json => Document::parse(bytes).is_ok(),
        MediaType::Xml => xml::Document::parse(bytes).is_ok(),
        MediaType::Text => true,
    };
    // `2$1` is a number only because `1` is inserted, as is `$1` inside another number.
    let joined = source.match_indices("$1").any(|(at, _)| {
        let before = source.get(..at).and_then(|before| before.chars().last());
        let after = source.get(at + 2..).and_then(|after| after.chars().next());
        let touches = |next: Option<char>| {
            next.is_some_and(|next| next.is_ascii_alphanumeric() || "+-.".contains(next))
        };
        media == MediaType::Json && (touches(before) || touches(after))
    });
    assert!(
        joined || !is_well_formed(plain.as_bytes()) || is_well_formed(&body),
        "{source} is not well-formed {media:?}: {}",
        String::from_utf8_lossy(&body)
    );
}

fn freemarker(source: &str, document: &Document<'_>) {
    let render = |template: &str| {
        let mut made = Vec::new();
        let compiled = FreeMarker::compile(template, Vec::new()).ok()?;
        compiled.render(&Message(document.clone()), &mut made).ok()?;
        String::from_utf8(made).ok()
    };
    let _ = render(source);
    if !source.contains("</#noparse>") {
        let made = render(&format!("x<#noparse>{source}</#noparse>x"));
        assert_eq!(made, Some(format!("x{source}x")), "plain text");
    }
    let Some(text) = document.root().string() else { return };
    let made = render("\"${payload?json_string}\"").unwrap_or_default();
    let read = Document::parse(made.as_bytes());
    assert!(read.is_ok_and(|read| read.root().string() == Some(text.clone())), "{made}");
    if xml::is_text(&text) && !text.contains('\r') {
        let made = render("<a>${payload?xml}</a>").unwrap_or_default();
        let read = xml::Document::parse(made.as_bytes());
        assert!(read.is_ok_and(|read| read.root().string_value() == text), "{made}");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn xml_formats_stay_well_formed(
            before in prop::sample::select(vec!["<a>", "<a>]", "<a>]]", "<a>'", "<a b='", "<a b=\"'", "<a><!--", "<a><!-- don't -", "<a><![CDATA[", "<a><![CDATA[]]", "<a><?p x", "<a><?p ?"]),
            text in prop::collection::vec(prop::sample::select(vec!["-", "]", ">", "?", "<", "&", "'", "\"", "x", "]]>", "\u{1}", " "]), 0..6),
            after in prop::sample::select(vec!["</a>", "></a>", "]></a>", "]$1></a>", "'/>", "\"/>", "--><b c='$1'/></a>", "- --></a>", "]]></a>", "]>]]></a>", ">]]></a>", "?></a>", ">?></a>"]),
            many in 1..3_usize,
        ) {
            let mut json = Vec::new();
            crate::json::push_quoted(&mut json, &text.concat());
            let format = format!("{before}{}{after}\n", "$1".repeat(many));
            super::template(&[format.as_bytes(), &json].concat());
        }

        #[test]
        fn paths_of_plain_steps_equal_a_recursive_walk(
            steps in prop::collection::vec(prop::sample::select(vec![".a", ".b", "..a", ".*", "..*", "[0]", "[-1]", "[*]", "..[1]", "..b"]), 0..5),
            document in prop::sample::select(vec![
                r#"{"a":{"a":[1,{"b":2,"a":[]}],"b":[[0,1],[2]]},"b":{"a":null,"a":[3,[4,5]]}}"#,
                r#"[[1,[2,{"a":{"b":[6]}}]],{"a":1,"b":{"a":{"a":7}}},null]"#,
                r#"{"a":[{"a":[{"a":[1,2,3]}]}]}"#,
            ]),
        ) {
            let input = format!("${}\n{document}", steps.concat());
            super::jsonpath(input.as_bytes());
            super::synapse(input.as_bytes());
        }

        #[test]
        fn integer_arithmetic_is_exact(input in "[0-9]{1,6}([-+*0-9]{0,12})") {
            super::synapse(input.as_bytes());
        }

        #[test]
        fn the_properties_hold_for_random_tokens(
            tokens in proptest::collection::vec(prop::sample::select(vec![
                "$", ".", "..", "*", "[", "]", "a", "'a'", "0", "1", ":", ",", "?(", ")", "@", "==", "&&", "(", "\"", "$1", "{", "}",
                "${", "payload", "vars", "<a>", "</a>", "<a b='", "'/>", "<!--", "-->", "-", "<![CDATA[", "]]>", "]", "<?a ", "?>", "length", "+", "-", "/", "<#if ", "<#list ", " as x", ">", "</#if>", "?", "!", "size", "in",
            ]), 0..16),
            document in prop::sample::select(vec!["null", "\"-->\"", "\"]]>]\"", "\"?>x\"", "\"--\"", "\">'<&\"", "\"a-\"", "[1,[2],{\"a\":[0]}]", "{\"a\":{\"a\":1,\"a\":2},\"b\":[]}"]),
        ) {
            let input = format!("{}\n{document}", tokens.concat());
            super::jsonpath(input.as_bytes());
            super::synapse(input.as_bytes());
            super::template(input.as_bytes());
        }
    }
}
