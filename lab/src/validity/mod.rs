//! Validity checks: signs that a row of figures is invalid.
//!
//! There is one [`Row`] type for every source of figures: our own results ([`measured`]) and published tables
//! ([`published`]). Each check in [`CHECKS`] returns a [`Finding`]: passed, a warning, or not applicable
//! because the row lacks the figures. Checks that are not applicable are reported as such.
//!
//! Figures are never changed and rows never dropped: a row with warnings is printed with them. Each check states which
//! figures its warning concerns; those are excluded from comparisons, the others are not. docs/measuring.md describes
//! each check and the response to its warnings.
//!
//! Architecture invariant: pure. No file, no clock, no socket.

mod conditions;
mod consistency;
mod figure;
mod incidents;
pub mod measured;
pub mod published;

use std::collections::BTreeMap;

pub use figure::Figure;

use crate::warning::Figures::{Cpu, Latency, Rate};
pub use crate::warning::Warning;
use crate::warning::{Figures, Severity};

/// Maximum relative difference of two figures that must agree: 3 %.
pub const TOLERANCE: f64 = 0.03;
/// Maximum share of failed requests, in percent.
pub const ERROR_PERCENT_MAX: f64 = 0.1;

/// The result of a check on a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The row lacks the figures for this check.
    NotApplicable,
    Passed,
    Warning(String),
}

/// A validity check.
pub struct Check {
    pub name: &'static str,
    /// The problem that the check detects, in one line.
    pub detects: &'static str,
    pub severity: Severity,
    /// The figures that its warning concerns.
    pub scope: &'static [Figures],
    pub run: fn(&Row) -> Finding,
}

const ALL: &[Figures] = &Figures::ALL;
const SPEED: &[Figures] = &[Latency, Rate];

/// Every check, in the order of reporting. docs/measuring.md has a row for each, as verified by a test.
#[rustfmt::skip]
pub const CHECKS: &[Check] = &[
    error("nothing-measured",          "no responses in the measured time", ALL, consistency::nothing),
    error("interrupted",               "a shortened measured time", ALL, incidents::interrupted),
    note("raw-data",                   "incomplete recordings", incidents::raw_data),
    error("agent-lost",                "missing load of an agent", ALL, incidents::agent_lost),
    error("agent-clock",               "agents that did not start together", &[Rate, Cpu], incidents::agent_clock),
    note("agent-time",                 "an agent's time of day that is off", incidents::agent_time),
    error("errors",                    "failed requests, which affect all figures", ALL, consistency::errors),
    error("wrong-bodies",              "unexpected or incomplete responses", ALL, consistency::wrong_bodies),
    error("status-mix",                "responses with the wrong status", ALL, consistency::status_mix),
    error("littles-law",               "idle users, or figures of different periods", SPEED, consistency::littles_law),
    error("count-and-rate-disagree",   "count and rate of different periods", ALL, consistency::count_and_rate),
    error("percentiles-in-order",      "percentiles of different measurements", &[Latency], consistency::order),
    error("mean-out-of-bounds",        "a mean of another measurement", &[Latency], consistency::mean_bounds),
    warning("stalls",                  "a mean dominated by stalls or outliers", SPEED, consistency::stalls),
    error("rate-not-reached",          "a rate that the generator or the target could not sustain", SPEED, consistency::rate_reached),
    warning("connections-busy",        "arrivals without a free connection", SPEED, consistency::connections_busy),
    warning("generator-saturated",     "a generator that is the bottleneck", SPEED, conditions::saturated),
    warning("generator-late",          "a generator that sends late", &[Latency], conditions::late),
    warning("backend-slow",            "a backend that is the bottleneck", SPEED, conditions::backend),
    error("delay-missing",             "responses that cannot be the backend's", ALL, conditions::delay),
    warning("ports-exhausted",         "too few ephemeral ports", SPEED, conditions::ports),
    warning("descriptors-exhausted",   "too few file descriptors", SPEED, conditions::descriptors),
    note("clock-step",                 "a wall clock that was changed", conditions::clock),
    warning("cpu-steal",               "CPU time stolen by the hypervisor", SPEED, conditions::steal),
    warning("cpu-steal-high",          "so much of it that CPU times include it", ALL, conditions::high_steal),
    warning("machine-busy",            "other processes using the CPU", SPEED, conditions::busy),
];

type Run = fn(&Row) -> Finding;

const fn error(
    name: &'static str,
    detects: &'static str,
    scope: &'static [Figures],
    run: Run,
) -> Check {
    Check { name, detects, severity: Severity::Error, scope, run }
}

const fn warning(
    name: &'static str,
    detects: &'static str,
    scope: &'static [Figures],
    run: Run,
) -> Check {
    Check { name, detects, severity: Severity::Warning, scope, run }
}

const fn note(name: &'static str, detects: &'static str, run: Run) -> Check {
    Check { name, detects, severity: Severity::Note, scope: &[], run }
}

/// Warnings that only the run itself can detect, with their severity and scope.
pub const RECORDED: &[(&str, Severity, &[Figures])] = &[
    // The target may have had more than it was to have.
    ("limits", Severity::Error, SPEED),
    ("backend-alone", Severity::Warning, SPEED),
    ("grpc-messages", Severity::Error, ALL),
    ("short", Severity::Warning, &[Cpu]),
    ("gc-log", Severity::Note, &[]),
];

/// A warning of [`RECORDED`]; an unknown code concerns all figures.
#[must_use]
pub fn recorded(code: &str, message: &str) -> Warning {
    let known = RECORDED.iter().find(|(known, ..)| *known == code);
    let (severity, scope) =
        known.map_or((Severity::Error, ALL), |(_, severity, scope)| (*severity, *scope));
    Warning { code: code.to_owned(), severity, scope: scope.to_vec(), message: message.to_owned() }
}

/// The figures of a measurement. Missing figures make the checks that need them not applicable.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Identifies the row in messages.
    pub label: String,
    pub loop_kind: Loop,
    /// Whether requests were due at random times, so that their number varies.
    pub random_arrivals: bool,
    /// Messages of incidents by check. `None` if incidents were not recorded.
    pub incidents: Option<BTreeMap<String, Vec<String>>>,
    pub rate_per_s: Option<Figure>,
    pub mean_ms: Option<Figure>,
    pub sd_ms: Option<Figure>,
    pub min_ms: Option<Figure>,
    pub max_ms: Option<Figure>,
    /// Percentage (50 to 99.9) and value, in ascending order.
    pub percentiles_ms: Vec<(f64, Figure)>,
    pub requests: Option<f64>,
    /// The time over which `requests` were counted.
    pub measured_s: Option<f64>,
    pub error_percent: Option<Figure>,
    /// Failed requests by kind, named as in `penstock lab load`: `timeout`, `status-503`, ...
    pub errors_by_kind: Option<BTreeMap<String, u64>>,
    /// Share of an open loop's requests for which no connection was free, 0 to 1.
    pub queued_share: Option<f64>,
    pub generator: Option<Generator>,
    pub backend: Option<Backend>,
    pub conditions: Conditions,
}

/// Who controls when a request starts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loop {
    /// Not known.
    #[default]
    Unknown,
    /// `users` with one request in flight each and a pause of `think_ms` between requests; averages if the
    /// number of users changes.
    Closed { users: f64, think_ms: f64 },
    /// `asked_per_s` requests per second; an average if the rate changes.
    Open { asked_per_s: f64 },
}

/// Utilisation of the generator over the measured time: the maximum over its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Generator {
    /// CPU time over elapsed time, 0 to 1.
    pub busy: f64,
    /// Time runnable without a CPU over elapsed time, 0 to 1.
    pub waited: f64,
    /// 99th percentile of the lateness of starts, if starts were scheduled.
    pub late_p99_ms: Option<f64>,
    /// 99th percentile of the lag of its probe.
    pub lag_p99_ms: f64,
}

/// The backend behind the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backend {
    /// Throughput without the target, with the same users, size and delay. `None` if not measured.
    pub alone_per_s: Option<f64>,
    /// The backend's configured delay.
    pub delay_ms: f64,
}

/// The conditions on the machine over the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    /// CPU time stolen by the hypervisor: of all CPUs, or of a pinned one.
    pub steal_percent: Option<f64>,
    /// CPU time used by processes that are not part of the measurement: of all CPUs, or of pinned ones.
    pub other_cpu_percent: Option<f64>,
    /// Change of the wall clock relative to the monotonic clock.
    pub clock_step_us: Option<f64>,
    /// Ephemeral ports in use towards one destination, and the number available.
    pub ports: Option<(f64, f64)>,
    /// File descriptors in use by the process closest to its limit, and that limit.
    pub descriptors: Option<(f64, f64)>,
}

impl Row {
    /// The warnings of all checks, in the order of [`CHECKS`].
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let warnings = CHECKS.iter().filter_map(|check| match (check.run)(self) {
            Finding::NotApplicable | Finding::Passed => None,
            Finding::Warning(message) => Some(Warning {
                code: check.name.to_owned(),
                severity: check.severity,
                scope: check.scope.to_vec(),
                message,
            }),
        });
        warnings.collect()
    }

    /// The names of the checks that apply to this row.
    pub fn applicable(&self) -> impl Iterator<Item = &'static str> {
        CHECKS
            .iter()
            .filter(|check| (check.run)(self) != Finding::NotApplicable)
            .map(|check| check.name)
    }
}

/// Average number of requests in the system: rate x time in the system. Source: Little's law.
#[must_use]
pub fn in_flight(rate_per_s: f64, mean_ms: f64) -> f64 {
    rate_per_s * mean_ms / 1_000.0
}
