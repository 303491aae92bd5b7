//! Instructions per request of each stage, counted by callgrind and compared with the limits in `benches`. The cost of
//! one iteration is the difference between a long and a short run, so startup is not counted.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::shell::{self, Options};
use crate::{Outcome, workspace};

const SHORT: u64 = 200;
const LONG: u64 = 1_200;

/// Measures every case, or those whose name contains an argument, and prints each with its limit.
///
/// # Errors
/// valgrind is missing, or a case exceeds its limit.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    let options = Options::read(arguments, &["--profile"], &[])?;
    let program = build(root, options.text("--profile").unwrap_or("instructions"))?;
    let folder = workspace::target_dir(root).join("instructions");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut cases = cases(&program)?;
    let is_named = |name: &str| options.rest.iter().any(|part| name.contains(part.as_str()));
    cases.retain(|(name, _)| options.rest.is_empty() || is_named(name));
    let mut over = Vec::new();
    println!("{:<24}{:>14}{:>10}", "case", "instructions", "limit");
    for (each, (name, limit)) in count_all(&program, &folder, &cases).into_iter().zip(cases) {
        let each = each?;
        println!("{name:<24}{each:>14}{limit:>10}");
        if each > limit {
            over.push(format!("{name}: {each} instructions, limit {limit}"));
        }
    }
    if over.is_empty() {
        return Ok(());
    }
    let profiles = folder.display();
    Err(format!(
        "over the limit:\n{}\nprofiles: callgrind_annotate {profiles}/CASE.out",
        over.join("\n")
    ))
}

/// The instructions of one iteration of each case. Counts do not depend on other load, so one case runs on each
/// processor.
fn count_all(program: &Path, folder: &Path, cases: &[(String, u64)]) -> Vec<Result<u64, String>> {
    let next = AtomicUsize::new(0);
    let counts = Mutex::new(vec![Ok(0); cases.len()]);
    let work = || {
        while let Some((index, (name, _))) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            cases.get(index).map(|case| (index, case))
        } {
            let each = count(program, folder, name, SHORT).and_then(|short| {
                let long = count(program, folder, name, LONG)?;
                Ok(long.saturating_sub(short) / (LONG - SHORT))
            });
            if let Some(place) =
                counts.lock().unwrap_or_else(PoisonError::into_inner).get_mut(index)
            {
                *place = each;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
    counts.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn build(root: &Path, profile: &str) -> Result<PathBuf, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--package", "penstock-benches", "--profile", profile]);
    shell::run(cargo.current_dir(root))?;
    Ok(workspace::target_dir(root).join(profile).join("penstock-benches"))
}

fn cases(program: &Path) -> Result<Vec<(String, u64)>, String> {
    let list = shell::output(Command::new(program).arg("list"))?;
    list.lines()
        .map(|line| {
            let (name, limit) = line.split_once(' ')?;
            Some((name.to_owned(), limit.parse().ok()?))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| {
            format!("`{} list` printed lines other than `NAME LIMIT`:\n{list}", program.display())
        })
}

/// Instructions of a whole run. The profile is kept for callgrind_annotate.
fn count(program: &Path, folder: &Path, case: &str, times: u64) -> Result<u64, String> {
    let profile = folder.join(format!("{case}.out"));
    let mut valgrind = Command::new("valgrind");
    valgrind
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(program)
        .args([case, &times.to_string()]);
    shell::output(&mut valgrind)
        .map_err(|error| format!("{error}\n(on Debian: apt-get install valgrind)"))?;
    let text = std::fs::read_to_string(&profile)
        .map_err(|error| format!("{}: {error}", profile.display()))?;
    total(&text).ok_or_else(|| format!("{}: no `totals:` or `summary:` line", profile.display()))
}

/// The line `totals: N`, or `summary: N`, of a callgrind profile.
fn total(profile: &str) -> Option<u64> {
    let line = profile.lines().rev().find_map(|line| {
        line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: "))
    })?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_a_profile_is_read() {
        assert_eq!(total("events: Ir\nsummary: 123\n\nfn=(1)\n1 2\n\ntotals: 456\n"), Some(456));
        assert_eq!(total("events: Ir\n"), None);
    }
}
