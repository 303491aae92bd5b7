//! The suite file and its validation: every problem is reported with its position, and unknown names with the
//! nearest valid one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

use crate::limits::{LAB_SETTLE_S_MAX, LOAD_USERS_MAX, PAYLOAD_BYTES_MAX};
use echo::limits::ECHO_DELAY_MS_MAX;
use serde::Deserialize;
use toml::Spanned;

use super::definition::{
    ChangePart, Cores, LIMITED, Limit, LoadPart, Order, Restart, SettingValue, Sweep, Time,
};
use super::scenario::{self, Scenario};
use super::source::Source;
use crate::agent;
use crate::load;
use crate::target::definition::{self, Target};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) about: String,
    pub(super) matrix: MatrixFile,
    pub(super) time: Time,
    #[serde(default)]
    pub(super) load: LoadPart,
    #[serde(default)]
    pub(super) cores: Cores,
    #[serde(default)]
    backend: BackendFile,
    #[serde(default)]
    pub(super) limits: BTreeMap<Spanned<String>, LimitFile>,
    #[serde(default)]
    set: BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, SettingValue>>,
    #[serde(default)]
    sweep: Option<SweepFile>,
    #[serde(default)]
    pub(super) change: Option<ChangePart>,
    #[serde(default)]
    scenario: Vec<scenario::ScenarioEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MatrixFile {
    targets: Vec<Spanned<String>>,
    scenarios: Vec<Spanned<String>>,
    pub(super) users: Spanned<Vec<Spanned<u32>>>,
    pub(super) bytes: Spanned<Vec<Spanned<u64>>>,
    #[serde(default = "no_delay")]
    pub(super) delays_ms: Spanned<Vec<Spanned<u64>>>,
    #[serde(default)]
    pub(super) heap: Vec<Spanned<String>>,
    #[serde(default = "once")]
    pub(super) repetitions: u32,
    #[serde(default)]
    pub(super) order: Order,
    #[serde(default)]
    pub(super) restart: Restart,
    #[serde(default)]
    control: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackendFile {
    #[serde(default)]
    listen: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitFile {
    #[serde(default)]
    cpus: Option<Spanned<f64>>,
    #[serde(default)]
    memory: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepFile {
    setting: Spanned<String>,
    values: Vec<Spanned<SettingValue>>,
}

/// The targets of the suite. Cases refer to them by name, so names must be unique.
pub(super) fn targets(source: &Source, file: &File, folder: &Path) -> Result<Vec<Target>, String> {
    source.check_duplicates(&file.matrix.targets)?;
    let mut targets: Vec<Target> = Vec::new();
    for written in &file.matrix.targets {
        let names = definition::SHIPPED.iter().map(|(name, _)| *name);
        let target = definition::find(written.get_ref(), folder)?
            .ok_or_else(|| source.unknown_name(written, "target", names))?;
        if targets.iter().any(|other| other.name == target.name) {
            let name = &target.name;
            let message = format!("duplicate target name `{name}`");
            return Err(source.error_at(written, &message, "change `name` in the target file"));
        }
        targets.push(target);
    }
    if let Some(control) = &file.matrix.control {
        let found = targets.iter().find(|target| target.name == *control.get_ref());
        let names = targets.iter().map(|target| target.name.as_str());
        let found = found.ok_or_else(|| source.unknown_name(control, "target", names))?;
        let name = format!("{}-again", found.name);
        targets.push(found.named(name));
    }
    Ok(targets)
}

/// The scenarios of the suite; its own take precedence over shipped ones.
pub(super) fn scenarios(
    source: &Source,
    file: &File,
    targets: &[Target],
) -> Result<Vec<Scenario>, String> {
    source.check_duplicates(&file.matrix.scenarios)?;
    let shipped = scenario::shipped()?;
    check_needs(source, file, targets, &shipped)?;
    let mut known: Vec<Scenario> = Vec::new();
    for written in &file.scenario {
        if known.iter().any(|other| other.name == *written.name.get_ref()) {
            let message = format!("duplicate scenario name `{}`", written.name.get_ref());
            return Err(source.error_at(&written.name, &message, "choose a different name"));
        }
        known.push(written.read(source)?);
    }
    for shipped in shipped {
        if known.iter().all(|own| own.name != shipped.name) {
            known.push(shipped);
        }
    }
    let wanted = file.matrix.scenarios.iter().map(|name| {
        let found = known.iter().find(|scenario| scenario.name == *name.get_ref()).cloned();
        let names = known.iter().map(|scenario| scenario.name.as_str());
        found.ok_or_else(|| source.unknown_name(name, "scenario", names))
    });
    wanted.collect()
}

/// Rejects unknown needs: a typo would make the scenario unsupported by every target.
fn check_needs(
    source: &Source,
    file: &File,
    targets: &[Target],
    shipped: &[Scenario],
) -> Result<(), String> {
    let mut known: BTreeSet<&str> = BTreeSet::new();
    known.extend(shipped.iter().flat_map(|scenario| scenario.needs.iter().map(String::as_str)));
    for target in targets {
        known.extend(target.can.iter().chain(target.cannot.keys()).map(String::as_str));
    }
    let of = |scenario: &'_ scenario::ScenarioEntry| {
        scenario.needs.iter().chain(&scenario.wants).cloned().collect::<Vec<_>>()
    };
    for need in &file.scenario.iter().flat_map(of).collect::<Vec<_>>() {
        if !known.contains(need.get_ref().as_str()) {
            return Err(source.unknown_name(need, "need", known.iter().copied()));
        }
    }
    Ok(())
}

/// Validates everything that is not converted to another type.
pub(super) fn check(
    source: &Source,
    file: &File,
    targets: &[Target],
    scenarios: &[Scenario],
) -> Result<(), String> {
    source.check_name(&file.name)?;
    check_matrix(source, &file.matrix)?;
    let served = |scenario: &&Scenario| {
        targets.iter().any(|target| scenario.lacking(&target.can).is_empty())
    };
    check_payloads(source, &file.matrix, scenarios.iter().filter(served))?;
    check_time(source, &file.time)?;
    check_load(source, file, scenarios)?;
    if file.time.settle.is_some_and(|settle| settle.as_secs() > LAB_SETTLE_S_MAX) {
        let name = source.name.display();
        return Err(format!("{name}: error: `settle` must be at most {LAB_SETTLE_S_MAX}s"));
    }
    let Cores { target, backend, generator } = &file.cores;
    for written in [target, backend, generator].into_iter().flatten() {
        crate::target::cores::parse(written.get_ref())
            .map_err(|error| source.error_at(written, &error, "write 0, 2-3 or 0,2"))?;
    }
    check_delays(source, file, targets)
}

fn check_time(source: &Source, time: &Time) -> Result<(), String> {
    let name = source.name.display();
    match (time.requests.is_some(), time.measure.is_zero()) {
        (false, true) => Err(format!(
            "{name}: error: [time] needs a duration (`measure`) or a number of requests (`requests`)"
        )),
        (true, false) => {
            Err(format!("{name}: error: [time]: `measure` and `requests` exclude each other"))
        }
        (true, true) | (false, false) => Ok(()),
    }
}

fn check_matrix(source: &Source, matrix: &MatrixFile) -> Result<(), String> {
    let most = u32::try_from(LOAD_USERS_MAX).unwrap_or(u32::MAX);
    check_numbers(source, ("users", "users = [50, 100]"), &matrix.users, 1, most)?;
    let most = PAYLOAD_BYTES_MAX as u64;
    check_numbers(source, ("bytes", "bytes = [50, 1024]"), &matrix.bytes, 0, most)?;
    let most = ECHO_DELAY_MS_MAX;
    check_numbers(source, ("delays_ms", "delays_ms = [0, 30]"), &matrix.delays_ms, 0, most)?;
    source.check_duplicates(&matrix.heap)?;
    matrix.heap.iter().try_for_each(|heap| source.check_name(heap))?;
    if matrix.repetitions == 0 {
        return Err(format!("{}: error: `repetitions` must be at least 1", source.name.display()));
    }
    Ok(())
}

/// Requires at least one number, all from `least` to `most`, no duplicates.
fn check_numbers<T: PartialOrd + std::fmt::Display>(
    source: &Source,
    (key, example): (&str, &str),
    list: &Spanned<Vec<Spanned<T>>>,
    least: T,
    most: T,
) -> Result<(), String> {
    let numbers = list.get_ref();
    if numbers.is_empty() {
        return Err(source.error_at(list, &format!("`{key}` is empty"), example));
    }
    let wrong = numbers.iter().find(|n| *n.get_ref() < least || *n.get_ref() > most);
    if let Some(wrong) = wrong {
        let message = format!("`{key}`: expected {least} to {most}, not {}", wrong.get_ref());
        return Err(source.error_at(wrong, &message, example));
    }
    source.check_duplicates(numbers)
}

/// Checks the payload sizes against each scenario's minimum. Scenarios that no target supports are skipped.
fn check_payloads<'s>(
    source: &Source,
    matrix: &MatrixFile,
    scenarios: impl Iterator<Item = &'s Scenario>,
) -> Result<(), String> {
    let least = matrix.bytes.get_ref().iter().min_by_key(|bytes| *bytes.get_ref());
    let Some(least) = least else { return Ok(()) };
    let bytes = usize::try_from(*least.get_ref()).unwrap_or(usize::MAX);
    for scenario in scenarios.filter(|scenario| scenario.requests.is_none()) {
        scenario.payload.check(bytes).map_err(|error| {
            source.error_at(least, &format!("scenario `{}`: {error}", scenario.name), "")
        })?;
    }
    Ok(())
}

/// Checks the options that the generator would reject: with the most users those of all cases, with the fewest whether
/// each agent gets some.
fn check_load(source: &Source, file: &File, scenarios: &[Scenario]) -> Result<(), String> {
    let name = source.name.display();
    let users = || file.matrix.users.get_ref().iter().map(|users| *users.get_ref() as usize);
    let options = |scenario: &Scenario, users: usize| {
        let protocol = file.load.protocol(scenario.exchange, users);
        load::Options {
            users,
            protocol,
            threads: file.load.threads.min(protocol.connections(users)),
            timeout: file.load.timeout,
            duration: file.time.longest(),
            requests: file.time.requests,
            warm_up: file.time.warm_up,
            shape: file.load.shape.clone(),
            connection_per_request: file.load.connection_per_request,
            ..load::Options::new(scenario.url("http://localhost"))
        }
    };
    let is_http2 = |scenario: &Scenario| {
        matches!(file.load.protocol(scenario.exchange, 1), load::Protocol::Http2 { .. })
    };
    if file.load.http2 && !scenarios.iter().any(is_http2) {
        return Err(format!(
            "{name}: error: [load]: `http2` does not apply to WebSocket scenarios"
        ));
    }
    if file.load.streams.is_some() && !scenarios.iter().any(is_http2) {
        return Err(format!(
            "{name}: error: [load]: `streams` needs `http2 = true` or a gRPC scenario"
        ));
    }
    for scenario in scenarios {
        let most = options(scenario, users().max().unwrap_or(1));
        most.check().map_err(|error| format!("{name}: error: [load] and [time]: {error}"))?;
        check_agents(&options(scenario, users().min().unwrap_or(1)), file)
            .map_err(|problem| format!("{name}: error: [load]: {problem}"))?;
    }
    Ok(())
}

/// `options`: those of the case with the fewest users.
fn check_agents(options: &load::Options, file: &File) -> Result<(), String> {
    let LoadPart { agents, agent_token_file, .. } = &file.load;
    if agents.is_empty() != agent_token_file.is_none() {
        return Err("`agents` and `agent_token_file` need each other".to_owned());
    }
    if agents.is_empty() {
        return Ok(());
    }
    if file.load.jtl {
        return Err("`jtl` is not available with agents, which transfer no single requests".into());
    }
    if file.time.calibrate.is_some() {
        return Err(
            "`calibrate` is not available with agents, which cannot reach the backend".into()
        );
    }
    agent::check(options, agents).map_err(|error| error.to_string())
}

/// Rejects delays for targets that do not forward to the lab's backend: the delay would have no effect.
fn check_delays(source: &Source, file: &File, targets: &[Target]) -> Result<(), String> {
    let delays = file.matrix.delays_ms.get_ref();
    if file.backend.listen.is_some() || delays.iter().all(|ms| *ms.get_ref() == 0) {
        return Ok(());
    }
    for (written, target) in file.matrix.targets.iter().zip(targets) {
        if !target.names_backend() {
            let message = format!(
                "target `{}` does not use the lab's backend, so `delays_ms` has no effect",
                target.name
            );
            let help = "configure it to forward to a fixed port of this host, and set [backend] listen = \
             \"0.0.0.0:8688\"";
            return Err(source.error_at(written, &message, help));
        }
    }
    Ok(())
}

/// The backend's address: reachable at 127.0.0.1, with a fixed port.
pub(super) fn backend(source: &Source, file: &File) -> Result<Option<SocketAddrV4>, String> {
    let Some(written) = &file.backend.listen else { return Ok(None) };
    let address = written.get_ref().parse::<SocketAddrV4>().ok().filter(|address| {
        let reached = [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST].contains(address.ip());
        reached && address.port() != 0
    });
    let message = "the backend must listen on 0.0.0.0 or 127.0.0.1 with a fixed port";
    let address = address.ok_or_else(|| source.error_at(written, message, "0.0.0.0:8688"))?;
    Ok(Some(address))
}

type Set = BTreeMap<String, BTreeMap<String, String>>;

pub(super) fn settings(source: &Source, file: &File, targets: &[Target]) -> Result<Set, String> {
    let mut set = Set::new();
    for (name, values) in &file.set {
        let names = || targets.iter().map(|target| target.name.as_str());
        let target = targets.iter().find(|target| target.name == *name.get_ref());
        let target = target.ok_or_else(|| source.unknown_name(name, "target", names()))?;
        let mut own = BTreeMap::new();
        for (key, value) in values {
            if !target.settings.contains_key(key.get_ref()) {
                let known = target.settings.keys().map(String::as_str);
                return Err(source.unknown_name(key, "setting", known));
            }
            own.insert(key.get_ref().clone(), value.text());
        }
        set.insert(name.get_ref().clone(), own);
    }
    // The control is the same target again.
    if let Some(control) = &file.matrix.control
        && let Some(own) = set.get(control.get_ref()).cloned()
    {
        set.insert(format!("{}-again", control.get_ref()), own);
    }
    Ok(set)
}

/// Rejects a sweep over a setting that no target has: every value would measure the same.
pub(super) fn sweep(
    source: &Source,
    file: &File,
    targets: &[Target],
) -> Result<Option<Sweep>, String> {
    let Some(sweep) = &file.sweep else { return Ok(None) };
    let has = |target: &&Target| target.settings.contains_key(sweep.setting.get_ref());
    if !targets.iter().any(|target| has(&target)) {
        let known: Vec<&str> =
            targets.iter().flat_map(|target| target.settings.keys().map(String::as_str)).collect();
        return Err(source.unknown_name(&sweep.setting, "setting", known.into_iter()));
    }
    if sweep.values.is_empty() {
        return Err(source.error_at(&sweep.setting, "`values` is empty", "values = [1, 2]"));
    }
    let values = sweep.values.iter().map(|value| value.get_ref().text()).collect();
    // Folder names contain the values, so values must differ after sanitising.
    let plain = |value: &Spanned<SettingValue>| {
        Spanned::new(value.span(), super::cases::plain(&value.get_ref().text()))
    };
    source.check_duplicates(&sweep.values.iter().map(plain).collect::<Vec<_>>())?;
    Ok(Some(Sweep { setting: sweep.setting.get_ref().clone(), values }))
}

pub(super) fn limits(
    source: &Source,
    written: &BTreeMap<Spanned<String>, LimitFile>,
) -> Result<BTreeMap<String, Limit>, String> {
    let mut limits = BTreeMap::new();
    for (part, limit) in written {
        if !LIMITED.contains(&part.get_ref().as_str()) {
            return Err(source.unknown_name(part, "part", LIMITED.into_iter()));
        }
        limit.cpus.iter().try_for_each(|cpus| source.check_cpus(cpus))?;
        limit.memory.iter().try_for_each(|memory| source.check_memory(memory))?;
        let cpus = limit.cpus.as_ref().map(|cpus| *cpus.get_ref());
        let memory = limit.memory.as_ref().map(|memory| memory.get_ref().clone());
        limits.insert(part.get_ref().clone(), Limit { cpus, memory });
    }
    Ok(limits)
}

fn no_delay() -> Spanned<Vec<Spanned<u64>>> {
    Spanned::new(0..0, vec![Spanned::new(0..0, 0)])
}

fn once() -> u32 {
    1
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    /// The example of docs/measuring.md is a suite, and has every key of every section.
    #[test]
    fn the_manual_has_every_key() {
        let manual = include_str!("../../../docs/measuring.md");
        let example = manual.split_once("<!-- every key of a suite -->\n\n```toml\n").unwrap().1;
        let example = example.split_once("```").unwrap().0;
        let source = Source { name: "mine.toml".into(), text: example.to_owned() };
        super::super::Suite::from_source(source).unwrap();
        let mut keys = 0;
        for section in example.split("\n\n").filter(|part| !part.starts_with("[set")) {
            let wrong = example.replacen(section, &format!("{section}\nnonsense = 1"), 1);
            let error = toml::from_str::<File>(&wrong).err().unwrap().to_string();
            let (_, expected) = error.split_once("unknown field `nonsense`, expected ").unwrap();
            for key in expected.split('`').skip(1).step_by(2) {
                let is_table = example.contains(&format!("[{key}"));
                let is_there = is_table || section.contains(&format!("{key} = "));
                assert!(is_there, "{key} is missing in\n{section}");
                keys += 1;
            }
        }
        assert!(keys > 50, "{keys}");
    }
}
