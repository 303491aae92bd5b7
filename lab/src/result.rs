//! What one case of a suite found, as `result.json` keeps it: the only thing that the parts of the lab
//! which run and the parts which tell have in common.
//!
//! Written by `matrix` when a case is over; read by checks, reports and comparisons, which may run
//! years later on another machine. Keys are only ever added; [`FORMAT`] changes when one changes its
//! meaning.
//!
//! Architecture invariant: figures and words only. It knows neither how they were measured nor what
//! they are worth.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `format` of a `result.json` that this program writes and reads.
pub const FORMAT: u32 = 1;

/// One case: what was asked, what came out, on what environment it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    /// [`FORMAT`].
    pub format: u32,
    /// Name of the suite.
    pub suite: String,
    pub case: Case,
    /// What published tables call the scenario; `None` in results of before this was kept.
    #[serde(default)]
    pub scenario_name: Option<String>,
    pub state: State,
    /// Why it was not measured. `None` where it was.
    pub reason: Option<String>,
    pub shape: RecordedShape,
    /// What `penstock lab load --json` writes; `null` where nothing was measured.
    pub load: Value,
    pub target_use: Option<Use>,
    pub backend_use: Option<Use>,
    /// Of what the target's file calls helpers: a balancer, a sidecar. `None` where there is none.
    #[serde(default)]
    pub helper_use: Option<Use>,
    pub generator_use: Option<Use>,
    /// Processes ready to run, averaged over 1, 5 and 15 minutes, at the end of the case.
    pub load_average: [f64; 3],
    pub gc: Option<Gc>,
    /// Requests per second of the backend alone for the same size, users and delay.
    pub calibration: Option<f64>,
    #[serde(alias = "ground")]
    pub environment: Environment,
    pub machine: Machine,
    pub versions: Vec<Version>,
    /// SHA-256 of the suite, its scenarios and targets, and of the target's configuration as it was
    /// written for this case, but for ports, folders and keys.
    pub config_sha256: String,
    /// What the opaque tokens, and think times out of a range, were drawn from. Nothing else is left to
    /// chance: the order of cases follows from the suite.
    pub seed: u64,
    /// The command line that ran the suite.
    pub command: Vec<String>,
    /// Beginning of the case, RFC 3339, UTC.
    pub started: String,
    #[serde(alias = "doubts")]
    pub warnings: Vec<Warning>,
}

/// One cell of the matrix, one repetition of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The folder below the run's, without the repetition: the same for the same cell of another run.
    pub id: String,
    pub target: String,
    pub scenario: String,
    /// Connections, each with one request under way, in a closed loop.
    pub users: u32,
    pub payload_bytes: u64,
    /// How long the backend waits before it answers.
    pub delay_ms: u64,
    /// Heap of a JVM target, as its command line has it: `4G`.
    pub heap: Option<String>,
    /// The setting that a sweep varies, and its value.
    pub sweep: Option<(String, String)>,
    /// From 1.
    pub repetition: u32,
}

/// Whether there are figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Measured,
    /// The target can't do this scenario; `reason` says what it lacks.
    NotServed,
    /// The case broke; `reason` says how. A resumed run tries it again.
    Failed,
}

/// How the load was put on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum RecordedShape {
    /// Each user sends when its answer is there.
    Closed {
        /// Milliseconds between an answer and the user's next request, on average; zero in the
        /// published runs.
        #[serde(default)]
        think_ms: u64,
    },
    /// As `Closed`, with more and more users over the measured time.
    RampUsers { from: u64, to: u64 },
    /// Requests begin at a constant rate, whatever the answers do.
    Arrivals { rate_per_s: f64 },
    /// The rate grows evenly over the measured time.
    Ramp { from_per_s: f64, to_per_s: f64 },
}

/// What processes used while the load was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// Microseconds of CPU time per request.
    pub cpu_user_us: f64,
    /// Microseconds of CPU time per request.
    pub cpu_system_us: f64,
    /// Resident memory, summed over the processes: pages that they share count in each.
    pub rss_mean_bytes: u64,
    pub rss_peak_bytes: u64,
    /// Most threads at once.
    pub threads: u64,
    /// Context switches per request: the process waited for something.
    pub voluntary_switches: f64,
    /// Context switches per request: the kernel took the CPU away.
    pub involuntary_switches: f64,
}

/// What a JVM's garbage collector wrote of itself, as GCViewer sums it up (the published columns).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gc {
    /// `Serial`, `Parallel`, `CMS`, `G1`, `ZGC`, `Shenandoah`.
    pub collector: String,
    /// Share of the time without a pause, 0 to 100.
    pub throughput_percent: f64,
    /// Largest heap that the collector held.
    pub footprint_bytes: u64,
    /// Heap in use after full collections, on average. `None` where there was none.
    pub footprint_after_full_mean_bytes: Option<f64>,
    pub footprint_after_full_sd_bytes: Option<f64>,
    pub pauses: u64,
    pub full_collections: u64,
    pub pause_total_ms: f64,
    pub pause_max_ms: f64,
}

/// What else went on on the machine while the load was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// CPU time that the hypervisor gave to others, of the time of all CPUs.
    pub steal_percent: f64,
    /// CPU time of processes that aren't part of the measurement, of the time of all CPUs.
    pub other_cpu_percent: f64,
    /// As `steal_percent`, of the pinned CPU that lost most. Zero where no part is pinned.
    #[serde(default)]
    pub pinned_steal_percent: f64,
    /// As `other_cpu_percent`, of the time of the CPUs that lost most among those to which parts are pinned
    /// together, less what chance may have made of it. Zero unless all parts are pinned.
    #[serde(default)]
    pub pinned_other_cpu_percent: f64,
    /// How far the wall clock moved against the monotonic one, in microseconds; negative: back.
    pub clock_step_us: i64,
    /// Ports of outgoing connections, in use or waiting to be free again, towards the destination that has
    /// most of them.
    pub ports_in_use: u64,
    /// Ports that outgoing connections may have.
    pub ports_available: u64,
    /// Open files of the process that was nearest to its limit, and how many it may have.
    pub descriptors: u64,
    pub descriptors_limit: u64,
}

/// What the measurement ran on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    /// CPUs that this process may run on.
    pub cores: u64,
    pub kernel: String,
    pub memory_bytes: u64,
    /// Limits of the target, the backend and the generator, one sentence each.
    pub limits: Vec<String>,
}

/// A program that took part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub name: String,
    pub version: String,
}

/// One reason not to take a result at face value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// A stable name for programs.
    #[serde(alias = "gate")]
    pub check: String,
    /// A sentence for people.
    pub message: String,
}

impl CaseResult {
    /// A figure of `load` by its name in JSON, such as `throughput_per_s` or `p99_ms`.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.load.get(name).and_then(Value::as_f64)
    }

    /// Reads a `result.json`.
    ///
    /// # Errors
    /// A sentence with the file's name: it can't be read, is no result, or is of another format.
    pub fn read(file: &Path) -> Result<Self, String> {
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let bytes = std::fs::read(file).map_err(|error| told(&error))?;
        let mut found: Self = serde_json::from_slice(&bytes).map_err(|error| told(&error))?;
        rename_old_keys(&mut found.load);
        if found.format != FORMAT {
            return Err(told(&format!("format {}; this program reads {FORMAT}", found.format)));
        }
        Ok(found)
    }

    /// The text of its `result.json`.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Plain structures with text keys: nothing in them can fail to be written.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// Keys of `load` in files written before version 0.2, and what they are called now. The keys of
/// [`CaseResult`] itself have serde aliases.
const OLD_LOAD_KEYS: [(&str, &str); 3] = [
    ("quantised", "published"),
    ("quantised_warm_up", "published_warm_up"),
    ("doubts", "warnings"),
];

fn rename_old_keys(load: &mut Value) {
    let Some(members) = load.as_object_mut() else { return };
    for (old, new) in OLD_LOAD_KEYS {
        if let Some(value) = members.remove(old) {
            members.insert(new.to_owned(), value);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
pub(crate) mod tests {
    use super::*;

    /// A result with every part filled.
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
            shape: RecordedShape::Closed { think_ms: 0 },
            load: serde_json::json!({"throughput_per_s": 1234.5, "p99_ms": 3.25}),
            target_use: Some(Use { cpu_user_us: 12.5, ..Use::default() }),
            backend_use: None,
            helper_use: None,
            generator_use: Some(Use::default()),
            load_average: [0.5, 0.25, 0.125],
            gc: None,
            calibration: Some(50_000.0),
            environment: Environment { clock_step_us: -7, ..Environment::default() },
            machine: Machine { cpu: "a CPU".to_owned(), cores: 2, ..Machine::default() },
            versions: vec![Version { name: "lab".to_owned(), version: "0.1.0".to_owned() }],
            config_sha256: "00".repeat(32),
            seed: 1,
            command: vec!["penstock".to_owned(), "lab".to_owned()],
            started: "2026-01-01T00:00:00Z".to_owned(),
            warnings: vec![Warning {
                check: "errors".to_owned(),
                message: "1 of 2 failed".to_owned(),
            }],
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("result.json");
        std::fs::write(&file, sample().to_json()).unwrap();
        let read = CaseResult::read(&file).unwrap();
        assert_eq!(read, sample());
        assert_eq!((read.figure("p99_ms"), read.figure("p98_ms")), (Some(3.25), None));
    }

    #[test]
    fn keys_of_older_files_are_still_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("result.json");
        let mut new = sample();
        new.load["published"] = serde_json::json!({"samples": 7});
        let old = new
            .to_json()
            .replace("\"environment\"", "\"ground\"")
            .replace("\"warnings\"", "\"doubts\"")
            .replace("\"check\"", "\"gate\"")
            .replace("\"published\"", "\"quantised\"");
        std::fs::write(&file, old).unwrap();
        assert_eq!(CaseResult::read(&file).unwrap(), new);
    }

    #[test]
    fn another_format_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("result.json");
        let text = sample().to_json().replacen("\"format\": 1", "\"format\": 2", 1);
        std::fs::write(&file, text).unwrap();
        let refusal = CaseResult::read(&file).unwrap_err();
        assert!(refusal.contains("result.json: format 2"), "{refusal}");
    }
}
