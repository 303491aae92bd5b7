//! Finds the watched files that an event concerns. A link has two locations: its own and that of its target.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldhash::HashMap;

use crate::walk::{self, Version};

/// The watched files, by the path under which they are read.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    files: HashMap<Arc<Path>, Seen>,
    /// Files by the path, with canonical folder, of the file and of its target.
    locations: HashMap<Arc<Path>, At>,
    /// Canonical paths of folders since the last walk, because thousands of files share a few.
    real: HashMap<PathBuf, Option<Arc<Path>>>,
}

#[derive(Debug)]
struct Seen {
    version: Option<Version>,
    locations: Locations,
}

/// The location of a file, and that of its target if it is a link.
pub(crate) type Locations = [Option<Arc<Path>>; 2];

/// The type of the file at a path, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    File,
    Link,
    Unknown,
}

/// The files at a location.
#[derive(Debug)]
enum At {
    One(Arc<Path>),
    /// Several files, in order.
    Several(Vec<Arc<Path>>),
}

impl Tracked {
    /// Forgets canonical folders, which may have changed.
    pub(crate) fn forget_folders(&mut self) {
        self.real.clear();
    }

    /// Records the current locations of `file`, for later events. Returns them; their folders are to be watched.
    pub(crate) fn look(&mut self, file: &Arc<Path>) -> Locations {
        self.look_with(file, walk::version(file), Node::Unknown)
    }

    /// As [`Self::look`] with a known version.
    pub(crate) fn look_with(
        &mut self,
        file: &Arc<Path>,
        version: Option<Version>,
        node: Node,
    ) -> Locations {
        let locations = self.find(file, node);
        if let Some(seen) = self.files.get_mut(file)
            && seen.locations == locations
        {
            seen.version = version;
            return locations;
        }
        self.forget(file);
        for location in locations.iter().flatten() {
            match self.locations.get_mut(location) {
                Some(at) => at.add(file),
                None => {
                    drop(self.locations.insert(Arc::clone(location), At::One(Arc::clone(file))))
                }
            }
        }
        self.files.insert(Arc::clone(file), Seen { version, locations: locations.clone() });
        locations
    }

    pub(crate) fn knows(&self, file: &Path) -> bool {
        self.files.contains_key(file)
    }

    pub(crate) fn forget(&mut self, file: &Path) {
        let Some(seen) = self.files.remove(file) else { return };
        for location in seen.locations.iter().flatten() {
            let Some(at) = self.locations.get_mut(location) else { continue };
            if at.remove(file) == Left::Nothing {
                self.locations.remove(location);
            }
        }
    }

    /// The watched files at a location.
    pub(crate) fn at(&self, location: &Path) -> &[Arc<Path>] {
        match self.locations.get(location) {
            Some(At::One(file)) => std::slice::from_ref(file),
            Some(At::Several(files)) => files,
            None => &[],
        }
    }

    /// Whether `version` differs from the recorded one.
    pub(crate) fn differs(&self, file: &Path, version: Option<&Version>) -> bool {
        self.files.get(file).is_none_or(|seen| seen.version.as_ref() != version)
    }

    /// The locations of `file`, and of its target if it is a link, without recording them.
    pub(crate) fn find(&mut self, file: &Arc<Path>, node: Node) -> Locations {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        if !self.real.contains_key(folder) {
            let real = fs::canonicalize(folder).ok().map(Arc::from);
            self.real.insert(folder.to_owned(), real);
        }
        let real = self.real.get(folder).and_then(Option::as_ref);
        let own = real.zip(file.file_name()).map(|(real, name)| {
            // Absolute paths without links are their own locations, and one allocation.
            if **real == *folder { Arc::clone(file) } else { Arc::from(real.join(name)) }
        });
        let target = own.as_ref().filter(|own| match node {
            Node::File => false,
            Node::Link => true,
            Node::Unknown => fs::symlink_metadata(own).is_ok_and(|found| found.is_symlink()),
        });
        let target = target.and_then(|own| fs::canonicalize(own).ok());
        [own, target.map(Arc::from)]
    }
}

/// Whether a location still has files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Some,
    Nothing,
}

impl At {
    fn add(&mut self, file: &Arc<Path>) {
        let mut files = match self {
            Self::One(one) => vec![Arc::clone(one)],
            Self::Several(files) => std::mem::take(files),
        };
        files.push(Arc::clone(file));
        files.sort();
        files.dedup();
        *self = Self::Several(files);
    }

    fn remove(&mut self, file: &Path) -> Left {
        let nothing = match self {
            Self::One(one) => **one == *file,
            Self::Several(files) => {
                files.retain(|one| **one != *file);
                files.is_empty()
            }
        };
        if nothing { Left::Nothing } else { Left::Some }
    }
}
