//! `penstock lab load` as a program: its end by Ctrl-C, its metrics, and scenarios made from a curl command.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use echo::Echo;
use harness::{Files, Process};
use nix::sys::signal::Signal;
use serde_json::Value;

#[test]
fn ctrl_c_ends_a_measurement_with_a_report_of_what_was_measured() {
    let files = Files::new();
    let echo = start_echo();
    let url = format!("http://{}/", echo.addr());
    let own = std::process::id().to_string();
    let mut process = Process::start(
        files.folder(),
        &[
            "lab",
            "load",
            &url,
            "--warm-up",
            "0s",
            "--duration",
            "1h",
            "--json",
            "out.json",
            "--metrics",
            "127.0.0.1:0",
            "--pid",
            &own,
            "--fail-if",
            "errors > 50%, rate < 0.5/s",
        ],
    );
    // The target's CPU time is that of this process, which serves the requests.
    let text = process.wait_for(" % CPU, generator ");
    let metrics = scrape(&text);
    for name in ["requests_total", "errors_total", "generator_cpus", "target_cpus", "left_seconds"]
    {
        assert!(metrics.contains(&format!("\npenstock_lab_{name} ")), "{name}: {metrics}");
    }
    process.signal(Signal::SIGINT);
    let status = process.wait();
    let text = process.text();
    assert_eq!(status.code(), Some(0), "{text}");
    // Reasons that make figures unusable come before them.
    let (before, after) = text.split_once("error: interrupted: ").unwrap();
    assert!(after.contains("latency p99") && !before.contains("latency p99"), "{text}");
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(files.path("out.json")).unwrap()).unwrap();
    assert!(report["requests"].as_u64().unwrap() > 0, "{report}");
    assert!(report["target_cpu_us_per_request"].as_f64().unwrap() > 0.0, "{report}");
    let thresholds = report["thresholds"].as_array().unwrap();
    let found: Vec<_> = thresholds.iter().map(|one| (&one["condition"], &one["broken"])).collect();
    assert_eq!(
        found,
        [(&"errors > 50%".into(), &false.into()), (&"rate < 0.5/s".into(), &false.into())]
    );
    assert!(thresholds.iter().all(|one| one["value"].is_number()), "{report}");
    assert_eq!(report["requests_in_all"], echo.requests());
}

#[test]
fn sigterm_does_not_wait_for_a_target_that_never_responds() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let files = Files::new();
    let arguments = [
        "lab",
        "load",
        &url,
        "--warm-up",
        "0s",
        "--duration",
        "1h",
        "--timeout",
        "10m",
        "--fail-if",
        "p99 > 3600s",
    ];
    let mut process = Process::start(files.folder(), &arguments);
    process.wait_for("/s, p50 -, p99 -, 0 errors, ");
    process.signal(Signal::SIGTERM);
    let status = process.wait();
    let text = process.text();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("error: nothing-measured: "), "{text}");
    assert!(text.contains("--fail-if: nothing was measured"), "{text}");
}

#[test]
fn an_interrupted_knee_search_reports_the_levels_that_it_has() {
    let echo = start_echo();
    let url = format!("http://{}/", echo.addr());
    let files = Files::new();
    let mut arguments = vec!["lab", "knee", &url, "--slo", "p99 < 60s, errors <= 100%", "--json"];
    arguments.extend(["--warm-up", "0s", "--duration", "1s", "--from", "1", "--by", "users"]);
    let mut process = Process::start(files.folder(), &arguments);
    process.wait_for("1.0 users: met; ");
    process.signal(Signal::SIGINT);
    let status = process.wait();
    let text = process.text();
    assert_eq!(status.code(), Some(1), "{text}");
    for part in ["\"ended\": \"interrupted\"", "\"level\": 1.0", "\"warnings\": ["] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_curl_command_becomes_a_scenario_that_can_be_measured() {
    let files = Files::new();
    let echo = start_echo();
    let base = format!("http://{}", echo.addr());
    let command = format!("curl {base}/orders -H 'X-Tenant: a' -d '{{\"id\": 7}}'");
    let arguments = ["lab", "scenario", "from-curl", &command, "--out", "orders.toml"];
    let (code, text) = Process::run(files.folder(), &arguments);
    assert_eq!(code, Some(0), "{text}");
    // The echo backend returns the body, from which the next request takes its value.
    let sequence = "\n[[sequence]]\n[[sequence.request]]\nname = \"first\"\npath = \"/\"\nbody = '{\"id\": 8}'\n\
        extract.id = { json = \"$.id\" }\n[[sequence.request]]\nname = \"second\"\npath = \"/\"\n\
        body = \"{{id}}\"\nexpect = \"8\"\n";
    files.write(
        "orders.toml",
        &(std::fs::read_to_string(files.path("orders.toml")).unwrap() + sequence),
    );
    let arguments = [
        "lab",
        "load",
        &base,
        "--scenario",
        "orders.toml",
        "--requests",
        "90",
        "--json",
        "out.json",
    ];
    let (code, text) = Process::run(files.folder(), &arguments);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("orders.toml at http://"), "{text}");
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(files.path("out.json")).unwrap()).unwrap();
    assert_eq!((report["errors"].as_u64(), echo.requests()), (Some(0), 90), "{text}");
    let names: Vec<_> =
        report["by_request"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["POST /orders", "first", "second"]);

    files.write("orders.toml", "[[request]]\nname = \"a\"\npath = \"b\"\n");
    let (code, text) = Process::run(files.folder(), &arguments[..5]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("orders.toml:3:8: error: a path begins with `/`"), "{text}");
}

/// The response of the address that `text` names.
fn scrape(text: &str) -> String {
    let from = text.split("metrics at http://").nth(1).unwrap();
    let mut stream = TcpStream::connect(from.split('/').next().unwrap()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn start_echo() -> Echo {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Echo::start(echo::Options { listen, delay_ms: 0, tls: None, workers: Some(1) }).unwrap()
}
