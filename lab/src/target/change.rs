//! Changes a running target: replaces one of its files again and again, and measures how long it takes until a
//! client sees each edition.
//!
//! Files are renamed into place and rewritten in two pieces, in turn, as deployments and editors do.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::SystemClock;

use super::process::{responds_ok, sleep};
use super::template::with_hashes;
use crate::limits;
use crate::result::Changes;

/// Stands for the number of the change in texts, URLs and commands.
pub(crate) const EDITION: &str = "{{edition}}";
/// Interval between two requests for an edition that is not live yet.
const POLL: Duration = Duration::from_micros(500);
/// Longest sleep between two changes, after which the end of the load is noticed.
const NAP: Duration = Duration::from_millis(10);

/// The change to make, with everything but [`EDITION`] filled in.
#[derive(Clone, Debug)]
pub(crate) struct ChangePlan {
    pub(crate) file: PathBuf,
    pub(crate) text: String,
    /// A URL that responds with 200 when the edition is live, not before.
    pub(crate) probe: String,
    /// Makes the target read its files, if it does not follow them.
    pub(crate) command: Vec<String>,
}

/// Changes the target until [`Changer::finish`].
pub(crate) struct Changer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Changes, String>>,
}

impl Changer {
    /// `token`: credential of the probe.
    pub(crate) fn start(plan: ChangePlan, every: Duration, token: Option<String>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || run(&plan, every, token.as_deref(), &stopped));
        Self { stop, thread }
    }

    /// # Errors
    /// The file could not be written, the command failed, or the probe responded before a change.
    pub(crate) fn finish(self) -> Result<Changes, String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the thread that changes the target panicked".to_owned())?
    }
}

fn run(
    plan: &ChangePlan,
    every: Duration,
    token: Option<&str>,
    stop: &AtomicBool,
) -> Result<Changes, String> {
    let clock = SystemClock::new();
    let mut times_us = Vec::new();
    let (mut edition, mut lost, mut due) = (0_u64, 0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) && times_us.len() < limits::LAB_CHANGES_MAX {
        let left = due.saturating_sub(Duration::from_micros(clock.now_us()));
        if !left.is_zero() {
            sleep(left.min(NAP));
            continue;
        }
        due += every;
        edition += 1;
        match plan.change(edition, token, &clock)? {
            Some(time_us) => times_us.push(time_us),
            None => lost += 1,
        }
    }
    Ok(summary(times_us, lost))
}

impl ChangePlan {
    /// The content of edition 0, which the target starts with.
    pub(crate) fn first(&self) -> String {
        self.text_of("0")
    }

    fn text_of(&self, number: &str) -> String {
        with_hashes(&self.text.replace(EDITION, number))
    }

    /// Returns the time until the edition was live; `None` if it was not in time.
    fn change(
        &self,
        edition: u64,
        token: Option<&str>,
        clock: &SystemClock,
    ) -> Result<Option<u64>, String> {
        let number = edition.to_string();
        let probe = self.probe.replace(EDITION, &number);
        if responds_ok(&probe, token) {
            return Err(format!(
                "[change]: {probe} responds before edition {edition} is written; it must depend on the file"
            ));
        }
        let text = self.text_of(&number);
        let written = if edition % 2 == 1 {
            rename(&self.file, &text, clock)
        } else {
            rewrite(&self.file, &text, clock)
        };
        let began_us = written.map_err(|error| format!("{}: {error}", self.file.display()))?;
        self.apply(&number)?;
        loop {
            if responds_ok(&probe, token) {
                return Ok(Some(clock.now_us().saturating_sub(began_us)));
            }
            if clock.now_us().saturating_sub(began_us) > limits::LAB_CHANGE_MS_MAX * 1_000 {
                return Ok(None);
            }
            sleep(POLL);
        }
    }

    fn apply(&self, number: &str) -> Result<(), String> {
        let Some((program, arguments)) = self.command.split_first() else { return Ok(()) };
        let arguments = arguments.iter().map(|word| word.replace(EDITION, number));
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("[change]: {program}: {status}")),
            Err(error) => Err(format!("[change]: {program}: {error}")),
        }
    }
}

/// Returns the time of the rename.
fn rename(file: &Path, text: &str, clock: &SystemClock) -> io::Result<u64> {
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    fs::write(&new, text)?;
    let began_us = clock.now_us();
    fs::rename(&new, file)?;
    Ok(began_us)
}

/// Returns the time at which the content was complete.
fn rewrite(file: &Path, text: &str, clock: &SystemClock) -> io::Result<u64> {
    let (first, rest) = text.as_bytes().split_at(text.len() / 2);
    let mut out = File::create(file)?;
    out.write_all(first)?;
    out.flush()?;
    out.write_all(rest)?;
    Ok(clock.now_us())
}

fn summary(mut times_us: Vec<u64>, lost: u64) -> Changes {
    times_us.sort_unstable();
    let at = |percent: usize| {
        let place = (times_us.len() * percent / 100).min(times_us.len().saturating_sub(1));
        times_us.get(place).map_or(0.0, |us| *us as f64 / 1_000.0)
    };
    Changes { live: times_us.len() as u64, lost, p50_ms: at(50), p99_ms: at(99), max_ms: at(100) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    /// A server that follows `file`: it responds with 200 to the path that the file contains.
    fn serve(file: PathBuf, always: bool) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut line = String::new();
                let read = BufReader::new(&stream).read_line(&mut line);
                let path = line.split(' ').nth(1).unwrap_or_default();
                let text = fs::read_to_string(&file).unwrap_or_default();
                let is_live = always || (read.is_ok() && text == path);
                let status = if is_live { "200 OK" } else { "404 Not Found" };
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                let _ = stream.write_all(head.as_bytes());
            }
        });
        url
    }

    fn plan(always: bool) -> (tempfile::TempDir, ChangePlan) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("edition");
        let text = "/edition-{{edition}}".to_owned();
        let probe = format!("{}{text}", serve(file.clone(), always));
        let plan = ChangePlan { file, text, probe, command: Vec::new() };
        fs::write(&plan.file, plan.first()).unwrap();
        (folder, plan)
    }

    #[test]
    fn every_edition_is_confirmed_by_a_client() {
        let (_folder, plan) = plan(false);
        let clock = SystemClock::new();
        for edition in 1..=4 {
            let live = plan.change(edition, None, &clock).unwrap();
            assert!(live.is_some(), "{edition}");
            let found = fs::read_to_string(&plan.file).unwrap();
            assert_eq!(found, format!("/edition-{edition}"));
        }
    }

    #[test]
    fn a_probe_that_does_not_depend_on_the_file_is_rejected() {
        let (_folder, plan) = plan(true);
        let changer = Changer::start(plan, Duration::from_millis(1), None);
        while !changer.thread.is_finished() {
            thread::yield_now();
        }
        let error = changer.finish().unwrap_err();
        assert!(error.contains("responds before edition 1"), "{error}");
    }

    #[test]
    fn a_failing_command_is_reported() {
        let (_folder, plan) = plan(false);
        let plan = ChangePlan { command: vec!["false".to_owned()], ..plan };
        let error = plan.change(1, None, &SystemClock::new()).unwrap_err();
        assert!(error.starts_with("[change]: false: exit status"), "{error}");
    }

    #[test]
    fn times_are_summarised() {
        let found = summary((1..=200).rev().map(|ms| ms * 1_000).collect(), 3);
        let expect = Changes { live: 200, lost: 3, p50_ms: 101.0, p99_ms: 199.0, max_ms: 200.0 };
        assert_eq!(found, expect);
        assert_eq!(summary(Vec::new(), 1).max_ms, 0.0);
    }
}
