//! Validity checks: signs that a row of figures is invalid.
//!
//! There is one [`Row`] type for every source of figures: our own results ([`measured`]) and published tables
//! ([`published`]). Each check in [`CHECKS`] returns a [`Finding`]: passed, a warning, or not applicable
//! because the row lacks the figures. Checks that are not applicable are reported as such.
//!
//! Figures are never changed and rows never dropped: a row with warnings is printed with them, and excluded
//! from comparisons. docs/measuring.md describes each check and what to do about its warnings.
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

/// Maximum relative difference of two figures that must agree: 3 %.
pub const TOLERANCE: f64 = 0.03;
/// Maximum share of failed requests, in percent.
pub const ERROR_PERCENT_MAX: f64 = 0.1;

/// A reason to distrust a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Name of the check; stable, for programs.
    pub check: &'static str,
    /// A message with the figures.
    pub message: String,
}

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
    /// What it detects, in one line.
    pub detects: &'static str,
    pub run: fn(&Row) -> Finding,
}

/// Every check, in the order of reporting. docs/measuring.md has a row for each, as verified by a test.
#[rustfmt::skip]
pub const CHECKS: &[Check] = &[
    check("nothing-measured",        "no responses in the measured time", consistency::nothing),
    check("interrupted",             "a shortened measured time", incidents::interrupted),
    check("raw-data",                "incomplete recordings", incidents::raw_data),
    check("agent-lost",              "missing load of an agent", incidents::agent_lost),
    check("agent-clock",             "an agent's clock that is off", incidents::agent_clock),
    check("errors",                  "failed requests, which affect rate and latencies", consistency::errors),
    check("wrong-bodies",            "unexpected or incomplete responses", consistency::wrong_bodies),
    check("status-mix",              "responses with the wrong status", consistency::status_mix),
    check("littles-law",             "idle users, or figures of different periods", consistency::littles_law),
    check("count-and-rate-disagree", "count and rate of different periods", consistency::count_and_rate),
    check("percentiles-in-order",    "percentiles of different measurements", consistency::order),
    check("mean-out-of-bounds",      "a mean dominated by stalls or outliers, or of another measurement", consistency::mean_bounds),
    check("rate-not-reached",        "a rate that the generator or the target could not sustain", consistency::rate_reached),
    check("connections-busy",        "arrivals without a free connection", consistency::connections_busy),
    check("generator-saturated",     "a generator that is the bottleneck", conditions::saturated),
    check("generator-late",          "a generator that sends late", conditions::late),
    check("backend-slow",            "a backend that is the bottleneck", conditions::backend),
    check("delay-missing",           "responses that cannot be the backend's", conditions::delay),
    check("ports-exhausted",         "too few ephemeral ports", conditions::ports),
    check("descriptors-exhausted",   "too few file descriptors", conditions::descriptors),
    check("clock-step",              "a wall clock that was changed", conditions::clock),
    check("cpu-steal",               "CPU time stolen by the hypervisor", conditions::steal),
    check("machine-busy",            "other processes using the CPU", conditions::busy),
];

const fn check(name: &'static str, detects: &'static str, run: fn(&Row) -> Finding) -> Check {
    Check { name, detects, run }
}

/// The figures of a measurement. Missing figures make the checks that need them not applicable.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Identifies the row in messages.
    pub label: String,
    pub loop_kind: Loop,
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
            Finding::Warning(message) => Some(Warning { check: check.name, message }),
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
