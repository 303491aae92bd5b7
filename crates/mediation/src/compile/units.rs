//! The artefacts of a set, those of the registry included.

use std::collections::BTreeSet;
use std::path::Path;

use model::{ArtefactSet, Diagnostic};

use super::Origin;
use crate::syntax::NAMESPACE;

/// An artefact that is compiled.
#[derive(Clone, Copy)]
pub(super) struct Unit<'o> {
    pub(super) file: &'o Path,
    pub(super) node: xml::Node<'o>,
    /// The path in the registry, or the key of the local entry that holds the unit, which is its name then.
    pub(super) key: Option<&'o str>,
}

/// The artefacts of a file: its document element, or each child of `definitions`.
pub(super) fn units<'o>(origin: &Origin<'o>) -> Vec<Unit<'o>> {
    let file = origin.file;
    let unit = |node| Unit { file, node, key: None };
    let Some(root) = origin.document.element() else { return Vec::new() };
    if root.local_name() == "definitions" {
        return root.elements().map(unit).collect();
    }
    vec![unit(root)]
}

/// The number of the artefact in which `problem` is: the last one of its file that begins before it.
pub(super) fn unit_at(units: &[Unit<'_>], problem: &Diagnostic) -> usize {
    let starts = |unit: &Unit<'_>| {
        let xml::Position { line, column } = unit.node.position();
        problem.place.is_none_or(|at| (line, column) <= (at.line, at.column))
    };
    let of_file = || units.iter().enumerate().filter(|(_, unit)| unit.file == problem.file);
    let last = of_file().rfind(|(_, unit)| starts(unit));
    last.or_else(|| of_file().next()).map_or(usize::MAX, |(number, _)| number)
}

/// The sequences, endpoints and templates of the registry that `artefacts` name, and those that these name, by their
/// paths.
pub(super) fn in_registry<'s>(
    set: &'s ArtefactSet,
    artefacts: impl Iterator<Item = &'s xml::Document>,
) -> Vec<(String, &'s Path, xml::Document)> {
    let mut paths: BTreeSet<String> = artefacts.flat_map(named_paths).collect();
    let mut left: Vec<_> = paths.iter().cloned().collect();
    let mut found = Vec::new();
    while let Some(path) = left.pop() {
        let Some(resource) = set.resources.get(&path) else { continue };
        let Ok(document) = xml::Document::parse(&resource.bytes) else { continue };
        if document.element().is_some_and(is_named) {
            let new = named_paths(&document).into_iter().filter(|path| !paths.contains(path));
            left.extend(new);
            paths.extend(left.iter().cloned());
            found.push((path, resource.file.as_path(), document));
        }
    }
    found
}

/// Whether a resource or a local entry is an artefact that others name.
fn is_named(node: xml::Node<'_>) -> bool {
    node.namespace() == NAMESPACE
        && matches!(node.local_name(), "sequence" | "endpoint" | "template")
}

/// The sequences, endpoints and templates in local entries that `units`, or these, name by the key of the entry.
/// `sources`: local entries with `src`, and its contents.
pub(super) fn in_entries<'u>(
    units: &[Unit<'u>],
    sources: &'u [(Unit<'u>, xml::Document)],
) -> Vec<Unit<'u>> {
    let inline = units.iter().filter(|unit| unit.node.attribute("", "src").is_none());
    let child = |unit: &Unit<'u>| unit.node.children().find(|child| is_named(*child));
    let inline = inline.filter_map(|unit| Some((*unit, child(unit)?)));
    let outside = sources.iter().filter_map(|(unit, document)| Some((*unit, document.element()?)));
    let entries = inline.chain(outside);
    let entries = entries.filter(|(unit, node)| is_entry(unit.node) && is_named(*node));
    let mut found: Vec<_> = entries
        .filter_map(|(unit, node)| {
            Some(Unit { file: unit.file, node, key: Some(unit.node.attribute("", "key")?) })
        })
        .collect();
    let mut names = BTreeSet::new();
    for unit in units.iter().chain(&found) {
        let elements = std::iter::once(unit.node).chain(unit.node.descendants());
        for element in elements.filter(|node| node.is_element() && !is_entry(*node)) {
            let of = element.attributes().filter(|one| one.local_name() != "name");
            names.extend(of.map(|one| one.text()));
        }
    }
    found.retain(|unit| unit.key.is_some_and(|key| names.contains(key)));
    found
}

pub(super) fn is_entry(node: xml::Node<'_>) -> bool {
    node.local_name() == "localEntry"
}

/// The paths in the registry that its attributes name.
fn named_paths(document: &xml::Document) -> Vec<String> {
    let elements = document.root().descendants().filter(|node| node.is_element());
    let keys = elements.flat_map(|element| element.attributes().map(|one| one.text()));
    keys.filter_map(model::resource_path).collect()
}

/// The names that `get-property()` has in a text or an attribute, without a scope.
pub(super) fn named_properties<'u>(artefact: xml::Node<'u>) -> impl Iterator<Item = &'u str> {
    let texts = artefact.descendants().flat_map(|node| {
        std::iter::once(node.text()).chain(node.attributes().map(|attribute| attribute.text()))
    });
    texts.flat_map(|text| text.split("get-property(").skip(1)).filter_map(|rest| {
        let rest = rest.trim_start();
        let mark = rest.chars().next().filter(|mark| matches!(mark, '\'' | '"'))?;
        let (name, after) = rest.get(1..)?.split_once(mark)?;
        after.trim_start().starts_with(')').then_some(name)
    })
}

/// Whether a text or an attribute has `name` in it.
pub(super) fn mentions(artefact: xml::Node<'_>, name: &str) -> bool {
    let has = |node: xml::Node<'_>| node.text().contains(name);
    artefact.descendants().any(|node| has(node) || node.attributes().any(has))
}
