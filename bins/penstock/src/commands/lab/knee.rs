//! `penstock lab knee`: the highest load at which an objective holds.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lab::knee::{self, Became, By, Ended, Knee, Probe, Range, Slo, Usl};
use lab::load::{self, LoadError, Stop};
use lab::matrix::knee::Ground;
use lab::matrix::{self, Event, Failed};
use serde_json::{Value, json};

use super::run::{plan, stop_at_signal};
use super::sent::Sent;
use crate::commands::{stderr, stdout};
use crate::failure::Failure;

/// Find the highest load at which an objective still holds
///
/// The level doubles until the objective breaks, then the gap is halved. By rate, requests are due at times of
/// their own and latency counts from then; by users, each waits for its answer. Each measurement goes through
/// the validity gates: one that is doubtful is made again, and then ends the search. The Universal
/// Scalability Law is fitted to what was measured, with its error.
#[derive(Args)]
#[command(
    after_help = "An objective is bounds with commas between: mean, p50, p75, p90, p95, p98, p99, p99.9 \
or max, `<` or `<=`, and a
time in us, ms or s; errors and a share in %.

Examples:
  penstock lab knee penstock --slo 'p99 < 50ms, errors < 0.1%' --out knee-penstock
  penstock lab knee my-gateway.toml --scenario passthrough --slo 'p99 < 20ms' --by users --out knee-mine
  penstock lab knee http://127.0.0.1:8280/echo/1.0.0/ --slo 'p99 < 50ms, errors < 0.1%'
  penstock lab knee http://127.0.0.1:8688/ --slo 'mean < 5ms' --by users --payload-bytes 1024"
)]
pub(crate) struct KneeOf {
    /// A shipped target's name, the path of a target's file, or http:// or https://
    #[arg(value_name = "TARGET|URL")]
    target: String,
    /// What a target is sent [default: forward]
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// New folder for the results of a target's levels
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    sent: Sent,
    /// What has to hold
    #[arg(long, value_name = "BOUNDS", value_parser = slo)]
    slo: Slo,
    /// What is searched
    #[arg(long, value_name = "WHAT", default_value = "rate")]
    by: What,
    /// First level [default: 100 requests per second, or 1 user]
    #[arg(long, value_name = "N")]
    from: Option<f64>,
    /// Last level [default: 1000000 requests per second, or 10000 users]
    #[arg(long, value_name = "N")]
    to: Option<f64>,
    /// How close the answer has to be, in percent
    #[arg(long, value_name = "X", default_value_t = 5.0)]
    precision: f64,
    /// Measured time of each level, such as 10s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = load::parse_duration)]
    duration: Duration,
    /// Time at the start of each level that does not count
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = load::parse_duration)]
    warm_up: Duration,
    /// Most connections, by rate
    #[arg(long, value_name = "N", default_value_t = 200)]
    users: usize,
    /// Threads that make the load
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What a target is sent where nobody says.
const BYTES: usize = 1_024;

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Requests per second, open loop
    Rate,
    /// Users, closed loop
    Users,
}

pub(crate) fn run(asked: KneeOf) -> Result<(), Failure> {
    let by = match asked.by {
        What::Rate => By::Rate,
        What::Users => By::Users,
    };
    let range = range(&asked, by)?;
    let (slo, as_json_asked) = (asked.slo.clone(), asked.json);
    let tell = |probe: &Probe| stderr(&format!("{}\n", line(probe, by)));
    let stop = stop_at_signal()?;
    let found = if asked.target.contains("://") {
        let options = url_options(asked, &stop)?;
        let measure = |level| {
            knee::measure(&options, by, level, &slo)
                .map_err(told)
                .and_then(|probe| whole(&stop, probe))
        };
        knee::search(range, measure, tell)?
    } else {
        let (ground, out) = ground(&asked)?;
        let plan = matrix::Run { stop: stop.clone(), ..plan(out)? };
        let measure = |level| {
            level_of(&ground, &plan, (by, level), &slo).and_then(|probe| whole(&stop, probe))
        };
        knee::search(range, measure, tell)?
    };
    if as_json_asked {
        stdout(&format!("{:#}\n", as_json(&found, &slo, by)));
    } else {
        stdout(&as_text(&found, &slo, by));
    }
    Ok(())
}

/// A level that was cut short ends the search.
fn whole(stop: &Stop, probe: Probe) -> Result<Probe, Failure> {
    if stop.is_stopped() {
        return Err(Failure::Error(
            "interrupted: what was found until then stands above".to_owned(),
        ));
    }
    Ok(probe)
}

fn told(error: LoadError) -> Failure {
    match error {
        LoadError::Usage(message) => Failure::Usage(message),
        LoadError::File { .. }
        | LoadError::Content(_)
        | LoadError::Name { .. }
        | LoadError::Connect { .. }
        | LoadError::Tls(_)
        | LoadError::Agent { .. }
        | LoadError::System(_) => Failure::error(error),
    }
}

fn url_options(asked: KneeOf, stop: &Stop) -> Result<load::Options, Failure> {
    let of_target = [("--scenario", asked.scenario.is_some()), ("--out", asked.out.is_some())];
    if let Some((flag, _)) = of_target.iter().find(|(_, given)| *given) {
        return Err(Failure::Usage(format!("{flag} is for a target of the lab, not for a URL")));
    }
    Ok(load::Options {
        users: asked.users,
        threads: asked.threads,
        duration: asked.duration,
        warm_up: asked.warm_up,
        stop: stop.clone(),
        ..asked.sent.options(asked.target)
    })
}

/// What a target's levels have in common, and the folder for them.
fn ground(asked: &KneeOf) -> Result<(Ground, PathBuf), Failure> {
    let out = asked.out.clone().ok_or_else(|| {
        let target = &asked.target;
        Failure::Usage(format!(
            "`{target}` is a target of the lab: name a new folder with --out (a URL has ://)"
        ))
    })?;
    if out.exists() {
        let out = out.display();
        return Err(Failure::Usage(format!(
            "{out} is there already; results are never written over"
        )));
    }
    let bytes = asked.sent.only_bytes().map_err(Failure::Usage)?.unwrap_or(BYTES);
    let ground = Ground {
        target: asked.target.clone(),
        scenario: asked.scenario.clone().unwrap_or_else(|| "forward".to_owned()),
        bytes: bytes as u64,
        users: asked.users,
        threads: asked.threads,
        warm_up: asked.warm_up,
        measure: asked.duration,
    };
    Ok((ground, out))
}

/// Measures a level in a folder of its own, with a number where it is measured again.
fn level_of(
    ground: &Ground,
    plan: &matrix::Run,
    (by, level): (By, f64),
    slo: &Slo,
) -> Result<Probe, Failure> {
    let suite = ground.suite(by, level).map_err(Failure::Usage)?;
    let name = match by {
        By::Rate => format!("{level:.1}_per_s"),
        By::Users => format!("{level:.0}_users"),
    };
    let again = (2_u32..).map(|n| format!("{name}-{n}"));
    let new = std::iter::once(name.clone()).chain(again).map(|name| plan.out.join(name));
    let out = new.take(1_000).find(|out| !out.exists()).unwrap_or_else(|| plan.out.join(&name));
    let run = matrix::Run { out, ..plan.clone() };
    let mut kept = None;
    let mut keep = |event: &Event<'_>| {
        if let Event::End(found) = event {
            kept = Some(knee::judge_case(by, level, slo, found));
        }
    };
    matrix::run(&suite, &run, &mut keep).map_err(|failed| match failed {
        Failed::Usage(message) => Failure::Usage(message),
        Failed::Unable(message) => Failure::Error(message),
    })?;
    kept.ok_or_else(|| Failure::Error("interrupted before the level was measured".to_owned()))
}

fn range(asked: &KneeOf, by: By) -> Result<Range, Failure> {
    let (from, to) = match by {
        By::Rate => (100.0, 1_000_000.0),
        By::Users => (1.0, 10_000.0),
    };
    let range = Range {
        from: asked.from.unwrap_or(from),
        to: asked.to.unwrap_or(to),
        precision: asked.precision / 100.0,
        whole: by == By::Users,
    };
    if !(range.from > 0.0 && range.to >= range.from && range.to.is_finite()) {
        return Err(Failure::Usage("--from: above 0 and at most --to".to_owned()));
    }
    if !(range.precision > 0.0 && range.precision < 1.0) {
        return Err(Failure::Usage("--precision: above 0 and below 100".to_owned()));
    }
    Ok(range)
}

fn slo(text: &str) -> Result<Slo, String> {
    Slo::parse(text).map_err(|error| error.to_string())
}

fn unit(by: By) -> &'static str {
    match by {
        By::Rate => "requests/s",
        By::Users => "users",
    }
}

fn line(probe: &Probe, by: By) -> String {
    let became = match probe.became {
        Became::Holds => "holds",
        Became::Breaks => "breaks",
        Became::Doubtful => "doubtful",
    };
    format!(
        "{:.1} {}: {became}; {:.1}/s, mean {:.3} ms, p99 {:.3} ms, errors {:.2} %{}{}",
        probe.level,
        unit(by),
        probe.throughput_per_s,
        probe.mean_ms,
        probe.p99_ms,
        probe.error_percent,
        if probe.why.is_empty() { "" } else { ": " },
        probe.why
    )
}

fn as_text(found: &Knee, slo: &Slo, by: By) -> String {
    let level = |level: Option<f64>| level.map_or("none".to_owned(), |level| format!("{level:.1}"));
    let (holds, breaks) = (level(found.holds), level(found.breaks));
    let unit = unit(by);
    let end = match found.ended {
        Ended::Found => format!("{slo}: holds at {holds} {unit}, breaks at {breaks}"),
        Ended::NothingHolds => format!("{slo}: breaks at {breaks} {unit} already"),
        Ended::AllHolds => {
            format!("{slo}: holds at {holds} {unit} still, the last level of the search")
        }
        Ended::Doubtful => format!(
            "{slo}: holds at {holds} {unit}; above that, it is not the target that was measured"
        ),
        Ended::Spent => {
            format!("{slo}: between {holds} and {breaks} {unit}; the search was given up")
        }
    };
    let law = found.law.map_or_else(
        || "too few measurements for the Universal Scalability Law".to_owned(),
        |law| law_text(&law),
    );
    format!("{end}\n{law}\n")
}

fn law_text(law: &Usl) -> String {
    let peak = law.peak().map_or("none: it grows on".to_owned(), |peak| {
        format!("{:.0} requests in the system, {:.0}/s", peak, law.at(peak))
    });
    format!(
        "Universal Scalability Law over {} measurements: lambda {:.2}/s, sigma {:.5}, kappa {:.3e}; off by {:.1} \
         % (root mean square); peak: {peak}",
        law.points,
        law.lambda,
        law.sigma,
        law.kappa,
        law.error * 100.0
    )
}

fn as_json(found: &Knee, slo: &Slo, by: By) -> Value {
    let probes: Vec<Value> = found
        .probes
        .iter()
        .map(|probe| {
            json!({
                "level": probe.level,
                "became": match probe.became {
                    Became::Holds => "holds",
                    Became::Breaks => "breaks",
                    Became::Doubtful => "doubtful",
                },
                "why": probe.why,
                "throughput_per_s": probe.throughput_per_s,
                "mean_ms": probe.mean_ms,
                "p99_ms": probe.p99_ms,
                "error_percent": probe.error_percent,
                "concurrency": probe.concurrency,
            })
        })
        .collect();
    json!({
        "slo": slo.to_string(),
        "by": match by { By::Rate => "rate", By::Users => "users" },
        "holds": found.holds,
        "breaks": found.breaks,
        "ended": match found.ended {
            Ended::Found => "found",
            Ended::NothingHolds => "nothing-holds",
            Ended::AllHolds => "all-holds",
            Ended::Doubtful => "doubtful",
            Ended::Spent => "spent",
        },
        "law": found.law.map(|law| json!({
            "lambda": law.lambda, "sigma": law.sigma, "kappa": law.kappa, "points": law.points,
            "error": law.error, "peak": law.peak(),
        })),
        "probes": probes,
    })
}
