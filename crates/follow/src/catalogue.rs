//! Decides which version of which file is served, without access to files.
//!
//! Each file has at most one part that is served, an API or artefacts, and at most one newer version
//! that waits because another file has a path or name that it claims. An invalid version changes only
//! the diagnostics.
//!
//! Architecture invariant: no two served parts have the same claim, independent of the order of the files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use model::{Api, ApiState, Applications, ArtefactSet, Diagnostic, LoadedApi, Severity};

use crate::part::{Claim, Content, Part, api_claims};

/// The state of a file when it was read.
#[derive(Debug)]
pub(crate) enum Found {
    /// The file was read; its content may be invalid.
    Read(Box<Content>),
    /// The file is missing at the moment. The part is still served, unless another file claims its path: a rename looks
    /// like one missing and one new file.
    Missing,
    /// The file was removed.
    Removed,
}

/// The effects of a batch of changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Applied {
    /// Whether [`Catalogue::apis`] or [`Catalogue::artefacts`] returns something new.
    pub(crate) changed: bool,
    /// Files whose newest version is now served, or that were removed.
    pub(crate) loaded: Vec<Arc<Path>>,
    /// Files whose newest version was rejected.
    pub(crate) rejected: Vec<Arc<Path>>,
    /// Files whose diagnostics may have changed.
    pub(crate) touched: HashSet<Arc<Path>>,
}

#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    /// Known files. Not ordered, because comparing paths takes long and there may be many.
    files: HashMap<Arc<Path>, Entry>,
    /// The APIs in `files` that are served.
    apis: BTreeMap<Arc<Path>, Arc<Api>>,
    artefacts: BTreeMap<Arc<Path>, Arc<ArtefactSet>>,
    applications: Arc<Applications>,
    /// Number of files that are served.
    count: usize,
    /// The file that has a claim.
    owners: HashMap<Claim, Arc<Path>>,
    /// Files with a `candidate`.
    waiting: HashSet<Arc<Path>>,
    /// Files with a `placeholder`.
    unloaded: BTreeSet<Arc<Path>>,
    arrivals: u64,
}

#[derive(Debug, Default)]
struct Entry {
    serving: Option<Part>,
    /// A valid version that is not served yet, because another file owns one of its claims.
    candidate: Option<Part>,
    /// Represents a file that was never valid.
    placeholder: Option<Arc<Api>>,
    diagnostics: Vec<Diagnostic>,
    /// Decides which of two new files comes first.
    arrived: u64,
    missing: bool,
}

impl Applied {
    /// Merges in the effects of the next batch.
    pub(crate) fn extend(&mut self, next: Self) {
        let Self { changed, loaded, rejected, touched } = next;
        self.changed |= changed;
        self.loaded.extend(loaded);
        self.rejected.extend(rejected);
        self.touched.extend(touched);
    }
}

impl Catalogue {
    /// Applies a batch of changes, so that two files can exchange their paths.
    pub(crate) fn apply(&mut self, changes: Vec<(Arc<Path>, Found)>) -> Applied {
        let mut applied = Applied::default();
        let mut read = Vec::new();
        for (key, found) in changes {
            applied.touched.insert(Arc::clone(&key));
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
        // Serving a file may free a path that another file waits for.
        while self.promote(&mut applied) {}
        applied.rejected = read.into_iter().filter(|key| self.is_rejected(key)).collect();
        applied.touched.extend(self.waiting.iter().cloned());
        applied
    }

    /// The APIs to serve, ordered by file name.
    pub(crate) fn apis(&self) -> Vec<LoadedApi> {
        let serving = self.apis.values().cloned();
        let mut apis: Vec<LoadedApi> =
            serving.map(|api| LoadedApi { api, state: ApiState::Serving }).collect();
        let mut claimed = HashSet::default();
        for key in &self.unloaded {
            let Some(api) = self.files.get(key).and_then(|entry| entry.placeholder.as_ref()) else {
                continue;
            };
            let claims = api_claims(api);
            if claims.iter().any(|claim| self.owners.contains_key(claim) || claimed.contains(claim))
            {
                continue;
            }
            claimed.extend(claims);
            apis.push(LoadedApi { api: Arc::clone(api), state: ApiState::Unloaded });
        }
        apis
    }

    /// The artefacts to serve, ordered by file name.
    pub(crate) fn artefacts(&self) -> ArtefactSet {
        let mut all = ArtefactSet::default();
        for set in self.artefacts.values() {
            all.artefacts.extend(set.artefacts.iter().cloned());
            let resources = set.resources.iter();
            all.resources.extend(resources.map(|(path, one)| (path.clone(), one.clone())));
        }
        all
    }

    /// The applications in use. The same allocation until one changes.
    pub(crate) fn applications(&self) -> &Arc<Applications> {
        &self.applications
    }

    /// The diagnostics of a file, including a path that another file has claimed. `is_read` marks a file that an
    /// artefact reads as data.
    pub(crate) fn diagnostics(&self, file: &Path, is_read: bool) -> Vec<Diagnostic> {
        let Some(entry) = self.files.get(file) else { return Vec::new() };
        let mut diagnostics = entry.diagnostics.clone();
        diagnostics.extend(entry.candidate.as_ref().and_then(|part| self.contested(file, part)));
        // The only warning about such a file is that it has no artefact.
        let has_none = self.artefacts.get(file).is_some_and(|set| set.artefacts.is_empty());
        if is_read && has_none {
            diagnostics.retain(|found| found.severity == Severity::Error);
        }
        diagnostics
    }

    /// Every known file, unordered.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<Path>> {
        self.files.keys()
    }

    /// Number of files that are served.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn knows(&self, file: &Path) -> bool {
        self.files.contains_key(file)
    }

    fn record(&mut self, key: &Arc<Path>, content: Box<Content>, applied: &mut Applied) {
        let Content { part, diagnostics, placeholder, rest: _ } = *content;
        let entry = self.files.entry(Arc::clone(key)).or_insert_with(|| {
            self.arrivals += 1;
            Entry { arrived: self.arrivals, ..Entry::default() }
        });
        entry.diagnostics = diagnostics;
        entry.missing = false;
        entry.candidate = None;
        self.waiting.remove(key);
        match part {
            Some(part) if entry.serving.as_ref() == Some(&part) => {
                // Nothing to compile again.
            }
            Some(part) => {
                entry.candidate = Some(part);
                self.waiting.insert(Arc::clone(key));
                applied.changed |= entry.placeholder.take().is_some();
                self.unloaded.remove(key);
            }
            None if entry.serving.is_none() => {
                let placeholder = placeholder.map(Arc::new);
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
        if let Some(part) = entry.serving {
            self.release(key, &part);
            applied.changed = true;
            applied.loaded.push(Arc::clone(key));
        }
        applied.touched.insert(Arc::clone(key));
    }

    /// Serves as many waiting files as possible. Returns whether any was served.
    fn promote(&mut self, applied: &mut Applied) -> bool {
        let mut candidates: Vec<Arc<Path>> = self.waiting.iter().cloned().collect();
        candidates.sort_by_cached_key(|key| self.files.get(key).map_or(0, |entry| entry.arrived));
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
        let mut wanted: HashMap<Claim, &Arc<Path>> = HashMap::default();
        let mut blocked = HashSet::default();
        for key in candidates {
            let Some(part) = self.files.get(key).and_then(|entry| entry.candidate.as_ref()) else {
                continue;
            };
            for claim in part.claims() {
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
        let Some(part) = entry.candidate.take() else { return };
        // A missing file may have the same name, so it goes before.
        for claim in part.claims() {
            let before = self.owners.insert(claim, Arc::clone(key));
            if let Some(former) = before.filter(|before| before != key) {
                self.remove(&former, applied);
            }
        }
        match &part {
            Part::Api(api) => drop(self.apis.insert(Arc::clone(key), Arc::clone(api))),
            Part::Artefacts(set) => drop(self.artefacts.insert(Arc::clone(key), Arc::clone(set))),
            Part::Application(one) => Arc::make_mut(&mut self.applications).insert(Arc::clone(one)),
        }
        self.count = self.count.saturating_add(1);
        if let Some(entry) = self.files.get_mut(key) {
            entry.serving = Some(part);
        }
        applied.changed = true;
        applied.loaded.push(Arc::clone(key));
        applied.touched.insert(Arc::clone(key));
    }

    /// Withdraws the part that `key` serves.
    fn release(&mut self, key: &Arc<Path>, part: &Part) {
        self.count = self.count.saturating_sub(1);
        match part {
            Part::Api(_) => drop(self.apis.remove(key)),
            Part::Artefacts(_) => drop(self.artefacts.remove(key)),
            Part::Application(one) => Arc::make_mut(&mut self.applications).remove(&one.name),
        }
        for claim in part.claims() {
            if self.owners.get(&claim) == Some(key) {
                self.owners.remove(&claim);
            }
        }
    }

    /// Whether the newest version of the file waits for a claim of another file.
    pub(crate) fn is_waiting(&self, key: &Arc<Path>) -> bool {
        self.waiting.contains(key)
    }

    /// Whether the newest version of the file is not served.
    pub(crate) fn is_rejected(&self, key: &Arc<Path>) -> bool {
        let invalid = |entry: &Entry| {
            entry.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
        };
        self.is_waiting(key) || self.files.get(key).is_some_and(invalid)
    }

    fn contested(&self, file: &Path, part: &Part) -> Option<Diagnostic> {
        let claims = part.claims();
        let (claim, owner) = claims.iter().find_map(|claim| {
            let owner = self.owners.get(claim).filter(|owner| ***owner != *file)?;
            Some((claim, owner))
        })?;
        Some(Diagnostic {
            severity: Severity::Error,
            file: file.to_owned(),
            place: part.place_of(claim, file),
            message: format!("{claim} is already defined in {}", owner.display()),
            help: Some(claim.help().to_owned()),
        })
    }
}

#[cfg(test)]
mod tests;
