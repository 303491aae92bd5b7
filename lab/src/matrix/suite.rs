//! A suite: which targets, scenarios, users, sizes and delays, for how long, in which order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::limits::{ECHO_DELAY_MS_MAX, LOAD_TIMEOUT_S_MAX, LOAD_USERS_MAX, PAYLOAD_BYTES_MAX};
use serde::Deserialize;
use toml::Spanned;

use super::file::{Source, duration};
use super::fingerprint;
use super::scenario::{self, Scenario};
use crate::load::Shape;
use crate::target::declared::{self, Declared};

/// A suite, with the scenarios and targets that it names.
#[derive(Clone, Debug)]
pub struct Suite {
    pub name: String,
    pub about: String,
    pub matrix: Matrix,
    pub time: Time,
    pub load: LoadPart,
    pub cores: Cores,
    pub limits: BTreeMap<String, Limit>,
    /// Settings of targets that differ from what the targets declare.
    pub set: BTreeMap<String, BTreeMap<String, String>>,
    pub sweep: Option<Sweep>,
    pub scenarios: Vec<Scenario>,
    pub targets: Vec<Declared>,
    /// Everything that was read, for the hash and for the run's folder.
    pub sources: Vec<Source>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    #[serde(default)]
    about: String,
    matrix: MatrixFile,
    time: Time,
    #[serde(default)]
    load: LoadPart,
    #[serde(default)]
    cores: Cores,
    #[serde(default)]
    limits: BTreeMap<Spanned<String>, Limit>,
    #[serde(default)]
    set: BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, Setting>>,
    #[serde(default)]
    sweep: Option<SweepFile>,
    #[serde(default)]
    scenario: Vec<Scenario>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatrixFile {
    targets: Vec<Spanned<String>>,
    scenarios: Vec<Spanned<String>>,
    users: Spanned<Vec<u32>>,
    bytes: Spanned<Vec<u64>>,
    #[serde(default = "no_delay")]
    delays_ms: Spanned<Vec<u64>>,
    #[serde(default)]
    heap: Vec<String>,
    #[serde(default = "once")]
    repetitions: u32,
    #[serde(default)]
    order: Order,
    #[serde(default)]
    restart: Restart,
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
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// CPUs' worth of time, such as 0.5.
    #[serde(default)]
    pub cpus: Option<f64>,
    /// Such as `500MiB`.
    #[serde(default)]
    pub memory: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepFile {
    setting: Spanned<String>,
    values: Vec<Setting>,
}

/// One setting of the targets, and the values that it takes one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    pub setting: String,
    pub values: Vec<String>,
}

/// A value of a setting: written as it is, used as text.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Setting {
    Flag(bool),
    Number(i64),
    Text(String),
}

impl Setting {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Flag(flag) => flag.to_string(),
            Self::Number(number) => number.to_string(),
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
        check_name(&source, &file.name)?;
        check_matrix(&source, &file)?;
        check_shape(&source, &file)?;
        check_cores(&source, &file.cores)?;
        let scenarios = scenarios(&source, &file)?;
        let folder = source.name.parent().map_or_else(PathBuf::new, Path::to_owned);
        let mut targets = Vec::new();
        for name in &file.matrix.targets {
            let target = declared::find(name.get_ref(), &folder)?;
            let names = declared::SHIPPED.iter().map(|(name, _)| *name);
            targets.push(target.ok_or_else(|| source.refuse_name(name, "target", names))?);
        }
        let set = settings(&source, &file, &targets)?;
        let sweep = sweep(&source, &file, &targets)?;
        let limits = limits(&source, file.limits)?;
        let shipped = Source { name: "scenarios".into(), text: fingerprint::scenarios(&scenarios) };
        let mut sources = vec![source, shipped];
        sources.extend(targets.iter().map(|target| target.source.clone()));
        Ok(Self {
            name: file.name.into_inner(),
            about: file.about,
            matrix: Matrix {
                users: file.matrix.users.into_inner(),
                bytes: file.matrix.bytes.into_inner(),
                delays_ms: file.matrix.delays_ms.into_inner(),
                heap: file.matrix.heap,
                repetitions: file.matrix.repetitions,
                order: file.matrix.order,
                restart: file.matrix.restart,
            },
            time: file.time,
            load: file.load,
            cores: file.cores,
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

    pub(crate) fn target(&self, name: &str) -> Option<&Declared> {
        self.targets.iter().find(|target| target.name == name)
    }
}

/// Names become folders.
fn check_name(source: &Source, name: &Spanned<String>) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.get_ref().is_empty() || !name.get_ref().chars().all(plain) {
        return Err(source.refuse(name, "a name is of letters, digits, `-`, `_` and `.`", ""));
    }
    Ok(())
}

fn scenarios(source: &Source, file: &File) -> Result<Vec<Scenario>, String> {
    let mut known = file.scenario.clone();
    for shipped in scenario::shipped()? {
        if known.iter().all(|own| own.name != shipped.name) {
            known.push(shipped);
        }
    }
    let wanted = file.matrix.scenarios.iter().map(|name| {
        let found = known.iter().find(|scenario| scenario.name == *name.get_ref()).cloned();
        let names = known.iter().map(|scenario| scenario.name.as_str());
        found.ok_or_else(|| source.refuse_name(name, "scenario", names))
    });
    wanted.collect()
}

type Set = BTreeMap<String, BTreeMap<String, String>>;

fn settings(source: &Source, file: &File, targets: &[Declared]) -> Result<Set, String> {
    let mut set = Set::new();
    for (name, values) in &file.set {
        let names = || targets.iter().map(|target| target.name.as_str());
        let target = targets.iter().find(|target| target.name == *name.get_ref());
        let target = target.ok_or_else(|| source.refuse_name(name, "target", names()))?;
        let mut own = BTreeMap::new();
        for (key, value) in values {
            if !target.settings.contains_key(key.get_ref()) {
                let known = target.settings.keys().map(String::as_str);
                return Err(source.refuse_name(key, "setting", known));
            }
            own.insert(key.get_ref().clone(), value.text());
        }
        set.insert(name.get_ref().clone(), own);
    }
    Ok(set)
}

/// A sweep that no target has would measure the same thing several times.
fn sweep(source: &Source, file: &File, targets: &[Declared]) -> Result<Option<Sweep>, String> {
    let Some(sweep) = &file.sweep else { return Ok(None) };
    let has = |target: &&Declared| target.settings.contains_key(sweep.setting.get_ref());
    if !targets.iter().any(|target| has(&target)) {
        let known: Vec<&str> =
            targets.iter().flat_map(|target| target.settings.keys().map(String::as_str)).collect();
        return Err(source.refuse_name(&sweep.setting, "setting", known.into_iter()));
    }
    if sweep.values.is_empty() {
        return Err(source.refuse(&sweep.setting, "a sweep needs values", "values = [1, 2]"));
    }
    let values = sweep.values.iter().map(Setting::text).collect();
    Ok(Some(Sweep { setting: sweep.setting.get_ref().clone(), values }))
}

fn limits(
    source: &Source,
    written: BTreeMap<Spanned<String>, Limit>,
) -> Result<BTreeMap<String, Limit>, String> {
    let mut limits = BTreeMap::new();
    for (part, limit) in written {
        if !LIMITED.contains(&part.get_ref().as_str()) {
            return Err(source.refuse_name(&part, "part", LIMITED.into_iter()));
        }
        if let Some(memory) = &limit.memory {
            super::file::parse_bytes(memory).map_err(|error| source.refuse(&part, &error, ""))?;
        }
        limits.insert(part.into_inner(), limit);
    }
    Ok(limits)
}

fn check_matrix(source: &Source, file: &File) -> Result<(), String> {
    let matrix = &file.matrix;
    let users = matrix.users.get_ref();
    let most = LOAD_USERS_MAX;
    if users.is_empty() || users.iter().any(|&users| users == 0 || users as usize > most) {
        let message = format!("`users`: one or more numbers from 1 to {most}");
        return Err(source.refuse(&matrix.users, &message, "users = [50, 100]"));
    }
    let most = PAYLOAD_BYTES_MAX as u64;
    if matrix.bytes.get_ref().is_empty() || matrix.bytes.get_ref().iter().any(|&b| b > most) {
        let message = format!("`bytes`: one or more sizes up to {most}");
        return Err(source.refuse(&matrix.bytes, &message, "bytes = [50, 1024]"));
    }
    let delays = matrix.delays_ms.get_ref();
    if delays.is_empty() || delays.iter().any(|&ms| ms > ECHO_DELAY_MS_MAX) {
        let message = format!("`delays_ms`: one or more, up to {}", ECHO_DELAY_MS_MAX);
        return Err(source.refuse(&matrix.delays_ms, &message, "delays_ms = [0, 30]"));
    }
    if matrix.repetitions == 0 || file.time.measure.is_zero() {
        let name = source.name.display();
        return Err(format!("{name}: error: `repetitions` and `measure` are more than zero"));
    }
    Ok(())
}

/// The largest number of users that a shape gets is as good as any for its check.
fn check_shape(source: &Source, file: &File) -> Result<(), String> {
    let users = file.matrix.users.get_ref().iter().copied().max().unwrap_or(1) as usize;
    let shape = file.load.shape.check(users);
    shape.map_err(|error| format!("{}: error: load.shape: {error}", source.name.display()))
}

fn check_cores(source: &Source, cores: &Cores) -> Result<(), String> {
    for written in [&cores.target, &cores.backend, &cores.generator].into_iter().flatten() {
        crate::target::cores::parse(written.get_ref())
            .map_err(|error| source.refuse(written, &error, "write 0, 2-3 or 0,2"))?;
    }
    Ok(())
}

fn no_delay() -> Spanned<Vec<u64>> {
    Spanned::new(0..0, vec![0])
}

fn once() -> u32 {
    1
}

fn some_duration<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration::deserialize(from).map(Some)
}
