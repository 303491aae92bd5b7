//! `penstock lab check`, `compare`, `report` and `knee`: output and exit codes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use harness::{Files, penstock};
use lab::result::{CaseResult, State};
use serde_json::{Value, json};

const PUBLISHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/published/");

#[test]
fn warnings_of_published_tables_have_a_line() {
    let files = Files::new();
    let table = format!("{PUBLISHED}api-microgateway.csv");
    let output = run(&files, &["lab", "check", &table], 0);
    assert!(output.contains("144 rows, 5 with warnings, 5 errors, 4 littles-law"), "{output}");
    let json: Value =
        serde_json::from_str(&run(&files, &["lab", "check", &table, "--json"], 0)).unwrap();
    let lines: Vec<u64> = json["files"][0]["flagged"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["line"].as_u64().unwrap())
        .collect();
    assert_eq!(lines, [134, 142, 143, 144, 145]);
    // The former name of the command still works.
    assert_eq!(run(&files, &["lab", "doubts", &table], 0), output);
    run(&files, &["lab", "check", "missing.csv"], 1);
    files.write("other.csv", "a,b\n1,2\n");
    assert!(run(&files, &["lab", "check", "other.csv"], 1).contains("not a results table"));
}

#[test]
fn compare_has_exit_codes_for_ci() {
    let files = Files::new();
    side(files.folder(), "main", &[1_000.0, 1_004.0, 998.0, 1_001.0], 0);
    side(files.folder(), "same", &[1_002.0, 999.0, 1_000.0, 1_003.0], 0);
    side(files.folder(), "slower", &[900.0, 905.0, 898.0, 902.0], 0);
    side(files.folder(), "broken", &[1_002.0, 999.0, 1_000.0, 1_003.0], 200);
    files.write("ci.toml", "baseline = \"main\"\nwithin_percent = 2.0\n");
    files.write("bad.toml", "within = 2.0\n");
    for (arguments, code, expect) in [
        (&["main", "same"][..], 0, "1 same"),
        (&["same", "--thresholds", "ci.toml"], 0, "same within 2 %"),
        (&["main", "slower"], 3, "1 slower"),
        (&["main", "slower", "--within-percent", "20"], 0, "same within 20 %"),
        (&["main", "broken"], 4, "B excludes errors (#1, #2, #3, #4)"),
        (&["main", "missing"], 1, "missing"),
        (&["main"], 2, "only one folder"),
        (&["main", "same", "--thresholds", "bad.toml"], 2, "unknown field `within`"),
    ] {
        let arguments: Vec<&str> = ["lab", "compare"].iter().chain(arguments).copied().collect();
        let output = run(&files, &arguments, code);
        assert!(output.contains(expect), "{arguments:?}: {output}");
    }
}

#[test]
fn the_json_report_of_load_never_overwrites() {
    let files = Files::new();
    let listen = (std::net::Ipv4Addr::LOCALHOST, 0).into();
    let echo = echo::Options { listen, delay_ms: 0, tls: None, workers: Some(1) };
    let echo = echo::Echo::start(echo).unwrap();
    let url = format!("http://{}/", echo.addr());
    let load = |file: &'static str, code: i32| {
        let short = ["--duration", "100ms", "--warm-up", "0s", "--json", file];
        let all: Vec<&str> = ["lab", "load", &url].into_iter().chain(short).collect();
        run(&files, &all, code)
    };
    load("one.json", 0);
    // Like a results folder, it can be checked.
    let checked = run(&files, &["lab", "check", "one.json"], 0);
    assert!(checked.contains("one.json: 1 row, "), "{checked}");
    let written = fs::read_to_string(files.path("one.json")).unwrap();
    assert!(written.contains("throughput_per_s"), "{written}");
    assert!(load("one.json", 2).contains("one.json"));
    assert_eq!(fs::read_to_string(files.path("one.json")).unwrap(), written);
    // A condition that holds is a failure, after the report has been written.
    let conditions = ["--duration", "100ms", "--warm-up", "0s", "--fail-if"];
    let limited = |condition: &'static str, code: i32| {
        let all = [&["lab", "load", &url][..], &conditions, &[condition]].concat();
        run(&files, &all, code)
    };
    assert!(limited("errors > 99%, max >= 0us", 1).contains("--fail-if: max is "));
    assert!(limited("max > 3600s", 0).contains("throughput"));
    assert!(limited("p99 < 1s", 2).contains("column 5: expected `>` or `>=`"));
    // Only regular files are protected from being overwritten.
    assert!(load("/dev/stdout", 0).contains("\"throughput_per_s\""));
}

#[test]
fn report_never_overwrites() {
    let files = Files::new();
    side(files.folder(), "main", &[1_000.0], 0);
    let output = run(&files, &["lab", "report", "main"], 0);
    assert!(output.contains("main/report/report.html: 1 case, "), "{output}");
    let page = fs::read_to_string(files.folder().join("main/report/report.html")).unwrap();
    assert!(
        page.contains("1 case: 1 measured (usable: CPU in 1, rate in 1, latency in 1)"),
        "{page}"
    );
    assert!(run(&files, &["lab", "report", "main"], 1).contains("already exists"));
}

#[test]
fn invalid_objectives_are_rejected_with_the_column() {
    let output =
        run(&Files::new(), &["lab", "knee", "http://127.0.0.1:1/", "--slo", "p99 > 5ms"], 2);
    assert!(output.contains("column 5: expected `<` or `<=`"), "{output}");
}

#[test]
fn the_levels_of_a_knee_search_are_stored() {
    let files = Files::new();
    let level = ["--from", "2", "--to", "2", "--duration", "300ms", "--warm-up", "100ms"];
    let output = |target: &str, more: &[&str], code: i32| {
        let begin = ["lab", "knee", target, "--slo", "max < 60s", "--by", "users", "--json"];
        run(&files, &[&begin[..], &level, more].concat(), code)
    };
    let found = output("backend", &["--out", "out"], 0);
    let json = found.find("{\n").map(|begin| &found[begin..]).unwrap();
    // Stderr follows in the captured output.
    let mut json = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let json = json.next().unwrap().unwrap();
    assert_eq!(json["probes"][0]["level"], 2.0, "{found}");
    assert!(json["probes"][0]["throughput_per_s"].as_f64().unwrap() > 0.0, "{found}");
    let file = files.path("out/2_users/forward/backend/2_users/1024B/0ms_sleep/1/result.json");
    assert_eq!(CaseResult::read(&file).unwrap().state, State::Measured);
    assert!(output("backend", &["--out", "out"], 2).contains("out already exists"));
    assert!(output("backend", &[], 2).contains("--out"));
    assert!(
        output("backend", &["--out", "new", "--expect", "x"], 2)
            .contains("--expect applies to URLs")
    );
    assert!(output("bakend", &["--out", "new"], 2).contains("`backend`"));
    // A scenario that is not served at any load is an error, not a missed level.
    let unserved = output("backend", &["--out", "new", "--scenario", "passthrough"], 1);
    assert!(unserved.contains("backend does not support tls"), "{unserved}");
    assert!(!unserved.contains("missed") && !files.path("new").exists(), "{unserved}");
    assert!(
        output("http://127.0.0.1:1/", &["--out", "new"], 2).contains("--out applies to targets")
    );
}

/// Writes results of ten users with these rates, and `errors` per thousand requests, to a folder.
fn side(folder: &Path, name: &str, rates: &[f64], errors: u64) {
    for (repetition, rate) in (1_u32..).zip(rates) {
        let place = folder.join(name).join(repetition.to_string());
        fs::create_dir_all(&place).unwrap();
        let result = json!({
            "format": 1, "suite": name, "state": "measured", "reason": null,
            "case": {"id": "a", "target": "t", "scenario": "s", "users": 10, "payload_bytes": 50,
                "delay_ms": 0, "heap": null, "sweep": null, "repetition": repetition},
            "load": {"requests": 1_000, "errors": errors, "seconds": 1_000.0 / rate,
                "throughput_per_s": rate, "mean_ms": 10_000.0 / rate},
            "target_use": null, "backend_use": null, "generator_use": null,
            "load_average": [0.0, 0.0, 0.0], "gc": null, "calibration": null,
            "environment": {"steal_percent": 0.0, "other_cpu_percent": 0.0, "clock_step_us": 0, "ports_in_use": 1,
                "ports_available": 100, "descriptors": 1, "descriptors_limit": 100},
            "machine": {"cpu": "", "cores": 2, "kernel": "", "memory_bytes": 0, "limits": []},
            "versions": [], "config_sha256": "", "seed": 1, "command": [],
            "started": format!("2026-01-01T00:00:{repetition:02}Z"), "warnings": [],
        });
        fs::write(place.join("result.json"), result.to_string()).unwrap();
    }
}

/// The output on both streams.
#[track_caller]
fn run(files: &Files, arguments: &[&str], code: i32) -> String {
    let output: Output =
        Command::new(penstock()).args(arguments).current_dir(files.folder()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    text
}
