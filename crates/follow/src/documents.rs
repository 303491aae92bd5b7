//! Reads API descriptions and the files that they refer to, for the follower and for `penstock
//! check`.
//!
//! Architecture invariant: a description cannot cause a file outside its folder to be read, even by
//! symbolic links.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use base::limits;
use formats::openapi::{self, Defaults, Outcome};
use model::{Diagnostic, LoadedApi, Severity};

use crate::catalogue::{Catalogue, Found};
use crate::walk::{self, Version};

/// The result of reading a description and the files that it refers to.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) outcome: Outcome,
    /// The files named by `$ref`s, readable or not, with their versions before reading. If one
    /// changes, the description is read again.
    pub(crate) refs: BTreeMap<PathBuf, Option<Version>>,
}

/// The result of [`check`].
#[derive(Debug)]
pub struct Checked {
    pub files: usize,
    /// Ordered by file name, including paths that two files claim.
    pub diagnostics: Vec<Diagnostic>,
    /// What would be served.
    pub apis: Vec<LoadedApi>,
}

/// Reads the descriptions in `paths` as the gateway would.
#[must_use]
pub fn check(paths: &[PathBuf], defaults: &Defaults) -> Checked {
    let walked = walk::walk(paths, &mut |_| {});
    let mut catalogue = Catalogue::default();
    let outcome = |file: &Path| match read_bounded(file) {
        Ok(text) => read(file, &text, defaults).outcome,
        Err(problem) => unreadable(file, problem),
    };
    let changes =
        walked.files.keys().map(|file| (file.clone(), Found::Read(Box::new(outcome(file)))));
    catalogue.apply(changes.collect());
    let mut diagnostics = walked.problems;
    diagnostics.extend(walked.files.keys().flat_map(|file| catalogue.diagnostics(file)));
    Checked { files: walked.files.len(), diagnostics, apis: catalogue.apis() }
}

/// Parses `text`, the content of `file`.
pub(crate) fn read(file: &Path, text: &[u8], defaults: &Defaults) -> Reading {
    let refs = RefCell::new(BTreeMap::new());
    let folder = file.parent().unwrap_or(Path::new("."));
    let resolve = |named: &str| -> Result<Vec<u8>, String> {
        let file = folder.join(named);
        let version = walk::version(&file);
        refs.borrow_mut().insert(file, version);
        read_below(folder, named)
    };
    let outcome = openapi::read(file, text, &resolve, defaults);
    Reading { outcome, refs: refs.take() }
}

pub(crate) fn unreadable(file: &Path, problem: String) -> Outcome {
    let diagnostic = Diagnostic {
        severity: Severity::Error,
        file: file.to_owned(),
        place: None,
        message: problem,
        help: None,
    };
    Outcome { diagnostics: vec![diagnostic], ..Outcome::default() }
}

/// Reads a regular file of up to `DOCUMENT_BYTES_MAX`. The error is for a diagnostic.
pub(crate) fn read_bounded(file: &Path) -> Result<Vec<u8>, String> {
    read_up_to(file, limits::DOCUMENT_BYTES_MAX).map(|(bytes, _)| bytes)
}

/// Reads a file with an issuer's keys, of up to `JWKS_BYTES_MAX`.
pub(crate) fn read_keys(file: &Path) -> Result<Vec<u8>, String> {
    let bytes_max = u64::try_from(limits::JWKS_BYTES_MAX).unwrap_or(u64::MAX);
    read_up_to(file, bytes_max).map(|(bytes, _)| bytes)
}

/// Reads a regular file of up to `bytes_max`. Returns its version as well.
pub(crate) fn read_up_to(file: &Path, bytes_max: u64) -> Result<(Vec<u8>, Version), String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    // Opening a pipe or a device could block.
    if !fs::metadata(file).map_err(failed)?.is_file() {
        return Err("not a regular file".to_owned());
    }
    let opened = File::open(file).map_err(failed)?;
    let version = Version::of(&opened.metadata().map_err(failed)?);
    let mut bytes = Vec::new();
    opened.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        return Err(format!("the file is larger than {bytes_max} bytes"));
    }
    Ok((bytes, version))
}

/// Reads a file that a description in `folder` refers to. Symbolic links, such as those of
/// Kubernetes, are followed as long as they lead to a file in the folder or below.
fn read_below(folder: &Path, named: &str) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let inside = fs::canonicalize(folder).map_err(failed)?;
    let target = fs::canonicalize(folder.join(named)).map_err(failed)?;
    if !target.starts_with(&inside) {
        return Err("the file is outside the folder of the description".to_owned());
    }
    read_bounded(&target)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot make its files has failed")]

    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_reference_cannot_leave_the_folder_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let apis = folder.path().join("apis");
        fs::create_dir_all(apis.join("parts")).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        fs::write(apis.join("parts/pet.yaml"), "pet").unwrap();
        symlink("../secret", apis.join("leak.yaml")).unwrap();
        symlink("parts/pet.yaml", apis.join("pet.yaml")).unwrap();
        check(&apis, "parts/pet.yaml", Ok("pet"));
        check(&apis, "pet.yaml", Ok("pet"));
        check(&apis, "leak.yaml", Err("outside the folder"));
        check(&apis, "../secret", Err("outside the folder"));
        check(&apis, "parts", Err("regular file"));
    }

    #[test]
    fn a_reference_works_through_the_links_of_a_kubernetes_volume() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("..2026_01")).unwrap();
        fs::write(folder.path().join("..2026_01/pet.yaml"), "pet").unwrap();
        symlink("..2026_01", folder.path().join("..data")).unwrap();
        symlink("..data/pet.yaml", folder.path().join("pet.yaml")).unwrap();
        check(folder.path(), "pet.yaml", Ok("pet"));
    }

    #[test]
    fn a_file_over_its_limit_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        fs::write(&file, "12345").unwrap();
        assert_eq!(read_up_to(&file, 5).unwrap().0, b"12345");
        assert!(read_up_to(&file, 4).unwrap_err().contains("4 bytes"));
    }

    #[track_caller]
    fn check(folder: &Path, named: &str, expect: Result<&str, &str>) {
        let found = read_below(folder, named).map(|bytes| String::from_utf8(bytes).unwrap());
        match (found, expect) {
            (Ok(found), Ok(expect)) => assert_eq!(found, expect),
            (Err(found), Err(phrase)) => assert!(found.contains(phrase), "{found}"),
            (found, _) => panic!("{found:?}"),
        }
    }
}
