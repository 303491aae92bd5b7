//! The errors of compiling and evaluating expressions.

use crate::budget::BudgetExceeded;

/// The text of an expression or a pattern was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset} of the expression: {message}")]
#[non_exhaustive]
pub struct CompileError {
    /// Where, in bytes from the start of the text.
    pub offset: usize,
    pub message: String,
}

impl CompileError {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into() }
    }
}

/// An evaluation failed. Hosts are expected to handle every case, so the enum is exhaustive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
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
    /// An error of the environment's variables and functions.
    #[error("{0}")]
    Caller(String),
}
