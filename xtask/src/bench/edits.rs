//! The ways in which editors and deployments change a file, applied in turn to an API's file.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::configs;

/// How a file is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditKind {
    /// Written to a temporary file and renamed: vim, most deployments.
    Rename,
    /// Truncated and written again, in two pieces: nano, a shell's `>`.
    Rewrite,
    /// Replaced by a symbolic link to a new version: Kubernetes.
    Link,
    Remove,
    Add,
}

impl EditKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rename => "renamed",
            Self::Rewrite => "truncated and rewritten",
            Self::Link => "link replaced",
            Self::Remove => "removed",
            Self::Add => "added",
        }
    }
}

/// For the API under load, which must always exist.
pub(crate) const KEEPING: &[EditKind] = &[EditKind::Rename, EditKind::Rewrite, EditKind::Link];
pub(crate) const ALL: &[EditKind] =
    &[EditKind::Rename, EditKind::Rewrite, EditKind::Link, EditKind::Remove, EditKind::Add];

/// Edition numbers wrap around, to limit the number of the gateway's per-operation counters. Each edition is confirmed
/// to be live before the next one is written, so editions cannot be confused.
const EDITIONS: u32 = 8;

/// An API's file, and the response expected when its last change is live.
pub(crate) struct Edited {
    number: u32,
    operations: u32,
    file: PathBuf,
    /// Folder of the links' targets; the gateway does not watch it.
    versions: PathBuf,
    kinds: &'static [EditKind],
    count: usize,
    expected: Option<Expected>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) path: String,
    pub(crate) status: u16,
}

impl Edited {
    /// The file of API `number` in `folder`/apis.
    pub(crate) fn new(
        folder: &Path,
        number: u32,
        operations: u32,
        kinds: &'static [EditKind],
    ) -> Self {
        Self {
            number,
            operations,
            file: folder.join(format!("apis/orders-{number:04}.yaml")),
            versions: folder.join("versions"),
            kinds,
            count: 0,
            expected: None,
        }
    }

    /// The response when the last change is live; `None` before the first change.
    pub(crate) fn expected(&self) -> Option<&Expected> {
        self.expected.as_ref()
    }

    /// Changes the file, by its next kind of edit, to an edition whose endpoint is at `backend_port`. `on_visible` is called
    /// immediately before the system call that makes the change visible.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn change(
        &mut self,
        backend_port: u16,
        on_visible: impl FnOnce(),
    ) -> Result<EditKind, String> {
        let kind =
            self.kinds.get(self.count % self.kinds.len()).copied().unwrap_or(EditKind::Rename);
        let edition = u32::try_from(self.count).unwrap_or(0) % EDITIONS;
        let text = configs::edition(self.number, self.operations, backend_port, edition);
        self.apply(kind, &text, on_visible)
            .map_err(|error| format!("{}: {error}", self.file.display()))?;
        self.count += 1;
        let base = format!("/orders-{:04}/1.0.0", self.number);
        self.expected = Some(match kind {
            EditKind::Remove => Expected { path: format!("{base}/orders"), status: 404 },
            EditKind::Rename | EditKind::Rewrite | EditKind::Link | EditKind::Add => {
                Expected { path: format!("{base}/edition-{edition}"), status: 200 }
            }
        });
        Ok(kind)
    }

    fn apply(&self, kind: EditKind, text: &str, on_visible: impl FnOnce()) -> std::io::Result<()> {
        let temporary = self.file.with_extension("yaml.new");
        match kind {
            EditKind::Rename => {
                fs::write(&temporary, text)?;
                on_visible();
                fs::rename(&temporary, &self.file)
            }
            EditKind::Rewrite => {
                on_visible();
                in_two_pieces(File::create(&self.file)?, text)
            }
            EditKind::Link => {
                fs::create_dir_all(&self.versions)?;
                let version =
                    self.versions.join(format!("{:04}-{}.yaml", self.number, self.count % 2));
                // Replaced instead of overwritten, since a link may still point to it.
                _ = fs::remove_file(&version);
                fs::write(&version, text)?;
                std::os::unix::fs::symlink(&version, &temporary)?;
                on_visible();
                fs::rename(&temporary, &self.file)
            }
            EditKind::Remove => {
                on_visible();
                fs::remove_file(&self.file)
            }
            EditKind::Add => {
                on_visible();
                let file = OpenOptions::new().write(true).create_new(true).open(&self.file)?;
                in_two_pieces(file, text)
            }
        }
    }
}

fn in_two_pieces(mut file: File, text: &str) -> std::io::Result<()> {
    let (first, second) = text.as_bytes().split_at(text.len() / 2);
    file.write_all(first)?;
    file.write_all(second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn every_kind_of_edit_results_in_the_requested_edition() {
        let folder = workspace::target_dir(&workspace::root()).join("xtask-tests/edits");
        _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("apis")).unwrap();
        let mut edited = Edited::new(&folder, 7, 10, ALL);
        let file = edited.file.clone();
        for (count, kind) in ALL.iter().chain(ALL).enumerate() {
            let mut acts = 0;
            assert_eq!(edited.change(1234, || acts += 1).unwrap(), *kind);
            assert_eq!(acts, 1);
            let edition = format!("/edition-{}", count % 8);
            match kind {
                EditKind::Remove => assert!(fs::symlink_metadata(&file).is_err()),
                EditKind::Rename | EditKind::Rewrite | EditKind::Link | EditKind::Add => {
                    let text = fs::read_to_string(&file).unwrap();
                    assert!(text.contains(&format!("  {edition}:\n")), "{kind:?}");
                    assert!(text.contains("http://127.0.0.1:1234/"), "{kind:?}");
                }
            }
            let status = if *kind == EditKind::Remove { 404 } else { 200 };
            let expected = edited.expected().unwrap();
            assert_eq!(expected.status, status);
            assert_eq!(expected.path.ends_with(&edition), status == 200);
            assert_eq!(file.is_symlink(), *kind == EditKind::Link, "{kind:?}");
        }
    }
}
