//! The cost of each policy of a target: the suite that enables one policy at a time, and the table of
//! results. The table is pure.

use std::fmt::{self, Write};
use std::path::Path;

use super::definition::Suite;
use super::{Source, scenario};
use crate::result::{CaseResult, State};
use crate::validity::measured;
use crate::warning::Figures;

const SUITE: &str = include_str!("../../../suites/cost.toml");
/// The line of the suite that names the target.
const TARGETS: &str = "targets = [\"penstock\"]";
/// The baseline scenario.
const NONE: &str = "forward";

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

/// The cost of one policy, each figure over the repetitions in which it is usable.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyCost {
    pub scenario: String,
    /// Why there are no figures: not served, or every repetition has a warning.
    pub reason: Option<String>,
    /// Microseconds of the target's CPU time per request.
    pub cpu_us: Option<Spread>,
    pub p50_ms: Option<Spread>,
    pub p99_ms: Option<Spread>,
    /// Resident memory under load, in bytes.
    pub rss_bytes: Option<Spread>,
    pub rate_per_s: Option<Spread>,
    /// Repetitions with unusable CPU time, and all repetitions.
    pub flagged: (usize, usize),
}

/// Minimum, mean and maximum over repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub least: f64,
    pub mean: f64,
    pub most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        Some(Self { least, mean, most })
    }
}

/// One entry per scenario, in the order of the suite.
#[must_use]
pub fn policy_costs<'r>(
    suite: &Suite,
    results: impl IntoIterator<Item = &'r CaseResult>,
) -> Vec<PolicyCost> {
    let results: Vec<&CaseResult> = results.into_iter().collect();
    let cost_of = |scenario: &scenario::Scenario| {
        let of: Vec<&CaseResult> =
            results.iter().filter(|found| found.case.scenario == scenario.name).copied().collect();
        let measured = || of.iter().filter(|found| found.state == State::Measured);
        let usable = |figures: Figures| {
            measured().filter(move |found| {
                !measured::warnings(found).iter().any(|warning| warning.concerns(figures))
            })
        };
        let used = |figure: fn(&crate::result::Use) -> f64| {
            let found = usable(Figures::Cpu).filter_map(|found| found.target_use.as_ref());
            Spread::of(found.map(figure))
        };
        let figure = |name: &str, figures: Figures| {
            Spread::of(usable(figures).filter_map(|found| found.figure(name)))
        };
        let warning = || {
            let mut all = measured().flat_map(|found| measured::warnings(found));
            let first = all.find(|warning| warning.concerns(Figures::Cpu));
            first.map(|warning| format!("{}: {warning}", warning.severity.name()))
        };
        PolicyCost {
            scenario: scenario.name.clone(),
            reason: of.iter().find_map(|found| found.reason.clone()).or_else(warning),
            cpu_us: used(|used| used.cpu_user_us + used.cpu_system_us),
            p50_ms: figure("p50_ms", Figures::Latency),
            p99_ms: figure("p99_ms", Figures::Latency),
            rss_bytes: used(|used| used.rss_mean_bytes as f64),
            rate_per_s: figure("throughput_per_s", Figures::Rate),
            flagged: (measured().count() - usable(Figures::Cpu).count(), measured().count()),
        }
    };
    suite.scenarios.iter().map(cost_of).collect()
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
    let none = policy_costs
        .iter()
        .find(|cost_of| cost_of.scenario == NONE)
        .and_then(|cost_of| cost_of.cpu_us);
    let name = |scenario: &str| match suite.scenario(scenario) {
        Some(_) if scenario == NONE => "none".to_owned(),
        Some(known) => known.display.clone(),
        None => scenario.to_owned(),
    };
    writeln!(
        out,
        "{:<18}{:>17}{:>17}{:>10}{:>10}{:>10}{:>11}{:>9}",
        "policy", "CPU us/request", "added", "p50 ms", "p99 ms", "RSS MiB", "req/s", "excluded"
    )?;
    for cost_of in policy_costs {
        let policy = name(&cost_of.scenario);
        let Some(cpu) = cost_of.cpu_us else {
            let reason = cost_of.reason.as_deref().unwrap_or("not measured");
            writeln!(out, "{policy:<18}  {}", reason.lines().next().unwrap_or_default())?;
            continue;
        };
        let half = (cpu.most - cpu.least) / 2.0;
        let own = format!("{:.1} +-{half:.1}", cpu.mean);
        let more = match none {
            Some(none) if cost_of.scenario != NONE => {
                let more = cpu.mean - none.mean;
                format!("{more:+.1} ({:+.0} %)", more / none.mean * 100.0)
            }
            Some(_) | None => String::new(),
        };
        let mean = |spread: Option<Spread>, divisor: f64, decimals: usize| match spread {
            Some(spread) => format!("{:.decimals$}", spread.mean / divisor),
            None => "-".to_owned(),
        };
        let (p50, p99) = (mean(cost_of.p50_ms, 1.0, 2), mean(cost_of.p99_ms, 1.0, 2));
        let (rss, rate) =
            (mean(cost_of.rss_bytes, 1_048_576.0, 1), mean(cost_of.rate_per_s, 1.0, 0));
        let warnings = format!("{}/{}", cost_of.flagged.0, cost_of.flagged.1);
        writeln!(
            out,
            "{policy:<18}{own:>17}{more:>17}{p50:>10}{p99:>10}{rss:>10}{rate:>11}{warnings:>9}"
        )?;
    }
    writeln!(
        out,
        "excluded: repetitions whose CPU time is unusable (see their result.json) / all repetitions\n-: \
         unusable in all repetitions\n+-: half the range over repetitions"
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::result::{Use, tests::sample};

    fn result(scenario: &str, cpu_us: f64, flagged: bool) -> CaseResult {
        let mut found = sample();
        found.case.scenario = scenario.to_owned();
        found.target_use = Some(Use { cpu_user_us: cpu_us, ..Use::default() });
        found.warnings.clear();
        if flagged {
            (found.load["requests"], found.load["errors"]) = (1_000.into(), 500.into());
        }
        found
    }

    #[test]
    fn policies_are_compared_with_the_baseline() {
        let suite = suite("penstock").unwrap();
        let mut unserved = sample();
        unserved.case.scenario = "metrics-off".to_owned();
        (unserved.state, unserved.target_use) = (State::NotServed, None);
        unserved.reason = Some("not supported".to_owned());
        let results = [
            result("forward", 9.0, false),
            result("forward", 11.0, false),
            result("jwt-cached", 15.0, false),
            result("jwt-cached", 95.0, true),
            result("forward-tls", 20.0, true),
            unserved,
        ];
        let text = table(&suite, &policy_costs(&suite, &results));
        let row = |begins: &str| {
            let line = text.lines().find(|line| line.starts_with(begins)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        assert!(row("none").starts_with("none 10.0 +-1.0 - "), "{text}");
        assert!(row("JWT, cached").starts_with("JWT, cached 15.0 +-0.0 +5.0 (+50 %)"), "{text}");
        assert!(row("JWT, cached").ends_with("1/2"), "a repetition with warnings counted: {text}");
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
