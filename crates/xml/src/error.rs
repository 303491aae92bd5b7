//! What can be wrong with a document, and where.

use std::fmt;

/// A place in a document: line and column count from 1, the column counts characters.
/// `0:0` is the place of what was made here and never stood in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

impl Position {
    /// Of the byte `at` in `text`; line ends are `\n`, `\r\n` and `\r`.
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

    /// Moves past `byte`, which follows `last`.
    pub(crate) fn pass(&mut self, last: u8, byte: u8) {
        match byte {
            b'\n' if last == b'\r' => {}
            b'\n' | b'\r' => *self = Self { line: self.line.saturating_add(1), column: 1 },
            0x80..=0xBF => {}
            _ => self.column = self.column.saturating_add(1),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why a document was refused. `offset` counts bytes of the document as UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {kind}")]
pub struct XmlError {
    pub line: u32,
    pub column: u32,
    pub offset: usize,
    pub kind: XmlErrorKind,
}

/// What was wrong. The sentence says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[rustfmt::skip]
pub enum XmlErrorKind {
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
    #[error("`</{0}>` closes nothing; remove it")]
    StrayEndTag(String),
    #[error("a second root element; a document has exactly one")]
    SecondRoot,
    #[error("text outside the root element; move it inside or remove it")]
    TextOutsideRoot,
    #[error("`{0}` isn't a name that XML with namespaces allows")]
    BadName(String),
    #[error("the character U+{0:04X} isn't allowed in XML; remove it")]
    IllegalCharacter(u32),
    #[error("the reference `&#{0};` names no character that XML allows")]
    IllegalReference(String),
    #[error("`&` starts a reference, which ends in `;`; write `&amp;` for the character itself")]
    BadReference,
    #[error("`<` isn't allowed in an attribute's value; write `&lt;`")]
    LessThanInAttribute,
    #[error("`]]>` isn't allowed in text; write `]]&gt;`")]
    CdataEndInText,
    #[error("`--` isn't allowed in a comment but at its end; write `- -`")]
    HyphensInComment,
    #[error("`{0}` is reserved and can't be the target of a processing instruction")]
    ReservedTarget(String),
    #[error("the XML declaration stands only at the very beginning of a document")]
    DeclarationNotFirst,
    #[error("the XML declaration is malformed: {0}")]
    BadDeclaration(&'static str),
    #[error("the attribute `{0}` occurs twice in this tag; remove one")]
    DuplicateAttribute(String),
    #[error("the prefix `{0}` is bound to no namespace; declare it with `xmlns:{0}=\"...\"`")]
    UnboundPrefix(String),
    #[error("the prefix `{0}` can't be declared like this: `xml` and `xmlns`, and their namespaces, are fixed")]
    ReservedPrefix(String),
    #[error("`xmlns:{0}=\"\"` would unbind a prefix, which XML 1.0 doesn't allow")]
    PrefixUnbound(String),
    #[error("the encoding `{0}` isn't supported; send UTF-8, UTF-16, ISO-8859-1, US-ASCII or windows-1252")]
    UnsupportedEncoding(String),
    #[error("the declaration says `{declared}`, but the bytes are {found}")]
    EncodingMismatch { declared: String, found: &'static str },
    #[error("these bytes aren't {0}")]
    Malformed(&'static str),
    #[error("document type declarations are refused here; remove `<!DOCTYPE`")]
    DoctypeRefused,
    #[error("the document type declaration stands once, before the root element")]
    DoctypeMisplaced,
    #[error("the declaration in the document type is malformed: {0}")]
    BadDoctype(&'static str),
    #[error("the entity `{0}` isn't declared in the document itself; declare it or write its text")]
    UnknownEntity(String),
    #[error("the entity `{0}` is external, and nothing outside the document is ever read")]
    ExternalEntity(String),
    #[error("the external entity `{entity}` was rejected: {reason}")]
    EntityRejected { entity: String, reason: String },
    #[error("in the external entity `{entity}`, line {line}, column {column}: {kind}")]
    InEntity { entity: String, line: u32, column: u32, kind: Box<XmlErrorKind> },
    #[error("the entity `{0}` isn't parsed and can't be referred to here")]
    UnparsedEntity(String),
    #[error("the entity `{0}` contains itself")]
    EntityLoop(String),
    #[error("the text of the entity `{0}` isn't well-formed by itself: what it opens, it must close")]
    EntityUnbalanced(String),
    #[error("{what}: more than the limit of {limit}")]
    Limit { what: &'static str, limit: u32 },
}

/// An error on its way out: where in the text, and what.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) kind: Box<XmlErrorKind>,
}

impl Fault {
    pub(crate) fn new(at: usize, kind: XmlErrorKind) -> Self {
        Self { at, kind: Box::new(kind) }
    }

    /// With line and column, found in `text`.
    pub(crate) fn locate(self, text: &str) -> XmlError {
        let Position { line, column } = Position::of(text, self.at);
        XmlError { line, column, offset: self.at, kind: *self.kind }
    }
}
