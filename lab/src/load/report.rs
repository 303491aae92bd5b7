//! What a measurement found, for people and for programs.

use std::fmt::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::load::doubts::{self, Count, Doubt, Generator, Row};
use crate::load::statistics::{Latency, Tally};

/// How far a measurement is. `Display` is one line for people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Still before the measured time.
    pub warming_up: bool,
    /// Finished requests so far, warm-up and failures included.
    pub requests: u64,
    /// Those of them that failed.
    pub errors: u64,
    /// Finished requests per second since the last progress.
    pub rate_per_s: f64,
    /// Until the measured time is over.
    pub left: Duration,
}

impl fmt::Display for Progress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = if self.warming_up { "warm-up" } else { "measuring" };
        let left_s = self.left.as_secs_f64().ceil();
        let (requests, errors, rate) = (self.requests, self.errors, self.rate_per_s);
        write!(out, "{phase}: {requests} requests, {rate:.0}/s, {errors} errors, {left_s} s left")
    }
}

/// What was asked for, as far as it explains the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub url: String,
    pub method: String,
    pub users: usize,
    pub threads: usize,
    pub duration_s: f64,
    pub warm_up_s: f64,
    pub timeout_s: f64,
    pub payload_bytes: Option<usize>,
    pub tokens: usize,
    pub expect: Option<String>,
}

/// The result of one measurement.
#[derive(Clone, Debug)]
pub struct Report {
    pub asked: Asked,
    /// Requests that started in the measured time; failed ones included, as in WSO2's tables.
    pub requests: u64,
    /// Those of them that failed.
    pub errors: u64,
    /// `connect`, `write`, `closed`, `timeout`, `protocol`, `body-mismatch`, `status-NNN`.
    pub errors_by_kind: Vec<(String, u64)>,
    /// Measured time; shorter than asked for when interrupted.
    pub seconds: f64,
    pub throughput_per_s: f64,
    pub latency: Latency,
    /// Bytes of heads and bodies, without TLS, of the requests counted above.
    pub received_bytes: u64,
    pub sent_bytes: u64,
    /// Requests that finished from first to last, the warm-up's included: what a target that counts
    /// for itself should have seen.
    pub requests_in_all: u64,
    /// Those of `requests_in_all` that failed.
    pub errors_in_all: u64,
    /// Rate x mean latency.
    pub users_by_littles_law: f64,
    /// This process's CPU time, user and system, per request finished in the measured time.
    pub generator_cpu_us_per_request: f64,
    pub generator: Generator,
    pub doubts: Vec<Doubt>,
}

/// What is known when the last request is over.
pub(crate) struct Found {
    pub(crate) tally: Tally,
    pub(crate) measured_us: u64,
    pub(crate) interrupted: bool,
    /// CPU time of the process over the measured time, and the requests that finished in it.
    pub(crate) cpu_us: u64,
    pub(crate) finished: u64,
    pub(crate) generator: Generator,
}

impl Report {
    pub(crate) fn new(asked: Asked, found: &Found) -> Self {
        let measured = &found.tally.measured;
        let seconds = found.measured_us as f64 / 1_000_000.0;
        let throughput_per_s = ratio(measured.requests as f64, seconds);
        let latency = measured.latency();
        let mut report = Self {
            asked,
            requests: measured.requests,
            errors: measured.errors,
            errors_by_kind: measured
                .errors_by_kind
                .iter()
                .map(|(kind, &count)| (kind.to_string(), count))
                .collect(),
            seconds,
            throughput_per_s,
            latency,
            received_bytes: measured.received_bytes,
            sent_bytes: measured.sent_bytes,
            requests_in_all: found.tally.all,
            errors_in_all: found.tally.all_errors,
            users_by_littles_law: doubts::in_flight(throughput_per_s, latency.mean_ms),
            generator_cpu_us_per_request: ratio(found.cpu_us as f64, found.finished as f64),
            generator: found.generator,
            doubts: Vec::new(),
        };
        report.doubts = report.doubt(found.interrupted);
        report
    }

    fn doubt(&self, interrupted: bool) -> Vec<Doubt> {
        let mut doubts = Vec::new();
        if interrupted {
            doubts.push(Doubt::Interrupted);
        }
        if self.requests == 0 {
            doubts.push(Doubt::Nothing);
            return doubts;
        }
        if self.errors > 0 {
            doubts.push(Doubt::Errors { errors: self.errors, requests: self.requests });
        }
        doubts.extend(doubts::doubts(&Row {
            users: self.asked.users as f64,
            rate_per_s: self.throughput_per_s,
            mean_ms: self.latency.mean_ms,
            count: Some(Count { requests: self.requests as f64, measured_s: self.seconds }),
        }));
        doubts.extend(doubts::generator_doubts(&self.generator));
        doubts
    }

    /// For people: the figures, and what speaks against them.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_table(&mut table);
        table
    }

    fn write_table(&self, out: &mut String) -> fmt::Result {
        let (asked, latency) = (&self.asked, &self.latency);
        let payload = asked.payload_bytes.map_or("no payload".to_owned(), |n| format!("{n} B"));
        writeln!(
            out,
            "{} {}  {} users, {payload}, {} tokens, {} threads, warm-up {} s",
            asked.method, asked.url, asked.users, asked.tokens, asked.threads, asked.warm_up_s
        )?;
        writeln!(out)?;
        writeln!(out, "  {:<26}{:>14}", "requests", self.requests)?;
        writeln!(out, "  {:<26}{:>14}   {:.2} %", "errors", self.errors, self.error_percent())?;
        for (kind, count) in &self.errors_by_kind {
            writeln!(out, "    {kind:<24}{count:>14}")?;
        }
        writeln!(out, "  {:<26}{:>14.2} s", "measured", self.seconds)?;
        writeln!(out, "  {:<26}{:>14.1} /s", "throughput", self.throughput_per_s)?;
        writeln!(out, "  {:<26}{:>14.1} KB/s", "received", self.kb_per_s(self.received_bytes))?;
        writeln!(out, "  {:<26}{:>14.1} KB/s", "sent", self.kb_per_s(self.sent_bytes))?;
        writeln!(out)?;
        for (name, value_ms) in latency.rows() {
            writeln!(out, "  {:<26}{value_ms:>14.3} ms", format!("latency {name}"))?;
        }
        writeln!(out)?;
        writeln!(out, "  {:<26}{:>14.2}", "users by Little's law", self.users_by_littles_law)?;
        let cpu_us = self.generator_cpu_us_per_request;
        writeln!(out, "  {:<26}{cpu_us:>14.2} us/request", "generator CPU")?;
        let busy = self.generator.busy * 100.0;
        writeln!(out, "  {:<26}{busy:>14.1} %", "generator busiest thread")?;
        if !self.doubts.is_empty() {
            writeln!(out)?;
        }
        for doubt in &self.doubts {
            writeln!(out, "  DOUBT: {doubt}")?;
        }
        Ok(())
    }

    /// For programs: the keys of DESIGN.md section 5 and more. Times in the unit of their name.
    #[must_use]
    pub fn json(&self) -> Value {
        let errors_by_kind: serde_json::Map<String, Value> =
            self.errors_by_kind.iter().map(|(kind, count)| (kind.clone(), json!(count))).collect();
        let mut value = json!({
            "requests": self.requests,
            "errors": self.errors,
            "error_percent": self.error_percent(),
            "errors_by_kind": errors_by_kind,
            "seconds": self.seconds,
            "throughput_per_s": self.throughput_per_s,
            "received_bytes": self.received_bytes,
            "sent_bytes": self.sent_bytes,
            "requests_in_all": self.requests_in_all,
            "errors_in_all": self.errors_in_all,
            "users_by_littles_law": self.users_by_littles_law,
            "generator_cpu_us_per_request": self.generator_cpu_us_per_request,
            "generator_busy": self.generator.busy,
            "generator_waited": self.generator.waited,
            "doubts": self.doubts.iter().map(|doubt| json!({
                "name": doubt.name(),
                "text": doubt.to_string(),
            })).collect::<Vec<_>>(),
            "options": self.asked.json(),
        });
        if let Value::Object(members) = &mut value {
            for (name, value_ms) in self.latency.rows() {
                members.insert(format!("{name}_ms"), json!(value_ms));
            }
        }
        value
    }

    fn error_percent(&self) -> f64 {
        ratio(100.0 * self.errors as f64, self.requests as f64)
    }

    fn kb_per_s(&self, bytes: u64) -> f64 {
        ratio(bytes as f64 / 1_024.0, self.seconds)
    }
}

impl Asked {
    fn json(&self) -> Value {
        json!({
            "url": self.url,
            "method": self.method,
            "users": self.users,
            "threads": self.threads,
            "duration_s": self.duration_s,
            "warm_up_s": self.warm_up_s,
            "timeout_s": self.timeout_s,
            "payload_bytes": self.payload_bytes,
            "tokens": self.tokens,
            "expect": self.expect,
        })
    }
}

impl Latency {
    /// Name and milliseconds, in the order of the table; `NAME_ms` in JSON.
    fn rows(&self) -> [(&'static str, f64); 11] {
        [
            ("mean", self.mean_ms),
            ("sd", self.sd_ms),
            ("min", self.min_ms),
            ("p50", self.p50_ms),
            ("p75", self.p75_ms),
            ("p90", self.p90_ms),
            ("p95", self.p95_ms),
            ("p98", self.p98_ms),
            ("p99", self.p99_ms),
            ("p999", self.p999_ms),
            ("max", self.max_ms),
        ]
    }
}

/// Zero when there is nothing to divide by.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
