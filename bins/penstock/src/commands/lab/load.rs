//! `penstock lab load`: one measurement.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use lab::agent;
use lab::knee::Slo;
use lab::load::shape::LOAD_SHAPES;
use lab::load::{self, LoadError, Metrics, Progress, Protocol, STREAMS, Scenario, Stages, Think};
use lab::recording::Recordings;

use super::agent::read_secret;
use super::live::Live;
use super::request_args::RequestArgs;
use crate::commands::{not_written, stderr, stdout, write_result};
use crate::failure::Failure;

/// Generate load on a URL and report latency, throughput and errors
///
/// Without --rate, the loop is closed: each user waits for the response before it sends the next request, so a slow
/// target gets fewer requests. With --rate, the loop is open: requests are sent on a schedule and latency is measured
/// from the scheduled time, which includes any wait. The report begins with warnings: errors, idle users, an overloaded
/// generator.
#[derive(Args)]
#[command(after_help = after_help())]
pub(crate) struct Load {
    /// URL to send requests to (http:// or https://). With ws:// or wss://, each user opens a WebSocket, and a request
    /// is the payload as a message that is answered by one
    url: String,
    #[command(flatten)]
    request: RequestArgs,
    /// Send the requests of this scenario (TOML; docs/generating-load.md), at the URL's host and below its path.
    /// `penstock lab scenario` writes one from a HAR file, a curl command or an API description
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Number of users, each with at most one request in flight; with --rate, the most requests in flight
    /// [default: 1; with --rate: 100]
    #[arg(long, value_name = "N")]
    users: Option<usize>,
    /// Use HTTP/2: negotiated by ALPN for https URLs, with prior knowledge for http URLs
    #[arg(long)]
    http2: bool,
    /// Make gRPC calls (needs --http2): the payload is the message, as bytes of its protocol buffer, and a call
    /// succeeds if its status is 0. A call that streams is one request, which ends with its last response
    #[arg(long, requires = "http2", conflicts_with_all = ["method", "scenario"])]
    grpc: bool,
    /// Send the message this many times in each call (client streaming)
    #[arg(long, value_name = "N", requires = "grpc", default_value_t = 1)]
    grpc_messages: usize,
    /// Number of connections. With --http2, the users share them evenly [default: as few as --streams allows];
    /// without it, each user has its own
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// The most users that share a connection, each with a stream [default: 100]
    #[arg(long, value_name = "N", requires = "http2", value_parser = at_least_one)]
    streams: Option<usize>,
    /// Send requests at a constant rate per second (open loop)
    #[arg(long, value_name = "R", conflicts_with = "think_time")]
    rate: Option<f64>,
    /// Pause between a response and the user's next request: 200ms, or 100ms..300ms for a random pause
    #[arg(long, value_name = "TIME", value_parser = load::parse_think)]
    think_time: Option<Think>,
    /// Start with FROM users (with --rate: FROM requests per second) and increase over the measured time
    #[arg(long, value_name = "FROM")]
    ramp: Option<f64>,
    /// Send requests at rates that change: '100/s for 10s, to 1000/s in 30s, 1000/s for 1m' holds, increases
    /// and holds. The measured time is that of all stages
    #[arg(long, value_name = "STAGES", conflicts_with_all = ["rate", "ramp", "think_time", "duration", "requests"])]
    stages: Option<Stages>,
    /// Send the requests of --rate at random times instead of even intervals: a Poisson process
    #[arg(long, requires = "rate", conflicts_with = "ramp")]
    poisson: bool,
    /// Measured time, such as 10s, 500ms or 2m; starts after the warm-up [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = load::parse_duration)]
    duration: Option<Duration>,
    /// Measure this many requests instead of a time
    #[arg(long, value_name = "N", conflicts_with_all = ["duration", "ramp"])]
    requests: Option<u64>,
    /// Open a connection for each request, with a full TLS handshake; the report has its cost
    #[arg(long)]
    connection_per_request: bool,
    /// Warm-up time; requests sent during it are not measured [default: 3s; with --requests
    /// or --stages: none]
    #[arg(long, value_name = "TIME", value_parser = load::parse_duration)]
    warm_up: Option<Duration>,
    /// Timeout for a complete response; with --rate, also for a free connection
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = load::parse_duration)]
    timeout: Duration,
    /// Number of generator threads; more than one helps only if each has its own CPU
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Also write the report as JSON; the file must not exist, unless it is a pipe or device
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
    /// Exit with 1 if one of these conditions holds, such as 'p99 > 20ms, errors > 1%, rate < 100/s', or if nothing was
    /// measured: mean, p50, p75, p90, p95, p98, p99, p99.9, p99.99, max and errors with `>` or `>=`, rate with `<` or
    /// `<=`
    #[arg(long, value_name = "CONDITIONS", value_parser = failures)]
    fail_if: Option<Slo>,
    /// Serve the figures of the running measurement at this address, in Prometheus' format
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    /// Show the CPU time of this process and its descendants [default: the process that listens on the URL's
    /// port, if it runs on this machine]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Write an HdrHistogram log (V2) with one interval per second, in microseconds; the file must not
    /// exist
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Write a JMeter result file (JTL, CSV with 17 columns) with every request, including the warm-up;
    /// the file must not exist. Not available with --agent
    #[arg(long, value_name = "FILE")]
    jtl: Option<PathBuf>,
    /// Generate the load on the `penstock lab agent` at this address instead; repeatable
    #[arg(long = "agent", value_name = "HOST:PORT", requires = "agent_token_file")]
    agents: Vec<String>,
    /// File with the secret shared with the agents
    #[arg(long, value_name = "FILE", requires = "agents")]
    agent_token_file: Option<PathBuf>,
}

/// The load shapes of the lab, and examples.
fn after_help() -> String {
    let mut help = "Load shapes:\n".to_owned();
    for shape in LOAD_SHAPES {
        help.push_str(&format!("  {:<34}{}\n", shape.flags, shape.summary));
    }
    help.push_str(
        "
Examples:
  penstock lab load http://127.0.0.1:8688/ --users 100 --duration 10s --warm-up 3s \\
      --payload-bytes 1024 --shape array
  penstock lab load http://127.0.0.1:8688/ --rate 5000 --users 200 --hlog 5000.hlog
  penstock lab load http://127.0.0.1:8688/ --stages '100/s for 10s, to 1000/s in 30s, 5000/s for 2s' --json staged.json
  penstock lab load http://127.0.0.1:8688/ --ramp 10 --users 500 --duration 2m --hlog ramp.hlog
  penstock lab load https://127.0.0.1:8243/echo/1.0.0/ --users 100 --tokens tokens.txt \\
      --ca penstock-data/data/tls.crt --expect payload --json result.json
  penstock lab load https://127.0.0.1:8243/echo/1.0.0/ --http2 --connections 10 --streams 10 --insecure
  penstock lab load https://127.0.0.1:8243/echo/1.0.0/ --requests 1000 --connection-per-request --insecure
  penstock lab load http://127.0.0.1:8280/shop/ --users 50 --scenario orders.toml --json orders.json
  penstock lab load http://127.0.0.1:50051/shop.Orders/Get --http2 --grpc --payload request.bin --users 50
  penstock lab load ws://127.0.0.1:8280/chat/1.0.0/ --users 50 --payload-bytes 64
  penstock lab load http://127.0.0.1:8688/ --users 20 --fail-if 'p99 > 20ms, errors > 0.1%, rate < 1000/s'

Exit codes: 0 success, with or without warnings; 1 failure, or a condition of --fail-if holds; 2 usage error.",
    );
    help
}

pub(crate) fn run(args: Load) -> Result<(), Failure> {
    let (json, fail_if, metrics) = (args.json.clone(), args.fail_if.clone(), args.metrics);
    // Fail before the measurement rather than after it.
    if let Some(file) = &json {
        files::check_new(file).map_err(|error| not_written(file, &error))?;
    }
    let agents = args.agents.clone();
    let secret = args.agent_token_file.as_deref().map(read_secret).transpose()?;
    let scenario =
        args.scenario.as_deref().map(Scenario::read).transpose().map_err(Failure::Usage)?;
    let options = options(args).map_err(Failure::Usage)?;
    let options = load::Options { scenario: scenario.map(Arc::new), ..options };
    let metrics = metrics.map(serve_metrics).transpose()?;
    let mut live = Live::default();
    let mut progress = |progress: &Progress| {
        // The figures of the line can be scraped when it is printed.
        metrics.iter().for_each(|metrics| metrics.update(progress));
        let line = progress.to_string();
        if !live.show(&line) {
            stderr(&format!("{line}\n"));
        }
    };
    let report = match secret {
        Some(secret) => agent::run(&options, &agents, &secret, &mut progress),
        None => load::run(&options, &mut progress),
    };
    live.clear();
    let mut report = report.map_err(load_failure)?;
    let broken = fail_if.and_then(|failures| report.check(&failures));
    stdout(&report.table())?;
    if let Some(file) = json {
        write_result(Some(&file), format!("{:#}\n", report.json()).as_bytes())?;
    }
    broken.map_or(Ok(()), |broken| Err(Failure::Error(format!("--fail-if: {broken}"))))
}

fn serve_metrics(listen: SocketAddr) -> Result<Metrics, Failure> {
    let failed = |error| Failure::error(format!("--metrics {listen}: {error}"));
    let metrics = Metrics::start(listen).map_err(failed)?;
    stderr(&format!("metrics at http://{}/metrics\n", metrics.addr()));
    Ok(metrics)
}

pub(super) fn failures(text: &str) -> Result<Slo, String> {
    Slo::parse_failures(text).map_err(|error| error.to_string())
}

pub(super) fn load_failure(error: LoadError) -> Failure {
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

fn options(args: Load) -> Result<load::Options, String> {
    let (shape, default_users) = shape(&args)?;
    let (users, protocol) = protocol(&args, default_users)?;
    let counts = args.requests.is_some();
    let default_duration = if counts { load::LONGEST } else { DURATION };
    let duration = shape.duration().or(args.duration).unwrap_or(default_duration);
    let default_warm_up = if counts || args.stages.is_some() { Duration::ZERO } else { WARM_UP };
    Ok(load::Options {
        users,
        protocol,
        shape,
        recordings: Recordings { hlog: args.hlog, jtl: args.jtl },
        timeout: args.timeout,
        threads: args.threads,
        seed: args.seed,
        duration,
        requests: args.requests,
        connection_per_request: args.connection_per_request,
        grpc_messages: args.grpc.then_some(args.grpc_messages),
        target_pids: args.pid.or_else(|| load::listening_process(&args.url)).into_iter().collect(),
        warm_up: args.warm_up.unwrap_or(default_warm_up),
        ctrl_c: true,
        ..args.request.options(args.url)
    })
}

/// Default number of connections of an open loop.
const OPEN_USERS: usize = 100;

const DURATION: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_secs(3);

/// The number of users, and how they share connections.
fn protocol(args: &Load, default_users: usize) -> Result<(usize, Protocol), String> {
    let is_open = args.rate.is_some() || args.stages.is_some();
    let is_websocket = args.url.starts_with("ws://") || args.url.starts_with("wss://");
    let without_http2 = if is_websocket { Protocol::WebSocket } else { Protocol::Http1 };
    if !args.http2 {
        return match (args.users, args.connections) {
            (Some(users), Some(connections)) if users != connections => Err(format!(
                "--users {users} --connections {connections}: with HTTP/1.1, each user has its own \
                 connection; omit one of them, or add --http2"
            )),
            (users, connections) => {
                Ok((users.or(connections).unwrap_or(default_users), without_http2))
            }
        };
    }
    let per_connection = if args.connection_per_request { 1 } else { STREAMS };
    let asked = match (args.connections, args.streams) {
        (Some(connections), Some(streams)) => connections.saturating_mul(streams),
        (None, Some(streams)) if !is_open => streams,
        (Some(connections), None) => default_users.max(connections),
        (None, _) => default_users,
    };
    let users = args.users.unwrap_or(asked);
    let streams = args.streams.unwrap_or(per_connection);
    let least = users.div_ceil(streams.max(1));
    let connections = args.connections.unwrap_or(least);
    if args.streams.is_some() && connections < least {
        return Err(format!(
            "--users {users}: {connections} connections with {streams} streams each are too few; \
             omit --connections or --streams, or use more"
        ));
    }
    Ok((users, Protocol::Http2 { connections }))
}

/// The shape selected by the flags, and the default number of users.
fn shape(args: &Load) -> Result<(load::Shape, usize), String> {
    let think = args.think_time.unwrap_or_default();
    if let Some(stages) = &args.stages {
        return Ok((load::Shape::Stages { stages: stages.clone() }, OPEN_USERS));
    }
    let shape = match (args.rate, args.ramp) {
        (Some(rate_per_s), None) if args.poisson => load::Shape::Poisson { rate_per_s },
        (Some(rate_per_s), None) => load::Shape::Arrivals { rate_per_s },
        (Some(to_per_s), Some(from_per_s)) => load::Shape::RampArrivals { from_per_s, to_per_s },
        (None, None) => load::Shape::Closed { think },
        (None, Some(from)) => load::Shape::RampUsers { from: whole_users(from)?, think },
    };
    let default = if args.rate.is_some() { OPEN_USERS } else { 1 };
    Ok((shape, default))
}

pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("expected at least 1".to_owned()),
        parsed => parsed.map_err(|error: std::num::ParseIntError| error.to_string()),
    }
}

fn whole_users(from: f64) -> Result<usize, String> {
    let invalid =
        |_| format!("--ramp {from} is not a whole number of users; to ramp a rate, add --rate");
    from.to_string().parse().map_err(invalid)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_every_shape_select_that_shape() {
        for row in LOAD_SHAPES {
            let flags = row.flags.replace(['[', ']'], "").replace(" R", " 50").replace(" N", " 7");
            let flags = flags.replace(" T", " 10ms..20ms").replace(" FROM", " 3");
            let args = parse(&flags).unwrap();
            let (shape, default) = shape(&args).unwrap();
            let (users, _) = protocol(&args, default).unwrap();
            assert_eq!((shape.name(), users), (row.name, 7), "{flags}");
        }
    }

    #[test]
    fn users_share_connections_as_the_flags_say() {
        for (flags, users, connections, streams) in [
            ("--users 3", 3, 3, 1),
            ("--connections 3", 3, 3, 1),
            ("--http2", 1, 1, 1),
            ("--http2 --users 250", 250, 3, 84),
            ("--http2 --users 7 --connections 2", 7, 2, 4),
            ("--http2 --users 9 --connections 5", 9, 5, 2),
            ("--http2 --users 7 --streams 3", 7, 3, 3),
            ("--http2 --connections 5", 5, 5, 1),
            ("--http2 --connections 5 --streams 4", 20, 5, 4),
            ("--http2 --streams 4", 4, 1, 4),
            ("--http2 --users 9 --connections 5 --streams 4", 9, 5, 2),
            ("--http2 --rate 5", 100, 1, 100),
            ("--http2 --rate 5 --streams 4", 100, 25, 4),
            ("--http2 --stages STAGES --streams 4", 100, 25, 4),
            ("--http2 --rate 5 --connections 8", 100, 8, 13),
            ("--http2 --rate 5 --connections 300", 300, 300, 1),
            ("--http2 --rate 5 --connections 3 --streams 2", 6, 3, 2),
            ("--http2 --users 3 --connection-per-request", 3, 3, 1),
        ] {
            let args = parse(flags).unwrap();
            let (found, protocol) = protocol(&args, shape(&args).unwrap().1).unwrap();
            let shared = (protocol.connections(found), protocol.streams(found));
            assert_eq!((found, shared), (users, (connections, streams)), "{flags}");
        }
        for (flags, advice) in [
            ("--users 3 --connections 2", "omit one of them, or add --http2"),
            (
                "--http2 --users 9 --connections 2 --streams 4",
                "omit --connections or --streams, or use more",
            ),
        ] {
            let rejected = protocol(&parse(flags).unwrap(), 1).unwrap_err();
            assert!(rejected.ends_with(advice), "{rejected}");
        }
        assert!(parse("--streams 4").is_none() && parse("--http2 --streams 0").is_none());
    }

    #[test]
    fn conflicting_flags_are_rejected() {
        assert!(parse("--rate 5 --think-time 1s").is_none());
        for other in ["--rate 5", "--ramp 1", "--think-time 1s", "--duration 3s", "--requests 3"] {
            assert!(parse(&format!("--stages STAGES {other}")).is_none(), "{other}");
        }
        let staged = options(parse("--stages STAGES").unwrap()).unwrap();
        assert_eq!((staged.duration, staged.warm_up), (Duration::from_secs(3), Duration::ZERO));
        assert!(parse("--poisson").is_none() && parse("--rate 5 --ramp 1 --poisson").is_none());
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
        let stages = "5/s for 1s, to 9/s in 2s";
        let words =
            flags.split_whitespace().map(|word| if word == "STAGES" { stages } else { word });
        let words = ["load", "http://localhost/"].into_iter().chain(words);
        <Line as clap::Parser>::try_parse_from(words).ok().map(|line| line.load)
    }
}
