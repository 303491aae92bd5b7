//! `penstock test`: runs Micro Integrator's unit tests.

mod junit;
mod load;

use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{Clock, SystemClock};
use clap::Args;
use mediation_tools::unit_test::{Case, Outcome, Problem, Setting, layout};
use model::Place;

use super::serving::json_rules;
use super::{counted, stderr, stdout};
use crate::failure::Failure;

/// Lines of a difference that are compared; more are cut off.
const COMPARED_LINES_MAX: usize = 1_000;
/// Equal lines that are shown around a difference.
const CONTEXT_LINES: usize = 2;

/// Run Micro Integrator's unit tests of sequences, proxy services and APIs, without a server or a network
///
/// Unit tests refer to their artefacts by paths below the project; mock services respond instead of endpoints.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock test src/test/wso2mi/OrdersTest.xml
  penstock test .                              every unit test of a project
  penstock test . --junit target/tests.xml     for a build server

Exit codes: 0 all passed, 1 some failed or could not be read, 2 no tests found.")]
pub(crate) struct Arguments {
    /// Unit-test files, and folders of them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Configuration file; its `[integration]` settings for XML and JSON apply
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Run only the test cases whose names contain this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Write the results in JUnit's format; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// A unit test that was run, or that could not be read.
struct Ran {
    file: PathBuf,
    cases: Vec<RanCase>,
    /// Why it could not be run.
    problem: Option<String>,
}

struct RanCase {
    name: String,
    outcome: Outcome,
    took: Duration,
}

impl RanCase {
    fn has_passed(&self) -> bool {
        self.outcome.problems.is_empty()
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let found = load::find(&arguments.paths)?;
    let json = json_rules(arguments.config.as_deref())?;
    let clock = SystemClock::new();
    let chosen =
        |case: &&Case| arguments.only.as_ref().is_none_or(|text| case.name.contains(text.as_str()));
    let mut all = Vec::new();
    for found in found {
        stdout(&format!("{}\n", found.file.display()))?;
        let test = load::read(&found, &json);
        let mut ran = Ran { file: found.file, cases: Vec::new(), problem: None };
        match test {
            Ok((test, environment)) => {
                let setting = environment.setting();
                for case in test.cases.iter().filter(chosen) {
                    ran.cases.push(run_case(case, &setting, &clock));
                    if let Some(last) = ran.cases.last() {
                        stdout(&described(&ran.file, last))?;
                    }
                }
            }
            Err(problem) => {
                stdout("  FAIL  cannot be run\n")?;
                stderr(&problem);
                ran.problem = Some(problem);
            }
        }
        all.push(ran);
    }
    let ended = summary(&all);
    if let Some(file) = &arguments.junit {
        follow::write_public(file, junit::document(&all).as_bytes())
            .map_err(|error| Failure::file("write", file, &error))?;
    }
    ended
}

fn run_case(case: &Case, setting: &Setting<'_>, clock: &SystemClock) -> RanCase {
    let start = clock.now();
    let outcome = setting.run(case);
    let took = Duration::from_micros(clock.now().since_us(start));
    RanCase { name: case.name.clone(), outcome, took }
}

fn summary(all: &[Ran]) -> Result<(), Failure> {
    let cases = || all.iter().flat_map(|ran| &ran.cases);
    let (count, passed) = (cases().count(), cases().filter(|case| case.has_passed()).count());
    let unread = all.iter().filter(|ran| ran.problem.is_some()).count();
    let mut line = format!(
        "\n{} in {}: {passed} passed, {} failed",
        counted(count, "test case"),
        counted(all.len(), "file"),
        count - passed
    );
    if unread > 0 {
        line += &format!(", {} cannot be run", counted(unread, "file"));
    }
    stdout(&(line + "\n"))?;
    match (count, unread) {
        (0, 0) => Err(Failure::Usage("there is no such test case".to_owned())),
        _ if passed < count || unread > 0 => Err(Failure::Reported),
        _ => Ok(()),
    }
}

/// A test case that was run, with everything that is wrong.
fn described(file: &Path, case: &RanCase) -> String {
    if case.has_passed() {
        return format!("  ok    {}\n", case.name);
    }
    let mut text = format!("  FAIL  {}\n", case.name);
    for line in problem_lines(file, &case.outcome) {
        text += format!("        {line}").trim_end();
        text.push('\n');
    }
    text
}

fn problem_lines(file: &Path, outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    for Problem { place, what, message, difference } in &outcome.problems {
        let place =
            place.map(|Place { line, column }| format!("{}:{line}:{column}: ", file.display()));
        let message = if message.is_empty() { String::new() } else { format!(": {message}") };
        lines.push(format!("{}{what}{message}", place.unwrap_or_default()));
        if let Some((expected, actual)) = difference {
            lines.push("  - expected".to_owned());
            lines.push("  + actual".to_owned());
            let (expected, actual) = (layout(expected), layout(actual));
            lines.extend(
                differences(&expected, &actual).into_iter().map(|line| format!("  {line}")),
            );
        }
    }
    if !outcome.log.is_empty() {
        lines.push("log:".to_owned());
        lines.extend(outcome.log.iter().map(|line| format!("  {line}")));
    }
    lines
}

/// The lines that differ, with those around them.
fn differences(expected: &[String], actual: &[String]) -> Vec<String> {
    fn cut(lines: &[String]) -> &[String] {
        lines.get(..COMPARED_LINES_MAX).unwrap_or(lines)
    }
    let marked = compared(cut(expected), cut(actual));
    let is_near = |at: usize| {
        let from = at.saturating_sub(CONTEXT_LINES);
        let mut near = marked.iter().skip(from).take(at - from + CONTEXT_LINES + 1);
        near.any(|(mark, _)| *mark != ' ')
    };
    let mut lines = Vec::new();
    let mut was_near = true;
    for (at, (mark, line)) in marked.iter().enumerate() {
        let now = is_near(at);
        if now {
            lines.push(format!("{mark} {line}"));
        } else if was_near {
            lines.push("  ...".to_owned());
        }
        was_near = now;
    }
    if expected.len().max(actual.len()) > COMPARED_LINES_MAX {
        lines.push(format!("  ... (only the first {COMPARED_LINES_MAX} lines are compared)"));
    }
    lines
}

/// All lines with `-`, `+` or a space: the longest common subsequence stays.
fn compared<'l>(expected: &'l [String], actual: &'l [String]) -> Vec<(char, &'l str)> {
    let width = actual.len() + 1;
    // The length of the common part of the rests from (row, column).
    let mut common = vec![0_u16; (expected.len() + 1) * width];
    let at = |row: usize, column: usize| row * width + column;
    for (row, one) in expected.iter().enumerate().rev() {
        for (column, other) in actual.iter().enumerate().rev() {
            common[at(row, column)] = match one == other {
                true => common[at(row + 1, column + 1)] + 1,
                false => common[at(row + 1, column)].max(common[at(row, column + 1)]),
            };
        }
    }
    let (mut row, mut column, mut lines) = (0, 0, Vec::new());
    loop {
        match (expected.get(row), actual.get(column)) {
            (Some(one), Some(other)) if one == other => {
                lines.push((' ', one.as_str()));
                (row, column) = (row + 1, column + 1);
            }
            (Some(one), other)
                if other.is_none()
                    || common[at(row + 1, column)] >= common[at(row, column + 1)] =>
            {
                lines.push(('-', one.as_str()));
                row += 1;
            }
            (_, Some(other)) => {
                lines.push(('+', other.as_str()));
                column += 1;
            }
            (_, None) => return lines,
        }
    }
}

/// Only for `--junit`: the problems, as one text.
fn problems(file: &Path, outcome: &Outcome) -> String {
    problem_lines(file, outcome).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: &str, actual: &str, expect: &[&str]) {
        let lines = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(differences(&lines(expected), &lines(actual)), expect);
    }

    #[test]
    fn a_difference_shows_what_changed_and_the_lines_around_it() {
        check("a", "b", &["- a", "+ b"]);
        check("a b", "a", &["  a", "- b"]);
        check("", "a", &["+ a"]);
        let (long, other) = ("a b c d e f g h", "a b c d X f g h");
        check(long, other, &["  ...", "  c", "  d", "- e", "+ X", "  f", "  g", "  ..."]);
        check("a b c", "c a b", &["+ c", "  a", "  b", "- c"]);
    }
}
