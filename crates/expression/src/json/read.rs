//! The reader: one pass with an explicit stack; strings are scanned eight bytes at a time.

use std::borrow::Cow;

use super::{COUNT_SHIFT, Document, ESCAPED, Node, Tag, place};
use crate::error::{Error, JsonErrorKind};
use crate::limits;

/// How two members of the same name in one object are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Duplicates {
    /// All are kept and written; a lookup returns the last.
    Keep,
    /// The document is rejected.
    Reject,
}

/// The limits of one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Deepest nesting of arrays and objects.
    pub depth: usize,
    /// Largest document, in bytes.
    pub bytes: usize,
    /// Maximum number of values and member names.
    pub nodes: usize,
    /// Handling of duplicate member names.
    pub duplicates: Duplicates,
}

impl Default for Limits {
    /// The limits of a message body, see [`limits`](crate::limits); duplicates are kept.
    fn default() -> Self {
        Self {
            depth: limits::JSON_TREE_DEPTH_MAX,
            bytes: limits::JSON_BYTES_MAX as usize,
            nodes: limits::JSON_NODES_MAX,
            duplicates: Duplicates::Keep,
        }
    }
}

/// An error by its offset, before line and column are counted. Boxed, so that values on the ordinary way take
/// registers.
type Located = Box<(usize, JsonErrorKind)>;

#[cold]
fn located(at: usize, kind: JsonErrorKind) -> Located {
    Box::new((at, kind))
}

pub(super) fn read<'s>(bytes: &'s [u8], limits: &Limits) -> Result<Document<'s>, Error> {
    let most = limits.bytes.min(u32::MAX as usize - 1);
    if bytes.len() > most {
        return Err(locate(bytes, most, JsonErrorKind::Bytes(most)));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| locate(bytes, error.valid_up_to(), JsonErrorKind::Encoding))?;
    // An array of short strings has a node every 13 bytes; most documents have fewer.
    let nodes = Vec::with_capacity((bytes.len() / 12 + 4).min(limits.nodes));
    let mut reader = Reader { bytes, nodes, inner: OUTSIDE, outer: Vec::new(), limits };
    reader.document().map_err(|located| locate(bytes, located.0, located.1))?;
    let document = Document { text: Cow::Borrowed(text), nodes: reader.nodes };
    if limits.duplicates == Duplicates::Reject {
        reject_duplicates(&document).map_err(|located| locate(bytes, located.0, located.1))?;
    }
    Ok(document)
}

/// Whether `text` is a number by RFC 8259 section 6.
pub(super) fn is_number(text: &str) -> bool {
    number(text.as_bytes(), 0) == Ok(text.len())
}

struct Reader<'a> {
    bytes: &'a [u8],
    nodes: Vec<Node>,
    /// The innermost container, and those around it.
    inner: Open,
    outer: Vec<Open>,
    limits: &'a Limits,
}

struct Open {
    index: usize,
    count: u32,
    tag: Tag,
}

/// Members of all containers.
const OUTSIDE: Open = Open { index: usize::MAX, count: 0, tag: Tag::Null };

impl Reader<'_> {
    fn document(&mut self) -> Result<(), Located> {
        let bytes = self.bytes;
        if bytes.starts_with(b"\xef\xbb\xbf") {
            return Err(located(0, JsonErrorKind::ByteOrderMark));
        }
        let mut at = space(bytes, 0);
        loop {
            let start = at;
            let (end, meta) = match bytes.get(start) {
                Some(b'"') => {
                    let (end, escaped) = string(bytes, start)?;
                    (end, Tag::String as u32 | escaped)
                }
                Some(&open @ (b'{' | b'[')) => {
                    if self.outer.len() >= self.limits.depth {
                        return Err(located(start, JsonErrorKind::Depth(self.limits.depth)));
                    }
                    let object = open == b'{';
                    let (tag, close) =
                        if object { (Tag::Object, b'}') } else { (Tag::Array, b']') };
                    at = space(bytes, start + 1);
                    if bytes.get(at) != Some(&close) {
                        let inner = Open { index: self.nodes.len(), count: 1, tag };
                        self.outer.push(std::mem::replace(&mut self.inner, inner));
                        self.push(start, at, tag as u32)?;
                        if object {
                            at = self.key(at)?;
                        }
                        continue;
                    }
                    (at + 1, tag as u32)
                }
                Some(b'-' | b'0'..=b'9') => (number(bytes, start)?, Tag::Number as u32),
                Some(b't') => (word(bytes, start, b"true")?, Tag::True as u32),
                Some(b'f') => (word(bytes, start, b"false")?, Tag::False as u32),
                Some(b'n') => (word(bytes, start, b"null")?, Tag::Null as u32),
                Some(_) => return Err(located(start, JsonErrorKind::Expected("a value"))),
                None => return Err(located(start, JsonErrorKind::UnexpectedEnd)),
            };
            self.push(start, end, meta)?;
            match self.after_value(end)? {
                Some(next) => at = next,
                None => return Ok(()),
            }
        }
    }

    /// Closes the containers that end after the value before `at`, and returns where the next value begins; `None` at
    /// the end of the document.
    #[inline(always)]
    fn after_value(&mut self, mut at: usize) -> Result<Option<usize>, Located> {
        let bytes = self.bytes;
        loop {
            at = space(bytes, at);
            match (bytes.get(at), self.inner.tag) {
                (Some(b','), Tag::Array) => {
                    self.inner.count += 1;
                    let next = space(bytes, at + 1);
                    if bytes.get(next) != Some(&b'"') {
                        return Ok(Some(next));
                    }
                    at = self.strings(at, next)?;
                }
                (Some(b','), Tag::Object) => {
                    self.inner.count += 1;
                    return Ok(Some(self.key(space(bytes, at + 1))?));
                }
                (Some(b']'), Tag::Array) | (Some(b'}'), Tag::Object) => {
                    at += 1;
                    self.end(at);
                }
                (Some(_), Tag::Object) => {
                    return Err(located(at, JsonErrorKind::Expected("`,` or `}`")));
                }
                (Some(_), Tag::Array) => {
                    return Err(located(at, JsonErrorKind::Expected("`,` or `]`")));
                }
                (None, Tag::Object | Tag::Array) => {
                    return Err(located(at, JsonErrorKind::UnexpectedEnd));
                }
                (None, _) => return Ok(None),
                (Some(_), _) => return Err(located(at, JsonErrorKind::Trailing)),
            }
        }
    }

    /// Reads the string at `start`, after a `comma`, and others as long as there are the same few bytes between them,
    /// which then take one comparison. Returns where the last one ends.
    #[inline(never)]
    fn strings(&mut self, comma: usize, mut start: usize) -> Result<usize, Located> {
        let bytes = self.bytes;
        let sixteen = |at| bytes.get(at..)?.first_chunk().map(|of| u128::from_le_bytes(*of));
        let between = start - comma;
        let (mask, expected) = match sixteen(comma) {
            // With the quote.
            Some(found) if between < 16 => {
                let mask = u128::MAX >> (8 * (15 - between));
                (mask, found & mask)
            }
            // No UTF-8 has such bytes.
            Some(_) | None => (u128::MAX, u128::MAX),
        };
        loop {
            // Mostly all of them.
            while let Some((end, behind)) = short_string(bytes, start) {
                self.push(start, end, Tag::String as u32)?;
                if behind & mask != expected {
                    return Ok(end);
                }
                self.inner.count += 1;
                start = end + between;
            }
            let (end, escaped) = string(bytes, start)?;
            self.push(start, end, Tag::String as u32 | escaped)?;
            if sixteen(end).is_none_or(|behind| behind & mask != expected) {
                return Ok(end);
            }
            self.inner.count += 1;
            start = end + between;
        }
    }

    /// Closes the innermost container, which ends at `at`.
    fn end(&mut self, at: usize) {
        let (end, next) = (place(at), place(self.nodes.len()));
        let ended = std::mem::replace(&mut self.inner, self.outer.pop().unwrap_or(OUTSIDE));
        if let Some(node) = self.nodes.get_mut(ended.index) {
            node.end = end;
            node.next = next;
            node.meta |= ended.count << COUNT_SHIFT;
        }
    }

    /// Reads a name and its colon; returns where its value begins.
    fn key(&mut self, start: usize) -> Result<usize, Located> {
        let bytes = self.bytes;
        match bytes.get(start) {
            Some(b'"') => {}
            Some(_) => {
                return Err(located(start, JsonErrorKind::Expected("a member name in quotes")));
            }
            None => return Err(located(start, JsonErrorKind::UnexpectedEnd)),
        }
        let (end, escaped) = string(bytes, start)?;
        self.push(start, end, Tag::Key as u32 | escaped)?;
        let at = space(bytes, end);
        match bytes.get(at) {
            Some(b':') => Ok(space(bytes, at + 1)),
            Some(_) => Err(located(at, JsonErrorKind::Expected("`:`"))),
            None => Err(located(at, JsonErrorKind::UnexpectedEnd)),
        }
    }

    #[inline(always)]
    fn push(&mut self, start: usize, end: usize, meta: u32) -> Result<(), Located> {
        let index = self.nodes.len();
        if index >= self.limits.nodes {
            return Err(located(start, JsonErrorKind::Nodes(self.limits.nodes)));
        }
        let next = place(index + 1);
        self.nodes.push(Node { start: place(start), end: place(end), next, meta });
        Ok(())
    }
}

/// The end of the string at `start`, and [`ESCAPED`] if it has escapes, else 0.
#[inline(always)]
fn string(bytes: &[u8], start: usize) -> Result<(usize, u32), Located> {
    let at = plain_end(bytes, start + 1);
    if bytes.get(at) == Some(&b'"') { Ok((at + 1, 0)) } else { rest_of_string(bytes, at) }
}

/// The end of the string at `start`, and the 16 bytes behind it, if it has at most eight bytes and no escapes. The
/// bounds are checked once.
#[inline(always)]
fn short_string(bytes: &[u8], start: usize) -> Option<(usize, u128)> {
    let [_, rest @ ..] = bytes.get(start..)?.first_chunk::<32>()?;
    let found = special(u64::from_le_bytes(*rest.first_chunk()?));
    let len = found.trailing_zeros() as usize / 8;
    if rest.get(len) != Some(&b'"') {
        return None;
    }
    let behind = rest.get(len + 1..)?.first_chunk()?;
    Some((start + len + 2, u128::from_le_bytes(*behind)))
}

/// The same of a string from its first escape on, or from where it is malformed.
fn rest_of_string(bytes: &[u8], mut at: usize) -> Result<(usize, u32), Located> {
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok((at + 1, ESCAPED)),
            Some(b'\\') => at = plain_end(bytes, escape(bytes, at)?),
            Some(_) => return Err(located(at, JsonErrorKind::Control)),
            None => return Err(located(at, JsonErrorKind::UnexpectedEnd)),
        }
    }
}

/// The end of `word`, if that is at `start`.
fn word(bytes: &[u8], start: usize, word: &[u8]) -> Result<usize, Located> {
    let end = start + word.len();
    let is_it = bytes.get(start..end) == Some(word);
    if is_it { Ok(end) } else { Err(located(start, JsonErrorKind::Expected("a value"))) }
}

/// The end of the white space at `at`, most of which is blanks behind the end of a line.
#[inline(always)]
fn space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at = blanks_end(bytes, at + 1);
    }
    at
}

/// The end of the blanks at `at`.
#[inline(always)]
fn blanks_end(bytes: &[u8], mut at: usize) -> usize {
    const BLANKS: u64 = u64::from_le_bytes([b' '; 8]);
    while let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let others = u64::from_le_bytes(*eight) ^ BLANKS;
        if others != 0 {
            return at + others.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes.get(at) == Some(&b' ') {
        at += 1;
    }
    at
}

/// The next quote, backslash or control character at or after `at`, or the end.
#[inline]
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let found = special(u64::from_le_bytes(*eight));
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|&byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        at += 1;
    }
    at
}

/// A word whose lowest set bit is in the first byte of `word` that ends a plain run of a string; 0 if none does.
fn special(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let zero_in = |lanes: u64| lanes.wrapping_sub(ONES) & !lanes;
    let quote = zero_in(word ^ (ONES * 0x22));
    let backslash = zero_in(word ^ (ONES * 0x5c));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | backslash | control) & HIGHS
}

/// Returns the end of the escape at `at`.
fn escape(bytes: &[u8], at: usize) -> Result<usize, Located> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => match unit(bytes, at)? {
            0xd800..=0xdbff => match unit(bytes, at + 6) {
                Ok(0xdc00..=0xdfff) => Ok(at + 12),
                Ok(_) | Err(_) => Err(located(at, JsonErrorKind::Surrogate)),
            },
            0xdc00..=0xdfff => Err(located(at, JsonErrorKind::Surrogate)),
            _ => Ok(at + 6),
        },
        Some(_) => Err(located(at, JsonErrorKind::Escape)),
        None => Err(located(bytes.len(), JsonErrorKind::UnexpectedEnd)),
    }
}

/// The UTF-16 unit of `\uXXXX` at `at`.
fn unit(bytes: &[u8], at: usize) -> Result<u32, Located> {
    let malformed = || located(at, JsonErrorKind::Escape);
    let escape = bytes.get(at..at + 6).ok_or_else(malformed)?;
    let digits = escape.strip_prefix(b"\\u").ok_or_else(malformed)?;
    let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(malformed);
    digits.iter().try_fold(0, |value, &byte| Ok(value * 16 + digit(byte)?))
}

/// The end of the number at `at`.
fn number(bytes: &[u8], at: usize) -> Result<usize, Located> {
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let some_digits = |at: usize| match digits(at) {
        end if end > at => Ok(end),
        end if end == bytes.len() => Err(located(end, JsonErrorKind::UnexpectedEnd)),
        end => Err(located(end, JsonErrorKind::Number)),
    };
    let whole = if bytes.get(at) == Some(&b'-') { at + 1 } else { at };
    let mut end = if bytes.get(whole) == Some(&b'0') { whole + 1 } else { some_digits(whole)? };
    if bytes.get(end).is_some_and(u8::is_ascii_digit) {
        return Err(located(end, JsonErrorKind::Number));
    }
    if bytes.get(end) == Some(&b'.') {
        end = some_digits(end + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        end = some_digits(end + 1 + sign)?;
    }
    Ok(end)
}

fn reject_duplicates(document: &Document<'_>) -> Result<(), Located> {
    let mut names = Vec::new();
    for object in document.root().descendants() {
        names.clear();
        names.extend(object.members().map(|(name, value)| (name, value.offset())));
        names.sort_unstable();
        let twice = names.iter().zip(names.iter().skip(1)).find(|(one, other)| one.0 == other.0);
        if let Some((_, (_, offset))) = twice {
            return Err(located(*offset, JsonErrorKind::Duplicate));
        }
    }
    Ok(())
}

fn locate(bytes: &[u8], offset: usize, kind: JsonErrorKind) -> Error {
    let (line, column) = crate::error::position(bytes, offset);
    Error::Json { line, column, offset, kind }
}
