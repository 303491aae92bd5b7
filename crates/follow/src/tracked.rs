//! Which of our files an event is about. One file may be reached by several names: its own, and that
//! of what it links to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use crate::walk::{self, Stamp};

/// Files whose content matters, by the name under which they are read.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    files: BTreeMap<PathBuf, Seen>,
    /// Real folder plus name, of the file and of what it links to.
    locations: HashMap<PathBuf, BTreeSet<PathBuf>>,
    /// Real names of folders, as of the last walk: thousands of files share a few.
    real: HashMap<PathBuf, Option<PathBuf>>,
}

#[derive(Debug)]
struct Seen {
    stamp: Option<Stamp>,
    locations: Vec<PathBuf>,
}

impl Tracked {
    /// Folders may have been moved or linked anew since they were last looked at.
    pub(crate) fn forget_folders(&mut self) {
        self.real.clear();
    }

    /// Looks where `file` is now, so that later events about it are known. Answers the real folders
    /// to be watched for it.
    pub(crate) fn look(&mut self, file: &Path) -> Vec<PathBuf> {
        self.look_with(file, walk::stamp(file))
    }

    /// The same with a stamp taken already.
    pub(crate) fn look_with(&mut self, file: &Path, stamp: Option<Stamp>) -> Vec<PathBuf> {
        let locations = self.find(file);
        let known = self.files.get(file).map(|seen| &seen.locations) == Some(&locations);
        if !known {
            self.forget(file);
            for location in &locations {
                self.locations.entry(location.clone()).or_default().insert(file.to_owned());
            }
        }
        let folders = locations.iter().filter_map(|location| location.parent()).map(Path::to_owned);
        let folders = folders.collect();
        self.files.insert(file.to_owned(), Seen { stamp, locations });
        folders
    }

    /// The real folders to be watched for `file`. What was seen of it stays.
    pub(crate) fn folders(&mut self, file: &Path) -> Vec<PathBuf> {
        let locations = self.find(file);
        locations.iter().filter_map(|location| location.parent()).map(Path::to_owned).collect()
    }

    pub(crate) fn knows(&self, file: &Path) -> bool {
        self.files.contains_key(file)
    }

    pub(crate) fn forget(&mut self, file: &Path) {
        let Some(seen) = self.files.remove(file) else { return };
        for location in seen.locations {
            let Some(files) = self.locations.get_mut(&location) else { continue };
            files.remove(file);
            if files.is_empty() {
                self.locations.remove(&location);
            }
        }
    }

    /// Our files at a real folder plus name.
    pub(crate) fn at(&self, location: &Path) -> Vec<PathBuf> {
        self.locations.get(location).into_iter().flatten().cloned().collect()
    }

    /// Whether `stamp` is not the one that was last seen.
    pub(crate) fn differs(&self, file: &Path, stamp: Option<&Stamp>) -> bool {
        self.files.get(file).is_none_or(|seen| seen.stamp.as_ref() != stamp)
    }

    /// The real folder of `file` with its name, and the same of what it finally links to.
    fn find(&mut self, file: &Path) -> Vec<PathBuf> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let real =
            self.real.entry(folder.to_owned()).or_insert_with(|| fs::canonicalize(folder).ok());
        let own = real.as_ref().zip(file.file_name()).map(|(folder, name)| folder.join(name));
        // Most files are no links, which one `lstat` tells.
        let link = |own: &PathBuf| fs::symlink_metadata(own).is_ok_and(|found| found.is_symlink());
        let target =
            own.as_ref().filter(|own| link(own)).and_then(|own| fs::canonicalize(own).ok());
        own.into_iter().chain(target).collect()
    }
}
