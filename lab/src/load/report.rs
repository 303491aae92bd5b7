//! The result of a measurement, as text and as JSON.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::knee::{Outcome, Slo, Threshold};
use crate::load::incident::Incident;
use crate::load::published_stats::PublishedStats;
use crate::load::shape::{Shape, Think};
use crate::load::statistics::{Latency, Measured, Open, Tally, Times};
use crate::load::{Protocol, Scenario};
use crate::result::Machine;
use crate::validity::{self, Warning};

/// Progress of a measurement. `Display` formats it as one line, which may be cut on a narrow terminal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The measured time has not started.
    pub warming_up: bool,
    /// Finished requests so far, including warm-up and failures.
    pub requests: u64,
    /// Requests of these that failed.
    pub errors: u64,
    /// Finished requests per second since the last report.
    pub rate_per_s: f64,
    /// Median and 99th percentile of the last second of the measured time; `None` if no request ended in it.
    #[serde(default)]
    pub p50_ms: Option<f64>,
    #[serde(default)]
    pub p99_ms: Option<f64>,
    /// CPU time of the generator's process since the last report, over elapsed time: 1 is one CPU.
    #[serde(default)]
    pub generator_cpus: f64,
    /// The same for the target and its descendants, if it runs on this machine.
    #[serde(default)]
    pub target_cpus: Option<f64>,
    /// Time until the end of the measured time.
    pub left: Duration,
    /// Measured requests that have not finished, if their number ends the measured time.
    #[serde(default)]
    pub requests_left: Option<u64>,
}

impl fmt::Display for Progress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = if self.warming_up { "warm-up" } else { "measuring" };
        write!(out, "{phase}: ")?;
        match self.requests_left {
            Some(left) => write!(out, "{left} requests left, ")?,
            None => write!(out, "{} s left, ", self.left.as_secs_f64().ceil())?,
        }
        write!(out, "{:.0}/s, ", self.rate_per_s)?;
        if !self.warming_up {
            let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.2} ms"));
            write!(out, "p50 {}, p99 {}, ", ms(self.p50_ms), ms(self.p99_ms))?;
        }
        write!(out, "{} errors, ", self.errors)?;
        if let Some(target) = self.target_cpus {
            write!(out, "target {:.0} % CPU, ", target * 100.0)?;
        }
        let cpu = self.generator_cpus * 100.0;
        write!(out, "generator {cpu:.0} % CPU, {} requests", self.requests)
    }
}

/// The settings of a measurement, as far as they explain the result.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSettings {
    pub url: String,
    pub method: String,
    /// The requests, instead of the one of `method`.
    pub scenario: Option<Arc<Scenario>>,
    pub users: usize,
    pub protocol: Protocol,
    pub threads: usize,
    /// `None` if a number of requests ends the measured time.
    pub duration_s: Option<f64>,
    pub requests: Option<u64>,
    pub connection_per_request: bool,
    /// Messages of each gRPC call.
    pub grpc_messages: Option<usize>,
    pub warm_up_s: f64,
    pub timeout_s: f64,
    pub payload_bytes: Option<usize>,
    pub tokens: usize,
    pub expect: Option<String>,
    pub shape: Shape,
    pub seed: u64,
}

/// The result of one measurement.
#[derive(Clone, Debug)]
pub struct Report {
    pub settings: RunSettings,
    /// Requests whose latency counts from within the measured time; includes failures, as in WSO2's tables.
    pub requests: u64,
    /// Requests of these that failed.
    pub errors: u64,
    /// `connect`, `write`, `closed`, `timeout`, `unsent`, `protocol`, `reset`, `body-mismatch`, `status-NNN`.
    pub errors_by_kind: Vec<(String, u64)>,
    /// Measured time; shorter than requested if interrupted.
    pub seconds: f64,
    /// Start of the measured time, in milliseconds of Unix time.
    pub measured_from_ms: u64,
    /// Closed loop: measured requests per second. Open loop: requests per second that finished within the
    /// measured time, since the number of measured requests is given.
    pub throughput_per_s: f64,
    /// Closed loop: from the start. Open loop: from the due time.
    pub latency: Latency,
    /// Open loop only.
    pub open: Option<OpenLoop>,
    /// Each request of a scenario, in the order of its file.
    pub by_request: Vec<RequestReport>,
    /// Mean pause between a response and the user's next request.
    pub mean_pause_ms: f64,
    /// Opening connections within the measured time, TLS handshakes included: how many, and how long it took.
    pub connects: (u64, Latency),
    /// The figures as computed by WSO2's published pipeline.
    pub published: PublishedStats,
    /// The same for the warm-up.
    pub published_warm_up: PublishedStats,
    /// Bytes of heads and bodies, without TLS, of the measured requests.
    pub received_bytes: u64,
    pub sent_bytes: u64,
    /// Messages in the responses of gRPC calls.
    pub messages_received: u64,
    /// Requests that finished, including the warm-up; the target's own count should be the same.
    pub requests_in_all: u64,
    /// Failed requests among `requests_in_all`.
    pub errors_in_all: u64,
    /// Rate x (mean latency + mean think time).
    pub users_by_littles_law: f64,
    /// This process's CPU time, user and system, per request finished in the measured time.
    pub generator_cpu_us_per_request: f64,
    /// The same for the target and its descendants, if it runs on this machine.
    pub target_cpu_us_per_request: Option<f64>,
    pub generator: Generator,
    /// How late the generator's lag probe woke up, every 10 ms of the measured time.
    pub lag: Latency,
    /// The agents that generated the load; empty if this process did.
    pub agents: Vec<AgentShare>,
    /// Problems of the measurement that its figures do not show.
    pub incidents: Vec<Incident>,
    /// The measured time second by second.
    pub series: Vec<SeriesPoint>,
    /// The conditions of [`Self::check`].
    pub thresholds: Vec<Threshold>,
}

/// The measured requests of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestReport {
    pub name: String,
    pub requests: u64,
    pub errors: u64,
    pub latency: Latency,
}

/// A second of the measured time: the requests that ended in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SeriesPoint {
    /// Since the start of the measured time.
    pub from_s: f64,
    /// Length of the interval, in seconds.
    pub seconds: f64,
    pub requests: u64,
    pub errors: u64,
    pub rate_per_s: f64,
    /// `None` without a request: a stall has no latency.
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub max_ms: Option<f64>,
    /// CPU time of the generator's process over elapsed time: 1 is one CPU.
    pub generator_cpus: f64,
    /// The same for the target and its descendants, if it runs on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_cpus: Option<f64>,
}

/// Utilisation of the generator over the measured time: the maximum over its threads, and over its processes if agents
/// generated the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time over elapsed time, 0 to 1.
    pub busy: f64,
    /// Time runnable without a CPU over elapsed time, 0 to 1.
    pub waited: f64,
    /// The most memory that the process used during the measurement, the warm-up included.
    pub peak_rss_bytes: u64,
}

/// An agent's share of the result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentShare {
    /// Host and port as given.
    pub name: String,
    pub requests: u64,
    pub errors: u64,
    /// The agent's Unix time minus ours, in microseconds.
    pub clock_offset_us: i64,
    /// Uncertainty of the offset, in either direction.
    pub clock_uncertainty_us: u64,
}

/// Additional figures of an open loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenLoop {
    /// From the start to the end, of requests that were sent.
    pub service: Latency,
    /// Time from the due time to the start, for any cause.
    pub late: Latency,
    /// Requests for which no connection was free at the due time.
    pub queued: u64,
}

/// The raw data of a finished measurement.
#[derive(Debug)]
pub(crate) struct Collected {
    pub(crate) tally: Tally,
    pub(crate) measured_us: u64,
    pub(crate) measured_from_ms: u64,
    pub(crate) interrupted: bool,
    /// CPU time of the process over the measured time, and the requests that finished in it.
    pub(crate) cpu_us: u64,
    pub(crate) finished: u64,
    /// CPU time of the target, in microseconds, if it runs on this machine and this process generated the load.
    pub(crate) target_cpu_us: Option<u64>,
    pub(crate) generator: Generator,
    /// A message for each incomplete recording.
    pub(crate) recording_problems: Vec<String>,
    pub(crate) series: Vec<SeriesPoint>,
}

impl Report {
    pub(crate) fn new(settings: RunSettings, found: &Collected) -> Self {
        let measured = &found.tally.measured;
        let seconds = found.measured_us as f64 / 1_000_000.0;
        let counted = if measured.open.is_some() { found.finished } else { measured.requests };
        let throughput_per_s = ratio(counted as f64, seconds);
        let latency = measured.latencies.latency();
        let by_request = RequestReport::all(&settings, measured);
        let mean_pause_ms = settings.mean_pause_ms(&by_request);
        let cycle_ms = latency.mean_ms + mean_pause_ms;
        let bytes = (measured.received_bytes, measured.sent_bytes);
        let incomplete =
            found.recording_problems.iter().cloned().map(|problem| Incident::RawData { problem });
        let interrupted = found.interrupted.then_some(Incident::Interrupted);
        Self {
            settings,
            requests: measured.requests,
            errors: measured.errors,
            errors_by_kind: measured
                .errors_by_kind
                .iter()
                .map(|(kind, &count)| (kind.to_string(), count))
                .collect(),
            seconds,
            measured_from_ms: found.measured_from_ms,
            throughput_per_s,
            latency,
            open: measured.open.as_ref().map(OpenLoop::new),
            by_request,
            mean_pause_ms,
            connects: (measured.connects.histogram_us.len(), measured.connects.latency()),
            published: measured.milliseconds.published(measured.errors, bytes),
            published_warm_up: found.tally.warm_up.published(),
            received_bytes: measured.received_bytes,
            sent_bytes: measured.sent_bytes,
            messages_received: measured.messages,
            requests_in_all: found.tally.all,
            errors_in_all: found.tally.all_errors,
            users_by_littles_law: validity::in_flight(throughput_per_s, cycle_ms),
            generator_cpu_us_per_request: ratio(found.cpu_us as f64, found.finished as f64),
            target_cpu_us_per_request: found
                .target_cpu_us
                .map(|us| ratio(us as f64, found.finished as f64)),
            generator: found.generator,
            lag: found.tally.lag.latency(),
            agents: Vec::new(),
            incidents: interrupted.into_iter().chain(incomplete).collect(),
            series: found.series.clone(),
            thresholds: Vec::new(),
        }
    }

    /// Adds the conditions of `--fail-if` to the report, and returns why it fails.
    pub fn check(&mut self, failures: &Slo) -> Option<String> {
        let (latency, error_percent) = (&self.latency, self.error_percent());
        let outcome = Outcome { latency, error_percent, rate_per_s: self.throughput_per_s };
        let outcome = (self.requests > 0).then_some(outcome);
        self.thresholds = failures.thresholds(outcome);
        match outcome {
            Some(outcome) => failures.broken_by(outcome),
            None => Some("nothing was measured".to_owned()),
        }
    }

    /// The warnings of the validity checks.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        validity::Row::of_load(&self.figures()).warnings()
    }

    /// The report as text, which begins with the warnings.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_table(&mut table);
        table
    }

    fn write_table(&self, out: &mut String) -> fmt::Result {
        let (settings, latency) = (&self.settings, &self.latency);
        let payload = settings.payload_bytes.map_or("no payload".to_owned(), |n| format!("{n} B"));
        let shared = match settings.protocol {
            Protocol::Http1 => String::new(),
            Protocol::WebSocket => ", WebSocket messages".to_owned(),
            Protocol::Http2 { connections } => {
                let streams = settings.protocol.streams(settings.users);
                format!(", HTTP/2 with {connections} connections x {streams} streams")
            }
        };
        let request = match &settings.scenario {
            Some(scenario) => format!("{} at", scenario.name),
            None => settings.method.clone(),
        };
        writeln!(
            out,
            "{request} {}  {}{shared}, {payload}, {} tokens, {} threads, warm-up {} s",
            settings.url,
            settings.load(),
            settings.tokens,
            settings.threads,
            settings.warm_up_s
        )?;
        writeln!(out)?;
        // They decide which of the figures can be used.
        for warning in self.warnings() {
            writeln!(out, "  {}: {warning}", warning.severity.name())?;
        }
        for Threshold { condition, value, broken } in &self.thresholds {
            let value = value.map_or("-".to_owned(), |value| format!("{value:.3}"));
            let verdict = if *broken { "FAILED" } else { "passed" };
            writeln!(out, "  {:<26}{value:>14}   {verdict}", format!("fail if {condition}"))?;
        }
        writeln!(out, "  {:<26}{:>14}", "requests", self.requests)?;
        writeln!(out, "  {:<26}{:>14}   {:.2} %", "errors", self.errors, self.error_percent())?;
        for (kind, count) in &self.errors_by_kind {
            writeln!(out, "    {kind:<24}{count:>14}")?;
        }
        writeln!(out, "  {:<26}{:>14.2} s", "measured", self.seconds)?;
        writeln!(out, "  {:<26}{:>14.1} /s", "throughput", self.throughput_per_s)?;
        writeln!(out, "  {:<26}{:>14.1} KB/s", "received", self.kb_per_s(self.received_bytes))?;
        writeln!(out, "  {:<26}{:>14.1} KB/s", "sent", self.kb_per_s(self.sent_bytes))?;
        if settings.grpc_messages.is_some() {
            writeln!(out, "  {:<26}{:>14}", "messages received", self.messages_received)?;
        }
        writeln!(out)?;
        for (name, value_ms) in latency.rows() {
            writeln!(out, "  {:<26}{value_ms:>14.3} ms", format!("latency {name}"))?;
        }
        if let Some(open) = &self.open {
            open.write_table(out)?;
        }
        if !self.by_request.is_empty() {
            writeln!(out)?;
        }
        for RequestReport { name, requests, errors, latency } in &self.by_request {
            writeln!(
                out,
                "  {name:<26}{requests:>14}   {errors} errors, p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms",
                latency.p50_ms, latency.p99_ms, latency.max_ms
            )?;
        }
        let (opened, connect) = &self.connects;
        if *opened > 0 {
            writeln!(out)?;
            writeln!(out, "  {:<26}{opened:>14}", "connections opened")?;
            for (name, value_ms) in
                [("mean", connect.mean_ms), ("p50", connect.p50_ms), ("p99", connect.p99_ms)]
            {
                writeln!(out, "  {:<26}{value_ms:>14.3} ms", format!("handshake {name}"))?;
            }
        }
        writeln!(out)?;
        writeln!(out, "  {:<26}{:>14.2}", "users by Little's law", self.users_by_littles_law)?;
        let cpu_us = self.generator_cpu_us_per_request;
        writeln!(out, "  {:<26}{cpu_us:>14.2} us/request", "generator CPU")?;
        if let Some(cpu_us) = self.target_cpu_us_per_request {
            writeln!(out, "  {:<26}{cpu_us:>14.2} us/request", "target CPU")?;
        }
        let busy = self.generator.busy * 100.0;
        writeln!(out, "  {:<26}{busy:>14.1} %", "generator busiest thread")?;
        writeln!(out, "  {:<26}{:>14.3} ms", "generator lag p99", self.lag.p99_ms)?;
        let peak_mib = self.generator.peak_rss_bytes as f64 / 1_048_576.0;
        writeln!(out, "  {:<26}{peak_mib:>14.1} MiB", "generator peak memory")
    }

    /// The report as JSON. Units are part of the key names.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut value = self.figures();
        value["series"] = json!(self.series);
        value["thresholds"] = json!(self.thresholds);
        value["machine"] = json!(Machine::here());
        value["warnings"] = json!(self.warnings());
        value
    }

    /// The report as JSON, without warnings.
    fn figures(&self) -> Value {
        let errors_by_kind: serde_json::Map<String, Value> =
            self.errors_by_kind.iter().map(|(kind, count)| (kind.clone(), json!(count))).collect();
        let mut value = json!({
            "requests": self.requests,
            "errors": self.errors,
            "error_percent": self.error_percent(),
            "errors_by_kind": errors_by_kind,
            "seconds": self.seconds,
            "measured_from_ms": self.measured_from_ms,
            "throughput_per_s": self.throughput_per_s,
            "received_bytes": self.received_bytes,
            "sent_bytes": self.sent_bytes,
            "messages_received": self.messages_received,
            "requests_in_all": self.requests_in_all,
            "errors_in_all": self.errors_in_all,
            "users_by_littles_law": self.users_by_littles_law,
            "generator_cpu_us_per_request": self.generator_cpu_us_per_request,
            "target_cpu_us_per_request": self.target_cpu_us_per_request,
            "generator_peak_rss_bytes": self.generator.peak_rss_bytes,
            "generator_busy": self.generator.busy,
            "generator_waited": self.generator.waited,
            "generator_lag_p50_ms": self.lag.p50_ms,
            "generator_lag_p99_ms": self.lag.p99_ms,
            "generator_lag_max_ms": self.lag.max_ms,
            "agents": self.agents,
            "shape": self.settings.shape,
            "mean_pause_ms": self.mean_pause_ms,
            "published": self.published,
            "published_warm_up": self.published_warm_up,
            "incidents": self.incidents.iter().map(|incident| json!({
                "name": incident.name(),
                "text": incident.to_string(),
            })).collect::<Vec<_>>(),
            "options": self.settings.json(),
        });
        if let Value::Object(members) = &mut value {
            if !self.by_request.is_empty() {
                let all = self.by_request.iter().map(RequestReport::json);
                members.insert("by_request".to_owned(), all.collect());
            }
            for (name, value_ms) in self.latency.rows() {
                members.insert(format!("{name}_ms"), json!(value_ms));
            }
            if let Some(open) = &self.open {
                open.add_to(members);
            }
            let (opened, connect) = &self.connects;
            members.insert("connections_opened".to_owned(), json!(opened));
            for (name, value_ms) in connect.rows().into_iter().filter(|_| *opened > 0) {
                members.insert(format!("handshake_{name}_ms"), json!(value_ms));
            }
        }
        value
    }

    /// Failed requests, in percent of all.
    #[must_use]
    pub fn error_percent(&self) -> f64 {
        ratio(100.0 * self.errors as f64, self.requests as f64)
    }

    fn kb_per_s(&self, bytes: u64) -> f64 {
        ratio(bytes as f64 / 1_024.0, self.seconds)
    }
}

impl RequestReport {
    fn all(settings: &RunSettings, measured: &Measured) -> Vec<Self> {
        let names = settings.scenario.iter().flat_map(|scenario| scenario.names());
        let found = |(index, name)| {
            let (errors, latencies) = match measured.by_request.get(index) {
                Some((errors, latencies)) => (*errors, latencies),
                None => (0, &Times::new()),
            };
            let requests = latencies.histogram_us.len();
            Self { name, requests, errors, latency: latencies.latency() }
        };
        names.enumerate().map(found).collect()
    }

    fn json(&self) -> Value {
        let mut value =
            json!({"name": self.name, "requests": self.requests, "errors": self.errors});
        if let Value::Object(members) = &mut value {
            let rows = self.latency.rows();
            members.extend(rows.map(|(name, value_ms)| (format!("{name}_ms"), json!(value_ms))));
        }
        value
    }
}

impl OpenLoop {
    fn new(open: &Open) -> Self {
        Self { service: open.service.latency(), late: open.late.latency(), queued: open.queued }
    }

    fn write_table(&self, out: &mut String) -> fmt::Result {
        writeln!(out)?;
        for (name, value_ms) in self.service.rows() {
            writeln!(out, "  {:<26}{value_ms:>14.3} ms", format!("service time {name}"))?;
        }
        writeln!(out)?;
        writeln!(out, "  {:<26}{:>14.3} ms", "sent late p99", self.late.p99_ms)?;
        writeln!(out, "  {:<26}{:>14.3} ms", "sent late max", self.late.max_ms)?;
        writeln!(out, "  {:<26}{:>14}", "no free connection", self.queued)
    }

    /// `service_NAME_ms`, `late_NAME_ms`, `queued`.
    fn add_to(&self, members: &mut serde_json::Map<String, Value>) {
        for (prefix, times) in [("service", &self.service), ("late", &self.late)] {
            for (name, value_ms) in times.rows() {
                members.insert(format!("{prefix}_{name}_ms"), json!(value_ms));
            }
        }
        members.insert("queued".to_owned(), json!(self.queued));
    }
}

impl RunSettings {
    /// Mean pause after a request, by how often each was sent.
    fn mean_pause_ms(&self, by_request: &[RequestReport]) -> f64 {
        let of_shape = self.shape.mean_pause_ms();
        let pauses = self.scenario.iter().flat_map(|scenario| scenario.pauses_ms());
        let (mut sum, mut requests) = (0.0, 0.0);
        for (request, pause) in by_request.iter().zip(pauses) {
            sum += request.requests as f64 * pause.unwrap_or(of_shape);
            requests += request.requests as f64;
        }
        if requests > 0.0 { sum / requests } else { of_shape }
    }

    /// The shape in words.
    fn load(&self) -> String {
        let users = self.users;
        match &self.shape {
            Shape::Closed { think: Think::None } => format!("{users} users"),
            Shape::Closed { think } => format!("{users} users, {think}"),
            Shape::Arrivals { rate_per_s } => {
                format!("{rate_per_s} requests/s by at most {users} users")
            }
            Shape::Poisson { rate_per_s } => {
                format!("{rate_per_s} requests/s at random times by at most {users} users")
            }
            Shape::RampUsers { from, think: Think::None } => format!("{from} to {users} users"),
            Shape::RampUsers { from, think } => format!("{from} to {users} users, {think}"),
            Shape::RampArrivals { from_per_s, to_per_s } => {
                format!("{from_per_s} to {to_per_s} requests/s by at most {users} users")
            }
            Shape::Stages { stages } => format!("{stages} by at most {users} users"),
        }
    }

    fn json(&self) -> Value {
        json!({
            "url": self.url,
            "method": self.scenario.is_none().then_some(&self.method),
            "scenario": self.scenario.as_ref().map(|scenario| &scenario.name),
            "users": self.users,
            "protocol": self.protocol.name(),
            "connections": self.protocol.connections(self.users),
            "streams": self.protocol.streams(self.users),
            "threads": self.threads,
            "duration_s": self.duration_s,
            "requests": self.requests,
            "connection_per_request": self.connection_per_request,
            "grpc_messages": self.grpc_messages,
            "warm_up_s": self.warm_up_s,
            "timeout_s": self.timeout_s,
            "payload_bytes": self.payload_bytes,
            "tokens": self.tokens,
            "expect": self.expect,
            "seed": self.seed,
        })
    }
}

impl Latency {
    /// Name and value in milliseconds, in the order of the table; `NAME_ms` in JSON.
    fn rows(&self) -> [(&'static str, f64); 12] {
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
            ("p9999", self.p9999_ms),
            ("max", self.max_ms),
        ]
    }
}

/// 0 if `whole` is not positive.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::limits;

    #[test]
    fn a_second_of_the_series_is_at_most_as_long_as_its_limit() {
        let (long, most) = (f64::MIN_POSITIVE, u64::MAX);
        let second = SeriesPoint {
            from_s: long,
            seconds: long,
            requests: most,
            errors: most,
            rate_per_s: long,
            p50_ms: Some(long),
            p99_ms: Some(long),
            max_ms: Some(long),
            generator_cpus: long,
            target_cpus: Some(long),
        };
        // As in a result.json, which has the deepest indentation.
        let bytes = |seconds: usize| {
            let load = json!({"load": {"series": vec![second; seconds]}});
            serde_json::to_string_pretty(&load).unwrap().len() as u64
        };
        let found = bytes(2) - bytes(1);
        assert!((300..=limits::LOAD_SERIES_POINT_BYTES_MAX).contains(&found), "{found}");
    }
}
