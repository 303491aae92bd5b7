//! Decides which API of which file is served, without access to files.
//!
//! Each file has at most one API that is served, and at most one newer version that waits because
//! another file serves a path that it claims. An invalid version changes only the diagnostics.
//!
//! Architecture invariant: no two served APIs claim the same host and path, in whatever order the
//! files come.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use formats::openapi::{Outcome, normalised};
use model::{Api, ApiState, Diagnostic, LoadedApi, Severity};

/// What was found when a file was looked at.
#[derive(Debug)]
pub(crate) enum Found {
    /// It was read, and its content is valid or not.
    Read(Box<Outcome>),
    /// It is gone at the moment. Its API is still served, unless another file claims its path: a
    /// rename looks like one missing file and one new file.
    Missing,
    /// It is gone for good.
    Removed,
}

/// The effects of a batch of changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Applied {
    /// Whether [`Catalogue::apis`] returns something new.
    pub(crate) changed: bool,
    /// Files whose newest version is now served, or which are gone for good.
    pub(crate) loaded: Vec<PathBuf>,
    /// Files whose newest version was rejected.
    pub(crate) rejected: Vec<PathBuf>,
    /// Files whose diagnostics may have changed.
    pub(crate) touched: BTreeSet<PathBuf>,
}

#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    files: BTreeMap<Arc<Path>, Entry>,
    /// The file that serves a host and path.
    owners: HashMap<Claim, Arc<Path>>,
    /// Files with a `candidate`.
    waiting: BTreeSet<Arc<Path>>,
    /// Files with a `placeholder`.
    unloaded: BTreeSet<Arc<Path>>,
    arrivals: u64,
}

/// Host (empty: every host) and path.
type Claim = (String, String);

#[derive(Debug, Default)]
struct Entry {
    serving: Option<Arc<Api>>,
    /// Valid, but not served yet: another file owns one of its claims.
    candidate: Option<Arc<Api>>,
    /// Represents a file that was never valid.
    placeholder: Option<Arc<Api>>,
    diagnostics: Vec<Diagnostic>,
    /// Decides which of two new files comes first.
    arrived: u64,
    missing: bool,
}

impl Catalogue {
    /// Applies a batch of changes, so that two files can exchange their paths.
    pub(crate) fn apply(&mut self, changes: Vec<(PathBuf, Found)>) -> Applied {
        let mut applied = Applied::default();
        let mut read = Vec::new();
        for (file, found) in changes {
            let key: Arc<Path> = Arc::from(file);
            applied.touched.insert(key.to_path_buf());
            match found {
                Found::Read(outcome) => {
                    self.record(&key, outcome, &mut applied);
                    read.push(key);
                }
                Found::Missing => {
                    if let Some(entry) = self.files.get_mut(&key) {
                        entry.missing = true;
                    }
                }
                Found::Removed => self.remove(&key, &mut applied),
            }
        }
        // A promotion may free a path that another file waits for.
        while self.promote(&mut applied) {}
        let rejected = read.into_iter().filter(|key| self.is_rejected(key));
        applied.rejected = rejected.map(|key| key.to_path_buf()).collect();
        applied.touched.extend(self.waiting.iter().map(|key| key.to_path_buf()));
        applied
    }

    /// The APIs to serve, ordered by file name.
    pub(crate) fn apis(&self) -> Vec<LoadedApi> {
        let serving = self.files.values().filter_map(|entry| entry.serving.as_ref());
        let mut apis: Vec<LoadedApi> = serving
            .map(|api| LoadedApi { api: Arc::clone(api), state: ApiState::Serving })
            .collect();
        let mut claimed = HashSet::new();
        for key in &self.unloaded {
            let Some(api) = self.files.get(key).and_then(|entry| entry.placeholder.as_ref()) else {
                continue;
            };
            let claims = claims(api);
            if claims.iter().any(|claim| self.owners.contains_key(claim) || claimed.contains(claim))
            {
                continue;
            }
            claimed.extend(claims);
            apis.push(LoadedApi { api: Arc::clone(api), state: ApiState::Unloaded });
        }
        apis
    }

    /// The diagnostics of a file, a path claimed by another one included.
    pub(crate) fn diagnostics(&self, file: &Path) -> Vec<Diagnostic> {
        let Some(entry) = self.files.get(file) else { return Vec::new() };
        let mut diagnostics = entry.diagnostics.clone();
        diagnostics.extend(entry.candidate.as_ref().and_then(|api| self.contested(file, api)));
        diagnostics
    }

    /// Every known file.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(AsRef::as_ref)
    }

    /// How many APIs are served.
    pub(crate) fn count(&self) -> usize {
        self.files.values().filter(|entry| entry.serving.is_some()).count()
    }

    pub(crate) fn knows(&self, file: &Path) -> bool {
        self.files.contains_key(file)
    }

    fn record(&mut self, key: &Arc<Path>, outcome: Box<Outcome>, applied: &mut Applied) {
        let Outcome { api, diagnostics, base_path, hosts } = *outcome;
        let entry = self.files.entry(Arc::clone(key)).or_insert_with(|| {
            self.arrivals += 1;
            Entry { arrived: self.arrivals, ..Entry::default() }
        });
        entry.diagnostics = diagnostics;
        entry.missing = false;
        entry.candidate = None;
        self.waiting.remove(key);
        match api {
            Some(api) if entry.serving.as_deref() == Some(&api) => {
                // Nothing to compile again.
            }
            Some(api) => {
                entry.candidate = Some(Arc::new(api));
                self.waiting.insert(Arc::clone(key));
                applied.changed |= entry.placeholder.take().is_some();
                self.unloaded.remove(key);
            }
            None if entry.serving.is_none() => {
                let placeholder = base_path.map(|path| Arc::new(unloaded_api(key, path, hosts)));
                if entry.placeholder != placeholder {
                    applied.changed = true;
                    entry.placeholder = placeholder;
                }
                if entry.placeholder.is_some() {
                    self.unloaded.insert(Arc::clone(key));
                } else {
                    self.unloaded.remove(key);
                }
            }
            None => {}
        }
    }

    fn remove(&mut self, key: &Arc<Path>, applied: &mut Applied) {
        let Some(entry) = self.files.remove(key) else { return };
        self.waiting.remove(key);
        applied.changed |= self.unloaded.remove(key);
        if let Some(api) = entry.serving {
            self.release(key, &api);
            applied.changed = true;
            applied.loaded.push(key.to_path_buf());
        }
        applied.touched.insert(key.to_path_buf());
    }

    /// Serves as many waiting files as possible. Returns whether there was one.
    fn promote(&mut self, applied: &mut Applied) -> bool {
        let mut candidates: Vec<Arc<Path>> = self.waiting.iter().cloned().collect();
        candidates.sort_by_key(|key| self.files.get(key).map_or(0, |entry| entry.arrived));
        loop {
            let blocked = self.blocked(&candidates);
            if blocked.is_empty() {
                break;
            }
            // A blocked file keeps its old claims, which may block another candidate.
            candidates.retain(|key| !blocked.contains(key));
        }
        for key in &candidates {
            if let Some(old) = self.files.get(key).and_then(|entry| entry.serving.clone()) {
                self.release(key, &old);
            }
        }
        for key in &candidates {
            self.serve(key, applied);
        }
        !candidates.is_empty()
    }

    /// The `candidates` that could not be served if all others were.
    fn blocked(&self, candidates: &[Arc<Path>]) -> HashSet<Arc<Path>> {
        let all: HashSet<&Arc<Path>> = candidates.iter().collect();
        let mut wanted: HashMap<Claim, &Arc<Path>> = HashMap::new();
        let mut blocked = HashSet::new();
        for key in candidates {
            let Some(api) = self.files.get(key).and_then(|entry| entry.candidate.as_ref()) else {
                continue;
            };
            for claim in claims(api) {
                let owner = self.owners.get(&claim);
                if owner.is_some_and(|owner| self.is_present(owner) && !all.contains(owner)) {
                    blocked.insert(Arc::clone(key));
                    continue;
                }
                match wanted.get(&claim) {
                    None => drop(wanted.insert(claim, key)),
                    Some(other) if owner == Some(key) => {
                        blocked.insert(Arc::clone(other));
                        wanted.insert(claim, key);
                    }
                    Some(_) => drop(blocked.insert(Arc::clone(key))),
                }
            }
        }
        blocked
    }

    fn is_present(&self, owner: &Arc<Path>) -> bool {
        self.files.get(owner).is_some_and(|entry| !entry.missing)
    }

    /// Serves the waiting version of `key`.
    fn serve(&mut self, key: &Arc<Path>, applied: &mut Applied) {
        self.waiting.remove(key);
        let Some(entry) = self.files.get_mut(key) else { return };
        let Some(api) = entry.candidate.take() else { return };
        entry.serving = Some(Arc::clone(&api));
        for claim in claims(&api) {
            let before = self.owners.insert(claim, Arc::clone(key));
            if let Some(former) = before.filter(|before| before != key) {
                self.remove(&former, applied);
            }
        }
        applied.changed = true;
        applied.loaded.push(key.to_path_buf());
        applied.touched.insert(key.to_path_buf());
    }

    fn release(&mut self, key: &Arc<Path>, api: &Api) {
        for claim in claims(api) {
            if self.owners.get(&claim) == Some(key) {
                self.owners.remove(&claim);
            }
        }
    }

    fn is_rejected(&self, key: &Arc<Path>) -> bool {
        let invalid = |entry: &Entry| {
            entry.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
        };
        self.waiting.contains(key) || self.files.get(key).is_some_and(invalid)
    }

    fn contested(&self, file: &Path, api: &Api) -> Option<Diagnostic> {
        let claims = claims(api);
        let held = claims.iter().find_map(|claim| {
            let owner = self.owners.get(claim).filter(|owner| ***owner != *file)?;
            Some((claim, owner))
        });
        let ((host, path), owner) = held?;
        let at = if host.is_empty() { String::new() } else { format!(" of host `{host}`") };
        Some(Diagnostic {
            severity: Severity::Error,
            file: file.to_owned(),
            place: None,
            message: format!(
                "the path `{}`{at} is already served by {}",
                if path.is_empty() { "/" } else { path },
                owner.display()
            ),
            help: Some(
                "change the x-wso2-basePath of one of the two files, or remove one; this version is \
                 loaded as soon as the path is free"
                    .to_owned(),
            ),
        })
    }
}

/// Every host and path that the API claims, as routing compares paths. A wildcard host and a host that it matches are
/// different claims: the exact one takes precedence.
fn claims(api: &Api) -> Vec<Claim> {
    let paths = [Some(&api.base_path), api.default_path.as_ref()];
    let paths = paths.into_iter().flatten().map(|path| normalised(path));
    if api.hosts.is_empty() {
        return paths.map(|path| (String::new(), path)).collect();
    }
    paths.flat_map(|path| api.hosts.iter().map(move |host| (host.clone(), path.clone()))).collect()
}

/// What is known of a file that was never valid.
fn unloaded_api(file: &Path, base_path: String, hosts: Vec<String>) -> Api {
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Api { hosts, source: file.to_owned(), ..Api::new(name, String::new(), base_path) }
}

#[cfg(test)]
mod tests;
