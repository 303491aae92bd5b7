//! One XML file: an artefact, or `definitions` with several.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Artefact, ArtefactKind, ArtefactSet, CompositeApplication, Place};

use crate::report::{Report, shorten, suggest};

use super::role::unserved;
use super::{Outside, documents, parameters, parse, place_of};

/// Synapse's configuration language.
pub(super) const NAMESPACE: &str = "http://ws.apache.org/ns/synapse";

/// Document elements of files beside artefacts: Maven, tests, the server's registry.
const BESIDE: [&str; 4] = ["project", "artifacts", "artifact", "unit-test"];

/// Parts of a server's own configuration other than artefacts, which are ignored.
const SERVER_PARTS: [&str; 2] = ["registry", "taskManager"];

/// Folders whose files Micro Integrator deploys, so that anything else in them is a mistake.
const FOLDERS: [&str; 10] = [
    "api",
    "apis",
    "proxy-services",
    "sequences",
    "endpoints",
    "local-entries",
    "templates",
    "inbound-endpoints",
    "message-stores",
    "tasks",
];

/// The file and archive of an artefact.
pub(super) struct Origin<'o> {
    /// The file as diagnostics name it.
    pub(super) file: PathBuf,
    pub(super) version: String,
    pub(super) application: Option<&'o Arc<CompositeApplication>>,
}

/// The place in `file`, from which `set` was read, that defines the artefact of this kind and name. `None` for an
/// archive.
#[must_use]
pub fn place_in(
    set: &ArtefactSet,
    file: &Path,
    (kind, name): (ArtefactKind, &str),
) -> Option<Place> {
    let artefact = set.artefacts.iter().find(|artefact| artefact.file == file)?;
    let document = xml::Document::parse(&artefact.bytes).ok()?;
    let root = document.element()?;
    let is_it = |node: &xml::Node<'_>| {
        node.local_name() == kind.element() && named(*node, kind).is_some_and(|own| own == name)
    };
    let found = std::iter::once(root).chain(root.elements()).find(is_it)?;
    Some(place_of(found))
}

/// Reads a single XML file.
pub(super) fn read_file(
    file: &Path,
    bytes: &[u8],
    outside: Outside<'_>,
    report: &mut Report,
) -> ArtefactSet {
    let Some(document) = parse(bytes, report) else { return ArtefactSet::default() };
    let Some(root) = document.element() else { return ArtefactSet::default() };
    let is_of_server = SERVER_PARTS.contains(&root.local_name());
    if is_of_server || root.namespace() != NAMESPACE && BESIDE.contains(&root.local_name()) {
        return ArtefactSet::default();
    }
    let folder = file.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let is_deployed = folder.is_some_and(|folder| FOLDERS.contains(&folder));
    if root.namespace() != NAMESPACE && kind_of(root).is_none() && !is_deployed {
        let message =
            format!("the document element `{}` is not an artefact", shorten(root.local_name()));
        report.warning(place_of(root), message, "the file is not read; move it if it is data");
        return ArtefactSet::default();
    }
    let origin = Origin { file: file.to_owned(), version: String::new(), application: None };
    let artefact = read(origin, bytes, &document, outside, report);
    ArtefactSet { artefacts: artefact.into_iter().collect(), ..ArtefactSet::default() }
}

/// Reads the artefact of a document.
pub(super) fn read(
    origin: Origin<'_>,
    bytes: &[u8],
    document: &xml::Document,
    outside: Outside<'_>,
    report: &mut Report,
) -> Option<Artefact> {
    let root = document.element()?;
    let kind = checked_kind(root, &ArtefactKind::ALL, report)?;
    let mut own = Report::new(&origin.file);
    // An error in an archive rejects all of it.
    let found = if origin.application.is_some() { report } else { &mut own };
    let mut contains = Vec::new();
    let name = if kind == ArtefactKind::Definitions {
        contains = definitions(root, found);
        origin.file.file_name().map(|name| name.to_string_lossy().into_owned())?
    } else {
        name_of(root, kind, found)?
    };
    let bytes = parameters::replaced(bytes, document, outside.parameter, found);
    let configs = parameters::configs(document, outside.parameter, found);
    let documents = documents::read(document, outside, found);
    Some(Artefact {
        kind,
        name,
        version: origin.version,
        problems: own.finish(&origin.file),
        file: origin.file,
        bytes: bytes.into(),
        configs,
        documents,
        contains,
        application: origin.application.cloned(),
    })
}

/// The artefacts in `definitions`. Parts of the server's own configuration are skipped.
fn definitions(root: xml::Node<'_>, report: &mut Report) -> Vec<(ArtefactKind, String)> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let [inner @ .., _] = ArtefactKind::ALL;
    for child in root.elements() {
        if SERVER_PARTS.contains(&child.local_name()) || child.local_name() == "description" {
            continue;
        }
        let Some(kind) = checked_kind(child, &inner, report) else { continue };
        let Some(name) = name_of(child, kind, report) else { continue };
        // The compiler reports duplicates.
        if seen.insert((kind, name.clone())) {
            found.push((kind, name));
        }
    }
    found
}

fn kind_of(node: xml::Node<'_>) -> Option<ArtefactKind> {
    ArtefactKind::ALL.into_iter().find(|kind| kind.element() == node.local_name())
}

/// The kind of an artefact's element, if it is one of `known` and served.
fn checked_kind(
    node: xml::Node<'_>,
    known: &[ArtefactKind],
    report: &mut Report,
) -> Option<ArtefactKind> {
    let (name, place) = (node.local_name(), place_of(node));
    if let Some(row) = unserved(name) {
        return report.reject(place, format!("`{name}`: {}", row.message), row.help);
    }
    let Some(kind) = kind_of(node).filter(|kind| known.contains(kind)) else {
        let names: Vec<_> = known.iter().map(|kind| kind.element()).collect();
        let help = suggest(name, names.iter().copied(), || {
            format!("the artefacts are {}", names.join(", "))
        });
        return report.reject(place, format!("unknown artefact `{}`", shorten(name)), help);
    };
    if node.namespace() != NAMESPACE {
        let help = format!("declare xmlns=\"{NAMESPACE}\"");
        return report.reject(place, format!("`{name}` is not in Synapse's namespace"), help);
    }
    Some(kind)
}

/// The attribute with the artefact's name.
fn key_of(kind: ArtefactKind) -> &'static str {
    if kind == ArtefactKind::LocalEntry { "key" } else { "name" }
}

fn name_of(node: xml::Node<'_>, kind: ArtefactKind, report: &mut Report) -> Option<String> {
    let key = key_of(kind);
    let name = named(node, kind);
    if name.is_none() {
        let message = format!("`{}` has no `{key}`", kind.element());
        report.error(place_of(node), message, format!("add {key}=\"...\""));
    }
    name
}

fn named(node: xml::Node<'_>, kind: ArtefactKind) -> Option<String> {
    let name = node.attribute("", key_of(kind)).filter(|name| !name.trim().is_empty());
    name.map(|name| match kind {
        ArtefactKind::Api => model::api_key(name, node.attribute("", "version")),
        ArtefactKind::Proxy
        | ArtefactKind::Sequence
        | ArtefactKind::Endpoint
        | ArtefactKind::LocalEntry
        | ArtefactKind::Template
        | ArtefactKind::InboundEndpoint
        | ArtefactKind::Definitions => name.to_owned(),
    })
}
