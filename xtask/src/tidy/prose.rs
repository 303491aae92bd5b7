//! Plain English and line length: both are counted per crate and per page, against ceilings that only fall.
//!
//! [`markers`] finds wordings that make prose hard to read, [`width`] finds lines that are too long, and [`ceilings`]
//! reads the table of the counts that are still allowed. `cargo xtask prose` prints every marker and every long line.

mod ceilings;
mod lexer;
mod markers;
mod paragraphs;
mod width;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Finding, Tree};
use crate::Outcome;
use ceilings::Ceilings;

/// The table of ceilings, relative to the root.
const TABLE: &str = "xtask/src/tidy/prose/ceilings.txt";

/// A marker or a long line: its place, the problem and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hit {
    line: usize,
    what: String,
    instead: &'static str,
}

/// Each crate and page by name.
pub(super) type Sets = BTreeMap<String, Set>;

/// The markers and long lines of one crate or page, each with its file.
#[derive(Default)]
pub(super) struct Set {
    markers: Vec<(PathBuf, Hit)>,
    long: Vec<(PathBuf, Hit)>,
}

impl Set {
    fn counts(&self) -> Counts {
        Counts { markers: self.markers.len(), long: self.long.len() }
    }
}

/// Markers and long lines of a set: found, or allowed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    markers: usize,
    long: usize,
}

/// A set above its ceiling: one finding for each of its markers or long lines.
pub(super) fn over_ceiling(tree: &Tree) -> Vec<Finding> {
    let ceilings = match Ceilings::parse(&tree.text(Path::new(TABLE))) {
        Ok(ceilings) => ceilings,
        Err((line, what)) => {
            let instead = "write a name and two numbers".to_owned();
            return vec![Finding { file: TABLE.into(), line, what, instead }];
        }
    };
    let mut found = Vec::new();
    for (name, set) in all(tree) {
        let (allowed, counts) = (ceilings.of(name), set.counts());
        if counts.markers > allowed.markers {
            let reason =
                format!("{} markers in {name}, {} allowed", counts.markers, allowed.markers);
            found.extend(findings(&set.markers, reason));
        }
        if counts.long > allowed.long {
            let reason = format!("{} long lines in {name}, {} allowed", counts.long, allowed.long);
            found.extend(findings(&set.long, reason));
        }
    }
    found
}

fn findings(hits: &[(PathBuf, Hit)], reason: String) -> impl Iterator<Item = Finding> {
    hits.iter().map(move |(file, hit)| Finding {
        file: file.clone(),
        line: hit.line,
        what: hit.what.clone(),
        instead: format!("{} ({reason})", hit.instead),
    })
}

/// Advice for the ceilings that can be lowered.
pub(super) fn slack(tree: &Tree) -> Option<String> {
    let ceilings = Ceilings::parse(&tree.text(Path::new(TABLE))).ok()?;
    let counts = counts(tree);
    let names = ceilings.above(&counts);
    (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!("{TABLE}: run `cargo xtask tidy --lower`; fewer markers or long lines in {names}")
    })
}

/// Lowers every ceiling to the count found. Never raises one.
///
/// # Errors
/// The table cannot be parsed or written.
pub(super) fn lower(tree: &Tree) -> Outcome {
    let text = tree.text(Path::new(TABLE));
    let ceilings =
        Ceilings::parse(&text).map_err(|(line, what)| format!("{TABLE}:{line}: {what}"))?;
    std::fs::write(tree.root.join(TABLE), ceilings.lowered(&text, &counts(tree)))
        .map_err(|error| format!("{TABLE}: {error}"))
}

/// `cargo xtask prose [PATH..]`: prints the markers and long lines of the files below the paths, then the counts.
///
/// # Errors
/// The work tree cannot be read, or none of the files below `paths` is counted.
pub(crate) fn run(root: &Path, paths: &[String]) -> Outcome {
    let tree = Tree::read(root)?;
    let sets = measure(&tree, paths);
    if sets.is_empty() {
        return Err(format!("no crate or page below {}", paths.join(", ")));
    }
    for (file, hit) in sets.values().flat_map(|set| set.markers.iter().chain(&set.long)) {
        println!("{}:{}: {}; {}", file.display(), hit.line, hit.what, hit.instead);
    }
    println!("\n{:<34}{:>9}{:>12}", "crate or page", "markers", "long lines");
    let mut total = Counts::default();
    for (name, set) in &sets {
        let counts = set.counts();
        total.markers += counts.markers;
        total.long += counts.long;
        println!("{name:<34}{:>9}{:>12}", counts.markers, counts.long);
    }
    println!("{:<34}{:>9}{:>12}", "total", total.markers, total.long);
    Ok(())
}

fn counts(tree: &Tree) -> BTreeMap<String, Counts> {
    all(tree).iter().map(|(name, set)| (name.clone(), set.counts())).collect()
}

fn all(tree: &Tree) -> &Sets {
    tree.prose.get_or_init(|| measure(tree, &[]))
}

/// Reads the files of all sets, or only those below `paths`.
fn measure(tree: &Tree, paths: &[String]) -> Sets {
    let mut sets = Sets::new();
    for file in &tree.files {
        let Some(name) = set_of(file) else { continue };
        if !paths.is_empty() && !paths.iter().any(|path| file.starts_with(path)) {
            continue;
        }
        let set = sets.entry(name).or_default();
        let text = tree.text(file);
        let (markers, long) = if file.extension().is_some_and(|extension| extension == "rs") {
            let lines = lexer::lines(&text);
            (markers::of(&paragraphs::of_rust(&lines)), width::long_lines(&text, &lines))
        } else {
            (markers::of(&paragraphs::of_markdown(&text)), Vec::new())
        };
        set.markers.extend(markers.into_iter().map(|hit| (file.clone(), hit)));
        set.long.extend(long.into_iter().map(|hit| (file.clone(), hit)));
    }
    sets
}

/// The crate or page that `file` is counted in. `None` if it is neither.
fn set_of(file: &Path) -> Option<String> {
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    match (parts.as_slice(), file.extension()?.to_str()?) {
        (["crates" | "bins", name, ..], "rs") => Some(format!("{}/{name}", parts.first()?)),
        ([folder, _, ..], "rs") => Some((*folder).to_owned()),
        (["README.md" | "ARCHITECTURE.md"] | ["docs", _], "md") => Some(parts.join("/")),
        (["docs", folder, ..], "md") => Some(format!("docs/{folder}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: &str, expected: Option<&str>) {
        assert_eq!(set_of(Path::new(file)).as_deref(), expected, "{file}");
    }

    #[test]
    fn every_source_file_belongs_to_a_crate() {
        check("crates/xml/src/lib.rs", Some("crates/xml"));
        check("bins/penstock/src/main.rs", Some("bins/penstock"));
        check("lab/src/load/mod.rs", Some("lab"));
        check("tests/harness/lib.rs", Some("tests"));
    }

    #[test]
    fn pages_count_alone_and_decisions_together() {
        check("docs/limits.md", Some("docs/limits.md"));
        check("docs/decisions/0001-a.md", Some("docs/decisions"));
        check("README.md", Some("README.md"));
        check("CHANGELOG.md", None);
        check("examples/README.md", None);
        check("crates/xml/Cargo.toml", None);
    }
}
