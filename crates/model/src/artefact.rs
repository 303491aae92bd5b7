//! Synapse artefacts as they were found: files and archives, checked but not compiled.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Everything that the folders of `[integration] artifacts` hold. What is in it belongs together: an archive is in
/// it whole, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtefactSet {
    /// Ordered by file; those of one archive follow each other. No two of one kind have the same name.
    pub artefacts: Vec<Artefact>,
    /// By path: `conf:/a/b`, `gov:/a/b` or `local:/a/b`.
    pub resources: BTreeMap<String, Resource>,
}

/// One artefact: an XML file, or an entry of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artefact {
    pub kind: ArtefactKind,
    /// Of a `definitions` file, the name of the file.
    pub name: String,
    /// As the archive says; empty if nothing does.
    pub version: String,
    /// As diagnostics name it: `orders.xml`, or `orders.car!/Orders_1.0.0/Orders-1.0.0.xml`.
    pub file: PathBuf,
    /// Well-formed XML in which parameters such as `$SYSTEM:NAME` have their values.
    pub bytes: Arc<[u8]>,
    /// The archive that holds it; absent for a file of its own.
    pub application: Option<Arc<Application>>,
}

/// A composite application: a `.car` archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// As diagnostics name it.
    pub file: PathBuf,
    /// Empty if nothing says.
    pub media_type: String,
    pub bytes: Arc<[u8]>,
}
