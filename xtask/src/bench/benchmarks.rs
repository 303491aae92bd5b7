//! The other budgets: latency, a second worker, startup, memory, live change. Each benchmark returns a table.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::Settings;
use super::cells::Cell;
use super::change;
use super::load::{self, Generator, LoadTarget, Plan, Sample};
use super::process;
use super::report::{median, medians};
use super::targets::{self, COMPARED, NGINX, PENSTOCK, Running, TARGETS, Variant, start_penstock};
use super::test_bed::TestBed;
use crate::shell::pause;

/// A benchmark, and its name on the command line.
pub(crate) struct Benchmark {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&TestBed, &Settings) -> Result<String, String>,
}

pub(crate) const BENCHMARKS: &[Benchmark] = &[
    Benchmark { name: "latency", run: latency },
    Benchmark { name: "workers", run: workers },
    Benchmark { name: "start", run: start },
    Benchmark { name: "memory", run: memory },
    Benchmark { name: "change", run: change::change },
];

/// Connections of the latency benchmark, each with one request in flight: from low load to a saturated core.
const USERS: [u32; 4] = [1, 2, 4, 8];
const BOTH_CORES: &str = "0,1";
const ONE_API: Variant = Variant { apis: 1, ..COMPARED };
const MANY_APIS: Variant = Variant { apis: 5_000, operations: 10, ..COMPARED };
const STARTS: usize = 10;

fn cell(tls: bool, connections: u32) -> Cell {
    Cell { tls, body_bytes: 1024, connections }
}

/// Budget 4: the latency that a target adds to the backend's own, at increasing load.
fn latency(bed: &TestBed, settings: &Settings) -> Result<String, String> {
    let penstock = start_penstock(bed, "latency", &COMPARED)?;
    let nginx = TARGETS.iter().find(|target| target.name == NGINX);
    let nginx =
        nginx.map_or(Ok(None), |target| target.start(bed))?.ok_or("nginx is not installed")?;
    let load_targets = [
        ("backend alone", bed.direct()),
        (NGINX, nginx.load_target(false)),
        (PENSTOCK, penstock.load_target(false)),
    ];
    let mut page = String::from(
        "\n### Latency, 1 KiB in cleartext (budget 4: p50 at most 0.100 ms above the backend alone, p99 at most nginx's)\n\n\
         | connections | target | requests/s | target's core | p50 ms | added ms | p99 ms |\n|--:|---|--:|--:|--:|--:|--:|\n",
    );
    for users in USERS {
        let samples = alternate(bed, &cell(false, users), &load_targets, settings)?;
        let alone_ms = samples.first().map_or(0.0, |(_, sample)| sample.p50_ms);
        for (name, Sample { per_s, busy, p50_ms, p99_ms, .. }) in samples {
            let (busy, added_ms) = (busy * 100.0, p50_ms - alone_ms);
            _ = writeln!(
                page,
                "| {users} | {name} | {per_s:.0} | {busy:.0} % | {p50_ms:.3} | {added_ms:.3} | {p99_ms:.3} |"
            );
        }
    }
    Ok(page)
}

/// Budget 6: two workers compared with one, on two cores shared with generator and backend.
fn workers(bed: &TestBed, settings: &Settings) -> Result<String, String> {
    let one = Variant { cores: BOTH_CORES, ..COMPARED };
    let one = start_penstock(bed, "workers-1", &one)?;
    let two = Variant { cores: BOTH_CORES, workers: 2, ..COMPARED };
    let two = start_penstock(bed, "workers-2", &two)?;
    let load_targets = [("1", one.load_target(false)), ("2", two.load_target(false))];
    let samples = alternate(bed, &cell(false, 100), &load_targets, settings)?;
    let base = samples.first().map_or(0.0, |(_, sample)| sample.cpu_us);
    let mut page = String::from(
        "\n### Workers, 1 KiB in cleartext, 100 connections (budget 6: CPU per request with 2 workers at most 1.10 times that with 1)\n\n\
         | workers | CPU µs/request | relative to 1 | requests/s |\n|--:|--:|--:|--:|\n",
    );
    for (name, Sample { cpu_us, per_s, .. }) in samples {
        _ = writeln!(page, "| {name} | {cpu_us:.1} | {:.2} | {per_s:.0} |", cpu_us / base);
    }
    Ok(page)
}

/// The medians for each target, measured in turn.
fn alternate(
    bed: &TestBed,
    cell: &Cell,
    load_targets: &[(&'static str, LoadTarget)],
    settings: &Settings,
) -> Result<Vec<(&'static str, Sample)>, String> {
    let plan = Plan { seconds: settings.seconds, warm_up_s: settings.warm_up_s };
    let mut samples: Vec<Vec<Sample>> = load_targets.iter().map(|_| Vec::new()).collect();
    for round in 1..=settings.rounds {
        for ((name, target), samples) in load_targets.iter().zip(&mut samples) {
            let sample = load::run(bed, target, cell, Generator::Lab, &plan)?;
            eprintln!("bench: {cell} round {round} {name}: {sample}");
            samples.push(sample);
        }
    }
    let medians_each = samples.iter().map(|samples| medians(&samples.iter().collect::<Vec<_>>()));
    Ok(load_targets.iter().map(|(name, _)| *name).zip(medians_each).collect())
}

/// Budget 7: time from the start of the program to the first response; keys and certificate exist already.
fn start(bed: &TestBed, _settings: &Settings) -> Result<String, String> {
    let mut page = String::from(
        "\n### Start (budget 7: 50 ms, 30 MiB)\n\n| APIs | median ms | max ms |\n|--:|--:|--:|\n",
    );
    for variant in [ONE_API, COMPARED] {
        let mut times_ms = Vec::new();
        // The first start fills the file cache and is not counted.
        for count in 0..=STARTS {
            let time = targets::time_to_first_response(bed, "start", &variant, first_response)?;
            if count > 0 {
                times_ms.push(time.as_secs_f64() * 1000.0);
            }
        }
        let most_ms = times_ms.iter().copied().fold(0.0, f64::max);
        _ = writeln!(page, "| {} | {:.1} | {most_ms:.1} |", variant.apis, median(times_ms));
    }
    let size = std::fs::metadata(&bed.penstock).map_or(0, |metadata| metadata.len());
    _ = writeln!(page, "\nSize of the program: {:.1} MiB.", mib(size / 1024));
    Ok(page)
}

/// Repeats the request until the response has status 200.
fn first_response(port: u16, request: &str) -> Result<(), String> {
    const TIMEOUT: Duration = Duration::from_secs(20);
    let start = Instant::now();
    while start.elapsed() < TIMEOUT {
        if fetch(port, request).is_ok_and(|response| response.starts_with("HTTP/1.1 200")) {
            return Ok(());
        }
        pause(Duration::from_micros(200));
    }
    Err("no response with status 200 within 20 s".to_owned())
}

fn fetch(port: u16, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

/// Budget 8: proportional set size (private memory, and a share of shared memory).
fn memory(bed: &TestBed, settings: &Settings) -> Result<String, String> {
    let mut page =
        String::from("\n### Memory (budget 8)\n\n| when | MiB | budget |\n|---|--:|--:|\n");
    let mut row = |when: &str, mib: f64, budget: u32| {
        _ = writeln!(page, "| {when} | {mib:.1} | {budget} |");
    };
    let idle = start_penstock(bed, "memory", &ONE_API)?;
    idle.check(bed)?;
    row("idle, 1 API", resting(&idle), 12);
    for (tls, when, budget) in [
        (false, "1,000 busy connections in cleartext", 30),
        (true, "1,000 busy connections with TLS", 60),
    ] {
        let fresh = start_penstock(bed, "memory-busy", &ONE_API)?;
        let load_targets = [(PENSTOCK, fresh.load_target(tls))];
        let samples = alternate(bed, &cell(tls, 1000), &load_targets, settings)?;
        row(when, samples.first().map_or(0.0, |(_, sample)| sample.memory_mib), budget);
    }
    let many = start_penstock(bed, "memory-many", &MANY_APIS)?;
    many.check(bed)?;
    row("5,000 APIs of 10 operations", resting(&many), 80);
    Ok(page)
}

fn resting(running: &Running) -> f64 {
    // Memory used while loading is returned to the system shortly after the start.
    pause(Duration::from_secs(2));
    mib(process::memory_kib(running.load_target(false).pid))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "sizes of programs and processes are far below 2^52"
)]
fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}
