//! Composite applications, the contents of `.car` archives.
//!
//! `artifacts.xml` names the application and its artefacts; each has a folder with an `artifact.xml` (name, version,
//! type, file). The application is deployed as a whole or not at all.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::limits;
use model::{ArtefactKind, ArtefactSet, CompositeApplication};

use crate::report::{Report, shorten, suggest};

use super::archive::{self, Entries};
use super::artefact::{self, Origin};
use super::role::unserved;
use super::{Outside, child_text, parse, place_of, registry};

/// The kinds of artefact by the archive's types.
const KINDS: [(&str, ArtefactKind); 10] = [
    ("synapse/api", ArtefactKind::Api),
    ("synapse/proxy-service", ArtefactKind::Proxy),
    ("synapse/sequence", ArtefactKind::Sequence),
    ("synapse/endpoint", ArtefactKind::Endpoint),
    ("synapse/local-entry", ArtefactKind::LocalEntry),
    ("synapse/template", ArtefactKind::Template),
    ("synapse/sequenceTemplate", ArtefactKind::Template),
    ("synapse/endpointTemplate", ArtefactKind::Template),
    ("synapse/inbound-endpoint", ArtefactKind::InboundEndpoint),
    ("synapse/configuration", ArtefactKind::Definitions),
];

/// Types that describe artefacts, and deploy nothing.
const DESCRIPTIONS: [&str; 2] = ["synapse/metadata", "config/property"];

const RESOURCE: &str = "registry/resource";

/// The list of artefacts.
const INDEX: &str = "artifacts.xml";

/// One `artifact.xml`.
struct Manifest {
    /// The folder, with a slash at its end.
    folder: String,
    /// The file as diagnostics name it.
    shown: PathBuf,
    name: String,
    version: String,
    kind: String,
    file: String,
    place: model::Place,
}

/// An artefact that `artifacts.xml` names.
struct Dependency {
    name: String,
    version: String,
    place: model::Place,
}

struct Reader<'r> {
    archive: &'r Path,
    entries: Entries,
    outside: Outside<'r>,
    report: &'r mut Report,
    set: ArtefactSet,
}

/// Reads an archive.
pub(super) fn read(
    file: &Path,
    bytes: &[u8],
    outside: Outside<'_>,
    report: &mut Report,
) -> ArtefactSet {
    let Some(entries) = archive::entries(bytes, report) else { return ArtefactSet::default() };
    let mut reader =
        Reader { archive: file, entries, outside, report, set: ArtefactSet::default() };
    let Some((application, dependencies)) = reader.index() else { return ArtefactSet::default() };
    let application = Arc::new(application);
    let mut manifests = reader.manifests();
    for dependency in &dependencies {
        let key = (dependency.name.clone(), dependency.version.clone());
        match manifests.remove(&key) {
            Some(manifest) => reader.artefact(&manifest, &application),
            None => reader.missing(dependency, manifests.keys()),
        }
    }
    for manifest in manifests.values().filter(|left| !DESCRIPTIONS.contains(&&*left.kind)) {
        reader.report.enter(manifest.shown.clone());
        let message = format!("`{}` is not named by {INDEX}", manifest.name);
        reader.report.warning(manifest.place, message, "add it as a `dependency` to deploy it");
    }
    reader.report.enter(file.to_owned());
    reader.set
}

impl Reader<'_> {
    /// An entry, as diagnostics name it.
    fn shown(&self, entry: &str) -> PathBuf {
        PathBuf::from(format!("{}!/{entry}", self.archive.display()))
    }

    /// Parses an entry. Later diagnostics are about this entry.
    fn parse(&mut self, entry: &str) -> Option<xml::Document> {
        let shown = self.shown(entry);
        self.report.enter(shown);
        parse(self.entries.get(entry)?, self.report)
    }

    fn index(&mut self) -> Option<(CompositeApplication, Vec<Dependency>)> {
        if !self.entries.contains_key(INDEX) {
            let help = "build the archive with Micro Integrator's Maven plugin";
            return self.report.reject(None, format!("the archive has no {INDEX}"), help);
        }
        let document = self.parse(INDEX)?;
        let is_application =
            |node: &xml::Node<'_>| node.attribute("", "type") == Some("carbon/application");
        let found = document.element()?.elements().find(is_application);
        let Some(node) = found else {
            let help = "write <artifact name=\"...\" version=\"...\" type=\"carbon/application\">";
            let message = "there is no artifact of type carbon/application";
            return self.report.reject(None, message, help);
        };
        let named =
            |node: xml::Node<'_>, key| node.attribute("", key).unwrap_or_default().to_owned();
        let dependencies = node.elements().filter(|child| child.local_name() == "dependency");
        let dependencies = dependencies.map(|node| Dependency {
            name: named(node, "artifact"),
            version: named(node, "version"),
            place: place_of(node),
        });
        let (name, version) = (named(node, "name"), named(node, "version"));
        let application = CompositeApplication { name, version, file: self.archive.to_owned() };
        Some((application, dependencies.collect()))
    }

    /// All `artifact.xml`, by name and version.
    fn manifests(&mut self) -> BTreeMap<(String, String), Manifest> {
        let mut found = BTreeMap::new();
        let is_manifest = |name: &&String| name.ends_with("/artifact.xml");
        let names: Vec<String> = self.entries.keys().filter(is_manifest).cloned().collect();
        for entry in names {
            let Some(document) = self.parse(&entry) else { continue };
            let Some(node) = document.element() else { continue };
            let attribute = |key| node.attribute("", key).unwrap_or_default().to_owned();
            let manifest = Manifest {
                folder: entry.trim_end_matches("artifact.xml").to_owned(),
                shown: self.shown(&entry),
                name: attribute("name"),
                version: attribute("version"),
                kind: attribute("type"),
                file: child_text(node, "file"),
                place: place_of(node),
            };
            let key = (manifest.name.clone(), manifest.version.clone());
            if found.contains_key(&key) {
                let message = format!("there are two artefacts `{}` {}", key.0, key.1);
                self.report.error(manifest.place, message, "remove one of them");
            }
            found.insert(key, manifest);
        }
        found
    }

    fn missing<'m>(
        &mut self,
        dependency: &Dependency,
        left: impl Iterator<Item = &'m (String, String)>,
    ) {
        let index = self.shown(INDEX);
        self.report.enter(index);
        let Dependency { name, version, place } = dependency;
        let left: Vec<_> = if self.report.may_suggest() { left.collect() } else { Vec::new() };
        let other = left.iter().find(|(known, _)| known == name);
        let help = match other {
            Some((_, other)) => format!("the archive has version {other}"),
            None => suggest(name, left.iter().map(|(known, _)| known.as_str()), || {
                "build the archive with all of its artefacts".to_owned()
            }),
        };
        let (name, version) = (shorten(name), shorten(version));
        self.report.error(*place, format!("the archive has no artefact `{name}` {version}"), help);
    }

    fn artefact(&mut self, manifest: &Manifest, application: &Arc<CompositeApplication>) {
        self.report.enter(manifest.shown.clone());
        let kind = manifest.kind.as_str();
        if DESCRIPTIONS.contains(&kind) {
            return;
        }
        if let Some(row) = unserved(kind) {
            let message = format!("`{}` ({kind}): {}", shorten(&manifest.name), row.message);
            return self.report.error(manifest.place, message, row.help);
        }
        let entry = format!("{}{}", manifest.folder, manifest.file);
        if !self.entries.contains_key(&entry) {
            let message = format!("the archive has no file `{}`", shorten(&entry));
            return self.report.error(manifest.place, message, "correct <file>");
        }
        if kind == RESOURCE {
            return self.resources(manifest, &entry);
        }
        let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == kind) else {
            let known = KINDS.iter().map(|(known, _)| *known).chain([RESOURCE]);
            let help = suggest(kind, known, || "remove it from the application".to_owned());
            let message = format!("unknown type `{}`", shorten(kind));
            return self.report.error(manifest.place, message, help);
        };
        self.synapse(manifest, &entry, *kind, application);
    }

    fn synapse(
        &mut self,
        manifest: &Manifest,
        entry: &str,
        kind: ArtefactKind,
        application: &Arc<CompositeApplication>,
    ) {
        let Some(document) = self.parse(entry) else { return };
        let origin = Origin {
            file: self.shown(entry),
            version: manifest.version.clone(),
            application: Some(application),
        };
        let bytes = self.entries.get(entry).map(|bytes| &**bytes).unwrap_or_default();
        let read = artefact::read(origin, bytes, &document, self.outside, self.report);
        let Some(artefact) = read else { return };
        let place = document.element().map(place_of);
        if artefact.kind != kind {
            let (found, element) = (artefact.kind.element(), kind.element());
            let message =
                format!("the document element is `{found}`, but artifact.xml says `{element}`");
            self.report.error(place, message, "correct the type in artifact.xml");
        }
        let same =
            |other: &&model::Artefact| other.kind == artefact.kind && other.name == artefact.name;
        if let Some(other) = self.set.artefacts.iter().find(same) {
            let message =
                format!("`{}` is already defined by {}", artefact.name, other.file.display());
            self.report.error(place, message, "rename one of them");
        }
        self.set.artefacts.push(artefact);
    }

    /// The resources that a `registry-info.xml` names.
    fn resources(&mut self, manifest: &Manifest, info: &str) {
        let Some(document) = self.parse(info) else { return };
        let Some(root) = document.element() else { return };
        for item in registry::items(root, self.report) {
            let from = format!("{}resources/{}", manifest.folder, item.file);
            let below = format!("{from}/");
            let inside = self.entries.range::<str, _>((Bound::Included(&*below), Bound::Unbounded));
            let inside = inside.take_while(|(entry, _)| entry.starts_with(&below));
            let named = self.entries.get_key_value(&from).into_iter().chain(inside);
            // Items may name a file or folder many times; they share its bytes.
            let room = limits::ARCHIVE_ENTRIES_MAX.saturating_sub(self.set.resources.len());
            let named = named.take(room.saturating_add(1));
            let named: Vec<_> =
                named.map(|(entry, bytes)| (entry.clone(), Arc::clone(bytes))).collect();
            if named.is_empty() {
                let message = format!("the archive has no file `{}`", shorten(&from));
                self.report.error(item.place, message, "build the archive with it");
            }
            for (entry, bytes) in named {
                let shown = self.shown(&entry);
                let path = match entry.strip_prefix(&below).filter(|_| item.is_folder) {
                    Some(inside) => format!("{}/{inside}", item.path),
                    None => item.path.clone(),
                };
                registry::insert(&mut self.set, &item, path, (&shown, bytes), self.report);
            }
        }
    }
}
