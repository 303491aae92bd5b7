//! What speaks against a result: printed beside it, never hidden.
//!
//! Reads the figures of a row, ours or a published one; answers the doubts about it. It changes no
//! figure and drops no row.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::load::statistics::Latency;

/// How far two figures that must agree may differ.
const TOLERANCE: f64 = 0.03;
/// Share of a CPU from which a generator thread counts as busy all the time: with the rest go
/// wake-ups, and waiting for them makes the target look slower than it is.
const BUSY_MAX: f64 = 0.85;
/// Share of the time that a generator thread may have waited for a CPU that others held.
const WAITED_MAX: f64 = 0.10;

/// Share of the 99th percentile of latency that the generator's own lag may be.
const LAG_SHARE_MAX: f64 = 0.25;
/// Lag of the generator, at its 99th percentile, that nobody minds.
const LAG_MS_MAX: f64 = 1.0;
/// Share of an open loop's requests that may find no connection free.
const QUEUED_MAX: f64 = 0.01;

/// A row of a closed-loop measurement: `users` connections, each with one request outstanding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    pub users: f64,
    pub rate_per_s: f64,
    pub mean_ms: f64,
    /// Absent where only the rate was published.
    pub count: Option<Count>,
}

/// How many requests were counted, and in what time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    pub requests: f64,
    pub measured_s: f64,
}

/// How the generator itself fared over the measured time, the worst of its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time over elapsed time, 0 to 1.
    pub busy: f64,
    /// Time spent ready to run without a CPU over elapsed time, 0 to 1.
    pub waited: f64,
}

/// One reason not to take a result at face value.
#[derive(Clone, Debug, PartialEq)]
pub enum Doubt {
    /// Nothing was answered in the measured time.
    Nothing,
    /// Ended by hand before its time.
    Interrupted,
    /// Little's law: the figures imply another number of users than there were.
    UsersIdle { in_flight: f64, users: f64 },
    /// The count and the rate imply another time than was measured.
    CountAndRateDisagree { implied_s: f64, measured_s: f64 },
    /// The generator was the limit, not the target.
    GeneratorSaturated { busy: f64 },
    /// Others held the generator's CPU.
    GeneratorWaited { waited: f64 },
    /// Rate and latencies hold failed requests too, as in WSO2's tables.
    Errors { errors: u64, requests: u64 },
    /// The generator came late to what it had to do.
    GeneratorLate { lag_ms: f64, p99_ms: f64 },
    /// Open loop: fewer or more were answered in the measured time than were due.
    RateMissed { asked_per_s: f64, reached_per_s: f64 },
    /// Open loop: this share of the requests found no connection free.
    ConnectionsBusy { share: f64 },
    /// A file of raw data isn't whole.
    RawData { problem: String },
    /// An agent did not stay to the end: its part is missing.
    AgentLost { name: String, problem: String },
    /// An agent's clock could not be compared well enough, or stands far from ours.
    AgentClock { name: String, offset_us: i64, uncertainty_us: u64 },
}

impl Doubt {
    /// A stable name for programs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing-measured",
            Self::Interrupted => "interrupted",
            Self::UsersIdle { .. } => "littles-law",
            Self::CountAndRateDisagree { .. } => "count-and-rate-disagree",
            Self::GeneratorSaturated { .. } => "generator-saturated",
            Self::GeneratorWaited { .. } => "generator-waited-for-cpu",
            Self::Errors { .. } => "errors",
            Self::GeneratorLate { .. } => "generator-late",
            Self::RateMissed { .. } => "rate-missed",
            Self::ConnectionsBusy { .. } => "connections-busy",
            Self::RawData { .. } => "raw-data",
            Self::AgentLost { .. } => "agent-lost",
            Self::AgentClock { .. } => "agent-clock",
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(out, "nothing was answered in the measured time"),
            Self::Interrupted => {
                write!(out, "interrupted: the measured time is shorter than asked")
            }
            Self::UsersIdle { in_flight, users } => write!(
                out,
                "Little's law: rate x mean latency is {in_flight:.1} users, not {users:.0}"
            ),
            Self::CountAndRateDisagree { implied_s, measured_s } => {
                write!(out, "count / rate is {implied_s:.1} s, but {measured_s:.1} s were measured")
            }
            Self::GeneratorSaturated { busy } => write!(
                out,
                "generator saturated: a thread of it was busy {:.0} % of the time, so it may be the \
                 limit, not the target (raise --threads, or give it more CPUs)",
                busy * 100.0
            ),
            Self::GeneratorWaited { waited } => write!(
                out,
                "generator short of CPU: a thread of it waited {:.0} % of the time for a CPU that \
                 others held; latencies hold that wait",
                waited * 100.0
            ),
            Self::Errors { errors, requests } => write!(
                out,
                "{errors} of {requests} requests failed; rate and latencies include them"
            ),
            Self::GeneratorLate { lag_ms, p99_ms } => write!(
                out,
                "generator late: it came {lag_ms:.3} ms late to its own work (p99), and the \
                 latency's p99 of {p99_ms:.3} ms holds that"
            ),
            Self::RateMissed { asked_per_s, reached_per_s } => write!(
                out,
                "{asked_per_s:.1} requests/s were due, {reached_per_s:.1}/s were answered in the \
                 measured time"
            ),
            Self::ConnectionsBusy { share } => write!(
                out,
                "{:.1} % of the requests found no connection free: either the target is slower than \
                 the rate, or there are too few connections (raise --users)",
                share * 100.0
            ),
            Self::RawData { problem } => out.write_str(problem),
            Self::AgentLost { name, problem } => {
                write!(out, "agent {name} is lost, its requests are missing: {problem}")
            }
            Self::AgentClock { name, offset_us, uncertainty_us } => write!(
                out,
                "agent {name}: its clock is {:.1} ms off ours, known to within {:.1} ms",
                *offset_us as f64 / 1_000.0,
                *uncertainty_us as f64 / 1_000.0
            ),
        }
    }
}

/// Doubts that the figures raise by themselves. Source: Little's law.
#[must_use]
pub fn doubts(row: &Row) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let in_flight = in_flight(row.rate_per_s, row.mean_ms);
    if disagree(in_flight, row.users) {
        doubts.push(Doubt::UsersIdle { in_flight, users: row.users });
    }
    if let Some(Count { requests, measured_s }) = row.count {
        let implied_s = requests / row.rate_per_s;
        if disagree(implied_s, measured_s) {
            doubts.push(Doubt::CountAndRateDisagree { implied_s, measured_s });
        }
    }
    doubts
}

/// Doubts about the generator's own part in a result.
#[must_use]
pub fn generator_doubts(generator: &Generator) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    if generator.busy > BUSY_MAX {
        doubts.push(Doubt::GeneratorSaturated { busy: generator.busy });
    }
    if generator.waited > WAITED_MAX {
        doubts.push(Doubt::GeneratorWaited { waited: generator.waited });
    }
    doubts
}

/// Whether the generator was late enough to be seen in the latencies.
#[must_use]
pub fn lag_doubt(lag: &Latency, latency: &Latency) -> Option<Doubt> {
    let (lag_ms, p99_ms) = (lag.p99_ms, latency.p99_ms);
    let late = lag_ms > LAG_MS_MAX && lag_ms > LAG_SHARE_MAX * p99_ms;
    late.then_some(Doubt::GeneratorLate { lag_ms, p99_ms })
}

/// Doubts about an open loop: `queued` is the share of requests that found no connection free.
#[must_use]
pub fn open_doubts(asked_per_s: f64, reached_per_s: f64, queued: f64) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    if disagree(reached_per_s, asked_per_s) {
        doubts.push(Doubt::RateMissed { asked_per_s, reached_per_s });
    }
    if queued > QUEUED_MAX {
        doubts.push(Doubt::ConnectionsBusy { share: queued });
    }
    doubts
}

/// Requests in the system on average: rate x time spent there.
#[must_use]
pub fn in_flight(rate_per_s: f64, mean_ms: f64) -> f64 {
    rate_per_s * mean_ms / 1_000.0
}

/// Whether `found` is off `expected` by more than the tolerance. What cannot be compared disagrees.
fn disagree(found: f64, expected: f64) -> bool {
    let off = (found / expected - 1.0).abs();
    off.is_nan() || off > TOLERANCE
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
mod tests {
    use super::*;

    const API_MICROGATEWAY: &str = include_str!("../../published/api-microgateway.csv");
    const API_MANAGER: &str = include_str!("../../published/api-manager.csv");
    const CHOREO_CONNECT: &str = include_str!("../../published/choreo-connect-1cpu.csv");

    #[test]
    fn fourteen_of_the_288_published_gateway_rows_miss_littles_law() {
        let rows = [API_MICROGATEWAY, API_MANAGER].into_iter().flat_map(records);
        let rows: Vec<Row> = rows
            .map(|cells| Row {
                users: number(cells[2]),
                rate_per_s: number(cells[6]),
                mean_ms: number(cells[7]),
                count: None,
            })
            .collect();
        assert_eq!(rows.len(), 288);
        assert_eq!(rows.iter().filter(|row| !doubts(row).is_empty()).count(), 14);
    }

    #[test]
    fn two_published_counts_include_the_warm_up_that_their_rates_leave_out() {
        let mut implied = Vec::new();
        for cells in records(CHOREO_CONNECT) {
            let count = Count { requests: number(cells[2]), measured_s: 900.0 };
            let row = Row {
                users: number(cells[0]),
                rate_per_s: number(cells[4]),
                mean_ms: number(cells[3]),
                count: Some(count),
            };
            implied.extend(doubts(&row).into_iter().filter_map(|doubt| match doubt {
                Doubt::CountAndRateDisagree { implied_s, .. } => Some(implied_s.round()),
                Doubt::Nothing
                | Doubt::Interrupted
                | Doubt::UsersIdle { .. }
                | Doubt::GeneratorSaturated { .. }
                | Doubt::GeneratorWaited { .. }
                | Doubt::Errors { .. }
                | Doubt::GeneratorLate { .. }
                | Doubt::RateMissed { .. }
                | Doubt::ConnectionsBusy { .. }
                | Doubt::RawData { .. }
                | Doubt::AgentLost { .. }
                | Doubt::AgentClock { .. } => None,
            }));
        }
        implied.sort_by(f64::total_cmp);
        assert_eq!(implied, [1_159.0, 1_200.0]);
        assert_eq!(records(CHOREO_CONNECT).count(), 24);
    }

    #[test]
    fn three_percent_is_the_edge_in_both_directions() {
        check(row(100.0, 1_000.0, 100.0), "");
        check(row(100.0, 1_000.0, 97.1), "");
        check(row(100.0, 1_000.0, 102.9), "");
        check(row(100.0, 1_000.0, 96.9), "littles-law");
        check(row(100.0, 1_000.0, 103.1), "littles-law");
    }

    #[test]
    fn a_row_without_a_rate_is_doubted_not_divided_by() {
        check(row(100.0, 0.0, 0.0), "littles-law");
        let count = Some(Count { requests: 0.0, measured_s: 10.0 });
        check(Row { count, ..row(100.0, 0.0, 0.0) }, "littles-law count-and-rate-disagree");
    }

    #[test]
    fn a_busy_or_starved_generator_is_told_apart() {
        let of = |busy, waited| names(&generator_doubts(&Generator { busy, waited }));
        assert_eq!(of(0.84, 0.09), "");
        assert_eq!(of(0.86, 0.09), "generator-saturated");
        assert_eq!(of(0.84, 0.11), "generator-waited-for-cpu");
        assert_eq!(of(1.0, 0.5), "generator-saturated generator-waited-for-cpu");
    }

    #[test]
    fn a_lag_is_doubted_where_the_latency_is_not_far_above_it() {
        let of = |lag_ms, p99_ms| {
            let at = |p99_ms| Latency { p99_ms, ..Latency::default() };
            lag_doubt(&at(lag_ms), &at(p99_ms)).is_some()
        };
        assert!(!of(0.9, 1.0));
        assert!(of(1.1, 1.0));
        assert!(of(2.6, 10.0));
        assert!(!of(2.4, 10.0));
    }

    #[test]
    fn an_open_loop_is_doubted_by_its_rate_and_its_connections() {
        assert_eq!(names(&open_doubts(100.0, 98.0, 0.01)), "");
        assert_eq!(names(&open_doubts(100.0, 96.0, 0.0)), "rate-missed");
        assert_eq!(names(&open_doubts(100.0, 50.0, 0.5)), "rate-missed connections-busy");
    }

    fn row(users: f64, rate_per_s: f64, mean_ms: f64) -> Row {
        Row { users, rate_per_s, mean_ms, count: None }
    }

    #[track_caller]
    fn check(row: Row, expect: &str) {
        assert_eq!(names(&doubts(&row)), expect);
    }

    fn names(doubts: &[Doubt]) -> String {
        doubts.iter().map(Doubt::name).collect::<Vec<_>>().join(" ")
    }

    fn records(csv: &str) -> impl Iterator<Item = Vec<&str>> {
        csv.lines().skip(1).filter(|line| !line.is_empty()).map(|line| line.split(',').collect())
    }

    #[track_caller]
    fn number(cell: &str) -> f64 {
        cell.trim().parse().unwrap()
    }
}
