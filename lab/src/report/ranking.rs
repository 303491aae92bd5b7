//! The ranking of targets, which is the headline of a report: who is first, by how much, and how surely.
//!
//! Targets are compared on the cases and repetitions that both have and whose figures are usable: the ratio is the
//! geometric mean over these pairs, with the interval that `compare` computes. A difference that is not significant among
//! all targets is reported as none.

use std::collections::BTreeMap;

use super::view::{CaseView, size, trimmed};
use crate::compare::{Confidence, Samples, ratio, significant};
use crate::warning::Figures;

/// Targets in the order of one metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ranking {
    pub(super) metric: &'static RankedMetric,
    /// The best target is first.
    pub(super) places: Vec<Place>,
    /// Cases in which the figure is usable, and measured ones.
    pub(super) usable: (usize, usize),
}

/// A target's place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) target: String,
    /// Relative to the first; `None` for the first itself, and without a pair in common with it.
    pub(super) ratio: Option<f64>,
    /// 95 %; `None` with fewer than two pairs.
    pub(super) interval: Option<(f64, f64)>,
    /// Whether the difference is significant among all targets of the ranking.
    pub(super) significant: bool,
    pub(super) pairs: usize,
    /// The median of its usable figures.
    pub(super) median: f64,
}

#[derive(Debug, PartialEq)]
pub(super) struct RankedMetric {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// What the first target has: `the least CPU time per request`.
    best: &'static str,
    more_is_better: bool,
    figures: Figures,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cpu,
    Load(&'static str),
}

#[rustfmt::skip]
const METRICS: &[RankedMetric] = &[
    RankedMetric { name: "CPU per request", unit: "us", best: "the least CPU time per request",
        more_is_better: false, figures: Figures::Cpu, kind: Kind::Cpu },
    RankedMetric { name: "Throughput", unit: "requests/s", best: "the highest throughput",
        more_is_better: true, figures: Figures::Rate, kind: Kind::Load("throughput_per_s") },
    RankedMetric { name: "99th percentile", unit: "ms", best: "the lowest 99th percentile of response times",
        more_is_better: false, figures: Figures::Latency, kind: Kind::Load("p99_ms") },
];

/// As that of the intervals.
const SIGNIFICANCE: f64 = 0.05;

/// A case and its repetition, without the target.
type Key<'a> = (&'a str, u32, u64, u64, u32);

/// The rankings for which at least one figure is usable.
pub(super) fn rankings(views: &[CaseView]) -> Vec<Ranking> {
    METRICS.iter().filter_map(|metric| ranking(views, metric)).collect()
}

fn ranking(views: &[CaseView], metric: &'static RankedMetric) -> Option<Ranking> {
    let figure = |view: &CaseView| match metric.kind {
        Kind::Cpu => view.cpu_us(),
        Kind::Load(name) => view.exact(name),
    };
    let mut targets: BTreeMap<String, BTreeMap<Key<'_>, f64>> = BTreeMap::new();
    let mut usable = (0, 0);
    for view in views {
        let Some(value) = figure(view).filter(|value| *value > 0.0) else { continue };
        usable.1 += 1;
        if view.is_usable(metric.figures) {
            usable.0 += 1;
            let case = &view.result().case;
            let key = (
                case.scenario.as_str(),
                case.users,
                case.payload_bytes,
                case.delay_ms,
                case.repetition,
            );
            targets.entry(view.name()).or_default().insert(key, value);
        }
    }
    let (_, reference) = targets.iter().max_by_key(|(_, figures)| figures.len())?;
    let sign = if metric.more_is_better { -1.0 } else { 1.0 };
    let mut order: Vec<(&String, &BTreeMap<Key<'_>, f64>)> = targets.iter().collect();
    order.sort_by(|(_, one), (_, other)| {
        let of = |figures| mean_ratio(&pairs(reference, figures)).unwrap_or(f64::INFINITY) * sign;
        of(one).total_cmp(&of(other))
    });
    let (_, first) = *order.first()?;
    let places = order.iter().enumerate().map(|(place, (target, figures))| {
        let pairs = if place == 0 { Vec::new() } else { pairs(first, figures) };
        let sure = ratio(&Samples::Pairs(pairs.clone()), Confidence::Percent95);
        let place = Place {
            target: (*target).clone(),
            ratio: mean_ratio(&pairs),
            interval: sure.map(|sure| (sure.low, sure.high)),
            significant: false,
            pairs: pairs.len(),
            median: median(figures.values().copied()),
        };
        (place, sure.map(|sure| sure.chance))
    });
    let (mut places, chances): (Vec<Place>, Vec<Option<f64>>) = places.unzip();
    let known: Vec<f64> = chances.iter().copied().flatten().collect();
    let compared = places.iter_mut().filter(|place| place.interval.is_some());
    for (place, significant) in compared.zip(significant(&known, SIGNIFICANCE)) {
        place.significant = significant;
    }
    Some(Ranking { metric, places, usable })
}

fn pairs(of: &BTreeMap<Key<'_>, f64>, to: &BTreeMap<Key<'_>, f64>) -> Vec<(f64, f64)> {
    of.iter().filter_map(|(key, value)| Some((*value, *to.get(key)?))).collect()
}

/// The geometric mean.
fn mean_ratio(pairs: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<f64> = pairs.iter().map(|(of, to)| (to / of).ln()).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

impl Ranking {
    /// The verdict in a sentence; `None` if there is only one target.
    pub(super) fn sentence(&self) -> Option<String> {
        let (first, others) = self.places.split_first()?;
        if others.is_empty() {
            return None;
        }
        let describe = |place: &Place| match (place.ratio, place.interval) {
            (None, _) => format!("{} has no case in common with it", place.target),
            (Some(_), Some(_)) if !place.significant => {
                format!("{}: no significant difference", place.target)
            }
            (Some(ratio), Some((low, high))) => {
                format!("{}: {ratio:.2} times that ({low:.2} to {high:.2})", place.target)
            }
            (Some(ratio), None) => {
                format!("{}: {ratio:.2} times that (measured once)", place.target)
            }
        };
        let same = |place: &Place| place.interval.is_some() && !place.significant;
        if others.iter().all(same) {
            let ratios = others.iter().filter_map(|place| Some((&place.target, place.ratio?)));
            let ratios: Vec<String> =
                ratios.map(|(target, ratio)| format!("{target} {ratio:.2}")).collect();
            return Some(format!(
                "Can't tell which target has {}: relative to {}, {}, within the noise.",
                self.metric.best,
                first.target,
                ratios.join(", ")
            ));
        }
        let others: Vec<String> = others.iter().map(describe).collect();
        Some(format!("{} has {}; {}.", first.target, self.metric.best, others.join("; ")))
    }
}

/// The verdict in one line: the first ranking with several targets, or the figures of a single target.
pub(super) fn headline(views: &[CaseView]) -> String {
    let rankings = rankings(views);
    let sentence = rankings.iter().find_map(Ranking::sentence);
    sentence.unwrap_or_else(|| single(views, &rankings))
}

/// The best figures of the only target, with their case.
fn single(views: &[CaseView], rankings: &[Ranking]) -> String {
    let Some(place) = rankings.iter().find_map(|ranking| ranking.places.first()) else {
        return "No figure is usable; see the warnings.".to_owned();
    };
    let rate = |view: &&CaseView| view.exact("throughput_per_s").unwrap_or(0.0);
    let fastest = views.iter().max_by(|one, other| rate(one).total_cmp(&rate(other)));
    let Some(view) = fastest else { return String::new() };
    let case = &view.result().case;
    let number = |name: &str| trimmed(view.exact(name).unwrap_or(0.0), 3);
    let cpu = view.cpu_us().map_or(String::new(), |us| format!(", {us:.1} us CPU per request"));
    format!(
        "{}: {:.0} requests/s, p50 {} ms, p99 {} ms, errors {} %{cpu} ({}, {} users, {}).",
        place.target,
        rate(&view),
        number("p50_ms"),
        number("p99_ms"),
        number("error_percent"),
        case.scenario,
        case.users,
        size(case.payload_bytes)
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
pub(super) mod tests {
    use super::*;
    use crate::report::results::StoredResult;
    use crate::result::tests::sample;

    fn view(target: &str, scenario: &str, repetition: u32, cpu_us: f64) -> CaseView {
        let mut result = sample();
        (result.case.target, result.case.scenario) = (target.to_owned(), scenario.to_owned());
        (result.case.repetition, result.case.sweep, result.case.heap) = (repetition, None, None);
        result.load =
            serde_json::json!({"throughput_per_s": 1_000.0, "requests": 100, "errors": 0});
        result.target_use.as_mut().unwrap().cpu_user_us = cpu_us;
        CaseView::new(StoredResult { file: "result.json".into(), result })
    }

    impl Ranking {
        pub(in crate::report) fn of_cpu(places: Vec<Place>) -> Self {
            Self { metric: &METRICS[0], places, usable: (1, 1) }
        }
    }

    pub(in crate::report) fn place(
        target: &str,
        ratio: Option<f64>,
        interval: Option<(f64, f64)>,
    ) -> Place {
        let significant = interval.is_some();
        Place { target: target.to_owned(), ratio, interval, significant, pairs: 2, median: 1.0 }
    }

    #[test]
    fn targets_are_ranked_by_the_cases_that_they_share() {
        let mut views = Vec::new();
        for repetition in 1..=4 {
            let drift = 1.0 + 0.1 * f64::from(repetition);
            views.push(view("a", "plain", repetition, 10.0 * drift));
            views.push(view("b", "plain", repetition, 20.0 * drift * (1.0 + 0.001 * drift)));
            // A cheaper scenario that only this target serves does not make it first.
            views.push(view("b", "cheap", repetition, 1.0));
            views.push(view(
                "c",
                "plain",
                repetition,
                10.0 * drift * [0.9, 1.2, 0.95, 1.1][repetition as usize - 1],
            ));
            views.push(view("d", "other", repetition, 1.0));
        }
        assert_eq!(
            headline(&views),
            "a has the least CPU time per request; c: no significant difference; b: 2.00 times that (2.00 \
             to 2.00); d has no case in common with it."
        );
    }

    #[test]
    fn a_difference_must_be_significant_among_all_targets() {
        // The interval of `b` is just above 1. Among nine others like it, that happens by chance.
        let noise = [1.02, 1.05, 1.03, 1.08];
        let of = |others: usize| {
            let mut views = Vec::new();
            for (repetition, noise) in (1..).zip(noise) {
                views.push(view("a", "plain", repetition, 10.0));
                for other in 0..others {
                    views.push(view(&format!("b{other}"), "plain", repetition, 10.0 * noise));
                }
            }
            rankings(&views).swap_remove(0).places.swap_remove(1)
        };
        let (alone, among) = (of(1), of(9));
        assert!(alone.significant && !among.significant, "{alone:?} {among:?}");
        assert_eq!(alone.interval, among.interval);
    }

    #[test]
    fn noise_is_called_noise() {
        let views: Vec<CaseView> = [(1, 10.0, 11.0), (2, 12.0, 11.0), (3, 10.0, 10.5)]
            .into_iter()
            .flat_map(|(n, a, b)| [view("a", "plain", n, a), view("b", "plain", n, b)])
            .collect();
        assert_eq!(
            headline(&views),
            "Can't tell which target has the least CPU time per request: relative to a, b 1.02, within the \
             noise."
        );
    }

    #[test]
    fn unusable_figures_are_not_ranked() {
        let (a, mut b) = (view("a", "plain", 1, 10.0), view("b", "plain", 1, 1.0));
        assert_eq!(
            headline(&[a.clone(), b.clone()]),
            "b has the least CPU time per request; a: 10.00 times that (measured once)."
        );
        b.warnings = vec![crate::validity::recorded("errors", "all failed")];
        let rankings = rankings(&[a.clone(), b.clone()]);
        assert_eq!((rankings[0].places.len(), rankings[0].usable), (1, (1, 2)));
        assert!(headline(&[a, b.clone()]).starts_with("a: 1000 requests/s"));
        assert_eq!(headline(&[b]), "No figure is usable; see the warnings.");
    }
}
