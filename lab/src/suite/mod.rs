//! Suites: a matrix of targets, scenarios, users, sizes and delays, run case by case.
//!
//! Reads a suite file (`suites/*.toml`), starts backend and target, measures them with `load`, and stores one
//! [`CaseResult`] per case with the logs of target and backend, in
//! `DIR/<scenario>/<target>/<users>_users/<bytes>B/<delay>ms_sleep/<repetition>/`.
//!
//! A case that a target does not support is recorded as [`State::NotServed`](crate::result::State) with a
//! reason, never left out.
//!
//! Architecture invariant: a folder with a case's final name is complete and is never overwritten.

mod buy_stocks;
pub mod cases;
pub mod cost;
pub mod definition;
pub(crate) mod fingerprint;
mod fixtures;
pub mod knee;
mod parse;
mod run_folder;
mod runner;
pub mod scenario;
pub(crate) mod source;
mod upstream;

use std::path::PathBuf;
use std::time::Duration;

use base::{Clock, SystemClock};
use regex::Regex;
use time::OffsetDateTime;

pub use definition::Suite;
pub use run_folder::About;
pub use source::Source;

use crate::knee::Slo;
use crate::load::{Progress, Stop};
use crate::result::{Case, CaseResult, State};
use crate::warning::{Figures, Warning};
use run_folder::RunFolder;
use runner::Runner;

/// The cases to run, and where to store the results.
#[derive(Clone, Debug)]
pub struct Run {
    pub out: PathBuf,
    /// Regular expression over case folders, including the repetition; `None`: all cases.
    pub only: Option<String>,
    /// Continue an earlier run.
    pub resume: bool,
    /// Conditions that each measured case is checked against, kept ones included. `None`: a kept case is judged by the
    /// conditions that it was measured with.
    pub fail_if: Option<Slo>,
    /// The program used as backend and to sign tokens.
    pub penstock: PathBuf,
    /// The command line, recorded in the results.
    pub command: Vec<String>,
    /// Stops the run after the current case.
    pub stop: Stop,
}

/// Why a suite could not be run. A failing case is a result, not an error.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Invalid arguments or files: exit code 2.
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Unable(String),
}

/// Progress events of a run.
#[derive(Debug)]
pub enum Event<'e> {
    /// A case of the earlier run, checked against the conditions of this one if it has any. Precedes the plan.
    Kept(&'e CaseResult),
    /// Before the first case. `done` cases exist already.
    Plan { cases: usize, done: usize, not_served: usize, left: Option<Duration> },
    /// Case number `number` starts.
    Begin { case: &'e Case, number: usize, cases: usize, left: Option<Duration> },
    /// Load generation progress.
    Load(&'e Progress),
    /// A case has finished and its result is stored.
    End(&'e CaseResult),
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub measured: usize,
    /// Measured cases in which latency, rate and CPU time are usable.
    pub usable: [usize; 3],
    pub not_served: usize,
    pub failed: usize,
    /// Cases kept from an earlier run.
    pub kept: usize,
    /// Cases in which a condition of `fail_if` holds, kept ones included.
    pub broken: usize,
    /// The run was stopped before its last case.
    pub interrupted: bool,
}

/// Runs a suite. Blocks; must not be called from a tokio runtime.
///
/// # Errors
/// [`RunError`]: invalid arguments, a folder of a different suite, or a folder that cannot be written.
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
        started: rfc3339(clock.now().unix_s),
        command: run.command.clone(),
    };
    let folder = RunFolder::open(&run.out, suite, run.resume, &about)?;
    let mut summary = Summary::default();
    let mut to_do = Vec::new();
    for case in wanted {
        match folder.kept(&case) {
            None => to_do.push(case),
            Some(mut kept) => {
                if let Some(failures) = &run.fail_if {
                    kept.check(failures);
                }
                summary.kept += 1;
                summary.broken += usize::from(kept.is_broken());
                on_event(&Event::Kept(&kept));
            }
        }
    }
    let mut estimate = Estimate::new(suite, &to_do);
    let cases = to_do.len();
    let not_served = cases - estimate.to_measure;
    on_event(&Event::Plan { cases, done: summary.kept, not_served, left: estimate.left() });
    let mut runner = Runner::new(run, suite, folder)?;
    for (number, case) in (1..).zip(&to_do) {
        on_event(&Event::Begin { case, number, cases, left: estimate.left() });
        let began_us = clock.now_us();
        let Some(found) = runner.case(case, on_event)? else {
            summary.interrupted = true;
            break;
        };
        if let Some(planned) = planned(suite, case) {
            estimate.over(planned, Duration::from_micros(clock.now_us().saturating_sub(began_us)));
        }
        summary.count(&found);
        on_event(&Event::End(&found));
        if run.stop.is_stopped() && number < cases {
            summary.interrupted = true;
            break;
        }
    }
    Ok(summary)
}

/// The cases that `only` matches.
///
/// # Errors
/// [`RunError::Usage`]: `only` is not a valid regular expression, or matches nothing.
pub fn chosen(suite: &Suite, only: Option<&str>) -> Result<Vec<Case>, RunError> {
    let all = cases::all(suite);
    let Some(only) = only else { return Ok(all) };
    let pattern = Regex::new(only).map_err(|error| RunError::Usage(format!("--only: {error}")))?;
    let name = |case: &Case| format!("{}/{}", case.id, case.repetition);
    let example = all.first().map(name).unwrap_or_default();
    let found: Vec<Case> = all.into_iter().filter(|case| pattern.is_match(&name(case))).collect();
    if found.is_empty() {
        return Err(RunError::Usage(format!(
            "--only {only}: no case matches; the first case is {example}"
        )));
    }
    Ok(found)
}

/// Why the suite's first case would not be measured. `None`: its target serves its scenario, and is installed.
#[must_use]
pub fn not_served(suite: &Suite) -> Option<String> {
    let case = cases::all(suite).into_iter().next()?;
    let (target, scenario) = suite.target(&case.target).zip(suite.scenario(&case.scenario))?;
    runner::not_served(suite, target, scenario)
}

impl Summary {
    fn count(&mut self, found: &CaseResult) {
        self.broken += usize::from(found.is_broken());
        match found.state {
            State::Measured => {
                self.measured += 1;
                for (count, figures) in self.usable.iter_mut().zip(Figures::ALL) {
                    let concerned = |warning: &Warning| warning.concerns(figures);
                    *count += usize::from(!found.warnings.iter().any(concerned));
                }
            }
            State::NotServed => self.not_served += 1,
            State::Failed => self.failed += 1,
        }
    }
}

const FIRST_OVERHEAD: Duration = Duration::from_millis(500);

/// Warm-up and measured time of a case; `None` if its target does not serve its scenario.
fn planned(suite: &Suite, case: &Case) -> Option<Duration> {
    let (target, scenario) = suite.target(&case.target).zip(suite.scenario(&case.scenario))?;
    let is_served = runner::not_served(suite, target, scenario).is_none();
    is_served.then(|| suite.warm_up(target) + suite.time.measure)
}

/// Estimates the remaining time: the planned time, plus the average overhead of the cases so far.
struct Estimate {
    planned: Duration,
    to_measure: usize,
    overhead: Duration,
    /// Assumed for the first case; a number of requests may take any time.
    first_overhead: Option<Duration>,
    over: u32,
}

impl Estimate {
    fn new(suite: &Suite, to_do: &[Case]) -> Self {
        let served = || to_do.iter().filter_map(|case| planned(suite, case));
        let first_overhead = suite.time.requests.is_none().then_some(FIRST_OVERHEAD);
        let (planned, to_measure) = (served().sum(), served().count());
        Self { planned, to_measure, overhead: Duration::ZERO, first_overhead, over: 0 }
    }

    /// `None`: not known yet.
    fn left(&self) -> Option<Duration> {
        let overhead = self.overhead.checked_div(self.over).or(self.first_overhead)?;
        let cases = u32::try_from(self.to_measure).unwrap_or(u32::MAX);
        Some(self.planned.saturating_add(overhead.saturating_mul(cases)))
    }

    /// A case that was planned to take `planned` has ended after `took`.
    fn over(&mut self, planned: Duration, took: Duration) {
        self.planned = self.planned.saturating_sub(planned);
        self.to_measure = self.to_measure.saturating_sub(1);
        self.over += 1;
        self.overhead += took.saturating_sub(planned);
    }
}

/// A Unix time in RFC 3339, such as `2026-01-31T23:59:59Z`.
pub(crate) fn rfc3339(unix_s: u64) -> String {
    let time = i64::try_from(unix_s).ok().and_then(|s| OffsetDateTime::from_unix_timestamp(s).ok());
    let time = time.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = time.to_calendar_date();
    let (hour, minute, second) = time.to_hms();
    format!("{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z", u8::from(month))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Estimate, rfc3339};

    #[test]
    fn the_time_that_a_number_of_requests_takes_is_known_after_the_first_case() {
        let seconds = Duration::from_secs;
        let estimate = |first_overhead, over| Estimate {
            planned: seconds(2),
            to_measure: 2,
            overhead: seconds(3),
            first_overhead,
            over,
        };
        assert_eq!(estimate(None, 0).left(), None);
        assert_eq!(estimate(Some(seconds(4)), 0).left(), Some(seconds(10)));
        assert_eq!(estimate(None, 1).left(), Some(seconds(8)));
    }

    #[test]
    fn times_are_formatted_as_rfc_3339() {
        for (unix_s, expect) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(unix_s), expect);
        }
    }
}
