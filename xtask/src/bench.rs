//! CPU per request of Penstock and other proxies: the same request through each in turn, round after round, with the target
//! pinned to core 1, and the generator and the echo backend to core 0.
//!
//! The figure to compare is CPU time per request as a ratio to bare nginx in the same cell; other load on the machine
//! changes it little. Ratios are reported, never asserted; docs/performance.md has a run with its machine.

mod cells;
mod change;
mod chapters;
mod configs;
mod edits;
mod engines;
mod ground;
mod load;
mod process;
mod report;
mod targets;

use std::fmt;
use std::path::Path;

use crate::Outcome;
use crate::shell::Options;
use cells::Cell;
use chapters::CHAPTERS;
use ground::Ground;
use load::{Generator, Plan, Sample};
use report::Row;
use targets::{Running, TARGETS};

/// How long and how often each target is measured in each cell.
struct Effort {
    seconds: u64,
    warm_up_s: u64,
    rounds: u64,
    /// Files written by the chapter `change`.
    changes: u64,
}

/// Measures every chosen cell, or the chapters named; prints tables and writes them to `bench/` in the target folder.
///
/// # Errors
/// A target does not start or sends a wrong response, or a generator fails. A missed budget is no error.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    let known =
        ["--cells", "--targets", "--seconds", "--warm-up", "--rounds", "--changes", "--profile"];
    let options = Options::read(arguments, &known, &["--quick"])?;
    let (seconds, warm_up_s, rounds) = if options.has("--quick") { (2, 1, 1) } else { (5, 2, 3) };
    let effort = Effort {
        seconds: options.number("--seconds", seconds)?,
        warm_up_s: options.number("--warm-up", warm_up_s)?,
        rounds: options.number("--rounds", rounds)?,
        changes: options.number("--changes", change::CHANGES)?,
    };
    let profile = options.text("--profile").unwrap_or("release");
    if options.rest == ["engines"] {
        println!("{}", engines::run(root, &options, effort.rounds)?);
        return Ok(());
    }
    if !options.rest.is_empty() {
        return read_chapters(root, profile, &options.rest, &effort);
    }
    let cells = cells::chosen(options.text("--cells"))?;
    let ground = Ground::prepare(root, profile)?;
    let running = start(&ground, options.text("--targets"))?;
    let mut agreement = Agreement::default();
    let mut rows = Vec::new();
    for cell in &cells {
        rows.extend(measure(&ground, &running, cell, &effort, &mut agreement)?);
    }
    let page = report::page(&ground, &rows, &agreement);
    println!("{page}");
    report::write(&ground, &page, &rows)
}

/// The named chapters instead of the comparison.
fn read_chapters(root: &Path, profile: &str, names: &[String], effort: &Effort) -> Outcome {
    let known = |name: &String| CHAPTERS.iter().find(|chapter| chapter.name == name);
    let all: Vec<&str> = CHAPTERS.iter().map(|chapter| chapter.name).collect();
    let chosen = names
        .iter()
        .map(|name| {
            known(name).ok_or_else(|| {
                format!("unknown chapter `{name}`; known chapters: engines, {}", all.join(", "))
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let ground = Ground::prepare(root, profile)?;
    println!("{}", report::machine(&ground));
    for chapter in chosen {
        println!("{}", (chapter.run)(&ground, effort)?);
    }
    Ok(())
}

/// Starts every target that is installed and wanted, and checks that it answers as it should.
fn start(ground: &Ground, wanted: Option<&str>) -> Result<Vec<Running>, String> {
    let mut running = Vec::new();
    for target in TARGETS.iter().filter(|target| cells::wanted(wanted, target.name)) {
        match target.start(ground)? {
            Some(started) => {
                started.check(ground)?;
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

/// One cell: rounds over all targets, then wrk as a second witness.
fn measure(
    ground: &Ground,
    running: &[Running],
    cell: &Cell,
    effort: &Effort,
    agreement: &mut Agreement,
) -> Result<Vec<Row>, String> {
    let plan = Plan { seconds: effort.seconds, warm_up_s: effort.warm_up_s };
    let mut samples: Vec<(usize, Generator, Sample)> = Vec::new();
    for round in 1..=effort.rounds {
        for (index, target) in running.iter().enumerate() {
            let before = target.answered()?;
            let sample = load::run(ground, &target.aim(cell.tls), cell, Generator::Lab, &plan)?;
            agreement.note(cell, &sample, before, target.answered()?)?;
            eprintln!("bench: {cell} round {round} {}: {sample}", target.name());
            samples.push((index, Generator::Lab, sample));
        }
    }
    for (index, target) in running.iter().enumerate().filter(|(_, target)| target.has_control_row())
    {
        let sample = load::run(ground, &target.aim(cell.tls), cell, Generator::Wrk, &plan)?;
        eprintln!("bench: {cell} wrk {}: {sample}", target.name());
        samples.push((index, Generator::Wrk, sample));
    }
    Ok(report::rows(running, cell, &samples))
}

/// What Penstock's own /metrics says, beside the generator's count, over all runs.
#[derive(Debug, Default)]
struct Agreement {
    runs: u64,
    generator: u64,
    gateway: u64,
}

impl Agreement {
    /// The two may differ by what was under way when the generator stopped: at most one request per connection.
    fn note(
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
                "{cell}: the generator counted {generator} requests, /metrics {gateway}"
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
            "- Penstock's /metrics against the generator, over {runs} runs: {gateway} and {generator} requests"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_may_differ_by_what_was_under_way_and_no_more() {
        let cell = Cell { tls: false, body_bytes: 50, connections: 100 };
        let sample = Sample { requests_in_all: 1_000, ..Sample::default() };
        let mut agreement = Agreement::default();
        assert_eq!(agreement.note(&cell, &sample, Some(5), Some(1_105)), Ok(()));
        assert_eq!((agreement.generator, agreement.gateway), (1_000, 1_100));
        assert!(agreement.note(&cell, &sample, Some(0), Some(1_101)).is_err());
        assert_eq!(agreement.note(&cell, &sample, None, None), Ok(()));
        assert_eq!(agreement.runs, 1);
    }
}
