//! The ways in which editors, people and deployments change a file, and which of them an API's file has gone through.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::configs;

/// How a file is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Written beside and renamed into place: vim, most deployments.
    Rename,
    /// Cut to nothing and written anew, in two pieces: nano, a shell's `>`.
    Rewrite,
    /// A link to another version, renamed into place: Kubernetes.
    Link,
    Remove,
    Add,
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rename => "renamed into place",
            Self::Rewrite => "cut and rewritten",
            Self::Link => "link swapped",
            Self::Remove => "removed",
            Self::Add => "added",
        }
    }
}

/// Of an API under load, which must not go away.
pub(crate) const STAYING: &[Way] = &[Way::Rename, Way::Rewrite, Way::Link];
pub(crate) const ANY: &[Way] = &[Way::Rename, Way::Rewrite, Way::Link, Way::Remove, Way::Add];

/// Editions are numbered in a circle, so that the gateway's counters by operation stay few. The one before is known
/// to be live before the next is written, so none is ever taken for another.
const EDITIONS: u32 = 8;

/// One API's file, and what the gateway has to answer once its last change is live.
pub(crate) struct Edited {
    number: u32,
    operations: u32,
    file: PathBuf,
    /// Where its links point to; not watched as a folder of APIs.
    versions: PathBuf,
    ways: &'static [Way],
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
    pub(crate) fn new(folder: &Path, number: u32, operations: u32, ways: &'static [Way]) -> Self {
        Self {
            number,
            operations,
            file: folder.join(format!("apis/orders-{number:04}.yaml")),
            versions: folder.join("versions"),
            ways,
            count: 0,
            expected: None,
        }
    }

    /// What is answered when the last change is live; `None` before the first.
    pub(crate) fn expected(&self) -> Option<&Expected> {
        self.expected.as_ref()
    }

    /// Changes the file in its next way, to an edition whose endpoint is at `backend_port`. `last_act` is called right
    /// before the act by which the change begins to be seen.
    ///
    /// # Errors
    /// The file can't be written.
    pub(crate) fn change(
        &mut self,
        backend_port: u16,
        last_act: impl FnOnce(),
    ) -> Result<Way, String> {
        let way = self.ways.get(self.count % self.ways.len()).copied().unwrap_or(Way::Rename);
        let edition = u32::try_from(self.count).unwrap_or(0) % EDITIONS;
        let text = configs::edition(self.number, self.operations, backend_port, edition);
        self.apply(way, &text, last_act)
            .map_err(|error| format!("{}: {error}", self.file.display()))?;
        self.count += 1;
        let base = format!("/orders-{:04}/1.0.0", self.number);
        self.expected = Some(match way {
            Way::Remove => Expected { path: format!("{base}/orders"), status: 404 },
            Way::Rename | Way::Rewrite | Way::Link | Way::Add => {
                Expected { path: format!("{base}/edition-{edition}"), status: 200 }
            }
        });
        Ok(way)
    }

    fn apply(&self, way: Way, text: &str, last_act: impl FnOnce()) -> std::io::Result<()> {
        let beside = self.file.with_extension("yaml.new");
        match way {
            Way::Rename => {
                fs::write(&beside, text)?;
                last_act();
                fs::rename(&beside, &self.file)
            }
            Way::Rewrite => {
                last_act();
                in_two_pieces(File::create(&self.file)?, text)
            }
            Way::Link => {
                fs::create_dir_all(&self.versions)?;
                let version =
                    self.versions.join(format!("{:04}-{}.yaml", self.number, self.count % 2));
                // A version that something still points to is never written to.
                _ = fs::remove_file(&version);
                fs::write(&version, text)?;
                std::os::unix::fs::symlink(&version, &beside)?;
                last_act();
                fs::rename(&beside, &self.file)
            }
            Way::Remove => {
                last_act();
                fs::remove_file(&self.file)
            }
            Way::Add => {
                last_act();
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
    fn every_way_leaves_the_edition_it_was_asked_for() {
        let folder = workspace::target_dir(&workspace::root()).join("xtask-tests/edits");
        _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("apis")).unwrap();
        let mut edited = Edited::new(&folder, 7, 10, ANY);
        let file = edited.file.clone();
        for (count, way) in ANY.iter().chain(ANY).enumerate() {
            let mut acts = 0;
            assert_eq!(edited.change(1234, || acts += 1).unwrap(), *way);
            assert_eq!(acts, 1);
            let edition = format!("/edition-{}", count % 8);
            match way {
                Way::Remove => assert!(fs::symlink_metadata(&file).is_err()),
                Way::Rename | Way::Rewrite | Way::Link | Way::Add => {
                    let text = fs::read_to_string(&file).unwrap();
                    assert!(text.contains(&format!("  {edition}:\n")), "{way:?}");
                    assert!(text.contains("http://127.0.0.1:1234/"), "{way:?}");
                }
            }
            let status = if *way == Way::Remove { 404 } else { 200 };
            let expected = edited.expected().unwrap();
            assert_eq!(expected.status, status);
            assert_eq!(expected.path.ends_with(&edition), status == 200);
            assert_eq!(file.is_symlink(), *way == Way::Link, "{way:?}");
        }
    }
}
