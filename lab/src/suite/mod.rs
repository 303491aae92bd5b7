//! Suites: a matrix of targets, scenarios, users, sizes and delays, run case by case.
//!
//! Not part of a request's life: it starts what is measured, has `load` measure it, and keeps what came
//! out. Reads a suite's file (`suites/*.toml`); answers one [`CaseResult`] per case, in a folder of its
//! own: `DIR/<scenario>/<target>/<users>_users/<bytes>B/<delay>ms_sleep/<repetition>/result.json`, with
//! the logs of target and backend beside it.
//!
//! A case that a target can't do is a result too ([`State::NotServed`](crate::result::State)): a table
//! with a gap must say why.
//!
//! Architecture invariant: a folder that carries a case's name is whole, and is never written over.

mod buy_stocks;
pub mod cases;
pub mod cost;
pub mod definition;
mod fingerprint;
mod fixtures;
pub mod knee;
mod parse;
mod run_folder;
mod runner;
pub mod scenario;
pub(crate) mod source;
mod time;

use std::path::PathBuf;
use std::time::Duration;

use base::{Clock, SystemClock};
use regex::Regex;

pub use definition::Suite;
pub use run_folder::About;
pub use source::Source;

use crate::load::{Progress, Stop};
use crate::result::{Case, CaseResult, State};
use run_folder::RunFolder;
use runner::Runner;

/// What to run, and where to.
#[derive(Clone, Debug)]
pub struct Run {
    pub out: PathBuf,
    /// Cases whose folder, repetition included, this finds; `None`: all.
    pub only: Option<String>,
    /// Go on with a run that is there.
    pub resume: bool,
    /// The program that signs tokens and answers as backend.
    pub penstock: PathBuf,
    /// The command line, for the results.
    pub command: Vec<String>,
    /// Ends the run after what is done.
    pub stop: Stop,
}

/// Why a suite could not be run. A case that breaks is a result instead.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// What was asked for can't be done: exit 2.
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Unable(String),
}

/// What happens during a run, for its progress.
#[derive(Debug)]
pub enum Event<'e> {
    /// Before the first case. `done` were there already.
    Plan { cases: usize, done: usize, not_served: usize, left: Duration },
    /// A case begins, the `number`th.
    Begin { case: &'e Case, number: usize, cases: usize, left: Duration },
    /// Load is being put on.
    Load(&'e Progress),
    /// A case is over, and kept.
    End(&'e CaseResult),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub measured: usize,
    pub flagged: usize,
    pub not_served: usize,
    pub failed: usize,
    /// Cases that were there already.
    pub kept: usize,
    /// It was ended before its last case.
    pub interrupted: bool,
}

/// Runs a suite. Not to be called from within a tokio runtime, since it blocks.
///
/// # Errors
/// [`RunError`]: bad arguments, another suite's folder, or one that can't be written.
pub fn run(
    suite: &Suite,
    run: &Run,
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<Summary, RunError> {
    let wanted = chosen(suite, run.only.as_deref())?;
    let clock = SystemClock::new();
    let about = About {
        suite: suite.name.clone(),
        about: suite.about.clone(),
        config_sha256: suite.sha256(),
        cases: cases::all(suite).len(),
        started: time::rfc3339(clock.now().unix_s),
        command: run.command.clone(),
    };
    let folder = RunFolder::open(&run.out, suite, run.resume, &about)?;
    let (done, to_do): (Vec<Case>, Vec<Case>) =
        wanted.into_iter().partition(|case| folder.is_done(case));
    let mut estimate = Estimate::new(suite, &to_do);
    let cases = to_do.len();
    let not_served = cases - estimate.to_measure;
    on_event(&Event::Plan { cases, done: done.len(), not_served, left: estimate.left() });
    let mut summary = Summary { kept: done.len(), ..Summary::default() };
    let mut runner = Runner::new(run, suite, folder)?;
    for (number, case) in (1..).zip(&to_do) {
        on_event(&Event::Begin { case, number, cases, left: estimate.left() });
        let began_us = clock.now_us();
        let Some(found) = runner.case(case, on_event)? else {
            summary.interrupted = true;
            break;
        };
        estimate.over(&found, Duration::from_micros(clock.now_us().saturating_sub(began_us)));
        summary.count(&found);
        on_event(&Event::End(&found));
        if run.stop.is_stopped() && number < cases {
            summary.interrupted = true;
            break;
        }
    }
    Ok(summary)
}

/// The cases that `only` finds.
///
/// # Errors
/// [`RunError::Usage`]: `only` is no regular expression, or finds nothing.
pub fn chosen(suite: &Suite, only: Option<&str>) -> Result<Vec<Case>, RunError> {
    let all = cases::all(suite);
    let Some(only) = only else { return Ok(all) };
    let pattern = Regex::new(only).map_err(|error| RunError::Usage(format!("--only: {error}")))?;
    let name = |case: &Case| format!("{}/{}", case.id, case.repetition);
    let example = all.first().map(name).unwrap_or_default();
    let found: Vec<Case> = all.into_iter().filter(|case| pattern.is_match(&name(case))).collect();
    if found.is_empty() {
        return Err(RunError::Usage(format!(
            "--only {only}: no case is called so; the first one is {example}"
        )));
    }
    Ok(found)
}

impl Summary {
    fn count(&mut self, found: &CaseResult) {
        match found.state {
            State::Measured => {
                self.measured += 1;
                self.flagged += usize::from(!found.warnings.is_empty());
            }
            State::NotServed => self.not_served += 1,
            State::Failed => self.failed += 1,
        }
    }
}

/// How long the rest will take: the load's own time, and what the cases so far took beside it.
struct Estimate {
    each: Duration,
    to_measure: usize,
    beside: Duration,
    over: u32,
}

impl Estimate {
    fn new(suite: &Suite, to_do: &[Case]) -> Self {
        let serves = |case: &&Case| {
            let both = suite.target(&case.target).zip(suite.scenario(&case.scenario));
            both.is_some_and(|(target, scenario)| runner::not_served(target, scenario).is_none())
        };
        let to_measure = to_do.iter().filter(serves).count();
        let each = suite.time.warm_up + suite.time.measure;
        Self { each, to_measure, beside: Duration::ZERO, over: 0 }
    }

    fn left(&self) -> Duration {
        /// Start and end of backend and target, before any case has told.
        const BESIDE: Duration = Duration::from_millis(500);
        let beside = self.beside.checked_div(self.over).unwrap_or(BESIDE);
        (self.each + beside).saturating_mul(u32::try_from(self.to_measure).unwrap_or(u32::MAX))
    }

    fn over(&mut self, found: &CaseResult, took: Duration) {
        match found.state {
            State::NotServed => {}
            State::Measured | State::Failed => {
                self.to_measure = self.to_measure.saturating_sub(1);
                self.over += 1;
                self.beside += took.saturating_sub(self.each);
            }
        }
    }
}
