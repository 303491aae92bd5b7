//! A suite: which targets, scenarios, users, sizes and delays, for how long, in which order.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::limits::LOAD_TIMEOUT_S_MAX;
use serde::Deserialize;
use toml::Spanned;

use super::fingerprint;
use super::parse::{self, File};
use super::scenario::Scenario;
use super::source::{Source, duration};
use crate::load::Shape;
use crate::target::definition::Target;

/// A suite, with the scenarios and targets that it names.
#[derive(Clone, Debug)]
pub struct Suite {
    pub name: String,
    pub about: String,
    pub matrix: Matrix,
    pub time: Time,
    pub load: LoadPart,
    pub cores: Cores,
    /// Where the backend listens; `None`: at a port of 127.0.0.1 that is free.
    pub backend: Option<SocketAddrV4>,
    pub limits: BTreeMap<String, Limit>,
    /// Settings of targets that differ from what the targets declare.
    pub set: BTreeMap<String, BTreeMap<String, String>>,
    pub sweep: Option<Sweep>,
    pub scenarios: Vec<Scenario>,
    pub targets: Vec<Target>,
    /// Everything that was read, for the hash and for the run's folder.
    pub sources: Vec<Source>,
}

/// What is multiplied with what.
#[derive(Clone, Debug)]
pub struct Matrix {
    pub users: Vec<u32>,
    pub bytes: Vec<u64>,
    pub delays_ms: Vec<u64>,
    /// For targets that have a heap; others run once.
    pub heap: Vec<String>,
    pub repetitions: u32,
    pub order: Order,
    pub restart: Restart,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// A target's cases one after the other, repetitions of a case too, as the published runs did.
    #[default]
    Block,
    /// The targets take turns within each cell, and the whole matrix runs once per repetition.
    Interleaved,
}

/// When target and backend start afresh.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Before each case, as the published runs did.
    #[default]
    Case,
    /// Only when the next case needs another target or configuration.
    Suite,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Time {
    /// Load that does not count, before the measured time.
    #[serde(deserialize_with = "duration::deserialize")]
    pub warm_up: Duration,
    #[serde(deserialize_with = "duration::deserialize")]
    pub measure: Duration,
    /// Measured time of the backend alone, once for each size, number of users and delay. Absent:
    /// the backend isn't measured alone.
    #[serde(default, deserialize_with = "some_duration")]
    pub calibrate: Option<Duration>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadPart {
    /// As `penstock lab load` has them (docs/adding-a-load-shape.md): `{ kind = "closed" }`.
    pub shape: Shape,
    /// Generator threads.
    pub threads: usize,
    /// Longest wait for a whole answer.
    #[serde(deserialize_with = "duration::deserialize")]
    pub timeout: Duration,
    pub seed: u64,
    /// Keep each request as JMeter would, in `results.jtl`.
    pub jtl: bool,
}

impl Default for LoadPart {
    fn default() -> Self {
        let timeout = Duration::from_secs(LOAD_TIMEOUT_S_MAX);
        Self { shape: Shape::default(), threads: 1, timeout, seed: 1, jtl: false }
    }
}

/// Which CPUs each part may run on, as `taskset` writes them: `0`, `2-3`, `0,2`. Absent: any.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cores {
    pub target: Option<Spanned<String>>,
    pub backend: Option<Spanned<String>>,
    pub generator: Option<Spanned<String>>,
}

/// What a part may use; the parts are `target`, `helper` and `backend`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limit {
    /// CPUs' worth of time, such as 0.5.
    pub cpus: Option<f64>,
    /// Such as `500MiB`.
    pub memory: Option<String>,
}

/// One setting of the targets, and the values that it takes one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    pub setting: String,
    pub values: Vec<String>,
}

/// A value of a setting: written as it is, used as text.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a setting is a text, a number, `true` or `false`")]
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
            // Keeps the point of `1.0`.
            Self::Number(number) => format!("{number:?}"),
            Self::Text(text) => text.clone(),
        }
    }
}

/// The parts that `limits` may name.
pub const LIMITED: [&str; 3] = ["target", "helper", "backend"];

impl Suite {
    /// Reads a suite's file and what it names. A target is a path ending in `.toml`, from the suite's
    /// folder, or the name of a file in its `targets/`, or of a shipped one.
    ///
    /// # Errors
    /// A sentence with file, line, column, and the nearest valid name.
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
            load: file.load,
            cores: file.cores,
            backend,
            limits,
            set,
            sweep,
            scenarios,
            targets,
            sources,
        })
    }

    /// SHA-256 over everything that was read, in hexadecimal digits; comments, blanks and the order of
    /// keys make no difference.
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
}

fn plain<T>(list: Vec<Spanned<T>>) -> Vec<T> {
    list.into_iter().map(Spanned::into_inner).collect()
}

fn some_duration<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration::deserialize(from).map(Some)
}
