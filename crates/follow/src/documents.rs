//! Reads API descriptions from disk, and the files that they refer to: the edge under
//! `formats::openapi`, for the follower and for `penstock check`.
//!
//! Architecture invariant: nothing outside the folder of the description is opened on its behalf,
//! whatever links stand there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use base::limits;
use formats::openapi::{self, Defaults, Outcome};
use model::{Diagnostic, LoadedApi, Severity};

use crate::catalogue::{Catalogue, Found};
use crate::walk::{self, Stamp};

/// One reading of a description with everything that it refers to.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) outcome: Outcome,
    /// Files named by `$ref`s, read or not, as they were just before: their change is a change of
    /// the description.
    pub(crate) refs: BTreeMap<PathBuf, Option<Stamp>>,
}

/// What a start with these files and folders would find.
#[derive(Debug)]
pub struct Checked {
    pub files: usize,
    /// In the order of file names, contested paths included.
    pub diagnostics: Vec<Diagnostic>,
    /// What would be served.
    pub apis: Vec<LoadedApi>,
}

/// Reads the descriptions below `paths` as the gateway would.
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
    let findings = walked.files.keys().flat_map(|file| catalogue.diagnostics(file));
    diagnostics.extend(findings);
    Checked { files: walked.files.len(), diagnostics, apis: catalogue.apis() }
}

/// Parses `text`, which `file` holds.
pub(crate) fn read(file: &Path, text: &[u8], defaults: &Defaults) -> Reading {
    let refs = RefCell::new(BTreeMap::new());
    let folder = file.parent().unwrap_or(Path::new("."));
    let resolve = |named: &str| -> Result<Vec<u8>, String> {
        let file = folder.join(named);
        let stamp = walk::stamp(&file);
        refs.borrow_mut().insert(file, stamp);
        read_below(folder, named)
    };
    let outcome = openapi::read(file, text, &resolve, defaults);
    Reading { outcome, refs: refs.take() }
}

pub(crate) fn unreadable(file: &Path, problem: String) -> Outcome {
    let finding = Diagnostic {
        severity: Severity::Error,
        file: file.to_owned(),
        place: None,
        message: problem,
        help: None,
    };
    Outcome { diagnostics: vec![finding], ..Outcome::default() }
}

/// The whole of a regular file, up to `DOCUMENT_BYTES_MAX`. The error is for a diagnostic.
pub(crate) fn read_bounded(file: &Path) -> Result<Vec<u8>, String> {
    read_up_to(file, limits::DOCUMENT_BYTES_MAX).map(|(bytes, _)| bytes)
}

/// What holds an issuer's keys, up to `JWKS_BYTES_MAX`.
pub(crate) fn read_keys(file: &Path) -> Result<Vec<u8>, String> {
    let bytes_max = u64::try_from(limits::JWKS_BYTES_MAX).unwrap_or(u64::MAX);
    read_up_to(file, bytes_max).map(|(bytes, _)| bytes)
}

/// The same with a limit of the caller's, and the stamp of what was read.
pub(crate) fn read_up_to(file: &Path, bytes_max: u64) -> Result<(Vec<u8>, Stamp), String> {
    let told = |error: std::io::Error| format!("cannot be read: {error}");
    // A pipe or a device must not be opened: that alone could hang.
    if !fs::metadata(file).map_err(told)?.is_file() {
        return Err("is not a file".to_owned());
    }
    let opened = File::open(file).map_err(told)?;
    let stamp = Stamp::of(&opened.metadata().map_err(told)?);
    let mut bytes = Vec::new();
    opened.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(told)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        return Err(format!("is larger than {bytes_max} bytes"));
    }
    Ok((bytes, stamp))
}

/// A file that a description in `folder` refers to. Links are followed, Kubernetes' included, as long as they end below
/// the folder.
fn read_below(folder: &Path, named: &str) -> Result<Vec<u8>, String> {
    let told = |error: std::io::Error| format!("cannot be read: {error}");
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let inside = fs::canonicalize(folder).map_err(told)?;
    let target = fs::canonicalize(folder.join(named)).map_err(told)?;
    if !target.starts_with(&inside) {
        return Err("lies outside the folder of the API's file".to_owned());
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
        check(&apis, "leak.yaml", Err("lies outside the folder of the API's file"));
        check(&apis, "../secret", Err("lies outside the folder of the API's file"));
        check(&apis, "parts", Err("is not a file"));
    }

    #[test]
    fn a_reference_works_where_kubernetes_links_the_whole_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("..2026_01")).unwrap();
        fs::write(folder.path().join("..2026_01/pet.yaml"), "pet").unwrap();
        symlink("..2026_01", folder.path().join("..data")).unwrap();
        symlink("..data/pet.yaml", folder.path().join("pet.yaml")).unwrap();
        check(folder.path(), "pet.yaml", Ok("pet"));
    }

    #[test]
    fn a_file_over_its_limit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        fs::write(&file, "12345").unwrap();
        assert_eq!(read_up_to(&file, 5).unwrap().0, b"12345");
        assert_eq!(read_up_to(&file, 4).unwrap_err(), "is larger than 4 bytes");
    }

    #[track_caller]
    fn check(folder: &Path, named: &str, expect: Result<&str, &str>) {
        let found = read_below(folder, named).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(found.as_deref().map_err(String::as_str), expect);
    }
}
