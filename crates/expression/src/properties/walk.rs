//! A reference implementation for paths of plain steps: a recursive walk without regard to cost.

use crate::error::Error;
use crate::json::{Kind, Ref};
use crate::jsonpath::Selection;
use crate::value::Value;

/// `.a`, `[1]`, `[-1]`, `.*` or `[*]`, optionally after `..`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'p> {
    descend: bool,
    select: Select<'p>,
}

#[derive(Clone, Copy, Debug)]
enum Select<'p> {
    Member(&'p str),
    Element(i64),
    All,
}

/// The steps after `$`; `None` if any is not plain.
pub(super) fn steps(mut text: &str) -> Option<Vec<Step<'_>>> {
    let mut steps = Vec::new();
    while !text.is_empty() {
        let descend = text.starts_with("..");
        let dotted = text.trim_start_matches('.');
        if text.len() - dotted.len() > 2 {
            return None;
        }
        let (select, rest) = if let Some(inner) = dotted.strip_prefix('[') {
            if text.starts_with('.') && !descend {
                return None;
            }
            let (inner, rest) = inner.split_once(']')?;
            let select =
                if inner == "*" { Select::All } else { Select::Element(inner.parse().ok()?) };
            let plain = inner != "-0" && !inner.starts_with('+');
            (plain.then_some(select)?, rest)
        } else if let Some(rest) = dotted.strip_prefix('*') {
            (Select::All, rest)
        } else {
            let end = dotted.find(|next: char| !next.is_ascii_lowercase()).unwrap_or(dotted.len());
            let (name, rest) = dotted.split_at(end);
            if name.is_empty() || !text.starts_with('.') || rest.starts_with('(') {
                return None;
            }
            (Select::Member(name), rest)
        };
        if !rest.is_empty() && !rest.starts_with(['.', '[']) {
            return None;
        }
        steps.push(Step { descend, select });
        text = rest;
    }
    Some(steps)
}

/// # Panics
/// If the path's result differs from the walk's.
pub(super) fn check(source: &str, root: Ref<'_>, result: &Result<Selection<'_>, Error>) {
    let Some(steps) = source.strip_prefix('$').and_then(steps) else { return };
    if steps.len() > 6 || matches!(result, Err(Error::Budget(_))) {
        return;
    }
    let single = |step: &Step<'_>| !step.descend && !matches!(step.select, Select::All);
    let mut at = vec![root];
    // Selecting nothing is an error while all steps are definite.
    let mut definite = true;
    let mut missing = false;
    let indefinite = !steps.iter().all(single);
    for step in &steps {
        definite &= single(step);
        let from: Option<Kind> = at.first().map(|value| value.kind());
        at = at.into_iter().flat_map(|value| next(step, value)).collect();
        // An index past the end is an error of definite paths only.
        let skipped =
            indefinite && matches!(step.select, Select::Element(_)) && from == Some(Kind::Array);
        if definite && at.is_empty() && !skipped {
            missing = true;
        }
        definite &= !(at.is_empty() && skipped);
    }
    let same =
        match result {
            Ok(Selection::One(Value::Json(found))) => {
                definite && at.len() == 1 && at.iter().all(|at| at.is_same_place(*found))
            }
            Ok(Selection::Many(found)) => !definite
                && found.len() == at.len()
                && found.iter().zip(&at).all(
                    |(found, at)| matches!(found, Value::Json(found) if found.is_same_place(*at)),
                ),
            Ok(Selection::One(_)) => false,
            Err(error) => missing && matches!(error, Error::Missing(_)),
        };
    assert!(same && missing == result.is_err(), "{source} of {root:?} is {at:?}, not {result:?}");
}

fn next<'d>(step: &Step<'_>, from: Ref<'d>) -> Vec<Ref<'d>> {
    let mut found = Vec::new();
    for value in if step.descend { below(from) } else { vec![from] } {
        match step.select {
            Select::All => found.extend(value.children()),
            Select::Member(name) => {
                found.extend(
                    value.members().filter(|(known, _)| known == name).last().map(|it| it.1),
                );
            }
            Select::Element(place) => {
                let all: Vec<_> = value.elements().collect();
                let size = i64::try_from(all.len()).unwrap_or(i64::MAX);
                let place = if place < 0 { place + size } else { place };
                if value.kind() == Kind::Array && place >= 0 {
                    found.extend(usize::try_from(place).ok().and_then(|place| all.get(place)));
                }
            }
        }
    }
    found
}

/// The value and its descendants.
fn below(from: Ref<'_>) -> Vec<Ref<'_>> {
    std::iter::once(from).chain(from.children().flat_map(below)).collect()
}
