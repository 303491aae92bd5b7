//! The knee of a target: the highest load at which an objective is met.
//!
//! Reads an objective ([`Slo`]), a range of levels and the requests to send; returns a [`Knee`] with the highest level
//! met, the lowest one missed, every measurement, and the Universal Scalability Law fitted to them ([`Usl`]). The loop
//! is open when searching by rate, and closed when searching by users.
//!
//! Each measurement goes through the validity checks. Errors of the target (failed requests, rate not reached)
//! count as missing the objective. A level that meets its objective although the measurement made latencies look
//! worse (a late generator, say) is met. One that misses it for that reason is inconclusive: it is measured once
//! more, and then the search ends.
//!
//! Architecture invariant: no level counts as met if a figure of the objective may be better than the target's.

mod search;
mod slo;
mod usl;

pub use search::{LevelVerdict, Range, Search, SearchEnd};
pub use slo::{Outcome, Slo, SloError, Threshold};
pub use usl::{POINTS_MIN, Usl};

use serde_json::Value;

use crate::load::{Latency, LoadError, Options, Progress, Protocol, Shape};
use crate::result::{CaseResult, State};
use crate::validity;
use crate::warning::{Figures, Severity, Warning};

/// Checks that are about the target: overload causes errors, stalls and queues.
const OF_TARGET: &[&str] = &[
    "nothing-measured",
    "errors",
    "wrong-bodies",
    "status-mix",
    "stalls",
    "rate-not-reached",
    "connections-busy",
];
/// The check whose effect on latencies is at most the generator's measured lag.
const LATE: &str = "generator-late";

/// The quantity to vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Requests per second, open loop.
    Rate,
    /// Users, closed loop.
    Users,
}

/// One measurement of the search.
#[derive(Clone, Debug)]
pub struct Probe {
    pub level: f64,
    pub verdict: LevelVerdict,
    /// The bound that was missed, or the warning.
    pub reason: String,
    pub throughput_per_s: f64,
    pub mean_ms: f64,
    pub p99_ms: f64,
    pub error_percent: f64,
    pub warnings: Vec<Warning>,
    /// Concurrent requests in the target: the users of a closed loop; rate x service time in an open loop.
    pub concurrency: f64,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Knee {
    pub met: Option<f64>,
    pub missed: Option<f64>,
    pub ended: SearchEnd,
    /// In the order of measurement.
    pub probes: Vec<Probe>,
    /// Fitted to all conclusive measurements; `None` if there are too few.
    pub law: Option<Usl>,
}

/// Runs a search; `measure` measures a level (`None`: it was interrupted, which ends the search), `report` is called
/// with each result.
///
/// # Errors
/// The error of `measure`.
pub fn search<E>(
    range: Range,
    mut measure: impl FnMut(f64) -> Result<Option<Probe>, E>,
    mut report: impl FnMut(&Probe),
) -> Result<Knee, E> {
    let mut search = Search::new(range);
    let mut probes = Vec::new();
    let ended = loop {
        match search.propose() {
            Err(ended) => break ended,
            Ok(level) => {
                let Some(probe) = measure(level)? else { break SearchEnd::Interrupted };
                search.record(level, probe.verdict);
                report(&probe);
                probes.push(probe);
            }
        }
    };
    let (met, missed) = search.between();
    Ok(Knee { met, missed, ended, law: law(&probes), probes })
}

/// Measures a level with the load generator and returns the verdict. With HTTP/2, as many users share a connection at
/// each number of users as in `options`.
///
/// # Errors
/// [`LoadError`]: the measurement failed.
pub fn measure(
    options: &Options,
    (by, level): (By, f64),
    slo: &Slo,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Probe, LoadError> {
    let options = options_at(options, by, level);
    let report = crate::load::run(&options, progress)?;
    Ok(judge(by, level, slo, &report.json(), &report.warnings()))
}

fn options_at(options: &Options, by: By, level: f64) -> Options {
    let mut options = options.clone();
    match by {
        By::Rate => options.shape = Shape::Arrivals { rate_per_s: level },
        By::Users => {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
            let users = level.round().clamp(1.0, u32::MAX.into()) as usize;
            if let Protocol::Http2 { .. } = options.protocol {
                let streams = options.protocol.streams(options.users);
                options.protocol = Protocol::http2(users, streams);
            }
            options.threads = options.threads.min(options.protocol.connections(users));
            options.users = users;
        }
    }
    options
}

/// The verdict on a level measured by a suite (`suite::knee`). A target that ended has missed the objective; one that
/// does not serve the scenario has no verdict.
#[must_use]
pub fn judge_case(by: By, level: f64, slo: &Slo, found: &CaseResult) -> Probe {
    let warnings = validity::measured::warnings(found);
    let reason = || found.reason.clone().unwrap_or_default();
    match found.state {
        State::Measured => judge(by, level, slo, &found.load, &warnings),
        State::NotServed | State::Failed => Probe {
            level,
            verdict: match found.state {
                State::NotServed => LevelVerdict::Inconclusive,
                State::Measured | State::Failed => LevelVerdict::Missed,
            },
            reason: reason(),
            throughput_per_s: 0.0,
            mean_ms: 0.0,
            p99_ms: 0.0,
            error_percent: 100.0,
            warnings,
            concurrency: level,
        },
    }
}

/// `load` is the output of `penstock lab load --json`.
fn judge(by: By, level: f64, slo: &Slo, load: &Value, warnings: &[Warning]) -> Probe {
    let figure = |name: &str| load.get(name).and_then(Value::as_f64);
    let read: Result<Latency, _> = serde_json::from_value(load.clone());
    let throughput_per_s = figure("throughput_per_s").unwrap_or(0.0);
    let error_percent = figure("error_percent").unwrap_or(100.0);
    let latency = *read.as_ref().unwrap_or(&Latency::default());
    let (verdict, reason) = match &read {
        Ok(latency) => {
            let lag_ms = figure("generator_lag_p99_ms").unwrap_or(0.0);
            let broken_by = |latency: &Latency| {
                slo.broken_by(Outcome { latency, error_percent, rate_per_s: throughput_per_s })
            };
            let without_lag = broken_by(&latency.less(lag_ms)).is_some();
            verdict(warnings, broken_by(latency), without_lag)
        }
        Err(error) => (LevelVerdict::Inconclusive, format!("the result has no latencies: {error}")),
    };
    Probe {
        level,
        verdict,
        reason,
        throughput_per_s,
        mean_ms: latency.mean_ms,
        p99_ms: latency.p99_ms,
        error_percent,
        warnings: warnings.to_vec(),
        concurrency: match by {
            // Excludes requests that the generator queues for a free connection.
            By::Rate => validity::in_flight(
                throughput_per_s,
                figure("service_mean_ms").unwrap_or(latency.mean_ms),
            ),
            By::Users => level,
        },
    }
}

/// `missed` is the bound that was missed, `without_lag` whether a bound is missed even if the generator's lag is
/// subtracted from the latencies.
///
/// Errors of the measurement allow no conclusion about the target. Warnings make latencies look worse: a bound that is
/// met is met, and one that is missed may have been missed because of them.
fn verdict(
    warnings: &[Warning],
    missed: Option<String>,
    without_lag: bool,
) -> (LevelVerdict, String) {
    let of_target = |warning: &Warning| OF_TARGET.contains(&warning.code.as_str());
    let find = |severity: Severity, target: bool| {
        warnings.iter().find(|warning| {
            warning.severity == severity
                && warning.concerns(Figures::Latency)
                && of_target(warning) == target
        })
    };
    // In a closed loop, errors of the target also violate Little's law.
    let law = warnings.iter().find(|warning| warning.code == "littles-law");
    let invalid = find(Severity::Error, false).filter(|warning| warning.code != "littles-law");
    let distorted = find(Severity::Warning, false);
    let only_lag = warnings
        .iter()
        .filter(|warning| warning.severity == Severity::Warning && !of_target(warning))
        .all(|warning| warning.code == LATE);
    match (missed, find(Severity::Error, true)) {
        _ if invalid.is_some() => (LevelVerdict::Inconclusive, message(invalid)),
        (Some(bound), _) if distorted.is_some() && !(only_lag && without_lag) => {
            (LevelVerdict::Inconclusive, format!("{bound}, but {}", message(distorted)))
        }
        (Some(bound), _) => (LevelVerdict::Missed, bound),
        (None, Some(error)) if error.code == "rate-not-reached" && distorted.is_some() => {
            (LevelVerdict::Inconclusive, message(distorted))
        }
        (None, Some(error)) => (LevelVerdict::Missed, error.message.clone()),
        (None, None) if law.is_some() => (LevelVerdict::Inconclusive, message(law)),
        (None, None) => {
            let although = distorted.map(|warning| format!("although {}", warning.message));
            (LevelVerdict::Met, although.unwrap_or_default())
        }
    }
}

fn message(warning: Option<&Warning>) -> String {
    warning.map(|warning| warning.message.clone()).unwrap_or_default()
}

fn law(probes: &[Probe]) -> Option<Usl> {
    let valid = probes.iter().filter(|probe| probe.verdict != LevelVerdict::Inconclusive);
    // Failed requests do not count as throughput.
    let points = valid.map(|probe| {
        (probe.concurrency, probe.throughput_per_s * (1.0 - probe.error_percent / 100.0))
    });
    Usl::fit(&points.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_figures_that_may_be_too_good_prevent_a_verdict() {
        let of = |codes: &[&str], missed: Option<&str>, without_lag: bool| {
            let warning = |code: &&str| {
                let check = validity::CHECKS.iter().find(|check| check.name == *code);
                let check = check.unwrap_or_else(|| panic!("unknown check {code}"));
                Warning {
                    code: (*code).to_owned(),
                    severity: check.severity,
                    scope: check.scope.to_vec(),
                    message: (*code).to_owned(),
                }
            };
            let warnings: Vec<_> = codes.iter().map(warning).collect();
            verdict(&warnings, missed.map(str::to_owned), without_lag).0
        };
        use LevelVerdict::{Inconclusive, Met, Missed};
        for (codes, missed, without_lag, expect) in [
            (&[] as &[&str], None, false, Met),
            (&[], Some("p99"), true, Missed),
            (&["errors"], None, false, Missed),
            (&["rate-not-reached"], None, false, Missed),
            // These only make latencies look worse, so a bound that is met is met.
            (&["generator-late"], None, false, Met),
            (&["generator-saturated", "cpu-steal", "machine-busy"], None, false, Met),
            (&["connections-busy", "stalls", "backend-slow", "clock-step"], None, false, Met),
            // A missed bound may be due to them, unless it is missed by more than the generator's lag.
            (&["generator-saturated"], Some("p99"), true, Inconclusive),
            (&["generator-late"], Some("p99"), false, Inconclusive),
            (&["generator-late"], Some("p99"), true, Missed),
            (&["generator-late", "cpu-steal"], Some("p99"), true, Inconclusive),
            (&["generator-late", "connections-busy"], Some("p99"), true, Missed),
            (&["rate-not-reached", "generator-saturated"], None, false, Inconclusive),
            (&["errors", "littles-law"], Some("errors"), true, Missed),
            (&["littles-law"], None, false, Inconclusive),
            (&["interrupted"], None, false, Inconclusive),
        ] {
            assert_eq!(of(codes, missed, without_lag), expect, "{codes:?} {missed:?}");
        }
    }

    #[test]
    fn with_http2_levels_keep_the_streams_of_a_connection() {
        let own = Options {
            users: 30,
            protocol: Protocol::http2(30, 30),
            threads: 2,
            ..Options::new("http://localhost/")
        };
        for (level, connections, threads) in [(1.0, 1, 1), (30.0, 1, 1), (61.0, 3, 2)] {
            let of = options_at(&own, By::Users, level);
            assert_eq!((of.protocol, of.threads), (Protocol::Http2 { connections }, threads));
            of.check().unwrap_or_else(|error| panic!("{error}"));
        }
        let of = options_at(&own, By::Rate, 500.0);
        assert_eq!((of.protocol, of.users), (own.protocol, 30));
    }

    #[test]
    fn cases_are_judged_like_measurements_and_failed_targets_miss() {
        let slo = Slo::parse("p99 < 5ms").unwrap_or_else(|error| panic!("{error}"));
        let mut found = crate::result::tests::sample();
        found.load = serde_json::json!({
            "requests": 1_000, "errors": 0, "error_percent": 0.0, "seconds": 10.0, "generator_busy": 0.1,
            "throughput_per_s": 100.0, "mean_ms": 2.0, "service_mean_ms": 1.5, "sd_ms": 1.0, "min_ms": 1.0,
            "p50_ms": 2.0, "p75_ms": 2.0, "p90_ms": 2.5, "p95_ms": 2.5, "p98_ms": 3.0, "p99_ms": 3.0,
            "p999_ms": 3.0, "max_ms": 9.0, "shape": { "kind": "arrivals", "rate_per_s": 100.0 },
        });
        let probe = judge_case(By::Rate, 100.0, &slo, &found);
        assert_eq!((probe.verdict, probe.concurrency), (LevelVerdict::Met, 0.15), "{probe:?}");
        (found.load["p99_ms"], found.load["p999_ms"]) = (6.0.into(), 6.0.into());
        assert_eq!(judge_case(By::Rate, 100.0, &slo, &found).reason, "p99 is 6.000 ms");
        found.load["p99_ms"] = Value::Null;
        assert_eq!(judge_case(By::Rate, 100.0, &slo, &found).verdict, LevelVerdict::Inconclusive);
        (found.state, found.reason) = (State::Failed, Some("it ended".to_owned()));
        let probe = judge_case(By::Rate, 100.0, &slo, &found);
        assert_eq!((probe.verdict, probe.reason.as_str()), (LevelVerdict::Missed, "it ended"));
    }

    #[test]
    fn a_search_fits_the_law_to_its_measurements() {
        // 100/s for one user, with contention; the objective is missed above 20 users.
        let law = Usl { lambda: 100.0, sigma: 0.05, kappa: 0.0, error: 0.0, points: 0 };
        let range = Range { from: 1.0, to: 500.0, precision: 0.05, whole: true };
        let measure = |level: f64| -> Result<Option<Probe>, String> {
            let verdict = if level <= 20.0 { LevelVerdict::Met } else { LevelVerdict::Missed };
            let throughput_per_s = law.at(level);
            let mean_ms = 1_000.0 * level / throughput_per_s;
            let (reason, error_percent, concurrency) = (String::new(), 0.0, level);
            let p99_ms = mean_ms;
            Ok(Some(Probe {
                level,
                verdict,
                reason,
                throughput_per_s,
                mean_ms,
                p99_ms,
                error_percent,
                warnings: Vec::new(),
                concurrency,
            }))
        };
        let mut reported = 0;
        let knee = search(range, measure, |_| reported += 1);
        let knee = knee.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((knee.met, knee.missed, knee.ended), (Some(20.0), Some(21.0), SearchEnd::Found));
        assert_eq!(reported, knee.probes.len());
        // Levels measured before an interruption are reported.
        let first_five = |level: f64| if level < 20.0 { measure(level) } else { Ok(None) };
        let part = search(range, first_five, |_| {}).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((part.met, part.ended), (Some(16.0), SearchEnd::Interrupted));
        assert_eq!(part.probes.len(), 5);
        let found = knee.law.unwrap_or_else(|| panic!("no law"));
        assert!((found.sigma - 0.05).abs() < 1e-6 && found.error < 1e-6, "{found:?}");
    }
}
