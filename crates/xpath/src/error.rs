//! The error of compiling and evaluating expressions.

use crate::budget::BudgetExceeded;

/// An expression or a pattern was rejected when it was compiled, or its evaluation failed.
///
/// ```
/// use xpath::{Error, Expression, NoBindings};
///
/// let error = Expression::compile("$total * 2", &NoBindings).unwrap_err();
/// assert_eq!(error.offset(), Some(0));
/// assert_eq!(error.to_string(), "at byte 0 of the expression: unknown variable `$total`");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text isn't a valid expression. Only compiling returns it; evaluating never does.
    #[error("at byte {offset} of the expression: {message}")]
    Syntax {
        /// The place, in bytes from the start of the text.
        offset: usize,
        message: String,
    },
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    #[error("{what} must be a node-set, not a {found}")]
    NotANodeSet { what: &'static str, found: &'static str },
    /// The environment has no variable with this number.
    #[error("variable number {0} has no value")]
    NoVariable(u32),
    /// The environment has no function with this number.
    #[error("function number {0} cannot be called")]
    NoFunction(u32),
    /// A date can't be formatted or parsed.
    #[error("{0}")]
    Date(String),
    /// An error of the host's variables and functions.
    #[error("{0}")]
    Host(String),
}

// Every step of an evaluation returns it.
const _: () = assert!(size_of::<Error>() <= 40, "box what is large");

impl Error {
    pub(crate) fn syntax(offset: usize, message: impl Into<String>) -> Self {
        Self::Syntax { offset, message: message.into() }
    }

    /// Where the text of the expression is wrong, in bytes; none if an evaluation failed.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        if let Self::Syntax { offset, .. } = self { Some(*offset) } else { None }
    }

    /// The error without the position.
    #[must_use]
    pub fn message(&self) -> String {
        if let Self::Syntax { message, .. } = self { message.clone() } else { self.to_string() }
    }
}
