//! Registry resources of mirrored folders, Maven modules and archives.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::limits;
use model::{ArtefactSet, Resource, resource_path};

use crate::report::{Report, shorten};

use super::{Outside, child_text, parse, place_of};

/// Media types by a file's ending.
const MEDIA_TYPES: [(&str, &str); 5] = [
    (".xslt", "application/xslt+xml"),
    (".xsl", "application/xslt+xml"),
    (".xml", "application/xml"),
    (".json", "application/json"),
    (".js", "application/javascript"),
];

/// One `item` of a manifest.
pub(super) struct Item {
    /// The file as written, relative to the manifest or to the `resources` folder of an archive.
    pub(super) file: String,
    pub(super) is_folder: bool,
    /// The path in the registry; for a folder, the path of its contents.
    pub(super) path: String,
    pub(super) media_type: String,
    properties: BTreeMap<String, String>,
    pub(super) place: model::Place,
}

/// A file in a folder that mirrors the registry. The file with its properties is beside it, as in Micro Integrator.
pub(super) fn resource(
    file: &Path,
    path: String,
    bytes: &[u8],
    outside: Outside<'_>,
) -> ArtefactSet {
    let mut set = ArtefactSet::default();
    let media_type = media_type(&path);
    let name = file.file_name().map(|name| format!("{}.properties", name.to_string_lossy()));
    let beside = name.and_then(|name| (outside.file)(&name).ok()).unwrap_or_default();
    let properties = properties(&String::from_utf8_lossy(&beside));
    let (file, bytes) = (file.to_owned(), bytes.into());
    set.resources.insert(path, Resource { file, media_type, properties, bytes });
    set
}

/// The lines `name=value` of a file of properties.
fn properties(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', '!']));
    let pair = |line: &str| {
        let (name, value) = line.split_once(['=', ':'])?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    lines.filter_map(pair).collect()
}

/// The resources that a Maven module's `artifact.xml` names.
pub(super) fn manifest(bytes: &[u8], outside: Outside<'_>, report: &mut Report) -> ArtefactSet {
    let mut set = ArtefactSet::default();
    let Some(document) = parse(bytes, report) else { return set };
    let folder = report.file().parent().unwrap_or(Path::new("")).to_owned();
    let artifacts = document.root().descendants();
    let is_resource = |node: &xml::Node<'_>| {
        node.local_name() == "artifact" && node.attribute("", "type") == Some("registry/resource")
    };
    for artifact in artifacts.filter(|node| node.is_element() && is_resource(node)) {
        for item in items(artifact, report) {
            if item.is_folder {
                let help = "name each file as an `item`";
                report.error(item.place, "folders of resources are not read", help);
                continue;
            }
            match (outside.file)(&item.file) {
                Ok(bytes) => {
                    let file = folder.join(&item.file);
                    let content = (file.as_path(), bytes.into());
                    insert(&mut set, &item, item.path.clone(), content, report);
                }
                Err(problem) => {
                    let message = format!("`{}` {problem}", shorten(&item.file));
                    report.error(item.place, message, "correct the path");
                }
            }
        }
    }
    set
}

/// The `item`s and `collection`s below `parent`.
pub(super) fn items(parent: xml::Node<'_>, report: &mut Report) -> Vec<Item> {
    let mut found = Vec::new();
    for node in parent.elements() {
        let (is_folder, tag) = match node.local_name() {
            "item" => (false, "file"),
            "collection" => (true, "directory"),
            "dump" | "association" => {
                let message = format!("`{}` of a registry resource is not read", node.local_name());
                report.error(place_of(node), message, "name each file as an `item`");
                continue;
            }
            _ => continue,
        };
        let (file, folder) = (child_text(node, tag), child_text(node, "path"));
        let name = file.rsplit('/').next().unwrap_or(&file);
        let full = if is_folder {
            folder.clone()
        } else {
            format!("{}/{name}", folder.trim_end_matches('/'))
        };
        let plain = !file.is_empty()
            && !file.contains('\\')
            && file.split('/').all(|part| !matches!(part, "" | "." | ".."));
        let path = resource_path(&full).filter(|_| plain);
        let Some(path) = path else {
            let message =
                format!("`{}` at `{}` is not a resource", shorten(&file), shorten(&folder));
            let help = format!(
                "write a file below the manifest as <{tag}>, and a <path> below /_system/governance \
                 or /_system/config"
            );
            report.error(place_of(node), message, help);
            continue;
        };
        let media_type = child_text(node, "mediaType");
        let all = node.elements().filter(|child| child.local_name() == "properties");
        let pair = |property: xml::Node<'_>| {
            let value = property.attribute("", "value").unwrap_or_default();
            Some((property.attribute("", "key")?.to_owned(), value.to_owned()))
        };
        let properties = all.flat_map(xml::Node::elements).filter_map(pair).collect();
        found.push(Item { file, is_folder, path, media_type, properties, place: place_of(node) });
    }
    found
}

/// Adds the resource at `path` that `item` names; `content` is its file and bytes.
pub(super) fn insert(
    set: &mut ArtefactSet,
    item: &Item,
    path: String,
    content: (&Path, Arc<[u8]>),
    report: &mut Report,
) {
    let (file, bytes) = content;
    let media_type = match item.media_type.as_str() {
        "" => media_type(&path),
        written => written.to_owned(),
    };
    if set.resources.len() >= limits::ARCHIVE_ENTRIES_MAX {
        let most = limits::ARCHIVE_ENTRIES_MAX;
        let message = format!("more than {most} resources");
        return report.error(item.place, message, "split the application");
    }
    let (file, properties) = (file.to_owned(), item.properties.clone());
    let resource = Resource { file, media_type, properties, bytes };
    if let Some(before) = set.resources.insert(path.clone(), resource) {
        let message = format!("the resource `{path}` is also {}", before.file.display());
        report.error(item.place, message, "remove one of them");
    }
}

fn media_type(path: &str) -> String {
    let known = MEDIA_TYPES.iter().find(|(ending, _)| path.ends_with(ending));
    known.map_or("", |(_, media_type)| media_type).to_owned()
}
