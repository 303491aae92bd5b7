//! A naive implementation of the trie's rules: tries every template, and returns the first in order. Property
//! tests compare the trie with it.

use std::cmp::Reverse;

use base::Method;
use model::{MethodSet, Operation};

/// How specifically a template's segment matches; smaller is better.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Literal,
    /// Number of text bytes, number of parameters, and the text to make the order total.
    Mixed(Reverse<usize>, usize, String),
    Parameter,
    /// The end, with or without a trailing slash as in the path.
    SameEnd,
    OtherEnd,
    Rest,
}

/// As `Trie::find`, for ASCII templates without escapes.
pub(crate) fn find(
    operations: &[Operation],
    method: Method,
    path: &str,
) -> Result<usize, MethodSet> {
    let matching: Vec<(Vec<Rank>, usize)> = operations
        .iter()
        .enumerate()
        .filter_map(|(index, operation)| Some((ranks(&operation.template, path)?, index)))
        .collect();
    let with_method = matching.iter().filter(|(_, index)| operations[*index].method == method);
    with_method
        .min()
        .map(|(_, index)| *index)
        .ok_or_else(|| matching.iter().map(|(_, index)| operations[*index].method).collect())
}

fn ranks(template: &str, path: &str) -> Option<Vec<Rank>> {
    let (template, rest) = match template.strip_suffix("/*") {
        Some(template) => (template, true),
        None => (template, false),
    };
    let (template, template_slash) = if rest { (template, false) } else { unslashed(template) };
    let (path, path_slash) = unslashed(path);
    let wanted: Vec<&str> = template.split('/').skip(1).collect();
    let given: Vec<&str> = path.split('/').skip(1).collect();
    let has_length = if rest { wanted.len() <= given.len() } else { wanted.len() == given.len() };
    if !has_length {
        return None;
    }
    let ranks = wanted.iter().zip(&given).map(|(wanted, given)| rank(wanted, given));
    let end = match rest {
        true => Rank::Rest,
        false if template_slash == path_slash => Rank::SameEnd,
        false => Rank::OtherEnd,
    };
    ranks.chain([Some(end)]).collect()
}

fn unslashed(path: &str) -> (&str, bool) {
    path.strip_suffix('/').map_or((path, false), |path| (path, true))
}

fn rank(wanted: &str, given: &str) -> Option<Rank> {
    if !wanted.contains('{') {
        return (wanted == given).then_some(Rank::Literal);
    }
    let pattern = pattern(wanted);
    if !matches(&pattern, given.as_bytes()) {
        return None;
    }
    let parameters = pattern.iter().filter(|byte| byte.is_none()).count();
    if pattern.len() == 1 {
        return Some(Rank::Parameter);
    }
    let text = pattern.iter().map(|byte| char::from(byte.unwrap_or(0))).collect();
    Some(Rank::Mixed(Reverse(pattern.len() - parameters), parameters, text))
}

/// The segment's bytes, `None` for each parameter.
fn pattern(segment: &str) -> Vec<Option<u8>> {
    let mut pattern = Vec::new();
    let mut inside = false;
    for byte in segment.bytes() {
        match byte {
            b'{' => inside = true,
            b'}' => {
                inside = false;
                pattern.push(None);
            }
            _ if inside => {}
            text => pattern.push(Some(text)),
        }
    }
    pattern
}

/// Tries every distribution of the bytes.
fn matches(pattern: &[Option<u8>], given: &[u8]) -> bool {
    match (pattern, given) {
        ([], given) => given.is_empty(),
        ([Some(text), pattern @ ..], [byte, given @ ..]) => text == byte && matches(pattern, given),
        ([None, pattern @ ..], given) => {
            (1..=given.len()).any(|taken| matches(pattern, &given[taken..]))
        }
        ([Some(_), ..], []) => false,
    }
}
