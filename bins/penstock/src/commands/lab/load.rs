//! `penstock lab load`: one measurement.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lab::agent;
use lab::load::shape::LOAD_SHAPES;
use lab::load::{self, LoadError, Progress, Think};
use lab::raw::Raw;

use super::agent::read_secret;
use super::sent::Sent;
use crate::commands::{already_exists, is_regular_file, stderr, stdout, write_new};
use crate::failure::Failure;

/// Put load on a URL and report latency, throughput and errors
///
/// Without --rate it is a closed loop: each user has one connection and one request under way, and a
/// slow target is asked less often. With --rate it is an open one: requests are due at times of their
/// own, and a latency counts from then, so that nobody's waiting is left out. The report says what
/// speaks against it: errors, users that idled, a generator that was the limit.
#[derive(Args)]
#[command(after_help = after_help())]
pub(crate) struct Load {
    /// http:// or https://
    url: String,
    #[command(flatten)]
    sent: Sent,
    /// Connections, each with one request under way; with --rate, the most there may be
    /// [default: 1; with --rate 100]
    #[arg(long, value_name = "N")]
    users: Option<usize>,
    /// Open loop: requests per second, whatever the target does
    #[arg(long, value_name = "R", conflicts_with = "think_time")]
    rate: Option<f64>,
    /// A pause before each next request of a user, such as 200ms, or 100ms..300ms for any between
    #[arg(long, value_name = "TIME", value_parser = think)]
    think_time: Option<Think>,
    /// Begin with FROM users (with --rate: requests per second) and grow over the measured time
    #[arg(long, value_name = "FROM")]
    ramp: Option<f64>,
    /// Measured time, such as 10s, 500ms or 2m; the warm-up comes before it
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = load::parse_duration)]
    duration: Duration,
    /// Time at the start that does not count
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = load::parse_duration)]
    warm_up: Duration,
    /// Longest wait for a whole answer; with --rate, also for a free connection
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = load::parse_duration)]
    timeout: Duration,
    /// Threads that make the load; more only where they have CPUs of their own
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Settles what is drawn by chance
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Write the report as JSON as well; the file must be new
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
    /// Write an HdrHistogram log (V2), an interval a second, in microseconds; the file must be new. Not
    /// with --agent: agents send what they found as one sum at the end
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Write every request as JMeter does (CSV, 17 columns), warm-up included; the file must be new. Not
    /// with --agent, for the same reason
    #[arg(long, value_name = "FILE")]
    jtl: Option<PathBuf>,
    /// Let the `penstock lab agent` there make its part of the load; give it once for each
    #[arg(long = "agent", value_name = "HOST:PORT", requires = "agent_token_file")]
    agents: Vec<String>,
    /// File with the secret that the agents know
    #[arg(long, value_name = "FILE", requires = "agents")]
    agent_token_file: Option<PathBuf>,
}

/// The shapes as the lab lists them, and commands to begin with.
fn after_help() -> String {
    let mut help = "Load shapes:\n".to_owned();
    for shape in LOAD_SHAPES {
        help.push_str(&format!("  {:<34}{}\n", shape.flags, shape.what));
    }
    help.push_str(
        "
Examples:
  penstock lab load http://127.0.0.1:8688/ --users 100 --duration 10s --warm-up 3s \\
      --payload-bytes 1024 --shape array
  penstock lab load http://127.0.0.1:8688/ --rate 5000 --users 200 --hlog 5000.hlog
  penstock lab load http://127.0.0.1:8688/ --ramp 10 --users 500 --duration 2m --hlog ramp.hlog
  penstock lab load https://127.0.0.1:8243/echo/1.0.0/ --users 100 --tokens tokens.txt \\
      --ca penstock-data/data/tls.crt --expect payload --json result.json",
    );
    help
}

pub(crate) fn run(asked: Load) -> Result<(), Failure> {
    let json = asked.json.clone();
    // Better now than when all has been measured.
    if let Some(file) = json.as_deref().filter(|file| is_regular_file(file)) {
        return Err(already_exists(file));
    }
    let agents = asked.agents.clone();
    let secret = asked.agent_token_file.as_deref().map(read_secret).transpose()?;
    let options = options(asked).map_err(Failure::Usage)?;
    let report = match secret {
        Some(secret) => agent::run(&options, &agents, &secret, &mut show),
        None => load::run(&options, &mut show),
    };
    let report = report.map_err(|error| match error {
        LoadError::Usage(message) => Failure::Usage(message),
        LoadError::File { .. }
        | LoadError::Content(_)
        | LoadError::Name { .. }
        | LoadError::Connect { .. }
        | LoadError::Tls(_)
        | LoadError::Agent { .. }
        | LoadError::System(_) => Failure::error(error),
    })?;
    stdout(&report.table());
    match json {
        Some(file) => write_new(&file, format!("{:#}\n", report.json()).as_bytes()),
        None => Ok(()),
    }
}

fn options(asked: Load) -> Result<load::Options, String> {
    let (shape, users) = shape(&asked)?;
    Ok(load::Options {
        users,
        shape,
        raw: Raw { hlog: asked.hlog, jtl: asked.jtl },
        timeout: asked.timeout,
        threads: asked.threads,
        seed: asked.seed,
        duration: asked.duration,
        warm_up: asked.warm_up,
        ctrl_c: true,
        ..asked.sent.options(asked.url)
    })
}

/// Connections of an open loop when nobody says.
const OPEN_USERS: usize = 100;

/// The shape that the flags ask for, and the users it needs.
fn shape(asked: &Load) -> Result<(load::Shape, usize), String> {
    let think = asked.think_time.unwrap_or_default();
    let shape = match (asked.rate, asked.ramp) {
        (Some(rate_per_s), None) => load::Shape::Arrivals { rate_per_s },
        (Some(to_per_s), Some(from_per_s)) => load::Shape::RampArrivals { from_per_s, to_per_s },
        (None, None) => load::Shape::Closed { think },
        (None, Some(from)) => load::Shape::RampUsers { from: whole_users(from)?, think },
    };
    let default = if asked.rate.is_some() { OPEN_USERS } else { 1 };
    Ok((shape, asked.users.unwrap_or(default)))
}

fn whole_users(from: f64) -> Result<usize, String> {
    let refused = |_| format!("ramp: a whole number of users, not {from} (a rate needs --rate)");
    from.to_string().parse().map_err(refused)
}

/// A line on stderr, written over where that can be.
fn show(progress: &Progress) {
    let phase = if progress.warming_up { "warm-up" } else { "measuring" };
    let line = format!(
        "{phase}: {} requests, {} errors, {:.0}/s, {} s left",
        progress.requests,
        progress.errors,
        progress.rate_per_s,
        progress.left.as_secs()
    );
    if std::io::stderr().is_terminal() {
        stderr(&format!("\r\x1b[K{line}"));
    } else {
        stderr(&format!("{line}\n"));
    }
}

/// `200ms`, or `100ms..300ms`.
fn think(text: &str) -> Result<Think, String> {
    let us = |text| {
        load::parse_duration(text).map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    };
    match text.split_once("..") {
        Some((from, to)) => Ok(Think::Uniform { from_us: us(from)?, to_us: us(to)? }),
        None => Ok(Think::Constant { us: us(text)? }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_every_shape_ask_for_that_shape() {
        for row in LOAD_SHAPES {
            let flags = row.flags.replace(['[', ']'], "").replace(" R", " 50").replace(" N", " 7");
            let flags = flags.replace(" T", " 10ms..20ms").replace(" FROM", " 3");
            let asked = parse(&flags).unwrap();
            let (shape, users) = shape(&asked).unwrap();
            assert_eq!((shape.name(), users), (row.name, 7), "{flags}");
        }
    }

    #[test]
    fn flags_that_do_not_go_together_are_refused() {
        assert!(parse("--rate 5 --think-time 1s").is_none());
        assert!(shape(&parse("--ramp 1.5 --users 3").unwrap()).unwrap_err().contains("--rate"));
        assert_eq!(shape(&parse("--rate 5").unwrap()).unwrap().1, OPEN_USERS);
        assert_eq!(shape(&parse("").unwrap()).unwrap().1, 1);
    }

    fn parse(flags: &str) -> Option<Load> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            load: Load,
        }
        let words = ["load", "http://localhost/"].into_iter().chain(flags.split_whitespace());
        <Line as clap::Parser>::try_parse_from(words).ok().map(|line| line.load)
    }
}
