//! A target as its file declares it (docs/adding-a-target.md): processes, files, settings, and what it
//! can do.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::template;
use crate::suite::definition::SettingValue;
use crate::suite::source::Source;

/// The targets that come with the lab, by name.
#[rustfmt::skip]
pub const SHIPPED: &[(&str, &str)] = &[
    ("backend",           include_str!("../../../suites/targets/backend.toml")),
    ("envoy",             include_str!("../../../suites/targets/envoy.toml")),
    ("haproxy",           include_str!("../../../suites/targets/haproxy.toml")),
    ("nginx",             include_str!("../../../suites/targets/nginx.toml")),
    ("penstock",          include_str!("../../../suites/targets/penstock.toml")),
    ("penstock-balanced", include_str!("../../../suites/targets/penstock-balanced.toml")),
    ("remote",            include_str!("../../../suites/targets/remote.toml")),
];

/// Longest wait for a target to be ready, unless its file says otherwise.
const READY_S: u64 = 60;

/// What the file says, checked.
#[derive(Clone, Debug)]
pub struct Target {
    pub name: String,
    pub about: String,
    /// Compared with the `needs` of scenarios.
    pub can: Vec<String>,
    /// What it will be able to do, or why not: the word of a need, and a sentence.
    pub cannot: BTreeMap<String, String>,
    /// Where requests without TLS go; a template.
    pub url: Option<String>,
    /// Where requests with TLS go; a template.
    pub url_tls: Option<String>,
    /// Name and default of each setting.
    pub settings: BTreeMap<String, String>,
    pub(crate) parts: BTreeMap<String, TemplatePart>,
    pub processes: Vec<Program>,
    /// Prints its version, in the first line that is not empty.
    pub version: Vec<String>,
    /// A JVM's garbage collector log, in the folder of its process.
    pub gc_log: Option<String>,
    names_backend: bool,
    pub source: Source,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    about: String,
    can: Vec<String>,
    #[serde(default)]
    cannot: BTreeMap<String, String>,
    #[serde(default)]
    url: Option<Spanned<String>>,
    #[serde(default)]
    url_tls: Option<Spanned<String>>,
    #[serde(default)]
    settings: BTreeMap<String, SettingValue>,
    #[serde(default)]
    part: BTreeMap<String, TemplatePart>,
    #[serde(default)]
    process: Vec<Program>,
    #[serde(default)]
    version: Vec<String>,
    #[serde(default)]
    gc_log: Option<String>,
}

/// A text that stands in a file only sometimes, or several times: `{{part.NAME}}`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TemplatePart {
    pub(crate) text: Spanned<String>,
    /// Stands only where the scenario needs this.
    #[serde(default)]
    pub(crate) needs: Option<String>,
    /// Stands only where the scenario doesn't need this.
    #[serde(default)]
    pub(crate) unless: Option<String>,
    /// Stands once for each copy of this process.
    #[serde(default)]
    pub(crate) each: Option<String>,
}

/// A program of the target. They start in order, each once the one before is ready.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    pub name: String,
    /// Program and arguments; templates.
    pub command: Vec<Spanned<String>>,
    /// How many of it; a number or a setting's `{{name}}`.
    #[serde(default)]
    pub copies: Option<Spanned<String>>,
    /// A free port of 127.0.0.1 is picked for each name.
    #[serde(default)]
    pub ports: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, Spanned<String>>,
    /// Files in its folder, by path; templates.
    #[serde(default)]
    pub files: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub ready: Ready,
    #[serde(default)]
    pub stop: StopBy,
    /// `target` or `helper`: which limits and which cores are its.
    #[serde(default)]
    pub role: Role,
    /// CPUs' worth of time, unless the suite limits its role.
    #[serde(default)]
    pub cpus: Option<Spanned<f64>>,
    /// Such as `500MiB`, unless the suite limits its role.
    #[serde(default)]
    pub memory: Option<Spanned<String>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    #[default]
    Target,
    Helper,
}

/// How a program shows that it is ready. All of its ports accept connections first, whatever this says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ready {
    /// This URL answers with 200; a template, `http` only.
    pub url: Option<Spanned<String>>,
    /// Longest wait.
    pub within_s: u64,
}

impl Default for Ready {
    fn default() -> Self {
        Self { url: None, within_s: READY_S }
    }
}

/// How a program is asked to end; after 20 s it is killed.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum StopBy {
    #[default]
    Term,
    Int,
    Quit,
    Kill,
}

/// The target called `name`: a path from `folder`, a file of `folder`'s `targets/`, or a shipped one.
///
/// # Errors
/// Its file can't be read or used; `None` where there is none.
pub fn find(name: &str, folder: &Path) -> Result<Option<Target>, String> {
    let own = folder.join("targets").join(format!("{name}.toml"));
    let path = if name.ends_with(".toml") { folder.join(name) } else { own };
    if path.is_file() {
        return Target::from_source(Source::read(&path)?).map(Some);
    }
    let shipped = SHIPPED.iter().find(|(shipped, _)| *shipped == name);
    let source =
        |text: &str| Source { name: format!("targets/{name}.toml").into(), text: text.to_owned() };
    shipped.map(|(_, text)| Target::from_source(source(text))).transpose()
}

impl Target {
    /// # Errors
    /// A sentence with file, line, column, and the nearest valid name.
    pub fn from_source(source: Source) -> Result<Self, String> {
        let file: File = source.parse()?;
        let told = |text: String| format!("{}: error: {text}", source.name.display());
        source.check_name(&file.name)?;
        if file.url.is_none() && file.url_tls.is_none() {
            return Err(told("write `url`, `url_tls` or both: where do requests go?".to_owned()));
        }
        for process in &file.process {
            if process.command.is_empty() {
                return Err(told(format!("process `{}` has no command", process.name)));
            }
            process.cpus.iter().try_for_each(|cpus| source.check_cpus(cpus))?;
            process.memory.iter().try_for_each(|memory| source.check_memory(memory))?;
        }
        let texts = texts(&file);
        template::check(&source, &names(&file), &texts)?;
        let names_backend = texts.iter().any(|text| template::uses(text.get_ref(), "backend_port"));
        for each in file.part.values().filter_map(|part| part.each.as_ref()) {
            if file.process.iter().all(|process| process.name != *each) {
                return Err(told(format!("a part is for each `{each}`: there is no such process")));
            }
        }
        Ok(Self {
            name: file.name.into_inner(),
            about: file.about,
            can: file.can,
            cannot: file.cannot,
            url: file.url.map(Spanned::into_inner),
            url_tls: file.url_tls.map(Spanned::into_inner),
            settings: file.settings.iter().map(|(key, v)| (key.clone(), v.text())).collect(),
            parts: file.part,
            processes: file.process,
            version: file.version,
            gc_log: file.gc_log,
            names_backend,
            source,
        })
    }

    /// Whether anything in its file says where the lab's backend is. Otherwise it forwards to another
    /// one, unless it was told by hand.
    #[must_use]
    pub fn names_backend(&self) -> bool {
        self.names_backend
    }

    /// Whether a suite's list of heaps is for it.
    #[must_use]
    pub fn has_heap(&self) -> bool {
        self.settings.contains_key("heap")
    }
}

/// Every name that a template of this file may use.
fn names(file: &File) -> Vec<String> {
    let mut names: Vec<String> = template::BUILT_IN.iter().map(|name| (*name).to_owned()).collect();
    names.extend(file.settings.keys().cloned());
    names.extend(file.part.keys().map(|part| format!("part.{part}")));
    for process in &file.process {
        names.extend(process.ports.iter().cloned());
        names.extend(process.ports.iter().map(|port| format!("{}.{port}", process.name)));
    }
    names
}

fn texts(file: &File) -> Vec<&Spanned<String>> {
    let mut texts: Vec<&Spanned<String>> = Vec::new();
    texts.extend(file.url.iter().chain(&file.url_tls));
    texts.extend(file.part.values().map(|part| &part.text));
    for process in &file.process {
        texts.extend(process.command.iter().chain(&process.copies));
        texts.extend(process.env.values().chain(process.files.values()));
        texts.extend(&process.ready.url);
    }
    texts
}
