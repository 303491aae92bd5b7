//! Coverage-guided fuzzing with libFuzzer, without cargo-fuzz and on the stable toolchain. Only the sanitizer flags
//! that cargo-fuzz passes to rustc need nightly, and sanitizers look for memory errors in `unsafe` code, which is
//! forbidden here.
//!
//! Without `--runs`: a fixed time per target and a fresh seed. Starts from fuzz/seeds/TARGET and the corpus of earlier
//! runs (fuzz-corpus/TARGET below cargo's target folder), and writes failing inputs to fuzz-artifacts/TARGET. The
//! property tests and the gateway's simulation are run as well, with fresh seeds.
//!
//! With `--runs`: a fixed number of inputs, a fixed seed and fuzz/seeds alone, so that each run is the same.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::shell::{self, Options};
use crate::tidy::registered_targets;
use crate::{Outcome, workspace};

const SECONDS_DEFAULT: u64 = 60;

/// Cases per property test with a fresh seed; `cargo test` runs 256 with a fixed one.
const PROPERTY_CASES: u64 = 4_096;

/// Coverage counters for libFuzzer, and the operands of comparisons.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
    "--cfg=fuzzing",
];

/// An input that exceeds one of these has failed.
const LIMITS: &[&str] = &["-rss_limit_mb=2048", "-malloc_limit_mb=512"];
/// Longest time for one input, in wall-clock time.
const TIMEOUT_S: u64 = 10;
/// The same with a fixed seed: longer, so that a run does not fail because the machine is busy.
const TIMEOUT_FIXED_S: u64 = 60;

#[derive(Clone, Copy)]
enum Effort {
    /// Seconds per target; a fresh seed.
    Seconds(u64),
    /// Inputs per target; a fixed seed.
    Runs(u64),
}

/// Builds the named targets, or all, and runs them. Without names and without `--runs` the property tests and the
/// simulation run first.
///
/// # Errors
/// A target does not build, or an input fails; the message has its path, how to run it again and where to keep it.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    let options = Options::read(arguments, &["--seconds", "--runs"], &[])?;
    let effort = match options.text("--runs") {
        Some(_) if options.has("--seconds") => {
            return Err("--runs and --seconds are mutually exclusive".to_owned());
        }
        Some(_) => Effort::Runs(options.number("--runs", 0)?),
        None => Effort::Seconds(options.number("--seconds", SECONDS_DEFAULT)?),
    };
    let targets = chosen(root, &options.rest)?;
    if let Effort::Seconds(seconds) = effort
        && options.rest.is_empty()
    {
        properties(root)?;
        simulation(root, seconds)?;
    }
    let built = build(root, &targets)?;
    for target in &targets {
        fuzz(root, &built.join(target), target, effort)?;
    }
    Ok(())
}

fn chosen(root: &Path, named: &[String]) -> Result<Vec<String>, String> {
    let manifest = root.join("fuzz/Cargo.toml");
    let text =
        std::fs::read_to_string(&manifest).map_err(|error| format!("fuzz/Cargo.toml: {error}"))?;
    let all = registered_targets(&text);
    match named.iter().find(|name| !all.contains(name)) {
        Some(unknown) => {
            Err(format!("unknown fuzz target `{unknown}`; known targets: {}", all.join(", ")))
        }
        None if named.is_empty() => Ok(all),
        None => Ok(named.to_vec()),
    }
}

/// Runs the tests of every package that uses proptest, with a fresh seed and more cases.
fn properties(root: &Path) -> Outcome {
    let seed = RandomState::new().build_hasher().finish();
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--quiet"]);
    for package in workspace::packages(root, &workspace::files(root))? {
        if package.dependencies.iter().any(|(name, _)| name == "proptest") {
            cargo.args(["--package", &format!("penstock-{}", package.name)]);
        }
    }
    cargo
        .env("PROPTEST_RNG_SEED", seed.to_string())
        .env("PROPTEST_CASES", PROPERTY_CASES.to_string())
        .current_dir(root);
    println!("property tests: seed {seed}, {PROPERTY_CASES} cases each");
    shell::run(&mut cargo).map_err(|error| {
        format!(
            "property tests failed: {error}\n  \
             run again: PROPTEST_RNG_SEED={seed} PROPTEST_CASES={PROPERTY_CASES} cargo test --package PACKAGE TEST\n  \
             keep it:   write the minimal input shown above as a test of its own, \
             or commit the line added below crates/*/proptest-regressions"
        )
    })
}

/// Runs the gateway's simulation. A failure names its seed.
fn simulation(root: &Path, seconds: u64) -> Outcome {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["test", "--quiet", "--package", "penstock-gateway", "--lib", "--"])
        .args(["--exact", "simulation::seeds::fresh_seeds", "--ignored", "--nocapture"])
        .env("PENSTOCK_SIMULATION_SECONDS", seconds.to_string())
        .current_dir(root);
    shell::run(&mut cargo)
}

/// Builds the targets and returns the folder of the programs. `--target` keeps the counters out of build scripts
/// and procedural macros.
fn build(root: &Path, targets: &[String]) -> Result<PathBuf, String> {
    let triple = host_triple()?;
    let folder = workspace::target_dir(root).join("fuzz");
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--release", "--quiet", "--target", &triple])
        .arg("--manifest-path")
        .arg(root.join("fuzz/Cargo.toml"))
        .arg("--target-dir")
        .arg(&folder)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"))
        .current_dir(root);
    for target in targets {
        cargo.args(["--bin", target]);
    }
    shell::run(&mut cargo)?;
    Ok(folder.join(triple).join("release"))
}

fn host_triple() -> Result<String, String> {
    let version = shell::output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "`rustc -vV` printed no `host:` line".to_owned())
}

fn fuzz(root: &Path, program: &Path, target: &str, effort: Effort) -> Outcome {
    let ours = workspace::target_dir(root);
    let artifacts = ours.join("fuzz-artifacts").join(target);
    let corpus = match effort {
        Effort::Seconds(_) => ours.join("fuzz-corpus").join(target),
        Effort::Runs(_) => ours.join("fuzz-scratch").join(target),
    };
    if matches!(effort, Effort::Runs(_)) && corpus.exists() {
        std::fs::remove_dir_all(&corpus)
            .map_err(|error| format!("{}: {error}", corpus.display()))?;
    }
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let effort = match effort {
        Effort::Seconds(seconds) => {
            [format!("-max_total_time={seconds}"), format!("-timeout={TIMEOUT_S}"), String::new()]
        }
        Effort::Runs(runs) => {
            [format!("-runs={runs}"), format!("-timeout={TIMEOUT_FIXED_S}"), "-seed=1".to_owned()]
        }
    };
    let output = Command::new(program)
        .arg(&corpus)
        .arg(root.join("fuzz/seeds").join(target))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(effort.iter().filter(|argument| !argument.is_empty()))
        .args(LIMITS)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        eprintln!("{log}");
        return Err(failure(target, program, &log));
    }
    println!("fuzz {target}: {}", summary(&log)?);
    Ok(())
}

fn failure(target: &str, program: &Path, log: &str) -> String {
    match log.split("Test unit written to ").nth(1).and_then(|rest| rest.lines().next()) {
        Some(input) => format!(
            "fuzz target {target} failed\n  \
             input:     {input}\n  \
             run again: {} {input}\n  \
             keep it:   cp {input} fuzz/seeds/{target}/NAME, with the fix; `make test-all` runs every seed",
            program.display()
        ),
        None => format!("fuzz target {target} failed before its first input; its log is above"),
    }
}

/// One line from libFuzzer's log: how many inputs ran, and the edges covered at the start and at the end.
///
/// # Errors
/// The log shows no coverage: the program was built without counters, so the inputs were not guided.
fn summary(log: &str) -> Result<String, String> {
    let covered = |line: &str| line.split("cov: ").nth(1)?.split(' ').next()?.parse::<u64>().ok();
    let first = log.lines().find(|line| line.contains("INITED")).and_then(covered).unwrap_or(0);
    let last = log.lines().rev().find_map(covered).unwrap_or(0);
    if first == 0 || last == 0 {
        return Err(format!("the fuzz target was built without coverage counters:\n{log}"));
    }
    let runs = log.lines().rev().find_map(|line| line.strip_prefix("Done "));
    let runs = runs.and_then(|line| line.split(' ').next()).unwrap_or("?");
    Ok(format!("{runs} inputs, edges covered: {first} at the start, {last} at the end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "INFO: Loaded 1 modules   (9 inline 8-bit counters)\n\
                       #3\tINITED cov: 12 ft: 13 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                       #9\tNEW    cov: 20 ft: 22 corp: 2/3b lim: 4 exec/s: 0 rss: 30Mb\n\
                       #100\tDONE   cov: 21 ft: 22 corp: 2/3b lim: 4 exec/s: 0 rss: 30Mb\n\
                       Done 100 runs in 1 second(s)\n";

    #[test]
    fn a_log_becomes_one_line() {
        let line = summary(LOG).unwrap();
        assert_eq!(line, "100 inputs, edges covered: 12 at the start, 21 at the end");
    }

    #[test]
    fn a_log_without_counters_is_a_failure() {
        assert!(summary("#2\tINITED exec/s: 0 rss: 20Mb\nDone 2 runs in 1 second(s)\n").is_err());
    }

    #[test]
    fn a_failure_names_the_input_the_command_and_where_to_keep_it() {
        let log = "panic\nTest unit written to artifacts/crash-1\nBase64: AA==\n";
        let message = failure("jwt", Path::new("bin/jwt"), log);
        for part in ["bin/jwt artifacts/crash-1\n", "fuzz/seeds/jwt/"] {
            assert!(message.contains(part), "{message}");
        }
    }
}
