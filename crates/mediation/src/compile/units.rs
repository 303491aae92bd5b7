//! The artefacts of a set, those of the registry included.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use model::{ArtefactSet, Diagnostic};

use super::{NAMESPACE, Origin};

/// An artefact that is compiled.
#[derive(Clone, Copy)]
pub(super) struct Unit<'o> {
    pub(super) file: &'o Path,
    pub(super) node: xml::Node<'o>,
    /// Its path in the registry, which is its name then.
    pub(super) key: Option<&'o str>,
}

/// The artefacts of a file: its document element, or each child of `definitions`.
pub(super) fn units<'o>(origin: &Origin<'o>) -> Vec<Unit<'o>> {
    let file = origin.file;
    let unit = |node| Unit { file, node, key: None };
    let Some(root) = origin.document.element() else { return Vec::new() };
    if root.local_name() == "definitions" {
        return root.children().filter(|child| child.is_element()).map(unit).collect();
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

/// A name of a sequence or an endpoint; of one in the registry, its path there.
pub(super) fn in_registry_or(name: &str) -> Cow<'_, str> {
    model::resource_path(name).map_or(Cow::Borrowed(name), Cow::Owned)
}

/// The sequences and endpoints of the registry that `artefacts` name, and those that these name, by their paths.
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
        let is_artefact = document.element().is_some_and(|root| {
            root.namespace() == NAMESPACE && matches!(root.local_name(), "sequence" | "endpoint")
        });
        if is_artefact {
            let new = named_paths(&document).into_iter().filter(|path| !paths.contains(path));
            left.extend(new);
            paths.extend(left.iter().cloned());
            found.push((path, resource.file.as_path(), document));
        }
    }
    found
}

/// The paths in the registry that its attributes name.
fn named_paths(document: &xml::Document) -> Vec<String> {
    let elements = document.root().descendants().filter(|node| node.is_element());
    let keys = elements.flat_map(|element| element.attributes().map(|one| one.text()));
    keys.filter_map(model::resource_path).collect()
}

/// Whether a text or an attribute has `name` in it.
pub(super) fn mentions(artefact: xml::Node<'_>, name: &str) -> bool {
    let has = |node: xml::Node<'_>| node.text().contains(name);
    artefact.descendants().any(|node| has(node) || node.attributes().any(has))
}
