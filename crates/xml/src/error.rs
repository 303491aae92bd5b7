//! Errors and positions.

use std::fmt;

use crate::node::Kind;

/// A position in a document: line and column count from 1, the column counts characters.
/// Nodes that weren't parsed but created have `0:0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

impl Position {
    /// The position of byte `at` in `text`; line ends are `\n`, `\r\n` and `\r`. Counts from the beginning
    /// of the text; for several positions in one text use [`PositionIndex`].
    #[must_use]
    pub fn of(text: &str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text).as_bytes();
        let mut place = Self { line: 1, column: 1 };
        let mut last = 0u8;
        for &byte in before {
            place.pass(last, byte);
            last = byte;
        }
        place
    }

    /// Advances past `byte`, which follows `last`.
    pub(crate) fn pass(&mut self, last: u8, byte: u8) {
        match byte {
            b'\n' if last == b'\r' => {}
            b'\n' | b'\r' => *self = Self { line: self.line.saturating_add(1), column: 1 },
            0x80..=0xBF => {}
            _ => self.column = self.column.saturating_add(1),
        }
    }
}

/// Finds positions in a text without counting from its beginning each time: the position of every 512th
/// byte is known.
///
/// ```
/// use penstock_xml::PositionIndex;
///
/// let text = "one\ntwo";
/// let index = PositionIndex::new(text);
/// assert_eq!(index.position(text, 5).to_string(), "2:2");
/// ```
#[derive(Debug, Clone)]
pub struct PositionIndex {
    known: Box<[Position]>,
}

impl PositionIndex {
    const STEP: usize = 512;

    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut known = Vec::with_capacity(text.len() / Self::STEP + 1);
        let mut place = Position { line: 1, column: 1 };
        let mut last = 0u8;
        for chunk in text.as_bytes().chunks(Self::STEP) {
            known.push(place);
            for &byte in chunk {
                place.pass(last, byte);
                last = byte;
            }
        }
        Self { known: known.into_boxed_slice() }
    }

    /// The position of byte `at` in `text`, which must be the text that the index was made from.
    #[must_use]
    pub fn position(&self, text: &str, at: usize) -> Position {
        let at = at.min(text.len());
        let block = (at / Self::STEP).min(self.known.len().saturating_sub(1));
        let Some(&known) = self.known.get(block) else { return Position::of(text, at) };
        let start = block.saturating_mul(Self::STEP);
        let bytes = text.as_bytes();
        let mut last =
            start.checked_sub(1).and_then(|before| bytes.get(before)).copied().unwrap_or(0);
        let mut place = known;
        for &byte in bytes.get(start..at).unwrap_or(&[]) {
            place.pass(last, byte);
            last = byte;
        }
        place
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.known)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why a document, an edit or a piece of output was rejected. An error that reading found has a position.
///
/// ```
/// use penstock_xml::{Document, ErrorKind, Position};
///
/// let error = Document::parse(b"<a>\n</b>").unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::WrongEndTag { .. }));
/// assert_eq!(error.position(), Some(Position { line: 2, column: 1 }));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(Box<Details>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Details {
    kind: ErrorKind,
    place: Option<(Position, usize)>,
}

impl Error {
    pub(crate) fn at(position: Position, offset: usize, kind: ErrorKind) -> Self {
        Self(Box::new(Details { kind, place: Some((position, offset)) }))
    }

    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    #[must_use]
    pub fn into_kind(self) -> ErrorKind {
        self.0.kind
    }

    /// Where the document is wrong; none for edits and output.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.0.place.map(|(position, _)| position)
    }

    /// The position in bytes of the document as UTF-8 with `\n` as line ends.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        self.0.place.map(|(_, offset)| offset)
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(Details { kind, place: None }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.position() {
            write!(f, "line {line}, column {column}: ")?;
        }
        self.kind().fmt(f)
    }
}

impl std::error::Error for Error {}

/// The kind of an [`Error`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[rustfmt::skip]
pub enum ErrorKind {
    #[error("the document is empty; it needs a root element")]
    Empty,
    #[error("the document ends inside {0}; is it cut short?")]
    UnexpectedEnd(&'static str),
    #[error("the document ends, but `<{0}>` is still open; add `</{0}>`")]
    Unclosed(String),
    #[error("{expected} is expected here, not {found}")]
    Expected { expected: &'static str, found: String },
    #[error("`</{found}>` doesn't close `<{open}>`; write `</{open}>`")]
    WrongEndTag { open: String, found: String },
    #[error("`</{0}>` has no start tag; remove it")]
    StrayEndTag(String),
    #[error("a document has exactly one root element; this is a second one")]
    SecondRoot,
    #[error("text outside the root element; move it inside or remove it")]
    TextOutsideRoot,
    #[error("`{0}` isn't a valid XML name")]
    BadName(String),
    #[error("the character U+{0:04X} isn't allowed in XML; remove it")]
    IllegalCharacter(u32),
    #[error("`&#{0};` isn't a character that XML allows")]
    IllegalReference(String),
    #[error("malformed reference; end it with `;`, or write `&amp;` for the character `&`")]
    BadReference,
    #[error("`<` isn't allowed in an attribute's value; write `&lt;`")]
    LessThanInAttribute,
    #[error("`]]>` isn't allowed in text; write `]]&gt;`")]
    CdataEndInText,
    #[error("`--` isn't allowed inside a comment; write `- -`")]
    HyphensInComment,
    #[error("`{0}` is reserved and can't be the target of a processing instruction")]
    ReservedTarget(String),
    #[error("the XML declaration is allowed only at the very beginning of a document")]
    DeclarationNotFirst,
    #[error("malformed XML declaration: {0}")]
    BadDeclaration(&'static str),
    #[error("duplicate attribute `{0}`; remove one")]
    DuplicateAttribute(String),
    #[error("undeclared prefix `{0}`; declare it with `xmlns:{0}=\"...\"`")]
    UnboundPrefix(String),
    #[error("`{0}` can't be declared: the prefixes `xml` and `xmlns` and their namespaces are reserved")]
    ReservedPrefix(String),
    #[error("`xmlns:{0}=\"\"` isn't allowed: XML 1.0 can't undeclare a prefix")]
    PrefixUnbound(String),
    #[error("the encoding `{0}` isn't supported; send UTF-8, UTF-16, ISO-8859-1, US-ASCII or windows-1252")]
    UnsupportedEncoding(String),
    #[error("the declaration names `{declared}`, but the bytes are {found}")]
    EncodingMismatch { declared: String, found: &'static str },
    #[error("the bytes aren't valid {0}")]
    Malformed(&'static str),
    #[error("document type declarations aren't accepted here; remove `<!DOCTYPE`")]
    DoctypeRejected,
    #[error("a document has at most one document type declaration, before the root element")]
    DoctypeMisplaced,
    #[error("malformed document type: {0}")]
    BadDoctype(&'static str),
    #[error("undeclared entity `{0}`; declare it or write its text")]
    UnknownEntity(String),
    #[error("the entity `{0}` is external; external entities aren't read here")]
    ExternalEntity(String),
    #[error("the external entity `{entity}` was rejected: {reason}")]
    EntityRejected { entity: String, reason: String },
    #[error("in the external entity `{entity}`, line {line}, column {column}: {kind}")]
    InEntity { entity: String, line: u32, column: u32, kind: Box<Self> },
    #[error("the entity `{0}` is unparsed; it can't be referenced here")]
    UnparsedEntity(String),
    #[error("the entity `{0}` refers to itself")]
    EntityLoop(String),
    #[error("the entity `{0}` isn't balanced: it must close what it opens, and nothing else")]
    EntityUnbalanced(String),
    #[error("the limit of {limit} {what} is exceeded")]
    Limit { what: &'static str, limit: u32 },
    #[error("the node belongs to another document, or was removed")]
    UnknownNode,
    #[error("not possible for a node of kind {0:?}")]
    WrongKind(Kind),
    #[error("a node can't be moved into itself")]
    Cycle,
    #[error("the text contains characters that XML 1.0, or this kind of node, doesn't allow")]
    BadText,
    #[error("the document is too large")]
    TooLarge,
    #[error("attributes and namespaces must directly follow the start of their element")]
    NotInStartTag,
    #[error("no element is open")]
    NothingOpen,
    #[error("`{0}` can't be written in {1}, and character references aren't possible here")]
    NotInEncoding(char, &'static str),
    #[error("the prefix `{0}` is declared twice on one element, or is reserved")]
    BadNamespaceDeclaration(String),
}

/// An error at a byte of the text; its line and column are computed when it is returned.
#[derive(Debug, Clone)]
pub(crate) struct OffsetError {
    pub(crate) at: usize,
    pub(crate) kind: Box<ErrorKind>,
}

impl OffsetError {
    pub(crate) fn new(at: usize, kind: ErrorKind) -> Self {
        Self { at, kind: Box::new(kind) }
    }

    /// Adds line and column, counted in `text`.
    pub(crate) fn locate(self, text: &str) -> Error {
        Error::at(Position::of(text, self.at), self.at, *self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::{Position, PositionIndex};

    #[test]
    fn an_index_finds_the_positions_that_counting_finds() {
        let line = "one\r\ntwo\réé\n\n𝄞 and a longer line, ";
        for text in [String::new(), "x".repeat(512), "\n".repeat(1_024), line.repeat(60)] {
            let index = PositionIndex::new(&text);
            for at in (0..=text.len() + 1).filter(|&at| text.is_char_boundary(at.min(text.len()))) {
                assert_eq!(index.position(&text, at), Position::of(&text, at), "{at}");
            }
        }
    }
}
