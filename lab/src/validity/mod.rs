//! Validity checks: what a row of figures must satisfy before it may be called a result.
//!
//! One [`Row`] for every source of figures: our own `result.json` ([`measured`]), and published tables
//! ([`published`]). Each check of [`CHECKS`] looks at what the row holds and answers [`Finding`]: fine, a warning
//! in words, or that the row has no figures for it. Which is which is told: a table without counts was not
//! checked for them.
//!
//! Reads rows; answers [`Warning`]s. Never changes a figure and never drops a row: a row with a warning is
//! printed with the warning beside it, and it is the comparison that leaves it out. docs/measuring.md says
//! what each check means and what to do about it.
//!
//! Architecture invariant: pure. No file, no clock, no socket; whoever has figures hands them in.

mod conditions;
mod consistency;
mod figure;
mod incidents;
pub mod measured;
pub mod published;

use std::collections::BTreeMap;

pub use figure::Figure;

/// How far two figures that must agree may differ: 3 %.
pub const TOLERANCE: f64 = 0.03;
/// Share of failed requests from which a row is flagged, in percent.
pub const ERROR_PERCENT_MAX: f64 = 0.1;

/// One reason not to take a row at face value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Name of the check, stable, for programs.
    pub check: &'static str,
    /// A sentence with the figures, for people.
    pub message: String,
}

/// What a check says of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The row has no figures for this check.
    NotApplicable,
    Passed,
    Warning(String),
}

/// One check.
pub struct Check {
    pub name: &'static str,
    /// What it detects against, in one line.
    pub detects: &'static str,
    pub run: fn(&Row) -> Finding,
}

/// Every check, in the order in which warnings are told. docs/measuring.md has one row for each; a test holds
/// the two together.
#[rustfmt::skip]
pub const CHECKS: &[Check] = &[
    check("nothing-measured",        "not one request was answered in the measured time", consistency::nothing),
    check("interrupted",             "the measured time was cut short", incidents::interrupted),
    check("raw-data",                "files of raw data that are not whole", incidents::raw_data),
    check("agent-lost",              "a part of the load that is missing", incidents::agent_lost),
    check("agent-clock",             "an agent whose clock could not be compared", incidents::agent_clock),
    check("errors",                  "failed requests, which are in rate and latencies", consistency::errors),
    check("wrong-bodies",            "answers that were not what was asked for, or not whole", consistency::wrong_bodies),
    check("status-mix",              "answers with several statuses, or the wrong one", consistency::status_mix),
    check("littles-law",             "users that idled, or figures of different times", consistency::littles_law),
    check("count-and-rate-disagree", "a count and a rate of different times", consistency::count_and_rate),
    check("percentiles-in-order",    "percentiles of different measurements", consistency::order),
    check("mean-out-of-bounds",      "a mean that stalls or outliers made, or of another measurement", consistency::mean_bounds),
    check("rate-not-reached",        "constant arrivals that the generator or the target could not keep up", consistency::rate_reached),
    check("connections-busy",        "constant arrivals that found no connection free", consistency::connections_busy),
    check("generator-saturated",     "a generator that was the limit", conditions::saturated),
    check("generator-late",          "a generator that sent late", conditions::late),
    check("backend-slow",            "a backend that was the limit", conditions::backend),
    check("delay-missing",           "answers that can't be the backend's", conditions::delay),
    check("ports-exhausted",         "too few ephemeral ports", conditions::ports),
    check("descriptors-exhausted",   "too few file descriptors", conditions::descriptors),
    check("clock-step",              "a wall clock that was set meanwhile", conditions::clock),
    check("cpu-steal",               "a hypervisor that gave the CPU to others", conditions::steal),
    check("machine-busy",            "other processes that used the CPU", conditions::busy),
];

const fn check(name: &'static str, detects: &'static str, run: fn(&Row) -> Finding) -> Check {
    Check { name, detects, run }
}

/// What is known of one measurement. What a source does not tell is absent, and its checks stay unseen.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// How the row is told apart from its neighbours.
    pub label: String,
    pub loop_kind: Loop,
    /// What happened, by check: a sentence for each time. Absent where nobody watched.
    pub incidents: Option<BTreeMap<String, Vec<String>>>,
    pub rate_per_s: Option<Figure>,
    pub mean_ms: Option<Figure>,
    pub sd_ms: Option<Figure>,
    pub min_ms: Option<Figure>,
    pub max_ms: Option<Figure>,
    /// Percent (50 to 99.9) and value, ascending in percent.
    pub percentiles_ms: Vec<(f64, Figure)>,
    pub requests: Option<f64>,
    /// The time that `requests` were counted over.
    pub measured_s: Option<f64>,
    pub error_percent: Option<Figure>,
    /// Failed requests by kind, as `penstock lab load` names them: `timeout`, `status-503`, ...
    pub errors_by_kind: Option<BTreeMap<String, u64>>,
    /// Share of an open loop's requests that found no connection free, 0 to 1.
    pub queued_share: Option<f64>,
    pub generator: Option<Generator>,
    pub backend: Option<Backend>,
    pub conditions: Conditions,
}

/// Who decides when a request starts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loop {
    /// Not told.
    #[default]
    Unknown,
    /// `users`, each with one request outstanding, that pause `think_ms` between two; on average, where
    /// their number grows.
    Closed { users: f64, think_ms: f64 },
    /// `asked_per_s` requests per second, whatever comes back; on average, where the rate grows.
    Open { asked_per_s: f64 },
}

/// How the generator itself fared over the measured time, the worst of its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Generator {
    /// CPU time over elapsed time, 0 to 1.
    pub busy: f64,
    /// Time ready to run but without a CPU over elapsed time, 0 to 1.
    pub waited: f64,
    /// By how much the 99th percentile of starts was late, where they had a time to keep.
    pub late_p99_ms: Option<f64>,
    /// By how much the 99th percentile of its looks at its own alarm was late.
    pub lag_p99_ms: f64,
}

/// The backend behind the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backend {
    /// Without the target in between, under the same users, size and delay. Absent where it wasn't measured.
    pub alone_per_s: Option<f64>,
    /// What the backend was told to wait before it answers.
    pub delay_ms: f64,
}

/// The state of the machine over the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Share of CPU time that a hypervisor kept for others: of all CPUs, or of a pinned one.
    pub steal_percent: Option<f64>,
    /// Share of CPU time used by processes that have no part in the measurement: of all CPUs, or of those that
    /// a part is pinned to.
    pub other_cpu_percent: Option<f64>,
    /// By how much wall clock and monotonic clock drifted apart, either way.
    pub clock_step_us: Option<f64>,
    /// Ephemeral ports in use towards one destination, and how many there are.
    pub ports: Option<(f64, f64)>,
    /// File descriptors in use by the process that is nearest to its limit, and that limit.
    pub descriptors: Option<(f64, f64)>,
}

impl Row {
    /// Everything that speaks against this row, in the order of [`CHECKS`].
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let told = CHECKS.iter().filter_map(|check| match (check.run)(self) {
            Finding::NotApplicable | Finding::Passed => None,
            Finding::Warning(message) => Some(Warning { check: check.name, message }),
        });
        told.collect()
    }

    /// Names of the checks that this row has figures for.
    pub fn applicable(&self) -> impl Iterator<Item = &'static str> {
        CHECKS
            .iter()
            .filter(|check| (check.run)(self) != Finding::NotApplicable)
            .map(|check| check.name)
    }
}

/// Requests in the system on average: rate x time spent there. Source: Little's law.
#[must_use]
pub fn in_flight(rate_per_s: f64, mean_ms: f64) -> f64 {
    rate_per_s * mean_ms / 1_000.0
}
