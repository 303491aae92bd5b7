//! EXSLT sets.

use std::collections::HashSet;

use xpath::{Item, NodeSet, Value};

use super::arguments::Arguments;
use super::{Evaluated, Row, row};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("difference",    2, 2, |args| filter(args, |is_in_second| !is_in_second)),
    row("distinct",      1, 1, distinct),
    row("has-same-node", 2, 2, has_same_node),
    row("intersection",  2, 2, |args| filter(args, |is_in_second| is_in_second)),
    row("leading",       2, 2, |args| part(args, |nodes, at| nodes.get(..at))),
    row("trailing",      2, 2, |args| part(args, |nodes, at| nodes.get(at.checked_add(1)?..))),
];

/// The memory of an entry in a set.
const ENTRY_BYTES: usize = 48;

#[expect(clippy::mutable_key_type, reason = "items are hashed and compared by identity")]
fn filter<'d>(args: &mut Arguments<'_, 'd>, keep: fn(bool) -> bool) -> Evaluated<Value<'d>> {
    let (first, second) = (args.nodes()?, args.nodes()?);
    args.charge_memory(second.len().saturating_mul(ENTRY_BYTES))?;
    let second: HashSet<Item<'d>> = second.iter().collect();
    let kept = first.iter().filter(|item| keep(second.contains(item))).collect();
    Ok(Value::NodeSet(NodeSet::from_unordered(kept)))
}

/// The first node of each string-value.
fn distinct<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let nodes = args.nodes()?;
    let mut seen = HashSet::new();
    let mut first = Vec::new();
    for item in &nodes {
        let text = item.charged_string_value(args.host.budget())?;
        args.charge_memory(text.len().saturating_add(ENTRY_BYTES))?;
        if seen.insert(text) {
            first.push(item);
        }
    }
    Ok(Value::NodeSet(NodeSet::from_unordered(first)))
}

#[expect(clippy::mutable_key_type, reason = "items are hashed and compared by identity")]
fn has_same_node<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let (first, second) = (args.nodes()?, args.nodes()?);
    args.charge_memory(first.len().saturating_mul(ENTRY_BYTES))?;
    let first: HashSet<Item<'d>> = first.iter().collect();
    Ok(Value::Boolean(second.iter().any(|item| first.contains(&item))))
}

/// The nodes before or after the first node of the second set. If that is empty, all; if its first node is not in the
/// first set, none.
fn part<'d>(
    args: &mut Arguments<'_, 'd>,
    side: for<'n> fn(&'n [Item<'d>], usize) -> Option<&'n [Item<'d>]>,
) -> Evaluated<Value<'d>> {
    let (nodes, second) = (args.nodes()?, args.nodes()?);
    let Some(border) = second.first() else { return Ok(Value::NodeSet(nodes)) };
    let at = nodes.iter().position(|item| item == border);
    let found = at.and_then(|at| side(nodes.items(), at)).unwrap_or(&[]);
    Ok(Value::NodeSet(NodeSet::from_unordered(found.to_vec())))
}
