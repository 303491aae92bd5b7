//! Regular expressions with Java's flags, in linear time and bounded memory.

use crate::limits;
use regex::{Regex, RegexBuilder};

/// A pattern that must match the whole text. Flags as in Java's embedded form: `i m s x u U d`.
pub(crate) fn whole(source: &str, flags: &str) -> Result<Regex, String> {
    compile(&format!(r"\A(?:{source})\z"), flags)
}

/// A pattern that may match anywhere.
pub(crate) fn compile(source: &str, flags: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(source);
    builder.size_limit(limits::PATTERN_BYTES_MAX).nest_limit(64);
    for flag in flags.chars() {
        match flag {
            'i' => builder.case_insensitive(true),
            'm' => builder.multi_line(true),
            's' => builder.dot_matches_new_line(true),
            'x' => builder.ignore_whitespace(true),
            'u' | 'U' | 'd' => &mut builder,
            _ => return Err(format!("unknown flag `{flag}` of a pattern")),
        };
    }
    builder.build().map_err(|error| {
        let reason = error.to_string();
        let last = reason.lines().last().unwrap_or_default().trim();
        format!("invalid pattern: {last}; look-around and back-references are not supported")
    })
}
