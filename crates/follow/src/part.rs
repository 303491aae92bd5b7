//! The contribution of one file to a snapshot, and its claims: paths, or names of artefacts.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use formats::openapi::{self, normalised};
use formats::synapse;
use model::{
    Api, Application, ArtefactKind, ArtefactSet, Diagnostic, KeyCredential, Place, Severity,
};

use crate::shared::Shared;

/// The contribution of a file to a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Api(Arc<Api>),
    /// The artefacts of a file or of an archive.
    Artefacts(Arc<ArtefactSet>),
    Application(Arc<Application>),
}

/// A path or name that only one file may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Claim {
    /// `host` is empty for every host.
    Path {
        host: String,
        path: String,
    },
    Artefact(ArtefactKind, String),
    Resource(String),
    Application(String),
    Key(KeyCredential),
}

/// The result of reading a file.
#[derive(Debug, Default)]
pub(crate) struct Content {
    /// Absent if the file is not valid.
    pub(crate) part: Option<Part>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The API that answers 503 in place of an invalid description whose base path could be read.
    pub(crate) placeholder: Option<Api>,
    /// The readable artefacts of an invalid archive, only for [`crate::check`].
    pub(crate) rest: Option<ArtefactSet>,
}

impl Content {
    pub(crate) fn of_api(file: &Path, outcome: openapi::Outcome) -> Self {
        let openapi::Outcome { api, diagnostics, base_path, hosts } = outcome;
        let unreadable = base_path.filter(|_| api.is_none());
        let placeholder = unreadable.map(|path| unloaded_api(file, path, hosts));
        let part = api.map(|api| Part::Api(Arc::new(api)));
        Self { part, diagnostics, placeholder, ..Self::default() }
    }

    pub(crate) fn of_artefacts(outcome: synapse::Outcome) -> Self {
        let synapse::Outcome { set, rest, diagnostics } = outcome;
        let part = set.map(|set| Part::Artefacts(Arc::new(set)));
        Self { part, diagnostics, rest, ..Self::default() }
    }

    pub(crate) fn of_application(read: (Option<Application>, Vec<Diagnostic>)) -> Self {
        let (application, diagnostics) = read;
        let part = application.map(|application| Part::Application(Arc::new(application)));
        Self { part, diagnostics, ..Self::default() }
    }

    /// Whether a part of the file could not be read, perhaps because it is still being written.
    pub(crate) fn is_incomplete(&self) -> bool {
        match &self.part {
            None => true,
            Some(Part::Artefacts(set)) => set.artefacts.iter().any(|one| !one.problems.is_empty()),
            Some(Part::Api(_) | Part::Application(_)) => false,
        }
    }

    /// Replaces the subscriptions of an application by equal shared ones.
    pub(crate) fn share(&mut self, shared: &Shared) {
        if let Some(Part::Application(application)) = &mut self.part {
            shared.share(Arc::make_mut(application));
        }
    }

    /// The content for a file that cannot be read.
    pub(crate) fn unreadable(file: &Path, problem: String) -> Self {
        let diagnostic = Diagnostic {
            severity: Severity::Error,
            file: file.to_owned(),
            place: None,
            message: problem,
            help: None,
        };
        Self { diagnostics: vec![diagnostic], ..Self::default() }
    }
}

impl Part {
    /// Everything that the file claims.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        match self {
            Self::Api(api) => api_claims(api),
            Self::Artefacts(set) => artefact_claims(set),
            Self::Application(application) => {
                let keys = application.keys.iter().map(|key| Claim::Key(key.credential.clone()));
                std::iter::once(Claim::Application(application.name.clone())).chain(keys).collect()
            }
        }
    }

    /// The place in `file`, from which the part was read, that makes a claim, if known.
    pub(crate) fn place_of(&self, claim: &Claim, file: &Path) -> Option<Place> {
        let (Self::Artefacts(set), Claim::Artefact(kind, name)) = (self, claim) else {
            return None;
        };
        synapse::place_in(set, file, (*kind, name))
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path { host, path } => {
                write!(f, "the path `{}`", if path.is_empty() { "/" } else { path })?;
                if host.is_empty() { Ok(()) } else { write!(f, " of host `{host}`") }
            }
            Self::Artefact(kind, name) => write!(f, "the {} `{name}`", kind.element()),
            Self::Resource(path) => write!(f, "the resource `{path}`"),
            Self::Application(name) => write!(f, "the application `{name}`"),
            Self::Key(KeyCredential::ClientId(id)) => write!(f, "the client ID `{id}`"),
            Self::Key(KeyCredential::ApiKeySha256(_)) => f.write_str("one of the API keys"),
        }
    }
}

impl Claim {
    /// The remedy if another file has the claim.
    pub(crate) fn help(&self) -> &'static str {
        match self {
            Self::Path { .. } => {
                "change the x-wso2-basePath of one of the two files, or remove one; this version is \
                 loaded as soon as the path is free"
            }
            Self::Key(_) => {
                "a key belongs to one application: remove it from one of the two files; this version is \
                 loaded as soon as the key is free"
            }
            Self::Artefact(..) | Self::Resource(_) | Self::Application(_) => {
                "rename it in one of the two files, or remove one; this version is loaded as soon as \
                 the name is free"
            }
        }
    }
}

/// Every host and path that the API claims, as routing compares paths. A wildcard host and a host that it matches are
/// different claims: the exact one takes precedence.
pub(crate) fn api_claims(api: &Api) -> Vec<Claim> {
    let paths = [Some(&api.base_path), api.default_path.as_ref()];
    let paths = paths.into_iter().flatten().map(|path| normalised(path));
    if api.hosts.is_empty() {
        return paths.map(|path| Claim::Path { host: String::new(), path }).collect();
    }
    let of_hosts = |path: String| {
        api.hosts.iter().map(move |host| Claim::Path { host: host.clone(), path: path.clone() })
    };
    paths.flat_map(of_hosts).collect()
}

fn artefact_claims(set: &ArtefactSet) -> Vec<Claim> {
    let mut claims: Vec<_> = set.resources.keys().cloned().map(Claim::Resource).collect();
    for artefact in &set.artefacts {
        if artefact.kind == ArtefactKind::Definitions {
            let contained = artefact.contains.iter().cloned();
            claims.extend(contained.map(|(kind, name)| Claim::Artefact(kind, name)));
        } else {
            claims.push(Claim::Artefact(artefact.kind, artefact.name.clone()));
        }
    }
    claims
}

/// The API that stands for a file that was never valid.
pub(crate) fn unloaded_api(file: &Path, base_path: String, hosts: Vec<String>) -> Api {
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Api { hosts, source: file.to_owned(), ..Api::new(name, String::new(), base_path) }
}
