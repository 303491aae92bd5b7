//! Finds API descriptions in folders. Files are not read.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base::limits;
use model::{Diagnostic, Severity};

/// Metadata that identify the version of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    /// Detects writers that reset the modification time.
    changed: (i64, i64),
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) files: BTreeMap<PathBuf, Version>,
    /// Folders that were listed.
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) problems: Vec<Diagnostic>,
}

/// Lists the descriptions in `roots`, files and folders. `enter` is called with each folder before
/// it is listed, so that a watch set there misses nothing. Symbolic links are followed; each folder
/// is entered once, however many links lead to it.
pub(crate) fn walk(roots: &[PathBuf], enter: &mut dyn FnMut(&Path)) -> Walked {
    let mut walked = Walked::default();
    let mut entered = HashSet::new();
    for root in roots {
        match fs::metadata(root) {
            Ok(metadata) if metadata.is_dir() => {
                list(root, 0, &mut entered, &mut walked, enter);
            }
            Ok(metadata) if metadata.is_file() => {
                walked.files.insert(root.clone(), Version::of(&metadata));
            }
            Ok(_) => walked.problems.push(problem(root, "neither a file nor a folder", "")),
            Err(error) => walked.problems.push(problem(
                root,
                &format!("cannot be read: {error}"),
                "correct the path or its permissions; APIs that were loaded from it stay in use",
            )),
        }
    }
    walked
}

/// The version of the regular file at `path`; `None` if there is none.
pub(crate) fn version(path: &Path) -> Option<Version> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|metadata| Version::of(&metadata))
}

/// Device and inode of the file or folder at `path`; `None`: it cannot be read.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// `path` with its folder made canonical, as in events.
pub(crate) fn location(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
    Some(folder.join(path.file_name()?))
}

/// Whether a file of this name is an API description.
pub(crate) fn is_description(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let known = [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending));
    // Hidden files belong to Kubernetes or are temporary files of editors; `#a.yaml#` is one of
    // Emacs.
    known && !name.starts_with(['.', '#'])
}

impl Version {
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn list(
    folder: &Path,
    depth: usize,
    entered: &mut HashSet<(u64, u64)>,
    walked: &mut Walked,
    enter: &mut dyn FnMut(&Path),
) {
    let Ok(metadata) = fs::metadata(folder) else { return };
    if !entered.insert((metadata.dev(), metadata.ino())) {
        return;
    }
    if depth > limits::FOLDER_DEPTH_MAX {
        walked.problems.push(problem(folder, "nested too deeply; not read", "move it up"));
        return;
    }
    enter(folder);
    walked.folders.push(folder.to_owned());
    let entries = match fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
        Ok(entries) => entries,
        Err(error) => {
            walked.problems.push(problem(folder, &format!("cannot be listed: {error}"), ""));
            return;
        }
    };
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        // Removed meanwhile, or a dangling link.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if metadata.is_dir() {
            folders.push(path);
        } else if metadata.is_file() && is_description(&path) {
            if walked.files.len() >= limits::API_FILES_MAX {
                walked.problems.push(problem(
                    &path,
                    "too many API descriptions; this one is not read",
                    "remove some",
                ));
                return;
            }
            walked.files.insert(path, Version::of(&metadata));
        }
    }
    folders.sort();
    for below in folders {
        list(&below, depth + 1, entered, walked, enter);
    }
}

fn problem(path: &Path, message: &str, help: &str) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        file: path.to_owned(),
        place: None,
        message: message.to_owned(),
        help: Some(help.to_owned()).filter(|help| !help.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot make its files has failed")]

    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn descriptions_are_recognised_by_their_names() {
        for name in ["a.yaml", "a.yml", "a.json", "a b.json"] {
            assert!(is_description(Path::new(name)), "{name}");
        }
        for name in [".a.yaml", "a.yaml~", ".a.yaml.swp", "a.yaml.tmp", "#a.yaml#", "a.txt", "4913"]
        {
            assert!(!is_description(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn each_folder_is_walked_once_despite_links_and_loops() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("apis/deep/.hidden")).unwrap();
        for file in
            ["apis/a.yaml", "apis/deep/b.json", "apis/deep/.hidden/c.yaml", "apis/no.txt", "d.yml"]
        {
            fs::write(root.join(file), "x").unwrap();
        }
        symlink("..", root.join("apis/deep/up")).unwrap();
        symlink("../d.yml", root.join("apis/e.yml")).unwrap();
        symlink("nowhere", root.join("apis/f.yml")).unwrap();
        let mut entered = 0;
        let walked = walk(&[root.join("apis"), root.join("d.yml")], &mut |_| entered += 1);
        let found: Vec<String> = walked
            .files
            .keys()
            .map(|file| file.strip_prefix(root).unwrap().display().to_string())
            .collect();
        assert_eq!(found, ["apis/a.yaml", "apis/deep/b.json", "apis/e.yml", "d.yml"]);
        assert_eq!((entered, walked.folders.len()), (2, 2));
        assert_eq!(walked.problems, []);
    }

    #[test]
    fn a_missing_folder_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let walked = walk(&[folder.path().join("apis")], &mut |_| {});
        let problem = walked.problems.first().unwrap();
        assert!(problem.message.starts_with("cannot be read: No such file"), "{problem}");
    }

    #[test]
    fn a_rewrite_of_the_same_length_has_another_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        fs::write(&file, "one").unwrap();
        let before = version(&file);
        fs::write(folder.path().join("b"), "two").unwrap();
        fs::rename(folder.path().join("b"), &file).unwrap();
        assert_ne!(before, version(&file));
        assert_eq!(version(folder.path()), None);
    }
}
