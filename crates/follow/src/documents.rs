//! Reads API descriptions, artefacts and the files that they refer to, for the follower and for `penstock
//! check`.
//!
//! Architecture invariant: a description cannot cause a file outside its folder to be read, even by
//! symbolic links.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::limits;
use formats::declarative;
use formats::openapi::{self, Defaults};
use formats::snapshot::Kind;
use formats::synapse::{self, Outside, Parameter};
use model::{ArtefactSet, Diagnostic, LoadedApi, Settings};

use crate::catalogue::{Catalogue, Found};
use crate::configuration::defaults;
use crate::fetch::Fetch;
use crate::part::Content;
use crate::snapshots::{self, Texts};
use crate::walk::{self, Roots, Version, Versions};

/// How files are read.
pub(crate) struct Rules {
    defaults: Defaults,
    roots: Roots,
    fetch: Fetch,
    hashing: RandomState,
}

/// The location of the files that a description refers to.
pub(crate) enum Beside<'a> {
    Disk,
    /// A snapshot.
    Saved(&'a Texts<'a>),
}

/// A referenced file, as it was read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Referred {
    /// The version before reading.
    pub(crate) version: Option<Version>,
    /// The hash of the text; `None` if the file cannot be read.
    pub(crate) text: Option<u64>,
}

/// The result of reading a file and the files that it refers to.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) content: Content,
    /// The files that this file names, readable or not. If one changes, this file is read again.
    pub(crate) refs: BTreeMap<PathBuf, Referred>,
}

/// The result of [`check`].
#[derive(Debug)]
pub struct Checked {
    pub files: usize,
    /// Diagnostics ordered by file name, including those of paths and names that two files claim.
    pub diagnostics: Vec<Diagnostic>,
    /// The APIs that would be served.
    pub apis: Vec<LoadedApi>,
    pub artefacts: ArtefactSet,
    /// As `artefacts`, and the readable parts of archives with errors.
    pub readable: ArtefactSet,
}

/// Reads the descriptions in `apis`, the artefacts in `artefacts` and the applications in `applications` as the gateway
/// would. A folder may be in all of them.
#[must_use]
pub fn check(
    apis: &[PathBuf],
    artefacts: &[PathBuf],
    applications: &[PathBuf],
    defaults: &Defaults,
    fetch: &Fetch,
) -> Checked {
    let (artefacts, applications) = (artefacts.to_vec(), applications.to_vec());
    let roots = Roots { apis: apis.to_vec(), artefacts, applications };
    let mut walked = walk::walk(&roots, Versions::Unread, &mut |_| {});
    // The metadata of a project, if a folder is configured both for APIs and for artefacts.
    let is_metadata = |file: &Path| file.iter().any(|part| part == "wso2mi");
    walked.files.retain(|file, _| roots.of_artefact(file).is_some() || !is_metadata(file));
    let (fetch, hashing) = (Arc::clone(fetch), RandomState::new());
    let rules = Rules { defaults: defaults.clone(), roots, fetch, hashing };
    let mut catalogue = Catalogue::default();
    let reading = |file: &Path| match read_bounded(file) {
        Ok(text) => rules.read(file, &text, &Beside::Disk),
        Err(problem) => {
            Reading { content: Content::unreadable(file, problem), refs: BTreeMap::new() }
        }
    };
    let mut files: Vec<Arc<Path>> = walked.files.into_keys().collect();
    files.sort();
    let (mut rests, mut referred) = (Vec::new(), BTreeSet::new());
    let changes = files.iter().map(|file| {
        let Reading { mut content, refs } = reading(file);
        rests.extend(content.rest.take());
        referred.extend(refs.into_keys());
        (Arc::clone(file), Found::Read(Box::new(content)))
    });
    let changes = changes.collect();
    catalogue.apply(changes);
    let mut diagnostics = walked.problems;
    let of = |file: &Arc<Path>| catalogue.diagnostics(file, referred.contains(&**file));
    diagnostics.extend(files.iter().flat_map(of));
    let (apis, artefacts) = (catalogue.apis(), catalogue.artefacts());
    let mut readable = artefacts.clone();
    for rest in rests {
        readable.artefacts.extend(rest.artefacts);
        readable.resources.extend(rest.resources);
    }
    Checked { files: files.len(), diagnostics, apis, artefacts, readable }
}

impl Rules {
    pub(crate) fn of(settings: &Settings, fetch: &Fetch, hashing: &RandomState) -> Self {
        let (fetch, hashing) = (Arc::clone(fetch), hashing.clone());
        Self { defaults: defaults(settings), roots: Roots::of(settings), fetch, hashing }
    }

    /// Parses `text`, the content of `file`.
    pub(crate) fn read(&self, file: &Path, text: &[u8], beside: &Beside<'_>) -> Reading {
        let refs = RefCell::new(BTreeMap::new());
        let folder = file.parent().unwrap_or(Path::new("."));
        let read = |file: PathBuf, read: &dyn Fn() -> Result<Vec<u8>, String>| {
            let version = walk::version(&file);
            let bytes = match beside {
                Beside::Disk => read(),
                Beside::Saved(texts) => {
                    let name = snapshots::name(&file);
                    let saved = texts.get(&(Kind::Reference, name.as_slice()));
                    saved.map(|text| text.to_vec()).ok_or("it is not in the snapshot".to_owned())
                }
            };
            let text = bytes.as_ref().ok().map(|bytes| self.hashing.hash_one(bytes));
            refs.borrow_mut().insert(file, Referred { version, text });
            bytes
        };
        let resolve = |named: &str| read(folder.join(named), &|| read_below(folder, named));
        let content = match self.roots.of_artefact(file) {
            Some(root) => {
                let outcome = artefact((root, file, text), &*self.fetch, &read);
                Content::of_artefacts(outcome)
            }
            None if self.roots.has_application(file) => {
                let plans = &self.defaults.plans;
                Content::of_application(declarative::read_application(file, text, plans))
            }
            None => Content::of_api(file, openapi::read(file, text, &resolve, &self.defaults)),
        };
        Reading { content, refs: refs.take() }
    }
}

/// Reads `text`, the content of the artefact `file`, as the gateway would if `root` were a folder of artefacts.
#[must_use]
pub fn read_artefact(root: &Path, file: &Path, text: &[u8], fetch: &Fetch) -> synapse::Outcome {
    artefact((root, file, text), &**fetch, &|_, read| read())
}

/// The content of a file; the error is for a diagnostic.
type Bytes = Result<Vec<u8>, String>;

/// Reads an artefact. `read` can override the given function for reading a file.
fn artefact(
    (root, file, text): (&Path, &Path, &[u8]),
    fetch: &dyn Fn(&str) -> Bytes,
    read: &dyn Fn(PathBuf, &dyn Fn() -> Bytes) -> Bytes,
) -> synapse::Outcome {
    let folder = file.parent().unwrap_or(Path::new("."));
    let parameter = |kind, name: &str| match kind {
        Parameter::System | Parameter::Config => std::env::var(name).ok(),
        Parameter::File => {
            file_property(root, name, &|file| read(file.to_owned(), &|| read_bounded(file)))
        }
    };
    let resolve = |named: &str| read(folder.join(named), &|| read_below(folder, named));
    synapse::read(file, text, Outside { parameter: &parameter, file: &resolve, fetch })
}

/// The value of `name` in `file.properties`, which is in the configured folder or in its `conf`. An environment
/// variable takes precedence, as in Micro Integrator.
fn file_property(
    root: &Path,
    name: &str,
    read: &dyn Fn(&Path) -> Result<Vec<u8>, String>,
) -> Option<String> {
    let folder = if root.is_dir() { root } else { root.parent()? };
    let files = [folder.join("file.properties"), folder.join("conf/file.properties")];
    let texts = files.map(|file| read(&file).ok());
    std::env::var(name).ok().or_else(|| {
        let texts = texts.into_iter().flatten().filter_map(|text| String::from_utf8(text).ok());
        let property = |line: &str| {
            let (key, value) = line.split_once(['=', ':'])?;
            (key.trim() == name).then(|| value.trim().to_owned())
        };
        texts.into_iter().find_map(|text| text.lines().find_map(property))
    })
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

/// Reads a regular file of up to `bytes_max`. Also returns its version before reading.
pub(crate) fn read_up_to(file: &Path, bytes_max: u64) -> Result<(Vec<u8>, Version), String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    // Opening a pipe or a device could block.
    let metadata = fs::metadata(file).map_err(failed)?;
    if !metadata.is_file() {
        return Err("not a regular file".to_owned());
    }
    Ok((read_regular(file, metadata.len(), bytes_max)?, Version::of(&metadata)))
}

/// Reads a file of about `bytes`, and at most `bytes_max`.
pub(crate) fn read_regular(file: &Path, bytes: u64, bytes_max: u64) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    let opened = File::open(file).map_err(failed)?;
    let most = bytes_max.saturating_add(1);
    // One byte more, so that a second read finds the end without growing the buffer.
    let expected = usize::try_from(bytes.saturating_add(1).min(most)).unwrap_or_default();
    let mut bytes = Vec::with_capacity(expected);
    opened.take(most).read_to_end(&mut bytes).map_err(failed)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        return Err(format!("the file is larger than {bytes_max} bytes"));
    }
    Ok(bytes)
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
