//! The cost of each policy of a target: the suite that enables one policy at a time, and the table of
//! results. The table is pure.

use std::fmt::{self, Write};
use std::path::Path;

use super::definition::Suite;
use super::{Source, scenario};
use crate::compare::{Confidence, Metric, Ratio, ratio, samples, significant};
use crate::report::CaseView;
use crate::result::{State, Use};
use crate::warning::Figures;

const SUITE: &str = include_str!("../../../suites/cost.toml");
/// The line of the suite that names the target.
const TARGETS: &str = "targets = [\"penstock\"]";
/// The baseline scenario.
const NONE: &str = "forward";
const CONFIDENCE: Confidence = Confidence::Percent95;

/// The suite for `target`: the name of a shipped target, or the path of a file ending in `.toml`.
///
/// # Errors
/// No such target, or its file is invalid.
pub fn suite(target: &str) -> Result<Suite, String> {
    if target.contains(['"', '\\', '\n']) {
        return Err(format!("`{target}` is not a valid target name"));
    }
    let text = SUITE.replace(TARGETS, &format!("targets = [\"{target}\"]"));
    Suite::from_source(Source { name: Path::new("cost.toml").to_owned(), text })
}

/// The cost of one policy, each figure the mean over the repetitions in which it is usable.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyCost {
    pub scenario: String,
    /// Why there are no figures: not served, or every repetition has a warning.
    pub reason: Option<String>,
    /// Microseconds of the target's CPU time per request.
    pub cpu_us: Option<f64>,
    /// That relative to the baseline (docs/statistics.md), and whether the difference is significant among all policies.
    pub relative: Option<(Ratio, bool)>,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    /// Resident memory under load, in bytes.
    pub rss_bytes: Option<f64>,
    pub rate_per_s: Option<f64>,
    /// Repetitions with unusable CPU time, and all repetitions.
    pub flagged: (usize, usize),
}

/// One entry per scenario, in the order of the suite.
#[must_use]
pub fn policy_costs(suite: &Suite, views: &[CaseView]) -> Vec<PolicyCost> {
    let of = |scenario: &str| -> Vec<&CaseView> {
        views.iter().filter(|view| view.result().case.scenario == scenario).collect()
    };
    let baseline = of(NONE);
    let mut costs: Vec<PolicyCost> = suite
        .scenarios
        .iter()
        .map(|scenario| policy_cost(scenario, &of(&scenario.name), &baseline))
        .collect();
    let mut compared: Vec<_> = costs.iter_mut().filter_map(|one| one.relative.as_mut()).collect();
    let chances: Vec<f64> = compared.iter().map(|(ratio, _)| ratio.chance).collect();
    let alpha = f64::from(100 - CONFIDENCE.percent()) / 100.0;
    for (one, significant) in compared.iter_mut().zip(significant(&chances, alpha)) {
        one.1 = significant;
    }
    costs
}

fn policy_cost(
    scenario: &scenario::Scenario,
    of: &[&CaseView],
    baseline: &[&CaseView],
) -> PolicyCost {
    let measured = || of.iter().filter(|view| view.result().state == State::Measured);
    let usable = |figures: Figures| measured().filter(move |view| view.is_usable(figures));
    let used = |figure: fn(&Use) -> f64| {
        mean(usable(Figures::Cpu).filter_map(|view| view.use_of_target()).map(|used| figure(&used)))
    };
    let figure = |name: &str, figures| mean(usable(figures).filter_map(|view| view.exact(name)));
    let warning = || {
        let mut all = measured().flat_map(|view| &view.warnings);
        let first = all.find(|warning| warning.concerns(Figures::Cpu));
        first.map(|warning| format!("{}: {warning}", warning.severity.name()))
    };
    let relative = ratio(&samples(baseline, of, Metric::Cpu).0, CONFIDENCE);
    PolicyCost {
        scenario: scenario.name.clone(),
        reason: of.iter().find_map(|view| view.result().reason.clone()).or_else(warning),
        cpu_us: used(|used| used.cpu_user_us + used.cpu_system_us),
        relative: relative.filter(|_| scenario.name != NONE).map(|ratio| (ratio, false)),
        p50_ms: figure("p50_ms", Figures::Latency),
        p99_ms: figure("p99_ms", Figures::Latency),
        rss_bytes: used(|used| used.rss_mean_bytes as f64),
        rate_per_s: figure("throughput_per_s", Figures::Rate),
        flagged: (measured().count() - usable(Figures::Cpu).count(), measured().count()),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The table as text: each policy compared with the baseline.
#[must_use]
pub fn table(suite: &Suite, policy_costs: &[PolicyCost]) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_table(&mut text, suite, policy_costs);
    text
}

fn write_table(out: &mut String, suite: &Suite, policy_costs: &[PolicyCost]) -> fmt::Result {
    let name = |scenario: &str| match suite.scenario(scenario) {
        Some(_) if scenario == NONE => "none".to_owned(),
        Some(known) => known.display.clone(),
        None => scenario.to_owned(),
    };
    writeln!(
        out,
        "{:<18}{:>15}{:>26}{:>10}{:>10}{:>10}{:>11}{:>9}",
        "policy", "CPU us/request", "added", "p50 ms", "p99 ms", "RSS MiB", "req/s", "excluded"
    )?;
    for cost_of in policy_costs {
        let policy = name(&cost_of.scenario);
        let Some(cpu) = cost_of.cpu_us else {
            let reason = cost_of.reason.as_deref().unwrap_or("not measured");
            writeln!(out, "{policy:<18}  {}", reason.lines().next().unwrap_or_default())?;
            continue;
        };
        let own = format!("{cpu:.1}");
        let more = cost_of.relative.map_or(String::new(), added);
        let mean = |mean: Option<f64>, divisor: f64, decimals: usize| match mean {
            Some(mean) => format!("{:.decimals$}", mean / divisor),
            None => "-".to_owned(),
        };
        let (p50, p99) = (mean(cost_of.p50_ms, 1.0, 2), mean(cost_of.p99_ms, 1.0, 2));
        let (rss, rate) =
            (mean(cost_of.rss_bytes, 1_048_576.0, 1), mean(cost_of.rate_per_s, 1.0, 0));
        let warnings = format!("{}/{}", cost_of.flagged.0, cost_of.flagged.1);
        writeln!(
            out,
            "{policy:<18}{own:>15}{more:>26}{p50:>10}{p99:>10}{rss:>10}{rate:>11}{warnings:>9}"
        )?;
    }
    writeln!(
        out,
        "added: CPU time relative to none, with its 95 % interval; ~: not significant among all policies\n\
         excluded: repetitions whose CPU time is unusable (see their result.json) / all repetitions\n-: \
         unusable in all repetitions"
    )
}

/// `+50 % (+45 to +55)`; `~` first if it can't be told from none.
fn added((ratio, significant): (Ratio, bool)) -> String {
    let [middle, low, high] =
        [ratio.ratio, ratio.low, ratio.high].map(|ratio| (ratio - 1.0) * 100.0);
    let sign = if significant { "" } else { "~" };
    format!("{sign}{middle:+.0} % ({low:+.0} to {high:+.0})")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::report::results::StoredResult;
    use crate::result::tests::sample;

    fn view(scenario: &str, repetition: u32, cpu_us: f64) -> CaseView {
        let mut result = sample();
        (result.case.scenario, result.case.repetition) = (scenario.to_owned(), repetition);
        let minute = 10 * repetition + u32::try_from(scenario.len() % 10).unwrap();
        result.started = format!("2026-01-01T00:{minute:02}:00Z");
        result.target_use = Some(Use { cpu_user_us: cpu_us, ..Use::default() });
        result.warnings.clear();
        CaseView::new(StoredResult { file: "result.json".into(), result })
    }

    fn flagged(view: CaseView) -> CaseView {
        let mut found = view.found;
        (found.result.load["requests"], found.result.load["errors"]) = (1_000.into(), 500.into());
        CaseView::new(found)
    }

    #[test]
    fn policies_are_compared_with_the_baseline_in_pairs() {
        let suite = suite("penstock").unwrap();
        let mut unserved = view("metrics-off", 1, 0.0);
        unserved.found.result.state = State::NotServed;
        unserved.found.result.reason = Some("not supported".to_owned());
        let mut views = vec![flagged(view("forward-tls", 1, 20.0)), unserved];
        // Everything drifts by a fifth from repetition to repetition.
        for (repetition, drift) in (1..).zip([1.0, 1.2, 1.44, 1.728]) {
            let noise = f64::from(repetition % 2) / 100.0;
            views.push(view("forward", repetition, 10.0 * drift));
            views.push(view("jwt-cached", repetition, (15.0 + noise) * drift));
            views.push(view("access-log", repetition, (9.95 + 10.0 * noise) * drift));
        }
        views.push(flagged(view("jwt-cached", 5, 95.0)));
        let text = table(&suite, &policy_costs(&suite, &views));
        let row = |begins: &str| {
            let line = text.lines().find(|line| line.starts_with(begins)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        assert!(row("none").starts_with("none 13.4 - 3.25 "), "{text}");
        assert!(row("JWT, cached").starts_with("JWT, cached 20.1 +50 % (+50 to +50) "), "{text}");
        assert!(row("JWT, cached").ends_with("1/5"), "a repetition with warnings counted: {text}");
        assert!(row("Access log").contains(" ~-0 % (-1 to +1) "), "{text}");
        assert!(row("Forward (TLS)").starts_with("Forward (TLS) error: errors: "), "{text}");
        assert_eq!(row("Without metrics"), "Without metrics not supported");
        assert_eq!(row("JWT, uncached"), "JWT, uncached not measured");
    }

    #[test]
    fn any_target_is_accepted_and_unknown_names_are_rejected() {
        assert_eq!(suite("nginx").unwrap().targets[0].name, "nginx");
        assert!(suite("ngnix").unwrap_err().contains("`nginx`"));
        assert!(suite("a\"b").is_err());
    }
}
