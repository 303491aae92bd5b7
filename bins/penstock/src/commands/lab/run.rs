//! `penstock lab run`: a suite, case by case.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use lab::knee::Slo;
use lab::load::Stop;
use lab::report::{self, CaseView, results};
use lab::result::{CaseResult, State};
use lab::suite::{self, Event, RunError, Suite, Summary};
use lab::warning::Figures;

use super::live::Live;
use super::load::failures;
use crate::commands::signals::{self, Signals};
use crate::commands::{counted, stderr, stdout};
use crate::failure::Failure;

/// Run a suite: targets x scenarios x users x sizes x delays
///
/// Each case gets a folder with its result.json and the logs of target and backend. Scenarios that a target does not
/// support are recorded as "not served". Ctrl-C stops the run, discards the running case, and keeps and reports the
/// completed ones; --resume continues it. The output begins with the verdict: which target is first, by how much.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock lab run suites/quick.toml --out results-quick
  penstock lab run suites/api-manager.toml --out results --only 'passthrough/.*/0ms_sleep'
  penstock lab run suites/api-manager.toml --out results --resume
  penstock lab run suites/quick.toml --out results-ci --fail-if 'p99 > 100ms, errors > 0.1%'

Exit codes: 0 success, with or without warnings; 1 a case failed, a condition of --fail-if
holds, or the run was interrupted; 2 usage error.")]
pub(crate) struct Run {
    /// Suite file (TOML)
    suite: PathBuf,
    /// Folder for the results; existing files are never overwritten
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Run only the cases whose folder matches this regular expression
    #[arg(long, value_name = "REGEX")]
    only: Option<String>,
    /// Continue an earlier run of the same suite
    #[arg(long)]
    resume: bool,
    /// Exit with 1 if one of these conditions holds in a case, as in `penstock lab load`; the results list the
    /// findings. With --resume, kept cases are checked too, and keep the conditions in their results
    #[arg(long, value_name = "CONDITIONS", value_parser = failures)]
    fail_if: Option<Slo>,
}

pub(crate) fn run(args: Run) -> Result<(), Failure> {
    let suite = Suite::read(&args.suite).map_err(Failure::Usage)?;
    let Run { suite: _, out, only, resume, fail_if } = args;
    let run = suite::Run { only, resume, fail_if, ..plan(out)? };
    let summary = run_with_progress(&suite, &run)?;
    let out = run.out.display();
    stdout(&format!("{}{}\nresults: {out}\n", verdict(&run), summary_line(&summary)))?;
    check_complete(&summary)
}

/// The first line of a report of these cases; nothing if none was completed.
fn verdict(run: &suite::Run) -> String {
    let found = results::read(&run.out).and_then(|all| results::chosen(all, run.only.as_deref()));
    let views: Vec<CaseView> = found.unwrap_or_default().into_iter().map(CaseView::new).collect();
    if views.is_empty() { String::new() } else { report::headline(&views) + "\n" }
}

/// Fails if the run was interrupted or a case failed.
pub(super) fn check_complete(summary: &Summary) -> Result<(), Failure> {
    if summary.interrupted {
        let hint = "run the same command with --resume to continue";
        return Err(Failure::Error(format!("interrupted; completed cases were kept. {hint}")));
    }
    if summary.failed > 0 {
        return Err(Failure::Error(format!("{} failed", counted(summary.failed, "case"))));
    }
    if summary.broken > 0 {
        return Err(Failure::Error(format!("--fail-if: {}", counted(summary.broken, "case"))));
    }
    Ok(())
}

/// A run of all cases, with this program as backend and token signer.
pub(super) fn plan(out: PathBuf) -> Result<suite::Run, Failure> {
    Ok(suite::Run {
        out,
        only: None,
        resume: false,
        fail_if: None,
        penstock: std::env::current_exe().map_err(Failure::error)?,
        command: std::env::args().collect(),
        stop: Stop::default(),
    })
}

/// A [`Stop`] that is triggered by Ctrl-C or SIGTERM.
pub(super) fn stop_at_signal() -> Result<Stop, Failure> {
    let mut signals = Signals::listen()?;
    let stop = Stop::default();
    let stopped = stop.clone();
    // The thread ends with the process.
    thread::spawn(move || {
        while signals.next() != signals::Event::Stop {}
        stopped.stop();
    });
    Ok(stop)
}

/// Runs the suite with progress on stderr; Ctrl-C interrupts it.
pub(super) fn run_with_progress(suite: &Suite, run: &suite::Run) -> Result<Summary, Failure> {
    let run = &suite::Run { stop: stop_at_signal()?, ..run.clone() };
    let mut screen = Screen::default();
    let outcome = suite::run(suite, run, &mut |event| screen.show(event));
    screen.live.clear();
    outcome.map_err(run_failure)
}

pub(super) fn run_failure(error: RunError) -> Failure {
    match error {
        RunError::Usage(message) => Failure::Usage(message),
        RunError::Unable(message) => Failure::Error(message),
    }
}

fn summary_line(summary: &Summary) -> String {
    let Summary { measured, usable, not_served, failed, kept, broken: _, interrupted: _ } =
        *summary;
    let usable = Figures::ALL.into_iter().zip(usable).rev();
    let usable: Vec<String> =
        usable.map(|(figures, count)| format!("{} in {count}", figures.name())).collect();
    let mut parts = vec![format!("{measured} measured (usable: {})", usable.join(", "))];
    let more =
        [(not_served, "not served"), (failed, "failed"), (kept, "kept from the earlier run")];
    parts.extend(more.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
    parts.join(", ")
}

/// Prints one line per finished case to stderr; on a terminal, also a progress line.
#[derive(Default)]
struct Screen {
    /// The number of the running case.
    number: String,
    /// Name of the case.
    case: String,
    live: Live,
}

impl Screen {
    fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Kept(found) => {
                if found.is_broken() {
                    let case = &found.case;
                    self.keep(&format!(
                        "{}/{}  kept from the earlier run",
                        case.id, case.repetition
                    ));
                    self.keep_broken(found);
                }
            }
            Event::Plan { cases, done, not_served, left } => {
                let mut text = counted(*cases, "case");
                if let Some(left) = left {
                    text.push_str(&format!(", about {}", span(*left)));
                }
                if *not_served > 0 {
                    text.push_str(&format!("; {not_served} not served by their target"));
                }
                if *done > 0 {
                    text.push_str(&format!("; {done} already done"));
                }
                self.keep(&text);
            }
            Event::Begin { case, number, cases, left } => {
                self.number = format!("[{number}/{cases}]");
                self.case = format!("{}/{}", case.id, case.repetition);
                let left = left.map(|left| format!(" about {} left,", span(left)));
                let left = left.unwrap_or_default();
                self.live.show(&format!("{}{left} {}", self.number, self.case));
            }
            Event::Load(progress) => {
                self.live.show(&format!("{} {progress}", self.number));
            }
            Event::End(found) => {
                let text = format!("{} {}  {}", self.number, self.case, outcome(found));
                self.keep(&text);
                self.keep_broken(found);
                for warning in &found.warnings {
                    self.keep(&format!("    {}: {warning}", warning.severity.name()));
                }
            }
        }
    }

    /// The conditions of `--fail-if` that hold.
    fn keep_broken(&mut self, found: &CaseResult) {
        for threshold in found.thresholds().iter().filter(|threshold| threshold.broken) {
            self.keep(&format!("    FAILED: {}", threshold.condition));
        }
    }

    fn keep(&mut self, text: &str) {
        self.live.clear();
        stderr(&format!("{text}\n"));
    }
}

fn outcome(found: &CaseResult) -> String {
    let reason = found.reason.as_deref().unwrap_or_default();
    match found.state {
        State::NotServed => format!("not served: {reason}"),
        State::Failed => format!("FAILED: {}", reason.trim_end()),
        State::Measured => {
            let figure = |name| found.figure(name).unwrap_or(0.0);
            let (rate, p99) = (figure("throughput_per_s"), figure("p99_ms"));
            let cpu = found.target_use.map_or(String::new(), |used| {
                format!(", {:.1} us CPU/request", used.cpu_user_us + used.cpu_system_us)
            });
            format!("{rate:.0}/s, p99 {p99:.2} ms, errors {:.2} %{cpu}", figure("error_percent"))
        }
    }
}

/// `45 s`, `12 min`, `38.4 h`.
fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else if seconds < 7_200.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3_600.0)
    }
}
