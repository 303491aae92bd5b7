//! CPU time per request of Penstock and other proxies. Each round sends the same requests through every target in turn;
//! the target is pinned to core 1, the generator and the echo backend to core 0.
//!
//! The figure to compare is the ratio to plain nginx in the same cell, which depends little on other load on the
//! machine. Ratios are reported, never asserted; docs/performance.md has results with the machine they are from.

mod benchmarks;
mod cells;
mod change;
mod configs;
mod edits;
mod engines;
mod load;
mod process;
mod report;
mod targets;
mod test_bed;

use std::fmt;
use std::path::Path;

use crate::Outcome;
use crate::shell::Options;
use benchmarks::BENCHMARKS;
use cells::Cell;
use load::{Generator, Plan, Sample};
use report::Row;
use targets::{Running, TARGETS};
use test_bed::TestBed;

/// How long and how often each target is measured in each cell.
struct Settings {
    seconds: u64,
    warm_up_s: u64,
    rounds: u64,
    /// Number of file changes made by the benchmark `change`.
    changes: u64,
}

/// Measures the chosen cells, or runs the named benchmarks. Prints the tables; those of the cells are also written to
/// `bench/` in cargo's target folder.
///
/// # Errors
/// A target does not start or sends a wrong response, or a generator fails. A missed budget is not an error.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    let known =
        ["--cells", "--targets", "--seconds", "--warm-up", "--rounds", "--changes", "--profile"];
    let options = Options::read(arguments, &known, &["--quick"])?;
    let (seconds, warm_up_s, rounds) = if options.has("--quick") { (2, 1, 1) } else { (5, 2, 3) };
    let settings = Settings {
        seconds: options.number("--seconds", seconds)?,
        warm_up_s: options.number("--warm-up", warm_up_s)?,
        rounds: options.number("--rounds", rounds)?,
        changes: options.number("--changes", change::CHANGES)?,
    };
    let profile = options.text("--profile").unwrap_or("release");
    if options.rest == ["engines"] {
        println!("{}", engines::run(root, &options, settings.rounds)?);
        return Ok(());
    }
    if !options.rest.is_empty() {
        return run_benchmarks(root, profile, &options.rest, &settings);
    }
    let cells = cells::chosen(options.text("--cells"))?;
    let bed = TestBed::prepare(root, profile)?;
    let running = start(&bed, options.text("--targets"))?;
    let mut agreement = Agreement::default();
    let mut rows = Vec::new();
    for cell in &cells {
        rows.extend(measure(&bed, &running, cell, &settings, &mut agreement)?);
    }
    let page = report::page(&bed, &rows, &agreement);
    println!("{page}");
    report::write(&bed, &page, &rows)
}

/// Runs the named benchmarks instead of the comparison.
fn run_benchmarks(root: &Path, profile: &str, names: &[String], settings: &Settings) -> Outcome {
    let known = |name: &String| BENCHMARKS.iter().find(|benchmark| benchmark.name == name);
    let all: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
    let chosen = names
        .iter()
        .map(|name| {
            known(name).ok_or_else(|| {
                format!("unknown benchmark `{name}`; known benchmarks: engines, {}", all.join(", "))
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let bed = TestBed::prepare(root, profile)?;
    println!("{}", report::machine(&bed));
    for benchmark in chosen {
        println!("{}", (benchmark.run)(&bed, settings)?);
    }
    Ok(())
}

/// Starts every requested target that is installed, and checks its responses.
fn start(bed: &TestBed, wanted: Option<&str>) -> Result<Vec<Running>, String> {
    let mut running = Vec::new();
    for target in TARGETS.iter().filter(|target| cells::wanted(wanted, target.name)) {
        match target.start(bed)? {
            Some(started) => {
                started.check(bed)?;
                running.push(started);
            }
            None => {
                eprintln!(
                    "bench: skipping {}, which is not installed (make bench-peers)",
                    target.name
                )
            }
        }
    }
    if running.is_empty() { Err("--targets matches no target".to_owned()) } else { Ok(running) }
}

/// Measures one cell: all targets in each round, then some of them with wrk as a cross-check.
fn measure(
    bed: &TestBed,
    running: &[Running],
    cell: &Cell,
    settings: &Settings,
    agreement: &mut Agreement,
) -> Result<Vec<Row>, String> {
    let plan = Plan { seconds: settings.seconds, warm_up_s: settings.warm_up_s };
    let mut samples: Vec<(usize, Generator, Sample)> = Vec::new();
    for round in 1..=settings.rounds {
        for (index, target) in running.iter().enumerate() {
            let before = target.responses()?;
            let sample =
                load::run(bed, &target.load_target(cell.tls), cell, Generator::Lab, &plan)?;
            agreement.add(cell, &sample, before, target.responses()?)?;
            eprintln!("bench: {cell} round {round} {}: {sample}", target.name());
            samples.push((index, Generator::Lab, sample));
        }
    }
    for (index, target) in
        running.iter().enumerate().filter(|(_, target)| target.is_measured_with_wrk())
    {
        let sample = load::run(bed, &target.load_target(cell.tls), cell, Generator::Wrk, &plan)?;
        eprintln!("bench: {cell} wrk {}: {sample}", target.name());
        samples.push((index, Generator::Wrk, sample));
    }
    Ok(report::rows(running, cell, &samples))
}

/// Requests counted by Penstock's /metrics and by the generator, over all runs.
#[derive(Debug, Default)]
struct Agreement {
    runs: u64,
    generator: u64,
    gateway: u64,
}

impl Agreement {
    /// Adds a run. The counts may differ by the requests in flight at the end: at most one per connection.
    fn add(
        &mut self,
        cell: &Cell,
        sample: &Sample,
        before: Option<u64>,
        after: Option<u64>,
    ) -> Outcome {
        let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
        let (generator, gateway) = (sample.requests_in_all, after.saturating_sub(before));
        if generator.abs_diff(gateway) > u64::from(cell.connections) {
            return Err(format!(
                "{cell}: the generator counted {generator} requests, but /metrics {gateway}"
            ));
        }
        self.runs += 1;
        self.generator += generator;
        self.gateway += gateway;
        Ok(())
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, generator, gateway } = self;
        write!(
            to,
            "- requests over {runs} runs: {gateway} by Penstock's /metrics, {generator} by the generator"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_may_differ_only_by_requests_in_flight() {
        let cell = Cell { tls: false, body_bytes: 50, connections: 100 };
        let sample = Sample { requests_in_all: 1_000, ..Sample::default() };
        let mut agreement = Agreement::default();
        assert_eq!(agreement.add(&cell, &sample, Some(5), Some(1_105)), Ok(()));
        assert_eq!((agreement.generator, agreement.gateway), (1_000, 1_100));
        assert!(agreement.add(&cell, &sample, Some(0), Some(1_101)).is_err());
        assert_eq!(agreement.add(&cell, &sample, None, None), Ok(()));
        assert_eq!(agreement.runs, 1);
    }
}
