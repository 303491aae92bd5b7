//! Chooses the suites of `make test-all` that CI runs beside `make test`: those whose paths have changed, by the table
//! `.ci/suites`, the one whose last run is oldest first. `.ci/figures` has the last run of each step.
//!
//! A suite's changes are those since the merge base of HEAD and the branch on which changes land. Where HEAD is itself
//! that branch's last commit, as in a fresh clone, or no such branch exists, they are those since the commit at which
//! the suite ran last. A suite without a known commit, as in a shallow clone, is run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::shell::{self, Options};
use crate::tidy::{Finding, Tree};

const TABLE: &str = ".ci/suites";
const FIGURES: &str = ".ci/figures";

/// Branches on which changes land, the first of which exists and isn't at HEAD is compared with. `CI_BASE` comes before
/// them.
const LANDED: &[&str] =
    &["origin/HEAD", "origin/main", "origin/master", "refs/heads/main", "refs/heads/master"];

/// Prints the names of the suites to run, in order, on one line. The reasons go to stderr. With `--all`: every suite.
///
/// # Errors
/// A table is missing or has a line that cannot be read; `CI_BASE` is not a commit.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    let options = Options::read(arguments, &[], &["--all"])?;
    let read = |file: &str| {
        std::fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))
    };
    let table = Table::parse(&read(TABLE)?)?;
    let figures = Figure::parse_all(&read(FIGURES)?)?;
    let mut suites = table.suites();
    if !options.has("--all") {
        let git = Git { root };
        let landed = git.landed(std::env::var("CI_BASE").ok().as_deref())?;
        suites.retain(|suite| {
            let last = figures.iter().find(|figure| figure.step == *suite);
            let base = landed.clone().or_else(|| git.commit(&last?.commit));
            let (hit, reason) = match base.as_deref().map(|base| git.changed(base)) {
                Some(Ok(changed)) => table.why(suite, &changed).map_or_else(
                    || (false, "nothing that it tests has changed".to_owned()),
                    |path| (true, format!("{path} has changed")),
                ),
                Some(Err(error)) => (true, error),
                None => (true, "the commit of its last run is unknown".to_owned()),
            };
            eprintln!("{} {suite}: {reason}", if hit { "run  " } else { "leave" });
            hit
        });
    }
    println!("{}", oldest_first(suites, &figures).join(" "));
    Ok(())
}

/// Sorts by the date of the last run; suites that never ran come first.
fn oldest_first(mut suites: Vec<String>, figures: &[Figure]) -> Vec<String> {
    suites.sort_by_key(|suite| {
        figures.iter().find(|figure| figure.step == *suite).map(|figure| figure.date.clone())
    });
    suites
}

/// The rows of `.ci/suites`: a prefix of paths, and the suites that test the files below it.
struct Table {
    rows: Vec<(String, Vec<String>)>,
}

impl Table {
    /// Parses lines `PREFIX SUITE...`, where `-` instead of suites means none, and `*` all that the table names.
    ///
    /// # Errors
    /// A row without a suite.
    fn parse(text: &str) -> Result<Self, String> {
        let mut rows = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let mut words = line.split_whitespace().map(str::to_owned);
            let prefix = words.next().unwrap_or_default();
            let suites: Vec<String> = words.collect();
            if suites.is_empty() {
                return Err(format!("{TABLE}: no suite for {prefix}; write `-` if none tests it"));
            }
            rows.push((prefix, suites));
        }
        Ok(Self { rows })
    }

    /// The names of all suites.
    fn suites(&self) -> Vec<String> {
        let names = self.rows.iter().flat_map(|(_, suites)| suites);
        let names: BTreeSet<&String> =
            names.filter(|name| !["-", "*"].contains(&name.as_str())).collect();
        names.into_iter().cloned().collect()
    }

    /// The first of `changed` that `suite` tests. The longest prefix of a path decides; a path without a row is tested
    /// by every suite.
    fn why<'a>(&self, suite: &str, changed: &'a [String]) -> Option<&'a str> {
        let tests = |path: &&String| {
            let rows = self.rows.iter().filter(|(prefix, _)| path.starts_with(prefix.as_str()));
            rows.max_by_key(|(prefix, _)| prefix.len())
                .is_none_or(|(_, suites)| suites.iter().any(|name| name == suite || name == "*"))
        };
        changed.iter().find(tests).map(String::as_str)
    }
}

/// A row of `.ci/figures`: how long a step took, and when it last passed.
#[derive(Debug, PartialEq, Eq)]
struct Figure {
    date: String,
    commit: String,
    step: String,
}

impl Figure {
    /// Parses lines `SECONDS DATE COMMIT STEP`.
    ///
    /// # Errors
    /// A line with fewer columns.
    fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        let rows = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        rows.map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_seconds, date, commit, step @ ..] = words.as_slice() else {
                return Err(format!("{FIGURES}: `{line}` is not SECONDS DATE COMMIT STEP"));
            };
            Ok(Self {
                date: (*date).to_owned(),
                commit: (*commit).to_owned(),
                step: step.join(" "),
            })
        })
        .collect()
    }
}

/// The history of the work tree.
struct Git<'a> {
    root: &'a Path,
}

impl Git<'_> {
    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        shell::output(Command::new("git").args(arguments).current_dir(self.root))
            .map(|text| text.trim_end().to_owned())
    }

    /// The full name of `revision`, if this clone has that commit.
    fn commit(&self, revision: &str) -> Option<String> {
        self.ask(&["rev-parse", "--quiet", "--verify", &format!("{revision}^{{commit}}")]).ok()
    }

    /// The merge base of HEAD and the branch on which changes land. `None` without such a branch, without a common
    /// ancestor, or if HEAD is on it.
    ///
    /// # Errors
    /// `named`, which is preferred to [`LANDED`], is not a commit.
    fn landed(&self, named: Option<&str>) -> Result<Option<String>, String> {
        if let Some(named) = named
            && self.commit(named).is_none()
        {
            return Err(format!("CI_BASE: no commit is named {named}"));
        }
        let head = self.commit("HEAD");
        let bases = named.iter().chain(LANDED).filter_map(|branch| {
            let branch = self.commit(branch)?;
            self.ask(&["merge-base", "HEAD", &branch]).ok()
        });
        Ok(bases.into_iter().find(|base| head.as_ref() != Some(base)))
    }

    /// Files that differ from `base`, whether committed or not.
    fn changed(&self, base: &str) -> Result<Vec<String>, String> {
        let differ =
            self.ask(&["-c", "core.quotePath=false", "diff", "--name-only", "--no-renames", base])?;
        let new = self.ask(&["ls-files", "--others", "--exclude-standard"])?;
        Ok(differ.lines().chain(new.lines()).map(str::to_owned).collect())
    }
}

/// Reports rows of `.ci/suites` whose prefix no file has, and suites that the Makefile has no command for.
pub(crate) fn unknown(tree: &Tree) -> Vec<Finding> {
    let finding = |what: String, instead: String| Finding {
        file: PathBuf::from(TABLE),
        line: 1,
        what,
        instead,
    };
    let table = match Table::parse(&tree.text(Path::new(TABLE))) {
        Ok(table) => table,
        Err(what) => return vec![finding(what, "write PREFIX SUITE...".to_owned())],
    };
    let files: Vec<_> = tree.files.iter().map(|file| file.to_string_lossy()).collect();
    let makefile = tree.text(Path::new("Makefile"));
    let prefixes = table.rows.iter().map(|(prefix, _)| prefix);
    let unused = prefixes.filter(|prefix| !files.iter().any(|file| file.starts_with(*prefix)));
    let suites = table.suites().into_iter();
    let absent = suites.filter(|suite| {
        let begin = format!("suite-{suite} = ");
        !makefile.lines().any(|line| line.starts_with(&begin))
    });
    let remove = "remove the row, or correct its prefix";
    unused
        .map(|prefix| finding(format!("no file begins with {prefix}"), remove.to_owned()))
        .chain(absent.map(|suite| {
            let command = format!("add `suite-{suite} = COMMAND` to the Makefile");
            finding(format!("suite {suite} has no command"), command)
        }))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace;

    const ROWS: &str = "# comment\nsrc/ fuzz ldap\nsrc/ldap/ ldap\ndocs/ -\nCargo.lock *\n";

    #[test]
    fn a_path_hits_the_suites_of_its_longest_prefix() {
        check("src/a.rs", "fuzz ldap");
        check("src/ldap/a.rs", "ldap");
        check("docs/a.md", "");
        check("Cargo.lock", "fuzz ldap");
    }

    #[test]
    fn a_path_without_a_row_hits_every_suite() {
        check("new/a.rs", "fuzz ldap");
    }

    #[track_caller]
    fn check(path: &str, expected: &str) {
        let table = Table::parse(ROWS).unwrap();
        let mut suites = table.suites();
        suites.retain(|suite| table.why(suite, &[path.to_owned()]).is_some());
        assert_eq!(suites.join(" "), expected);
    }

    #[test]
    fn a_row_without_suites_is_an_error() {
        assert!(Table::parse("src/\n").is_err());
    }

    #[test]
    fn the_suite_whose_last_run_is_oldest_comes_first() {
        let figures = "# seconds date commit step\n 90 2026-11-02 abc a\n 9 2026-11-01 abc b c\n";
        let figures = Figure::parse_all(figures).unwrap();
        let suites = ["a", "b c", "never"].map(str::to_owned).to_vec();
        assert_eq!(oldest_first(suites, &figures), ["never", "b c", "a"]);
        assert!(Figure::parse_all("90 2026-11-02\n").is_err());
    }

    #[test]
    fn changes_are_those_since_the_branch_that_lands() {
        let scratch = Scratch::new();
        let first = scratch.commit("a");
        scratch.git(&["branch", "work"]);
        scratch.commit("b");
        scratch.git(&["checkout", "--quiet", "work"]);
        scratch.commit("c");
        fs::write(scratch.folder.path().join("new"), "new").unwrap();
        let git = scratch.history();
        assert_eq!(git.landed(None).unwrap(), Some(first.clone()));
        assert_eq!(git.changed(&first).unwrap(), ["c", "new"]);
    }

    #[test]
    fn the_head_of_the_branch_that_lands_has_no_base() {
        let scratch = Scratch::new();
        let first = scratch.commit("a");
        scratch.commit("b");
        let git = scratch.history();
        assert_eq!(git.landed(None).unwrap(), None);
        assert_eq!(git.landed(Some(&first)).unwrap(), Some(first));
        assert!(git.landed(Some("missing")).is_err());
        assert_eq!(git.commit("0123456"), None);
    }

    #[test]
    fn the_last_line_has_the_sum_beside_the_budget_and_the_steps_that_grew() {
        // With these figures, steps of no time have grown.
        let figures =
            "-3 2026-11-01 abc lints\n-50 2026-11-01 abc all tests\n0 2026-11-01 abc never\n";
        let (passed, text, new) = steps(figures, &["lints", "true", "all tests", "true"]);
        assert!(passed, "{text}");
        let last = text.lines().last().unwrap();
        assert!(last.contains(" s of a budget of 1200 s (0 s of them suites)"), "{last}");
        assert!(last.contains("; grew most: all tests by "), "{last}");
        assert!(last.contains(", lints by "), "{last}");
        // A step that did not run keeps its figure.
        let new = Figure::parse_all(&new).unwrap();
        let names: Vec<_> = new.iter().map(|figure| figure.step.as_str()).collect();
        assert_eq!(names, ["all tests", "lints", "never"]);
        assert!(new.iter().all(|figure| (figure.date == "2026-11-01") == (figure.step == "never")));
    }

    #[test]
    fn a_step_that_fails_is_the_last_but_a_suite_that_fails_is_not() {
        let (passed, text, _) = steps("", &["lints", "exit 3", "tests", "true"]);
        assert!(!passed && text.contains("lints: FAILED") && !text.contains("tests"), "{text}");
        let (passed, text, new) = steps(
            "0 2026-11-01 abc fuzz\n0 2026-11-01 abc ldap\n",
            &["--", "fuzz", "exit 3", "ldap", "true"],
        );
        assert!(!passed && text.contains("fuzz: FAILED") && text.contains("  ldap\n"), "{text}");
        let new = Figure::parse_all(&new).unwrap();
        let dates: Vec<_> = new.iter().map(|figure| figure.date == "2026-11-01").collect();
        assert_eq!(dates, [true, false]);
    }

    #[test]
    fn a_suite_that_would_end_too_late_is_not_run() {
        let figures = "500 2026-11-01 abc fuzz\n";
        let (passed, text, _) =
            steps(figures, &["--", "fuzz", "exit 3", "new", "exit 4", "ldap", "skip: why"]);
        assert!(passed, "{text}");
        assert!(text.contains("fuzz: NOT run: no time is left"), "{text}");
        assert!(text.contains("new: NOT run: no time is left"), "{text}");
        assert!(text.contains("ldap: NOT run: why"), "{text}");
    }

    /// Runs `.ci/steps` with these figures and at most 499 seconds. Returns whether it passed, its output, and the new
    /// figures.
    fn steps(figures: &str, arguments: &[&str]) -> (bool, String, String) {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::write(&old, figures).unwrap();
        let output = Command::new(workspace::root().join(".ci/steps"))
            .args(arguments)
            .env("CI_FIGURES", old)
            .env("CI_FIGURES_OUT", &new)
            .env("CI_SECONDS_MAX", "499")
            .env_remove("CI_BEGIN")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), text, fs::read_to_string(new).unwrap())
    }

    /// A repository of its own, on branch `main`.
    struct Scratch {
        folder: tempfile::TempDir,
    }

    impl Scratch {
        fn new() -> Self {
            let scratch = Self { folder: tempfile::tempdir().unwrap() };
            scratch.git(&["init", "--quiet", "--initial-branch=main"]);
            scratch
        }

        fn history(&self) -> Git<'_> {
            Git { root: self.folder.path() }
        }

        fn git(&self, arguments: &[&str]) {
            let who = ["-c", "user.name=Test", "-c", "user.email=test@example.org"];
            self.history().ask(&[&who[..], arguments].concat()).unwrap();
        }

        /// Commits a new file of this name.
        fn commit(&self, name: &str) -> String {
            fs::write(self.folder.path().join(name), name).unwrap();
            self.git(&["add", name]);
            self.git(&["commit", "--quiet", "--message", name]);
            self.history().commit("HEAD").unwrap()
        }
    }
}
