//! inotify by the `notify` crate: folders in, [`Sign`]s out.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RemoveKind, RenameMode};
use notify::{Event, EventKind, RecursiveMode, Watcher as _};

use crate::settle::Sign;
use crate::walk;

/// What the system saw.
#[derive(Debug)]
pub(crate) enum Sighting {
    /// Something about one path.
    At(PathBuf, Sign),
    /// A folder came or went, at this path.
    Folder(PathBuf),
    /// Events were lost: look at everything.
    Lost,
}

/// Watches real folders, each under one name only: inotify knows a folder by one.
pub(crate) struct Watcher {
    notify: Option<notify::RecommendedWatcher>,
    /// With device and inode: a folder made anew needs a new watch.
    folders: HashMap<PathBuf, (u64, u64)>,
}

impl Watcher {
    /// `tell` is called on a thread of the watcher's own.
    pub(crate) fn new(mut tell: impl FnMut(Sighting) + Send + 'static) -> Self {
        let handler = move |event: notify::Result<Event>| match event {
            Ok(event) => sightings(&event, &mut tell),
            Err(error) => {
                tracing::warn!(%error, "watching files failed; looking at all of them");
                tell(Sighting::Lost);
            }
        };
        let notify = notify::recommended_watcher(handler)
            .inspect_err(|error| {
                tracing::warn!(%error, "files cannot be watched; changes are found by polling");
            })
            .ok();
        Self { notify, folders: HashMap::new() }
    }

    /// Watches a folder by its real name. Where that fails, polling finds the changes.
    pub(crate) fn watch(&mut self, folder: &Path) {
        let Some(notify) = &mut self.notify else { return };
        let Ok(folder) = fs::canonicalize(folder) else { return };
        let Ok(metadata) = fs::metadata(&folder) else { return };
        let identity = (metadata.dev(), metadata.ino());
        if self.folders.get(&folder) == Some(&identity) {
            return;
        }
        match notify.watch(&folder, RecursiveMode::NonRecursive) {
            Ok(()) => drop(self.folders.insert(folder, identity)),
            Err(error) => tracing::warn!(
                folder = %folder.display(), %error,
                "folder cannot be watched; its changes are found by polling (fs.inotify.max_user_watches?)"
            ),
        }
    }

    /// A folder was removed or renamed: its watch is no good any more.
    pub(crate) fn forget(&mut self, folder: &Path) {
        self.folders.remove(folder);
    }
}

fn sightings(event: &Event, tell: &mut impl FnMut(Sighting)) {
    if event.need_rescan() {
        return tell(Sighting::Lost);
    }
    let Some(sign) = sign(&event.kind) else { return };
    for path in &event.paths {
        match sign {
            Noticed::Folder => tell(Sighting::Folder(path.clone())),
            // A log beside our files is written to all the time; its close is news enough.
            Noticed::File(Sign::Writing) if !walk::is_description(path) => {}
            Noticed::File(sign) => tell(Sighting::At(path.clone(), sign)),
            // A link, hard or symbolic, is whole at once; a new file gets its bytes later.
            Noticed::Created => {
                let whole = fs::symlink_metadata(path)
                    .is_ok_and(|metadata| metadata.is_symlink() || metadata.nlink() > 1);
                let sign = if whole { Sign::Finished } else { Sign::Writing };
                tell(Sighting::At(path.clone(), sign));
            }
        }
    }
}

enum Noticed {
    File(Sign),
    Created,
    Folder,
}

/// None: of no interest, such as our own reading.
fn sign(kind: &EventKind) -> Option<Noticed> {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => {
            Some(Noticed::File(Sign::Finished))
        }
        EventKind::Access(_) => None,
        EventKind::Create(CreateKind::Folder) => Some(Noticed::Folder),
        EventKind::Create(_) => Some(Noticed::Created),
        // From and To have been told already.
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => None,
        EventKind::Modify(ModifyKind::Name(_)) => Some(Noticed::File(Sign::Finished)),
        EventKind::Modify(ModifyKind::Metadata(_)) => Some(Noticed::File(Sign::Touched)),
        EventKind::Modify(_) => Some(Noticed::File(Sign::Writing)),
        EventKind::Remove(RemoveKind::Folder) => Some(Noticed::Folder),
        EventKind::Remove(_) | EventKind::Any | EventKind::Other => {
            Some(Noticed::File(Sign::Finished))
        }
    }
}
