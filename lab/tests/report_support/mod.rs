//! A results folder for the tests of reports.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use penstock_lab::result::CaseResult;
use serde_json::{Value, json};

/// Two targets, two numbers of users, two sizes; one case has 10 % errors, one is not served.
pub(crate) fn results(folder: &Path) {
    for (target, factor) in [("penstock", 1.0), ("a <b> & \"c\"", 0.5)] {
        for users in [50_u32, 100] {
            for bytes in [50_u64, 1_024] {
                let rate = factor * f64::from(users) * 40.0;
                let mut case = case(target, users, bytes, rate);
                if target != "penstock" && users == 100 {
                    case["load"]["errors"] = json!(rate);
                    case["load"]["error_percent"] = json!(10.0);
                }
                put(folder, &case);
            }
        }
    }
    let mut unserved = case("penstock", 100, 1_024, 1.0);
    unserved["case"]["scenario"] = json!("mediation");
    unserved["case"]["id"] = json!("mediation/penstock");
    (unserved["state"], unserved["load"]) = (json!("not-served"), Value::Null);
    unserved["reason"] = json!("the target can't transform");
    put(folder, &unserved);
}

fn put(folder: &Path, case: &Value) {
    let case: CaseResult = serde_json::from_value(case.clone()).unwrap();
    let place = folder.join(case.case.id.replace(['<', '>', '"', ' '], "_"));
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("result.json"), case.to_json()).unwrap();
    if !case.load.is_null() {
        fs::write(place.join("histogram.hlog"), log(case.case.users)).unwrap();
    }
}

fn case(target: &str, users: u32, bytes: u64, rate: f64) -> Value {
    let mean = f64::from(users) * 1_000.0 / rate;
    json!({
        "format": 1, "suite": "a suite", "state": "measured", "reason": null,
        "case": {
            "id": format!("passthrough/{target}/{users}_users/{bytes}B/0ms_sleep"), "target": target,
            "scenario": "passthrough", "users": users, "payload_bytes": bytes, "delay_ms": 0,
            "heap": null, "sweep": null, "repetition": 1,
        },
        "load": {
            "requests": rate * 10.0, "errors": 0, "seconds": 10.0, "throughput_per_s": rate,
            "error_percent": 0.0, "errors_by_kind": {}, "mean_ms": mean, "sd_ms": mean / 2.0,
            "min_ms": mean / 4.0, "p50_ms": mean * 0.9, "p75_ms": mean * 1.1, "p90_ms": mean * 1.5,
            "p95_ms": mean * 1.8, "p98_ms": mean * 2.0, "p99_ms": mean * 2.5, "p999_ms": mean * 3.0,
            "max_ms": mean * 9.0,
            "series": (0..5).map(|second| json!({
                "from_s": second, "seconds": 1.0, "requests": rate, "errors": 0, "rate_per_s": rate,
                "p50_ms": mean, "p99_ms": mean * 2.5, "max_ms": mean * 9.0, "generator_cpus": 0.2,
            })).collect::<Vec<_>>(),
            "published": {"samples": rate * 10.0, "errors": 0, "error_percent": 0.0,
                "throughput_per_s": rate, "mean_ms": mean, "users": users, "p99_ms": 60},
        },
        "target_use": {"cpu_user_us": 20.5, "cpu_system_us": 31.0, "rss_mean_bytes": 9_000_000,
            "rss_peak_bytes": 12_000_000, "threads": 3, "voluntary_switches": 0.5,
            "involuntary_switches": 0.01},
        "backend_use": null, "generator_use": null, "load_average": [1.0, 0.5, 0.2], "gc": null,
        "calibration": null,
        "environment": {"steal_percent": 0.0, "other_cpu_percent": 0.0, "clock_step_us": 0, "ports_in_use": 1,
            "ports_available": 100, "descriptors": 1, "descriptors_limit": 100},
        "machine": {"cpu": "a CPU", "cores": 2, "kernel": "a kernel", "memory_bytes": 4_294_967_296_u64,
            "limits": []},
        "versions": [], "config_sha256": "", "seed": 1, "command": [], "started": "2026-01-01T00:00:00Z",
        "warnings": [],
    })
}

/// Three seconds of latencies; the second one contains a slow request.
fn log(users: u32) -> Vec<u8> {
    let (mut bytes, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut log = IntervalLogWriterBuilder::new()
        .with_base_time(UNIX_EPOCH + Duration::from_secs(1_700_000_000))
        .begin_log_with(&mut bytes, &mut serializer)
        .unwrap();
    for second in 0..3 {
        let mut histogram = Histogram::<u64>::new_with_max(600_000_000, 3).unwrap();
        histogram.record_n(u64::from(users) * 100, 1_000).unwrap();
        if second == 1 {
            histogram.record(2_000_000).unwrap();
        }
        let (start, length) = (Duration::from_secs(second), Duration::from_secs(1));
        log.write_histogram(&histogram, start, length, None).unwrap();
    }
    drop(log);
    bytes
}
