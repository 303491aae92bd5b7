//! What can go wrong when an expression is compiled, and when it is evaluated.

use crate::budget::BudgetExceeded;

/// The expression was refused. `offset` counts bytes from its start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset} of the expression: {message}")]
pub struct CompileError {
    pub offset: usize,
    pub message: String,
}

impl CompileError {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into() }
    }
}

/// The evaluation has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    #[error("{what} has to be a node-set, and is a {found}")]
    NotANodeSet { what: &'static str, found: &'static str },
    #[error("variable number {0} has no value here")]
    NoVariable(u32),
    #[error("function number {0} can't be called here")]
    NoFunction(u32),
    /// What the caller's variables and functions have to say.
    #[error("{0}")]
    Caller(String),
}
