//! Synapse artefacts as loaded from files and archives: checked but not compiled.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::Diagnostic;

/// All artefacts in the folders of `[integration] artifacts`. The set is consistent: an archive is included as a whole
/// or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtefactSet {
    /// Artefacts ordered by file; those of one archive are adjacent. Names are unique within a kind.
    pub artefacts: Vec<Artefact>,
    /// Registry resources by path: `conf:/a/b` or `gov:/a/b`.
    pub resources: BTreeMap<String, Resource>,
}

impl ArtefactSet {
    /// The resource of a key as artefacts write it: `conf:a/b`, `gov:/a/b`, `resources:a/b` or
    /// `/_system/governance/a/b`.
    #[must_use]
    pub fn resource(&self, key: &str) -> Option<&Resource> {
        self.resources.get(&resource_path(key)?)
    }
}

/// The registry path of a key as artefacts write it; `None` if it is not a key of the registry.
#[must_use]
pub fn resource_path(key: &str) -> Option<String> {
    const PREFIXES: [(&str, &str); 5] = [
        ("conf:", "conf:"),
        ("gov:", "gov:"),
        ("resources:", "gov:/mi-resources"),
        ("/_system/config/", "conf:"),
        ("/_system/governance/", "gov:"),
    ];
    let found = PREFIXES.iter().find_map(|(prefix, root)| Some((root, key.strip_prefix(prefix)?)));
    let (root, path) = found?;
    let path = path.trim_start_matches('/');
    (!path.is_empty()).then(|| format!("{root}/{path}"))
}

/// The key that identifies an API in one version. Source: Synapse's `API.getName`.
#[must_use]
pub fn api_key(name: &str, version: Option<&str>) -> String {
    match version.filter(|version| !version.is_empty()) {
        Some(version) => format!("{name}:v{version}"),
        None => name.to_owned(),
    }
}

/// One artefact: an XML file, or an entry of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artefact {
    pub kind: ArtefactKind,
    /// The name of the artefact: for a `definitions` file, the file name; for an API, its [`api_key`].
    pub name: String,
    /// Version in the archive's metadata; empty if it has none.
    pub version: String,
    /// The file as diagnostics name it: `orders.xml`, or `orders.car!/Orders_1.0.0/Orders-1.0.0.xml`.
    pub file: PathBuf,
    /// Well-formed XML in which parameters such as `$SYSTEM:NAME` are replaced by their values.
    pub bytes: Arc<[u8]>,
    /// Values that the artefact's expressions read as `configs.NAME`.
    pub configs: BTreeMap<String, String>,
    /// The documents that the artefact names by URL or file: in `publishWSDL`, in an endpoint `wsdl`, as `src` of a
    /// local entry.
    pub documents: BTreeMap<String, Arc<[u8]>>,
    /// Kinds and names of the artefacts in a `definitions` file; empty for other artefacts.
    pub contains: Vec<(ArtefactKind, String)>,
    /// Problems found when the file was read. In a `definitions` file, an error concerns only the artefact that
    /// contains it. Always empty for an archive, which is read as a whole or not at all.
    pub problems: Vec<Diagnostic>,
    /// The archive that contains the artefact; absent for a single file.
    pub application: Option<Arc<CompositeApplication>>,
}

/// A composite application: a `.car` archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositeApplication {
    pub name: String,
    pub version: String,
    /// The archive.
    pub file: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArtefactKind {
    Api,
    Proxy,
    Sequence,
    Endpoint,
    LocalEntry,
    Template,
    InboundEndpoint,
    /// A file with several artefacts inside the document element `definitions`.
    Definitions,
}

impl ArtefactKind {
    pub const ALL: [Self; 8] = [
        Self::Api,
        Self::Proxy,
        Self::Sequence,
        Self::Endpoint,
        Self::LocalEntry,
        Self::Template,
        Self::InboundEndpoint,
        Self::Definitions,
    ];

    /// Name of the document element.
    #[must_use]
    pub fn element(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Proxy => "proxy",
            Self::Sequence => "sequence",
            Self::Endpoint => "endpoint",
            Self::LocalEntry => "localEntry",
            Self::Template => "template",
            Self::InboundEndpoint => "inboundEndpoint",
            Self::Definitions => "definitions",
        }
    }
}

/// A registry resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// The file as diagnostics name it.
    pub file: PathBuf,
    /// Media type; empty if unknown.
    pub media_type: String,
    pub properties: BTreeMap<String, String>,
    pub bytes: Arc<[u8]>,
}

impl Resource {
    /// The resource's content as text, or the value of a property.
    #[must_use]
    pub fn text(&self, property: Option<&str>) -> Option<Cow<'_, str>> {
        match property {
            None => Some(String::from_utf8_lossy(&self.bytes)),
            Some(name) => {
                let own = self.properties.get(name);
                let media_type = (name == "mediaType").then_some(&self.media_type);
                own.or(media_type).map(|value| Cow::Borrowed(value.as_str()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_one_resource_are_one_path() {
        for key in ["gov:xslt/a.xslt", "gov:/xslt/a.xslt", "/_system/governance/xslt/a.xslt"] {
            assert_eq!(resource_path(key).as_deref(), Some("gov:/xslt/a.xslt"), "{key}");
        }
        assert_eq!(resource_path("conf:/a").as_deref(), Some("conf:/a"));
        assert_eq!(resource_path("/_system/config/a").as_deref(), Some("conf:/a"));
        assert_eq!(resource_path("resources:x/a").as_deref(), Some("gov:/mi-resources/x/a"));
        for key in ["a", "gov:", "local:a", ""] {
            assert_eq!(resource_path(key), None, "{key}");
        }
    }
}
