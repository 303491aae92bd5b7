//! Budget 9: API files change under load. One of them is the file of the API under load, whose endpoint alternates
//! between two backends. No request may fail, and no change may be lost.
//!
//! A change is live when a client sees it: each edition of an API has an operation of its own, and a probe requests it
//! with a token, through the endpoint of that edition. For the API under load, the probe follows each change
//! immediately and measures the time until it is live. Other APIs are probed before their file changes again, and at
//! the end.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Settings;
use super::cells::Cell;
use super::edits::{ALL, EditKind, Edited, Expected, KEEPING};
use super::load::{Sample, SteadyLoad};
use super::process::{self, Process};
use super::targets::{COMPARED, Running, Variant, start_penstock};
use super::test_bed::{self, TestBed};
use crate::shell::pause;

/// Default of `--changes`, as in the budget.
pub(crate) const CHANGES: u64 = 10_000;

/// The API under load and 5,000 others.
const APIS: u32 = 5_001;
const LOADED: u32 = APIS / 2;
const SETUP: Variant = Variant { apis: APIS, operations: 10, ..COMPARED };
/// Every n-th of the other APIs is changed, in rotation.
const STRIDE: usize = 8;
/// Every n-th change is to the API under load.
const LOADED_EVERY: u64 = 10;
/// Interval between changes: 10,000 take 200 s.
const PACE: Duration = Duration::from_millis(20);
const USERS: u32 = 20;
const CELL: Cell = Cell { tls: false, body_bytes: 1024, connections: USERS };
/// Interval between probes for a change that is not live yet.
const POLL: Duration = Duration::from_micros(500);
/// A change that is not live after this time counts as lost.
const TIMEOUT: Duration = Duration::from_secs(5);
const BUDGET_MS: f64 = 30.0;

/// Changes files under load and returns the results as Markdown.
///
/// # Errors
/// A request failed, a change was lost, one backend got too few requests, or the counts disagree. Includes the results.
pub(crate) fn change(bed: &TestBed, settings: &Settings) -> Result<String, String> {
    let (port, second) =
        test_bed::start_backend(&bed.penstock, &bed.folder.join("echo-second.log"))?;
    let penstock = start_penstock(bed, "change", &SETUP)?;
    penstock.check(bed)?;
    let backends = Backends { ports: [bed.backend_port, port], first: bed.direct().pid, second };
    let counts = Counts::read(&penstock, &backends)?;
    let load =
        SteadyLoad::start(bed, &penstock.load_target(false), &CELL, seconds_max(settings.changes))?;
    let mut run = Run {
        probe: Probe::connect(penstock.clear_port(), bed.token()?)?,
        backends: &backends,
        load,
        times_ms: Vec::new(),
        live: 0,
    };
    let folder = bed.folder.join("change");
    let start = Instant::now();
    run.changes(&folder, settings.changes)?;
    let seconds = start.elapsed().as_secs_f64();
    let sample = run.load.finish()?;
    let counts = Counts::read(&penstock, &backends)?.since(&counts);
    let found = Found { written: settings.changes, live: run.live, seconds, sample, counts };
    let page = found.page(&run.times_ms);
    let violations = found.violations();
    if violations.is_empty() { Ok(page) } else { Err(format!("{page}\n{}", violations.join("\n"))) }
}

/// Three times the planned time plus a minute, for busy machines.
fn seconds_max(changes: u64) -> u64 {
    let pace = Duration::from_secs(60) + PACE * 3 * u32::try_from(changes).unwrap_or(u32::MAX);
    pace.as_secs()
}

struct Backends {
    ports: [u16; 2],
    first: u32,
    second: Process,
}

struct Run<'a> {
    probe: Probe,
    backends: &'a Backends,
    load: SteadyLoad,
    /// Times until changes of the API under load were live.
    times_ms: Vec<(EditKind, f64)>,
    /// Changes confirmed to be live.
    live: u64,
}

impl Run<'_> {
    fn changes(&mut self, folder: &Path, changes: u64) -> Result<(), String> {
        let mut loaded = Edited::new(folder, LOADED, SETUP.operations, KEEPING);
        let numbers = (0..APIS).step_by(STRIDE).filter(|number| *number != LOADED);
        let mut others: VecDeque<Edited> =
            numbers.map(|number| Edited::new(folder, number, SETUP.operations, ALL)).collect();
        let [mut port, mut next_port] = self.backends.ports;
        let mut due = Instant::now();
        for change in 0..changes {
            pause(due.saturating_duration_since(Instant::now()));
            due += PACE;
            if self.load.has_ended() {
                return Err(format!("the load stopped after {change} of {changes} changes"));
            }
            if change % LOADED_EVERY == 0 {
                (port, next_port) = (next_port, port);
                self.change_loaded(&mut loaded, port)?;
            } else if let Some(mut other) = others.pop_front() {
                self.confirm(&other)?;
                other.change(port, || ())?;
                others.push_back(other);
            }
        }
        others.iter().try_for_each(|other| self.confirm(other))
    }

    fn change_loaded(&mut self, loaded: &mut Edited, port: u16) -> Result<(), String> {
        let mut start = Instant::now();
        let kind = loaded.change(port, || start = Instant::now())?;
        self.confirm(loaded)?;
        self.times_ms.push((kind, start.elapsed().as_secs_f64() * 1_000.0));
        Ok(())
    }

    /// Waits until the last change of `edited` is live.
    fn confirm(&mut self, edited: &Edited) -> Result<(), String> {
        let Some(Expected { path, status }) = edited.expected() else { return Ok(()) };
        let start = Instant::now();
        loop {
            let found = self.probe.fetch(path)?;
            if found == *status {
                self.live += 1;
                return Ok(());
            }
            if start.elapsed() > TIMEOUT {
                return Err(format!(
                    "a change was lost: after {} s, GET {path} still returns {found} instead of {status}",
                    TIMEOUT.as_secs()
                ));
            }
            pause(POLL);
        }
    }
}

/// A client with one connection and a token.
struct Probe {
    stream: BufReader<TcpStream>,
    token: String,
}

impl Probe {
    fn connect(port: u16, token: String) -> Result<Self, String> {
        TcpStream::connect(("127.0.0.1", port))
            .and_then(|stream| {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                Ok(Self { stream: BufReader::new(stream), token })
            })
            .map_err(|error| format!("the probe cannot connect to port {port}: {error}"))
    }

    /// Sends `GET path` and returns the status.
    fn fetch(&mut self, path: &str) -> Result<u16, String> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\r\n",
            self.token
        );
        self.stream
            .get_mut()
            .write_all(request.as_bytes())
            .and_then(|()| read_response(&mut self.stream))
            .map_err(|error| format!("probe: GET {path}: {error}"))
    }
}

/// Reads a complete response and returns its status.
fn read_response(from: &mut impl BufRead) -> std::io::Result<u16> {
    let broken = |what: &str| std::io::Error::other(format!("the response has no {what}"));
    let mut line = String::new();
    from.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| broken("status"))?;
    let mut body_bytes = None;
    while line != "\r\n" {
        line.clear();
        if from.read_line(&mut line)? == 0 {
            return Err(broken("end of its head"));
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            body_bytes = value.trim().parse::<u64>().ok();
        }
    }
    let body_bytes = body_bytes.ok_or_else(|| broken("Content-Length"))?;
    std::io::copy(&mut from.take(body_bytes), &mut std::io::sink())?;
    Ok(status)
}

/// Counters of the gateway and the system, as totals or as differences.
struct Counts {
    revisions: u64,
    /// Requests of the measured operation.
    requests: u64,
    ok_responses: u64,
    retries: u64,
    /// CPU time of each backend.
    backends_us: [u64; 2],
}

impl Counts {
    fn read(penstock: &Running, backends: &Backends) -> Result<Self, String> {
        let operation = format!(
            "api=\"Orders {LOADED:04}\",version=\"1.0.0\",method=\"POST\",operation=\"/orders\","
        );
        let total = "penstock_requests_total";
        Ok(Self {
            revisions: penstock.metric("penstock_worker_revision", "")?,
            requests: penstock.metric(total, &operation)?,
            ok_responses: penstock.metric(total, &format!("{operation}status=\"200\""))?,
            retries: penstock.metric("penstock_retries_total", "")?,
            backends_us: [backends.first, backends.second.pid()].map(process::cpu_us),
        })
    }

    fn since(&self, before: &Self) -> Self {
        let [first_us, second_us] = self.backends_us;
        let [first_before_us, second_before_us] = before.backends_us;
        Self {
            revisions: self.revisions.saturating_sub(before.revisions),
            requests: self.requests.saturating_sub(before.requests),
            ok_responses: self.ok_responses.saturating_sub(before.ok_responses),
            retries: self.retries.saturating_sub(before.retries),
            backends_us: [
                first_us.saturating_sub(first_before_us),
                second_us.saturating_sub(second_before_us),
            ],
        }
    }
}

/// The results of a run.
struct Found {
    written: u64,
    live: u64,
    seconds: f64,
    sample: Sample,
    counts: Counts,
}

impl Found {
    fn page(&self, times_ms: &[(EditKind, f64)]) -> String {
        let Self { written, live, seconds, sample, counts } = self;
        let Sample { requests_in_all, errors, per_s, p99_ms, .. } = sample;
        let [first_s, second_s] =
            counts.backends_us.map(|us| Duration::from_micros(us).as_secs_f64());
        let mut page = format!(
            "\n### Live change, {} other APIs of {} operations, {USERS} connections (budget 9: {BUDGET_MS} ms, no failed request)\n\n\
             | what | |\n|---|--:|\n\
             | changes written, in {seconds:.0} s | {written} |\n\
             | changes confirmed to be live | {live} |\n\
             | revisions of the gateway | {} |\n\
             | requests during the changes, {per_s:.0}/s, p99 {p99_ms:.2} ms | {requests_in_all} |\n\
             | failed requests | {errors} |\n\
             | requests counted by the gateway | {} |\n\
             | of them with a status other than 200 | {} |\n\
             | retries | {} |\n\
             | CPU time of the two backends, s | {first_s:.1} and {second_s:.1} |\n\n\
             | the API under load, time until live | changes | p50 ms | p99 ms | max ms |\n|---|--:|--:|--:|--:|\n",
            APIS - 1,
            SETUP.operations,
            counts.revisions,
            counts.requests,
            counts.not_200(),
            counts.retries,
        );
        let of = |kind: EditKind| times_ms.iter().filter(move |(made, _)| *made == kind);
        for kind in KEEPING {
            _ = writeln!(page, "{}", times(kind.name(), of(*kind).map(|(_, ms)| *ms).collect()));
        }
        let all = times_ms.iter().map(|(_, ms)| *ms).collect();
        _ = writeln!(page, "{}", times("all", all));
        page
    }

    /// Violated requirements. Missed times are not included, since they depend on other load on the machine.
    fn violations(&self) -> Vec<String> {
        let Self { written, live, sample, counts, .. } = self;
        let [first_us, second_us] = counts.backends_us;
        let checks = [
            (sample.errors > 0, format!("{} requests failed", sample.errors)),
            (
                counts.not_200() > 0,
                format!("the gateway counted {} responses other than 200", counts.not_200()),
            ),
            (live != written, format!("{live} of {written} changes went live")),
            (
                sample.requests_in_all.abs_diff(counts.requests) > u64::from(USERS),
                format!(
                    "the generator counted {} requests, but /metrics {}",
                    sample.requests_in_all, counts.requests
                ),
            ),
            (
                first_us.min(second_us) * 4 < first_us.max(second_us),
                format!(
                    "the backends did not share the load: {first_us} and {second_us} us of CPU time"
                ),
            ),
        ];
        checks.into_iter().filter(|(is_so, _)| *is_so).map(|(_, what)| what).collect()
    }
}

impl Counts {
    fn not_200(&self) -> u64 {
        self.requests.saturating_sub(self.ok_responses)
    }
}

fn times(name: &str, mut times_ms: Vec<f64>) -> String {
    times_ms.sort_by(f64::total_cmp);
    let at = |percent: usize| {
        times_ms.get((times_ms.len() * percent / 100).min(times_ms.len().saturating_sub(1)))
    };
    let [p50, p99, most] = [50, 99, 100].map(|percent| at(percent).copied().unwrap_or(0.0));
    format!("| {name} | {} | {p50:.1} | {p99:.1} | {most:.1} |", times_ms.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        let counts = Counts {
            revisions: 9,
            requests: 1_010,
            ok_responses: 1_010,
            retries: 0,
            backends_us: [50, 60],
        };
        let sample = Sample { requests_in_all: 1_000, ..Sample::default() };
        Found { written: 10, live: 10, seconds: 1.0, sample, counts }
    }

    #[test]
    fn each_violation_is_reported_alone() {
        assert_eq!(found().violations(), Vec::<String>::new());
        type Spoil = fn(&mut Found);
        let cases: [(Spoil, &str); 5] = [
            (|found| found.sample.errors = 1, "1 requests failed"),
            (|found| found.counts.ok_responses = 1_009, "other than 200"),
            (|found| found.live = 9, "9 of 10 changes"),
            (|found| found.sample.requests_in_all = 1_031, "generator counted 1031"),
            (|found| found.counts.backends_us = [100, 0], "did not share"),
        ];
        for (spoil, expect) in cases {
            let mut found = found();
            spoil(&mut found);
            let violations = found.violations();
            assert!(violations.len() == 1 && violations[0].contains(expect), "{violations:?}");
        }
    }

    #[test]
    fn percentiles_are_of_the_sorted_times() {
        let times_ms = (1..=200).rev().map(f64::from).collect();
        assert_eq!(times("x", times_ms), "| x | 200 | 101.0 | 199.0 | 200.0 |");
        assert_eq!(times("x", Vec::new()), "| x | 0 | 0.0 | 0.0 | 0.0 |");
    }

    #[test]
    fn responses_are_read_completely_and_one_at_a_time() {
        let text = "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        let mut from = text.as_bytes();
        assert_eq!(read_response(&mut from).unwrap(), 404);
        assert_eq!(read_response(&mut from).unwrap(), 200);
        assert!(read_response(&mut from).is_err());
        assert!(read_response(&mut "HTTP/1.1 200 OK\r\n\r\n".as_bytes()).is_err());
        assert!(read_response(&mut "HTTP/1.1 200 OK\r\n".as_bytes()).is_err());
    }
}
