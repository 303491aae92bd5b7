//! Finds the watched files that an event is about. A file has two locations if it is a link: its
//! own and that of its target.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use crate::walk::{self, Version};

/// The watched files, by the path under which they are read.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    files: BTreeMap<PathBuf, Seen>,
    /// By path with canonical folder, of the file and of its target.
    locations: HashMap<PathBuf, BTreeSet<PathBuf>>,
    /// Canonical paths of folders since the last walk, because thousands of files share a few.
    real: HashMap<PathBuf, Option<PathBuf>>,
}

#[derive(Debug)]
struct Seen {
    version: Option<Version>,
    locations: Vec<PathBuf>,
}

impl Tracked {
    /// Forgets canonical folders, which may have changed.
    pub(crate) fn forget_folders(&mut self) {
        self.real.clear();
    }

    /// Records the current locations of `file`, for later events. Returns the canonical folders to
    /// watch.
    pub(crate) fn look(&mut self, file: &Path) -> Vec<PathBuf> {
        self.look_with(file, walk::version(file))
    }

    /// The same with a known version.
    pub(crate) fn look_with(&mut self, file: &Path, version: Option<Version>) -> Vec<PathBuf> {
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
        self.files.insert(file.to_owned(), Seen { version, locations });
        folders
    }

    /// The canonical folders to watch for `file`. Its recorded version does not change.
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

    /// The watched files at a location.
    pub(crate) fn at(&self, location: &Path) -> Vec<PathBuf> {
        self.locations.get(location).into_iter().flatten().cloned().collect()
    }

    /// Whether `version` differs from the recorded one.
    pub(crate) fn differs(&self, file: &Path, version: Option<&Version>) -> bool {
        self.files.get(file).is_none_or(|seen| seen.version.as_ref() != version)
    }

    /// The locations of `file` and of the target if it is a link.
    fn find(&mut self, file: &Path) -> Vec<PathBuf> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let real =
            self.real.entry(folder.to_owned()).or_insert_with(|| fs::canonicalize(folder).ok());
        let own = real.as_ref().zip(file.file_name()).map(|(folder, name)| folder.join(name));
        // Most files are not links, which takes one `lstat` to find out.
        let link = |own: &PathBuf| fs::symlink_metadata(own).is_ok_and(|found| found.is_symlink());
        let target =
            own.as_ref().filter(|own| link(own)).and_then(|own| fs::canonicalize(own).ok());
        own.into_iter().chain(target).collect()
    }
}
