//! A strict JSON reader (RFC 8259): one value, no comments, no trailing commas, no lone surrogates,
//! no duplicate keys.

use std::borrow::Cow;

use base::limits;
use model::Place;

use super::{Keep, Map, Member, Node, SyntaxError, Value, count, without_duplicates};
use crate::report::{Report, shorten};

/// Reads the whole of `text` as one value.
pub(super) fn read<'a>(
    text: &'a str,
    keep: Keep,
    report: &mut Report,
) -> Result<Node<'a>, SyntaxError> {
    let mut reader = Reader { text, at: 0, line: 1, line_start: 0, continuing: 0, report };
    reader.space();
    let node = reader.value(keep, 0)?;
    reader.space();
    match reader.peek() {
        None => Ok(node),
        Some(_) => {
            Err(reader.error("unexpected content after the end of the document", "remove it"))
        }
    }
}

struct Reader<'a, 'r> {
    text: &'a str,
    at: usize,
    line: u32,
    /// Offset of the line's first byte.
    line_start: usize,
    /// UTF-8 continuation bytes of this line, before `at`, which are not columns.
    continuing: usize,
    report: &'r mut Report,
}

impl<'a> Reader<'a, '_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn step(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    fn place(&self) -> Place {
        let column = self.at.saturating_sub(self.line_start).saturating_sub(self.continuing);
        Place { line: self.line, column: count(column).saturating_add(1) }
    }

    fn error(&self, message: impl Into<String>, help: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.place(), message, help)
    }

    fn expected(&self, what: &str) -> SyntaxError {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            None => self
                .error(format!("expected {what}, found the end of the file"), "complete the file"),
            Some(c) => {
                let found = c.escape_debug();
                self.error(format!("expected {what}, found `{found}`"), "correct the JSON")
            }
        }
    }

    fn space(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' => self.step(),
                b'\n' => {
                    self.step();
                    self.line = self.line.saturating_add(1);
                    self.line_start = self.at;
                    self.continuing = 0;
                }
                _ => return,
            }
        }
    }

    fn value(&mut self, keep: Keep, depth: usize) -> Result<Node<'a>, SyntaxError> {
        if depth > limits::JSON_DEPTH_MAX {
            let most = limits::JSON_DEPTH_MAX;
            return Err(self.error(format!("nested deeper than {most} levels"), "flatten it"));
        }
        let place = self.place();
        let value = match self.peek() {
            Some(b'{') => self.object(keep, depth)?,
            Some(b'[') => self.list(keep, depth)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b't') => self.word("true", Value::Bool(true))?,
            Some(b'f') => self.word("false", Value::Bool(false))?,
            Some(b'n') => self.word("null", Value::Null)?,
            Some(b'-' | b'0'..=b'9') => Value::Number(Cow::Borrowed(self.number()?)),
            Some(_) | None => return Err(self.expected("a value")),
        };
        let value = if keep == Keep::Nothing { Value::Unread } else { value };
        Ok(Node { place, value })
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Result<Value<'a>, SyntaxError> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if !rest.starts_with(word) {
            return Err(self.expected("a value"));
        }
        self.at = self.at.saturating_add(word.len());
        Ok(value)
    }

    fn object(&mut self, keep: Keep, depth: usize) -> Result<Value<'a>, SyntaxError> {
        let mut members = Vec::new();
        let mut unread = Vec::new();
        self.step();
        self.space();
        if self.peek() == Some(b'}') {
            self.step();
            return Ok(Value::Map(Map::default()));
        }
        loop {
            let key_place = self.place();
            if self.peek() != Some(b'"') {
                return Err(self.expected("a key in double quotes"));
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.expected("`:`"));
            }
            self.step();
            self.space();
            let value = self.value(keep.below(&key), depth.saturating_add(1))?;
            if keep == Keep::Nothing {
                unread.push((key, key_place));
            } else {
                members.push(Member { key, key_place, value });
            }
            self.space();
            if !self.has_next(b'}')? {
                break;
            }
        }
        without_duplicates(unread, |(key, place)| (key, *place), self.report);
        Ok(Value::Map(Map::new(members, self.report)))
    }

    fn list(&mut self, keep: Keep, depth: usize) -> Result<Value<'a>, SyntaxError> {
        let mut items = Vec::new();
        self.step();
        self.space();
        if self.peek() == Some(b']') {
            self.step();
            return Ok(Value::List(items));
        }
        loop {
            let item = self.value(keep, depth.saturating_add(1))?;
            if keep != Keep::Nothing {
                items.push(item);
            }
            self.space();
            if !self.has_next(b']')? {
                return Ok(Value::List(items));
            }
        }
    }

    /// Whether another member or item follows, after one was read.
    fn has_next(&mut self, end: u8) -> Result<bool, SyntaxError> {
        match self.peek() {
            Some(b',') => {
                self.step();
                self.space();
                Ok(true)
            }
            Some(byte) if byte == end => {
                self.step();
                Ok(false)
            }
            Some(_) | None => {
                Err(self.expected(if end == b'}' { "`,` or `}`" } else { "`,` or `]`" }))
            }
        }
    }

    /// Reads a number: no leading zero or plus, digits on both sides of the point. Source: RFC 8259 section 6.
    fn number(&mut self) -> Result<&'a str, SyntaxError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.step();
        }
        if self.peek() == Some(b'0') {
            self.step();
            if self.peek().is_some_and(|b| b.is_ascii_digit()) {
                return Err(self.error("a number cannot start with 0", "remove the 0"));
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.step();
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.step();
            if let Some(b'+' | b'-') = self.peek() {
                self.step();
            }
            self.digits()?;
        }
        Ok(self.text.get(start..self.at).unwrap_or_default())
    }

    fn digits(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.step();
        }
        if self.at == start { Err(self.expected("a digit")) } else { Ok(()) }
    }

    /// Reads a string, from the opening quote to the closing one. Borrows unless it has an escape.
    fn string(&mut self) -> Result<Cow<'a, str>, SyntaxError> {
        self.step();
        let start = self.at;
        self.plain()?;
        let first = self.text.get(start..self.at).unwrap_or_default();
        if self.peek() == Some(b'"') {
            self.step();
            return Ok(Cow::Borrowed(first));
        }
        let mut out = first.to_owned();
        loop {
            if self.peek() == Some(b'"') {
                self.step();
                return Ok(Cow::Owned(out));
            }
            out.push(self.escape()?);
            let from = self.at;
            self.plain()?;
            out.push_str(self.text.get(from..self.at).unwrap_or_default());
        }
    }

    /// Skips to the next quote or backslash.
    fn plain(&mut self) -> Result<(), SyntaxError> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        for (n, byte) in rest.iter().enumerate() {
            match byte {
                b'"' | b'\\' => {
                    self.at = self.at.saturating_add(n);
                    return Ok(());
                }
                0..=0x1f => {
                    self.at = self.at.saturating_add(n);
                    return Err(self.error(
                        "unescaped control character in a string",
                        "write it as an escape",
                    ));
                }
                0x80..=0xbf => self.continuing = self.continuing.saturating_add(1),
                _ => {}
            }
        }
        self.at = self.text.len();
        Err(self.expected("the closing `\"`"))
    }

    fn escape(&mut self) -> Result<char, SyntaxError> {
        let start = self.place();
        self.step();
        let letter = self.peek();
        self.step();
        match letter {
            Some(b'"') => Ok('"'),
            Some(b'\\') => Ok('\\'),
            Some(b'/') => Ok('/'),
            Some(b'b') => Ok('\u{8}'),
            Some(b'f') => Ok('\u{c}'),
            Some(b'n') => Ok('\n'),
            Some(b'r') => Ok('\r'),
            Some(b't') => Ok('\t'),
            Some(b'u') => self.unicode(start),
            Some(_) | None => Err(SyntaxError::new(
                start,
                "unknown escape in a string",
                "write `\\\\` for a backslash",
            )),
        }
    }

    fn unicode(&mut self, start: Place) -> Result<char, SyntaxError> {
        let first = self.hex(start)?;
        let code = match first {
            0xd800..=0xdbff => {
                let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
                if !rest.starts_with(b"\\u") {
                    return Err(surrogate(start));
                }
                self.at = self.at.saturating_add(2);
                let second = self.hex(start)?;
                if !(0xdc00..=0xdfff).contains(&second) {
                    return Err(surrogate(start));
                }
                0x1_0000 + ((first & 0x3ff) << 10) + (second & 0x3ff)
            }
            _ => first,
        };
        char::from_u32(code).ok_or_else(|| surrogate(start))
    }

    fn hex(&mut self, start: Place) -> Result<u32, SyntaxError> {
        let end = self.at.saturating_add(4);
        let digits = self.text.get(self.at..end).unwrap_or_default();
        if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            let found = shorten(digits);
            return Err(SyntaxError::new(
                start,
                format!("invalid escape `\\u{found}`"),
                "write four hex digits",
            ));
        }
        self.at = end;
        u32::from_str_radix(digits, 16).map_err(|_| surrogate(start))
    }
}

fn surrogate(place: Place) -> SyntaxError {
    SyntaxError::new(
        place,
        "unpaired surrogate in a string",
        "write both surrogates, or the character itself",
    )
}
