//! JMeter's own tools read our JTL and report the same figures as we do: its aggregate report (the CSV
//! reader) and its dashboard (`jmeter -g`).
//!
//! Ignored by a plain `cargo test`, since it needs Maven and, the first time, Maven Central; `make test-all` runs
//! it if Maven is installed. The JMeter side is in `lab/jmeter/`.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use penstock_lab::load::{self, Options, Report, Shape};
use penstock_lab::recording::Recordings;
use serde_json::Value;
use tempfile::TempDir;

/// With this number, every percentile but the last has a whole rank, so rounding does not matter.
const REQUESTS: u64 = 400;

#[test]
#[ignore = "needs Maven and Maven Central; `make test-all` runs it. On Debian: apt-get install maven"]
fn jmeters_reports_agree_with_ours() {
    let folder = TempDir::new().unwrap();
    // Below 256 ms figures are not quantised, so all must agree. Busy machines may need several attempts.
    let mut tries = (0..10).map(|number| {
        let jtl = folder.path().join(format!("{number}.jtl"));
        (measured(serve(), &jtl), jtl)
    });
    let (report, jtl) = tries.find(|(report, _)| report.published.max_ms < 256).unwrap();
    let ours = report.published;
    assert_eq!((ours.samples, report.requests_in_all), (REQUESTS, REQUESTS));
    assert!(ours.errors > REQUESTS / 5, "{ours:?}");

    let jmeters = jmeters(&jtl, folder.path());
    let aggregate = &jmeters["aggregate"];
    for (name, expect) in [
        ("samples", ours.samples as f64),
        ("error_percent", ours.error_percent),
        ("mean_ms", ours.mean_ms),
        ("sd_ms", ours.sd_ms),
        ("min_ms", ours.min_ms as f64),
        ("max_ms", ours.max_ms as f64),
        ("p50_ms", ours.p50_ms as f64),
        ("p75_ms", ours.p75_ms as f64),
        ("p90_ms", ours.p90_ms as f64),
        ("p95_ms", ours.p95_ms as f64),
        ("p98_ms", ours.p98_ms as f64),
        ("p99_ms", ours.p99_ms as f64),
        ("p999_ms", ours.p999_ms as f64),
        ("throughput_per_s", ours.throughput_per_s),
        ("received_kb_per_s", ours.received_kb_per_s),
        ("sent_kb_per_s", ours.sent_kb_per_s),
    ] {
        same(aggregate, name, expect);
    }
    let dashboard = &jmeters["dashboard"]["HTTP Request"];
    for (name, expect) in [
        ("sampleCount", ours.samples as f64),
        ("errorCount", ours.errors as f64),
        ("errorPct", ours.error_percent),
        ("meanResTime", ours.mean_ms),
        ("minResTime", ours.min_ms as f64),
        ("maxResTime", ours.max_ms as f64),
        ("throughput", ours.throughput_per_s),
        ("receivedKBytesPerSec", ours.received_kb_per_s),
        ("sentKBytesPerSec", ours.sent_kb_per_s),
    ] {
        same(dashboard, name, expect);
    }
    // JMeter interpolates between a rank and the next.
    for (name, at_least, at_most) in [
        ("pct1ResTime", ours.p90_ms, ours.p95_ms),
        ("pct2ResTime", ours.p95_ms, ours.p98_ms),
        ("pct3ResTime", ours.p99_ms, ours.max_ms),
    ] {
        let found = number(dashboard, name);
        assert!(found >= at_least as f64 && found <= at_most as f64, "{name}: {found}, {ours:?}");
    }
}

/// Two decimals. JMeter's `float` percentages have about seven digits.
#[track_caller]
fn same(jmeters: &Value, name: &str, expect: f64) {
    let found = number(jmeters, name);
    assert!((found - expect).abs() <= 0.005_001, "{name}: JMeter {found}, ours {expect}");
}

#[track_caller]
fn number(of: &Value, name: &str) -> f64 {
    of[name].as_f64().unwrap_or_else(|| panic!("{name} is not in {of}"))
}

fn jmeters(jtl: &Path, folder: &Path) -> Value {
    let build = folder.join("build");
    let figures = folder.join("figures.json");
    let pom = Path::new(env!("CARGO_MANIFEST_DIR")).join("jmeter/pom.xml");
    let words = [&build.join("home"), jtl, &folder.join("dashboard"), &figures];
    let words: Vec<_> = words.iter().map(|path| path.display().to_string()).collect();
    let out = Command::new("mvn")
        .args(["--quiet", "--batch-mode", "--file"])
        .arg(pom)
        .arg(format!("-Dbuild={}", build.display()))
        .args(["compile", "exec:java"])
        .arg(format!("-Dexec.args={}", words.join(" ")))
        .output()
        .expect("Maven is installed: apt-get install maven");
    let output = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{output}{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&std::fs::read(figures).expect(&output)).unwrap()
}

fn measured(addr: SocketAddr, jtl: &Path) -> Report {
    let options = Options {
        shape: Shape::Arrivals { rate_per_s: REQUESTS as f64 },
        users: 50,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(1),
        expect: Some("20B".to_owned()),
        recordings: Recordings { jtl: Some(jtl.to_owned()), hlog: None },
        ..Options::new(format!("http://{addr}/?a=1,2"))
    };
    load::run(&options, &mut |_| {}).unwrap()
}

/// Responds correctly, except that three of ten requests get another status, another body, or no response.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    let turn = Arc::new(AtomicU64::new(0));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let turn = Arc::clone(&turn);
            thread::spawn(move || serve_connection(stream, &turn));
        }
    });
    addr
}

fn serve_connection(mut stream: TcpStream, turn: &AtomicU64) {
    let mut head = Vec::new();
    let mut byte = [0];
    while let Ok(1) = stream.read(&mut byte) {
        head.push(byte[0]);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        head.clear();
        let response: &[u8] = match turn.fetch_add(1, Ordering::Relaxed) % 10 {
            3 => b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
            5 => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno",
            7 => return,
            _ => b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{\"size\":\"20B\"}",
        };
        if stream.write_all(response).is_err() {
            return;
        }
    }
}
