//! What speaks against a result: printed beside it, never hidden.
//!
//! Reads the figures of a row, ours or a published one; answers the doubts about it. It changes no
//! figure and drops no row.

use std::fmt;

/// How far two figures that must agree may differ.
const TOLERANCE: f64 = 0.03;
/// Share of a CPU from which a generator thread counts as busy all the time: with the rest go
/// wake-ups, and waiting for them makes the target look slower than it is.
const BUSY_MAX: f64 = 0.85;
/// Share of the time that a generator thread may have waited for a CPU that others held.
const WAITED_MAX: f64 = 0.10;

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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Generator {
    /// CPU time over elapsed time, 0 to 1.
    pub busy: f64,
    /// Time spent ready to run without a CPU over elapsed time, 0 to 1.
    pub waited: f64,
}

/// One reason not to take a result at face value.
#[derive(Clone, Copy, Debug, PartialEq)]
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
                | Doubt::Errors { .. } => None,
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
