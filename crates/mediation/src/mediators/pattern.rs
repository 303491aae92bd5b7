//! Patterns of `filter`, `switch` and others, which match the whole text as Java's `Matcher.matches()` does.

use xpath::regex::Regex;
use xpath::{Budget, BudgetExceeded};

use crate::compile::{Compiler, Element};
use crate::limits::PATTERN_BYTES_MAX;

#[derive(Clone, Debug)]
pub(super) struct Pattern(Regex);

impl Pattern {
    /// Reports a pattern that is not valid.
    pub(super) fn compile(
        compiler: &mut Compiler,
        element: &Element<'_>,
        source: &str,
    ) -> Option<Self> {
        match Regex::compile(&format!("\\A(?:{source})\\z"), "", PATTERN_BYTES_MAX) {
            Ok(regex) => Some(Self(regex)),
            Err(error) => {
                compiler.error(element, format!("the pattern `{source}`: {error}"), None);
                None
            }
        }
    }

    /// # Errors
    /// The text is too long for what is left of the budget.
    pub(super) fn matches(&self, text: &str, budget: &Budget) -> Result<bool, BudgetExceeded> {
        self.0.is_match(text, budget)
    }
}

/// `pattern` and `group` of a property: the part of a text that a group matches.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    regex: Regex,
    group: usize,
}

impl Groups {
    /// Reports a pattern or a group that is not valid.
    pub(super) fn compile(
        compiler: &mut Compiler,
        element: &Element<'_>,
        source: &str,
        group: &str,
    ) -> Option<Self> {
        let Ok(group) = group.parse() else {
            compiler.error(element, format!("`group` is `{group}`, not a number"), None);
            return None;
        };
        match Regex::compile(source, "", PATTERN_BYTES_MAX) {
            Ok(regex) => Some(Self { regex, group }),
            Err(error) => {
                compiler.error(element, format!("the pattern `{source}`: {error}"), None);
                None
            }
        }
    }

    /// The group of the first match; the whole text if there is none, as in Synapse.
    ///
    /// # Errors
    /// The text is too long for what is left of the budget.
    pub(super) fn find(&self, text: &str, budget: &Budget) -> Result<String, BudgetExceeded> {
        let Some(found) = self.regex.find(text, 0, budget)? else { return Ok(text.to_owned()) };
        let group = self.regex.groups(text, &found, budget)?.get_group(self.group);
        Ok(group.and_then(|group| text.get(group.range())).unwrap_or(text).to_owned())
    }
}
