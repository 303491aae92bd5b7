//! Typed reads from the tree. A value of another type is reported.

use model::Place;

use crate::report::Report;
use crate::tree::{Map, Node};

/// A string. `name` is for the diagnostic.
pub(super) fn text<'n>(node: &'n Node<'_>, name: &str, report: &mut Report) -> Option<&'n str> {
    let found = node.as_text();
    if found.is_none() {
        wrong_kind(node, name, "a string", report);
    }
    found
}

pub(super) fn flag(node: &Node<'_>, name: &str, report: &mut Report) -> Option<bool> {
    let found = node.as_bool();
    if found.is_none() {
        wrong_kind(node, name, "true or false", report);
    }
    found
}

pub(super) fn map<'n, 'a>(
    node: &'n Node<'a>,
    name: &str,
    report: &mut Report,
) -> Option<&'n Map<'a>> {
    let found = node.as_map();
    if found.is_none() {
        wrong_kind(node, name, "a map", report);
    }
    found
}

pub(super) fn list<'n, 'a>(
    node: &'n Node<'a>,
    name: &str,
    report: &mut Report,
) -> Option<&'n [Node<'a>]> {
    let found = node.as_list();
    if found.is_none() {
        wrong_kind(node, name, "a list", report);
    }
    found
}

/// A list of strings; a single string is a list of one.
pub(super) fn texts<'n>(
    node: &'n Node<'_>,
    name: &str,
    report: &mut Report,
) -> Option<Vec<(&'n str, Place)>> {
    if let Some(alone) = node.as_text() {
        return Some(vec![(alone, node.place)]);
    }
    let items = list(node, name, report)?;
    let before = items.len();
    let found: Vec<_> =
        items.iter().filter_map(|item| Some((text(item, name, report)?, item.place))).collect();
    (found.len() == before).then_some(found)
}

fn wrong_kind(node: &Node<'_>, name: &str, wants: &str, report: &mut Report) {
    let message = format!("`{name}` must be {wants}, not {}", node.kind());
    report.error(node.place, message, "");
}
