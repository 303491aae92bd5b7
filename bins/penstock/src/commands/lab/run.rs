//! `penstock lab run`: a suite, case by case.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use lab::load::Stop;
use lab::matrix::{self, Event, Failed, Suite, Summary};
use lab::result::{CaseResult, State};

use crate::commands::signals::{self, Signals};
use crate::commands::{counted, stderr, stdout};
use crate::failure::Failure;

/// Run a suite: targets x scenarios x users x sizes x delays
///
/// Each case gets a folder with its result.json and the logs of target and backend. A scenario that a
/// target can't do is told and kept as such. Ctrl-C ends the run after what is done; --resume goes on.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock lab run suites/quick.toml --out results-quick
  penstock lab run suites/api-manager.toml --out results --only 'passthrough/.*/0ms_sleep'
  penstock lab run suites/api-manager.toml --out results --resume

Exit codes: 0 ran, doubts included; 1 a case failed, or the run couldn't be made; 2 asked wrongly.")]
pub(crate) struct Run {
    /// The suite's file
    suite: PathBuf,
    /// Folder for the results; nothing in it is ever written over
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Only the cases whose folder this regular expression finds
    #[arg(long, value_name = "REGEX")]
    only: Option<String>,
    /// Go on with a run of the same suite
    #[arg(long)]
    resume: bool,
}

pub(crate) fn run(asked: Run) -> Result<(), Failure> {
    let suite = Suite::read(&asked.suite).map_err(Failure::Usage)?;
    let run = matrix::Run { only: asked.only, resume: asked.resume, ..plan(asked.out)? };
    let summary = carry_out(&suite, &run)?;
    stdout(&format!("{}\nresults: {}\n", told(&summary), run.out.display()));
    judge(&summary)
}

/// Whether the run is whole.
pub(super) fn judge(summary: &Summary) -> Result<(), Failure> {
    if summary.interrupted {
        let again = "go on with the same command and --resume";
        return Err(Failure::Error(format!("interrupted: what is done is kept; {again}")));
    }
    if summary.failed > 0 {
        return Err(Failure::Error(format!("{} failed", counted(summary.failed, "case"))));
    }
    Ok(())
}

/// A run of all cases into `out`, by this program.
pub(super) fn plan(out: PathBuf) -> Result<matrix::Run, Failure> {
    Ok(matrix::Run {
        out,
        only: None,
        resume: false,
        penstock: std::env::current_exe().map_err(Failure::error)?,
        command: std::env::args().collect(),
        stop: Stop::default(),
    })
}

/// Stops at Ctrl-C or SIGTERM.
pub(super) fn stop_at_signal() -> Result<Stop, Failure> {
    let mut signals = Signals::listen()?;
    let stop = Stop::default();
    let stopped = stop.clone();
    // Ends with the process.
    thread::spawn(move || {
        while signals.next() != signals::Event::Stop {}
        stopped.stop();
    });
    Ok(stop)
}

/// Runs it with progress on stderr; Ctrl-C ends it after what is done.
pub(super) fn carry_out(suite: &Suite, run: &matrix::Run) -> Result<Summary, Failure> {
    let run = &matrix::Run { stop: stop_at_signal()?, ..run.clone() };
    let mut screen = Screen::default();
    let outcome = matrix::run(suite, run, &mut |event| screen.show(event));
    screen.clear();
    outcome.map_err(|failed| match failed {
        Failed::Usage(message) => Failure::Usage(message),
        Failed::Unable(message) => Failure::Error(message),
    })
}

fn told(summary: &Summary) -> String {
    let Summary { measured, doubted, not_served, failed, kept, interrupted: _ } = *summary;
    let mut parts = vec![format!("{measured} measured")];
    let more = [
        (doubted, "with doubts"),
        (not_served, "not served"),
        (failed, "failed"),
        (kept, "kept from before"),
    ];
    parts.extend(more.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
    parts.join(", ")
}

/// One line for each case on stderr; below it, on a terminal, what is going on.
#[derive(Default)]
struct Screen {
    /// Number, cases, and what is left, of the case that runs.
    head: String,
    line: bool,
}

impl Screen {
    fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Plan { cases, done, not_served, left } => {
                let mut text = format!("{}, about {}", counted(*cases, "case"), span(*left));
                if *not_served > 0 {
                    text.push_str(&format!("; {not_served} of them not served by their target"));
                }
                if *done > 0 {
                    text.push_str(&format!("; {done} done before"));
                }
                self.keep(&text);
            }
            Event::Begin { case, number, cases, left } => {
                self.head = format!("[{number}/{cases}] {}/{}", case.id, case.repetition);
                let head = format!("{}  about {} left", self.head, span(*left));
                self.passing(&head);
            }
            Event::Load(progress) => {
                let text = format!("{}  {progress}", self.head);
                self.passing(&text);
            }
            Event::End(found) => {
                let text = format!("{}  {}", self.head, outcome(found));
                self.keep(&text);
                for doubt in &found.doubts {
                    self.keep(&format!("    DOUBT {}: {}", doubt.gate, doubt.message));
                }
            }
        }
    }

    fn keep(&mut self, text: &str) {
        self.clear();
        stderr(&format!("{text}\n"));
    }

    fn passing(&mut self, text: &str) {
        if std::io::stderr().is_terminal() {
            stderr(&format!("\r\x1b[K{text}"));
            self.line = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.line) {
            stderr("\r\x1b[K");
        }
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
