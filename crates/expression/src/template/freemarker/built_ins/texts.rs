//! Built-ins of strings.

use std::ops::Range;

use super::super::evaluate::{Step, fail, printed};
use super::{Application, BuiltIn, NODE_BYTES, text, whole};
use crate::json::Builder;
use crate::pattern;
use crate::value::Value;
use xpath::regex::Regex;

impl<'s> Application<'_, 's> {
    pub(super) fn join(&self) -> Step<Value<'s>> {
        let array = self.array()?;
        let parts: Vec<String> =
            array.elements().map(|element| printed(&Value::Json(element).plain())).collect();
        if parts.is_empty() && self.given.len() > 1 {
            return text(self.text_argument(1)?);
        }
        let separator = self.text_argument(0)?;
        self.budget.charge_memory(separator.len().saturating_mul(parts.len()))?;
        let end =
            if self.given.len() > 2 && !parts.is_empty() { self.text_argument(2)? } else { "" };
        text(parts.join(separator) + end)
    }

    /// The pattern in the first argument, with the flags of Java in the argument `flags`.
    fn pattern(&self, source: &str, flags: usize) -> Step<Regex> {
        let flags: String =
            self.flags(flags)?.chars().filter(|flag| "ims".contains(*flag)).collect();
        let compiled = self.patterns.get(source, &flags, self.budget)?;
        compiled.or_else(|message| fail(self.at, message))
    }

    pub(super) fn matches(&self) -> Step<Value<'s>> {
        let source = self.text_argument(0)?;
        self.budget.charge_reading(source.len())?;
        let pattern = self.pattern(&pattern::whole(source), 1)?;
        Ok(Value::Boolean(pattern.is_match(self.text()?, self.budget)?))
    }

    fn flags(&self, place: usize) -> Step<&str> {
        if self.given.len() > place { self.text_argument(place) } else { Ok("") }
    }

    pub(super) fn split(&self) -> Step<Value<'s>> {
        let subject = self.text()?;
        let mut builder = Builder::new();
        builder.begin_array();
        if self.flags(1)?.contains('r') {
            let pattern = self.pattern(self.text_argument(0)?, 1)?;
            for part in pattern.split(subject, self.budget) {
                let part = part?;
                self.charge_part(part)?;
                builder.string(part);
            }
        } else {
            let by = self.text_argument(0)?;
            if by.is_empty() {
                return self.wrong("a non-empty separator");
            }
            for part in subject.split(by) {
                self.charge_part(part)?;
                builder.string(part);
            }
        }
        Ok(Value::Made(Box::new(builder.finish())))
    }

    pub(super) fn replace(&self) -> Step<Value<'s>> {
        let (subject, old, new) = (self.text()?, self.text_argument(0)?, self.text_argument(1)?);
        let flags = self.flags(2)?;
        if flags.contains('r') {
            let pattern = self.pattern(old, 2)?;
            let max = if flags.contains('f') { 1 } else { usize::MAX };
            let (mut made, mut from) = (String::new(), 0);
            for found in pattern.matches(subject, self.budget).take(max) {
                let found = found?;
                self.append(&mut made, subject.get(from..found.start).unwrap_or_default())?;
                self.expand(&mut made, new, &pattern, &found)?;
                from = found.end;
            }
            self.append(&mut made, subject.get(from..).unwrap_or_default())?;
            return text(made);
        }
        self.budget.charge_memory(subject.matches(old).count().saturating_mul(new.len()))?;
        text(if flags.contains('f') {
            subject.replacen(old, new, 1)
        } else {
            subject.replace(old, new)
        })
    }

    fn charge_part(&self, part: &str) -> Step<()> {
        self.budget.charge_steps(1)?;
        Ok(self.budget.charge_memory(part.len() + NODE_BYTES)?)
    }

    fn append(&self, made: &mut String, part: &str) -> Step<()> {
        self.budget.charge_memory(part.len())?;
        made.push_str(part);
        Ok(())
    }

    /// Appends the replacement of a match: `$1`, `${1}` and `${name}` are groups, `$$` is a dollar sign.
    fn expand(
        &self,
        made: &mut String,
        replacement: &str,
        pattern: &Regex,
        found: &Range<usize>,
    ) -> Step<()> {
        if !replacement.contains('$') {
            return self.append(made, replacement);
        }
        let subject = self.text()?;
        let groups = pattern.groups(subject, found, self.budget)?;
        // Each `$` repeats a part of the match at most.
        let references = replacement.matches('$').count();
        let added = references.saturating_mul(found.len()).saturating_add(replacement.len());
        self.budget.charge_scanning(added)?;
        self.budget.charge_memory(added)?;
        groups.interpolate_string_into(subject, replacement, made);
        Ok(())
    }

    pub(super) fn substring(&self) -> Step<Value<'s>> {
        let subject = self.text()?;
        let length = subject.chars().count();
        let from = self.place(0)?;
        let to = if self.given.len() > 1 { self.place(1)? } else { length };
        if from > to || to > length {
            return self.wrong("positions inside the string");
        }
        text(subject.chars().skip(from).take(to - from).collect::<String>())
    }

    pub(super) fn markup(&self) -> Step<Value<'s>> {
        let plain = printed(&self.value);
        self.charge_growth(&plain, |byte| b"&<>\"'".contains(&byte))?;
        let mut made = String::new();
        for character in plain.chars() {
            match character {
                '&' => made.push_str("&amp;"),
                '<' => made.push_str("&lt;"),
                '>' => made.push_str("&gt;"),
                '"' => made.push_str("&quot;"),
                '\'' if self.built_in == BuiltIn::Xml => made.push_str("&apos;"),
                '\'' => made.push_str("&#39;"),
                other => made.push(other),
            }
        }
        text(made)
    }
}

pub(super) fn first_letter(text: &str, change: impl Fn(char) -> String) -> String {
    let start = text.len() - text.trim_start().len();
    let (lead, rest) = text.split_at_checked(start).unwrap_or_default();
    let mut letters = rest.chars();
    letters.next().map_or_else(
        || lead.to_owned(),
        |first| format!("{lead}{}{}", change(first), letters.as_str()),
    )
}

/// A byte offset as a count of characters; -1 for `None`.
pub(super) fn index<'s>(subject: &str, found: Option<usize>) -> Value<'s> {
    found.map_or(Value::Integer(-1), |at| {
        whole(subject.get(..at).unwrap_or_default().chars().count())
    })
}
