//! `penstock lab compare`: two sides of results, case by case, with a verdict for CI.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use lab::compare::{self, Comparison, Metric, Outcome, Side, Thresholds, Verdict};
use lab::report::{View, folder};
use serde_json::{Value, json};

use crate::commands::stdout;
use crate::failure::Failure;

/// Compare two results folders, or two targets of one
///
/// Per case: the ratio B/A with a bootstrap confidence interval over repetitions, the smallest effect that so
/// many repetitions could have told from chance, and a verdict: faster, slower, the same within the bound,
/// or can't tell. Rows with doubts don't enter. A and B are compared in pairs where they took turns.
#[derive(Args)]
#[command(after_help = "Exit codes:
  0  nothing got worse, and every case could be told
  1  it couldn't: a folder or file can't be read
  2  usage
  3  a regression: at least one case is slower
  4  a broken measurement: nothing is known to be slower, but at least one case can't be told

Examples:
  penstock lab compare results/main results/branch
  penstock lab compare results --target-a nginx --target-b penstock --metric cpu
  penstock lab compare results/branch --thresholds ci.toml

The file of --thresholds (every key may be left out):
  baseline = \"results/main\"         # A, relative to the file
  metrics = [\"throughput\", \"cpu\"]   # throughput, mean, p50, p99, cpu
  within_percent = 3.0
  confidence_percent = 95           # 90, 95 or 99
  seed = 1
  [[case]]
  contains = \"10240B\"
  within_percent = 5.0")]
pub(crate) struct Compare {
    /// Folder A, then folder B; one alone is both, with two targets, or B, with a baseline in --thresholds
    #[arg(required = true, num_args = 1..=2, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Only this target of A
    #[arg(long, value_name = "NAME", requires = "target_b")]
    target_a: Option<String>,
    /// Only this target of B
    #[arg(long, value_name = "NAME", requires = "target_a")]
    target_b: Option<String>,
    /// Baseline, metrics and bounds
    #[arg(long, value_name = "FILE")]
    thresholds: Option<PathBuf>,
    /// throughput, mean, p50, p99 or cpu; may be given several times
    #[arg(long = "metric", value_name = "M", value_parser = metric)]
    metrics: Vec<Metric>,
    /// How far both may differ and still be the same, in percent
    #[arg(long, value_name = "X")]
    within_percent: Option<f64>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(asked: &Compare) -> Result<(), Failure> {
    let told = thresholds(asked)?;
    let (a, b) = folders(asked, &told)?;
    let (views_a, views_b) = (views(&a)?, views(&b)?);
    let a = Side { views: &views_a, target: asked.target_a.as_deref() };
    let b = Side { views: &views_b, target: asked.target_b.as_deref() };
    let found = compare::compare(&a, &b, &told).map_err(Failure::Usage)?;
    let outcome = compare::outcome(&found);
    if asked.json {
        stdout(&format!("{:#}\n", as_json(&found, outcome, &told)));
    } else {
        stdout(&as_text(&found, &told));
    }
    match outcome {
        Outcome::Fine => Ok(()),
        Outcome::Regression => Err(Failure::Exit(3)),
        Outcome::Unknown => Err(Failure::Exit(4)),
    }
}

fn thresholds(asked: &Compare) -> Result<Thresholds, Failure> {
    let mut told = match &asked.thresholds {
        None => Thresholds::default(),
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::file("read", file, &error))?;
            let mut told = Thresholds::parse(&text)
                .map_err(|what| Failure::Usage(format!("{}: {what}", file.display())))?;
            let beside = file.parent().unwrap_or(Path::new(""));
            told.baseline = told.baseline.map(|folder| beside.join(folder));
            told
        }
    };
    if !asked.metrics.is_empty() {
        told.metrics.clone_from(&asked.metrics);
    }
    told.within_percent = asked.within_percent.unwrap_or(told.within_percent);
    told.check().map_err(Failure::Usage)?;
    Ok(told)
}

/// Folders A and B.
fn folders(asked: &Compare, told: &Thresholds) -> Result<(PathBuf, PathBuf), Failure> {
    match (asked.folders.as_slice(), &told.baseline) {
        ([a, b], _) => Ok((a.clone(), b.clone())),
        ([b], Some(a)) => Ok((a.clone(), b.clone())),
        ([both], None) if asked.target_a.is_some() => Ok((both.clone(), both.clone())),
        _ => Err(Failure::Usage(
            "one folder is not enough: name A and B, or --target-a and --target-b, or a baseline in \
             --thresholds"
                .to_owned(),
        )),
    }
}

fn views(folder: &Path) -> Result<Vec<View>, Failure> {
    let found = folder::read(folder).map_err(Failure::Error)?;
    Ok(found.into_iter().map(View::new).collect())
}

fn metric(name: &str) -> Result<Metric, String> {
    let all = [Metric::Throughput, Metric::Mean, Metric::P50, Metric::P99, Metric::Cpu];
    let found = all.into_iter().find(|metric| metric.name() == name);
    found.ok_or_else(|| "throughput, mean, p50, p99 or cpu".to_owned())
}

fn as_text(found: &[Comparison], told: &Thresholds) -> String {
    let mut out = String::new();
    let confidence = told.confidence_percent;
    // Writing to a String cannot fail.
    for one in found {
        let _ = writeln!(out, "{} ({})", one.case, one.metric.name());
        let _ = writeln!(out, "    {}", sentence(one, confidence));
        if !one.note.is_empty() {
            let _ = writeln!(out, "    {}", one.note);
        }
    }
    let count = |wanted: Verdict| found.iter().filter(|one| one.verdict == wanted).count();
    let _ = writeln!(
        out,
        "{} faster, {} slower, {} the same, {} can't tell, {} broken",
        count(Verdict::Faster),
        count(Verdict::Slower),
        count(Verdict::Same),
        count(Verdict::CannotTell),
        count(Verdict::Broken)
    );
    if found.iter().any(|one| one.ratio.is_some() && !one.interleaved) {
        out.push_str("A and B did not take turns: what drifted meanwhile is in the ratios.\n");
    }
    out
}

fn sentence(one: &Comparison, confidence: u32) -> String {
    let Some(ratio) = one.ratio else { return "broken: nothing to compare".to_owned() };
    format!(
        "{}: B/A {:.4}, {confidence} % between {:.4} and {:.4}; effects from {:.1} % could be seen; {} and \
         {} repetitions",
        verdict(one),
        ratio.ratio,
        ratio.low,
        ratio.high,
        ratio.smallest_effect() * 100.0,
        one.repetitions.0,
        one.repetitions.1
    )
}

fn verdict(one: &Comparison) -> String {
    match one.verdict {
        Verdict::Faster => "faster".to_owned(),
        Verdict::Slower => "slower".to_owned(),
        Verdict::Same => format!("same within {} %", one.within * 100.0),
        Verdict::CannotTell => "can't tell".to_owned(),
        Verdict::Broken => "broken".to_owned(),
    }
}

fn as_json(found: &[Comparison], outcome: Outcome, told: &Thresholds) -> Value {
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
                    Verdict::CannotTell => "cannot-tell",
                    Verdict::Broken => "broken",
                },
                "ratio": one.ratio.map(|ratio| ratio.ratio),
                "low": one.ratio.map(|ratio| ratio.low),
                "high": one.ratio.map(|ratio| ratio.high),
                "smallest_effect_percent": one.ratio.map(|ratio| ratio.smallest_effect() * 100.0),
                "within_percent": one.within * 100.0,
                "repetitions": [one.repetitions.0, one.repetitions.1],
                "doubted": [one.doubted.0, one.doubted.1],
                "interleaved": one.interleaved,
                "note": one.note,
            })
        })
        .collect();
    json!({
        "outcome": match outcome {
            Outcome::Fine => "fine",
            Outcome::Regression => "regression",
            Outcome::Unknown => "cannot-tell",
        },
        "confidence_percent": told.confidence_percent,
        "cases": cases,
    })
}
