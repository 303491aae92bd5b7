//! The reader: one pass with an explicit stack; strings are scanned eight bytes at a time.

use std::borrow::Cow;

use crate::{Error, limits};

use super::{COUNT_SHIFT, Document, ESCAPED, Node, Tag};

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

/// What is wrong with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// The document ends inside a value, or is empty.
    #[error("unexpected end of document")]
    UnexpectedEnd,
    /// Neither a value nor the punctuation that is allowed here.
    #[error("{0} expected")]
    Expected(&'static str),
    /// Invalid UTF-8.
    #[error("invalid UTF-8; JSON must be encoded in UTF-8 (RFC 8259 section 8.1)")]
    Encoding,
    /// A byte order mark.
    #[error("byte order mark before the document; remove it (RFC 8259 section 8.1)")]
    ByteOrderMark,
    /// A control character in a string.
    #[error("unescaped control character in a string")]
    Control,
    /// A backslash followed by none of `" \ / b f n r t u`.
    #[error("unknown escape in a string")]
    Escape,
    /// Half of a surrogate pair.
    #[error("unpaired surrogate in a string")]
    Surrogate,
    /// A malformed number.
    #[error("malformed number")]
    Number,
    /// Text after the value.
    #[error("unexpected text after the value")]
    Trailing,
    /// See [`Duplicates::Reject`].
    #[error("duplicate member name")]
    Duplicate,
    /// See [`Limits::depth`].
    #[error("nested deeper than {0} levels")]
    Depth(usize),
    /// See [`Limits::bytes`].
    #[error("longer than {0} bytes")]
    Bytes(usize),
    /// See [`Limits::nodes`].
    #[error("more than {0} values and member names")]
    Nodes(usize),
}

/// An error by its offset, before line and column are counted.
type Located = (usize, JsonErrorKind);

pub(super) fn read<'s>(bytes: &'s [u8], limits: &Limits) -> Result<Document<'s>, Error> {
    let most = limits.bytes.min(u32::MAX as usize - 1);
    if bytes.len() > most {
        return Err(locate(bytes, (most, JsonErrorKind::Bytes(most))));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| locate(bytes, (error.valid_up_to(), JsonErrorKind::Encoding)))?;
    // An array of short strings has a node every 13 bytes; most documents have fewer.
    let nodes = Vec::with_capacity(bytes.len() / 12 + 4);
    let mut reader = Reader { bytes, at: 0, nodes, open: Vec::new(), limits };
    reader.document().map_err(|located| locate(bytes, located))?;
    let document = Document { text: Cow::Borrowed(text), nodes: reader.nodes };
    if limits.duplicates == Duplicates::Reject {
        reject_duplicates(&document).map_err(|located| locate(bytes, located))?;
    }
    Ok(document)
}

/// Whether `text` is a number by RFC 8259 section 6.
pub(super) fn is_number(text: &str) -> bool {
    number(text.as_bytes(), 0) == Ok(text.len())
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
    open: Vec<Open>,
    limits: &'a Limits,
}

struct Open {
    index: usize,
    count: u32,
    object: bool,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<(), Located> {
        if self.bytes.starts_with(b"\xef\xbb\xbf") {
            return Err((0, JsonErrorKind::ByteOrderMark));
        }
        self.space();
        loop {
            let opened = self.value()?;
            if !opened && self.after_value()? {
                return Ok(());
            }
        }
    }

    /// Reads a scalar, an empty container, or the start of a container: true if its first value is next.
    fn value(&mut self) -> Result<bool, Located> {
        let start = self.at;
        match self.byte() {
            Some(b'"') => {
                let escaped = self.string()?;
                self.push(start, Tag::String as u32 | escaped)?;
            }
            Some(b'{') => return self.begin(Tag::Object, b'}'),
            Some(b'[') => return self.begin(Tag::Array, b']'),
            Some(b'-' | b'0'..=b'9') => {
                self.at = number(self.bytes, start)?;
                self.push(start, Tag::Number as u32)?;
            }
            Some(b't') => self.word(b"true", Tag::True)?,
            Some(b'f') => self.word(b"false", Tag::False)?,
            Some(b'n') => self.word(b"null", Tag::Null)?,
            Some(_) => return Err((start, JsonErrorKind::Expected("a value"))),
            None => return Err((start, JsonErrorKind::UnexpectedEnd)),
        }
        Ok(false)
    }

    /// Closes the containers that end here and moves to the next value; true at the end of the document.
    fn after_value(&mut self) -> Result<bool, Located> {
        loop {
            self.space();
            let Some(open) = self.open.last_mut() else {
                let over = self.at == self.bytes.len();
                return if over { Ok(true) } else { Err((self.at, JsonErrorKind::Trailing)) };
            };
            match (self.bytes.get(self.at), open.object) {
                (Some(b','), object) => {
                    open.count += 1;
                    self.at += 1;
                    self.space();
                    if object {
                        self.key()?;
                    }
                    return Ok(false);
                }
                (Some(b'}'), true) | (Some(b']'), false) => self.end(),
                (Some(_), true) => return Err((self.at, JsonErrorKind::Expected("`,` or `}`"))),
                (Some(_), false) => return Err((self.at, JsonErrorKind::Expected("`,` or `]`"))),
                (None, _) => return Err((self.at, JsonErrorKind::UnexpectedEnd)),
            }
        }
    }

    fn begin(&mut self, tag: Tag, close: u8) -> Result<bool, Located> {
        if self.open.len() >= self.limits.depth {
            return Err((self.at, JsonErrorKind::Depth(self.limits.depth)));
        }
        let start = self.at;
        let index = self.nodes.len();
        self.at += 1;
        self.space();
        self.push(start, tag as u32)?;
        if self.byte() == Some(close) {
            self.at += 1;
            let end = place(self.at);
            if let Some(node) = self.nodes.last_mut() {
                node.end = end;
            }
            return Ok(false);
        }
        self.open.push(Open { index, count: 1, object: tag == Tag::Object });
        if tag == Tag::Object {
            self.key()?;
        }
        Ok(true)
    }

    fn end(&mut self) {
        self.at += 1;
        let (end, next) = (place(self.at), place(self.nodes.len()));
        if let Some(open) = self.open.pop()
            && let Some(node) = self.nodes.get_mut(open.index)
        {
            node.end = end;
            node.next = next;
            node.meta |= open.count << COUNT_SHIFT;
        }
    }

    fn key(&mut self) -> Result<(), Located> {
        let start = self.at;
        match self.byte() {
            Some(b'"') => {}
            Some(_) => return Err((start, JsonErrorKind::Expected("a member name in quotes"))),
            None => return Err((start, JsonErrorKind::UnexpectedEnd)),
        }
        let escaped = self.string()?;
        self.push(start, Tag::Key as u32 | escaped)?;
        self.space();
        match self.byte() {
            Some(b':') => {
                self.at += 1;
                self.space();
                Ok(())
            }
            Some(_) => Err((self.at, JsonErrorKind::Expected("`:`"))),
            None => Err((self.at, JsonErrorKind::UnexpectedEnd)),
        }
    }

    /// Reads a string; returns [`ESCAPED`] if it has escapes, else 0.
    fn string(&mut self) -> Result<u32, Located> {
        let mut escaped = 0;
        let mut at = self.at + 1;
        loop {
            at = plain_end(self.bytes, at);
            match self.bytes.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = ESCAPED;
                    at = escape(self.bytes, at)?;
                }
                Some(_) => return Err((at, JsonErrorKind::Control)),
                None => return Err((at, JsonErrorKind::UnexpectedEnd)),
            }
        }
    }

    fn word(&mut self, word: &[u8], tag: Tag) -> Result<(), Located> {
        let start = self.at;
        let end = start + word.len();
        if self.bytes.get(start..end) != Some(word) {
            return Err((start, JsonErrorKind::Expected("a value")));
        }
        self.at = end;
        self.push(start, tag as u32)
    }

    fn push(&mut self, start: usize, meta: u32) -> Result<(), Located> {
        let index = self.nodes.len();
        if index >= self.limits.nodes {
            return Err((start, JsonErrorKind::Nodes(self.limits.nodes)));
        }
        let next = place(index + 1);
        self.nodes.push(Node { start: place(start), end: place(self.at), next, meta });
        Ok(())
    }

    fn byte(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }
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
                Ok(_) | Err(_) => Err((at, JsonErrorKind::Surrogate)),
            },
            0xdc00..=0xdfff => Err((at, JsonErrorKind::Surrogate)),
            _ => Ok(at + 6),
        },
        Some(_) => Err((at, JsonErrorKind::Escape)),
        None => Err((bytes.len(), JsonErrorKind::UnexpectedEnd)),
    }
}

/// The UTF-16 unit of `\uXXXX` at `at`.
fn unit(bytes: &[u8], at: usize) -> Result<u32, Located> {
    let malformed = (at, JsonErrorKind::Escape);
    let escape = bytes.get(at..at + 6).ok_or(malformed)?;
    let digits = escape.strip_prefix(b"\\u").ok_or(malformed)?;
    let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(malformed);
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
        end if end == bytes.len() => Err((end, JsonErrorKind::UnexpectedEnd)),
        end => Err((end, JsonErrorKind::Number)),
    };
    let whole = if bytes.get(at) == Some(&b'-') { at + 1 } else { at };
    let mut end = if bytes.get(whole) == Some(&b'0') { whole + 1 } else { some_digits(whole)? };
    if bytes.get(end).is_some_and(u8::is_ascii_digit) {
        return Err((end, JsonErrorKind::Number));
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
            return Err((*offset, JsonErrorKind::Duplicate));
        }
    }
    Ok(())
}

fn locate(bytes: &[u8], (offset, kind): Located) -> Error {
    let (line, column) = crate::error::position(bytes, offset);
    Error::Json { line, column, offset, kind }
}

fn place(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}
