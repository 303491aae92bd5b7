//! Snapshots on disk: the schedule of writing, and the restoration at the start.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::BuildHasher;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use base::limits;
use foldhash::HashSet;
use formats::snapshot::{self, Kind, Saved};
use model::{Diagnostic, Severity};

use super::{Follower, Message};
use crate::catalogue::Found;
use crate::configuration::ConfigurationError;
use crate::documents::{Beside, Reading, Referred, Rules};
use crate::issuers::Offer;
use crate::snapshots::{self, Job, Texts, Written, diagnostic};
use crate::walk::{self, Roots};

/// Stands for device and inode of a root that has been unavailable since the start.
const UNAVAILABLE: (u64, u64) = (0, 0);

/// The version of a description for snapshots.
#[derive(Debug)]
pub(super) struct Valid {
    text: u64,
    /// The files that the description refers to, with the hashes of their texts.
    references: Box<[(Arc<Path>, u64)]>,
}

/// The schedule of writing snapshots.
#[derive(Debug, Default)]
pub(super) struct Saving {
    /// Time of the next snapshot; `None` without changes since the last one.
    due_us: Option<u64>,
    not_before_us: u64,
    in_progress: bool,
    /// The folder of the last snapshot, and its lock.
    lock: Option<(PathBuf, Arc<File>)>,
}

impl Saving {
    pub(super) fn next_us(&self) -> Option<u64> {
        self.due_us.filter(|_| !self.in_progress).map(|due_us| due_us.max(self.not_before_us))
    }
}

impl Valid {
    pub(super) fn of(text: u64, reading: &Reading) -> Self {
        let hash = |(file, referred): (&PathBuf, &Referred)| {
            Some((Arc::from(file.as_path()), referred.text?))
        };
        Self { text, references: reading.refs.iter().filter_map(hash).collect() }
    }
}

impl Follower {
    /// Schedules a snapshot, because its contents have changed.
    pub(super) fn save_later(&mut self) {
        if self.settings.snapshot.is_some() && self.saving.due_us.is_none() {
            let wait_us = 1_000 * u64::from(limits::SNAPSHOT_QUIET_MS);
            self.saving.due_us = Some(self.clock.now().mono_us.saturating_add(wait_us));
        }
    }

    /// Records the versions that are served now, which are the only ones in a snapshot. Returns whether there were any.
    pub(super) fn take_served(&mut self) -> bool {
        let catalogue = &self.catalogue;
        let served: Vec<_> =
            self.unserved.extract_if(|file, _| !catalogue.is_waiting(file)).collect();
        let took = !served.is_empty();
        self.valid.extend(served);
        took
    }

    /// Starts to write a snapshot, if one is due.
    pub(super) fn save_if_due(&mut self) {
        let now = self.clock.now();
        let Some(folder) = self.settings.snapshot.clone() else { return };
        if self.saving.next_us().is_none_or(|due_us| due_us > now.mono_us) {
            return;
        }
        self.saving.due_us = None;
        let job = self.job(folder, now.unix_s);
        let (sender, clock, start_us) = (self.sender.clone(), Arc::clone(&self.clock), now.mono_us);
        let spawned = thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
            let result = snapshots::write(&job).map_err(|error| error.to_string());
            let took_us = clock.now().mono_us.saturating_sub(start_us);
            drop(sender.send(Message::Saved(result, took_us)));
        });
        match spawned {
            Ok(_) => self.saving.in_progress = true,
            Err(error) => self.saved(Err(error.to_string()), 0),
        }
    }

    fn job(&self, folder: PathBuf, written_s: u64) -> Job {
        let mut files = Vec::with_capacity(self.valid.len());
        let mut referred = HashSet::default();
        for (file, valid) in self.valid.iter().filter(|(file, _)| self.catalogue.knows(file)) {
            files.push((Kind::File, Arc::clone(file), valid.text));
            for (reference, text) in &valid.references {
                if referred.insert(reference) {
                    files.push((Kind::Reference, Arc::clone(reference), *text));
                }
            }
        }
        files.sort_unstable_by(|one, other| one.1.as_os_str().cmp(other.1.as_os_str()));
        let roots = self.held.iter().map(|(root, identity)| (root.clone(), *identity)).collect();
        let plans = self.settings.gateway.plans.texts.iter();
        let plans = plans.map(|one| (one.file.clone(), one.text.clone())).collect();
        let unavailable = Roots::paths(&self.settings)
            .filter(|root| self.held.get(*root) == Some(&UNAVAILABLE))
            .cloned()
            .collect();
        let keyless = self.issuers.keyless().into_iter().map(|(_, _, saved_as)| saved_as).collect();
        let (hashing, keys) = (self.hashing.clone(), self.issuers.texts());
        let lock = self.saving.lock.as_ref().filter(|(locked, _)| *locked == folder);
        let lock = lock.map(|(_, lock)| Arc::clone(lock));
        Job { folder, written_s, files, hashing, keys, plans, roots, unavailable, keyless, lock }
    }

    /// Handles the end of writing.
    pub(super) fn saved(&mut self, result: Result<Written, String>, took_us: u64) {
        let now = self.clock.now();
        let Some(folder) = self.settings.snapshot.clone() else { return };
        self.saving.in_progress = false;
        if let Ok(written) = &result {
            self.saving.lock = Some((folder.clone(), Arc::clone(&written.lock)));
        }
        let pause_us = took_us.saturating_mul(limits::SNAPSHOT_SHARE.into());
        self.saving.not_before_us = now.mono_us.saturating_add(pause_us);
        let mut problems = match &result {
            Ok(Written { left_out: 0, .. }) => Vec::new(),
            Ok(Written { left_out, .. }) => {
                vec![format!("the snapshot lacks {left_out} files, which have changed since")]
            }
            Err(error) => vec![format!("the snapshot cannot be written: {error}")],
        };
        self.status.count_snapshot(result.as_ref().ok().map(|written| (now.unix_s, written.bytes)));
        if !problems.is_empty() {
            let wait_us = 1_000 * u64::from(limits::SNAPSHOT_RETRY_MS);
            self.saving.due_us.get_or_insert(now.mono_us.saturating_add(wait_us));
        }
        // These problems are no reason to write again.
        problems.extend(result.into_iter().flat_map(|written| written.problems));
        let help = "check the folder, its permissions and its space";
        let diagnostics = problems.into_iter().map(|message| Diagnostic {
            severity: Severity::Warning,
            ..diagnostic(&folder, message, help)
        });
        self.post(&folder, diagnostics.collect());
    }

    /// Restores sources that are unavailable at the start from the newest undamaged snapshot.
    ///
    /// # Errors
    /// If a source cannot be read, and all snapshots are damaged.
    pub(super) fn restore(&mut self) -> Result<(), ConfigurationError> {
        let Some(folder) = self.settings.snapshot.clone() else { return Ok(()) };
        let roots: Vec<PathBuf> = Roots::paths(&self.settings).cloned().collect();
        let doubtful = self.doubtful(&roots);
        let away = || doubtful.iter().filter(|(_, identity)| identity.is_none());
        if doubtful.is_empty() && self.issuers.keyless().is_empty() {
            return Ok(());
        }
        let newest = snapshots::newest(&folder);
        let Some((file, bytes)) = newest.whole else {
            if away().next().is_none() || newest.unusable.is_empty() {
                super::log(&newest.unusable);
                away().for_each(|(root, _)| warn_nothing_saved(root));
                return Ok(());
            }
            let away = away().map(|(root, _)| {
                diagnostic(root, "cannot be read, and no snapshot is whole".to_owned(), "")
            });
            return Err(ConfigurationError { diagnostics: away.chain(newest.unusable).collect() });
        };
        super::log(&newest.unusable);
        let Ok(saved) = snapshot::read(&bytes) else { return Ok(()) };
        let texts = snapshots::texts(&saved);
        let was =
            |root: &PathBuf| texts.get(&(Kind::Root, snapshots::name(root).as_slice())).copied();
        if let Some(problem) = snapshots::exposure(&folder, &file) {
            tracing::warn!(folder = %folder.display(), "{problem}");
        }
        let is_away = |(root, identity): &(PathBuf, Option<(u64, u64)>)| match identity {
            None => true,
            Some(now) => {
                was(root).is_some_and(|was| was != snapshots::identity_text(*now).as_bytes())
            }
        };
        let away: Vec<PathBuf> =
            doubtful.iter().filter(|one| is_away(one)).map(|(root, _)| root.clone()).collect();
        let files = self.restore_files(&saved, &texts, &away);
        let keys = self.restore_keys(&texts);
        let is_unrestored = |root: &Path| !self.restored.iter().any(|one| one.starts_with(root));
        doubtful
            .iter()
            .filter(|(root, identity)| identity.is_none() && is_unrestored(root))
            .for_each(|(root, _)| warn_nothing_saved(root));
        if files == 0 && keys == 0 {
            return Ok(());
        }
        let age_s = self.clock.now().unix_s.saturating_sub(saved.written_s);
        tracing::warn!(
            snapshot = %file.display(), written_unix_s = saved.written_s, age_s, files, keys,
            sources = %away.iter().map(|root| root.display().to_string()).collect::<Vec<_>>().join(", "),
            "sources are unavailable: what they held is taken from the snapshot"
        );
        Ok(())
    }

    /// The configured files and folders that cannot be read, and, with device and inode, those that are empty.
    fn doubtful(&self, roots: &[PathBuf]) -> Vec<(PathBuf, Option<(u64, u64)>)> {
        let mut doubtful = Vec::new();
        for root in roots {
            let identity = walk::identity(root).filter(|_| !self.failed_roots.contains(root));
            let holds = || self.catalogue.files().any(|file| file.starts_with(root));
            if identity.is_none() || !holds() {
                doubtful.push((root.clone(), identity));
            }
        }
        doubtful
    }

    /// Offers the saved keys to issuers without keys. Returns the number of issuers that accepted them.
    fn restore_keys(&mut self, texts: &Texts<'_>) -> usize {
        let mut restored: usize = 0;
        for (name, source, saved_as) in self.issuers.keyless() {
            let Some(text) = texts.get(&(Kind::Keys, saved_as.as_bytes())) else { continue };
            if self.issuers.offer(&name, &source, text.to_vec()) == Offer::Loaded {
                restored = restored.saturating_add(1);
            }
        }
        restored
    }

    /// Serves the saved files of `away`. Returns their number.
    fn restore_files(&mut self, saved: &Saved<'_>, texts: &Texts<'_>, away: &[PathBuf]) -> usize {
        let rules = Rules::of(&self.settings, &self.fetch, &self.hashing);
        let mut changes = Vec::new();
        let roots: Vec<(&PathBuf, PathBuf)> =
            away.iter().map(|root| (root, snapshots::absolute(root))).collect();
        // The path as the configuration names it now.
        let path = |saved: &Path| {
            roots.iter().find_map(|(root, absolute)| {
                let below = saved.strip_prefix(absolute).ok()?;
                let is_root = below.as_os_str().is_empty();
                Some(if is_root { (*root).clone() } else { root.join(below) })
            })
        };
        for record in saved.records.iter().filter(|record| record.kind == Kind::File) {
            let path = path(Path::new(OsStr::from_bytes(record.name)));
            let Some(path) = path.filter(|path| !self.catalogue.knows(path)) else { continue };
            let file: Arc<Path> = Arc::from(path);
            let mut reading = rules.read(&file, record.text, &Beside::Saved(texts));
            reading.content.share(&self.shared);
            let text = self.hashing.hash_one(record.text);
            self.texts.insert(Arc::clone(&file), text);
            if reading.content.part.is_some() {
                self.unserved.insert(Arc::clone(&file), Valid::of(text, &reading));
                self.restored.insert(Arc::clone(&file));
            }
            self.refer(&file, reading.refs);
            changes.push((file, Found::Read(Box::new(reading.content))));
        }
        // An empty folder is not accepted as its replacement.
        self.held.extend(away.iter().map(|root| (root.clone(), UNAVAILABLE)));
        let files = self.restored.len();
        let mut applied = self.catalogue.apply(changes);
        // The restored versions are already in a snapshot.
        self.take_served();
        self.post_touched(&mut applied);
        self.status.set_restored(files);
        files
    }

    /// Records that a file is served from its source again, or was removed.
    pub(super) fn not_restored(&mut self, file: &Path) {
        if !self.restored.is_empty() && self.restored.remove(file) {
            self.status.set_restored(self.restored.len());
            if self.restored.is_empty() {
                tracing::info!(
                    "all sources are available again: nothing is served from a snapshot any more"
                );
            }
        }
    }
}

fn warn_nothing_saved(root: &Path) {
    tracing::warn!(
        source = %root.display(),
        "the source is unavailable, and nothing was restored for it from a snapshot"
    );
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot make its files has failed")]

    use std::fs;

    use super::super::{Walk, Work};
    use super::*;

    fn description(path: &str) -> String {
        format!(
            "openapi: 3.0.3\ninfo: {{title: a, version: '1'}}\nx-wso2-basePath: {path}\nx-wso2-disable-security: true\n\
             x-wso2-production-endpoints: {{urls: ['http://127.0.0.1:9']}}\npaths: {{/*: {{get: {{}}}}}}\n"
        )
    }

    #[test]
    fn a_version_whose_path_another_file_has_is_saved_once_it_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let settings = "[gateway]\nhttp = \"127.0.0.1:1\"\napis = [\"apis/\"]\n\
                        [snapshot]\ndirectory = \"snapshots\"\n";
        fs::write(path("penstock.toml"), settings).unwrap();
        fs::create_dir(path("apis")).unwrap();
        for (name, at) in [("apis/a.yaml", "/a"), ("apis/b.yaml", "/b")] {
            fs::write(path(name), description(at)).unwrap();
        }
        let mut follower = super::super::tests::follower(&path("penstock.toml"));
        let saved = |follower: &mut Follower| {
            let mut work = Work::default();
            follower.walk(Walk::Reload, &mut work);
            follower.reread_apis(work);
            let job = follower.job(path("snapshots"), 0);
            let found = job.files.iter().find(|(_, file, _)| file.ends_with("apis/a.yaml"));
            let hash = found.unwrap_or_else(|| panic!("{}", follower.status.to_json())).2;
            ["/a", "/b"].map(|at| follower.hashing.hash_one(description(at).as_bytes()) == hash)
        };
        assert_eq!(saved(&mut follower), [true, false]);
        fs::write(path("apis/a.yaml"), description("/b")).unwrap();
        assert_eq!(saved(&mut follower), [true, false], "`b.yaml` has the path");
        fs::write(path("apis/b.yaml"), description("/c")).unwrap();
        assert_eq!(saved(&mut follower), [false, true], "the path is free");
    }
}
