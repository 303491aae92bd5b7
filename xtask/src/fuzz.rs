//! Coverage-guided fuzzing without cargo-fuzz and without a nightly toolchain: the flags that cargo-fuzz
//! gives rustc are all stable but the sanitizers', and memory errors need `unsafe`, which we have none of.
//!
//! Seeds are read from fuzz/seeds/TARGET; what is learnt goes to fuzz-corpus/TARGET in cargo's folder and
//! is taken up by the next run; inputs that fail go to fuzz-artifacts/TARGET.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::shell::{self, Options};
use crate::tidy::registered_targets;
use crate::{Outcome, workspace};

const SECONDS_DEFAULT: u64 = 60;

/// Makes rustc count which edges run and show libFuzzer what is compared with what.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
    "--cfg=fuzzing",
];

/// Limits that libFuzzer holds each input to; a breach is a finding.
const LIMITS: &[&str] = &["-timeout=10", "-rss_limit_mb=2048", "-malloc_limit_mb=512"];

/// Builds every target and runs the named ones, or all, `--seconds` each.
///
/// # Errors
/// A target doesn't build, or an input fails: the path of that input, and how to run it again.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    let options = Options::read(arguments, &["--seconds"], &[])?;
    let seconds = options.number("--seconds", SECONDS_DEFAULT)?;
    let targets = chosen(root, &options.rest)?;
    let built = build(root, &targets)?;
    for target in &targets {
        fuzz(root, &built.join(target), target, seconds)?;
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
            Err(format!("fuzz target {unknown} is unknown; there are {}", all.join(", ")))
        }
        None if named.is_empty() => Ok(all),
        None => Ok(named.to_vec()),
    }
}

/// Builds the targets; answers the folder of the programs. `--target` keeps the counters out of build scripts
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
    let told = shell::output(Command::new("rustc").arg("-vV"))?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}

fn fuzz(root: &Path, program: &Path, target: &str, seconds: u64) -> Outcome {
    let ours = workspace::target_dir(root);
    let corpus = ours.join("fuzz-corpus").join(target);
    let artifacts = ours.join("fuzz-artifacts").join(target);
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let output = Command::new(program)
        .arg(&corpus)
        .arg(root.join("fuzz/seeds").join(target))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(format!("-max_total_time={seconds}"))
        .args(LIMITS)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        eprintln!("{told}");
        return Err(failure(target, program, &told));
    }
    println!("fuzz {target}: {}", summary(&told)?);
    Ok(())
}

fn failure(target: &str, program: &Path, told: &str) -> String {
    match told.split("Test unit written to ").nth(1).and_then(|rest| rest.lines().next()) {
        Some(input) => {
            format!("fuzz target {target} failed on {input}\nagain: {} {input}", program.display())
        }
        None => format!("fuzz target {target} failed without an input; see above"),
    }
}

/// One line from libFuzzer's log: edges covered after the seeds and at the end, and how many inputs ran.
///
/// # Errors
/// The log shows no counters: the program was built without instrumentation, and the run was blind.
fn summary(told: &str) -> Result<String, String> {
    let covered = |line: &str| line.split("cov: ").nth(1)?.split(' ').next()?.parse::<u64>().ok();
    let first = told.lines().find(|line| line.contains("INITED")).and_then(covered).unwrap_or(0);
    let last = told.lines().rev().find_map(covered).unwrap_or(0);
    if first == 0 || last == 0 {
        return Err(format!("no coverage counters, so this was not guided:\n{told}"));
    }
    let runs = told.lines().rev().find_map(|line| line.strip_prefix("Done "));
    let runs = runs.and_then(|line| line.split(' ').next()).unwrap_or("?");
    Ok(format!("{runs} inputs, {first} edges covered by corpus and seeds, {last} at the end"))
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
        assert_eq!(line, "100 inputs, 12 edges covered by corpus and seeds, 21 at the end");
    }

    #[test]
    fn a_log_without_counters_is_a_failure() {
        assert!(summary("#2\tINITED exec/s: 0 rss: 20Mb\nDone 2 runs in 1 second(s)\n").is_err());
    }

    #[test]
    fn a_failed_input_is_named_with_how_to_run_it_again() {
        let told = "panic\nTest unit written to artifacts/crash-1\nBase64: AA==\n";
        let why = failure("jwt", Path::new("bin/jwt"), told);
        assert!(why.ends_with("again: bin/jwt artifacts/crash-1"), "{why}");
    }
}
