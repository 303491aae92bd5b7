//! Finds API descriptions, artefacts and applications in folders. Files are not read.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::limits;
use foldhash::{HashMap, HashSet};
use formats::synapse::{self, Role};
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

/// Whether a walk reads the versions of files, which takes a system call for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    Read,
    Unread,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// Files found. Not ordered, because comparing paths takes long and there may be many.
    pub(crate) files: HashMap<Arc<Path>, Option<Version>>,
    /// Folders that were listed.
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) problems: Vec<Diagnostic>,
}

/// The configured files and folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roots {
    /// Files and folders of API descriptions.
    pub(crate) apis: Vec<PathBuf>,
    /// Files and folders of Synapse artefacts.
    pub(crate) artefacts: Vec<PathBuf>,
    pub(crate) applications: Vec<PathBuf>,
}

/// The kind of files to find in a folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Apis,
    Artefacts,
    Applications,
}

impl Roots {
    pub(crate) fn of(settings: &model::Settings) -> Self {
        Self {
            apis: settings.gateway.apis.clone(),
            artefacts: settings.integration.artefacts.clone(),
            applications: settings.gateway.applications.clone(),
        }
    }

    pub(crate) fn paths(settings: &model::Settings) -> impl Iterator<Item = &PathBuf> {
        let gateway = &settings.gateway;
        gateway.apis.iter().chain(&settings.integration.artefacts).chain(&gateway.applications)
    }

    /// The configured file or folder of artefacts that contains `file`; `None` for an API description.
    pub(crate) fn of_artefact(&self, file: &Path) -> Option<&Path> {
        let mut roots = self.artefacts.iter();
        let root = roots.find(|root| file.starts_with(root))?;
        (root == file || Role::of(file).is_some()).then_some(root)
    }

    /// Whether `file` describes an application.
    pub(crate) fn has_application(&self, file: &Path) -> bool {
        is_application(file) && self.applications.iter().any(|root| file.starts_with(root))
    }

    /// Whether a walk would find a file at this path.
    pub(crate) fn select(&self, file: &Path) -> bool {
        let is_api = || self.apis.iter().any(|root| file.starts_with(root));
        self.of_artefact(file).is_some()
            || is_description(file) && is_api() && !is_part_of_project(file)
            || self.has_application(file)
    }
}

impl Kind {
    fn selects(self, file: &Path) -> bool {
        match self {
            Self::Apis => is_description(file) && !is_part_of_project(file),
            Self::Artefacts => Role::of(file).is_some(),
            Self::Applications => is_application(file),
        }
    }

    fn enters(self, folder: &Path) -> bool {
        self != Self::Artefacts || synapse::enters(folder)
    }
}

/// Lists the files in `roots`. `enter` is called with each folder before it is listed, so that a watch set there misses
/// nothing. Symbolic links are followed; each folder is entered once for each kind, even if several links lead to it.
pub(crate) fn walk(roots: &Roots, versions: Versions, enter: &mut dyn FnMut(&Path)) -> Walked {
    let mut walked = Walked::default();
    let kinds = [
        (Kind::Apis, &roots.apis),
        (Kind::Artefacts, &roots.artefacts),
        (Kind::Applications, &roots.applications),
    ];
    for (kind, roots) in kinds {
        walk_kind((kind, versions), roots, &mut walked, enter);
    }
    walked
}

fn walk_kind(
    kind: (Kind, Versions),
    roots: &[PathBuf],
    walked: &mut Walked,
    enter: &mut dyn FnMut(&Path),
) {
    let mut entered = HashSet::default();
    for root in roots {
        match fs::metadata(root) {
            Ok(metadata) if metadata.is_dir() => {
                list(kind, (root, 0), &mut entered, walked, enter);
            }
            Ok(metadata) if metadata.is_file() => {
                walked.files.insert(Arc::from(root.as_path()), Some(Version::of(&metadata)));
            }
            Ok(_) => walked.problems.push(problem(root, "neither a file nor a folder", "")),
            Err(error) => walked.problems.push(problem(
                root,
                &format!("cannot be read: {error}"),
                "correct the path or its permissions",
            )),
        }
    }
}

/// The version of the regular file at `path`; `None` if there is none.
pub(crate) fn version(path: &Path) -> Option<Version> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|metadata| Version::of(&metadata))
}

/// Device and inode of the file or folder at `path`; `None` if it cannot be read.
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
    known && !is_hidden(name)
}

/// Whether a file belongs to a project of API Manager, whose `api.yaml` describes the API. Only names that projects
/// have are looked up. `Definitions/swagger.yaml` always belongs to one, since `api.yaml` may be written later.
pub(crate) fn is_part_of_project(file: &Path) -> bool {
    const FOLDERS: [&str; 8] = [
        "Definitions",
        "Docs",
        "Policies",
        "Client-certificates",
        "Endpoint-certificates",
        "Image",
        "WSDL",
        "Sequences",
    ];
    const FILES: [&str; 3] = ["api_meta.yaml", "deployment_environments.yaml", "api_params.yaml"];
    let is_project = |folder: &Path| {
        let has = |name| folder.join(name).is_file();
        folder.join(FOLDERS[0]).is_dir() && (has("api.yaml") || has("api.json"))
    };
    let is_named = |path: &Path, names: &[&str]| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| names.contains(&name))
    };
    let parts = file.ancestors().filter_map(|path| Some((path, path.parent()?)));
    if file.file_stem().is_some_and(|stem| stem == "swagger")
        && file.parent().is_some_and(|folder| folder.ends_with(FOLDERS[0]))
    {
        return true;
    }
    parts.enumerate().any(|(above, (path, folder))| {
        let names: &[&str] = if above == 0 { &FILES } else { &FOLDERS };
        is_named(path, names) && is_project(folder)
    })
}

/// Whether a file of this name describes an application.
fn is_application(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.ends_with(".toml") && !is_hidden(name))
}

/// Hidden files belong to Kubernetes or are temporary files of editors; `#a.yaml#` is one of Emacs.
fn is_hidden(name: &str) -> bool {
    name.starts_with(['.', '#'])
}

/// Whether a walk may find a file of this name.
pub(crate) fn may_be_found(path: &Path) -> bool {
    is_description(path) || is_application(path) || Role::of(path).is_some()
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
    (kind, versions): (Kind, Versions),
    (folder, depth): (&Path, usize),
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
        // The entry was removed meanwhile, or is a dangling link.
        let Some((node, version)) = look(&entry, &path, versions) else { continue };
        if node.is_dir() {
            if kind.enters(&path) {
                folders.push(path);
            }
        } else if node.is_file() && kind.selects(&path) {
            if walked.files.len() >= limits::API_FILES_MAX {
                walked.problems.push(problem(
                    &path,
                    "too many files; this one is not read",
                    "remove some",
                ));
                return;
            }
            walked.files.insert(Arc::from(path), version);
        }
    }
    folders.sort();
    for below in folders {
        list((kind, versions), (&below, depth + 1), entered, walked, enter);
    }
}

/// The type and version of a folder's entry, or of a link's target.
fn look(
    entry: &fs::DirEntry,
    path: &Path,
    versions: Versions,
) -> Option<(fs::FileType, Option<Version>)> {
    let known = entry.file_type().ok().filter(|node| !node.is_symlink());
    if let Some(node) = known.filter(|_| versions == Versions::Unread) {
        return Some((node, None));
    }
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.file_type(), Some(Version::of(&metadata))))
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
        let apis = vec![root.join("apis"), root.join("d.yml")];
        let roots = Roots { apis, ..Roots::default() };
        let walked = walk(&roots, Versions::Unread, &mut |_| entered += 1);
        let mut found: Vec<String> = walked
            .files
            .keys()
            .map(|file| file.strip_prefix(root).unwrap().display().to_string())
            .collect();
        found.sort();
        assert_eq!(found, ["apis/a.yaml", "apis/deep/b.json", "apis/e.yml", "d.yml"]);
        assert_eq!((entered, walked.folders.len()), (2, 2));
        assert_eq!(walked.problems, []);
    }

    #[test]
    fn of_a_project_only_its_own_file_is_a_description() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for below in ["p/Definitions", "p/Docs/How", "other/Definitions"] {
            fs::create_dir_all(root.join(below)).unwrap();
        }
        for file in [
            "p/api.yaml",
            "p/api_meta.yaml",
            "p/Definitions/swagger.yaml",
            "p/Docs/How/document.yaml",
            "other/Definitions/a.yaml",
            "other/Definitions/swagger.yaml",
            "other/api_meta.yaml",
        ] {
            fs::write(root.join(file), "x").unwrap();
        }
        let roots = Roots { apis: vec![root.to_owned()], ..Roots::default() };
        let walked = walk(&roots, Versions::Unread, &mut |_| {});
        let mut found: Vec<_> = walked.files.keys().map(|file| file.to_path_buf()).collect();
        found.sort();
        let expect = ["other/Definitions/a.yaml", "other/api_meta.yaml", "p/api.yaml"];
        assert_eq!(found, expect.map(|file| root.join(file)));
        assert!(found.iter().all(|file| roots.select(file)));
        assert!(!roots.select(&root.join("p/Definitions/swagger.yaml")));
    }

    #[test]
    fn a_missing_folder_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let apis = vec![folder.path().join("apis")];
        let roots = Roots { apis, ..Roots::default() };
        let walked = walk(&roots, Versions::Read, &mut |_| {});
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
