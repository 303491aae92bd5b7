//! `penstock lab compare`: two sides of results, case by case, with exit codes for CI.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use lab::compare::{self, Comparison, Metric, OverallVerdict, Side, Thresholds, Verdict};
use lab::report::{CaseView, results};
use serde_json::{Value, json};

use crate::commands::stdout;
use crate::failure::Failure;

/// Compare two results folders, or two targets of one
///
/// For each case: the ratio B/A with a confidence interval over repetitions, the smallest effect
/// that this number of repetitions can detect, and a verdict: faster, slower, same within the bound, or
/// inconclusive. A repetition is excluded from the metrics that its warnings concern. Repetitions are paired
/// if A and B ran interleaved. Scenarios that a target does not serve are skipped.
#[derive(Args)]
#[command(after_help = "Exit codes:
  0  no regression, and every case has a verdict
  1  failure: a folder or file cannot be read
  2  usage error
  3  regression: at least one case is slower
  4  inconclusive: no regression found, but at least one case has no verdict

Examples:
  penstock lab compare results/main results/branch
  penstock lab compare results --target-a nginx --target-b penstock --metric cpu
  penstock lab compare results/branch --thresholds ci.toml

Thresholds file (all keys are optional):
  baseline = \"results/main\"         # folder A, relative to this file
  metrics = [\"throughput\", \"cpu\"]   # throughput, mean, p50, p99, p99.9, p99.99, cpu
  within_percent = 3.0
  confidence_percent = 95           # 90, 95 or 99
  [[case]]
  contains = \"10240B\"
  within_percent = 5.0")]
pub(crate) struct Compare {
    /// Folders A and B. A single folder is compared with itself (--target-a, --target-b) or with the
    /// baseline of --thresholds
    #[arg(required = true, num_args = 1..=2, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Use only this target of A
    #[arg(long, value_name = "NAME", requires = "target_b")]
    target_a: Option<String>,
    /// Use only this target of B
    #[arg(long, value_name = "NAME", requires = "target_a")]
    target_b: Option<String>,
    /// TOML file with baseline, metrics and bounds
    #[arg(long, value_name = "FILE")]
    thresholds: Option<PathBuf>,
    /// Metric to compare: throughput, mean, p50, p99, p99.9, p99.99 or cpu; repeatable [default: throughput and cpu]
    #[arg(long = "metric", value_name = "M", value_parser = metric)]
    metrics: Vec<Metric>,
    /// Largest difference, in percent, that counts as the same [default: 3]
    #[arg(long, value_name = "X")]
    within_percent: Option<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Compare) -> Result<(), Failure> {
    let thresholds = read_thresholds(args)?;
    let (a, b) = folders(args, &thresholds)?;
    let (views_a, views_b) = (views(&a)?, views(&b)?);
    let a = Side { views: &views_a, target: args.target_a.as_deref() };
    let b = Side { views: &views_b, target: args.target_b.as_deref() };
    let found = compare::compare(&a, &b, &thresholds).map_err(Failure::Usage)?;
    let outcome = compare::outcome(&found);
    if args.json {
        stdout(&format!("{:#}\n", as_json(&found, outcome, &thresholds)))?;
    } else {
        stdout(&as_text(&found, &thresholds))?;
    }
    match outcome {
        OverallVerdict::Passed => Ok(()),
        OverallVerdict::Regression => Err(Failure::Exit(3)),
        OverallVerdict::Inconclusive => Err(Failure::Exit(4)),
    }
}

fn read_thresholds(args: &Compare) -> Result<Thresholds, Failure> {
    let mut thresholds = match &args.thresholds {
        None => Thresholds::default(),
        Some(file) => Thresholds::read(file).map_err(Failure::Usage)?,
    };
    if !args.metrics.is_empty() {
        thresholds.metrics.clone_from(&args.metrics);
    }
    thresholds.within_percent = args.within_percent.unwrap_or(thresholds.within_percent);
    thresholds.check().map_err(Failure::Usage)?;
    Ok(thresholds)
}

/// Folders A and B.
fn folders(args: &Compare, thresholds: &Thresholds) -> Result<(PathBuf, PathBuf), Failure> {
    match (args.folders.as_slice(), &thresholds.baseline) {
        ([a, b], _) => Ok((a.clone(), b.clone())),
        ([b], Some(a)) => Ok((a.clone(), b.clone())),
        ([both], None) if args.target_a.is_some() => Ok((both.clone(), both.clone())),
        _ => Err(Failure::Usage(
            "only one folder given: pass A and B, or --target-a and --target-b, or set `baseline` in \
             the file of --thresholds"
                .to_owned(),
        )),
    }
}

fn views(folder: &Path) -> Result<Vec<CaseView>, Failure> {
    let found = results::read(folder).map_err(Failure::Error)?;
    Ok(found.into_iter().map(CaseView::new).collect())
}

fn metric(name: &str) -> Result<Metric, String> {
    let found = Metric::ALL.into_iter().find(|metric| metric.name() == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = Metric::ALL.into_iter().map(Metric::name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn as_text(found: &[Comparison], thresholds: &Thresholds) -> String {
    let mut out = String::new();
    let confidence = thresholds.confidence_percent;
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{}", headline(found));
    if found.iter().any(|one| one.ratio.is_some() && !one.interleaved) {
        out.push_str(
            "A and B did not run interleaved: the ratios include any drift between the runs.\n",
        );
    }
    for one in found {
        let _ = writeln!(out, "{} ({})", one.case, one.metric.name());
        let _ = writeln!(out, "    {}", sentence(one, confidence));
        if !one.note.is_empty() {
            let _ = writeln!(out, "    {}", one.note);
        }
    }
    out
}

/// The verdicts of each metric, on one line.
fn headline(found: &[Comparison]) -> String {
    let mut metrics: Vec<Metric> = Vec::new();
    for one in found {
        if !metrics.contains(&one.metric) {
            metrics.push(one.metric);
        }
    }
    let of = |metric: &Metric| {
        let count = |wanted: Verdict| {
            found.iter().filter(|one| one.metric == *metric && one.verdict == wanted).count()
        };
        let counts = [
            (count(Verdict::Faster), "faster"),
            (count(Verdict::Slower), "slower"),
            (count(Verdict::Same), "same"),
            (count(Verdict::Inconclusive), "inconclusive"),
            (count(Verdict::NotComparable), "not comparable"),
            (count(Verdict::NotServed), "not served"),
        ];
        let counts: Vec<String> = counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        format!("{}: {}", metric.name(), counts.join(", "))
    };
    metrics.iter().map(of).collect::<Vec<_>>().join("; ")
}

fn sentence(one: &Comparison, confidence: u32) -> String {
    let Some(ratio) = one.ratio else { return verdict(one) };
    format!(
        "{}: B/A {:.4}, {confidence} % interval {:.4} to {:.4}; detects effects from {:.1} %; {} and {} \
         repetitions",
        verdict(one),
        ratio.ratio,
        ratio.low,
        ratio.high,
        ratio.smallest_effect * 100.0,
        one.repetitions.0,
        one.repetitions.1
    )
}

fn verdict(one: &Comparison) -> String {
    match one.verdict {
        Verdict::Faster => "faster".to_owned(),
        Verdict::Slower => "slower".to_owned(),
        Verdict::Same => format!("same within {} %", one.within * 100.0),
        Verdict::Inconclusive => "inconclusive".to_owned(),
        Verdict::NotComparable => "not comparable".to_owned(),
        Verdict::NotServed => "not served".to_owned(),
    }
}

fn as_json(found: &[Comparison], outcome: OverallVerdict, thresholds: &Thresholds) -> Value {
    let cases: Vec<Value> = found
        .iter()
        .map(|one| {
            json!({
                "case": one.case,
                "metric": one.metric.name(),
                "verdict": match one.verdict {
                    Verdict::Faster => "faster",
                    Verdict::Slower => "slower",
                    Verdict::Same => "same",
                    Verdict::Inconclusive => "inconclusive",
                    Verdict::NotComparable => "not-comparable",
                    Verdict::NotServed => "not-served",
                },
                "ratio": one.ratio.map(|ratio| ratio.ratio),
                "low": one.ratio.map(|ratio| ratio.low),
                "high": one.ratio.map(|ratio| ratio.high),
                "p_value": one.ratio.map(|ratio| ratio.chance),
                "smallest_effect_percent": one.ratio.map(|ratio| ratio.smallest_effect * 100.0),
                "within_percent": one.within * 100.0,
                "repetitions": [one.repetitions.0, one.repetitions.1],
                "excluded": [one.excluded.0, one.excluded.1],
                "interleaved": one.interleaved,
                "note": one.note,
                "warnings": one.warnings,
            })
        })
        .collect();
    json!({
        "outcome": match outcome {
            OverallVerdict::Passed => "passed",
            OverallVerdict::Regression => "regression",
            OverallVerdict::Inconclusive => "inconclusive",
        },
        "confidence_percent": thresholds.confidence_percent,
        "cases": cases,
    })
}
