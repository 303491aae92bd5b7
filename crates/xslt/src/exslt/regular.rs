//! EXSLT regular expressions, with the syntax of the `regex` crate. Compared with that of JavaScript it lacks
//! look-around and backreferences, and matching takes linear time.

use std::collections::HashMap;

use crate::limits;
use regex::{Captures, Regex, RegexBuilder};
use xpath::{Budget, NodeSet, Value};

use super::arguments::{Arguments, fail};
use super::{Evaluated, Row, row};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("match",   2, 3, matches),
    row("replace", 4, 4, replace),
    row("test",    2, 3, test),
];

/// The compiled expressions of a run.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    known: HashMap<(String, bool), Regex>,
}

impl Patterns {
    /// `flags`: `i` ignores case; `g`, for all matches, is handled by the functions.
    pub(crate) fn get(&mut self, pattern: &str, flags: &str, budget: &Budget) -> Evaluated<Regex> {
        budget.charge_scanning(pattern.len())?;
        if let Some(flag) = flags.chars().find(|flag| !"gi".contains(*flag)) {
            return fail(format!(
                "unknown regular expression flag `{flag}`; write `g`, `i` or both"
            ));
        }
        let key = (pattern.to_owned(), flags.contains('i'));
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let length = pattern.len() as u64;
        budget.charge_steps(
            COMPILE_STEPS.saturating_add(length.saturating_mul(COMPILE_STEPS_PER_BYTE)),
        )?;
        let mut builder = RegexBuilder::new(pattern);
        builder.case_insensitive(key.1).size_limit(limits::PATTERN_BYTES_MAX);
        let compiled = builder.build();
        let compiled = compiled
            .or_else(|error| fail(format!("invalid regular expression `{pattern}`: {error}")))?;
        if self.known.len() >= limits::XSLT_PATTERNS_MAX {
            self.known.clear();
        }
        self.known.insert(key, compiled.clone());
        Ok(compiled)
    }
}

/// The cost of compiling an expression, and of each byte of it.
const COMPILE_STEPS: u64 = 1_000;
const COMPILE_STEPS_PER_BYTE: u64 = 100;

/// Text, pattern and flags.
fn parameters(args: &mut Arguments<'_, '_>) -> Evaluated<(String, Regex, String)> {
    let (text, pattern, flags) = (args.text()?, args.text()?, args.text()?);
    args.charge_steps(text.len() / 16)?;
    let pattern = args.host.pattern(&pattern, &flags)?;
    Ok((text, pattern, flags))
}

fn test<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let (text, pattern, _) = parameters(args)?;
    Ok(Value::Boolean(pattern.is_match(&text)))
}

/// With `g`, all matches; without, the first and its groups.
fn matches<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let (text, pattern, flags) = parameters(args)?;
    if flags.contains('g') {
        return args.elements("match", pattern.find_iter(&text).map(|found| found.as_str()));
    }
    let Some(found) = pattern.captures(&text) else { return Ok(Value::NodeSet(NodeSet::new())) };
    args.elements("match", found.iter().map(|group| group.map_or("", |group| group.as_str())))
}

fn replace<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let (text, pattern, flags) = parameters(args)?;
    let replacement = args.text()?;
    let max = if flags.contains('g') { usize::MAX } else { 1 };
    let mut out = String::new();
    let mut from = 0usize;
    for found in pattern.captures_iter(&text).take(max) {
        let Some(whole) = found.get(0) else { continue };
        args.charge_steps(1)?;
        args.host.budget().charge_scanning(replacement.len())?;
        append(args, text.get(from..whole.start()).unwrap_or(""), &mut out)?;
        expand(args, &replacement, &found, &mut out)?;
        from = whole.end();
    }
    append(args, text.get(from..).unwrap_or(""), &mut out)?;
    Ok(Value::String(out))
}

fn append(args: &Arguments<'_, '_>, text: &str, out: &mut String) -> Evaluated<()> {
    args.charge_memory(text.len())?;
    out.push_str(text);
    Ok(())
}

/// `$1` to `$99` are groups, `$&` the match, `$$` a dollar sign. Source: ECMA-262 section 15.5.4.11.
fn expand(
    args: &Arguments<'_, '_>,
    replacement: &str,
    found: &Captures<'_>,
    out: &mut String,
) -> Evaluated<()> {
    let mut rest = replacement;
    while let Some((before, after)) = rest.split_once('$') {
        append(args, before, out)?;
        let group = |number: usize| found.get(number).map_or("", |group| group.as_str());
        let digits = after.bytes().take(2).take_while(u8::is_ascii_digit).count();
        let number = (1..=digits).rev().find_map(|len| {
            let number: usize = after.get(..len)?.parse().ok()?;
            (1..found.len()).contains(&number).then_some((number, len))
        });
        if let Some((number, len)) = number {
            append(args, group(number), out)?;
            rest = after.get(len..).unwrap_or("");
        } else if let Some(after) = after.strip_prefix('&') {
            append(args, group(0), out)?;
            rest = after;
        } else if let Some(after) = after.strip_prefix('$') {
            append(args, "$", out)?;
            rest = after;
        } else {
            append(args, "$", out)?;
            rest = after;
        }
    }
    append(args, rest, out)
}
