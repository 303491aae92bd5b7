//! EXSLT regular expressions, with the syntax of the `regex` crate. Compared with that of JavaScript it lacks
//! look-around and backreferences.

use std::collections::HashMap;

use xpath::regex::Regex;
use xpath::{Budget, NodeSet, Value};

use super::arguments::{Arguments, fail};
use super::{Evaluated, Row, row};
use crate::limits;

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
        let flags = if key.1 { "i" } else { "" };
        let compiled = Regex::compile_within(pattern, flags, limits::PATTERN_BYTES_MAX, budget)?;
        let compiled = compiled.or_else(|error| fail(format!("`{pattern}`: {error}")))?;
        budget.charge_memory(compiled.bytes())?;
        if self.known.len() >= limits::XSLT_PATTERNS_MAX {
            self.known.clear();
        }
        self.known.insert(key, compiled.clone());
        Ok(compiled)
    }
}

/// Text, pattern and flags.
fn parameters(args: &mut Arguments<'_, '_>) -> Evaluated<(String, Regex, String)> {
    let (text, pattern, flags) = (args.text()?, args.text()?, args.text()?);
    let pattern = args.host.pattern(&pattern, &flags)?;
    Ok((text, pattern, flags))
}

fn test<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let (text, pattern, _) = parameters(args)?;
    Ok(Value::Boolean(pattern.is_match(&text, args.host.budget())?))
}

/// `regexp:match()`: with `g`, all matches; otherwise the first match and its groups.
fn matches<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let (text, pattern, flags) = parameters(args)?;
    let budget = args.host.budget();
    if flags.contains('g') {
        let found = pattern.matches(&text, budget);
        return args.elements("match", found.map(|found| Ok(text.get(found?).unwrap_or_default())));
    }
    let Some(found) = pattern.find(&text, 0, budget)? else {
        return Ok(Value::NodeSet(NodeSet::new()));
    };
    let groups = pattern.groups(&text, &found, budget)?;
    let texts = groups.iter().map(|group| group.and_then(|group| text.get(group.range())));
    args.elements("match", texts.map(|text| Ok(text.unwrap_or_default())))
}

fn replace<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let (text, pattern, flags) = parameters(args)?;
    let replacement = args.text()?;
    let budget = args.host.budget();
    let max = if flags.contains('g') { usize::MAX } else { 1 };
    let has_groups = replacement.contains('$');
    let mut out = String::new();
    let mut from = 0usize;
    for found in pattern.matches(&text, budget).take(max) {
        let found = found?;
        budget.charge_scanning(replacement.len())?;
        append(args, text.get(from..found.start).unwrap_or_default(), &mut out)?;
        if has_groups {
            let groups = pattern.groups(&text, &found, budget)?;
            let group = |number| text.get(groups.get_group(number)?.range());
            expand(args, &replacement, groups.group_len(), group, &mut out)?;
        } else {
            append(args, &replacement, &mut out)?;
        }
        from = found.end;
    }
    append(args, text.get(from..).unwrap_or_default(), &mut out)?;
    Ok(Value::String(out))
}

fn append(args: &Arguments<'_, '_>, text: &str, out: &mut String) -> Evaluated<()> {
    args.charge_memory(text.len())?;
    out.push_str(text);
    Ok(())
}

/// `$1` to `$99` are groups, `$&` the match, `$$` a dollar sign. Source: ECMA-262 section 15.5.4.11.
fn expand<'t>(
    args: &Arguments<'_, '_>,
    replacement: &str,
    groups: usize,
    group: impl Fn(usize) -> Option<&'t str>,
    out: &mut String,
) -> Evaluated<()> {
    let mut rest = replacement;
    while let Some((before, after)) = rest.split_once('$') {
        append(args, before, out)?;
        let group = |number| group(number).unwrap_or_default();
        let digits = after.bytes().take(2).take_while(u8::is_ascii_digit).count();
        let number = (1..=digits).rev().find_map(|len| {
            let number: usize = after.get(..len)?.parse().ok()?;
            (1..groups).contains(&number).then_some((number, len))
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
