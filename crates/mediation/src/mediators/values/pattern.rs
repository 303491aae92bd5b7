//! Patterns of `filter`, `switch` and others, which match the whole text as Java's `Matcher.matches()` does.

use expression::{Expression, Value};
use xpath::regex::Regex;
use xpath::{Budget, BudgetExceeded};

use crate::error::Failure;
use crate::limits::PATTERN_BYTES_MAX;
use crate::message::Message;
use crate::program::{Pattern, Scene};
use crate::syntax::{Compiler, Element};

/// The text that a pattern is matched with. `None`: a property that does not exist, which no pattern matches.
///
/// # Errors
/// As [`Scene::with`].
pub(crate) fn subject(
    source: &Expression,
    scene: &Scene<'_>,
    message: &Message,
) -> Result<Option<String>, Failure> {
    with_subject(source, scene, message, |text| {
        let Some(text) = text else { return Ok(None) };
        scene.budget.charge_memory(text.len())?;
        Ok(Some(text.to_owned()))
    })?
}

/// As [`subject`], for who does not keep the text.
///
/// # Errors
/// As [`Scene::with`].
pub(crate) fn with_subject<T>(
    source: &Expression,
    scene: &Scene<'_>,
    message: &Message,
    take: impl FnOnce(Option<&str>) -> T,
) -> Result<T, Failure> {
    let is_path = source.is_json_path();
    scene.with(source, message, |value| {
        if matches!(value, Value::Null) {
            return take(is_path.then_some(""));
        }
        // Synapse's text of a JSON null.
        let text = if value.is_null() { "null".into() } else { value.text() };
        take(Some(&text))
    })
}

/// Compiles a pattern, and reports one that is not valid.
pub(crate) fn compile(
    compiler: &mut Compiler,
    element: &Element<'_>,
    source: &str,
) -> Option<Pattern> {
    match Pattern::new(source) {
        Ok(pattern) => Some(pattern),
        Err(error) => compiler.reject(element, format!("the pattern `{source}`: {error}"), None),
    }
}

/// A pattern that matches `text` alone.
pub(crate) fn literal(
    compiler: &mut Compiler,
    element: &Element<'_>,
    text: &str,
) -> Option<Pattern> {
    let mut escaped = String::new();
    for next in text.chars() {
        if next.is_ascii_punctuation() {
            escaped.push('\\');
        }
        escaped.push(next);
    }
    compile(compiler, element, &escaped)
}

/// `pattern` and `group` of a property: the part of a text that a group matches.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    regex: Regex,
    group: usize,
}

impl Groups {
    /// Reports a pattern or a group that is not valid.
    pub(crate) fn compile(
        compiler: &mut Compiler,
        element: &Element<'_>,
        source: &str,
        group: &str,
    ) -> Option<Self> {
        let Ok(group) = group.parse() else {
            return compiler.reject(element, format!("`group` is `{group}`, not a number"), None);
        };
        match Regex::compile(&Pattern::whole(source), "", PATTERN_BYTES_MAX) {
            Ok(regex) => Some(Self { regex, group }),
            Err(error) => {
                compiler.reject(element, format!("the pattern `{source}`: {error}"), None)
            }
        }
    }

    /// The group, if the pattern matches the whole text; else, and for a group that takes no part, nothing. As in
    /// Synapse.
    ///
    /// # Errors
    /// The text is too long for the rest of the budget.
    pub(crate) fn find(&self, text: &str, budget: &Budget) -> Result<String, BudgetExceeded> {
        let Some(found) = self.regex.find(text, 0, budget)? else { return Ok(String::new()) };
        let group = self.regex.groups(text, &found, budget)?.get_group(self.group);
        let group = group.and_then(|group| text.get(group.range())).unwrap_or_default();
        budget.charge_memory(group.len())?;
        Ok(group.to_owned())
    }
}
