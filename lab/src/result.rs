//! The result of a case, stored in `result.json`.
//!
//! Written by `suite` when a case has finished; read by validity checks, reports and comparisons, possibly
//! years later on another machine. Once a version is released, keys are only added; [`FORMAT`] changes if the
//! meaning of a key changes.
//!
//! Architecture invariant: data only.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::knee::{Outcome, Slo, Threshold};
use crate::limits;
use crate::load::Latency;
pub use crate::warning::Warning;

/// Value of `format` in files written and read by this program.
pub const FORMAT: u32 = 1;

/// A case: its settings, results and environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    /// [`FORMAT`].
    pub format: u32,
    /// Name of the suite.
    pub suite: String,
    pub case: Case,
    /// The scenario's name in published tables; `None` in files written before this key existed.
    #[serde(default)]
    pub scenario_name: Option<String>,
    pub state: State,
    /// Why the case was not measured. `None` if it was.
    pub reason: Option<String>,
    /// The output of `penstock lab load --json`; `null` if not measured.
    pub load: Value,
    pub target_use: Option<Use>,
    pub backend_use: Option<Use>,
    /// CPU time of helper processes, such as a balancer or sidecar. `None` without helpers.
    #[serde(default)]
    pub helper_use: Option<Use>,
    pub generator_use: Option<Use>,
    /// Load average over 1, 5 and 15 minutes at the end of the case.
    pub load_average: [f64; 3],
    pub gc: Option<Gc>,
    /// `None` if the target was already running, or was not started by the lab.
    #[serde(default)]
    pub start: Option<Start>,
    /// `None` if the target was not changed under load.
    #[serde(default)]
    pub changes: Option<Changes>,
    /// Requests per second of the backend alone for the same size, users and delay.
    pub calibration: Option<f64>,
    pub environment: Environment,
    pub machine: Machine,
    pub versions: Vec<Version>,
    /// SHA-256 of the suite, its scenarios and targets, and the target's configuration as rendered for this
    /// case, except for ports, folders and keys.
    pub config_sha256: String,
    /// Seed of opaque tokens, think times, Poisson arrivals and the order of a scenario's sequences.
    pub seed: u64,
    /// The command line that ran the suite.
    pub command: Vec<String>,
    /// Start of the case: RFC 3339, UTC.
    pub started: String,
    pub warnings: Vec<Warning>,
}

/// A cell of the matrix, and its repetition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Case folder relative to the run's folder, without the repetition; the same in every run of the suite.
    pub id: String,
    pub target: String,
    pub scenario: String,
    /// Number of users; in an open loop, the maximum number of requests in flight.
    pub users: u32,
    pub payload_bytes: u64,
    /// Delay of the backend before each response.
    pub delay_ms: u64,
    /// Heap size of a JVM target, such as `4G`.
    pub heap: Option<String>,
    /// The swept setting and its value.
    pub sweep: Option<(String, String)>,
    /// From 1.
    pub repetition: u32,
}

/// The state of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Measured,
    /// The target does not support the scenario; see `reason`.
    NotServed,
    /// The case failed; see `reason`. Resuming the run repeats it.
    Failed,
}

/// Resource use of processes over the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// Microseconds of CPU time per request.
    pub cpu_user_us: f64,
    /// Microseconds of CPU time per request.
    pub cpu_system_us: f64,
    /// Resident memory, summed over processes; pages that they share count once for each.
    pub rss_mean_bytes: u64,
    pub rss_peak_bytes: u64,
    /// Maximum number of threads.
    pub threads: u64,
    /// Context switches per request because the process waited.
    pub voluntary_switches: f64,
    /// Context switches per request because the kernel preempted the process.
    pub involuntary_switches: f64,
}

/// The start of a target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// From the start of its processes until all of them were ready.
    pub ready_ms: f64,
    /// Resident memory before the first request, after the suite's `settle` time. `None` without one.
    pub idle_rss_bytes: Option<u64>,
}

/// Changes of the target's configuration under load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// Changes that a client saw in time, and changes that it did not.
    pub live: u64,
    pub lost: u64,
    /// Time until a client saw the change.
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// Figures of a JVM's garbage collector, as computed by GCViewer (the published columns).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gc {
    /// `Serial`, `Parallel`, `CMS`, `G1`, `ZGC`, `Shenandoah`.
    pub collector: String,
    /// Share of time without a pause, 0 to 100.
    pub throughput_percent: f64,
    /// Largest heap.
    pub footprint_bytes: u64,
    /// Average heap in use after full collections. `None` if there were none.
    pub footprint_after_full_mean_bytes: Option<f64>,
    pub footprint_after_full_sd_bytes: Option<f64>,
    pub pauses: u64,
    pub full_collections: u64,
    pub pause_total_ms: f64,
    pub pause_max_ms: f64,
}

/// The state of the machine over the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// CPU time stolen by the hypervisor, of the time of all CPUs.
    pub steal_percent: f64,
    /// CPU time of processes that are not part of the measurement, of the time of all CPUs.
    pub other_cpu_percent: f64,
    /// As `steal_percent`, for the pinned CPU that lost most. 0 if no part is pinned.
    #[serde(default)]
    pub pinned_steal_percent: f64,
    /// As `other_cpu_percent`, for the group of pinned CPUs that lost most, minus sampling noise. 0 unless
    /// all parts are pinned.
    #[serde(default)]
    pub pinned_other_cpu_percent: f64,
    /// Change of the wall clock relative to the monotonic clock, in microseconds; negative: backwards.
    pub clock_step_us: i64,
    /// Ephemeral ports in use or in TIME_WAIT towards the destination with the most.
    pub ports_in_use: u64,
    /// Size of the ephemeral port range.
    pub ports_available: u64,
    /// Open files of the process closest to its limit, and that limit.
    pub descriptors: u64,
    pub descriptors_limit: u64,
}

/// The machine of the measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    /// CPUs available to this process.
    pub cores: u64,
    pub kernel: String,
    pub memory_bytes: u64,
    /// Limits of target, backend and generator, one sentence each.
    pub limits: Vec<String>,
}

impl Machine {
    /// This machine.
    pub(crate) fn here() -> Self {
        let (cpu, kernel, memory_bytes) = crate::target::proc::machine();
        let cores = echo::machine::cpus() as u64;
        Self { cpu, cores, kernel, memory_bytes, limits: Vec::new() }
    }
}

/// A program involved in the measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub name: String,
    pub version: String,
}

impl CaseResult {
    /// A figure of `load` by its JSON key, such as `throughput_per_s` or `p99_ms`.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.load.get(name).and_then(Value::as_f64)
    }

    /// The conditions of `--fail-if`; none without it.
    #[must_use]
    pub fn thresholds(&self) -> Vec<Threshold> {
        let stored = self.load.get("thresholds").cloned().unwrap_or_default();
        serde_json::from_value(stored).unwrap_or_default()
    }

    /// Checks the figures against the conditions of `--fail-if`; they replace those of an earlier check.
    pub fn check(&mut self, failures: &Slo) {
        if self.state != State::Measured {
            return;
        }
        let latency = Latency::deserialize(&self.load).ok();
        let figure = |name| self.figure(name).unwrap_or_default();
        let outcome =
            latency.as_ref().filter(|_| figure("requests") > 0.0).map(|latency| Outcome {
                latency,
                error_percent: figure("error_percent"),
                rate_per_s: figure("throughput_per_s"),
            });
        self.load["thresholds"] = serde_json::json!(failures.thresholds(outcome));
    }

    /// Whether a condition of `--fail-if` holds.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.thresholds().iter().any(|threshold| threshold.broken)
    }

    /// Reads a `result.json`.
    ///
    /// # Errors
    /// A message with the file name: the file cannot be read, is invalid, or has a different format.
    pub fn read(file: &Path) -> Result<Self, String> {
        let describe = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let bytes = files::read(file, limits::LAB_RESULT_BYTES_MAX);
        let bytes = bytes.map_err(|error| describe(&error))?;
        let found: Self = serde_json::from_slice(&bytes).map_err(|error| describe(&error))?;
        if found.format != FORMAT {
            return Err(describe(&format!(
                "unsupported format {}; this program reads {FORMAT}",
                found.format
            )));
        }
        Ok(found)
    }

    /// Reads a `result.json`, or the output of `penstock lab load --json`.
    ///
    /// # Errors
    /// As [`Self::read`]; or the file is neither.
    pub fn read_any(file: &Path) -> Result<Self, String> {
        let describe = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let bytes = files::read(file, limits::LAB_RESULT_BYTES_MAX);
        let bytes = bytes.map_err(|error| describe(&error))?;
        let load: Value = serde_json::from_slice(&bytes).map_err(|error| describe(&error))?;
        if load.get("format").is_some() {
            return Self::read(file);
        }
        Self::of_load(load).ok_or_else(|| {
            describe(&"neither a result.json nor the output of `penstock lab load --json`")
        })
    }

    /// The result of a single measurement: its target is the URL, without conditions; of resource use, `load` has
    /// the CPU time.
    fn of_load(load: Value) -> Option<Self> {
        let options = load.get("options")?;
        let text = |name: &str| options.get(name).and_then(Value::as_str).unwrap_or_default();
        let number = |name: &str| options.get(name).and_then(Value::as_u64).unwrap_or(0);
        let url = text("url").to_owned();
        // The method of a single request, or the file of several.
        let scenario = format!("{}{}", text("method"), text("scenario"));
        load.get("throughput_per_s")?.as_f64()?;
        let began_ms = load.get("measured_from_ms").and_then(Value::as_u64).unwrap_or(0);
        let case = Case {
            id: format!("load/{url}"),
            target: url,
            scenario,
            users: u32::try_from(number("users")).ok()?,
            payload_bytes: number("payload_bytes"),
            delay_ms: 0,
            heap: None,
            sweep: None,
            repetition: 1,
        };
        let started = crate::suite::rfc3339(began_ms / 1_000);
        let stored = |name: &str| load.get(name).cloned().unwrap_or_default();
        Some(Self {
            suite: "lab load".to_owned(),
            machine: serde_json::from_value(stored("machine")).unwrap_or_default(),
            seed: number("seed"),
            warnings: serde_json::from_value(stored("warnings")).unwrap_or_default(),
            load,
            ..Self::new(case, started)
        })
    }

    /// A case without figures.
    pub(crate) fn new(case: Case, started: String) -> Self {
        Self {
            format: FORMAT,
            suite: String::new(),
            case,
            scenario_name: None,
            state: State::Measured,
            reason: None,
            load: Value::Null,
            target_use: None,
            backend_use: None,
            helper_use: None,
            generator_use: None,
            load_average: [0.0; 3],
            gc: None,
            start: None,
            changes: None,
            calibration: None,
            environment: Environment::default(),
            machine: Machine::default(),
            versions: Vec::new(),
            config_sha256: String::new(),
            seed: 0,
            command: Vec::new(),
            started,
            warnings: Vec::new(),
        }
    }

    /// The content of its `result.json`.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Serialising plain structures with string keys cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
pub(crate) mod tests {
    use super::*;

    /// A result with every field set.
    pub(crate) fn sample() -> CaseResult {
        CaseResult {
            format: FORMAT,
            suite: "quick".to_owned(),
            case: Case {
                id: "passthrough/penstock/10_users/1024B/0ms_sleep".to_owned(),
                target: "penstock".to_owned(),
                scenario: "passthrough".to_owned(),
                users: 10,
                payload_bytes: 1_024,
                delay_ms: 0,
                heap: Some("4G".to_owned()),
                sweep: Some(("workers".to_owned(), "2".to_owned())),
                repetition: 1,
            },
            scenario_name: Some("Passthrough".to_owned()),
            state: State::Measured,
            reason: None,
            load: serde_json::json!({"throughput_per_s": 1234.5, "p99_ms": 3.25}),
            target_use: Some(Use { cpu_user_us: 12.5, ..Use::default() }),
            backend_use: None,
            helper_use: None,
            generator_use: Some(Use::default()),
            load_average: [0.5, 0.25, 0.125],
            gc: None,
            start: Some(Start { ready_ms: 17.5, idle_rss_bytes: Some(9_000_000) }),
            changes: None,
            calibration: Some(50_000.0),
            environment: Environment { clock_step_us: -7, ..Environment::default() },
            machine: Machine { cpu: "a CPU".to_owned(), cores: 2, ..Machine::default() },
            versions: vec![Version { name: "lab".to_owned(), version: "0.1.0".to_owned() }],
            config_sha256: "00".repeat(32),
            seed: 1,
            command: vec!["penstock".to_owned(), "lab".to_owned()],
            started: "2026-01-01T00:00:00Z".to_owned(),
            warnings: vec![crate::validity::recorded("errors", "1 of 2 failed")],
        }
    }

    #[test]
    fn results_can_be_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("result.json");
        std::fs::write(&file, sample().to_json()).unwrap();
        let read = CaseResult::read(&file).unwrap();
        assert_eq!(read, sample());
        assert_eq!((read.figure("p99_ms"), read.figure("p98_ms")), (Some(3.25), None));
    }

    #[test]
    fn other_formats_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("result.json");
        let text = sample().to_json().replacen("\"format\": 1", "\"format\": 2", 1);
        std::fs::write(&file, text).unwrap();
        let error = CaseResult::read(&file).unwrap_err();
        assert!(error.contains("unsupported format 2"), "{error}");
    }
}
