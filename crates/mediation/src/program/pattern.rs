//! Patterns, which match the whole text as Java's `Matcher.matches()` does.

use xpath::regex::Regex;
use xpath::{Budget, BudgetExceeded};

use crate::limits::PATTERN_BYTES_MAX;

/// A regular expression for a whole text.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.source() == other.0.source()
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// # Errors
    /// `source` is not a valid regular expression.
    pub(crate) fn new(source: &str) -> Result<Self, String> {
        let regex = Regex::compile(&Self::whole(source), "", PATTERN_BYTES_MAX);
        regex.map(Self).map_err(|error| error.to_string())
    }

    /// A regular expression that matches the whole text if `source` does.
    pub(crate) fn whole(source: &str) -> String {
        format!("\\A(?:{source})\\z")
    }

    /// # Errors
    /// The text is too long for the rest of the budget.
    pub(crate) fn matches(&self, text: &str, budget: &Budget) -> Result<bool, BudgetExceeded> {
        self.0.is_match(text, budget)
    }
}
