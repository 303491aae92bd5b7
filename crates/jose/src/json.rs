//! A small, strict JSON reader for headers, claims and keys.
//!
//! Stricter than RFC 8259 where it leaves room: a member's name stands once in its object, numbers fit a
//! finite `f64`, escapes form whole Unicode scalars, nesting ends at
//! [`limits::JSON_DEPTH_MAX`]. Numbers keep their text, so that no digit is lost.

use std::borrow::Cow;

use base::limits;

/// A JSON value; strings without escapes and all numbers borrow from the text that was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    /// As it was written; its grammar is checked.
    Number(&'a str),
    String(Cow<'a, str>),
    Array(Vec<Self>),
    Object(Object<'a>),
}

/// An object's members in the order they were written; each name once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

/// What isn't strict JSON, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at byte {offset}")]
pub struct JsonError {
    pub offset: usize,
    pub problem: &'static str,
}

/// Reads one JSON value that fills `bytes`, but for white space.
///
/// # Errors
/// The first place that isn't strict JSON, in bytes from the start.
pub fn parse(bytes: &[u8]) -> Result<Value<'_>, JsonError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| JsonError { offset: error.valid_up_to(), problem: "invalid UTF-8" })?;
    let mut reader = Reader { whole: text.len(), rest: text.as_bytes() };
    reader.skip_space();
    let value = reader.value(limits::JSON_DEPTH_MAX)?;
    reader.skip_space();
    if reader.rest.is_empty() { Ok(value) } else { Err(reader.error("trailing bytes")) }
}

/// Reads one JSON object that fills `bytes`.
///
/// # Errors
/// As [`parse`], and for any value that isn't an object.
pub fn parse_object(bytes: &[u8]) -> Result<Object<'_>, JsonError> {
    match parse(bytes)? {
        Value::Object(object) => Ok(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(JsonError { offset: 0, problem: "not an object" })
        }
    }
}

impl<'a> Object<'a> {
    /// The value of the member called `name`.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// The members in the order they were written.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Value<'a>)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Gives the member called `name` a new value, in its old place or at the end.
    pub fn set(&mut self, name: &'a str, value: Value<'a>) {
        match self.0.iter_mut().find(|(own, _)| own == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((Cow::Borrowed(name), value)),
        }
    }
}

impl Value<'_> {
    /// The text, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Array(_) | Self::Object(_) => None,
        }
    }

    /// The items, if it is an array.
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Object(_) => {
                None
            }
        }
    }

    /// Appends the value to `out`, without white space.
    pub fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(text) => out.push_str(text),
            Self::String(text) => write_string(out, text),
            Self::Array(items) => {
                out.push('[');
                for (place, item) in items.iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(object) => object.write(out),
        }
    }
}

impl Object<'_> {
    /// Appends the object to `out`, without white space.
    pub fn write(&self, out: &mut String) {
        out.push('{');
        for (place, (name, value)) in self.0.iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            write_string(out, name);
            out.push(':');
            value.write(out);
        }
        out.push('}');
    }
}

/// Appends `text` to `out` as a JSON string.
pub fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if u32::from(control) < 0x20 => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

struct Reader<'a> {
    /// Length of the whole text, for offsets.
    whole: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn error(&self, problem: &'static str) -> JsonError {
        JsonError { offset: self.whole.saturating_sub(self.rest.len()), problem }
    }

    /// Takes the bytes up to the first that `stop` names, or all.
    fn take_until(&mut self, stop: impl Fn(u8) -> bool) -> &'a [u8] {
        let length = self.rest.iter().position(|&byte| stop(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn skip_space(&mut self) {
        self.take_until(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Takes the byte `wanted` if it comes next.
    fn eat(&mut self, wanted: u8) -> bool {
        match self.rest.split_first() {
            Some((&byte, rest)) if byte == wanted => {
                self.rest = rest;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Reads a value that may nest `depth` levels.
    fn value(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        match self.peek() {
            Some(b'{') => self.object(depth).map(Value::Object),
            Some(b'[') => self.array(depth).map(Value::Array),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true", Value::Bool(true)),
            Some(b'f') => self.word(b"false", Value::Bool(false)),
            Some(b'n') => self.word(b"null", Value::Null),
            Some(_) => Err(self.error("no JSON value")),
            None => Err(self.error("the text ends where a value is due")),
        }
    }

    fn word(&mut self, word: &[u8], value: Value<'a>) -> Result<Value<'a>, JsonError> {
        let rest = self.rest.strip_prefix(word).ok_or_else(|| self.error("no JSON value"))?;
        self.rest = rest;
        Ok(value)
    }

    fn deeper(&self, depth: usize) -> Result<usize, JsonError> {
        depth.checked_sub(1).ok_or_else(|| self.error("nested too deeply"))
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Value<'a>>, JsonError> {
        let depth = self.deeper(depth)?;
        self.eat(b'[');
        self.skip_space();
        let mut items = Vec::new();
        if self.eat(b']') {
            return Ok(items);
        }
        loop {
            items.push(self.value(depth)?);
            self.skip_space();
            if self.eat(b']') {
                return Ok(items);
            }
            self.comma("`,` or `]` is missing")?;
        }
    }

    fn object(&mut self, depth: usize) -> Result<Object<'a>, JsonError> {
        let depth = self.deeper(depth)?;
        self.eat(b'{');
        self.skip_space();
        let mut members = Vec::new();
        if self.eat(b'}') {
            return Ok(Object(members));
        }
        loop {
            members.push(self.member(depth)?);
            self.skip_space();
            if self.eat(b'}') {
                break;
            }
            self.comma("`,` or `}` is missing")?;
        }
        if has_duplicate(&members) {
            return Err(self.error("an object names a member twice, before this end of it"));
        }
        Ok(Object(members))
    }

    fn comma(&mut self, problem: &'static str) -> Result<(), JsonError> {
        if !self.eat(b',') {
            return Err(self.error(problem));
        }
        self.skip_space();
        Ok(())
    }

    fn member(&mut self, depth: usize) -> Result<(Cow<'a, str>, Value<'a>), JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.error("a member's name is due"));
        }
        let name = self.string()?;
        self.skip_space();
        if !self.eat(b':') {
            return Err(self.error("`:` is missing"));
        }
        self.skip_space();
        Ok((name, self.value(depth)?))
    }

    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.eat(b'"');
        let mut text = Cow::Borrowed(self.plain()?);
        loop {
            if self.eat(b'"') {
                return Ok(text);
            }
            if !self.eat(b'\\') {
                return Err(self.error("a string is cut off or holds a control character"));
            }
            let escaped = self.escape()?;
            let text = text.to_mut();
            text.push(escaped);
            text.push_str(self.plain()?);
        }
    }

    /// The characters up to a quote, a backslash, a control character or the end.
    fn plain(&mut self) -> Result<&'a str, JsonError> {
        let bytes = self.take_until(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
        // Cut at ASCII bytes out of text that is UTF-8, so this holds; it costs less than a doubt.
        std::str::from_utf8(bytes).map_err(|_| self.error("invalid UTF-8"))
    }

    /// The character that the escape after a backslash stands for.
    fn escape(&mut self) -> Result<char, JsonError> {
        let Some((&kind, rest)) = self.rest.split_first() else {
            return Err(self.error("a string is cut off"));
        };
        self.rest = rest;
        match kind {
            b'"' => Ok('"'),
            b'\\' => Ok('\\'),
            b'/' => Ok('/'),
            b'b' => Ok('\u{8}'),
            b'f' => Ok('\u{c}'),
            b'n' => Ok('\n'),
            b'r' => Ok('\r'),
            b't' => Ok('\t'),
            b'u' => self.unicode(),
            _ => Err(self.error("unknown escape")),
        }
    }

    /// The scalar that `\uXXXX`, or a pair of them, stands for.
    fn unicode(&mut self) -> Result<char, JsonError> {
        let first = self.hex4()?;
        let mut units = vec![first];
        if (0xd800..0xdc00).contains(&first) && self.rest.starts_with(b"\\u") {
            self.eat(b'\\');
            self.eat(b'u');
            units.push(self.hex4()?);
        }
        let mut scalars = char::decode_utf16(units);
        match (scalars.next(), scalars.next()) {
            (Some(Ok(scalar)), None) => Ok(scalar),
            (Some(_) | None, _) => Err(self.error("a lone surrogate")),
        }
    }

    fn hex4(&mut self) -> Result<u16, JsonError> {
        let digits = self.rest.get(..4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let unit = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u16::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.error("four hexadecimal digits are due"))?;
        self.rest = self.rest.get(4..).unwrap_or_default();
        Ok(unit)
    }

    fn number(&mut self) -> Result<Value<'a>, JsonError> {
        let before = self.error("no number");
        let bytes =
            self.take_until(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
        let text = std::str::from_utf8(bytes).map_err(|_| before)?;
        if !is_number(bytes) {
            return Err(before);
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Number(text)),
            Ok(_) | Err(_) => Err(JsonError { problem: "a number out of range", ..before }),
        }
    }
}

/// Whether `bytes` follow the grammar of RFC 8259 section 6.
fn is_number(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let (whole, rest) = split_digits(bytes);
    let well_begun = matches!(whole, [b'0'] | [b'1'..=b'9', ..]);
    let (fraction_ok, rest) = match rest.strip_prefix(b".") {
        Some(rest) => {
            let (digits, rest) = split_digits(rest);
            (!digits.is_empty(), rest)
        }
        None => (true, rest),
    };
    let exponent_ok = match rest.split_first() {
        None => true,
        Some((b'e' | b'E', rest)) => {
            let digits = rest.strip_prefix(b"-").or(rest.strip_prefix(b"+")).unwrap_or(rest);
            !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        }
        Some(_) => false,
    };
    well_begun && fraction_ok && exponent_ok
}

fn split_digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    let length = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    bytes.split_at(length)
}

/// Sorted, so that ten thousand members cost no ten thousand squared comparisons.
fn has_duplicate(members: &[(Cow<'_, str>, Value<'_>)]) -> bool {
    let mut names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| matches!(pair, [one, other] if one == other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_json_is_comes_out_as_serde_reads_it() {
        for text in [
            "null",
            "true",
            " false ",
            "0",
            "-0",
            "-1.5e+3",
            "1E-7",
            "123456789012345678901234567890",
            "1e308",
            "\"\"",
            r#""a\"\\\/\b\f\n\r\t\u00e9\u0000""#,
            r#""\ud83d\ude00 \uFFFF""#,
            "\"\u{e9}\u{1f600}\u{7f}\"",
            "[]",
            "[ ]",
            "[1,\t[2],\r\n{}]",
            "{}",
            "{ }",
            r#"{"a":1,"b":{"a":2},"":[]}"#,
        ] {
            assert_eq!(parse(text.as_bytes()).map(|value| to_serde(&value)), Ok(by_serde(text)));
        }
    }

    #[test]
    fn what_json_is_not_is_told_with_its_place() {
        refused("", 0, "the text ends where a value is due");
        refused("  ", 2, "the text ends where a value is due");
        for text in ["x", "nul", "True", "+1", ".5", "'a'", "\u{feff}1", "NaN", "Infinity", "//1"] {
            refused(text, 0, "no JSON value");
        }
        for text in
            ["01", "-", "1.", "1.e1", "1e", "1e+", "-01", "1.5.5", "1-1", "--1", "00", "1e1.5"]
        {
            refused(text, 0, "no number");
        }
        refused("0x1", 1, "trailing bytes");
        refused("1 2", 2, "trailing bytes");
        refused("{}}", 2, "trailing bytes");
        refused("null\0", 4, "trailing bytes");
        for text in ["1e400", "-1e400", "1e309", "[1e999999999]"] {
            let offset = usize::from(text.starts_with('['));
            refused(text, offset, "a number out of range");
        }
        refused("[1", 2, "`,` or `]` is missing");
        refused("[1 2]", 3, "`,` or `]` is missing");
        refused("[1,]", 3, "no JSON value");
        refused("[,1]", 1, "no JSON value");
        refused("[", 1, "the text ends where a value is due");
        refused("{", 1, "a member's name is due");
        refused("{1:2}", 1, "a member's name is due");
        refused(r#"{"a" 1}"#, 5, "`:` is missing");
        refused(r#"{"a":}"#, 5, "no JSON value");
        refused(r#"{"a":1,}"#, 7, "a member's name is due");
        refused(r#"{"a":1;}"#, 6, "`,` or `}` is missing");
    }

    #[test]
    fn broken_strings_are_refused() {
        let cut = "a string is cut off or holds a control character";
        refused("\"abc", 4, cut);
        refused("\"a\nb\"", 2, cut);
        refused("\"\u{0}\"", 1, cut);
        refused(r#""\"#, 2, "a string is cut off");
        refused(r#""\x41""#, 3, "unknown escape");
        refused(r#""\U0041""#, 3, "unknown escape");
        for (text, offset) in
            [(r#""\u12""#, 3), (r#""\u12g4""#, 3), (r#""\u+123""#, 3), (r#""\u"#, 3)]
        {
            refused(text, offset, "four hexadecimal digits are due");
        }
        for (text, offset) in [
            (r#""\ud800""#, 7),
            (r#""\udc00""#, 7),
            (r#""\ud800x""#, 7),
            (r#""\ud800\n""#, 7),
            (r#""\ud800\ud800""#, 13),
            (r#""\ud800\u0041""#, 13),
            (r#""\udc00\ud800""#, 7),
        ] {
            refused(text, offset, "a lone surrogate");
        }
        assert_eq!(
            parse(b"\"\xc0\xaf\""),
            Err(JsonError { offset: 1, problem: "invalid UTF-8" }),
            "an overlong form"
        );
        assert!(parse(b"\"\xed\xa0\x80\"").is_err(), "a surrogate in UTF-8");
    }

    #[test]
    fn a_member_named_twice_is_refused_at_any_depth_and_however_it_is_spelt() {
        let twice = "an object names a member twice, before this end of it";
        refused(r#"{"a":1,"a":1}"#, 13, twice);
        refused(r#"{"a":1,"b":2,"\u0061":3}"#, 24, twice);
        refused(r#"{"":1,"":1}"#, 11, twice);
        refused(r#"[[{"x":{"a":1,"a":2}}]]"#, 20, twice);
        // Compared as they are: neither case nor Unicode's equivalences make names the same.
        assert!(parse("{\"a\":1,\"A\":1,\"\u{e9}\":1,\"e\u{301}\":1}".as_bytes()).is_ok());
    }

    #[test]
    fn nesting_ends_at_its_limit() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
            assert!(parse(nested(limits::JSON_DEPTH_MAX).as_bytes()).is_ok());
            for depth in [limits::JSON_DEPTH_MAX.saturating_add(1), 100_000] {
                let refusal = parse(nested(depth).as_bytes()).unwrap_err();
                assert_eq!(refusal.problem, "nested too deeply");
            }
        }
        let unclosed = "[".repeat(1_000_000);
        assert_eq!(parse(unclosed.as_bytes()).unwrap_err().problem, "nested too deeply");
    }

    proptest! {
        #[test]
        fn whatever_bytes_come_what_is_accepted_is_what_serde_reads(bytes in json_like()) {
            if let Ok(value) = parse(&bytes) {
                let text = std::str::from_utf8(&bytes).unwrap();
                prop_assert_eq!(to_serde(&value), by_serde(text));
                let mut written = String::new();
                value.write(&mut written);
                prop_assert_eq!(parse(written.as_bytes()), Ok(value));
            }
        }

        #[test]
        fn what_serde_writes_is_read(text in any::<String>(), number in any::<f64>(), key in any::<String>()) {
            let written = serde_json::json!({ "k": [text, number, { key: null }] }).to_string();
            let value = parse(written.as_bytes()).map(|value| to_serde(&value));
            prop_assert_eq!(value, Ok(by_serde(&written)));
        }
    }

    /// Pieces of JSON in any order, now and then whole.
    fn json_like() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"", "\"a\"", "\"b\":", "1", "-", "0.5", "e3", "true",
            "null", " ", "\\u", "d800", "\\", "\u{e9}",
        ]);
        let soup =
            prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat().into_bytes());
        prop_oneof![soup, "[0-9eE+.-]{0,8}".prop_map(String::into_bytes), any::<Vec<u8>>()]
    }

    #[track_caller]
    fn refused(text: &str, offset: usize, problem: &'static str) {
        assert_eq!(parse(text.as_bytes()), Err(JsonError { offset, problem }), "{text:?}");
    }

    fn by_serde(text: &str) -> serde_json::Value {
        serde_json::from_str(text).unwrap()
    }

    fn to_serde(value: &Value<'_>) -> serde_json::Value {
        match value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(flag) => (*flag).into(),
            Value::Number(text) => by_serde(text),
            Value::String(text) => text.clone().into_owned().into(),
            Value::Array(items) => items.iter().map(to_serde).collect(),
            Value::Object(object) => {
                object.members().map(|(name, value)| (name.to_owned(), to_serde(value))).collect()
            }
        }
    }
}
