//! Strict JSON for headers, claims and keys: read by serde_json, with duplicate members rejected.
//!
//! Stricter than RFC 8259 where it leaves room: a name occurs once in its object, numbers fit a finite
//! `f64`, escapes form whole Unicode scalars, nesting ends at [`limits::JSON_DEPTH_MAX`].

use std::borrow::Cow;
use std::fmt;

use base::limits;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON value; strings without escapes borrow from the text that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    /// A whole number in the range of the type.
    Unsigned(u64),
    /// A negative whole number in the range of the type.
    Negative(i64),
    /// Any other number.
    Number(f64),
    String(Cow<'a, str>),
    Array(Vec<Self>),
    Object(Object<'a>),
}

/// An object's members in the order they were written; each name once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

/// Text that isn't strict JSON. Contains no part of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at line {line}, column {column}")]
#[non_exhaustive]
pub struct JsonError {
    pub line: usize,
    /// Column of the error, in bytes, from 1.
    pub column: usize,
    pub problem: String,
}

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let mut problem = error.to_string();
        if let Some(end) = problem.rfind(" at line ") {
            problem.truncate(end);
        }
        Self { line, column, problem }
    }
}

/// Reads one JSON value that fills `bytes`, apart from white space.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value<'_>, JsonError> {
    read(bytes, Nested { depth: limits::JSON_DEPTH_MAX })
}

/// Reads one JSON object that fills `bytes`.
pub(crate) fn parse_object(bytes: &[u8]) -> Result<Object<'_>, JsonError> {
    match parse(bytes)? {
        Value::Object(object) => Ok(object),
        Value::Null
        | Value::Bool(_)
        | Value::Unsigned(_)
        | Value::Negative(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_) => {
            Err(JsonError { line: 1, column: 1, problem: "expected an object".to_owned() })
        }
    }
}

fn read<'a, S: DeserializeSeed<'a>>(bytes: &'a [u8], seed: S) -> Result<S::Value, JsonError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = seed.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// `object` with the member `name` set to the JSON text `value`: in its old place, or last. The other
/// members keep their text.
pub(crate) fn with_member(object: &str, name: &str, value: &str) -> Result<String, JsonError> {
    parse_object(object.as_bytes())?;
    parse(value.as_bytes())?;
    let mut members = read(object.as_bytes(), RawMembers)?;
    match members.iter_mut().find(|(own, _)| own == name) {
        Some((_, old)) => *old = value,
        None => members.push((Cow::Borrowed(name), value)),
    }
    let members: Vec<String> =
        members.iter().map(|(name, value)| format!("{}:{value}", string(name))).collect();
    Ok(format!("{{{}}}", members.join(",")))
}

/// `text` as a JSON string.
pub(crate) fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl<'a> Object<'a> {
    /// The value of a member. One that is `null` counts as absent: many libraries write all their members.
    pub(crate) fn get(&self, name: &str) -> Option<&Value<'a>> {
        let member = self.0.iter().find(|(own, _)| own == name);
        member.map(|(_, value)| value).filter(|value| **value != Value::Null)
    }

    /// Number of members.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a member occurs, with any value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(own, _)| own == name)
    }
}

impl<'a> Value<'a> {
    /// The text, if it is a string.
    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The members, if it is an object.
    pub(crate) fn as_object(&self) -> Option<&Object<'a>> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// The items, if it is an array.
    pub(crate) fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }
}

/// Reads a value that may nest `depth` levels.
#[derive(Clone, Copy)]
struct Nested {
    depth: usize,
}

impl Nested {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        match self.depth.checked_sub(1) {
            Some(depth) => Ok(Self { depth }),
            None => Err(E::custom("nested too deeply")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Nested {
    type Value = Value<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Nested {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value<'de>, E> {
        Ok(Value::Unsigned(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value<'de>, E> {
        Ok(Value::Negative(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value<'de>, E> {
        Ok(Value::Number(number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::String(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::String(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value<'de>, A::Error> {
        let item = self.deeper()?;
        let mut items = Vec::new();
        while let Some(value) = access.next_element_seed(item)? {
            items.push(value);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value<'de>, A::Error> {
        let member = self.deeper()?;
        let mut members = Vec::new();
        while let Some(name) = access.next_key_seed(Name)? {
            members.push((name, access.next_value_seed(member)?));
        }
        if has_duplicate(&members) {
            return Err(de::Error::custom("a member occurs twice in this object"));
        }
        Ok(Value::Object(Object(members)))
    }
}

/// Reads a member's name.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

/// Reads an object as names and the texts of their values.
struct RawMembers;

impl<'de> DeserializeSeed<'de> for RawMembers {
    type Value = Vec<(Cow<'de, str>, &'de str)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RawMembers {
    type Value = Vec<(Cow<'de, str>, &'de str)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = access.next_key_seed(Name)? {
            members.push((name, access.next_value::<&RawValue>()?.get()));
        }
        Ok(members)
    }
}

/// Sorts the names, so that an object of ten thousand members doesn't need a quadratic number of comparisons.
fn has_duplicate(members: &[(Cow<'_, str>, Value<'_>)]) -> bool {
    let mut names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| matches!(pair, [one, other] if one == other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_read() {
        let check =
            |text: &str, expected| assert_eq!(parse(text.as_bytes()), Ok(expected), "{text}");
        check("null", Value::Null);
        check(" false ", Value::Bool(false));
        check("18446744073709551615", Value::Unsigned(u64::MAX));
        check("18446744073709551616", Value::Number(18_446_744_073_709_551_616.0));
        check("-9223372036854775808", Value::Negative(i64::MIN));
        check("-1.5e+3", Value::Number(-1_500.0));
        check("-0", Value::Number(-0.0));
        check(r#""a\"\\\/\b\f\n\r\t\u00e9\u0000""#, text("a\"\\/\u{8}\u{c}\n\r\t\u{e9}\0"));
        check(r#""\ud83d\ude00 \uFFFF""#, text("\u{1f600} \u{ffff}"));
        check(
            "[ 1,\t[null]]",
            Value::Array(vec![Value::Unsigned(1), Value::Array(vec![Value::Null])]),
        );
        let object = parse_object(br#"{"a":1,"b":{"a":"x"},"":[]}"#).unwrap();
        assert_eq!(object.get("a"), Some(&Value::Unsigned(1)));
        assert_eq!(object.get("").and_then(Value::as_array), Some(&[][..]));
        let Some(Value::Object(inner)) = object.get("b") else { panic!("{object:?}") };
        assert_eq!(inner.get("a").and_then(Value::as_str), Some("x"));
        let nulls = parse_object(br#"{"a":null}"#).unwrap();
        assert_eq!((nulls.get("a"), nulls.has("a"), nulls.has("b")), (None, true, false));
    }

    #[test]
    fn text_that_is_not_strict_json_is_rejected() {
        for text in [
            "",
            "  ",
            "x",
            "nul",
            "True",
            "+1",
            ".5",
            "'a'",
            "\u{feff}1",
            "NaN",
            "Infinity",
            "//1",
            "01",
            "-",
            "1.",
            "1.e1",
            "1e",
            "1e+",
            "-01",
            "1.5.5",
            "1-1",
            "--1",
            "00",
            "1e1.5",
            "0x1",
            "1 2",
            "{}}",
            "null\0",
            "1e400",
            "-1e400",
            "[1e999999999]",
            "[1",
            "[1 2]",
            "[1,]",
            "[,1]",
            "[",
            "{",
            "{1:2}",
            r#"{"a" 1}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a":1;}"#,
            "\"abc",
            "\"a\nb\"",
            "\"\u{0}\"",
            r#""\"#,
            r#""\x41""#,
            r#""\U0041""#,
            r#""\u12""#,
            r#""\u12g4""#,
            r#""\u+123""#,
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud800x""#,
            r#""\ud800\n""#,
            r#""\ud800\ud800""#,
            r#""\ud800\u0041""#,
            r#""\udc00\ud800""#,
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(parse(b"\"\xc0\xaf\"").is_err(), "an overlong form");
        assert!(parse(b"\"\xed\xa0\x80\"").is_err(), "a surrogate in UTF-8");
        assert!(parse_object(b"[]").is_err());
    }

    #[test]
    fn a_duplicate_member_is_rejected_at_any_depth_and_however_it_is_escaped() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"b":2,"\u0061":3}"#,
            r#"{"":1,"":1}"#,
            r#"[[{"x":{"a":1,"a":2}}]]"#,
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.problem.contains("twice"), "{text}: {error}");
        }
        // Compared as they are: neither case nor Unicode's equivalences make names the same.
        assert!(parse("{\"a\":1,\"A\":1,\"\u{e9}\":1,\"e\u{301}\":1}".as_bytes()).is_ok());
    }

    #[test]
    fn nesting_ends_at_its_limit() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
            assert!(parse(nested(limits::JSON_DEPTH_MAX).as_bytes()).is_ok());
            for depth in [limits::JSON_DEPTH_MAX + 1, 100_000] {
                let error = parse(nested(depth).as_bytes()).unwrap_err();
                assert_eq!(error.problem, "nested too deeply");
            }
        }
        assert!(parse("[".repeat(1_000_000).as_bytes()).is_err());
    }

    #[test]
    fn an_error_has_a_place_and_no_part_of_the_text() {
        let error = parse(b"{\n \"secret\": \"value\" \"x\"}").unwrap_err();
        assert_eq!((error.line, error.column), (2, 20));
        assert!(
            !error.to_string().contains("secret") && !error.to_string().contains("value"),
            "{error}"
        );
    }

    fn text(text: &str) -> Value<'_> {
        Value::String(text.into())
    }
}
