//! The knee of a target: the highest load at which an objective still holds.
//!
//! Reads an objective ([`Slo`]), a range of levels and what to send; answers a [`Knee`]: what holds, what
//! breaks, every measurement between, and the Universal Scalability Law that fits them ([`Usl`]). By rate
//! the loop is open and latency counts from when a request was due; by users it is closed, as published.
//!
//! Each measurement goes through the gates. What they say of the target (it failed, stalled, or fell
//! behind the rate) breaks the objective; what they say of the measuring (the generator was the limit)
//! makes the level doubtful: it is measured once more, and then the search ends with what it knows.
//!
//! Architecture invariant: a level is never said to hold by a measurement that has a doubt.

mod search;
mod slo;
mod usl;

pub use search::{Became, Ended, Range, Search};
pub use slo::{Slo, SloError};
pub use usl::{POINTS_MIN, Usl};

use crate::gates::{self, Doubt};
use crate::load::{LoadError, Options, Report, Shape};

/// Gates whose doubt is about the target: under too much load it fails, stalls and falls behind.
const OF_TARGET: &[&str] = &[
    "nothing-measured",
    "errors",
    "wrong-bodies",
    "status-mix",
    "mean-out-of-bounds",
    "rate-not-reached",
    "connections-busy",
];

/// What is searched.
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
    pub became: Became,
    /// Which bound broke, or what is doubtful.
    pub why: String,
    pub throughput_per_s: f64,
    pub mean_ms: f64,
    pub p99_ms: f64,
    pub error_percent: f64,
    /// Requests in the target: the users of a closed loop, rate x service time in an open one.
    pub concurrency: f64,
}

/// What the search found.
#[derive(Clone, Debug)]
pub struct Knee {
    pub holds: Option<f64>,
    pub breaks: Option<f64>,
    pub ended: Ended,
    /// In the order in which they were made.
    pub probes: Vec<Probe>,
    /// Fitted to every measurement that is not doubtful; `None` where they are too few.
    pub law: Option<Usl>,
}

/// Searches; `measure` makes the measurement at a level, `told` hears of each.
///
/// # Errors
/// What `measure` says.
pub fn search<E>(
    range: Range,
    mut measure: impl FnMut(f64) -> Result<Probe, E>,
    mut told: impl FnMut(&Probe),
) -> Result<Knee, E> {
    let mut search = Search::new(range);
    let mut probes = Vec::new();
    let ended = loop {
        match search.propose() {
            Err(ended) => break ended,
            Ok(level) => {
                let probe = measure(level)?;
                search.told(level, probe.became);
                told(&probe);
                probes.push(probe);
            }
        }
    };
    let (holds, breaks) = search.between();
    Ok(Knee { holds, breaks, ended, law: law(&probes), probes })
}

/// Measures a level with the load generator, and judges it.
///
/// # Errors
/// [`LoadError`] when nothing could be measured.
pub fn measure(options: &Options, by: By, level: f64, slo: &Slo) -> Result<Probe, LoadError> {
    let mut options = options.clone();
    match by {
        By::Rate => options.shape = Shape::Arrivals { rate_per_s: level },
        By::Users => {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
            let users = level.round().clamp(1.0, u32::MAX.into()) as usize;
            (options.users, options.threads) = (users, options.threads.min(users));
        }
    }
    let report = crate::load::run(&options, &mut |_| {})?;
    Ok(judge(by, level, slo, &report))
}

fn judge(by: By, level: f64, slo: &Slo, report: &Report) -> Probe {
    let (became, why) = verdict(&report.doubts(), slo.broken_by(report));
    let error_percent = 100.0 * report.errors as f64 / (report.requests as f64).max(1.0);
    Probe {
        level,
        became,
        why,
        throughput_per_s: report.throughput_per_s,
        mean_ms: report.latency.mean_ms,
        p99_ms: report.latency.p99_ms,
        error_percent,
        concurrency: match by {
            // Those under way, not those that the generator keeps until a connection is free.
            By::Rate => gates::in_flight(
                report.throughput_per_s,
                report.open.map_or(report.latency, |open| open.service).mean_ms,
            ),
            By::Users => level,
        },
    }
}

/// Doubts about the measuring come first: a bound that breaks because of the generator says nothing. Then
/// the objective; and where it holds, what the gates say of the target.
fn verdict(doubts: &[Doubt], broken: Option<String>) -> (Became, String) {
    let told = |doubt: &Doubt| doubt.message.clone();
    // A target that fails makes a closed loop's figures disagree: that is its doing.
    let target = doubts.iter().find(|doubt| OF_TARGET.contains(&doubt.gate));
    let measuring = doubts.iter().find(|doubt| !OF_TARGET.contains(&doubt.gate));
    match (measuring, broken, target) {
        (Some(doubt), _, _) if doubt.gate != "littles-law" => (Became::Doubtful, told(doubt)),
        (_, Some(broken), _) => (Became::Breaks, broken),
        (_, None, Some(doubt)) => (Became::Breaks, told(doubt)),
        (Some(doubt), None, None) => (Became::Doubtful, told(doubt)),
        (None, None, None) => (Became::Holds, String::new()),
    }
}

fn law(probes: &[Probe]) -> Option<Usl> {
    let sound = probes.iter().filter(|probe| probe.became != Became::Doubtful);
    // What failed is no throughput.
    let points = sound.map(|probe| {
        (probe.concurrency, probe.throughput_per_s * (1.0 - probe.error_percent / 100.0))
    });
    Usl::fit(&points.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_about_the_measuring_are_told_from_a_target_that_breaks() {
        let doubt = |gate| Doubt { gate, message: gate.to_owned() };
        let of = |gates: &[&'static str], broken: Option<&str>| {
            let doubts: Vec<Doubt> = gates.iter().map(|gate| doubt(gate)).collect();
            verdict(&doubts, broken.map(str::to_owned)).0
        };
        assert_eq!(of(&[], None), Became::Holds);
        assert_eq!(of(&[], Some("p99")), Became::Breaks);
        assert_eq!(of(&["errors"], None), Became::Breaks);
        assert_eq!(of(&["rate-not-reached", "connections-busy"], None), Became::Breaks);
        assert_eq!(of(&["generator-saturated"], Some("p99")), Became::Doubtful);
        assert_eq!(of(&["errors", "littles-law"], Some("errors")), Became::Breaks);
        assert_eq!(of(&["littles-law"], None), Became::Doubtful);
        assert_eq!(of(&["interrupted"], None), Became::Doubtful);
    }

    #[test]
    fn a_search_fits_the_law_to_what_it_measured() {
        // 100/s for one user, with contention; the objective breaks above 20 users.
        let law = Usl { lambda: 100.0, sigma: 0.05, kappa: 0.0, error: 0.0, points: 0 };
        let range = Range { from: 1.0, to: 500.0, precision: 0.05, whole: true };
        let measure = |level: f64| -> Result<Probe, String> {
            let became = if level <= 20.0 { Became::Holds } else { Became::Breaks };
            let throughput_per_s = law.at(level);
            let mean_ms = 1_000.0 * level / throughput_per_s;
            let (why, error_percent, concurrency) = (String::new(), 0.0, level);
            let p99_ms = mean_ms;
            Ok(Probe {
                level,
                became,
                why,
                throughput_per_s,
                mean_ms,
                p99_ms,
                error_percent,
                concurrency,
            })
        };
        let mut heard = 0;
        let knee = search(range, measure, |_| heard += 1);
        let knee = knee.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((knee.holds, knee.breaks, knee.ended), (Some(20.0), Some(21.0), Ended::Found));
        assert_eq!(heard, knee.probes.len());
        let found = knee.law.unwrap_or_else(|| panic!("no law"));
        assert!((found.sigma - 0.05).abs() < 1e-6 && found.error < 1e-6, "{found:?}");
    }
}
