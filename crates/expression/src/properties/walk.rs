//! A second way to find what a path of plain steps finds: a walk over the tree, by recursion, as one would write it
//! without thinking of cost.

use crate::json::{Kind, Ref};
use crate::jsonpath::Selection;
use crate::{EvalError, Value};

/// `.a`, `[1]`, `[-1]`, `.*`, `[*]`, each perhaps after `..`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'p> {
    below: bool,
    what: What<'p>,
}

#[derive(Clone, Copy, Debug)]
enum What<'p> {
    Member(&'p str),
    Element(i64),
    All,
}

/// The steps after `$`; `None` when some are not plain.
pub(super) fn steps(mut text: &str) -> Option<Vec<Step<'_>>> {
    let mut steps = Vec::new();
    while !text.is_empty() {
        let below = text.starts_with("..");
        let dotted = text.trim_start_matches('.');
        if text.len() - dotted.len() > 2 {
            return None;
        }
        let (what, rest) = if let Some(inner) = dotted.strip_prefix('[') {
            if text.starts_with('.') && !below {
                return None;
            }
            let (inner, rest) = inner.split_once(']')?;
            let what = if inner == "*" { What::All } else { What::Element(inner.parse().ok()?) };
            let plain = inner != "-0" && !inner.starts_with('+');
            (plain.then_some(what)?, rest)
        } else if let Some(rest) = dotted.strip_prefix('*') {
            (What::All, rest)
        } else {
            let end = dotted.find(|next: char| !next.is_ascii_lowercase()).unwrap_or(dotted.len());
            let (name, rest) = dotted.split_at(end);
            if name.is_empty() || !text.starts_with('.') || rest.starts_with('(') {
                return None;
            }
            (What::Member(name), rest)
        };
        if !rest.is_empty() && !rest.starts_with(['.', '[']) {
            return None;
        }
        steps.push(Step { below, what });
        text = rest;
    }
    Some(steps)
}

/// Fails where the path's answer is not the walk's.
///
/// # Panics
/// Then.
pub(super) fn agree(source: &str, root: Ref<'_>, answer: &Result<Selection<'_>, EvalError>) {
    let Some(steps) = source.strip_prefix('$').and_then(steps) else { return };
    if steps.len() > 6 || matches!(answer, Err(EvalError::Limit(_))) {
        return;
    }
    let single = |step: &Step<'_>| !step.below && !matches!(step.what, What::All);
    let mut at = vec![root];
    // A gap is an error as long as only one value could be meant.
    let mut sure = true;
    let mut missing = false;
    for step in &steps {
        sure &= single(step);
        at = at.into_iter().flat_map(|value| next(step, value)).collect();
        missing |= sure && at.is_empty();
    }
    let same =
        match answer {
            Ok(Selection::One(Value::Json(found))) => {
                sure && at.len() == 1 && at.iter().all(|at| at.is_same_place(*found))
            }
            Ok(Selection::Many(found)) => !sure
                && found.len() == at.len()
                && found.iter().zip(&at).all(
                    |(found, at)| matches!(found, Value::Json(found) if found.is_same_place(*at)),
                ),
            Ok(Selection::One(_)) => false,
            Err(error) => missing && matches!(error, EvalError::Missing(_)),
        };
    assert!(same && missing == answer.is_err(), "{source} of {root:?} is {at:?}, not {answer:?}");
}

fn next<'d>(step: &Step<'_>, from: Ref<'d>) -> Vec<Ref<'d>> {
    let mut found = Vec::new();
    for value in if step.below { below(from) } else { vec![from] } {
        match step.what {
            What::All => found.extend(value.children()),
            What::Member(name) => {
                found.extend(
                    value.members().filter(|(known, _)| known == name).last().map(|it| it.1),
                );
            }
            What::Element(place) => {
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

/// The value and all below it.
fn below(from: Ref<'_>) -> Vec<Ref<'_>> {
    std::iter::once(from).chain(from.children().flat_map(below)).collect()
}
