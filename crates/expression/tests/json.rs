//! The JSON reader: rules of RFC 8259, and agreement with serde_json.

use penstock_expression::Error;
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
    // The text between the strings of an array is mostly the same again and again.
    "[\"\", \"b\", \"c\", \"\"]", "[\"a\",\"b\",\"c\", \"d\",\"e\" ,\"f\",\n\"g\",\n\"h\"]", "[\"a\", \"b\", 1, \"c\", \"d\\\"\", \"e\",  \"f\"]",
    "[\"a\",              \"fourteen\",              \"c\",              \"12345678\"]", "[\"a\",               \"fifteen\",               \"c\"]",
    "[\"a\",                \"sixteen\",                \"c\",                []]", "[[\"a\",\"b\",\"c\"],\"d\",[\"e\",{\"f\":\"g\"},\"h\",\"i\"]]",
    "[\"a\", \"1234567\", \"12345678\", \"123456789\", \"é\", \"\\\\\", \"1234567\\n\", \"\", \"12345678\\n\", \"b\", \"c\",\"d\", \"e\", \"f\", \"g\"]",
];

/// The text, and position and kind of its error.
#[rustfmt::skip]
const REJECTED: &[(&[u8], &str)] = &[
    (b"", "1:1 UnexpectedEnd"), (b" ", "1:2 UnexpectedEnd"), (b"nul", "1:1 Expected(\"a value\")"), (b"nulll", "1:5 Trailing"),
    (b"True", "1:1 Expected(\"a value\")"), (b"+1", "1:1 Expected(\"a value\")"), (b".5", "1:1 Expected(\"a value\")"), (b"01", "1:2 Number"), (b"-01", "1:3 Number"),
    (b"-", "1:2 UnexpectedEnd"), (b"--1", "1:2 Number"), (b"1.", "1:3 UnexpectedEnd"), (b"1.e5", "1:3 Number"),
    (b"1e", "1:3 UnexpectedEnd"), (b"1e+", "1:4 UnexpectedEnd"), (b"1.5.5", "1:4 Trailing"), (b"0x10", "1:2 Trailing"),
    (b"NaN", "1:1 Expected(\"a value\")"), (b"Infinity", "1:1 Expected(\"a value\")"), (b"-Infinity", "1:2 Number"), (b"1 2", "1:3 Trailing"),
    (b"\"", "1:2 UnexpectedEnd"), (b"\"a", "1:3 UnexpectedEnd"), (b"'a'", "1:1 Expected(\"a value\")"), (b"\"\n\"", "1:2 Control"),
    (b"\"\t\"", "1:2 Control"), (b"\"1234567\x00\"", "1:9 Control"), (b"\"12345678901\x1f\"", "1:13 Control"),
    (b"\"\\x\"", "1:2 Escape"), (b"\"\\\"", "1:4 UnexpectedEnd"), (b"\"\\", "1:3 UnexpectedEnd"), (b"\"\\u12\"", "1:2 Escape"),
    (b"\"\\u12g4\"", "1:2 Escape"), (b"\"\\ud800\"", "1:2 Surrogate"), (b"\"\\udc00\"", "1:2 Surrogate"), (b"\"\\ud800\\u0041\"", "1:2 Surrogate"),
    (b"\"\\ud800\\ud800\"", "1:2 Surrogate"), (b"\"\\U0041\"", "1:2 Escape"),
    (b"[", "1:2 UnexpectedEnd"), (b"[1", "1:3 UnexpectedEnd"), (b"[1,", "1:4 UnexpectedEnd"), (b"[1,]", "1:4 Expected(\"a value\")"),
    (b"[,1]", "1:2 Expected(\"a value\")"), (b"[1 2]", "1:4 Expected(\"`,` or `]`\")"), (b"[1}", "1:3 Expected(\"`,` or `]`\")"), (b"]", "1:1 Expected(\"a value\")"), (b"[1]]", "1:4 Trailing"),
    (b"{", "1:2 UnexpectedEnd"), (b"{a:1}", "1:2 Expected(\"a member name in quotes\")"), (b"{'a':1}", "1:2 Expected(\"a member name in quotes\")"), (b"{\"a\"}", "1:5 Expected(\"`:`\")"),
    (b"{\"a\":}", "1:6 Expected(\"a value\")"), (b"{\"a\":1,}", "1:8 Expected(\"a member name in quotes\")"), (b"{\"a\":1 \"b\":2}", "1:8 Expected(\"`,` or `}`\")"),
    (b"{\"a\":1]", "1:7 Expected(\"`,` or `}`\")"), (b"{\"a\" 1}", "1:6 Expected(\"`:`\")"), (b"{1:1}", "1:2 Expected(\"a member name in quotes\")"), (b"{,}", "1:2 Expected(\"a member name in quotes\")"),
    (b"[1]//x", "1:4 Trailing"), (b"/**/1", "1:1 Expected(\"a value\")"), (b"\xef\xbb\xbf1", "1:1 ByteOrderMark"), (b"\"\xff\"", "1:2 Encoding"),
    (b"\"\xc0\xaf\"", "1:2 Encoding"), (b"\"\xed\xa0\x80\"", "1:2 Encoding"), (b"\x0c1", "1:1 Expected(\"a value\")"), (b"1\x0c", "1:2 Trailing"),
    (b"\xc2\xa01", "1:1 Expected(\"a value\")"), (b"{\n \"a\": [\n  1,\n  x]}", "4:3 Expected(\"a value\")"), ("[\"é\", x]".as_bytes(), "1:7 Expected(\"a value\")"),
    (b"\x00", "1:1 Expected(\"a value\")"), (b"[1,\x00]", "1:4 Expected(\"a value\")"),
    (b"[\"a\",\"b\",\"c\",]", "1:14 Expected(\"a value\")"), (b"[\"a\",\"b\",\"c", "1:12 UnexpectedEnd"), (b"[\"a\",\"b\",\"\x01\"]", "1:11 Control"),
    (b"[\"a\", \"b\", \"\x01\", \"c\", \"d\", \"e\", \"f\", \"g\"]", "1:13 Control"), (b"[\"a\", \"b\", \"1234567\x1f\", \"c\", \"d\", \"e\", \"f\"]", "1:20 Control"),
    (b"[\"a\", \"b\", \"c\"}", "1:15 Expected(\"`,` or `]`\")"), (b"[\"a\", \"b\" \"c\"]", "1:11 Expected(\"`,` or `]`\")"), (b"[\"a\", \"b\", \"c\"", "1:15 UnexpectedEnd"),
];

#[test]
fn valid_documents_are_read_and_written_unchanged() {
    for text in ACCEPTED {
        let document =
            Document::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(document.root().raw(), text.trim(), "{text}");
        assert!(agrees(text.as_bytes()) || text.contains("e400"), "{text}");
        assert_eq!(rebuilt(document.root()).text(), compact(text), "{text}");
    }
}

#[test]
fn invalid_documents_are_rejected_with_position_and_kind() {
    for (bytes, expect) in REJECTED {
        let text = String::from_utf8_lossy(bytes);
        let error = Document::parse(bytes).expect_err(&text);
        assert_eq!(code(&error), *expect, "{text}");
        assert!(serde_json::from_slice::<serde_json::Value>(bytes).is_err(), "{text}");
    }
}

#[test]
fn values_are_found_by_name_and_index() {
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
fn limits_are_enforced() {
    let with = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        limits
    };
    for (text, limits, expect) in [
        ("[[[]]]", with(|limits| limits.depth = 2), "1:3 Depth(2)"),
        ("[1,2]", with(|limits| limits.bytes = 4), "1:5 Bytes(4)"),
        ("[1,2]", with(|limits| limits.nodes = 2), "1:4 Nodes(2)"),
        (
            r#"{"a":1,"\u0061":2}"#,
            with(|limits| limits.duplicates = Duplicates::Reject),
            "1:17 Duplicate",
        ),
        (
            r#"[{"b":1,"a":{"x":1,"y":1,"x":2}}]"#,
            with(|limits| limits.duplicates = Duplicates::Reject),
            "1:30 Duplicate",
        ),
    ] {
        let error = Document::parse_with(text.as_bytes(), &limits).unwrap_err();
        assert_eq!(code(&error), expect, "{text}");
    }
}

#[test]
fn a_million_levels_are_rejected_or_read_without_recursion() {
    for open in ["[", "{\"a\":"] {
        let deep = open.repeat(1_000_000);
        let error = Document::parse(deep.as_bytes()).unwrap_err();
        assert_eq!(code(&error), format!("1:{} Depth(1000)", 1_000 * open.len() + 1));
    }
    let limits = Limits { depth: usize::MAX, ..Limits::default() };
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let document = Document::parse_with(deep.as_bytes(), &limits).unwrap();
    assert_eq!(document.root().descendants().count(), 1_000_000);
}

#[test]
fn a_builder_makes_well_formed_json_for_any_order_of_calls() {
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

fn code(error: &Error) -> String {
    let Error::Json { line, column, kind, .. } = error else { panic!("{error}") };
    format!("{line}:{column} {kind:?}")
}

/// Whether both readers return the same value, or both reject the text.
fn agrees(bytes: &[u8]) -> bool {
    let ours = Document::parse(bytes);
    match (ours, serde_json::from_slice::<serde_json::Value>(bytes)) {
        (Ok(ours), Ok(theirs)) => same(ours.root(), &theirs),
        (Err(_), Err(_)) => true,
        // It rejects numbers beyond the range of a double; their text is kept here.
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

/// Without white space outside of strings, and without needless escapes in names.
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
    fn random_tokens_are_read_as_serde_json_reads_them(
        tokens in proptest::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"\"", "\"\\n\"", "1", "-0.5e1", "null", "true", " ", "\"", "\\", "0",
        ]), 0..24)
    ) {
        prop_assert!(agrees(tokens.concat().as_bytes()));
    }

    #[test]
    fn any_string_round_trips(text in ".{0,40}") {
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
