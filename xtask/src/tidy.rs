//! Rules that a reviewer would otherwise have to remember. A finding fails the build; it names the file and line, and
//! the remedy. Advice is only printed.

mod direction;
mod housekeeping;
mod modules;
mod names;
mod prose;

use std::cell::OnceCell;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::workspace::{self, Package};
use crate::{Outcome, conformance, limits, openapi, suites};

pub(crate) use housekeeping::registered_targets;
pub(crate) use prose::run as prose;

/// Longest file, in lines. Longer: advice to split it.
const LONG_FILE_LINES: usize = 800;

/// The work tree, shared by all rules.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) packages: Vec<Package>,
    /// Markers and long lines, counted when first needed.
    prose: OnceCell<prose::Sets>,
}

impl Tree {
    /// Lists the files and reads the packages of the work tree.
    ///
    /// # Errors
    /// A Cargo.toml cannot be read or parsed.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let files = workspace::files(root);
        let packages = workspace::packages(root, &files)?;
        Ok(Self::new(root.to_path_buf(), files, packages))
    }

    fn new(root: PathBuf, files: Vec<PathBuf>, packages: Vec<Package>) -> Self {
        Self { root, files, packages, prose: OnceCell::new() }
    }

    /// The text of `file`; empty if it is not UTF-8 or was deleted meanwhile.
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

/// A violation of a rule.
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

/// The name shown in messages, and the rule.
type Rule = (&'static str, fn(&Tree) -> Vec<Finding>);

const RULES: &[Rule] = &[
    ("direction of dependencies", direction::dependencies),
    ("pure crates", direction::bans),
    ("stages do not import stages", direction::stages),
    ("modules import one way", modules::one_way),
    ("one meaning per type name", names::repetitions),
    ("no unsafe code", direction::unsafe_code),
    ("fuzz targets have seeds", housekeeping::fuzz_targets),
    ("docs/limits.md is up to date", limits::drift),
    ("docs/openapi.md is up to date", openapi::drift),
    ("docs/conformance.md is up to date", conformance::drift),
    ("integration tests are one program", housekeeping::test_modules),
    ("examples are tested", housekeeping::untested_examples),
    ("suites of CI exist", suites::unknown),
    ("required documents", housekeeping::documents),
    ("Markdown width", housekeeping::markdown_width),
    ("no machine-specific paths", housekeeping::machine_paths),
    ("plain English and line length", prose::over_ceiling),
];

/// Applies every rule. `--lower` first lowers the ceilings of markers and long lines to the present counts.
///
/// # Errors
/// The findings, one per line; or an unknown argument.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    let tree = Tree::read(root)?;
    match arguments {
        [] => {}
        [flag] if flag == "--lower" => prose::lower(&tree)?,
        _ => return Err(format!("unknown argument `{}`", arguments.join(" "))),
    }
    for advice in long_files(&tree).into_iter().chain(prose::slack(&tree)) {
        println!("advice: {advice}");
    }
    let found: Vec<String> = RULES
        .iter()
        .flat_map(|(name, rule)| {
            rule(&tree).into_iter().map(move |found| format!("{found} [{name}]"))
        })
        .collect();
    if found.is_empty() { Ok(()) } else { Err(format!("tidy found:\n{}", found.join("\n"))) }
}

fn long_files(tree: &Tree) -> Vec<String> {
    tree.sources(Path::new(""))
        .map(|file| (file, tree.text(file).lines().count()))
        .filter(|(_, lines)| *lines > LONG_FILE_LINES)
        .map(|(file, lines)| format!("{}: {lines} lines; consider splitting it", file.display()))
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
