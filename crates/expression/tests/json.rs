//! The JSON reader: what RFC 8259 allows and refuses, and that it agrees with serde_json.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail by panicking")]

use penstock_expression::json::{Builder, Document, Duplicates, Kind, Limits, Ref};
use proptest::prelude::*;

#[rustfmt::skip]
const ACCEPTED: &[&str] = &[
    "null", "true", "false", "0", "-0", "-0.0", "1", "12", "-12", "0.5", "1.50", "1e5", "1E5", "1e+5", "1e-5", "1.5e10",
    "123456789012345678901234567890", "1e400", "-1e-400", "0e0", "0e+1", "\"\"", "\"a\"", "\" \"", "\"\\\"\"",
    "\"\\\\\"", "\"\\/\"", "\"\\b\\f\\n\\r\\t\"", "\"\\u0041\"", "\"\\u00e9\\u00E9\"", "\"\\uD83D\\uDE00\"",
    "\"\\u0000\"", "\"\u{7f}\"", "\"é😀\"", "\"\u{2028}\"", "[]", "[ ]", "[\n]", "[1]", "[1,2]", "[ 1 , 2 ]", "[[]]", "[[],[]]",
    "[null,true,\"x\",{}]", "{}", "{ }", "{\"a\":1}", "{\"a\":1,\"b\":2}", "{ \"a\" : 1 }", "{\"\":0}", "{\"a\":{\"b\":[]}}",
    "{\"a\":1,\"a\":2}", "{\"\\u0061\":1}", " \t\r\n1\t\r\n ", "[\"12345678\"]", "[\"1234567\\\"9\"]", "[\"123456789012345\"]",
];

/// The text, and where it fails.
#[rustfmt::skip]
const REFUSED: &[(&[u8], &str)] = &[
    (b"", "1:1: the text ends"), (b" ", "1:2: the text ends"), (b"nul", "1:1: a value"), (b"nulll", "1:5: more text"),
    (b"True", "1:1: a value"), (b"+1", "1:1: a value"), (b".5", "1:1: a value"), (b"01", "1:2: malformed"), (b"-01", "1:3: malformed"),
    (b"-", "1:2: the text ends"), (b"--1", "1:2: malformed"), (b"1.", "1:3: the text ends"), (b"1.e5", "1:3: malformed"),
    (b"1e", "1:3: the text ends"), (b"1e+", "1:4: the text ends"), (b"1.5.5", "1:4: more"), (b"0x10", "1:2: more"),
    (b"NaN", "1:1: a value"), (b"Infinity", "1:1: a value"), (b"-Infinity", "1:2: malformed"), (b"1 2", "1:3: more text"),
    (b"\"", "1:2: the text ends"), (b"\"a", "1:3: the text ends"), (b"'a'", "1:1: a value"), (b"\"\n\"", "1:2: a control"),
    (b"\"\t\"", "1:2: a control"), (b"\"1234567\x00\"", "1:9: a control"), (b"\"12345678901\x1f\"", "1:13: a control"),
    (b"\"\\x\"", "1:2: unknown escape"), (b"\"\\\"", "1:4: the text ends"), (b"\"\\", "1:3: the text ends"), (b"\"\\u12\"", "1:2: unknown"),
    (b"\"\\u12g4\"", "1:2: unknown"), (b"\"\\ud800\"", "1:2: half"), (b"\"\\udc00\"", "1:2: half"), (b"\"\\ud800\\u0041\"", "1:2: half"),
    (b"\"\\ud800\\ud800\"", "1:2: half"), (b"\"\\U0041\"", "1:2: unknown"),
    (b"[", "1:2: the text ends"), (b"[1", "1:3: the text ends"), (b"[1,", "1:4: the text ends"), (b"[1,]", "1:4: a value"),
    (b"[,1]", "1:2: a value"), (b"[1 2]", "1:4: `,` or `]`"), (b"[1}", "1:3: `,` or `]`"), (b"]", "1:1: a value"), (b"[1]]", "1:4: more"),
    (b"{", "1:2: the text ends"), (b"{a:1}", "1:2: a member's name"), (b"{'a':1}", "1:2: a member's name"), (b"{\"a\"}", "1:5: `:`"),
    (b"{\"a\":}", "1:6: a value"), (b"{\"a\":1,}", "1:8: a member's name"), (b"{\"a\":1 \"b\":2}", "1:8: `,` or `}`"),
    (b"{\"a\":1]", "1:7: `,` or `}`"), (b"{\"a\" 1}", "1:6: `:`"), (b"{1:1}", "1:2: a member's name"), (b"{,}", "1:2: a member's name"),
    (b"[1]//x", "1:4: more"), (b"/**/1", "1:1: a value"), (b"\xef\xbb\xbf1", "1:1: a byte order mark"), (b"\"\xff\"", "1:2: not UTF-8"),
    (b"\"\xc0\xaf\"", "1:2: not UTF-8"), (b"\"\xed\xa0\x80\"", "1:2: not UTF-8"), (b"\x0c1", "1:1: a value"), (b"1\x0c", "1:2: more"),
    (b"\xc2\xa01", "1:1: a value"), (b"{\n \"a\": [\n  1,\n  x]}", "4:3: a value"), ("[\"é\", x]".as_bytes(), "1:7: a value"),
    (b"\x00", "1:1: a value"), (b"[1,\x00]", "1:4: a value"),
];

#[test]
fn what_the_grammar_allows_is_read_and_written_as_it_was() {
    for text in ACCEPTED {
        let document =
            Document::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(document.root().raw(), text.trim(), "{text}");
        assert!(agrees(text.as_bytes()) || text.contains("e400"), "{text}");
        assert_eq!(rebuilt(document.root()).text(), compact(text), "{text}");
    }
}

#[test]
fn what_the_grammar_forbids_is_refused_with_its_place() {
    for (bytes, expect) in REFUSED {
        let text = String::from_utf8_lossy(bytes);
        let error = Document::parse(bytes).expect_err(&text).to_string();
        assert!(error.starts_with(expect), "{text}: {error}");
        assert!(serde_json::from_slice::<serde_json::Value>(bytes).is_err(), "{text}");
    }
}

#[test]
fn values_are_found_where_they_stand() {
    let text = r#"{"a":[1,[2,3],{"b":null}],"e":[],"d":1,"d":"\u0032","n\"":true}"#;
    let document = Document::parse(text.as_bytes()).unwrap();
    let root = document.root();
    assert_eq!((root.kind(), root.len()), (Kind::Object, 5));
    let array = root.get("a").unwrap();
    assert_eq!(array.at(1).unwrap().at(1).unwrap().number_text(), Some("3"));
    assert_eq!(array.at(2).unwrap().get("b").map(Ref::is_null), Some(true));
    assert!(array.at(3).is_none() && array.get("a").is_none() && root.at(0).is_none());
    assert_eq!(root.get("d").unwrap().string().unwrap(), "2");
    assert_eq!(root.get("n\"").unwrap().boolean(), Some(true));
    assert!(root.get("e").unwrap().is_empty() && root.get("n").is_none());
    let names: Vec<_> = root.members().map(|(name, _)| name.into_owned()).collect();
    assert_eq!(names, ["a", "e", "d", "d", "n\""]);
}

#[test]
fn limits_are_held_and_told() {
    let with = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        limits
    };
    for (text, limits, expect) in [
        ("[[[]]]", with(|limits| limits.depth = 2), "1:3: nested deeper than 2"),
        ("[1,2]", with(|limits| limits.bytes = 4), "1:5: longer than 4 bytes"),
        ("[1,2]", with(|limits| limits.nodes = 2), "1:4: more than 2 values"),
        (
            r#"{"a":1,"\u0061":2}"#,
            with(|limits| limits.duplicates = Duplicates::Refuse),
            "1:17: a second member",
        ),
        (
            r#"[{"b":1,"a":{"x":1,"y":1,"x":2}}]"#,
            with(|limits| limits.duplicates = Duplicates::Refuse),
            "1:30: a second",
        ),
    ] {
        let told = Document::parse_with(text.as_bytes(), &limits).unwrap_err().to_string();
        assert!(told.starts_with(expect), "{text}: {told}");
    }
}

#[test]
fn nesting_a_million_deep_is_refused_and_read_flat_with_a_higher_limit() {
    for open in ["[", "{\"a\":"] {
        let deep = open.repeat(1_000_000);
        assert!(
            Document::parse(deep.as_bytes())
                .unwrap_err()
                .to_string()
                .contains("nested deeper than 1000")
        );
    }
    let limits = Limits { depth: usize::MAX, ..Limits::default() };
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let document = Document::parse_with(deep.as_bytes(), &limits).unwrap();
    assert_eq!(document.root().descendants().count(), 1_000_000);
}

#[test]
fn a_builder_makes_well_formed_text_whatever_the_order_of_calls() {
    let mut builder = Builder::new();
    builder
        .begin_object()
        .key("a")
        .number("1.50")
        .key("b")
        .begin_array()
        .null()
        .string("q\"")
        .number("NaN");
    builder.end().key("c").embed(Document::parse(b" { \"x\" : [ ] } ").unwrap().root());
    assert_eq!(builder.finish().text(), r#"{"a":1.50,"b":[null,"q\"","NaN"],"c":{ "x" : [ ] }}"#);
    assert_eq!(Builder::new().finish().text(), "null");
}

/// Both read it, to the same value, or both refuse it.
fn agrees(bytes: &[u8]) -> bool {
    let ours = Document::parse(bytes);
    match (ours, serde_json::from_slice::<serde_json::Value>(bytes)) {
        (Ok(ours), Ok(theirs)) => same(ours.root(), &theirs),
        (Err(_), Err(_)) => true,
        // It refuses numbers beyond a double's range, we keep their text.
        (Ok(_), Err(error)) => error.to_string().contains("number out of range"),
        (Err(_), Ok(_)) => false,
    }
}

fn same(ours: Ref<'_>, theirs: &serde_json::Value) -> bool {
    use serde_json::Value;
    match theirs {
        Value::Null => ours.is_null(),
        Value::Bool(truth) => ours.boolean() == Some(*truth),
        Value::Number(number) => {
            ours.number_text().and_then(|text| text.parse().ok()) == number.as_f64()
        }
        Value::String(text) => ours.string().as_deref() == Some(text),
        Value::Array(elements) => {
            ours.kind() == Kind::Array
                && ours.len() == elements.len()
                && ours.elements().zip(elements).all(|(ours, theirs)| same(ours, theirs))
        }
        Value::Object(members) => {
            ours.kind() == Kind::Object
                && members
                    .iter()
                    .all(|(name, theirs)| ours.get(name).is_some_and(|ours| same(ours, theirs)))
        }
    }
}

fn rebuilt(value: Ref<'_>) -> Document<'static> {
    fn add(builder: &mut Builder, value: Ref<'_>) {
        match value.kind() {
            Kind::Null => builder.null(),
            Kind::Boolean => builder.boolean(value.boolean().unwrap()),
            Kind::Number => builder.number(value.number_text().unwrap()),
            Kind::String => builder.embed(value),
            Kind::Array => {
                builder.begin_array();
                value.elements().for_each(|element| add(builder, element));
                builder.end()
            }
            Kind::Object => {
                builder.begin_object();
                for (name, value) in value.members() {
                    builder.key(&name);
                    add(builder, value);
                }
                builder.end()
            }
        };
    }
    let mut builder = Builder::new();
    add(&mut builder, value);
    builder.finish()
}

/// Without white space outside of strings; names without needless escapes.
fn compact(text: &str) -> String {
    let (mut made, mut inside, mut escaped) = (String::new(), false, false);
    for next in text.chars() {
        if inside || !" \t\r\n".contains(next) {
            made.push(next);
        }
        inside ^= next == '"' && !escaped;
        escaped = next == '\\' && !escaped;
    }
    made.replace("{\"\\u0061\"", "{\"a\"")
}

proptest! {
    #[test]
    fn any_soup_of_tokens_is_read_as_serde_json_reads_it(
        tokens in proptest::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"\"", "\"\\n\"", "1", "-0.5e1", "null", "true", " ", "\"", "\\", "0",
        ]), 0..24)
    ) {
        prop_assert!(agrees(tokens.concat().as_bytes()));
    }

    #[test]
    fn any_string_comes_back(text in ".{0,40}") {
        let mut builder = Builder::new();
        builder.begin_array().string(&text).string("x");
        let made = builder.finish();
        prop_assert!(agrees(made.text().as_bytes()));
        let again = Document::parse(made.text().as_bytes()).unwrap();
        let string = again.root().at(0).unwrap().string().unwrap().into_owned();
        prop_assert_eq!(string, text);
        prop_assert_eq!(again.node_count(), made.node_count());
    }
}
