//! EXSLT sets.

use std::collections::HashSet;

use xpath::{Item, NodeSet, Value};

use super::call::Call;
use super::{Answer, Row, row};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("difference",    2, 2, |call| keep_by(call, |is_in_second| !is_in_second)),
    row("distinct",      1, 1, distinct),
    row("has-same-node", 2, 2, has_same_node),
    row("intersection",  2, 2, |call| keep_by(call, |is_in_second| is_in_second)),
    row("leading",       2, 2, |call| beside(call, |nodes, at| nodes.get(..at))),
    row("trailing",      2, 2, |call| beside(call, |nodes, at| nodes.get(at.checked_add(1)?..))),
];

fn keep_by<'d>(call: &mut Call<'_, 'd>, keep: fn(bool) -> bool) -> Answer<Value<'d>> {
    let (first, second) = (call.nodes()?, call.nodes()?);
    let second: HashSet<Item<'d>> = second.iter().collect();
    let kept = first.iter().filter(|item| keep(second.contains(item))).collect();
    Ok(Value::NodeSet(NodeSet::from_unordered(kept)))
}

/// The first node of each string value.
fn distinct<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let nodes = call.nodes()?;
    let mut seen = HashSet::new();
    let first = nodes.iter().filter(|item| seen.insert(item.string_value().into_owned())).collect();
    Ok(Value::NodeSet(NodeSet::from_unordered(first)))
}

fn has_same_node<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let first: HashSet<Item<'d>> = call.nodes()?.iter().collect();
    let second = call.nodes()?;
    Ok(Value::Boolean(second.iter().any(|item| first.contains(&item))))
}

/// What stands on one side of the first node of the second set, which has to be in the first; without one, all.
fn beside<'d>(
    call: &mut Call<'_, 'd>,
    side: for<'n> fn(&'n [Item<'d>], usize) -> Option<&'n [Item<'d>]>,
) -> Answer<Value<'d>> {
    let (nodes, second) = (call.nodes()?, call.nodes()?);
    let Some(border) = second.first() else { return Ok(Value::NodeSet(nodes)) };
    let at = nodes.iter().position(|item| item == border);
    let found = at.and_then(|at| side(nodes.items(), at)).unwrap_or(&[]);
    Ok(Value::NodeSet(NodeSet::from_unordered(found.to_vec())))
}
