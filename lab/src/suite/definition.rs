//! A suite: which targets, scenarios, users, sizes and delays to measure, for how long and in which order.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::limits::LOAD_TIMEOUT_S_MAX;
use serde::Deserialize;
use toml::Spanned;

use super::fingerprint;
use super::parse::{self, File};
use super::scenario::{Exchange, Scenario};
use super::source::{Source, duration};
use crate::load::{self, Protocol, STREAMS, Shape};
use crate::target::definition::Target;

/// A suite with its scenarios and targets resolved.
#[derive(Clone, Debug)]
pub struct Suite {
    pub name: String,
    pub about: String,
    pub matrix: Matrix,
    pub time: Time,
    pub load: LoadPart,
    pub cores: Cores,
    /// Address of the backend; `None`: a free port of 127.0.0.1.
    pub backend: Option<SocketAddrV4>,
    pub limits: BTreeMap<String, Limit>,
    /// Settings that differ from the targets' defaults, by target.
    pub set: BTreeMap<String, BTreeMap<String, String>>,
    pub sweep: Option<Sweep>,
    /// Targets are changed while they are under load.
    pub change: Option<ChangePart>,
    pub scenarios: Vec<Scenario>,
    pub targets: Vec<Target>,
    /// Every file that was read, for the hash and the run's folder.
    pub sources: Vec<Source>,
}

/// The dimensions of the matrix.
#[derive(Clone, Debug)]
pub struct Matrix {
    pub users: Vec<u32>,
    pub bytes: Vec<u64>,
    pub delays_ms: Vec<u64>,
    /// Heap sizes, for targets that have a `heap` setting; other targets run once.
    pub heap: Vec<String>,
    pub repetitions: u32,
    pub order: Order,
    pub restart: Restart,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// All cases of one target before the next, with repetitions of a case in sequence, as in the published
    /// runs.
    #[default]
    Block,
    /// Targets alternate within each cell; the whole matrix runs once per repetition.
    Interleaved,
}

/// When target and backend are restarted.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Before each case, as in the published runs.
    #[default]
    Case,
    /// Only when the next case needs a different target or configuration.
    Suite,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Time {
    /// Warm-up before the measured time; targets may need a longer one.
    #[serde(deserialize_with = "duration::deserialize")]
    pub warm_up: Duration,
    /// The measured time; zero with `requests`.
    #[serde(default, deserialize_with = "duration::deserialize")]
    pub measure: Duration,
    /// The number of measured requests, instead of a time.
    #[serde(default)]
    pub requests: Option<u64>,
    /// Measured time of the backend without a target, once per size, number of users and delay. `None`: the
    /// backend alone is not measured.
    #[serde(default, deserialize_with = "some_duration")]
    pub calibrate: Option<Duration>,
    /// Time between the start of a target and the reading of its idle memory. `None`: it is not read.
    #[serde(default, deserialize_with = "some_duration")]
    pub settle: Option<Duration>,
}

impl Time {
    /// The longest measured time.
    pub(crate) fn longest(&self) -> Duration {
        if self.requests.is_some() { load::LONGEST } else { self.measure }
    }
}

/// `[change]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangePart {
    /// Interval between two changes.
    #[serde(deserialize_with = "duration::deserialize")]
    pub every: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadPart {
    /// As in `penstock lab load` (docs/adding-a-load-shape.md): `{ kind = "closed" }`.
    pub shape: Shape,
    /// Generator threads.
    pub threads: usize,
    /// Timeout for a complete response.
    #[serde(deserialize_with = "duration::deserialize")]
    pub timeout: Duration,
    pub seed: u64,
    /// Write every request to `results.jtl` in JMeter's format.
    pub jtl: bool,
    /// Use HTTP/2 to the target. gRPC always does.
    pub http2: bool,
    /// With HTTP/2: the most users that share a connection [default: 100].
    pub streams: Option<NonZeroUsize>,
    /// Open a connection for each request.
    pub connection_per_request: bool,
    /// Addresses of `penstock lab agent` that generate the load instead of this process.
    pub agents: Vec<String>,
    /// File with the secret shared with the agents; relative to the suite.
    pub agent_token_file: Option<PathBuf>,
}

impl LoadPart {
    /// To a target, for a case with `users`.
    #[must_use]
    pub fn protocol(&self, exchange: Exchange, users: usize) -> Protocol {
        let default = if self.connection_per_request { 1 } else { STREAMS };
        let streams = self.streams.map_or(default, NonZeroUsize::get);
        match exchange {
            Exchange::Http if !self.http2 => Protocol::Http1,
            Exchange::Http | Exchange::Grpc { .. } => Protocol::http2(users, streams),
            Exchange::WebSocket => Protocol::WebSocket,
        }
    }
}

impl Default for LoadPart {
    fn default() -> Self {
        let timeout = Duration::from_secs(LOAD_TIMEOUT_S_MAX);
        Self {
            shape: Shape::default(),
            threads: 1,
            timeout,
            seed: 1,
            jtl: false,
            http2: false,
            streams: None,
            connection_per_request: false,
            agents: Vec::new(),
            agent_token_file: None,
        }
    }
}

/// CPUs that each part is pinned to, in `taskset` notation: `0`, `2-3`, `0,2`. `None`: not pinned.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cores {
    pub target: Option<Spanned<String>>,
    pub backend: Option<Spanned<String>>,
    pub generator: Option<Spanned<String>>,
}

/// Resource limits of a part: `target`, `helper` or `backend`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limit {
    /// CPU quota, such as 0.5.
    pub cpus: Option<f64>,
    /// Such as `500MiB`.
    pub memory: Option<String>,
}

/// A setting of the targets, and the values to run it with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    pub setting: String,
    pub values: Vec<String>,
}

/// A setting's value: any TOML scalar, used as text.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a setting must be a string, a number, `true` or `false`")]
pub(crate) enum SettingValue {
    Flag(bool),
    Whole(i64),
    Number(f64),
    Text(String),
}

impl SettingValue {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Flag(flag) => flag.to_string(),
            Self::Whole(number) => number.to_string(),
            // Keeps the decimal point of `1.0`.
            Self::Number(number) => format!("{number:?}"),
            Self::Text(text) => text.clone(),
        }
    }
}

/// The parts that `[limits]` accepts.
pub const LIMITED: [&str; 3] = ["target", "helper", "backend"];

impl Suite {
    /// Reads a suite file and the targets and scenarios it names. A target is a path ending in `.toml`
    /// (relative to the suite's folder), the name of a file in the suite's `targets/`, or a shipped target.
    ///
    /// # Errors
    /// A diagnostic with file, line, column, and the nearest valid name.
    pub fn read(file: &Path) -> Result<Self, String> {
        Self::from_source(Source::read(file)?)
    }

    /// # Errors
    /// As [`Suite::read`].
    pub fn from_source(source: Source) -> Result<Self, String> {
        let file: File = source.parse()?;
        let folder = source.name.parent().map_or_else(PathBuf::new, Path::to_owned);
        let targets = parse::targets(&source, &file, &folder)?;
        let scenarios = parse::scenarios(&source, &file, &targets)?;
        parse::check(&source, &file, &targets, &scenarios)?;
        let set = parse::settings(&source, &file, &targets)?;
        let sweep = parse::sweep(&source, &file, &targets)?;
        let limits = parse::limits(&source, &file.limits)?;
        let backend = parse::backend(&source, &file)?;
        let shipped = Source { name: "scenarios".into(), text: fingerprint::scenarios(&scenarios) };
        let mut sources = vec![source, shipped];
        sources.extend(targets.iter().map(|target| target.source.clone()));
        Ok(Self {
            name: file.name.into_inner(),
            about: file.about,
            matrix: Matrix {
                users: plain(file.matrix.users.into_inner()),
                bytes: plain(file.matrix.bytes.into_inner()),
                delays_ms: plain(file.matrix.delays_ms.into_inner()),
                heap: plain(file.matrix.heap),
                repetitions: file.matrix.repetitions,
                order: file.matrix.order,
                restart: file.matrix.restart,
            },
            time: file.time,
            load: LoadPart {
                agent_token_file: file.load.agent_token_file.map(|name| folder.join(name)),
                ..file.load
            },
            cores: file.cores,
            backend,
            limits,
            set,
            sweep,
            change: file.change,
            scenarios,
            targets,
            sources,
        })
    }

    /// SHA-256 of every file that was read, in hexadecimal; ignores comments, whitespace and the order of
    /// keys.
    #[must_use]
    pub fn sha256(&self) -> String {
        let texts: Vec<String> = self.sources.iter().map(fingerprint::canonical).collect();
        fingerprint::of_texts(texts.iter().map(String::as_str))
    }

    pub(crate) fn scenario(&self, name: &str) -> Option<&Scenario> {
        self.scenarios.iter().find(|scenario| scenario.name == name)
    }

    pub(crate) fn target(&self, name: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.name == name)
    }

    /// The warm-up of this target's cases.
    pub(crate) fn warm_up(&self, target: &Target) -> Duration {
        self.time.warm_up.max(target.warm_up)
    }
}

fn plain<T>(list: Vec<Spanned<T>>) -> Vec<T> {
    list.into_iter().map(Spanned::into_inner).collect()
}

fn some_duration<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration::deserialize(from).map(Some)
}
