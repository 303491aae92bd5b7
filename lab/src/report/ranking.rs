//! The ranking of targets, which is the headline of a report: who is first, by how much, and how surely.
//!
//! Targets are compared on the cells (scenario, users, size, delay) and repetitions in which all of them have a usable
//! figure. A repetition is one observation: the geometric mean of its cells. The ratio has the interval that `compare`
//! computes. A difference that is not significant among all targets is reported as none.

use std::collections::{BTreeMap, BTreeSet};

use super::view::{CaseView, median, size, trimmed};
use crate::compare::{Confidence, Samples, ran_interleaved, ratio, significant};
use crate::result::State;
use crate::warning::Figures;

/// Targets in the order of one metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ranking {
    pub(super) metric: &'static RankedMetric,
    /// The best target is first.
    pub(super) places: Vec<Place>,
    /// Cases in which the figure is usable, and measured ones.
    pub(super) usable: (usize, usize),
    /// The number of cells that are compared.
    pub(super) cells: usize,
}

/// A target's place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) target: String,
    /// Relative to the first; `None` for the first itself, and without a cell in common with the others.
    pub(super) ratio: Option<f64>,
    /// 95 %; `None` with fewer than two repetitions.
    pub(super) interval: Option<(f64, f64)>,
    /// Whether it ran interleaved with the first.
    pub(super) interleaved: bool,
    /// Whether the difference is significant among all targets of the ranking.
    pub(super) significant: bool,
    pub(super) repetitions: usize,
    /// The median of its figures that are compared, or of all usable ones.
    pub(super) median: f64,
}

#[derive(Debug, PartialEq)]
pub(super) struct RankedMetric {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// Advantage of the first target: `the least CPU time per request`.
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

/// A case without target and repetition.
type Cell<'v> = (&'v str, u32, u64, u64);

/// The figures and the results of one target.
#[derive(Default)]
struct Target<'v> {
    /// Usable figures by cell and repetition.
    figures: BTreeMap<Cell<'v>, BTreeMap<u32, f64>>,
    /// All results, to see whether targets ran interleaved.
    views: BTreeMap<Cell<'v>, Vec<&'v CaseView>>,
}

/// Cells in which all ranked targets have the same repetitions.
#[derive(Default)]
struct Block<'v> {
    cells: Vec<Cell<'v>>,
    repetitions: BTreeSet<u32>,
}

/// The rankings for which at least one figure is usable.
pub(super) fn rankings(views: &[CaseView]) -> Vec<Ranking> {
    METRICS.iter().filter_map(|metric| ranking(views, metric)).collect()
}

fn ranking(views: &[CaseView], metric: &'static RankedMetric) -> Option<Ranking> {
    let (targets, usable) = targets(views, metric);
    let (ranked, block) = shared(&targets);
    let logs = |target: &Target<'_>| block.logs(target);
    let sign = if metric.more_is_better { -1.0 } else { 1.0 };
    // Last without a cell in common, whichever direction is better.
    let place = |(name, target): &(&String, &Target<'_>)| match ranked.contains(*name) {
        true => sign * logs(target).iter().sum::<f64>(),
        false => f64::INFINITY,
    };
    let mut order: Vec<(&String, &Target<'_>)> = targets.iter().collect();
    order.sort_by(|one, other| place(one).total_cmp(&place(other)));
    let (_, first) = *order.first()?;
    let places = order.iter().enumerate().map(|(place, (name, target))| {
        let is_compared = place > 0 && ranked.contains(*name);
        let interleaved = block.ran_interleaved(first, target);
        let samples = is_compared.then(|| samples(&logs(first), &logs(target), interleaved));
        let sure = samples.and_then(|samples| ratio(&samples, Confidence::Percent95));
        let of_block = || block.cells.iter().filter_map(|cell| target.figures.get(cell));
        let all = || target.figures.values().flat_map(|figures| figures.values().copied());
        let place = Place {
            target: (*name).clone(),
            ratio: is_compared.then(|| (mean(&logs(target)) - mean(&logs(first))).exp()),
            interval: sure.map(|sure| (sure.low, sure.high)),
            interleaved,
            significant: false,
            repetitions: if is_compared { block.repetitions.len() } else { 0 },
            median: match ranked.contains(*name) {
                true => median(of_block().flat_map(|figures| block.of(figures))),
                false => median(all()),
            }
            .unwrap_or_default(),
        };
        (place, sure.map(|sure| sure.chance))
    });
    let (mut places, chances): (Vec<Place>, Vec<Option<f64>>) = places.unzip();
    let known: Vec<f64> = chances.iter().copied().flatten().collect();
    let compared = places.iter_mut().filter(|place| place.interval.is_some());
    for (place, significant) in compared.zip(significant(&known, SIGNIFICANCE)) {
        place.significant = significant;
    }
    Some(Ranking { metric, places, usable, cells: block.cells.len() })
}

/// The targets with usable figures; in how many cases they are usable, and how many have any.
fn targets<'v>(
    views: &'v [CaseView],
    metric: &RankedMetric,
) -> (BTreeMap<String, Target<'v>>, (usize, usize)) {
    let figure = |view: &CaseView| match metric.kind {
        Kind::Cpu => view.cpu_us(),
        Kind::Load(name) => view.exact(name),
    };
    let mut targets: BTreeMap<String, Target<'v>> = BTreeMap::new();
    let mut usable = (0, 0);
    for view in views {
        let Some(value) = figure(view).filter(|value| *value > 0.0) else { continue };
        let case = &view.result().case;
        let cell = (case.scenario.as_str(), case.users, case.payload_bytes, case.delay_ms);
        let target = targets.entry(view.name()).or_default();
        target.views.entry(cell).or_default().push(view);
        usable.1 += 1;
        if view.is_usable(metric.figures) {
            usable.0 += 1;
            target.figures.entry(cell).or_default().insert(case.repetition, value);
        }
    }
    targets.retain(|_, target| !target.figures.is_empty());
    (targets, usable)
}

/// The targets that can be compared, and their common cells. Begins with the target that shares cells with most others.
fn shared<'v>(targets: &BTreeMap<String, Target<'v>>) -> (BTreeSet<String>, Block<'v>) {
    let overlap = |one: &Target<'v>, other: &Target<'v>| {
        one.figures.keys().filter(|cell| other.figures.contains_key(*cell)).count()
    };
    let sharing =
        |one: &Target<'v>| targets.values().filter(|other| overlap(one, other) > 0).count();
    let reference = targets.values().max_by_key(|target| (sharing(target), target.figures.len()));
    let Some(reference) = reference else { return Default::default() };
    let mut order: Vec<(&String, &Target<'v>)> = targets.iter().collect();
    order.sort_by_key(|(_, target)| std::cmp::Reverse(overlap(reference, target)));
    let numbers = |figures: &BTreeMap<u32, f64>| figures.keys().copied().collect();
    let mut cells: BTreeMap<Cell<'v>, BTreeSet<u32>> =
        reference.figures.iter().map(|(cell, figures)| (*cell, numbers(figures))).collect();
    let mut ranked = BTreeSet::new();
    for (name, target) in order {
        let both = |(cell, known): (&Cell<'v>, &BTreeSet<u32>)| {
            let both: BTreeSet<u32> = &numbers(target.figures.get(cell)?) & known;
            (!both.is_empty()).then_some((*cell, both))
        };
        let left: BTreeMap<_, _> = cells.iter().filter_map(both).collect();
        if !left.is_empty() {
            cells = left;
            ranked.insert(name.clone());
        }
    }
    (ranked, Block::largest(&cells))
}

impl<'v> Block<'v> {
    /// The block with the most figures of those that have several repetitions, or else of one.
    fn largest(cells: &BTreeMap<Cell<'v>, BTreeSet<u32>>) -> Self {
        let block = |repetitions: &BTreeSet<u32>| Self {
            cells: cells
                .iter()
                .filter(|(_, known)| repetitions.is_subset(known))
                .map(|(cell, _)| *cell)
                .collect(),
            repetitions: repetitions.clone(),
        };
        let size = |block: &Self| {
            let count = block.repetitions.len();
            (count > 1, count * block.cells.len())
        };
        cells.values().map(block).max_by_key(size).unwrap_or_default()
    }

    /// For each repetition, the mean of the logarithms of the target's figures.
    fn logs(&self, target: &Target<'_>) -> Vec<f64> {
        let of = |repetition: &u32| {
            let figure = |cell| Some(target.figures.get(cell)?.get(repetition)?.ln());
            mean(&self.cells.iter().filter_map(figure).collect::<Vec<_>>())
        };
        self.repetitions.iter().map(of).collect()
    }

    fn of(&self, figures: &BTreeMap<u32, f64>) -> Vec<f64> {
        self.repetitions.iter().filter_map(|number| figures.get(number).copied()).collect()
    }

    fn ran_interleaved(&self, one: &Target<'_>, other: &Target<'_>) -> bool {
        let both = |cell| Some((one.views.get(cell)?, other.views.get(cell)?));
        self.cells.iter().filter_map(both).all(|(one, other)| ran_interleaved(one, other))
    }
}

/// Logarithms as the figures of repetitions.
fn samples(first: &[f64], other: &[f64], interleaved: bool) -> Samples {
    let figures = |logs: &[f64]| logs.iter().map(|log| log.exp()).collect::<Vec<f64>>();
    let (first, other) = (figures(first), figures(other));
    if interleaved {
        Samples::Pairs(first.into_iter().zip(other).collect())
    } else {
        Samples::Apart(first, other)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

impl Ranking {
    /// The verdict in a sentence; `None` if there is only one target.
    pub(super) fn sentence(&self) -> Option<String> {
        let (first, others) = self.places.split_first()?;
        if others.is_empty() {
            return None;
        }
        let compared = || others.iter().filter_map(|place| Some((place, place.ratio?)));
        // Without an interval, a ratio that would be printed as 1.00.
        let is_one = |place: &Place| place.ratio.is_some_and(|ratio| (ratio - 1.0).abs() < 0.005);
        let same =
            |place: &Place| !place.significant && (place.interval.is_some() || is_one(place));
        let mut text = if compared().next().is_none() {
            "No two targets have a case in common.".to_owned()
        } else if compared().all(|(place, _)| same(place)) {
            let ratios = compared().map(|(place, ratio)| format!("{} {ratio:.2}", place.target));
            format!(
                "Can't tell which target has {}: relative to {}, {}, within the noise.",
                self.metric.best,
                first.target,
                ratios.collect::<Vec<_>>().join(", ")
            )
        } else {
            let describe = |(place, ratio): (&Place, f64)| match place.interval {
                Some(_) if same(place) => format!("{}: no significant difference", place.target),
                Some((low, high)) => {
                    format!("{}: {ratio:.2} times that ({low:.2} to {high:.2})", place.target)
                }
                None => format!("{}: {ratio:.2} times that (measured once)", place.target),
            };
            let others: Vec<String> = compared().map(describe).collect();
            format!("{} has {}; {}.", first.target, self.metric.best, others.join("; "))
        };
        let left_out = others.iter().filter(|place| place.ratio.is_none());
        let left_out: Vec<&str> = left_out.map(|place| place.target.as_str()).collect();
        if !left_out.is_empty() && compared().next().is_some() {
            text += &format!(
                " Not ranked, without a case in common with all others: {}.",
                left_out.join(", ")
            );
        }
        if compared().any(|(place, _)| place.interval.is_some() && !place.interleaved) {
            text += " The targets did not run interleaved, so the ratios include any drift.";
        }
        Some(text)
    }
}

/// The verdict in one line: the first ranking with several targets, or the figures of a single target.
#[must_use]
pub fn headline(views: &[CaseView]) -> String {
    verdict(views).unwrap_or_else(|| single(views, &rankings(views)))
}

/// The first ranking with several targets, in one line.
pub(super) fn verdict(views: &[CaseView]) -> Option<String> {
    rankings(views).iter().find_map(Ranking::sentence)
}

/// The best figures of the only target, with their case.
fn single(views: &[CaseView], rankings: &[Ranking]) -> String {
    let Some(place) = rankings.iter().find_map(|ranking| ranking.places.first()) else {
        let is_measured = views.iter().any(|view| view.result().state == State::Measured);
        let text = if is_measured {
            "No figure is usable; see the warnings."
        } else {
            "Nothing was measured."
        };
        return text.to_owned();
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
            Self { metric: &METRICS[0], places, usable: (1, 1), cells: 1 }
        }
    }

    pub(in crate::report) fn place(
        target: &str,
        ratio: Option<f64>,
        interval: Option<(f64, f64)>,
    ) -> Place {
        let significant = interval.is_some();
        let (repetitions, interleaved, median) = (2, true, 1.0);
        let target = target.to_owned();
        Place { target, ratio, interval, interleaved, significant, repetitions, median }
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
             to 2.00). Not ranked, without a case in common with all others: d."
        );
    }

    #[test]
    fn a_target_without_a_case_in_common_is_last_where_more_is_better() {
        let rate = |target: &str, scenario: &str, repetition: u32, per_s: f64| {
            let mut view = view(target, scenario, repetition, 1.0);
            view.found.result.load["throughput_per_s"] = per_s.into();
            view
        };
        let mut views = vec![rate("other", "other", 1, 9_000.0)];
        for repetition in 1..=2 {
            views.push(rate("slow", "plain", repetition, 1_000.0));
            views.push(rate("fast", "plain", repetition, 2_000.0));
        }
        let throughput = ranking(&views, &METRICS[1]).unwrap();
        let order: Vec<&str> = throughput.places.iter().map(|place| &*place.target).collect();
        assert_eq!(order, ["fast", "slow", "other"]);
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
    fn a_repetition_is_one_observation_however_many_cells_it_has() {
        // Twice the CPU time in all cells but for noise of 1 %, while the cells' ratios are 1.2 to 3.5.
        let cells = [("a", 1.2), ("b", 1.5), ("c", 3.5)];
        let mut views = Vec::new();
        for (repetition, noise) in [(1, 1.0), (2, 1.01), (3, 0.99)] {
            for (scenario, ratio) in cells {
                views.push(view("first", scenario, repetition, 10.0));
                views.push(view("second", scenario, repetition, 10.0 * ratio * noise));
            }
        }
        let found = rankings(&views).swap_remove(0);
        let second = &found.places[1];
        assert!(second.significant && second.interval.unwrap().0 > 1.8, "{second:?}");
        assert_eq!((second.repetitions, found.cells), (3, 3));
        // A repetition that is not usable in one cell leaves that cell out.
        views.remove(0);
        let found = rankings(&views).swap_remove(0);
        assert_eq!((found.places[1].repetitions, found.cells), (3, 2));
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
        assert_eq!(headline(&[b.clone()]), "No figure is usable; see the warnings.");
        b.found.result.state = State::Failed;
        assert_eq!(headline(&[b]), "Nothing was measured.");
    }
}
