//! One measurement: a generator loads a target for some seconds. The target's CPU time is read from /proc within the
//! measured time and divided by the number of requests in it.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::cells::Cell;
use super::process::{self, Process};
use super::targets::installed;
use super::test_bed::{self, LOAD_CORE, TestBed};
use crate::shell::pause;

/// CPU time is read this long after the start and before the end of the measured time.
const EDGE: Duration = Duration::from_millis(200);
/// Memory for the requests that wrk prepares before it starts; with large bodies, it prepares fewer.
const WRK_BYTES_MAX: u32 = 64 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generator {
    Lab,
    Wrk,
}

/// Where to send requests, and whose CPU time to read.
pub(crate) struct LoadTarget {
    pub(crate) url: String,
    pub(crate) pid: u32,
}

pub(crate) struct Plan {
    pub(crate) seconds: u64,
    pub(crate) warm_up_s: u64,
}

/// The result of one measurement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    pub(crate) requests: u64,
    /// Including the warm-up.
    pub(crate) requests_in_all: u64,
    pub(crate) errors: u64,
    pub(crate) per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// CPU time of the target per request.
    pub(crate) cpu_us: f64,
    /// CPU time of the generator per request.
    pub(crate) generator_us: f64,
    /// Utilisation of the target's core, 0 to 1.
    pub(crate) busy: f64,
    pub(crate) memory_mib: f64,
}

impl fmt::Display for Sample {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu_us, per_s, p50_ms, p99_ms, busy, errors, .. } = self;
        write!(
            to,
            "{cpu_us:.2} µs, {per_s:.0}/s, p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms, core {:.0} %, {errors} errors",
            busy * 100.0
        )
    }
}

/// Measures once.
///
/// # Errors
/// The generator fails, or its output cannot be parsed.
pub(crate) fn run(
    bed: &TestBed,
    target: &LoadTarget,
    cell: &Cell,
    generator: Generator,
    plan: &Plan,
) -> Result<Sample, String> {
    let out = bed.folder.join("load.json");
    let log = bed.folder.join("load.txt");
    let (program, arguments) = match generator {
        Generator::Lab => (bed.penstock.clone(), lab_arguments(bed, target, cell, plan, &out)),
        Generator::Wrk => wrk_command(bed, target, cell, plan)?,
    };
    _ = std::fs::remove_file(&out);
    let mut load = Process::start(LOAD_CORE, &program, &arguments, &log)?;
    let used = watch(&mut load, target.pid, plan);
    let status = load.wait()?;
    if !status.success() {
        return Err(format!("the generator exited with {status}:\n{}", test_bed::read(&log)?));
    }
    let sample = match generator {
        Generator::Lab => read_lab(&test_bed::read(&out)?)?,
        Generator::Wrk => read_wrk(&test_bed::read(&log)?)?,
    };
    Ok(used.complete(sample))
}

/// A generator that runs until it is interrupted, without a warm-up.
pub(crate) struct SteadyLoad {
    load: Process,
    out: PathBuf,
    log: PathBuf,
}

impl SteadyLoad {
    /// Starts it; it ends by itself after `seconds_max`.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(
        bed: &TestBed,
        target: &LoadTarget,
        cell: &Cell,
        seconds_max: u64,
    ) -> Result<Self, String> {
        let (out, log) = (bed.folder.join("steady.json"), bed.folder.join("steady.txt"));
        let plan = Plan { seconds: seconds_max, warm_up_s: 0 };
        let arguments = lab_arguments(bed, target, cell, &plan, &out);
        _ = std::fs::remove_file(&out);
        let load = Process::start(LOAD_CORE, &bed.penstock, &arguments, &log)?;
        Ok(Self { load, out, log })
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.load.has_ended()
    }

    /// Ends it and returns its result, without CPU time and memory of the processes.
    ///
    /// # Errors
    /// It failed, or its output cannot be parsed.
    pub(crate) fn finish(mut self) -> Result<Sample, String> {
        if !self.has_ended() {
            self.load.interrupt()?;
        }
        let status = self.load.wait()?;
        if !status.success() {
            let log = test_bed::read(&self.log)?;
            return Err(format!("the generator exited with {status}:\n{log}"));
        }
        read_lab(&test_bed::read(&self.out)?)
    }
}

/// Resources used by target and generator within the measured time.
struct Used {
    seconds: f64,
    target_us: u64,
    generator_us: u64,
    memory_kib: u64,
}

fn watch(load: &mut Process, target: u32, plan: &Plan) -> Used {
    let read =
        |load: &Process| (Instant::now(), process::cpu_us(target), process::cpu_us(load.pid()));
    pause(Duration::from_secs(plan.warm_up_s) + EDGE);
    let before = read(load);
    pause((Duration::from_secs(plan.seconds)).saturating_sub(EDGE * 2));
    let after = read(load);
    Used {
        seconds: after.0.duration_since(before.0).as_secs_f64(),
        target_us: after.1.saturating_sub(before.1),
        generator_us: after.2.saturating_sub(before.2),
        memory_kib: process::memory_kib(target),
    }
}

impl Used {
    #[expect(
        clippy::cast_precision_loss,
        reason = "microseconds and KiB of a run are far below 2^52"
    )]
    fn complete(&self, sample: Sample) -> Sample {
        let requests = sample.per_s * self.seconds;
        Sample {
            cpu_us: self.target_us as f64 / requests,
            generator_us: self.generator_us as f64 / requests,
            busy: self.target_us as f64 / 1e6 / self.seconds,
            memory_mib: self.memory_kib as f64 / 1024.0,
            ..sample
        }
    }
}

fn lab_arguments(
    bed: &TestBed,
    target: &LoadTarget,
    cell: &Cell,
    plan: &Plan,
    out: &std::path::Path,
) -> Vec<String> {
    let shown = |path: &std::path::Path| path.display().to_string();
    let mut arguments: Vec<String> = vec!["lab".into(), "load".into(), target.url.clone()];
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    option("--users", cell.connections.to_string());
    option("--duration", format!("{}s", plan.seconds));
    option("--warm-up", format!("{}s", plan.warm_up_s));
    option("--payload", shown(&bed.body(cell)));
    option("--tokens", shown(&bed.tokens));
    option("--json", shown(out));
    if cell.tls {
        option("--ca", shown(&bed.certificate));
    }
    arguments
}

fn wrk_command(
    bed: &TestBed,
    target: &LoadTarget,
    cell: &Cell,
    plan: &Plan,
) -> Result<(PathBuf, Vec<String>), String> {
    let program = installed("wrk").ok_or("wrk is not installed: apt-get install wrk")?;
    let script = bed.folder.join("wrk.lua");
    test_bed::write(&script, &wrk_script(bed, cell))?;
    let arguments = [
        "--threads",
        "1",
        "--connections",
        &cell.connections.to_string(),
        "--duration",
        &format!("{}s", plan.warm_up_s + plan.seconds),
        "--timeout",
        "20s",
        "--latency",
        "--script",
        &script.display().to_string(),
        &target.url,
    ]
    .map(str::to_owned);
    Ok((program, arguments.to_vec()))
}

/// The same request as the lab's, built once per token before the start, so that Lua formats nothing later.
fn wrk_script(bed: &TestBed, cell: &Cell) -> String {
    let requests_max = (WRK_BYTES_MAX / (cell.body_bytes + 1024)).max(1);
    format!(
        r#"wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local requests, next_one = {{}}, 0
function init(args)
  wrk.body = io.open("{}", "rb"):read("*a")
  for token in io.lines("{}") do
    if #requests == {requests_max} then break end
    wrk.headers["Authorization"] = "Bearer " .. token
    requests[#requests + 1] = wrk.format()
  end
end
function request()
  next_one = next_one % #requests + 1
  return requests[next_one]
end
"#,
        bed.body(cell).display(),
        bed.tokens.display(),
    )
}

fn read_lab(json: &str) -> Result<Sample, String> {
    let report: serde_json::Value = serde_json::from_str(json)
        .map_err(|error| format!("cannot parse the generator's JSON: {error}"))?;
    let number = |key: &str| {
        report
            .get(key)
            .and_then(serde_json::Value::as_f64)
            .ok_or_else(|| format!("the generator's JSON has no `{key}`"))
    };
    let count = |key: &str| {
        report
            .get(key)
            .and_then(serde_json::Value::as_u64)
            .ok_or_else(|| format!("the generator's JSON has no `{key}`"))
    };
    Ok(Sample {
        requests: count("requests")?,
        requests_in_all: count("requests_in_all")?,
        errors: count("errors")?,
        per_s: number("throughput_per_s")?,
        p50_ms: number("p50_ms")?,
        p99_ms: number("p99_ms")?,
        ..Sample::default()
    })
}

/// Parses wrk's output: `50%  1.23ms` below "Latency Distribution", `Requests/sec: 123.4`, and errors if any.
fn read_wrk(text: &str) -> Result<Sample, String> {
    let after = |label: &str| {
        text.lines().find_map(|line| line.trim_start().strip_prefix(label)).map(str::trim)
    };
    let missing = |label: &str| format!("wrk's output has no `{label}`:\n{text}");
    let number = |label: &str| {
        after(label).and_then(|rest| rest.parse::<f64>().ok()).ok_or_else(|| missing(label))
    };
    let latency = |label: &str| after(label).and_then(milliseconds).ok_or_else(|| missing(label));
    let other_status =
        after("Non-2xx or 3xx responses:").and_then(|rest| rest.parse().ok()).unwrap_or(0);
    let socket_errors: u64 = after("Socket errors:").map_or(0, |rest| {
        rest.split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse::<u64>().ok())
            .sum()
    });
    let requests = text
        .lines()
        .find_map(|line| line.split_once(" requests in "))
        .and_then(|(count, _)| count.trim().parse().ok())
        .ok_or_else(|| missing("requests in"))?;
    Ok(Sample {
        requests,
        requests_in_all: requests,
        errors: other_status + socket_errors,
        per_s: number("Requests/sec:")?,
        p50_ms: latency("50%")?,
        p99_ms: latency("99%")?,
        ..Sample::default()
    })
}

/// Parses `1.23ms`, `456.00us` or `1.2s`.
fn milliseconds(text: &str) -> Option<f64> {
    let (digits, scale) = if let Some(digits) = text.strip_suffix("us") {
        (digits, 0.001)
    } else if let Some(digits) = text.strip_suffix("ms") {
        (digits, 1.0)
    } else {
        (text.strip_suffix('s')?, 1000.0)
    };
    digits.parse::<f64>().ok().map(|value| value * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrks_output_is_read() {
        let text = "Running 2s test @ http://127.0.0.1:1/\n  Latency Distribution\n     50%  456.00us\n     99%    1.25ms\n\
                    \x20 12345 requests in 2.00s, 1.00MB read\n  Socket errors: connect 0, read 2, write 0, timeout 1\n\
                    Requests/sec:   6172.50\nTransfer/sec:      1.00MB\n";
        let sample = read_wrk(text).unwrap();
        assert_eq!((sample.requests, sample.errors), (12345, 3));
        assert!((sample.per_s - 6172.5).abs() < 1e-9 && (sample.p50_ms - 0.456).abs() < 1e-9);
        assert!((sample.p99_ms - 1.25).abs() < 1e-9);
        assert!(read_wrk("nothing").is_err());
    }

    #[test]
    fn the_labs_report_is_read() {
        let json = r#"{"requests":10,"requests_in_all":12,"errors":1,"throughput_per_s":5.5,"p50_ms":1.0,"p99_ms":2.0}"#;
        let sample = read_lab(json).unwrap();
        assert_eq!((sample.requests, sample.errors), (10, 1));
        assert!(read_lab("{}").unwrap_err().contains("has no `requests`"));
    }
}
