//! Synapse artefacts as they were found: files and archives, checked but not compiled.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::Diagnostic;

/// Everything that the folders of `[integration] artifacts` hold. What is in it belongs together: an archive is in
/// it whole, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtefactSet {
    /// Ordered by file; those of one archive follow each other. No two of one kind have the same name.
    pub artefacts: Vec<Artefact>,
    /// By path: `conf:/a/b` or `gov:/a/b`.
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

/// What tells an API from others, its versions included. Source: Synapse's `API.getName`.
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
    /// Of a `definitions` file, the name of the file; of an API, its [`api_key`].
    pub name: String,
    /// As the archive says; empty if nothing does.
    pub version: String,
    /// As diagnostics name it: `orders.xml`, or `orders.car!/Orders_1.0.0/Orders-1.0.0.xml`.
    pub file: PathBuf,
    /// Well-formed XML in which parameters such as `$SYSTEM:NAME` are replaced by their values.
    pub bytes: Arc<[u8]>,
    /// What its expressions read as `configs.NAME`.
    pub configs: BTreeMap<String, String>,
    /// The documents that it names by URL or file: in `publishWSDL`, in an endpoint `wsdl`, as `src` of a local entry.
    pub documents: BTreeMap<String, Arc<[u8]>>,
    /// Of a `definitions` file, the kinds and names of what it contains; else empty.
    pub contains: Vec<(ArtefactKind, String)>,
    /// What was found when it was read; an error is one of the artefact of `definitions` in which it is. Of an archive,
    /// which is read whole or not at all, always empty.
    pub problems: Vec<Diagnostic>,
    /// The archive that holds it; absent for a file of its own.
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
    /// A file with several artefacts, which its document element `definitions` contains.
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

    /// The document element.
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
    /// As diagnostics name it.
    pub file: PathBuf,
    /// Empty if nothing says.
    pub media_type: String,
    pub properties: BTreeMap<String, String>,
    pub bytes: Arc<[u8]>,
}

impl Resource {
    /// Its content as text, or a property.
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
