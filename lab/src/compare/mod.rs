//! Compares two sets of results case by case: faster, slower, same, or inconclusive.
//!
//! Returns a [`Comparison`] per case and metric with the ratio B/A, its confidence interval, and the smallest effect
//! that this number of repetitions can detect. A result is excluded from the metrics that its warnings concern. If A
//! and B ran interleaved, repetitions are compared in pairs; otherwise the comparison is marked, since the ratio then
//! includes any drift.
//!
//! With many comparisons, some differ by chance. Faster and slower are therefore reported only for
//! differences that are significant after correction for multiple comparisons (Holm, "A Simple Sequentially
//! Rejective Multiple Test Procedure", 1979).
//!
//! Architecture invariant: no verdict from a figure that a warning concerns, and none from a single repetition.

mod interval;
mod student;
mod thresholds;

use std::collections::{BTreeMap, BTreeSet};

pub use interval::{Confidence, Ratio, Samples, ratio};
pub use thresholds::{CaseThreshold, Metric, Thresholds, WITHIN_PERCENT};

use crate::report::CaseView;
use crate::report::results::natural;
use crate::result::State;
use crate::warning::Warning;

/// The verdict on a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// B is significantly better.
    Faster,
    /// B is significantly worse.
    Slower,
    /// The whole interval is within the bound.
    Same,
    /// The interval is too wide, or the difference is not significant.
    Inconclusive,
    /// Missing, excluded, or measured only once on one side.
    NotComparable,
    /// A target does not serve the scenario, so there is nothing to compare.
    NotServed,
}

/// One case and metric.
#[derive(Clone, Debug)]
pub struct Comparison {
    pub case: String,
    pub metric: Metric,
    pub verdict: Verdict,
    /// B over A; `None` if not comparable.
    pub ratio: Option<Ratio>,
    /// The bound for "same", as a fraction.
    pub within: f64,
    /// Repetitions used, of A and B.
    pub repetitions: (usize, usize),
    /// Results excluded because a warning concerns this metric, of A and B.
    pub excluded: (usize, usize),
    /// Whether A and B ran interleaved.
    pub interleaved: bool,
    /// Why the case is not comparable, and the codes of the warnings that exclude results.
    pub note: String,
    /// Warnings of all results of the case, each once.
    pub warnings: Vec<Warning>,
}

/// The verdict on all cases, for CI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverallVerdict {
    /// No regression, and every case has a verdict.
    Passed,
    /// At least one case is slower.
    Regression,
    /// No regression found, but at least one case has no verdict.
    Inconclusive,
}

/// One side of a comparison: results, and optionally the target to select.
pub struct Side<'a> {
    pub views: &'a [CaseView],
    pub target: Option<&'a str>,
}

/// Compares every case of either side.
///
/// # Errors
/// A threshold is out of range, or neither side has a case.
pub fn compare(
    a: &Side<'_>,
    b: &Side<'_>,
    thresholds: &Thresholds,
) -> Result<Vec<Comparison>, String> {
    thresholds.check()?;
    let confidence = thresholds.confidence()?;
    let by_target = a.target.is_some() && b.target.is_some();
    let mut cases: BTreeMap<String, [Vec<&CaseView>; 2]> = BTreeMap::new();
    for (index, side) in [a, b].into_iter().enumerate() {
        for view in side.of_target() {
            let found = cases.entry(key(view, !by_target)).or_default();
            found.get_mut(index).into_iter().for_each(|views| views.push(view));
        }
    }
    if cases.is_empty() {
        return Err("no case matches on either side".to_owned());
    }
    let mut cases: Vec<_> = cases.into_iter().collect();
    cases.sort_by_cached_key(|(case, _)| natural(case));
    let mut found = Vec::new();
    for (case, [a, b]) in &cases {
        for &metric in &thresholds.metrics {
            // Without processes of its own, such as a remote system, a target has no CPU time.
            let unknown = |view: &&CaseView| {
                view.result().state == State::Measured && figure(view, metric).is_none()
            };
            if metric == Metric::Cpu && [a, b].into_iter().flatten().any(unknown) {
                continue;
            }
            found.push(judge(case, metric, (a, b), (thresholds.within(case), confidence)));
        }
    }
    correct_for_multiplicity(&mut found, f64::from(100 - confidence.percent()) / 100.0);
    Ok(found)
}

/// Whether each p-value is significant, by the Holm correction: the smallest is compared with `alpha` divided by the
/// number of comparisons, the next with `alpha` divided by one less, until one is not significant.
pub(crate) fn significant(chances: &[f64], alpha: f64) -> Vec<bool> {
    let mut order: Vec<(usize, f64)> = chances.iter().copied().enumerate().collect();
    order.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut found = vec![false; chances.len()];
    for (place, (index, chance)) in order.into_iter().enumerate() {
        if chance > alpha / (chances.len() - place) as f64 {
            break;
        }
        found[index] = true;
    }
    found
}

fn correct_for_multiplicity(found: &mut [Comparison], alpha: f64) {
    let mut compared: Vec<&mut Comparison> =
        found.iter_mut().filter(|one| one.ratio.is_some()).collect();
    let chances = compared.iter().filter_map(|one| Some(one.ratio?.chance)).collect::<Vec<_>>();
    let all = chances.len();
    for (one, significant) in compared.iter_mut().zip(significant(&chances, alpha)) {
        if !significant && matches!(one.verdict, Verdict::Faster | Verdict::Slower) {
            one.verdict = Verdict::Inconclusive;
            let reason = format!("not significant among {all} comparisons");
            one.note = if one.note.is_empty() { reason } else { format!("{reason}; {}", one.note) };
        }
    }
}

/// The verdict on all cases.
#[must_use]
pub fn outcome(found: &[Comparison]) -> OverallVerdict {
    let any = |wanted: &[Verdict]| found.iter().any(|one| wanted.contains(&one.verdict));
    if any(&[Verdict::Slower]) {
        OverallVerdict::Regression
    } else if any(&[Verdict::Inconclusive, Verdict::NotComparable])
        || !any(&[Verdict::Faster, Verdict::Same])
    {
        OverallVerdict::Inconclusive
    } else {
        OverallVerdict::Passed
    }
}

impl<'a> Side<'a> {
    fn of_target(&self) -> impl Iterator<Item = &'a CaseView> {
        let target = self.target.map(str::to_owned);
        self.views.iter().filter(move |view| {
            let is =
                |target: &String| view.result().case.target == *target || view.target() == *target;
            target.as_ref().is_none_or(is)
        })
    }
}

/// The case's name; includes the target, unless two targets are compared.
fn key(view: &CaseView, with_target: bool) -> String {
    let case = &view.result().case;
    let mut parts = vec![case.scenario.clone()];
    parts.extend(with_target.then(|| view.target()));
    parts.extend(case.heap.as_ref().map(|heap| format!("{heap} heap")));
    parts.push(format!("{} users", case.users));
    parts.push(format!("{}B", case.payload_bytes));
    parts.push(format!("{} ms", case.delay_ms));
    parts.join(", ")
}

fn judge(
    case: &str,
    metric: Metric,
    (a, b): (&[&CaseView], &[&CaseView]),
    (within, confidence): (f64, Confidence),
) -> Comparison {
    let used = |side: &[&CaseView]| valid_entries(side, metric).len();
    let (used_a, used_b) = (used(a), used(b));
    let (samples, interleaved) = samples(a, b, metric);
    let ratio = ratio(&samples, confidence);
    let verdict = match ratio {
        Some(ratio) => verdict(ratio, metric, within),
        None if not_served(a).or(not_served(b)).is_some() => Verdict::NotServed,
        None => Verdict::NotComparable,
    };
    Comparison {
        case: case.to_owned(),
        metric,
        verdict,
        ratio,
        within,
        repetitions: (used_a, used_b),
        excluded: (excluded(a, metric), excluded(b, metric)),
        interleaved,
        note: note(metric, (a, used_a), (b, used_b)),
        warnings: warnings(a.iter().chain(b).copied()),
    }
}

/// Each warning once.
fn warnings<'v>(views: impl Iterator<Item = &'v CaseView>) -> Vec<Warning> {
    let mut found: Vec<Warning> = Vec::new();
    for warning in views.flat_map(|view| &view.warnings) {
        if !found.contains(warning) {
            found.push(warning.clone());
        }
    }
    found
}

/// The usable repetitions of a case on both sides, in pairs if they ran interleaved, and whether they did.
pub(crate) fn samples(a: &[&CaseView], b: &[&CaseView], metric: Metric) -> (Samples, bool) {
    let (sound_a, sound_b) = (valid_entries(a, metric), valid_entries(b, metric));
    let interleaved = ran_interleaved(a, b);
    let samples = if interleaved { pairs(&sound_a, &sound_b) } else { apart(&sound_a, &sound_b) };
    (samples, interleaved)
}

/// For latencies, higher is slower.
fn verdict(ratio: Ratio, metric: Metric, within: f64) -> Verdict {
    let Ratio { low, high, .. } = ratio;
    if low >= 1.0 - within && high <= 1.0 + within {
        return Verdict::Same;
    }
    match (low > 1.0, high < 1.0) {
        (true, _) if metric.more_is_better() => Verdict::Faster,
        (_, true) if metric.more_is_better() => Verdict::Slower,
        (true, _) => Verdict::Slower,
        (_, true) => Verdict::Faster,
        (false, false) => Verdict::Inconclusive,
    }
}

/// A repetition's number and figure.
struct Entry {
    repetition: u32,
    figure: f64,
}

fn valid_entries(views: &[&CaseView], metric: Metric) -> Vec<Entry> {
    views
        .iter()
        .filter(|view| view.is_usable(metric.figures()))
        .filter_map(|view| {
            let figure = figure(view, metric)?;
            Some(Entry { repetition: view.result().case.repetition, figure })
        })
        .collect()
}

fn figure(view: &CaseView, metric: Metric) -> Option<f64> {
    match metric {
        Metric::Throughput => view.exact("throughput_per_s"),
        Metric::Mean => view.exact("mean_ms"),
        Metric::P50 => view.exact("p50_ms"),
        Metric::P99 => view.exact("p99_ms"),
        Metric::P999 => view.exact("p999_ms"),
        Metric::P9999 => view.exact("p9999_ms"),
        Metric::Cpu => view.cpu_us(),
    }
}

/// Why no result of this side is measured, if its target does not serve the scenario.
fn not_served<'v>(views: &[&'v CaseView]) -> Option<&'v str> {
    let reason = |view: &&'v CaseView| match view.result().state {
        State::NotServed => Some(view.result().reason.as_deref().unwrap_or_default()),
        State::Measured | State::Failed => None,
    };
    let reasons: Option<Vec<&str>> = views.iter().map(reason).collect();
    reasons?.first().copied()
}

/// Whether repetitions of A and B alternate in time, with the same number next to each other, as far as both
/// have them; includes excluded ones. RFC 3339 times in UTC sort as text.
pub(crate) fn ran_interleaved(a: &[&CaseView], b: &[&CaseView]) -> bool {
    let number = |view: &CaseView| view.result().case.repetition;
    let numbers =
        |side: &[&CaseView]| side.iter().map(|view| number(view)).collect::<BTreeSet<_>>();
    // Duplicate numbers (a sweep's settings, or several runs) cannot be paired.
    if numbers(a).len() != a.len() || numbers(b).len() != b.len() {
        return false;
    }
    let both: BTreeSet<u32> = numbers(a).intersection(&numbers(b)).copied().collect();
    let side = |views: &[&CaseView], is_b: bool| {
        let shared = views.iter().filter(|view| both.contains(&number(view)));
        let keys = shared.map(|view| (view.result().started.clone(), number(view), is_b));
        keys.collect::<Vec<_>>()
    };
    let mut turns = side(a, false);
    turns.extend(side(b, true));
    turns.sort();
    let pair = |turn: &[(String, u32, bool)]| match turn {
        [one, other] => one.1 == other.1 && one.2 != other.2,
        _ => false,
    };
    both.len() > 1 && turns.chunks(2).all(pair)
}

fn pairs(a: &[Entry], b: &[Entry]) -> Samples {
    let partner = |entry: &Entry| {
        let other = b.iter().find(|other| other.repetition == entry.repetition)?;
        Some((entry.figure, other.figure))
    };
    Samples::Pairs(a.iter().filter_map(partner).collect())
}

fn apart(a: &[Entry], b: &[Entry]) -> Samples {
    let figures = |side: &[Entry]| side.iter().map(|entry| entry.figure).collect();
    Samples::Apart(figures(a), figures(b))
}

fn is_excluded(view: &CaseView, metric: Metric) -> bool {
    view.result().state != State::NotServed && !view.is_usable(metric.figures())
}

fn excluded(views: &[&CaseView], metric: Metric) -> usize {
    views.iter().filter(|view| is_excluded(view, metric)).count()
}

fn note(
    metric: Metric,
    (a, used_a): (&[&CaseView], usize),
    (b, used_b): (&[&CaseView], usize),
) -> String {
    let mut notes = Vec::new();
    for (name, views, used) in [("A", a, used_a), ("B", b, used_b)] {
        if let Some(reason) = not_served(views) {
            notes.push(format!("not served by {name}: {reason}"));
            continue;
        }
        if views.is_empty() {
            notes.push(format!("{name} has no such case"));
        } else if used < 2 {
            notes.push(format!("{name} has {used} usable repetitions of {}", views.len()));
        }
        notes.extend(exclusions(name, views, metric));
    }
    notes.join("; ")
}

/// The reasons for exclusion with the repetitions that they exclude: `B: generator-late (#1, #3)`.
fn exclusions(name: &str, views: &[&CaseView], metric: Metric) -> Option<String> {
    let mut by_code: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for view in views.iter().filter(|view| is_excluded(view, metric)) {
        let mut codes: Vec<&str> = view.codes(metric.figures()).collect();
        if view.result().state == State::Failed {
            codes.push("failed");
        }
        for code in codes {
            let number = format!("#{}", view.result().case.repetition);
            by_code.entry(code).or_default().push(number);
        }
    }
    let texts: Vec<String> =
        by_code.iter().map(|(code, numbers)| format!("{code} ({})", numbers.join(", "))).collect();
    (!texts.is_empty()).then(|| format!("{name} excludes {}", texts.join(", ")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::results::StoredResult;
    use crate::result::CaseResult;
    use crate::result::tests::sample;

    const STEADY: &[f64] = &[1_000.0, 1_004.0, 998.0, 1_001.0];

    #[test]
    fn verdicts_depend_on_interval_and_bound() {
        check(
            STEADY,
            &[1_200.0, 1_198.0, 1_203.0, 1_205.0],
            Verdict::Faster,
            OverallVerdict::Passed,
        );
        check(STEADY, &[900.0, 905.0, 898.0, 902.0], Verdict::Slower, OverallVerdict::Regression);
        check(STEADY, &[1_002.0, 999.0, 1_000.0, 1_003.0], Verdict::Same, OverallVerdict::Passed);
        check(
            STEADY,
            &[700.0, 1_400.0, 900.0, 1_100.0],
            Verdict::Inconclusive,
            OverallVerdict::Inconclusive,
        );
        check(STEADY, &[1_000.0], Verdict::NotComparable, OverallVerdict::Inconclusive);
        check(STEADY, &[], Verdict::NotComparable, OverallVerdict::Inconclusive);
    }

    #[test]
    fn higher_latency_is_slower() {
        let thresholds =
            Thresholds { metrics: vec![Metric::Mean, Metric::Cpu], ..Thresholds::default() };
        let (a, b) = (side("a", STEADY, 0), side("b", &[900.0, 905.0, 898.0, 902.0], 0));
        let found = compare(&all(&a), &all(&b), &thresholds);
        let verdicts: Vec<Verdict> = found.unwrap().iter().map(|one| one.verdict).collect();
        // In a closed loop, the mean grows as the rate falls; CPU time is the same in all.
        assert_eq!(verdicts, [Verdict::Slower, Verdict::Same]);
    }

    #[test]
    fn results_with_warnings_are_excluded_and_listed() {
        let mut b = side("b", &[900.0, 905.0, 898.0, 902.0], 0);
        for view in &mut b[..3] {
            view.found.result.load["errors"] = json!(500);
            *view = CaseView::new(view.found.clone());
        }
        let one = compare(&all(&side("a", STEADY, 0)), &all(&b), &Thresholds::default()).unwrap();
        assert_eq!((one[0].verdict, one[0].excluded), (Verdict::NotComparable, (0, 3)));
        let expect = "B has 1 usable repetitions of 4; B excludes errors (#1, #2, #3)";
        assert_eq!(one[0].note, expect);
    }

    #[test]
    fn a_warning_excludes_only_the_metrics_that_it_concerns() {
        let late = |views: &mut [CaseView]| {
            for view in views {
                for (name, value) in [("generator_busy", 0.5), ("generator_waited", 0.5)] {
                    view.found.result.load[name] = json!(value);
                }
                *view = CaseView::new(view.found.clone());
            }
        };
        let (mut a, mut b) = (side("a", STEADY, 0), side("b", STEADY, 100));
        late(&mut a);
        late(&mut b);
        let metrics = vec![Metric::Mean, Metric::Throughput, Metric::Cpu];
        let thresholds = Thresholds { metrics, ..Thresholds::default() };
        let found = compare(&all(&a), &all(&b), &thresholds).unwrap();
        let verdicts: Vec<Verdict> = found.iter().map(|one| one.verdict).collect();
        assert_eq!(verdicts, [Verdict::NotComparable, Verdict::Same, Verdict::Same], "{found:?}");
    }

    #[test]
    fn a_scenario_that_a_target_does_not_serve_is_skipped() {
        let (mut a, b) = (side("a", STEADY, 0), side("b", STEADY, 100));
        for view in &mut a {
            view.found.result.state = State::NotServed;
            view.found.result.reason = Some("nginx does not support jwt".to_owned());
            *view = CaseView::new(view.found.clone());
        }
        let mut other = (side("a", STEADY, 0), side("b", STEADY, 100));
        for view in other.0.iter_mut().chain(&mut other.1) {
            view.found.result.case.users = 77;
        }
        a.extend(other.0);
        other.1.extend(b);
        let found = compare(&all(&a), &all(&other.1), &Thresholds::default()).unwrap();
        assert_eq!((found[0].verdict, found[0].excluded), (Verdict::NotServed, (0, 0)));
        assert_eq!(found[0].note, "not served by A: nginx does not support jwt");
        assert_eq!(outcome(&found), OverallVerdict::Passed);
        assert_eq!(outcome(&found[..2]), OverallVerdict::Inconclusive);
    }

    #[test]
    fn interleaved_sides_are_compared_in_pairs() {
        let of = |offset| {
            let (a, b) = (side("a", STEADY, 0), side("b", STEADY, offset));
            compare(&all(&a), &all(&b), &Thresholds::default()).unwrap()[0].interleaved
        };
        assert!(of(1));
        assert!(!of(100));
        // A A B A B A B B: overlapping, but not interleaved.
        assert!(!of(3));
    }

    #[test]
    fn an_excluded_repetition_removes_only_its_pair() {
        // Everything drifts by 20 % between repetitions; B is 3 % faster.
        let a: Vec<f64> = (0..5).map(|n| 1_000.0 * 1.2_f64.powi(n)).collect();
        let b: Vec<f64> =
            a.iter().zip([1.031, 1.029, 1.5, 1.030, 1.0305]).map(|(a, by)| a * by).collect();
        let mut b = side("b", &b, 1);
        b[2].found.result.load["errors"] = json!(5_000);
        b[2] = CaseView::new(b[2].found.clone());
        let one = compare(&all(&side("a", &a, 0)), &all(&b), &Thresholds::default()).unwrap();
        let ratio = one[0].ratio.unwrap();
        assert!(one[0].interleaved && one[0].excluded == (0, 1), "{one:?}");
        assert!(ratio.low > 1.025 && ratio.high < 1.035, "{ratio:?}");
    }

    #[test]
    fn among_many_comparisons_only_large_differences_are_significant() {
        let slower = &[990.0, 1_001.0, 988.0, 993.0, 986.0];
        let metrics = vec![Metric::Throughput];
        let thresholds = Thresholds { within_percent: 0.1, metrics, ..Thresholds::default() };
        let of = |others: u32, b: &[f64]| {
            let (mut one, mut other) =
                (side("a", &[1_000.0, 1_004.0, 998.0, 1_001.0, 1_003.0], 0), side("b", b, 100));
            for users in 0..others {
                for (sides, offset) in [(&mut one, 0), (&mut other, 100)] {
                    let mut same = side("x", &[1_000.0, 1_004.0, 998.0, 1_001.0, 1_003.0], offset);
                    same.iter_mut().for_each(|view| view.found.result.case.users = 1_000 + users);
                    sides.extend(same);
                }
            }
            outcome(&compare(&all(&one), &all(&other), &thresholds).unwrap())
        };
        assert_eq!(of(0, slower), OverallVerdict::Regression);
        assert_eq!(of(143, slower), OverallVerdict::Inconclusive);
        assert_eq!(of(143, &[700.0, 703.0, 698.0, 702.0, 701.0]), OverallVerdict::Regression);
    }

    #[test]
    fn two_targets_of_one_run_can_be_compared() {
        let mut views = side("nginx", STEADY, 0);
        views.extend(side("penstock", &[1_200.0, 1_198.0, 1_203.0, 1_205.0], 1));
        for view in &mut views {
            view.found.result.case.target = view.result().suite.clone();
        }
        let of = |target| Side { views: &views, target: Some(target) };
        let found = compare(&of("nginx"), &of("penstock"), &Thresholds::default()).unwrap();
        assert_eq!((found.len(), found[0].verdict), (2, Verdict::Faster));
        assert_eq!(found[0].case, "passthrough, 4G heap, 10 users, 1024B, 0 ms");
        assert!(compare(&of("none"), &of("none"), &Thresholds::default()).is_err());
    }

    #[track_caller]
    fn check(a: &[f64], b: &[f64], verdict: Verdict, expect: OverallVerdict) {
        let (a, b) = (side("a", a, 0), side("b", b, 100));
        let found = compare(&all(&a), &all(&b), &Thresholds::default()).unwrap();
        assert_eq!((found[0].verdict, outcome(&found)), (verdict, expect), "{found:?}");
    }

    fn all(views: &[CaseView]) -> Side<'_> {
        Side { views, target: None }
    }

    /// Results of ten users with these rates, starting `offset_s` seconds into the hour, two seconds apart.
    fn side(suite: &str, rates: &[f64], offset_s: usize) -> Vec<CaseView> {
        let result = |(index, rate): (usize, &f64)| {
            let mean_ms = 10_000.0 / rate;
            let second = offset_s + 2 * index;
            let mut case = sample().case;
            case.repetition = u32::try_from(index).unwrap() + 1;
            let load = json!({
                "requests": rate * 10.0, "errors": 0, "seconds": 10.0, "throughput_per_s": rate,
                "mean_ms": mean_ms,
            });
            let started = format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60);
            let suite = suite.to_owned();
            let result = CaseResult { case, load, started, suite, ..sample() };
            CaseView::new(StoredResult { file: "result.json".into(), result })
        };
        rates.iter().enumerate().map(result).collect()
    }
}
