//! What one evaluation may look at and make.

use std::cell::Cell;

use crate::limits;

use crate::EvalError;

/// Counts down. One for a whole expression, so that its parts share it.
#[derive(Debug)]
pub(crate) struct Budget {
    visits: Cell<u64>,
    bytes: Cell<usize>,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self {
            visits: Cell::new(limits::EXPRESSION_VISITS_MAX),
            bytes: Cell::new(limits::MADE_BYTES_MAX),
        }
    }

    /// Counts `cost` values looked at.
    ///
    /// # Errors
    /// [`EvalError::Limit`] past `EXPRESSION_VISITS_MAX`.
    #[inline]
    pub(crate) fn visit(&self, cost: u64) -> Result<(), EvalError> {
        let left = self.visits.get().checked_sub(cost);
        self.visits.set(left.ok_or(EvalError::Limit("4,000,000 values"))?);
        Ok(())
    }

    /// Looking at `bytes` of text costs a visit per 8.
    ///
    /// # Errors
    /// As [`Budget::visit`].
    #[inline]
    pub(crate) fn visit_text(&self, bytes: usize) -> Result<(), EvalError> {
        self.visit(bytes as u64 / 8)
    }

    /// Counts `bytes` of text that are about to be made: to be asked before they are.
    ///
    /// # Errors
    /// [`EvalError::Limit`] past `MADE_BYTES_MAX`.
    pub(crate) fn make(&self, bytes: usize) -> Result<(), EvalError> {
        let left = self.bytes.get().checked_sub(bytes);
        self.bytes.set(left.ok_or(MADE)?);
        Ok(())
    }
}

/// What is told past `MADE_BYTES_MAX`.
pub(crate) const MADE: EvalError = EvalError::Limit("40 MiB of text");

/// Whether `more` bytes fit after `made` ones.
///
/// # Errors
/// [`EvalError::Limit`] past `MADE_BYTES_MAX`.
pub(crate) fn fits(made: usize, more: usize) -> Result<(), EvalError> {
    if made.saturating_add(more) > limits::MADE_BYTES_MAX { Err(MADE) } else { Ok(()) }
}
