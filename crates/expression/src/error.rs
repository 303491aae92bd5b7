//! The two ways an expression can fail: when it is read, and when it is evaluated.

/// Why an expression or a template can't be compiled, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct CompileError {
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    /// In bytes, from 0.
    pub offset: usize,
    /// What is wrong, and what to write instead where that is known.
    pub message: String,
}

impl CompileError {
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

/// Why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A definite path that leads nowhere, a variable or header that isn't there.
    #[error("{0}")]
    Missing(String),
    /// A value of the wrong type or out of its range.
    #[error("{0}")]
    Type(String),
    /// More values looked at or made than [`limits`](crate::limits) allows.
    #[error("the evaluation looks at or makes more than {0}")]
    Limit(&'static str),
    /// The message's body is not what the expression reads.
    #[error("{0}")]
    Body(String),
    /// A template's failure, with the place in the template.
    #[error("{line}:{column}: {message}")]
    Template {
        /// From 1.
        line: u32,
        /// In characters, from 1.
        column: u32,
        /// What is wrong.
        message: String,
    },
}
