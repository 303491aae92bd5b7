//! Regular expressions that are known only at run time.

use std::cell::RefCell;

use xpath::regex::Regex;
use xpath::{Budget, BudgetExceeded};

use crate::limits::COMPUTED_PATTERN_BYTES_MAX;

/// A pattern that must match the whole text.
pub(crate) fn whole(source: &str) -> String {
    format!(r"\A(?:{source})\z")
}

/// The last such pattern is kept, for loops and filters.
#[derive(Debug, Default)]
pub(crate) struct Computed {
    last: RefCell<Option<(String, Regex)>>,
}

impl Computed {
    pub(crate) fn get(
        &self,
        source: &str,
        flags: &str,
        budget: &Budget,
    ) -> Result<Result<Regex, String>, BudgetExceeded> {
        budget.charge_reading(source.len())?;
        if let Some((known, pattern)) = &*self.last.borrow()
            && known == flags
            && pattern.source() == source
        {
            return Ok(Ok(pattern.clone()));
        }
        let compiled = Regex::compile_within(source, flags, COMPUTED_PATTERN_BYTES_MAX, budget)?;
        if let Ok(pattern) = &compiled {
            *self.last.borrow_mut() = Some((flags.to_owned(), pattern.clone()));
        }
        Ok(compiled)
    }
}
