//! The errors of compiling and evaluating.

use xpath::BudgetExceeded;

/// Why compiling or evaluating an expression, a path or a template failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source cannot be compiled.
    #[error("{line}:{column}: {message}")]
    Syntax {
        /// From 1.
        line: u32,
        /// In characters, from 1.
        column: u32,
        /// In bytes, from 0.
        offset: usize,
        /// The problem, and the remedy where it is known.
        message: String,
    },
    /// A definite path that selects nothing, or a variable or resource that does not exist.
    #[error("{0}")]
    Missing(String),
    /// A value of the wrong type or out of range.
    #[error("{0}")]
    Type(String),
    /// A JSON document was rejected.
    #[error("{line}:{column}: {kind}")]
    Json {
        /// From 1.
        line: u32,
        /// In characters, from 1.
        column: u32,
        /// In bytes, from 0.
        offset: usize,
        /// The problem.
        kind: JsonErrorKind,
    },
    /// The evaluation used up its budget.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    /// The message's body is missing, malformed or of another format.
    #[error("{0}")]
    Body(String),
    /// A template failed, with the position in the template.
    #[error("{line}:{column}: {message}")]
    Template {
        /// From 1.
        line: u32,
        /// In characters, from 1.
        column: u32,
        /// The problem.
        message: String,
    },
}

/// Problem of a JSON document.
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
    /// See [`Duplicates::Reject`](crate::json::Duplicates::Reject).
    #[error("duplicate member name")]
    Duplicate,
    /// See [`Limits::depth`](crate::json::Limits::depth).
    #[error("nested deeper than {0} levels")]
    Depth(usize),
    /// See [`Limits::bytes`](crate::json::Limits::bytes).
    #[error("longer than {0} bytes")]
    Bytes(usize),
    /// See [`Limits::nodes`](crate::json::Limits::nodes).
    #[error("more than {0} values and member names")]
    Nodes(usize),
}

/// [`Error::Syntax`], which the parsers return.
#[derive(Debug, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub(crate) struct SyntaxError {
    line: u32,
    column: u32,
    pub(crate) offset: usize,
    pub(crate) message: String,
}

impl From<SyntaxError> for Error {
    fn from(SyntaxError { line, column, offset, message }: SyntaxError) -> Self {
        Self::Syntax { line, column, offset, message }
    }
}

impl Error {
    /// Line and column, both from 1, in the source or template; `None` for errors that have no position.
    #[must_use]
    pub fn position(&self) -> Option<(u32, u32)> {
        match self {
            Self::Syntax { line, column, .. }
            | Self::Json { line, column, .. }
            | Self::Template { line, column, .. } => Some((*line, *column)),
            Self::Missing(_) | Self::Type(_) | Self::Budget(_) | Self::Body(_) => None,
        }
    }

    /// The message without the position.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::Syntax { message, .. } | Self::Template { message, .. } => message.clone(),
            Self::Json { kind, .. } => kind.to_string(),
            Self::Missing(_) | Self::Type(_) | Self::Budget(_) | Self::Body(_) => self.to_string(),
        }
    }
}

impl SyntaxError {
    pub(crate) fn new(source: &str, offset: usize, message: impl Into<String>) -> Self {
        let (line, column) = position(source.as_bytes(), offset);
        Self { line, column, offset, message: message.into() }
    }

    /// The same error of a part that begins `by` bytes into `whole`.
    pub(crate) fn within(self, whole: &str, by: usize) -> Self {
        Self::new(whole, by + self.offset, self.message)
    }
}

/// Line and column, both from 1, of the byte at `offset`; the column counts characters.
pub(crate) fn position(text: &[u8], offset: usize) -> (u32, u32) {
    let before = text.get(..offset).unwrap_or(text);
    let line = memchr::memchr_iter(b'\n', before).count() + 1;
    let start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    let characters = before.get(start..).unwrap_or_default();
    let column = characters.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() + 1;
    (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}
