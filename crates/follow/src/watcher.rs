//! Watches folders with the `notify` crate (inotify).

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RemoveKind, RenameMode};
use notify::{Event, EventKind, RecursiveMode, Watcher as _};

use crate::debounce::ChangeKind;
use crate::walk;

/// An event of the file system.
#[derive(Debug)]
pub(crate) enum FileEvent {
    /// A path changed.
    Path(PathBuf, ChangeKind),
    /// A folder appeared or disappeared.
    Folder(PathBuf),
    /// Events were lost, so everything must be checked.
    Rescan,
}

/// Watches folders, each under its canonical path: inotify has one watch per folder.
pub(crate) struct Watcher {
    notify: Option<notify::RecommendedWatcher>,
    /// Watched folders with device and inode, because a folder that was recreated needs a new watch.
    folders: HashMap<PathBuf, (u64, u64)>,
    /// Folders that cannot be watched. Each is reported once, although every poll tries again.
    refused: HashSet<PathBuf>,
}

impl Watcher {
    /// `send` is called on the watcher's thread.
    pub(crate) fn new(mut send: impl FnMut(FileEvent) + Send + 'static) -> Self {
        let handler = move |event: notify::Result<Event>| match event {
            Ok(event) => events(&event, &mut send),
            Err(error) => {
                tracing::warn!(%error, "watching files failed; checking all of them");
                send(FileEvent::Rescan);
            }
        };
        let notify = notify::recommended_watcher(handler)
            .inspect_err(|error| {
                tracing::warn!(%error, "cannot watch files; changes are found by polling");
            })
            .ok();
        Self { notify, folders: HashMap::new(), refused: HashSet::new() }
    }

    /// Watches a folder. If that fails, polling finds the changes.
    pub(crate) fn watch(&mut self, folder: &Path) {
        let Some(notify) = &mut self.notify else { return };
        let Ok(folder) = fs::canonicalize(folder) else { return };
        let Some(identity) = walk::identity(&folder) else { return };
        if self.folders.get(&folder) == Some(&identity) {
            return;
        }
        match notify.watch(&folder, RecursiveMode::NonRecursive) {
            Ok(()) => {
                self.refused.remove(&folder);
                self.folders.insert(folder, identity);
            }
            Err(error) => {
                if self.refused.insert(folder.clone()) {
                    tracing::warn!(
                        folder = %folder.display(), %error,
                        "cannot watch folder; its changes are found by polling (check fs.inotify.max_user_watches)"
                    );
                }
            }
        }
    }

    /// Forgets a folder that was removed or renamed, whose watch is no longer valid.
    pub(crate) fn forget(&mut self, folder: &Path) {
        self.folders.remove(folder);
    }
}

fn events(event: &Event, send: &mut impl FnMut(FileEvent)) {
    if event.need_rescan() {
        return send(FileEvent::Rescan);
    }
    let Some(class) = class(&event.kind) else { return };
    for path in &event.paths {
        match class {
            EventClass::Folder => send(FileEvent::Folder(path.clone())),
            // Other files in the folder, such as logs, may be written all the time; closing them is
            // enough.
            EventClass::File(ChangeKind::Writing) if !walk::may_be_found(path) => {}
            EventClass::File(kind) => send(FileEvent::Path(path.clone(), kind)),
            // A hard or symbolic link is complete at once; a new file is written later.
            EventClass::Created => {
                let complete = fs::symlink_metadata(path)
                    .is_ok_and(|metadata| metadata.is_symlink() || metadata.nlink() > 1);
                let kind = if complete { ChangeKind::Complete } else { ChangeKind::Writing };
                send(FileEvent::Path(path.clone(), kind));
            }
        }
    }
}

enum EventClass {
    File(ChangeKind),
    Created,
    Folder,
}

/// Classifies an event; `None` if it is irrelevant, such as a read by this process.
fn class(kind: &EventKind) -> Option<EventClass> {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => {
            Some(EventClass::File(ChangeKind::Complete))
        }
        EventKind::Access(_) => None,
        EventKind::Create(CreateKind::Folder) => Some(EventClass::Folder),
        EventKind::Create(_) => Some(EventClass::Created),
        // Already reported as From and To.
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => None,
        EventKind::Modify(ModifyKind::Name(_)) => Some(EventClass::File(ChangeKind::Complete)),
        EventKind::Modify(ModifyKind::Metadata(_)) => Some(EventClass::File(ChangeKind::Metadata)),
        EventKind::Modify(_) => Some(EventClass::File(ChangeKind::Writing)),
        EventKind::Remove(RemoveKind::Folder) => Some(EventClass::Folder),
        EventKind::Remove(_) | EventKind::Any | EventKind::Other => {
            Some(EventClass::File(ChangeKind::Complete))
        }
    }
}
