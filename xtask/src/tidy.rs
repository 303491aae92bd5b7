//! The rules that a reviewer would otherwise have to remember. Each finding stops the build, names its
//! file and line, and says what to write instead; advice is printed and stops nothing.

mod direction;
mod housekeeping;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::workspace::{self, Package};
use crate::{Outcome, conformance, limits, openapi};

pub(crate) use housekeeping::registered_targets;

/// Files longer than this, in lines, are worth a look at whether they are two.
const LONG_FILE_LINES: usize = 800;

/// The work tree, read once for all rules.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) packages: Vec<Package>,
}

impl Tree {
    /// Reads what the rules look at.
    ///
    /// # Errors
    /// A Cargo.toml that can't be read.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let files = workspace::files(root);
        let packages = workspace::packages(root, &files)?;
        Ok(Self { root: root.to_path_buf(), files, packages })
    }

    /// The text of `file`; empty when it isn't UTF-8 or is gone meanwhile.
    pub(crate) fn text(&self, file: &Path) -> String {
        std::fs::read_to_string(self.root.join(file)).unwrap_or_default()
    }

    /// Rust sources below `folder`.
    pub(crate) fn sources<'a>(&'a self, folder: &'a Path) -> impl Iterator<Item = &'a PathBuf> {
        self.files
            .iter()
            .filter(move |file| file.starts_with(folder))
            .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
    }
}

/// One thing that must change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) instead: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, what, instead } = self;
        write!(to, "{}:{line}: {what}; {instead}", file.display())
    }
}

/// A name for messages, and the rule.
type Rule = (&'static str, fn(&Tree) -> Vec<Finding>);

const RULES: &[Rule] = &[
    ("dependencies go one way", direction::dependencies),
    ("pure crates stay pure", direction::bans),
    ("no stage imports a stage", direction::stages),
    ("no unsafe code", direction::unsafe_code),
    ("fuzz targets are registered and seeded", housekeeping::fuzz_targets),
    ("docs/limits.md is in step", limits::drift),
    ("docs/openapi.md is in step", openapi::drift),
    ("docs/conformance.md is in step", conformance::drift),
    ("the documents are there", housekeeping::documents),
    ("no path of one machine", housekeeping::machine_paths),
];

/// Applies every rule.
///
/// # Errors
/// Findings, one per line.
pub(crate) fn run(root: &Path, _arguments: &[String]) -> Outcome {
    let tree = Tree::read(root)?;
    for advice in long_files(&tree) {
        println!("advice: {advice}");
    }
    let found: Vec<String> = RULES
        .iter()
        .flat_map(|(name, rule)| {
            rule(&tree).into_iter().map(move |found| format!("{found} [{name}]"))
        })
        .collect();
    if found.is_empty() { Ok(()) } else { Err(format!("tidy:\n{}", found.join("\n"))) }
}

fn long_files(tree: &Tree) -> Vec<String> {
    tree.sources(Path::new(""))
        .map(|file| (file, tree.text(file).lines().count()))
        .filter(|(_, lines)| *lines > LONG_FILE_LINES)
        .map(|(file, lines)| format!("{}: {lines} lines; is it two files?", file.display()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_work_tree_is_tidy() {
        run(&workspace::root(), &[]).unwrap();
    }
}
