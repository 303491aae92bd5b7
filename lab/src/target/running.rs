//! A running target: its processes, URLs and limits.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::SystemClock;
use toml::Spanned;

use super::change::{ChangePlan, EDITION};
use super::definition::{Many, Program, Role, StopBy, TOKEN_COUNT, Target, TokensCommand};
use super::ports::free_port;
use super::process::{Process, ProcessSpec, first_line, print_lines};
use super::reaper::Reaper;
use super::template::{BUILT_IN, TemplateContext, Values};
use crate::limits;
use crate::load::Stop;
use crate::suite::definition::Limit;
use crate::suite::source::parse_bytes;

/// How to start a target.
pub(crate) struct TargetStart<'a> {
    pub(crate) target: &'a Target,
    /// The scenario's needs, which select parts of the configuration.
    pub(crate) needs: &'a [String],
    /// The values of `template::BUILT_IN`, except `folder` and `copy`.
    pub(crate) built_in: &'a Values,
    /// Settings that differ from the target's defaults.
    pub(crate) settings: &'a Values,
    /// The target's folder; created if missing.
    pub(crate) folder: &'a Path,
    /// CPUs and limits by role.
    pub(crate) cores: &'a dyn Fn(Role) -> Option<Vec<usize>>,
    pub(crate) limits: &'a dyn Fn(Role) -> Limit,
    /// Whether it will be changed while it runs.
    pub(crate) changing: bool,
    /// The number of tokens that the scenario needs.
    pub(crate) token_count: Option<u32>,
    pub(crate) stop: &'a Stop,
    pub(crate) reaper: &'a Reaper,
}

/// On drop, ends its processes, in reverse order, and removes numbered files and tokens.
#[derive(Debug)]
pub(crate) struct Running {
    processes: Vec<(Role, Process)>,
    /// The numbered files except each first one, which is kept as an example, and the tokens.
    passing_files: Vec<PathBuf>,
    pub(crate) url: Option<String>,
    pub(crate) url_tls: Option<String>,
    pub(crate) gc_log: Option<PathBuf>,
    pub(crate) version: Option<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) limits: Vec<String>,
    /// From the start of the processes until all were ready.
    pub(crate) ready_us: u64,
    /// The file with the tokens that its own command printed.
    pub(crate) tokens: Option<PathBuf>,
    /// How to change it, if it was started with `changing`.
    pub(crate) change: Option<ChangePlan>,
}

impl Running {
    /// # Errors
    /// A file cannot be written, or a process cannot be started or is not ready in time.
    pub(crate) fn start(start: &TargetStart<'_>) -> Result<Self, String> {
        let target = start.target;
        let mut values = start.built_in.clone();
        values.extend(target.settings.clone());
        values.extend(start.settings.clone());
        values.extend(start.token_count.map(|count| (TOKEN_COUNT.to_owned(), count.to_string())));
        let held = RefCell::new(Vec::new());
        let own = |program: &Program, copy| own_values(start.folder, program, copy, &held);
        let copies = copies(target, start.needs, &values, &own)?;
        drop(held);
        name_ports(target, &copies, &mut values);
        let mut running = Self {
            processes: Vec::new(),
            passing_files: Vec::new(),
            url: None,
            url_tls: None,
            gc_log: None,
            version: None,
            warnings: Vec::new(),
            limits: Vec::new(),
            ready_us: 0,
            tokens: None,
            change: change_plan(start, &values, &copies)?,
        };
        for program in &target.processes {
            for own in copies.get(&program.name).into_iter().flatten() {
                let mut all = values.clone();
                all.extend(own.clone());
                running.start_program(start, program, &all, &copies)?;
            }
        }
        let context = TemplateContext {
            values: &values,
            parts: &target.parts,
            needs: start.needs,
            copies: &copies,
        };
        running.url = target.url.as_ref().map(|url| context.fill(url)).transpose()?;
        running.url_tls = target.url_tls.as_ref().map(|url| context.fill(url)).transpose()?;
        let version: Result<Vec<String>, String> =
            target.version.iter().map(|word| context.fill(word)).collect();
        running.version = version_of(start, version?)?;
        if let Some((tokens, count)) = target.tokens.as_ref().zip(start.token_count) {
            running.print_tokens(start, words(&tokens.command, &context)?, count)?;
        }
        Ok(running)
    }

    fn start_program(
        &mut self,
        start: &TargetStart<'_>,
        program: &Program,
        values: &Values,
        copies: &BTreeMap<String, Vec<Values>>,
    ) -> Result<(), String> {
        let parts = &start.target.parts;
        let context = TemplateContext { values, parts, needs: start.needs, copies };
        let folder = PathBuf::from(context.fill("{{folder}}")?);
        let describe = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(describe)?;
        for (name, text) in &program.files {
            let file = folder.join(name);
            fs::create_dir_all(file.parent().unwrap_or(&folder)).map_err(describe)?;
            fs::write(&file, context.fill(text.get_ref())?).map_err(describe)?;
        }
        for many in &program.many {
            self.write_many(many, &folder, &context, start.stop)?;
        }
        if let Some(change) = self.change.as_ref().filter(|change| change.file.starts_with(&folder))
        {
            fs::write(&change.file, change.first()).map_err(describe)?;
        }
        let command = words(&program.command, &context)?;
        let env: Result<Vec<(String, String)>, String> = program
            .env
            .iter()
            .map(|(name, value)| Ok((name.clone(), context.fill(value.get_ref())?)))
            .collect();
        let limit = (start.limits)(program.role);
        let own_memory = program.memory.as_ref().map(|memory| memory.get_ref());
        let memory = limit.memory.as_ref().or(own_memory);
        let name = context.fill(&format!("{}-{{{{copy}}}}", program.name))?;
        let clock = SystemClock::new();
        let mut process = Process::start(ProcessSpec {
            name: &name,
            command,
            env: env?,
            log: folder.join(format!("{}.log", program.name)),
            output: None,
            folder: folder.clone(),
            cores: (start.cores)(program.role),
            cpus: limit.cpus.or(program.cpus.as_ref().map(|cpus| *cpus.get_ref())),
            memory_bytes: memory.map(|memory| parse_bytes(memory)).transpose()?,
            stop: program.stop,
            reaper: Some(start.reaper),
        })?;
        let ports: Vec<u16> =
            program.ports.iter().filter_map(|port| values.get(port)?.parse().ok()).collect();
        let url = program.ready.url.as_ref().map(|url| context.fill(url.get_ref())).transpose()?;
        let within = Duration::from_secs(program.ready.within_s);
        process.wait_until_ready(&ports, url.as_deref(), within, start.stop)?;
        self.ready_us = self.ready_us.saturating_add(clock.now_us());
        self.warnings.append(&mut process.warnings);
        self.limits.append(&mut process.limits);
        if program.role == Role::Target && self.gc_log.is_none() {
            self.gc_log = start.target.gc_log.as_ref().map(|log| folder.join(log));
        }
        self.processes.push((program.role, process));
        Ok(())
    }

    /// Lets `command` print `count` tokens.
    fn print_tokens(
        &mut self,
        start: &TargetStart<'_>,
        command: Vec<String>,
        count: u32,
    ) -> Result<(), String> {
        let file = start.folder.join("tokens.txt");
        self.passing_files.push(file.clone());
        let spec = ProcessSpec {
            name: "tokens",
            command,
            folder: start.folder.to_owned(),
            log: start.folder.join("tokens.log"),
            stop: StopBy::Kill,
            reaper: Some(start.reaper),
            ..ProcessSpec::default()
        };
        let within = Duration::from_millis(limits::LAB_TOKENS_MS_MAX);
        print_lines(spec, &file, count, (within, start.stop))?;
        self.tokens = Some(file);
        Ok(())
    }

    fn write_many(
        &mut self,
        many: &Many,
        folder: &Path,
        context: &TemplateContext<'_>,
        stop: &Stop,
    ) -> Result<(), String> {
        let count = context.fill(many.count.get_ref())?;
        let most = limits::LAB_TARGET_FILES_MAX;
        let count: u32 = count.parse().ok().filter(|count| *count <= most).ok_or_else(|| {
            format!("`{count}` files {}; expected 0 to {most}", many.file.get_ref())
        })?;
        let mut values = context.values.clone();
        for number in 1..=count {
            if stop.is_stopped() {
                return Err("stopped".to_owned());
            }
            values.insert("number".to_owned(), format!("{number:04}"));
            let one = TemplateContext { values: &values, ..*context };
            let file = folder.join(one.fill(many.file.get_ref())?);
            let describe = |error: std::io::Error| format!("{}: {error}", file.display());
            fs::create_dir_all(file.parent().unwrap_or(folder)).map_err(describe)?;
            fs::write(&file, one.fill(many.text.get_ref())?).map_err(describe)?;
            if number > 1 {
                self.passing_files.push(file);
            }
        }
        Ok(())
    }

    /// The processes with this role: a helper's resource use is not the target's.
    pub(crate) fn pids(&self, role: Role) -> Vec<u32> {
        let of = self.processes.iter().filter(|(its, _)| *its == role);
        of.map(|(_, process)| process.pid()).collect()
    }

    /// If a process has ended by itself: its status, and the end of its log.
    pub(crate) fn broken(&self) -> Option<String> {
        self.processes.iter().find_map(|(_, process)| process.broken())
    }
}

/// The change of the target with the values of its first process; `None` unless it is wanted and defined.
fn change_plan(
    start: &TargetStart<'_>,
    values: &Values,
    copies: &Copies,
) -> Result<Option<ChangePlan>, String> {
    let target = start.target;
    let (Some(change), Some(program), true) =
        (&target.change, target.processes.first(), start.changing)
    else {
        return Ok(None);
    };
    let mut values = values.clone();
    values.extend(
        copies.get(&program.name).into_iter().flatten().next().cloned().unwrap_or_default(),
    );
    values.insert("edition".to_owned(), EDITION.to_owned());
    let context =
        TemplateContext { values: &values, parts: &target.parts, needs: start.needs, copies };
    let fill = |text: &Spanned<String>| context.fill(text.get_ref());
    let folder = PathBuf::from(context.fill("{{folder}}")?);
    Ok(Some(ChangePlan {
        file: folder.join(fill(&change.file)?),
        text: fill(&change.text)?,
        probe: fill(&change.probe)?,
        command: words(&change.command, &context)?,
    }))
}

/// A command with its values.
fn words(
    command: &[Spanned<String>],
    context: &TemplateContext<'_>,
) -> Result<Vec<String>, String> {
    command.iter().map(|word| context.fill(word.get_ref())).collect()
}

/// The output of the version command, or why it is unknown.
fn version_of(start: &TargetStart<'_>, command: Vec<String>) -> Result<Option<String>, String> {
    if command.is_empty() {
        return Ok(None);
    }
    let describe = |error| format!("{}: {error}", start.folder.display());
    fs::create_dir_all(start.folder).map_err(describe)?;
    let log = start.folder.join("version.log");
    let within = Duration::from_millis(limits::LAB_VERSION_MS_MAX);
    let version = first_line(command, &log, within, (start.reaper, start.stop));
    Ok(version.unwrap_or_else(|error| Some(format!("unknown: {error}"))))
}

impl Drop for Running {
    fn drop(&mut self) {
        while self.processes.pop().is_some() {}
        for file in self.passing_files.drain(..) {
            let _ = fs::remove_file(file);
        }
    }
}

fn is_own(target: &Target, process: &str, name: &str) -> bool {
    let program = target.processes.iter().find(|program| program.name == process);
    program.is_some_and(|program| program.ports.iter().any(|port| port == name))
}

/// Makes a process's port `http` available to the others as `gateway.http` (of the first copy).
fn name_ports(target: &Target, copies: &Copies, values: &mut Values) {
    for (process, all) in copies {
        for (name, value) in all.first().into_iter().flatten() {
            if is_own(target, process, name) {
                values.insert(format!("{process}.{name}"), value.clone());
            }
        }
    }
}

/// The values of each copy of each process.
type Copies = BTreeMap<String, Vec<Values>>;

/// Returns the values specific to a copy.
type Own<'o> = &'o dyn Fn(&Program, u32) -> Result<Values, String>;

fn copies(
    target: &Target,
    needs: &[String],
    values: &Values,
    own: Own<'_>,
) -> Result<Copies, String> {
    let (parts, none) = (BTreeMap::new(), Copies::new());
    let context = TemplateContext { values, parts: &parts, needs, copies: &none };
    let mut copies = Copies::new();
    for program in &target.processes {
        let count = match &program.copies {
            None => 1,
            Some(count) => {
                let count = context.fill(count.get_ref())?;
                count.parse().ok().filter(|count| (1..=64).contains(count)).ok_or_else(|| {
                    format!("`{count}` copies of {}; expected 1 to 64", program.name)
                })?
            }
        };
        let made: Result<Vec<Values>, String> =
            (1..=count).map(|copy| own(program, copy)).collect();
        copies.insert(program.name.clone(), made?);
    }
    Ok(copies)
}

/// Folder, number and ports of a copy. The ports stay taken for as long as `held` lives, so that no two are the same.
fn own_values(
    folder: &Path,
    program: &Program,
    copy: u32,
    held: &RefCell<Vec<TcpListener>>,
) -> Result<Values, String> {
    let folder = folder.join(format!("{}-{copy}", program.name));
    let mut own = Values::from([
        ("copy".to_owned(), copy.to_string()),
        ("folder".to_owned(), folder.display().to_string()),
    ]);
    for port in &program.ports {
        let (number, listener) = free_port()?;
        own.insert(port.clone(), number.to_string());
        held.borrow_mut().push(listener);
    }
    Ok(own)
}

/// The texts of a target as filled by [`Running::start`] (commands, environment, URLs), with values
/// that differ from run to run (ports, folders, keys) left as `{{name}}`.
///
/// # Errors
/// A template cannot be filled.
pub(crate) fn rendered(
    target: &Target,
    needs: &[String],
    path: &str,
    settings: &Values,
) -> Result<Vec<String>, String> {
    let as_it_is = |name: &str| (name.to_owned(), format!("{{{{{name}}}}}"));
    let mut values: Values = BUILT_IN.iter().map(|name| as_it_is(name)).collect();
    values.insert("path".to_owned(), path.to_owned());
    values.extend(["number", "edition", TOKEN_COUNT].map(as_it_is));
    values.extend(target.settings.clone());
    values.extend(settings.clone());
    let own = |program: &Program, copy: u32| {
        let mut own: Values = program.ports.iter().map(|port| as_it_is(port)).collect();
        own.extend([("copy".to_owned(), copy.to_string()), as_it_is("folder")]);
        Ok(own)
    };
    let copies = copies(target, needs, &values, &own)?;
    name_ports(target, &copies, &mut values);
    let mut texts = Vec::new();
    for program in &target.processes {
        for own in copies.get(&program.name).into_iter().flatten() {
            let mut all = values.clone();
            all.extend(own.clone());
            let context =
                TemplateContext { values: &all, parts: &target.parts, needs, copies: &copies };
            texts.extend(words(&program.command, &context)?);
            for (name, text) in program.env.iter().chain(&program.files) {
                texts.extend([name.clone(), context.fill(text.get_ref())?]);
            }
            for Many { count, file, text } in &program.many {
                for text in [count, file, text] {
                    texts.push(context.fill(text.get_ref())?);
                }
            }
        }
    }
    let context = TemplateContext { values: &values, parts: &target.parts, needs, copies: &copies };
    for url in target.url.iter().chain(&target.url_tls) {
        texts.push(context.fill(url)?);
    }
    if let Some(TokensCommand { command }) = &target.tokens {
        texts.extend(words(command, &context)?);
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_ports_of_a_target_are_the_same() -> Result<(), Box<dyn std::error::Error>> {
        let ports: Vec<String> = (0..800).map(|port| format!("port-{port}")).collect();
        let program: Program =
            toml::from_str(&format!("name = \"gateway\"\ncommand = []\nports = {ports:?}"))?;
        let own = own_values(Path::new("run"), &program, 1, &RefCell::new(Vec::new()))?;
        let numbers: BTreeSet<&String> = ports.iter().filter_map(|port| own.get(port)).collect();
        assert_eq!(numbers.len(), ports.len());
        Ok(())
    }
}
