//! The validity checks on measurements: misbehaving targets on real sockets are flagged for the right reason.
//! Conditions that cannot be produced on demand are tested with data.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use penstock_lab::load::{self, Options};
use penstock_lab::validity::{Backend, CHECKS, Conditions, Figure, Finding, Generator, Loop, Row};

const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"size\":\"20B\", \"a\":1";

#[test]
fn errors_and_statuses_are_flagged() {
    let addr = serve(|turn| match turn % 5 {
        0 => Response::Bytes(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
        _ => Response::Bytes(GOOD),
    });
    let warnings = measured(addr);
    let output = |check: &str| message(&warnings, check);
    assert!(output("errors").contains("status-503"), "{warnings:?}");
    assert!(output("status-mix").contains("status other than 2xx"), "{warnings:?}");
    assert!(output("errors").starts_with("20"), "{warnings:?}");
}

#[test]
fn truncated_bodies_are_flagged() {
    let addr = serve(|turn| match turn % 3 {
        0 => Response::Cut(&GOOD[..GOOD.len() - 5]),
        _ => Response::Bytes(GOOD),
    });
    let warnings = measured(addr);
    assert!(message(&warnings, "wrong-bodies").contains("closed"), "{warnings:?}");
}

#[test]
fn bodies_without_the_expected_text_are_flagged() {
    let addr = serve(|turn| match turn % 3 {
        0 => Response::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"),
        _ => Response::Bytes(GOOD),
    });
    let warnings = measured(addr);
    assert!(message(&warnings, "wrong-bodies").contains("body-mismatch"), "{warnings:?}");
}

#[test]
fn stalls_are_flagged_by_timeouts_and_mean() {
    // After 95 responses the target stalls, and five requests time out: the mean is at least 50 ms.
    let addr = serve(|turn| if turn < 95 { Response::Bytes(GOOD) } else { Response::Never });
    let warnings = measured_with(addr, Duration::from_secs(1));
    assert!(message(&warnings, "errors").contains("timeout"), "{warnings:?}");
    assert!(message(&warnings, "stalls").contains("a stall"), "{warnings:?}");
}

#[test]
fn a_good_target_has_no_warnings_about_responses() {
    let warnings = measured(serve(|_| Response::Bytes(GOOD)));
    let of_responses = ["errors", "wrong-bodies", "status-mix", "count-and-rate-disagree"];
    assert!(
        !warnings.iter().any(|(check, _)| of_responses.contains(&check.as_str())),
        "{warnings:?}"
    );
}

#[test]
fn a_valid_row_passes_every_check() {
    for check in CHECKS {
        // An open loop has no number of users, and a closed one no requested rate.
        let of_rate = ["rate-not-reached", "connections-busy"].contains(&check.name);
        let row = if of_rate { open() } else { valid() };
        assert_eq!((check.run)(&row), Finding::Passed, "{}", check.name);
    }
}

#[test]
fn each_check_fails_on_its_own_figures_alone() {
    check("nothing-measured", |row| {
        (row.requests, row.rate_per_s, row.mean_ms) = (Some(0.0), None, None);
    });
    for check in ["interrupted", "raw-data", "agent-lost", "agent-clock", "agent-time"] {
        let mut row = valid();
        let texts = vec!["what happened".to_owned()];
        row.incidents.get_or_insert_default().insert(check.to_owned(), texts);
        assert_eq!(names(&row), [check]);
    }
    check("errors", |row| row.error_percent = Some(Figure::exact(0.2)));
    check("wrong-bodies", |row| kind(row, "body-mismatch", 1));
    check("wrong-bodies", |row| kind(row, "closed", 101));
    check("status-mix", |row| kind(row, "status-401", 101));
    check("littles-law", |row| row.loop_kind = Loop::Closed { users: 104.0, think_ms: 0.0 });
    check("littles-law", |row| row.loop_kind = Loop::Closed { users: 100.0, think_ms: 1.0 });
    check("count-and-rate-disagree", |row| row.measured_s = Some(10.4));
    check("percentiles-in-order", |row| row.percentiles_ms[0].1 = Figure::exact(11.0));
    check("percentiles-in-order", |row| row.max_ms = Some(Figure::exact(49.0)));
    check("stalls", |row| row.percentiles_ms[1].1 = Figure::exact(9.5));
    check("mean-out-of-bounds", |row| {
        row.percentiles_ms[2].1 = Figure::exact(1_200.0);
        row.max_ms = Some(Figure::exact(1_300.0));
    });
    check("mean-out-of-bounds", |row| row.sd_ms = Some(Figure::exact(1.0)));
    check("generator-saturated", |row| row.generator = Some(generator(0.86, 0.0, None)));
    check("generator-late", |row| row.generator = Some(generator(0.5, 0.11, None)));
    check("generator-late", |row| row.generator = Some(generator(0.5, 0.0, Some(1.1))));
    check("generator-late", |row| row.generator = Some(Generator { lag_p99_ms: 13.0, ..fine() }));
    check("backend-slow", |row| {
        row.backend = Some(Backend { alone_per_s: Some(19_999.0), delay_ms: 0.0 });
    });
    // 100 users at 10,000/s take 10 ms per request: 4 ms beyond the delay, of which the backend alone takes 3
    // ms.
    check("backend-slow", |row| {
        row.backend = Some(Backend { alone_per_s: Some(100_000.0 / 9.0), delay_ms: 6.0 });
    });
    check("delay-missing", |row| {
        row.backend = Some(Backend { alone_per_s: None, delay_ms: 30.0 });
    });
    check("ports-exhausted", |row| row.conditions.ports = Some((25_500.0, 28_232.0)));
    check("descriptors-exhausted", |row| row.conditions.descriptors = Some((1_000.0, 1_024.0)));
    check("clock-step", |row| row.conditions.clock_step_us = Some(-100_001.0));
    check("cpu-steal", |row| row.conditions.steal_percent = Some(2.1));
    check("cpu-steal-high", |row| row.conditions.steal_percent = Some(10.1));
    check("machine-busy", |row| row.conditions.other_cpu_percent = Some(5.1));
}

#[test]
fn the_tolerance_is_three_percent_in_both_directions() {
    for (users, expect) in
        [(97.2, None), (102.9, None), (96.9, Some("littles-law")), (103.2, Some("littles-law"))]
    {
        let row = Row { loop_kind: Loop::Closed { users, think_ms: 0.0 }, ..valid() };
        assert_eq!(names(&row).first().map(String::as_str), expect, "{users}");
    }
}

#[test]
fn scheduling_jitter_is_not_a_stall() {
    let mut row = valid();
    row.percentiles_ms[1].1 = Figure::exact(9.95);
    assert_eq!(names(&row), [""; 0]);
}

#[test]
fn a_rate_of_zero_is_flagged() {
    let zero = Some(Figure::exact(0.0));
    let loop_kind = Loop::Closed { users: 100.0, think_ms: 0.0 };
    let row = Row { rate_per_s: zero, mean_ms: zero, loop_kind, ..Row::default() };
    assert_eq!(names(&row), ["littles-law"]);
    let row = Row { requests: Some(1.0), measured_s: Some(10.0), ..row };
    assert_eq!(names(&row), ["littles-law", "count-and-rate-disagree"]);
}

#[test]
fn unreached_rates_are_flagged() {
    let loop_kind = Loop::Open { asked_per_s: 10_400.0 };
    let row = Row { loop_kind, requests: Some(104_000.0), ..open() };
    assert_eq!(names(&row), ["rate-not-reached"]);
    assert_eq!(names(&Row { queued_share: Some(0.011), ..open() }), ["connections-busy"]);
    let late = Some(generator(0.5, 0.0, Some(800.0)));
    let row = Row { queued_share: Some(0.5), generator: late, ..open() };
    assert_eq!(names(&row), ["connections-busy"], "the target made the starts late");
}

#[test]
fn a_common_delay_does_not_make_the_backend_slow() {
    // 100 users, 500 ms: 199/s through the target, and hardly more alone.
    let row = Row {
        rate_per_s: Some(Figure::exact(199.0)),
        mean_ms: Some(Figure::exact(502.5)),
        backend: Some(Backend { alone_per_s: Some(199.8), delay_ms: 500.0 }),
        ..Row { loop_kind: Loop::Closed { users: 100.0, think_ms: 0.0 }, ..Row::default() }
    };
    assert_eq!(names(&row), [""; 0]);
}

/// A valid row with every figure: 100 users, 10,000 requests per second, 10 s.
fn valid() -> Row {
    let exact = |value| Some(Figure::exact(value));
    Row {
        label: "a case".to_owned(),
        loop_kind: Loop::Closed { users: 100.0, think_ms: 0.0 },
        random_arrivals: false,
        incidents: Some(BTreeMap::new()),
        rate_per_s: exact(10_000.0),
        mean_ms: exact(10.0),
        sd_ms: exact(5.0),
        min_ms: exact(1.0),
        max_ms: exact(90.0),
        percentiles_ms: vec![
            (50.0, Figure::exact(9.0)),
            (90.0, Figure::exact(10.5)),
            (99.0, Figure::exact(50.0)),
        ],
        requests: Some(100_000.0),
        measured_s: Some(10.0),
        error_percent: exact(0.0),
        errors_by_kind: Some(BTreeMap::new()),
        generator: Some(fine()),
        queued_share: None,
        backend: Some(Backend { alone_per_s: Some(30_000.0), delay_ms: 0.0 }),
        conditions: Conditions {
            steal_percent: Some(0.0),
            other_cpu_percent: Some(1.0),
            clock_step_us: Some(40.0),
            ports: Some((100.0, 28_232.0)),
            descriptors: Some((164.0, 1_024.0)),
        },
    }
}

fn open() -> Row {
    let loop_kind = Loop::Open { asked_per_s: 10_000.0 };
    Row { loop_kind, queued_share: Some(0.009), ..valid() }
}

fn generator(busy: f64, waited: f64, late_p99_ms: Option<f64>) -> Generator {
    Generator { busy, waited, late_p99_ms, lag_p99_ms: 0.2 }
}

fn fine() -> Generator {
    generator(0.5, 0.05, Some(0.5))
}

fn kind(row: &mut Row, name: &str, count: u64) {
    row.errors_by_kind.get_or_insert_default().insert(name.to_owned(), count);
}

#[track_caller]
fn check(check: &str, change: fn(&mut Row)) {
    let mut row = valid();
    change(&mut row);
    assert_eq!(names(&row), [check]);
}

fn names(row: &Row) -> Vec<String> {
    row.warnings().into_iter().map(|warning| warning.code).collect()
}

fn message<'a>(warnings: &'a [(String, String)], check: &str) -> &'a str {
    let found = warnings.iter().find(|(name, _)| *name == check);
    found.map_or_else(|| panic!("no {check} in {warnings:?}"), |(_, message)| message)
}

/// Measures 100 requests to the target and runs the checks on the JSON output of `lab load`.
fn measured(addr: SocketAddr) -> Vec<(String, String)> {
    measured_with(addr, Options::new("").timeout)
}

fn measured_with(addr: SocketAddr, timeout: Duration) -> Vec<(String, String)> {
    let options = Options {
        users: 2,
        warm_up: Duration::ZERO,
        requests: Some(100),
        duration: load::LONGEST,
        timeout,
        expect: Some("20B".to_owned()),
        ..Options::new(format!("http://{addr}/"))
    };
    let report = load::run(&options, &mut |_| {}).unwrap();
    let row = Row::of_load(&report.json());
    row.warnings().into_iter().map(|warning| (warning.code, warning.message)).collect()
}

#[derive(Clone, Copy)]
enum Response {
    Bytes(&'static [u8]),
    /// These bytes, and then the end of the connection.
    Cut(&'static [u8]),
    Never,
}

/// A target whose n-th response, over all connections, is given by `response`; n starts at 0.
fn serve(response: fn(u64) -> Response) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    let turns = Arc::new(AtomicU64::new(0));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let turns = Arc::clone(&turns);
            thread::spawn(move || serve_connection(stream, response, &turns));
        }
    });
    addr
}

fn serve_connection(mut stream: TcpStream, response: fn(u64) -> Response, turns: &AtomicU64) {
    let mut request = Vec::new();
    let mut buffer = [0; 4_096];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        request.extend_from_slice(&buffer[..read]);
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        request.clear();
        let kept = match response(turns.fetch_add(1, Ordering::Relaxed)) {
            Response::Bytes(bytes) => stream.write_all(bytes).is_ok(),
            Response::Cut(bytes) => stream.write_all(bytes).is_err(),
            Response::Never => forever(),
        };
        if !kept {
            return;
        }
    }
}

fn forever() -> bool {
    let (never, signal) = (Mutex::new(()), Condvar::new());
    let guard = never.lock().unwrap();
    drop(signal.wait_while(guard, |()| true));
    false
}
