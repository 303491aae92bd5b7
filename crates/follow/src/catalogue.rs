//! Which API of which file is served: the rules of DESIGN.md section 2.3, without a file in sight.
//!
//! Every known file has at most one API that serves and at most one newer version that waits because
//! another file serves a path that it claims. A broken version changes nothing but the diagnostics.
//!
//! Architecture invariant: no two served APIs claim the same host and path, whatever order files come in.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use formats::openapi::Outcome;
use model::{Api, ApiState, Diagnostic, LoadedApi, Severity, Transports};

/// What became of a file.
#[derive(Debug)]
pub(crate) enum Found {
    /// It was read: well or badly.
    Read(Box<Outcome>),
    /// It isn't there at this moment. It serves on, but makes room for whoever claims its path: a
    /// rename shows as one file missing and another one new.
    Missing,
    /// It stays away.
    Removed,
}

/// What a batch of changes did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Applied {
    /// Whether [`Catalogue::apis`] answers something new.
    pub(crate) changed: bool,
    /// Files whose version now serves, or which are gone for good.
    pub(crate) taken: Vec<PathBuf>,
    /// Files whose newest version was refused.
    pub(crate) refused: Vec<PathBuf>,
    /// Files whose diagnostics may differ from before.
    pub(crate) touched: BTreeSet<PathBuf>,
}

#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    files: BTreeMap<Arc<Path>, Entry>,
    /// Which file serves at a host and path.
    holders: HashMap<Claim, Arc<Path>>,
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
    /// Read well, and not served (yet): another file holds one of its claims.
    candidate: Option<Arc<Api>>,
    /// Stands for a file that never loaded.
    placeholder: Option<Arc<Api>>,
    findings: Vec<Diagnostic>,
    /// Which of two newcomers came first.
    arrived: u64,
    missing: bool,
}

impl Catalogue {
    /// Takes a batch of changes: all or none of an exchange of paths between files is seen.
    pub(crate) fn apply(&mut self, changes: Vec<(PathBuf, Found)>) -> Applied {
        let mut applied = Applied::default();
        let mut news = Vec::new();
        for (file, found) in changes {
            let key: Arc<Path> = Arc::from(file);
            applied.touched.insert(key.to_path_buf());
            match found {
                Found::Read(outcome) => {
                    self.note(&key, outcome, &mut applied);
                    news.push(key);
                }
                Found::Missing => {
                    if let Some(entry) = self.files.get_mut(&key) {
                        entry.missing = true;
                    }
                }
                Found::Removed => self.remove(&key, &mut applied),
            }
        }
        // Someone waits for a path that another one's loss, or move, sets free: hence again and again.
        while self.admit(&mut applied) {}
        let refused = news.into_iter().filter(|key| self.is_refused(key));
        applied.refused = refused.map(|key| key.to_path_buf()).collect();
        applied.touched.extend(self.waiting.iter().map(|key| key.to_path_buf()));
        applied
    }

    /// What is to be served, in the order of file names.
    pub(crate) fn apis(&self) -> Vec<LoadedApi> {
        let serving = self.files.values().filter_map(|entry| entry.serving.as_ref());
        let mut apis: Vec<LoadedApi> = serving
            .map(|api| LoadedApi { api: Arc::clone(api), state: ApiState::Serving })
            .collect();
        let mut taken = HashSet::new();
        for key in &self.unloaded {
            let Some(api) = self.files.get(key).and_then(|entry| entry.placeholder.as_ref()) else {
                continue;
            };
            let claims = claims(api);
            if claims.iter().any(|claim| self.holders.contains_key(claim) || taken.contains(claim))
            {
                continue;
            }
            taken.extend(claims);
            apis.push(LoadedApi { api: Arc::clone(api), state: ApiState::Unloaded });
        }
        apis
    }

    /// Everything that is wrong with a file, a contested path included.
    pub(crate) fn diagnostics(&self, file: &Path) -> Vec<Diagnostic> {
        let Some(entry) = self.files.get(file) else { return Vec::new() };
        let mut findings = entry.findings.clone();
        findings.extend(entry.candidate.as_ref().and_then(|api| self.contested(file, api)));
        findings
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

    fn note(&mut self, key: &Arc<Path>, outcome: Box<Outcome>, applied: &mut Applied) {
        let Outcome { api, diagnostics, base_path, hosts } = *outcome;
        let entry = self.files.entry(Arc::clone(key)).or_insert_with(|| {
            self.arrivals += 1;
            Entry { arrived: self.arrivals, ..Entry::default() }
        });
        entry.findings = diagnostics;
        entry.missing = false;
        entry.candidate = None;
        self.waiting.remove(key);
        match api {
            Some(api) if entry.serving.as_deref() == Some(&api) => {
                // The same in other words: nobody needs to compile it again.
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
            applied.taken.push(key.to_path_buf());
        }
        applied.touched.insert(key.to_path_buf());
    }

    /// Lets in as many waiting files as fit together. Answers whether there was one.
    fn admit(&mut self, applied: &mut Applied) -> bool {
        let mut hopefuls: Vec<Arc<Path>> = self.waiting.iter().cloned().collect();
        hopefuls.sort_by_key(|key| self.files.get(key).map_or(0, |entry| entry.arrived));
        loop {
            let losers = self.losers(&hopefuls);
            if losers.is_empty() {
                break;
            }
            // A loser keeps what it serves, which may be what another hopeful counted on.
            hopefuls.retain(|key| !losers.contains(key));
        }
        for key in &hopefuls {
            if let Some(old) = self.files.get(key).and_then(|entry| entry.serving.clone()) {
                self.release(key, &old);
            }
        }
        for key in &hopefuls {
            self.seat(key, applied);
        }
        !hopefuls.is_empty()
    }

    /// Who of `hopefuls` could not be served if all the others were.
    fn losers(&self, hopefuls: &[Arc<Path>]) -> HashSet<Arc<Path>> {
        let hoping: HashSet<&Arc<Path>> = hopefuls.iter().collect();
        let mut wanted: HashMap<Claim, &Arc<Path>> = HashMap::new();
        let mut losers = HashSet::new();
        for key in hopefuls {
            let Some(api) = self.files.get(key).and_then(|entry| entry.candidate.as_ref()) else {
                continue;
            };
            for claim in claims(api) {
                let holder = self.holders.get(&claim);
                if holder.is_some_and(|holder| self.stays(holder) && !hoping.contains(holder)) {
                    losers.insert(Arc::clone(key));
                    continue;
                }
                match wanted.get(&claim) {
                    None => drop(wanted.insert(claim, key)),
                    Some(rival) if holder == Some(key) => {
                        losers.insert(Arc::clone(rival));
                        wanted.insert(claim, key);
                    }
                    Some(_) => drop(losers.insert(Arc::clone(key))),
                }
            }
        }
        losers
    }

    fn stays(&self, holder: &Arc<Path>) -> bool {
        self.files.get(holder).is_some_and(|entry| !entry.missing)
    }

    /// Makes the waiting version of `key` the one that serves.
    fn seat(&mut self, key: &Arc<Path>, applied: &mut Applied) {
        self.waiting.remove(key);
        let Some(entry) = self.files.get_mut(key) else { return };
        let Some(api) = entry.candidate.take() else { return };
        entry.serving = Some(Arc::clone(&api));
        for claim in claims(&api) {
            let before = self.holders.insert(claim, Arc::clone(key));
            if let Some(leaver) = before.filter(|before| before != key) {
                self.remove(&leaver, applied);
            }
        }
        applied.changed = true;
        applied.taken.push(key.to_path_buf());
        applied.touched.insert(key.to_path_buf());
    }

    fn release(&mut self, key: &Arc<Path>, api: &Api) {
        for claim in claims(api) {
            if self.holders.get(&claim) == Some(key) {
                self.holders.remove(&claim);
            }
        }
    }

    fn is_refused(&self, key: &Arc<Path>) -> bool {
        let broken = |entry: &Entry| {
            entry.findings.iter().any(|finding| finding.severity == Severity::Error)
        };
        self.waiting.contains(key) || self.files.get(key).is_some_and(broken)
    }

    fn contested(&self, file: &Path, api: &Api) -> Option<Diagnostic> {
        let claims = claims(api);
        let held = claims.iter().find_map(|claim| {
            let holder = self.holders.get(claim).filter(|holder| ***holder != *file)?;
            Some((claim, holder))
        });
        let ((host, path), holder) = held?;
        let at = if host.is_empty() { String::new() } else { format!(" of host `{host}`") };
        Some(Diagnostic {
            severity: Severity::Error,
            file: file.to_owned(),
            place: None,
            message: format!(
                "claims the path `{}`{at}, which {} serves already",
                if path.is_empty() { "/" } else { path },
                holder.display()
            ),
            help: Some(
                "give one of the two another x-wso2-basePath, or remove one; this version is taken \
                 as soon as the path is free"
                    .to_owned(),
            ),
        })
    }
}

/// Every host and path at which the API wants to answer. A wildcard host and a host that fits it are
/// two claims: the more exact one answers.
fn claims(api: &Api) -> Vec<Claim> {
    let paths = [Some(&api.base_path), api.default_path.as_ref()];
    let paths = paths.into_iter().flatten();
    if api.hosts.is_empty() {
        return paths.map(|path| (String::new(), path.clone())).collect();
    }
    paths.flat_map(|path| api.hosts.iter().map(move |host| (host.clone(), path.clone()))).collect()
}

/// What is known of a file that never loaded.
fn unloaded_api(file: &Path, base_path: String, hosts: Vec<String>) -> Api {
    Api {
        name: file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        version: String::new(),
        base_path,
        default_path: None,
        hosts,
        transports: Transports { http: true, https: true },
        auth_header: "authorization".to_owned(),
        forward_auth_header: false,
        cors: None,
        upgrades: Vec::new(),
        operations: Vec::new(),
        upstreams: Vec::new(),
        production: None,
        sandbox: None,
        source: file.to_owned(),
    }
}

#[cfg(test)]
mod tests;
