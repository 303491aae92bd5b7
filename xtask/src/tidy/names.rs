//! Names of types: each has one meaning in its crate, and in the crates that this one imports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::direction::{is_test, parsed};
use super::{Finding, Tree};
use crate::source;
use crate::workspace::Package;

/// Names that several modules may export, since the path shows whose they are: `xml::Error`.
const EXEMPT: &[&str] = &["Error", "Row", "Builder"];

/// Repeated names, one in a line: package, name. The list may only shrink: rename a type, then remove its line.
const REPEATED: &str = include_str!("names/repeated.txt");

const REPEATED_FILE: &str = "xtask/src/tidy/names/repeated.txt";

/// A type that a module exports.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Exported {
    name: String,
    file: PathBuf,
    line: usize,
    /// Other crates can import it.
    public: bool,
}

/// No two modules of a crate export a type of the same name, and none exports one whose name a type of an imported
/// crate has.
pub(super) fn repetitions(tree: &Tree) -> Vec<Finding> {
    check(tree, REPEATED)
}

fn check(tree: &Tree, known: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let exported: BTreeMap<&str, Vec<Exported>> = tree
        .packages
        .iter()
        .map(|package| (package.name.as_str(), types(tree, package, &mut found)))
        .collect();
    let known: Vec<(&str, &str)> = known.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut used = BTreeSet::new();
    for package in &tree.packages {
        for (one, other) in repeated(package, &exported) {
            let entry = (package.name.as_str(), one.name.as_str());
            if known.contains(&entry) {
                used.insert(entry);
            } else {
                found.push(repetition(one, other));
            }
        }
    }
    // A tree without these packages is that of another test.
    let is_here = |package: &str| exported.contains_key(package);
    let stale =
        known.iter().enumerate().filter(|(_, entry)| is_here(entry.0) && !used.contains(*entry));
    found.extend(stale.map(|(index, (package, name))| Finding {
        file: PathBuf::from(REPEATED_FILE),
        line: index + 1,
        what: format!("`{name}` is not repeated in {package} any more"),
        instead: "remove the line".to_owned(),
    }));
    found
}

/// The types that the modules of a package export.
fn types(tree: &Tree, package: &Package, found: &mut Vec<Finding>) -> Vec<Exported> {
    let mut all = Vec::new();
    for file in tree.sources(&package.folder.join("src")).filter(|file| !is_test(file)) {
        let types = parsed(source::exported_types(&tree.text(file)), file, found);
        all.extend(types.unwrap_or_default().into_iter().map(|(line, name, public)| Exported {
            name,
            file: file.clone(),
            line,
            public,
        }));
    }
    all.retain(|one| !EXEMPT.contains(&one.name.as_str()));
    all
}

/// The types of a package whose name another type has, each with that type: an earlier one of the package, or one of a
/// crate that the package imports.
fn repeated<'a>(
    package: &Package,
    exported: &'a BTreeMap<&str, Vec<Exported>>,
) -> Vec<(&'a Exported, &'a Exported)> {
    let own = exported.get(package.name.as_str()).map_or(&[][..], Vec::as_slice);
    let imported = || {
        let names = package.dependencies.iter().map(|(name, _)| name.as_str());
        let others = names.filter(|name| *name != package.name);
        others.filter_map(|name| exported.get(name)).flatten().filter(|other| other.public)
    };
    // A file may define a type twice, for builds with and without a feature.
    let same = |one: &Exported, other: &Exported| one.name == other.name && one.file != other.file;
    let mut pairs = Vec::new();
    for (at, one) in own.iter().enumerate() {
        let earlier = own.iter().take(at).find(|other| same(one, other));
        if let Some(other) = earlier.or_else(|| imported().find(|other| same(one, other))) {
            pairs.push((one, other));
        }
    }
    pairs
}

fn repetition(one: &Exported, other: &Exported) -> Finding {
    let Exported { name, file, line, .. } = one;
    Finding {
        file: file.clone(),
        line: *line,
        what: format!(
            "`{name}` is also the name of a type in {}:{}",
            other.file.display(),
            other.line
        ),
        instead: "name each by what it is in its domain".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::direction::tests::tree;
    use super::*;

    const BASE: (&str, &str) = ("crates/base/Cargo.toml", "[package]\nname = \"penstock-base\"\n");
    const WIRE: (&str, &str) = (
        "crates/wire/Cargo.toml",
        "[package]\nname = \"penstock-wire\"\n[dependencies]\nbase.workspace = true\n",
    );

    /// Compares the findings: each as its file and line.
    #[track_caller]
    fn check_names(test: &str, sources: &[(&str, &str)], known: &str, expect: &[&str]) {
        let files = [&[BASE, WIRE], sources].concat();
        let found = check(&tree(&format!("names-{test}"), &files), known);
        let places = found.iter().map(|one| format!("{}:{}", one.file.display(), one.line));
        assert_eq!(places.collect::<Vec<_>>(), expect, "{found:?}");
    }

    #[test]
    fn a_name_that_two_modules_of_a_crate_export_is_found() {
        let sources = [
            ("crates/base/src/a.rs", "pub struct Entry;\npub(crate) enum Kind { A }"),
            ("crates/base/src/b.rs", "pub(crate) struct Entry;\nstruct Kind;\ntype Other = u8;"),
            (
                "crates/base/src/c.rs",
                "pub trait Kind {}\nmod inner {\npub(crate) type Entry = u8;\n}",
            ),
        ];
        let expect = ["crates/base/src/b.rs:1", "crates/base/src/c.rs:1", "crates/base/src/c.rs:3"];
        check_names("crate", &sources, "", &expect);
    }

    #[test]
    fn a_name_that_an_imported_crate_exports_is_found() {
        let sources = [
            (
                "crates/base/src/lib.rs",
                "pub struct Entry;\npub(crate) struct Inner;\npub enum Kind {}",
            ),
            ("crates/wire/src/lib.rs", "pub(crate) struct Inner;\npub(crate) struct Kind;"),
        ];
        check_names("imported", &sources, "", &["crates/wire/src/lib.rs:2"]);
    }

    #[test]
    fn tests_and_private_types_and_exempt_names_may_repeat() {
        let sources = [
            ("crates/base/src/a.rs", "pub struct Error;\npub struct Entry;\npub struct Kind;"),
            ("crates/base/src/b.rs", "pub struct Error;\npub(super) struct Entry;"),
            ("crates/base/src/c.rs", "#[cfg(test)]\nmod tests { pub struct Entry; }"),
            (
                "crates/base/src/d.rs",
                "#[cfg(unix)]\npub struct One;\n#[cfg(not(unix))]\npub struct One;",
            ),
            ("crates/base/src/tests.rs", "pub(crate) struct Kind;"),
        ];
        check_names("exempt", &sources, "", &[]);
    }

    #[test]
    fn known_repetitions_pass_and_those_that_ended_are_found() {
        let sources = [
            ("crates/base/src/a.rs", "pub struct Entry;\npub struct Kind;"),
            ("crates/base/src/b.rs", "pub struct Entry;"),
        ];
        check_names("known", &sources, "base Entry\nother Name\n", &[]);
        let stale = format!("{REPEATED_FILE}:2");
        check_names("stale", &sources, "base Entry\nbase Kind\n", &[&stale]);
    }
}
