//! The rules of the trie, told the slow and obvious way: every template is tried, and the winner is
//! the first in order. Properties hold the trie against it.

use std::cmp::Reverse;

use base::Method;
use model::{MethodSet, Operation};

/// How well a template's segment fits; the smaller the better.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Literal,
    /// Text bytes, parameters, and the text to make the order total.
    Mixed(Reverse<usize>, usize, String),
    Plain,
    /// The end, with a trailing slash as in the path, or without.
    SameEnd,
    OtherEnd,
    Rest,
}

/// As `Trie::find`. Templates are ASCII without escapes, so that this needs no normalisation.
pub(crate) fn find(
    operations: &[Operation],
    method: Method,
    path: &str,
) -> Result<usize, MethodSet> {
    let fitting: Vec<(Vec<Rank>, usize)> = operations
        .iter()
        .enumerate()
        .filter_map(|(index, operation)| Some((ranks(&operation.template, path)?, index)))
        .collect();
    let with_method = fitting.iter().filter(|(_, index)| operations[*index].method == method);
    with_method
        .min()
        .map(|(_, index)| *index)
        .ok_or_else(|| fitting.iter().map(|(_, index)| operations[*index].method).collect())
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
    let fits = if rest { wanted.len() <= given.len() } else { wanted.len() == given.len() };
    if !fits {
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
    let holed = holed(wanted);
    if !covers(&holed, given.as_bytes()) {
        return None;
    }
    let holes = holed.iter().filter(|byte| byte.is_none()).count();
    if holed.len() == 1 {
        return Some(Rank::Plain);
    }
    let text = holed.iter().map(|byte| char::from(byte.unwrap_or(0))).collect();
    Some(Rank::Mixed(Reverse(holed.len() - holes), holes, text))
}

/// The segment's bytes, `None` for each parameter.
fn holed(segment: &str) -> Vec<Option<u8>> {
    let mut holed = Vec::new();
    let mut inside = false;
    for byte in segment.bytes() {
        match byte {
            b'{' => inside = true,
            b'}' => {
                inside = false;
                holed.push(None);
            }
            _ if inside => {}
            text => holed.push(Some(text)),
        }
    }
    holed
}

/// Every way of sharing the bytes out is tried.
fn covers(holed: &[Option<u8>], given: &[u8]) -> bool {
    match (holed, given) {
        ([], given) => given.is_empty(),
        ([Some(text), holed @ ..], [byte, given @ ..]) => text == byte && covers(holed, given),
        ([None, holed @ ..], given) => {
            (1..=given.len()).any(|taken| covers(holed, &given[taken..]))
        }
        ([Some(_), ..], []) => false,
    }
}
