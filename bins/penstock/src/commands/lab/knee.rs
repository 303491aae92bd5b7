//! `penstock lab knee`: finds the highest load at which an objective is met.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lab::knee::{self, By, Knee, LevelVerdict, Probe, Range, SearchEnd, Slo, Usl};
use lab::load::{self, Progress, Protocol, STREAMS, Stop};
use lab::result::CaseResult;
use lab::suite::knee::LevelSetup;
use lab::suite::{self, Event};
use serde_json::{Value, json};

use super::live::Live;
use super::load::{at_least_one, load_failure};
use super::request_args::RequestArgs;
use super::run::{plan, run_failure, stop_at_signal};
use crate::commands::{stderr, stdout};
use crate::failure::Failure;

/// Find the highest load at which an objective is met
///
/// Doubles the load until the objective is missed, then bisects. Load is requests per second in an open loop
/// (default) or users in a closed loop. Every measurement goes through the validity checks: an invalid one is
/// repeated once; if it is invalid again, the search ends. The Universal Scalability Law is fitted to the
/// measurements.
#[derive(Args)]
#[command(
    after_help = "An objective is a comma-separated list of bounds. A bound is one of mean, p50, p75, p90, p95, p98,
p99, p99.9, p99.99 and max, then `<` or `<=`, then a time in us, ms or s; or errors and a percentage; or rate,
`>` or `>=`, and a number of requests per second such as 100/s.

Ctrl-C ends the search; the levels measured until then are reported.

Examples:
  penstock lab knee penstock --slo 'p99 < 50ms, errors < 0.1%' --out knee-penstock
  penstock lab knee my-gateway.toml --scenario passthrough --slo 'p99 < 20ms' --by users --out knee-mine
  penstock lab knee http://127.0.0.1:8280/echo/1.0.0/ --slo 'p99 < 50ms, errors < 0.1%'
  penstock lab knee https://127.0.0.1:8243/echo/1.0.0/ --slo 'p99 < 50ms' --http2 --streams 10 --insecure
  penstock lab knee http://127.0.0.1:8688/ --slo 'mean < 5ms' --by users --payload-bytes 1024

Exit codes: 0 success, also if the objective is never met; 1 failure or interruption; 2 usage error."
)]
pub(crate) struct KneeArgs {
    /// Name of a shipped target, path of a target file, or URL (http:// or https://)
    #[arg(value_name = "TARGET|URL")]
    target: String,
    /// Scenario to send to a target [default: forward]
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Folder for the results of a target; must not exist
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    request: RequestArgs,
    /// Objective, such as 'p99 < 50ms, errors < 0.1%'
    #[arg(long, value_name = "BOUNDS", value_parser = slo)]
    slo: Slo,
    /// Load to vary
    #[arg(long, value_name = "UNIT", default_value = "rate")]
    by: LoadUnit,
    /// Lowest load [default: 100 requests per second, or 1 user]
    #[arg(long, value_name = "N")]
    from: Option<f64>,
    /// Highest load [default: 1000000 requests per second, or 10000 users]
    #[arg(long, value_name = "N")]
    to: Option<f64>,
    /// Precision of the result, in percent
    #[arg(long, value_name = "X", default_value_t = 5.0)]
    precision: f64,
    /// Measured time per level, such as 10s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = load::parse_duration)]
    duration: Duration,
    /// Warm-up time per level
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = load::parse_duration)]
    warm_up: Duration,
    /// The most requests in flight (open loop)
    #[arg(long, value_name = "N", default_value_t = 200)]
    users: usize,
    /// Use HTTP/2: negotiated by ALPN for https URLs and scenarios, with prior knowledge otherwise
    #[arg(long)]
    http2: bool,
    /// The most users that share a connection, each with a stream [default: 100]
    #[arg(long, value_name = "N", requires = "http2", value_parser = at_least_one)]
    streams: Option<usize>,
    /// Number of generator threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Default payload size of a target's scenario.
const DEFAULT_BYTES: usize = 1_024;

#[derive(Clone, Copy, ValueEnum)]
enum LoadUnit {
    /// Requests per second, open loop
    Rate,
    /// Users, closed loop
    Users,
}

pub(crate) fn run(args: KneeArgs) -> Result<(), Failure> {
    let by = match args.by {
        LoadUnit::Rate => By::Rate,
        LoadUnit::Users => By::Users,
    };
    let range = range(&args, by)?;
    let (slo, json) = (args.slo.clone(), args.json);
    let live = RefCell::new(Live::default());
    let show = |level: f64, progress: &Progress| {
        live.borrow_mut().show(&format!("{level:.1} {}: {progress}", unit(by)));
    };
    let report = |probe: &Probe| {
        live.borrow_mut().clear();
        stderr(&format!("{}\n", line(probe, by)));
    };
    let stop = stop_at_signal()?;
    let found = if args.target.contains("://") {
        let options = url_options(args, by, &stop)?;
        let measure = |level| {
            let mut show = |progress: &Progress| show(level, progress);
            let probe = knee::measure(&options, (by, level), &slo, &mut show);
            let probe = probe.map_err(load_failure)?;
            // The figures of an interrupted level are not those of the level.
            Ok((!stop.is_stopped()).then_some(probe))
        };
        knee::search(range, measure, report)
    } else {
        let (setup, out) = setup(&args)?;
        check_served(&setup, by, range.from)?;
        let plan = suite::Run { stop: stop.clone(), ..plan(out)? };
        let measure = |level| {
            let probe = |found: &CaseResult| knee::judge_case(by, level, &slo, found);
            level_of(&setup, &plan, (by, level), probe, |progress| show(level, progress))
        };
        knee::search(range, measure, report)
    };
    live.borrow_mut().clear();
    let found = found?;
    if json {
        stdout(&format!("{:#}\n", as_json(&found, &slo, by)))?;
    } else {
        stdout(&as_text(&found, &slo, by))?;
    }
    match found.ended {
        SearchEnd::Interrupted => Err(Failure::Error("interrupted".to_owned())),
        SearchEnd::Found
        | SearchEnd::NeverMet
        | SearchEnd::AlwaysMet
        | SearchEnd::Inconclusive
        | SearchEnd::LimitReached => Ok(()),
    }
}

fn url_options(args: KneeArgs, by: By, stop: &Stop) -> Result<load::Options, Failure> {
    let of_target = [("--scenario", args.scenario.is_some()), ("--out", args.out.is_some())];
    if let Some((flag, _)) = of_target.iter().find(|(_, given)| *given) {
        return Err(Failure::Usage(format!("{flag} applies to targets only, not to a URL")));
    }
    let streams = streams(&args);
    // The levels of a closed loop set the users, and keep the streams of a connection.
    let users = match (by, streams) {
        (By::Users, Some(streams)) => streams,
        (By::Users | By::Rate, _) => args.users,
    };
    let protocol = streams.map_or(Protocol::Http1, |streams| Protocol::http2(users, streams));
    let threads = match by {
        By::Rate => args.threads.min(protocol.connections(users)),
        By::Users => args.threads,
    };
    Ok(load::Options {
        users,
        protocol,
        threads,
        duration: args.duration,
        warm_up: args.warm_up,
        stop: stop.clone(),
        ..args.request.options(args.target)
    })
}

/// The users of an HTTP/2 connection. `None`: HTTP/1.1.
fn streams(args: &KneeArgs) -> Option<usize> {
    args.http2.then(|| args.streams.unwrap_or(STREAMS))
}

/// The settings shared by all levels of a target, and the results folder.
fn setup(args: &KneeArgs) -> Result<(LevelSetup, PathBuf), Failure> {
    let out = args.out.clone().ok_or_else(|| {
        let target = &args.target;
        Failure::Usage(format!(
            "target `{target}` needs --out with a new folder (a URL needs http:// or https://)"
        ))
    })?;
    if out.exists() {
        let out = out.display();
        return Err(Failure::Usage(format!("{out} already exists; choose a new folder")));
    }
    let bytes = args.request.only_bytes().map_err(Failure::Usage)?.unwrap_or(DEFAULT_BYTES);
    let setup = LevelSetup {
        target: args.target.clone(),
        scenario: args.scenario.clone().unwrap_or_else(|| "forward".to_owned()),
        bytes: bytes as u64,
        users: args.users,
        threads: args.threads,
        streams: streams(args),
        warm_up: args.warm_up,
        measure: args.duration,
    };
    Ok((setup, out))
}

/// Fails if the target does not serve the scenario or is not installed, which is the same at all levels.
fn check_served(setup: &LevelSetup, by: By, level: f64) -> Result<(), Failure> {
    let suite = setup.suite(by, level).map_err(Failure::Usage)?;
    suite::not_served(&suite).map_or(Ok(()), |why| Err(Failure::Error(why)))
}

/// Measures a level in its own folder. `None`: it was interrupted. A repeated measurement gets a numbered one.
fn level_of(
    setup: &LevelSetup,
    plan: &suite::Run,
    (by, level): (By, f64),
    judge: impl Fn(&CaseResult) -> Probe,
    show: impl Fn(&Progress),
) -> Result<Option<Probe>, Failure> {
    let suite = setup.suite(by, level).map_err(Failure::Usage)?;
    let name = match by {
        By::Rate => format!("{level:.1}_per_s"),
        By::Users => format!("{level:.0}_users"),
    };
    let again = (2_u32..).map(|n| format!("{name}-{n}"));
    let new = std::iter::once(name.clone()).chain(again).map(|name| plan.out.join(name));
    let out = new.take(1_000).find(|out| !out.exists()).unwrap_or_else(|| plan.out.join(&name));
    let run = suite::Run { out, ..plan.clone() };
    let mut kept = None;
    let mut keep = |event: &Event<'_>| match event {
        Event::Load(progress) => show(progress),
        Event::End(found) => kept = Some(judge(found)),
        Event::Kept(_) | Event::Plan { .. } | Event::Begin { .. } => {}
    };
    suite::run(&suite, &run, &mut keep).map_err(run_failure)?;
    Ok(kept)
}

fn range(args: &KneeArgs, by: By) -> Result<Range, Failure> {
    let (from, to) = match by {
        By::Rate => (100.0, 1_000_000.0),
        By::Users => (1.0, 10_000.0),
    };
    let range = Range {
        from: args.from.unwrap_or(from),
        to: args.to.unwrap_or(to),
        precision: args.precision / 100.0,
        whole: by == By::Users,
    };
    if !(range.from > 0.0 && range.to >= range.from && range.to.is_finite()) {
        return Err(Failure::Usage("--from must be above 0 and at most --to".to_owned()));
    }
    if !(range.precision > 0.0 && range.precision < 1.0) {
        return Err(Failure::Usage("--precision must be above 0 and below 100".to_owned()));
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
    let verdict = match probe.verdict {
        LevelVerdict::Met => "met",
        LevelVerdict::Missed => "missed",
        LevelVerdict::Inconclusive => "inconclusive",
    };
    format!(
        "{:.1} {}: {verdict}; {:.1}/s, mean {:.3} ms, p99 {:.3} ms, errors {:.2} %{}{}",
        probe.level,
        unit(by),
        probe.throughput_per_s,
        probe.mean_ms,
        probe.p99_ms,
        probe.error_percent,
        if probe.reason.is_empty() { "" } else { ": " },
        probe.reason
    )
}

fn as_text(found: &Knee, slo: &Slo, by: By) -> String {
    let level = |level: Option<f64>| level.map_or("none".to_owned(), |level| format!("{level:.1}"));
    let (met, missed) = (level(found.met), level(found.missed));
    let unit = unit(by);
    let end = match found.ended {
        SearchEnd::Interrupted => {
            format!("{slo}: interrupted; met at {met} {unit}, missed at {missed}")
        }
        SearchEnd::Found => format!("{slo}: met at {met} {unit}, missed at {missed}"),
        SearchEnd::NeverMet => format!("{slo}: missed at the lowest load, {missed} {unit}"),
        SearchEnd::AlwaysMet => {
            format!("{slo}: still met at the highest load, {met} {unit}")
        }
        SearchEnd::Inconclusive => {
            format!("{slo}: met at {met} {unit}; measurements above that are invalid")
        }
        SearchEnd::LimitReached => {
            format!(
                "{slo}: between {met} and {missed} {unit}; the search reached its limit of measurements"
            )
        }
    };
    let law = found.law.map_or_else(
        || "too few measurements for the Universal Scalability Law".to_owned(),
        |law| law_text(&law),
    );
    format!("{end}\n{law}\n")
}

fn law_text(law: &Usl) -> String {
    let peak = law.peak().map_or("none: throughput keeps growing".to_owned(), |peak| {
        format!("{:.0} concurrent requests, {:.0}/s", peak, law.at(peak))
    });
    format!(
        "Universal Scalability Law over {} measurements: lambda {:.2}/s, sigma {:.5}, kappa {:.3e}; error {:.1} % \
         (root mean square); peak: {peak}",
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
                "verdict": match probe.verdict {
                    LevelVerdict::Met => "met",
                    LevelVerdict::Missed => "missed",
                    LevelVerdict::Inconclusive => "inconclusive",
                },
                "reason": probe.reason,
                "throughput_per_s": probe.throughput_per_s,
                "mean_ms": probe.mean_ms,
                "p99_ms": probe.p99_ms,
                "error_percent": probe.error_percent,
                "concurrency": probe.concurrency,
                "warnings": probe.warnings,
            })
        })
        .collect();
    json!({
        "slo": slo.to_string(),
        "by": match by { By::Rate => "rate", By::Users => "users" },
        "met": found.met,
        "missed": found.missed,
        "ended": match found.ended {
            SearchEnd::Found => "found",
            SearchEnd::NeverMet => "never-met",
            SearchEnd::AlwaysMet => "always-met",
            SearchEnd::Inconclusive => "inconclusive",
            SearchEnd::LimitReached => "limit-reached",
            SearchEnd::Interrupted => "interrupted",
        },
        "law": found.law.map(|law| json!({
            "lambda": law.lambda, "sigma": law.sigma, "kappa": law.kappa, "points": law.points,
            "error": law.error, "peak": law.peak(),
        })),
        "probes": probes,
    })
}
