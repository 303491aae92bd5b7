//! API descriptions and artefacts: finds the ones that an event concerns, reads them, and applies the result.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::BuildHasher;
use std::io::ErrorKind;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;

use base::limits;
use foldhash::HashMap;

use super::restore::Valid;
use super::{Follower, Walk, Work, poll_wait_us};
use crate::catalogue::{Applied, Found};
use crate::configuration::parents;
use crate::debounce::ChangeKind;
use crate::documents::{self, Beside, Reading, Referred, Rules};
use crate::part::Content;
use crate::shared::Shared;
use crate::tracked::{Locations, Node};
use crate::walk::{self, Roots, Version, Versions};

/// Number of files from which several threads read them, which is reached only when everything is loaded.
const FILES_FOR_THREADS_MIN: usize = 64;
/// Files per batch. Results are recorded after each batch, which bounds the memory for pending results.
const BATCH_FILES: usize = 256;

/// The state of one file.
enum FileState {
    Missing,
    /// The same content as before.
    Same(Version, Node),
    Read(Version, Node, u64, Box<Reading>),
    Unreadable(String),
    /// The file changed while it was read.
    Busy,
}

impl FileState {
    /// Whether the file was read and is valid by itself, now or at the last time.
    fn may_be_served(&self) -> bool {
        match self {
            Self::Same(..) => true,
            Self::Read(_, _, _, reading) => reading.content.part.is_some(),
            Self::Missing | Self::Unreadable(_) | Self::Busy => false,
        }
    }

    /// Replaces the subscriptions of an application by equal shared ones.
    fn share(&mut self, shared: &Shared) {
        if let Self::Read(_, _, _, reading) = self {
            reading.content.share(shared);
        }
    }
}

impl Follower {
    /// Adds the work for an event at a path with canonical folder, or at a path from a walk.
    pub(super) fn on_event(&mut self, location: &Path, work: &mut Work) {
        let mut ours = self.tracked.at(location).to_vec();
        if ours.is_empty() && self.tracked.knows(location) {
            ours.push(Arc::from(location));
        }
        for file in &ours {
            self.on_file(file, work);
        }
        if !ours.is_empty() {
            return;
        }
        let found = fs::symlink_metadata(location);
        let in_ours = || {
            location.parent().is_some_and(|folder| self.folders.contains_key(folder))
                || self.roots.contains(location)
        };
        // A link may be part of the path to any of our files, such as Kubernetes' `..data`.
        let leads_to_files =
            found.as_ref().is_ok_and(|found| found.is_symlink() || found.is_dir() && in_ours());
        match self.walked_name(location) {
            Some(file) if found.is_ok() && fs::metadata(location).is_ok_and(|to| to.is_file()) => {
                work.apis.insert(Arc::from(file));
            }
            Some(_) | None if leads_to_files || self.folders.contains_key(location) => {
                work.walk = work.walk.max(Some(Walk::Folders));
            }
            Some(_) | None => {}
        }
    }

    /// Adds the work for a change of one of our files.
    pub(super) fn on_file(&self, file: &Arc<Path>, work: &mut Work) {
        if self.catalogue.knows(file) || self.first_failures.contains_key(file) {
            work.apis.insert(Arc::clone(file));
        }
        if let Some(referrers) = self.referrers.get(file) {
            work.apis.extend(referrers.iter().cloned());
            work.force.extend(referrers.iter().cloned());
        }
        self.on_other_file(file, work);
    }

    /// The path under which a walk would find a description at this location.
    fn walked_name(&self, location: &Path) -> Option<PathBuf> {
        let (folder, name) = (location.parent()?, location.file_name()?);
        let walked = self.folders.get(folder);
        let noted = || self.folders.values().find(|walked| *walked == folder);
        let file = walked.or_else(noted).map(|walked| walked.join(name))?;
        self.roots().select(&file).then_some(file)
    }

    /// Reads all files again if some were rejected for lack of plans that exist now.
    pub(super) fn reread_files_with_new_plans(&mut self) {
        if std::mem::take(&mut self.reread_files) {
            let mut work = Work::default();
            self.walk(Walk::Reload, &mut work);
            self.read_apis(work);
        }
    }

    /// Lists all folders and compares the versions of files; reads none.
    pub(super) fn walk(&mut self, why: Walk, work: &mut Work) {
        let start_us = self.clock.now().mono_us;
        self.tracked.forget_folders();
        let roots = self.roots();
        let all: Vec<PathBuf> = Roots::paths(&self.settings).cloned().collect();
        let watcher = &mut self.watcher;
        for parent in parents(&all) {
            watcher.iter_mut().for_each(|watcher| watcher.watch(&parent));
        }
        // A reload reads the versions together with the files.
        let versions = if why == Walk::Reload { Versions::Unread } else { Versions::Read };
        let walked = walk::walk(&roots, versions, &mut |folder| {
            watcher.iter_mut().for_each(|watcher| watcher.watch(folder));
        });
        self.roots = all.iter().filter_map(|root| walk::location(root)).collect();
        let real = |folder: PathBuf| Some((fs::canonicalize(&folder).ok()?, folder));
        self.folders = walked.folders.into_iter().filter_map(real).collect();
        let differing = walked.files.iter().filter(|(file, version)| {
            why == Walk::Reload || self.tracked.differs(file, version.as_ref())
        });
        let differing: Vec<Arc<Path>> = differing.map(|(file, _)| Arc::clone(file)).collect();
        let gone = self.catalogue.files().filter(|file| {
            !walked.files.contains_key(*file)
                && !self.control_plane.as_ref().is_some_and(|one| one.has(file))
        });
        let gone: Vec<Arc<Path>> =
            gone.filter(|file| !self.missing.contains_key(*file)).cloned().collect();
        let single_files = self.changed_single_files(&walked.files);
        match why {
            Walk::Poll => {
                for file in differing.into_iter().chain(single_files) {
                    self.debounce.note(file.to_path_buf(), ChangeKind::Writing, start_us);
                }
            }
            Walk::Folders | Walk::Reload => {
                work.apis.extend(differing);
                for file in single_files {
                    self.on_file(&file, work);
                }
            }
        }
        work.apis.extend(gone);
        work.force_all |= why == Walk::Reload;
        let mut problems = walked.problems;
        problems.extend(self.emptied_roots(&all, &walked.files));
        self.post_failed_roots(problems);
        let end = self.clock.now();
        self.poll_us = end.mono_us + poll_wait_us(end.mono_us.saturating_sub(start_us));
    }

    /// Records the roots that hold descriptions. Returns the diagnostics of folders that were replaced by
    /// an empty one, which is more likely an unmounted volume than an operator who removes all APIs.
    fn emptied_roots(
        &mut self,
        roots: &[PathBuf],
        files: &HashMap<Arc<Path>, Option<Version>>,
    ) -> Vec<model::Diagnostic> {
        let mut emptied = Vec::new();
        for root in roots {
            let Some(identity) = walk::identity(root) else { continue };
            let holds = files.keys().any(|file| file.starts_with(root));
            if holds || self.held.get(root).is_none_or(|held| *held == identity) {
                self.held.insert(root.clone(), identity);
                continue;
            }
            let files = self.catalogue.files().filter(|file| file.starts_with(root)).count();
            if files > 0 {
                emptied.push(model::Diagnostic {
                    severity: model::Severity::Error,
                    file: root.clone(),
                    place: None,
                    message: format!(
                        "the folder was replaced by an empty one; its files ({files}) stay in use"
                    ),
                    help: Some("mount or restore it, or send SIGHUP to remove what it held".into()),
                });
            }
        }
        emptied
    }

    /// Accepts roots that were replaced by an empty folder.
    pub(super) fn accept_emptied_roots(&mut self) {
        for (root, held) in &mut self.held {
            *held = walk::identity(root).unwrap_or(*held);
        }
    }

    fn post_failed_roots(&mut self, problems: Vec<model::Diagnostic>) {
        let now: BTreeSet<PathBuf> = problems.iter().map(|problem| problem.file.clone()).collect();
        for solved in self.failed_roots.difference(&now) {
            self.post(solved, Vec::new());
        }
        for problem in problems {
            self.post(&problem.file.clone(), vec![problem]);
        }
        self.failed_roots = now;
    }

    /// Like [`Follower::read_apis`], and counts and logs the results.
    pub(super) fn reread_apis(&mut self, work: Work) -> bool {
        let applied = self.read_apis(work);
        self.log_loaded(&applied);
        for _ in &applied.rejected {
            self.status.count_failure();
        }
        applied.changed
    }

    /// Reads descriptions and applies them.
    pub(super) fn read_apis(&mut self, work: Work) -> Applied {
        let Work { apis, force, force_all, .. } = work;
        let mut files: Vec<Arc<Path>> = apis.into_iter().collect();
        files.sort_unstable_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
        let files: Vec<(Arc<Path>, Option<u64>)> = files
            .into_iter()
            .map(|file| {
                let known = self.texts.get(&file).filter(|_| !force_all && !force.contains(&file));
                let known = known.copied();
                (file, known)
            })
            .collect();
        let rules = Rules::of(&self.settings, &self.fetch, &self.hashing);
        let (hashing, shared) = (self.hashing.clone(), Arc::clone(&self.shared));
        let read = |(file, known): &(Arc<Path>, Option<u64>)| {
            let mut state = read_state(file, *known, &rules, &hashing);
            state.share(&shared);
            state
        };
        let mut all = Applied::default();
        in_parallel(&files, BATCH_FILES, read, |batch, states| {
            let mut back = Vec::new();
            let changes = batch.iter().zip(states).filter_map(|((file, _), state)| {
                if self.restored.contains(file) && state.may_be_served() {
                    back.push(Arc::clone(file));
                }
                Some((Arc::clone(file), self.record(file, state)?))
            });
            let changes = changes.collect();
            all.extend(self.catalogue.apply(changes));
            // A rejected file leaves the version of the snapshot in use.
            back.retain(|file| !self.catalogue.is_rejected(file));
            for file in back {
                self.not_restored(&file);
            }
        });
        self.post_touched(&mut all);
        all
    }

    /// Posts the diagnostics of the applied files, and schedules a snapshot.
    pub(super) fn post_touched(&mut self, applied: &mut Applied) {
        if self.take_served() {
            self.save_later();
        }
        // A later batch may have freed a claim that an earlier one waited for.
        applied.rejected.retain(|file| self.catalogue.is_rejected(file));
        let read = applied.touched.iter().filter_map(|file| self.references.get(file)).flatten();
        let read = read.filter(|file| self.catalogue.knows(file));
        let mut touched: Vec<_> = applied.touched.iter().chain(read).cloned().collect();
        touched.sort_unstable_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
        touched.dedup();
        for file in &touched {
            let is_read = self.referrers.contains_key(file);
            self.post(file, self.catalogue.diagnostics(file, is_read));
        }
    }

    /// Records the state of a file. `None` if there is nothing to apply.
    fn record(&mut self, file: &Arc<Path>, state: FileState) -> Option<Found> {
        let is_root = || Roots::paths(&self.settings).any(|root| **root == **file);
        let is_part = || walk::is_description(file) && walk::is_part_of_project(file) && !is_root();
        if !self.is_below_roots(file) || is_part() {
            self.forget(file);
            return Some(Found::Removed);
        }
        let found = match state {
            FileState::Busy => {
                self.debounce.note(
                    file.to_path_buf(),
                    ChangeKind::Writing,
                    self.clock.now().mono_us,
                );
                return None;
            }
            FileState::Missing => {
                if !self.catalogue.knows(file) {
                    self.first_failures.remove(file);
                    return None;
                }
                self.texts.remove(file);
                let wait_us = 1_000 * u64::from(limits::FILE_MISSING_MS_MAX);
                let at_us = self.clock.now().mono_us + wait_us;
                self.missing.entry(Arc::clone(file)).or_insert(at_us);
                Found::Missing
            }
            FileState::Same(version, node) => {
                self.see(file, version, node);
                return None;
            }
            FileState::Read(version, node, text, reading) => {
                self.see(file, version, node);
                if reading.content.is_incomplete() && self.fails_first_time(file, text) {
                    self.debounce.note(
                        file.to_path_buf(),
                        ChangeKind::Writing,
                        self.clock.now().mono_us,
                    );
                    return None;
                }
                self.unserved.remove(file);
                if self.settings.snapshot.is_some() && reading.content.part.is_some() {
                    self.unserved.insert(Arc::clone(file), Valid::of(text, &reading));
                }
                self.texts.insert(Arc::clone(file), text);
                self.first_failures.remove(file);
                self.refer(file, reading.refs);
                Found::Read(Box::new(reading.content))
            }
            FileState::Unreadable(problem) => {
                let locations = self.tracked.look(file);
                self.watch_folders(&locations);
                self.texts.remove(file);
                self.unserved.remove(file);
                Found::Read(Box::new(Content::unreadable(file, problem)))
            }
        };
        Some(found)
    }

    /// Whether the file is invalid for the first time. It may be one that is being written without
    /// an event so far, so it is read again a moment later.
    fn fails_first_time(&mut self, file: &Arc<Path>, text: u64) -> bool {
        if self.watcher.is_none() || self.texts.get(file) == Some(&text) {
            return false;
        }
        self.first_failures.insert(Arc::clone(file), text) != Some(text)
    }

    fn see(&mut self, file: &Arc<Path>, version: Version, node: Node) {
        self.missing.remove(file);
        let locations = self.tracked.look_with(file, Some(version), node);
        self.watch_folders(&locations);
    }

    /// Removes files that are still missing, unless the whole configured folder is missing or was
    /// replaced by an empty one, which is probably an accident.
    pub(super) fn remove_missing(&mut self, files: Vec<Arc<Path>>, work: &mut Work) {
        let mut removed = Vec::new();
        for file in files {
            if walk::version(&file).is_some() {
                work.apis.insert(file);
            } else if self.root_is_there(&file) {
                self.forget(&file);
                removed.push((file, Found::Removed));
            }
        }
        if removed.is_empty() {
            return;
        }
        let mut applied = self.catalogue.apply(removed);
        self.post_touched(&mut applied);
        self.log_loaded(&applied);
        work.changed |= applied.changed;
    }

    fn log_loaded(&self, applied: &Applied) {
        let files = if applied.loaded.is_empty() { 0 } else { self.catalogue.count() };
        let roots = self.roots();
        for file in &applied.loaded {
            let what = match roots.of_artefact(file) {
                Some(_) => "artefacts",
                None if roots.has_application(file) => "application",
                None => "API",
            };
            let done = if self.catalogue.knows(file) { "loaded" } else { "removed" };
            tracing::info!(file = %file.display(), files, "{what} {done}");
        }
    }

    fn forget(&mut self, file: &Path) {
        self.tracked.forget(file);
        self.texts.remove(file);
        self.unserved.remove(file);
        if self.valid.remove(file).is_some() {
            self.save_later();
        }
        self.not_restored(file);
        self.missing.remove(file);
        self.first_failures.remove(file);
        self.refer(file, BTreeMap::new());
    }

    /// Records the files that a description refers to.
    pub(super) fn refer(&mut self, file: &Path, refs: BTreeMap<PathBuf, Referred>) {
        for referred in self.references.remove(file).unwrap_or_default() {
            let Some(by) = self.referrers.get_mut(&referred) else { continue };
            by.remove(file);
            if by.is_empty() {
                self.referrers.remove(&referred);
                if !refs.contains_key(&*referred) && !self.catalogue.knows(&referred) {
                    self.tracked.forget(&referred);
                }
            }
        }
        if refs.is_empty() {
            return;
        }
        let (file, mut named) = (Arc::<Path>::from(file), Vec::new());
        for (referred, Referred { version, .. }) in refs {
            let referred = Arc::from(referred);
            let locations = self.tracked.look_with(&referred, version, Node::Unknown);
            self.watch_folders(&locations);
            named.push(Arc::clone(&referred));
            self.referrers.entry(referred).or_default().insert(Arc::clone(&file));
        }
        self.references.insert(file, named);
    }

    fn roots(&self) -> Roots {
        Roots::of(&self.settings)
    }

    fn is_below_roots(&self, file: &Path) -> bool {
        Roots::paths(&self.settings).any(|root| file.starts_with(root))
    }

    fn root_is_there(&self, file: &Path) -> bool {
        Roots::paths(&self.settings).filter(|root| file.starts_with(root)).any(|root| {
            let found = walk::identity(root);
            found.is_some() && found.as_ref() == self.held.get(root)
        })
    }

    /// Watches the folders of a file's locations.
    pub(super) fn watch_folders(&mut self, locations: &Locations) {
        let Some(watcher) = &mut self.watcher else { return };
        for folder in locations.iter().flatten().filter_map(|location| location.parent()) {
            // The walk already watches its own folders.
            if !self.folders.contains_key(folder) {
                watcher.watch(folder);
            }
        }
    }
}

/// Reads one file, and parses it unless its content has the hash `known`.
fn read_state(
    file: &Path,
    known: Option<u64>,
    rules: &Rules,
    hashing: &impl BuildHasher,
) -> FileState {
    let (metadata, node) = match look(file) {
        Ok(found) if found.0.is_file() => found,
        Ok(_) => return FileState::Unreadable("not a regular file".to_owned()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return FileState::Missing;
        }
        Err(error) => return FileState::Unreadable(format!("cannot be read: {error}")),
    };
    let version = Version::of(&metadata);
    let text = match documents::read_regular(file, metadata.len(), limits::DOCUMENT_BYTES_MAX) {
        Ok(text) => text,
        Err(problem) => return FileState::Unreadable(problem),
    };
    if walk::version(file) != Some(version) {
        return FileState::Busy;
    }
    let hash = hashing.hash_one(&text);
    if known == Some(hash) {
        return FileState::Same(version, node);
    }
    // A panic of the reader must not affect the other files.
    let parsed = catch_unwind(AssertUnwindSafe(|| rules.read(file, &text, &Beside::Disk)));
    match parsed {
        Ok(reading) => FileState::Read(version, node, hash, Box::new(reading)),
        Err(_) => FileState::Unreadable(
            "Penstock failed to read this file; please report this as a bug".into(),
        ),
    }
}

/// The metadata of a file, or of a link's target. One system call for most files, which are not links.
fn look(file: &Path) -> std::io::Result<(fs::Metadata, Node)> {
    let found = fs::symlink_metadata(file)?;
    if found.is_symlink() { Ok((fs::metadata(file)?, Node::Link)) } else { Ok((found, Node::File)) }
}

/// Calls `done` with each batch of `items` and the results of `each` for it, in order. If there are many items, one
/// thread per CPU computes the next batches meanwhile; each is at most one batch ahead.
pub(super) fn in_parallel<I: Sync, T: Send>(
    items: &[I],
    batch: usize,
    each: impl Fn(&I) -> T + Sync,
    mut done: impl FnMut(&[I], Vec<T>),
) {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads.min(items.len().div_ceil(batch));
    let results = |batch: &[I]| batch.iter().map(&each).collect::<Vec<T>>();
    if items.len() < FILES_FOR_THREADS_MIN || threads == 1 {
        items.chunks(batch).for_each(|batch| done(batch, results(batch)));
        return;
    }
    thread::scope(|scope| {
        let results = &results;
        let receivers = (0..threads).map(|first| {
            let (sender, receiver) = mpsc::sync_channel(0);
            scope.spawn(move || {
                let own = items.chunks(batch).skip(first).step_by(threads);
                own.for_each(|batch| drop(sender.send(results(batch))));
            });
            receiver
        });
        let receivers: Vec<_> = receivers.collect();
        for (batch, receiver) in items.chunks(batch).zip(receivers.iter().cycle()) {
            done(batch, receiver.recv().expect("`each` never panics"));
        }
    });
}
