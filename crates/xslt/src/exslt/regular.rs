//! EXSLT regular expressions. Their syntax is that of the `regex` crate, whose time is linear: what that
//! takes from JavaScript's are the look-arounds and the references back.

use std::collections::HashMap;

use crate::limits;
use regex::{Captures, Regex, RegexBuilder};
use xpath::{NodeSet, Value};

use super::call::{Call, fail};
use super::{Answer, Row, row};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("match",   2, 3, matches),
    row("replace", 4, 4, replace),
    row("test",    2, 3, test),
];

/// The expressions of a run, compiled.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    known: HashMap<(String, bool), Regex>,
}

impl Patterns {
    /// `flags`: `g` for all, which is the caller's affair, `i` for any case.
    pub(crate) fn get(&mut self, pattern: &str, flags: &str) -> Answer<Regex> {
        if let Some(flag) = flags.chars().find(|flag| !"gi".contains(*flag)) {
            return fail(format!("regular expressions have no flag `{flag}`"));
        }
        let key = (pattern.to_owned(), flags.contains('i'));
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let mut builder = RegexBuilder::new(pattern);
        builder.case_insensitive(key.1).size_limit(limits::PATTERN_BYTES_MAX);
        let compiled = builder.build();
        let compiled =
            compiled.or_else(|error| fail(format!("the pattern `{pattern}`: {error}")))?;
        if self.known.len() >= limits::XSLT_PATTERNS_MAX {
            self.known.clear();
        }
        self.known.insert(key, compiled.clone());
        Ok(compiled)
    }
}

/// Text, pattern and flags; looking costs steps.
fn given(call: &mut Call<'_, '_>) -> Answer<(String, Regex, String)> {
    let (text, pattern, flags) = (call.text(), call.text(), call.text());
    call.host.spend(text.len() / 16)?;
    let pattern = call.host.pattern(&pattern, &flags)?;
    Ok((text, pattern, flags))
}

fn test<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let (text, pattern, _) = given(call)?;
    Ok(Value::Boolean(pattern.is_match(&text)))
}

/// With `g`, all matches; without, the first and its groups.
fn matches<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let (text, pattern, flags) = given(call)?;
    if flags.contains('g') {
        let all: Vec<&str> = pattern.find_iter(&text).map(|found| found.as_str()).collect();
        return call.elements("match", &all);
    }
    let Some(found) = pattern.captures(&text) else { return Ok(Value::NodeSet(NodeSet::new())) };
    let groups: Vec<&str> =
        found.iter().map(|group| group.map_or("", |group| group.as_str())).collect();
    call.elements("match", &groups)
}

fn replace<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let (text, pattern, flags) = given(call)?;
    let replacement = call.text();
    let most = if flags.contains('g') { usize::MAX } else { 1 };
    let mut out = String::new();
    let mut from = 0usize;
    for found in pattern.captures_iter(&text).take(most) {
        let Some(whole) = found.get(0) else { continue };
        let start = out.len();
        out.push_str(text.get(from..whole.start()).unwrap_or(""));
        expand(&replacement, &found, &mut out);
        call.host.made(out.len().saturating_sub(start))?;
        from = whole.end();
    }
    let rest = text.get(from..).unwrap_or("");
    call.host.made(rest.len())?;
    out.push_str(rest);
    Ok(Value::String(out))
}

/// `$1` to `$99` are groups, `$&` the match, `$$` a dollar sign. Source: ECMA-262 section 15.5.4.11.
fn expand(replacement: &str, found: &Captures<'_>, out: &mut String) {
    let mut rest = replacement;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let group = |number: usize| found.get(number).map_or("", |group| group.as_str());
        let digits = after.bytes().take(2).take_while(u8::is_ascii_digit).count();
        let number = (1..=digits).rev().find_map(|len| {
            let number: usize = after.get(..len)?.parse().ok()?;
            (1..found.len()).contains(&number).then_some((number, len))
        });
        if let Some((number, len)) = number {
            out.push_str(group(number));
            rest = after.get(len..).unwrap_or("");
        } else if let Some(after) = after.strip_prefix('&') {
            out.push_str(group(0));
            rest = after;
        } else if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
}
