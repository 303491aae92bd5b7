//! A target as defined in its file (docs/adding-a-target.md): processes, settings and capabilities.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::process::exists;
use super::template;
use crate::suite::definition::SettingValue;
use crate::suite::source::{Source, duration};

/// The targets shipped with the lab, by name.
#[rustfmt::skip]
pub const SHIPPED: &[(&str, &str)] = &[
    ("backend",           include_str!("../../../suites/targets/backend.toml")),
    ("caddy",             include_str!("../../../suites/targets/caddy.toml")),
    ("envoy",             include_str!("../../../suites/targets/envoy.toml")),
    ("haproxy",           include_str!("../../../suites/targets/haproxy.toml")),
    ("nginx",             include_str!("../../../suites/targets/nginx.toml")),
    ("nginx-njs",         include_str!("../../../suites/targets/nginx-njs.toml")),
    ("penstock",          include_str!("../../../suites/targets/penstock.toml")),
    ("penstock-applications", include_str!("../../../suites/targets/penstock-applications.toml")),
    ("penstock-balanced", include_str!("../../../suites/targets/penstock-balanced.toml")),
    ("penstock-integration", include_str!("../../../suites/targets/penstock-integration.toml")),
    ("penstock-managed",  include_str!("../../../suites/targets/penstock-managed.toml")),
    ("remote",            include_str!("../../../suites/targets/remote.toml")),
    ("spring-cloud-gateway", include_str!("../../../suites/targets/spring-cloud-gateway.toml")),
    ("synapse",           include_str!("../../../suites/targets/synapse.toml")),
];

/// The value of templates with the number of tokens that are wanted.
pub(crate) const TOKEN_COUNT: &str = "token_count";
/// Default time for a target to become ready.
const READY_S: u64 = 60;

/// A validated target file.
#[derive(Clone, Debug)]
pub struct Target {
    pub name: String,
    pub about: String,
    /// Capabilities; compared with the `needs` of scenarios.
    pub can: Vec<String>,
    /// Missing capabilities, each with a reason.
    pub cannot: BTreeMap<String, String>,
    /// URL for requests without TLS; a template.
    pub url: Option<String>,
    /// URL for requests with TLS; a template.
    pub url_tls: Option<String>,
    /// Name and default of each setting.
    pub settings: BTreeMap<String, String>,
    pub(crate) parts: BTreeMap<String, TemplatePart>,
    pub processes: Vec<Program>,
    /// A command that prints the version in its first non-empty line.
    pub version: Vec<String>,
    /// Programs or files without which the target is not installed, besides the programs of its processes.
    requires: Vec<String>,
    /// The garbage collector log of a JVM, in its process's folder.
    pub gc_log: Option<String>,
    /// The shortest warm-up; longer than the suite's for a JIT, or zero.
    pub warm_up: Duration,
    pub change: Option<Change>,
    /// How it gets the tokens of scenarios; absent: those that the lab signs.
    pub tokens: Option<TokensCommand>,
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
    requires: Vec<String>,
    #[serde(default)]
    gc_log: Option<String>,
    #[serde(default, deserialize_with = "duration::deserialize")]
    warm_up: Duration,
    #[serde(default)]
    change: Option<Change>,
    #[serde(default)]
    tokens: Option<TokensCommand>,
}

/// A text that is inserted conditionally or repeatedly: `{{part.NAME}}`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TemplatePart {
    pub(crate) text: Spanned<String>,
    /// Insert only if the scenario has this need.
    #[serde(default)]
    pub(crate) needs: Option<String>,
    /// Insert only if the scenario has none of these needs.
    #[serde(default)]
    pub(crate) unless: Unless,
    /// Insert once for each copy of this process.
    #[serde(default)]
    pub(crate) each: Option<String>,
}

/// One need, or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "`unless` must be a need, or a list of needs")]
pub(crate) enum Unless {
    One(String),
    Several(Vec<String>),
}

impl Default for Unless {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Unless {
    pub(crate) fn needs(&self) -> &[String] {
        match self {
            Self::One(need) => std::slice::from_ref(need),
            Self::Several(needs) => needs,
        }
    }
}

/// A process of the target. Processes start in order, each when the previous one is ready.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    pub name: String,
    /// Program and arguments; templates.
    pub command: Vec<Spanned<String>>,
    /// Number of copies: a number, or a setting as `{{name}}`.
    #[serde(default)]
    pub copies: Option<Spanned<String>>,
    /// Names of ports; a free port of 127.0.0.1 is chosen for each.
    #[serde(default)]
    pub ports: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, Spanned<String>>,
    /// Files in the process's folder by path; templates.
    #[serde(default)]
    pub files: BTreeMap<String, Spanned<String>>,
    /// Numbered files.
    #[serde(default)]
    pub many: Vec<Many>,
    #[serde(default)]
    pub ready: Ready,
    #[serde(default)]
    pub stop: StopBy,
    /// Selects the limits and CPUs that apply: `target` or `helper`.
    #[serde(default)]
    pub role: Role,
    /// CPU quota, unless the suite limits the role.
    #[serde(default)]
    pub cpus: Option<Spanned<f64>>,
    /// Memory limit such as `500MiB`, unless the suite limits the role.
    #[serde(default)]
    pub memory: Option<Spanned<String>>,
}

/// Files that differ in their number, `{{number}}`, which counts from 0001.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Many {
    /// A number, or a setting as `{{name}}`.
    pub count: Spanned<String>,
    /// Path in the process's folder; a template.
    pub file: Spanned<String>,
    /// A template.
    pub text: Spanned<String>,
}

/// How the running target is changed, and how a client sees it. Templates, in which `{{edition}}` is the number of
/// the change.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The file to replace, in the folder of the first process.
    pub file: Spanned<String>,
    pub text: Spanned<String>,
    /// An `http` URL that responds with 200 when the edition is live, not before.
    pub probe: Spanned<String>,
    /// A command that makes the target read the file, unless it follows its files.
    #[serde(default)]
    pub command: Vec<Spanned<String>>,
}

/// A command that prints tokens, one per line, when all processes are ready.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokensCommand {
    /// Program and arguments; templates, in which `{{token_count}}` is the number of tokens. Runs in the target's
    /// folder, which has the folders of the processes.
    pub command: Vec<Spanned<String>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    #[default]
    Target,
    Helper,
}

/// When a process counts as ready, in addition to accepting connections on all of its ports.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ready {
    /// A URL that must respond with 200; a template, `http` only.
    pub url: Option<Spanned<String>>,
    /// Time limit in seconds.
    pub within_s: u64,
}

impl Default for Ready {
    fn default() -> Self {
        Self { url: None, within_s: READY_S }
    }
}

/// The signal sent to end a process; if it is still running 20 s later, it is killed.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum StopBy {
    #[default]
    Term,
    Int,
    Quit,
    Kill,
}

/// The target `name`: a path relative to `folder`, a file in `folder`'s `targets/`, or a shipped target.
/// `None` if there is none.
///
/// # Errors
/// The file cannot be read, or is invalid.
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
    /// A diagnostic with file, line, column, and the nearest valid name.
    pub fn from_source(source: Source) -> Result<Self, String> {
        let file: File = source.parse()?;
        let describe = |text: String| format!("{}: error: {text}", source.name.display());
        source.check_name(&file.name)?;
        if file.url.is_none() && file.url_tls.is_none() {
            return Err(describe("`url` and `url_tls` are missing; write at least one".to_owned()));
        }
        for process in &file.process {
            if process.command.is_empty() {
                return Err(describe(format!("process `{}` has no command", process.name)));
            }
            process.cpus.iter().try_for_each(|cpus| source.check_cpus(cpus))?;
            process.memory.iter().try_for_each(|memory| source.check_memory(memory))?;
        }
        if file.tokens.as_ref().is_some_and(|tokens| tokens.command.is_empty()) {
            return Err(describe("[tokens] has no command".to_owned()));
        }
        let texts = texts(&file);
        template::check(&source, &names(&file), &texts)?;
        let names_backend = texts.iter().any(|text| template::uses(text.get_ref(), "backend_port"));
        for each in file.part.values().filter_map(|part| part.each.as_ref()) {
            if file.process.iter().all(|process| process.name != *each) {
                return Err(describe(format!(
                    "a part has `each = \"{each}\"`, which is not a process"
                )));
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
            requires: file.requires,
            gc_log: file.gc_log,
            warm_up: file.warm_up,
            change: file.change,
            tokens: file.tokens,
            names_backend,
            source,
        })
    }

    /// Whether the file refers to the lab's backend. Otherwise the target uses another backend, unless it was
    /// configured manually.
    #[must_use]
    pub fn names_backend(&self) -> bool {
        self.names_backend
    }

    /// The same target with another name.
    pub(crate) fn named(&self, name: String) -> Self {
        Self { name, ..self.clone() }
    }

    /// A program or file that it needs and that is not installed.
    pub(crate) fn missing(&self) -> Option<&str> {
        let programs = self.processes.iter().filter_map(|process| process.command.first());
        let mut all = programs.map(Spanned::get_ref).chain(&self.requires).map(String::as_str);
        all.find(|name| !name.contains("{{") && !exists(name))
    }

    /// Whether the suite's heap sizes apply.
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
    if file.process.iter().any(|process| !process.many.is_empty()) {
        names.push("number".to_owned());
    }
    names.extend(file.change.iter().map(|_| "edition".to_owned()));
    names.extend(file.tokens.iter().map(|_| TOKEN_COUNT.to_owned()));
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
        texts.extend(process.many.iter().flat_map(|many| [&many.count, &many.file, &many.text]));
    }
    if let Some(change) = &file.change {
        texts.extend([&change.file, &change.text, &change.probe]);
        texts.extend(&change.command);
    }
    texts.extend(file.tokens.iter().flat_map(|tokens| &tokens.command));
    texts
}
