//! Reads API descriptions, artefacts and the files that they refer to, for the follower and for `penstock
//! check`.
//!
//! Architecture invariant: a description cannot cause a file outside its folder to be read, even by
//! symbolic links.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::limits;
use formats::declarative;
use formats::openapi::{self, Defaults};
use formats::synapse::{self, Outside, Parameter};
use model::{ArtefactSet, Diagnostic, LoadedApi, Settings};

use crate::catalogue::{Catalogue, Found};
use crate::configuration::defaults;
use crate::fetch::Fetch;
use crate::part::Content;
use crate::walk::{self, Roots, Version};

/// How files are read.
pub(crate) struct Rules {
    defaults: Defaults,
    roots: Roots,
    fetch: Fetch,
}

/// The result of reading a file and the files that it refers to.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) content: Content,
    /// The files that it names, readable or not, with their versions before reading. If one
    /// changes, the file is read again.
    pub(crate) refs: BTreeMap<PathBuf, Option<Version>>,
}

/// The result of [`check`].
#[derive(Debug)]
pub struct Checked {
    pub files: usize,
    /// Ordered by file name, including paths and names that two files claim.
    pub diagnostics: Vec<Diagnostic>,
    /// What would be served.
    pub apis: Vec<LoadedApi>,
    pub artefacts: ArtefactSet,
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
    let mut walked = walk::walk(&roots, &mut |_| {});
    // A project's metadata, where the paths are of folders of both.
    let is_metadata = |file: &Path| file.iter().any(|part| part == "wso2mi");
    walked.files.retain(|file, _| roots.of_artefact(file).is_some() || !is_metadata(file));
    let rules = Rules { defaults: defaults.clone(), roots, fetch: Arc::clone(fetch) };
    let mut catalogue = Catalogue::default();
    let content = |file: &Path| match read_bounded(file) {
        Ok(text) => rules.read(file, &text).content,
        Err(problem) => Content::unreadable(file, problem),
    };
    let changes =
        walked.files.keys().map(|file| (file.clone(), Found::Read(Box::new(content(file)))));
    catalogue.apply(changes.collect());
    let mut diagnostics = walked.problems;
    diagnostics.extend(walked.files.keys().flat_map(|file| catalogue.diagnostics(file)));
    let (apis, artefacts) = (catalogue.apis(), catalogue.artefacts());
    Checked { files: walked.files.len(), diagnostics, apis, artefacts }
}

impl Rules {
    pub(crate) fn of(settings: &Settings, fetch: &Fetch) -> Self {
        let fetch = Arc::clone(fetch);
        Self { defaults: defaults(settings), roots: Roots::of(settings), fetch }
    }

    /// Parses `text`, the content of `file`.
    pub(crate) fn read(&self, file: &Path, text: &[u8]) -> Reading {
        let refs = RefCell::new(BTreeMap::new());
        let folder = file.parent().unwrap_or(Path::new("."));
        let note = |file: PathBuf| {
            let version = walk::version(&file);
            refs.borrow_mut().insert(file, version);
        };
        let resolve = |named: &str| -> Result<Vec<u8>, String> {
            note(folder.join(named));
            read_below(folder, named)
        };
        let content = match self.roots.of_artefact(file) {
            Some(root) => {
                let parameter = |kind, name: &str| match kind {
                    Parameter::System | Parameter::Config => std::env::var(name).ok(),
                    Parameter::File => file_property(root, name, &note),
                };
                let outside =
                    Outside { parameter: &parameter, file: &resolve, fetch: &*self.fetch };
                Content::of_artefacts(synapse::read(file, text, outside))
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

/// The value of `name` in `file.properties`, which is in the configured folder or in its `conf`. An environment
/// variable takes precedence, as in Micro Integrator.
fn file_property(root: &Path, name: &str, note: &dyn Fn(PathBuf)) -> Option<String> {
    let folder = if root.is_dir() { root } else { root.parent()? };
    let files = [folder.join("file.properties"), folder.join("conf/file.properties")];
    for file in &files {
        note(file.clone());
    }
    std::env::var(name).ok().or_else(|| {
        let texts =
            files.iter().filter_map(|file| String::from_utf8(read_bounded(file).ok()?).ok());
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
