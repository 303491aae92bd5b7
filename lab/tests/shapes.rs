//! Load shapes and recordings over real sockets: counts and fields. Timing is tested without a clock in
//! src/load/shape.

#![allow(clippy::cast_possible_truncation, reason = "the figures are small")]

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use echo::Echo;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use penstock_lab::load::{self, LoadError, Options, PublishedStats, Report, Shape, Stop, Think};
use penstock_lab::recording::Recordings;
use tempfile::TempDir;

#[test]
fn an_open_loop_sends_exactly_the_due_requests() {
    let echo = start_echo(0);
    for threads in [1, 3] {
        let before = echo.requests();
        let shape = Shape::Arrivals { rate_per_s: 500.0 };
        let report = run(Options { threads, users: 8, shape, ..options(&echo) });
        // 100 ms of warm-up and 400 ms measured, at 500 per second.
        assert_eq!((report.requests, report.requests_in_all), (200, 250));
        assert_eq!(report.requests_in_all, echo.requests() - before);
        assert_eq!(report.errors_in_all, 0);
        let open = report.open.unwrap();
        assert!(open.service.mean_ms > 0.0 && open.service.mean_ms <= report.latency.mean_ms);
    }
}

#[test]
fn a_ramp_of_arrivals_sends_the_integral_of_its_rate() {
    let echo = start_echo(0);
    let shape = Shape::RampArrivals { from_per_s: 100.0, to_per_s: 900.0 };
    let report = run(Options { users: 8, shape, ..options(&echo) });
    assert_eq!((report.requests, report.requests_in_all), (200, 210));
    assert_eq!(report.requests_in_all, echo.requests());
}

#[test]
fn stages_send_what_each_of_them_is_due() {
    let echo = start_echo(0);
    let text = "500/s for 200ms, to 100/s in 200ms, 0/s for 100ms, 1000/s for 100ms";
    for (threads, warm_up_ms, warm_up) in [(1, 0, 0), (3, 100, 50)] {
        let before = echo.requests();
        let shape = Shape::Stages { stages: text.parse().unwrap() };
        let (duration, warm_up_time) =
            (Duration::from_millis(600), Duration::from_millis(warm_up_ms));
        let report = run(Options {
            users: 8,
            threads,
            shape,
            duration,
            warm_up: warm_up_time,
            ..options(&echo)
        });
        assert_eq!((report.requests, report.requests_in_all), (260, 260 + warm_up));
        assert_eq!(report.requests_in_all, echo.requests() - before);
    }
}

#[test]
fn requests_without_a_free_connection_are_sent_late_and_counted() {
    // One connection and 20 ms per response: at most 50 per second, with 200 per second due.
    let echo = start_echo(20);
    let shape = Shape::Arrivals { rate_per_s: 200.0 };
    let report = run(Options { users: 1, shape, ..options(&echo) });
    assert_eq!((report.requests, report.requests_in_all), (80, 100));
    assert_eq!((report.errors, report.requests_in_all), (0, echo.requests()));
    let open = report.open.unwrap();
    assert!(open.queued > 50, "{}", open.queued);
    assert!(report.latency.max_ms > 500.0 && open.service.p50_ms < open.late.p50_ms);
    let names = names(&report);
    assert!(
        names.iter().any(|code| code == "rate-not-reached")
            && names.iter().any(|code| code == "connections-busy"),
        "{names:?}"
    );
    assert!(
        !names.iter().any(|code| code == "count-and-rate-disagree"),
        "the count of due requests was compared with the achieved rate: {names:?}"
    );
}

#[test]
fn random_arrivals_are_all_sent_and_vary_without_a_warning() {
    let echo = start_echo(0);
    let due = |seed| {
        let shape = Shape::Poisson { rate_per_s: 200.0 };
        let report = run(Options { users: 50, shape, seed, ..options(&echo) });
        let names = names(&report);
        assert!(!names.iter().any(|code| code == "count-and-rate-disagree"), "{names:?}");
        assert_eq!(report.errors, 0);
        report.requests
    };
    let counts: Vec<u64> = (1..=3).map(due).collect();
    assert!(counts.iter().all(|count| (30..=150).contains(count)), "{counts:?}");
    assert!(counts.iter().any(|count| *count != counts[0]), "{counts:?}");
    assert_eq!(due(1), counts[0], "the number of requests due depends on the seed only");
}

#[test]
fn unsent_requests_are_counted() {
    // Accepts connections but never responds.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let report = run(Options {
        users: 2,
        warm_up: Duration::ZERO,
        timeout: Duration::from_millis(300),
        shape: Shape::Arrivals { rate_per_s: 100.0 },
        ..at(silent.local_addr().unwrap())
    });
    assert_eq!((report.requests, report.errors), (40, 40));
    let count = |kind: &str| report.errors_by_kind.iter().find(|(name, _)| name == kind).unwrap().1;
    assert_eq!(count("timeout") + count("unsent"), report.requests);
    assert_eq!(count("timeout"), report.requests_in_all);
    assert!(report.latency.min_ms >= 300.0, "{}", report.latency.min_ms);
}

#[test]
fn a_stop_counts_requests_due_until_then() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let options = Options {
        users: 1,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(3_600),
        shape: Shape::Arrivals { rate_per_s: 1_000.0 },
        ..at(silent.local_addr().unwrap())
    };
    let stop: Stop = options.stop.clone();
    let report = load::run(&options, &mut |_| stop.stop()).unwrap();
    let due = report.seconds * 1_000.0;
    // The request in flight is aborted.
    assert!((report.requests as f64 - due).abs() <= 3.0, "{} of {due}", report.requests);
    assert_eq!(report.errors_by_kind, [("unsent".to_owned(), report.requests)]);
}

#[test]
fn think_time_reduces_requests_and_enters_littles_law() {
    let echo = start_echo(0);
    let shape = Shape::Closed { think: Think::Constant { us: 50_000 } };
    let report = run(Options {
        users: 4,
        shape,
        warm_up: Duration::ZERO,
        requests: Some(20),
        duration: load::LONGEST,
        ..options(&echo)
    });
    assert_eq!((report.requests, report.requests_in_all), (20, echo.requests()));
    // At least one of the users made five requests, with four pauses of 50 ms between them.
    assert!(report.seconds >= 0.2, "{}", report.seconds);
    assert!(
        report.users_by_littles_law > report.latency.mean_ms * report.throughput_per_s / 1_000.0
    );
}

#[test]
fn users_join_over_the_measured_time() {
    // Twice as long until it shows: on a busy machine the last user may get no CPU before the end.
    let mut most_users = (0..7).map(|doubled| {
        let echo = start_echo(0);
        let folder = TempDir::new().unwrap();
        let jtl = folder.path().join("results.jtl");
        let shape = Shape::RampUsers { from: 1, think: Think::None };
        let recordings = Recordings { jtl: Some(jtl.clone()), ..Recordings::default() };
        let longer = |time: Duration| time * 2_u32.pow(doubled);
        let Options { warm_up, duration, .. } = options(&echo);
        let (warm_up, duration) = (longer(warm_up), longer(duration));
        let options = Options { users: 5, shape, recordings, warm_up, duration, ..options(&echo) };
        let report = run(options);
        let lines = read_jtl(&jtl);
        let users = |measured: bool| {
            let chosen = lines.iter().filter(|line| line.measured(&report) == measured);
            chosen.map(|line| line.users).max()
        };
        (users(false), users(true))
    });
    assert!(most_users.any(|users| users == (Some(1), Some(5))));
}

#[test]
fn a_jtl_has_every_request_and_gives_the_published_figures() {
    for (delay_ms, users, shape) in [
        (3, 6, Shape::default()),
        (3, 6, Shape::Arrivals { rate_per_s: 400.0 }),
        // Long enough that a bucket of the two-digit histogram spans four milliseconds.
        (600, 100, Shape::Arrivals { rate_per_s: 100.0 }),
    ] {
        let echo = start_echo(delay_ms);
        let folder = TempDir::new().unwrap();
        let jtl = folder.path().join("results.jtl");
        let recordings = Recordings { jtl: Some(jtl.clone()), ..Recordings::default() };
        let report = run(Options { threads: 2, users, shape, recordings, ..options(&echo) });
        let lines = read_jtl(&jtl);
        assert_eq!(lines.len() as u64, report.requests_in_all);
        let measured: Vec<_> = lines.iter().filter(|line| line.measured(&report)).collect();
        assert_eq!(report.published, recalculated(&measured));
        let warm_up: Vec<_> = lines.iter().filter(|line| !line.measured(&report)).collect();
        assert_eq!(report.published_warm_up, recalculated(&warm_up));
        for line in lines {
            assert!(line.success && line.first_byte_ms <= line.elapsed_ms, "{line:?}");
        }
    }
}

#[test]
fn the_histogram_log_adds_up_to_the_report() {
    let echo = start_echo(0);
    for (shape, tags) in [
        (Shape::default(), &[None][..]),
        (Shape::Arrivals { rate_per_s: 400.0 }, &[None, Some("service")]),
    ] {
        let folder = TempDir::new().unwrap();
        let hlog = folder.path().join("histogram.hlog");
        let recordings = Recordings { hlog: Some(hlog.clone()), ..Recordings::default() };
        let duration = Duration::from_millis(2_100);
        let report =
            run(Options { threads: 2, users: 6, duration, shape, recordings, ..options(&echo) });
        for tag in tags {
            let (intervals, sum) = read_hlog(&hlog, *tag);
            // One a second, but a generator that gets no CPU for seconds writes fewer.
            assert!(intervals >= 1, "{intervals}");
            assert_eq!(sum.len(), report.requests);
        }
        let (_, sum) = read_hlog(&hlog, None);
        let p99_ms = sum.value_at_quantile(0.99) as f64 / 1_000.0;
        assert_eq!(p99_ms.min(report.latency.max_ms), report.latency.p99_ms);
    }
}

#[test]
fn recordings_never_overwrite_files() {
    let echo = start_echo(0);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("existing");
    std::fs::write(&path, "precious").unwrap();
    let some = || Some(path.clone());
    for recordings in
        [Recordings { hlog: some(), jtl: None }, Recordings { hlog: None, jtl: some() }]
    {
        let error = load::run(&Options { recordings, ..options(&echo) }, &mut |_| {}).unwrap_err();
        assert!(matches!(error, LoadError::Usage(_)), "{error}");
        assert!(error.to_string().contains("already exists"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn the_json_has_the_shape_and_both_kinds_of_time() {
    let echo = start_echo(0);
    let closed = run(options(&echo)).json();
    assert_eq!(closed["shape"]["kind"], "closed");
    assert!(closed["service_p99_ms"].is_null() && closed["queued"].is_null());
    let shape = Shape::Arrivals { rate_per_s: 100.0 };
    let open = run(Options { shape, ..options(&echo) }).json();
    assert_eq!(open["shape"]["rate_per_s"], 100.0);
    for key in "service_mean_ms service_p50_ms service_p999_ms late_p99_ms late_max_ms queued \
                generator_lag_p99_ms measured_from_ms"
        .split_whitespace()
    {
        assert!(open[key].is_number(), "{key}: {open}");
    }
    assert_eq!(open["published"]["samples"], open["requests"]);
}

/// Computes the published figures from a JTL by sorting and counting, without a histogram.
fn recalculated(lines: &[&Line]) -> PublishedStats {
    // A generator that gets no CPU during the short warm-up sends nothing in it.
    if lines.is_empty() {
        return PublishedStats::default();
    }
    let mut all: Vec<u64> = lines.iter().map(|line| line.elapsed_ms).collect();
    all.sort_unstable();
    let count = all.len() as f64;
    // Bucket width with two digits: 1 below 256, 2 below 512, 4 below 1,024, ...
    let width = |ms: u64| (0..).map(|n| 1_u64 << n).find(|width| ms < 256 * width).unwrap();
    let rank = |tenths: usize| {
        let ms = all[(all.len() * tenths).div_ceil(1_000).max(1) - 1];
        ms / width(ms) * width(ms) + width(ms) - 1
    };
    let middles = || all.iter().map(|&ms| (ms / width(ms) * width(ms) + width(ms) / 2) as f64);
    let mean = middles().sum::<f64>() / count;
    let squares = middles().map(|ms| (ms - mean) * (ms - mean));
    let first = lines.iter().map(|line| line.time_ms).min().unwrap();
    let last = lines.iter().map(|line| line.time_ms + line.elapsed_ms).max().unwrap();
    let seconds = (last - first) as f64 / 1_000.0;
    let rounded = |value: f64| format!("{value:.2}").parse::<f64>().unwrap();
    let per_s = |bytes: fn(&Line) -> u64| {
        rounded(lines.iter().map(|line| bytes(line)).sum::<u64>() as f64 / 1_024.0 / seconds)
    };
    let (throughput_per_s, mean_ms) = (rounded(count / seconds), rounded(mean));
    PublishedStats {
        samples: all.len() as u64,
        errors: 0,
        error_percent: 0.0,
        throughput_per_s,
        mean_ms,
        sd_ms: rounded((squares.sum::<f64>() / count).sqrt()),
        users: (throughput_per_s * mean_ms / 1_000.0) as u64,
        min_ms: all[0],
        max_ms: all[all.len() - 1],
        p50_ms: rank(500),
        p75_ms: rank(750),
        p90_ms: rank(900),
        p95_ms: rank(950),
        p98_ms: rank(980),
        p99_ms: rank(990),
        p999_ms: rank(999),
        received_kb_per_s: per_s(|line| line.received),
        sent_kb_per_s: per_s(|line| line.sent),
    }
}

#[derive(Debug)]
struct Line {
    time_ms: u64,
    elapsed_ms: u64,
    success: bool,
    received: u64,
    sent: u64,
    users: u64,
    first_byte_ms: u64,
}

impl Line {
    fn measured(&self, report: &Report) -> bool {
        let until_ms = report.measured_from_ms + (report.seconds * 1_000.0).round() as u64;
        (report.measured_from_ms..until_ms).contains(&self.time_ms)
    }
}

fn read_jtl(path: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next().unwrap(),
        "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,\
         failureMessage,bytes,sentBytes,grpThreads,allThreads,URL,Latency,IdleTime,Connect"
    );
    let read = |line: &str| {
        let cells: Vec<_> = line.split(',').collect();
        assert_eq!(cells.len(), 17, "{line}");
        let number = |at: usize| cells[at].parse::<u64>().unwrap();
        Line {
            time_ms: number(0),
            elapsed_ms: number(1),
            success: cells[7] == "true",
            received: number(9),
            sent: number(10),
            users: number(12),
            first_byte_ms: number(14),
        }
    };
    lines.map(read).collect()
}

/// The number of intervals with the tag, and their sum.
fn read_hlog(path: &Path, tag: Option<&str>) -> (usize, Histogram<u64>) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut deserializer = Deserializer::new();
    let mut sum = Histogram::<u64>::new(3).unwrap();
    let mut intervals = 0;
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        let LogEntry::Interval(interval) = entry.unwrap() else { continue };
        if interval.tag().map(|tag| tag.as_str()) != tag {
            continue;
        }
        let encoded = interval.encoded_histogram();
        let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap();
        let one: Histogram<u64> = deserializer.deserialize(&mut &bytes[..]).unwrap();
        sum.add(one).unwrap();
        intervals += 1;
    }
    (intervals, sum)
}

fn names(report: &Report) -> Vec<String> {
    report.warnings().iter().map(|warning| warning.code.clone()).collect()
}

fn run(options: Options) -> Report {
    load::run(&options, &mut |_| {}).unwrap()
}

fn options(echo: &Echo) -> Options {
    at(echo.addr())
}

fn at(addr: SocketAddr) -> Options {
    Options {
        users: 4,
        warm_up: Duration::from_millis(100),
        duration: Duration::from_millis(400),
        ..Options::new(format!("http://{addr}/"))
    }
}

fn start_echo(delay_ms: u64) -> Echo {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Echo::start(echo::Options { listen, delay_ms, tls: None, workers: Some(1) }).unwrap()
}
