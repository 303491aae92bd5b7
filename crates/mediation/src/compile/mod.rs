//! From artefacts to a program.

mod artefact;
mod defaults;
mod element;
mod endpoint;
mod entry;
mod expression_help;
mod inbound;
mod service;
mod steps;
mod units;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use base::limits::DIAGNOSTICS_MAX;
use base::names::SUGGESTIONS_MAX;
use model::{ArtefactSet, Diagnostic, Place, Resource, Severity};
use xslt::Stylesheet;

use crate::limits;
use crate::program::{
    CachePolicy, Endpoint, EndpointId, Entry, ORIGINAL, Program, Sequence, SequenceId, Site,
    Template,
};
use units::{
    Unit, in_entries, in_registry, in_registry_or, is_entry, mentions, named_properties, unit_at,
    units,
};

pub use element::Element;

/// An artefact file.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'o> {
    /// As diagnostics name it.
    pub file: &'o Path,
    pub document: &'o xml::Document,
}

/// Synapse's configuration language.
pub(crate) const NAMESPACE: &str = "http://ws.apache.org/ns/synapse";

/// The diagnostics of a file.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    count: usize,
    /// Whether one that was left out is an error.
    has_error: bool,
}

/// Compiles artefacts. One error rejects the artefact in which it is, and those that use it; the others are served.
#[derive(Debug, Default)]
pub struct Compiler {
    program: Program,
    /// Text or XML of the local entries.
    entries: HashMap<String, Entry>,
    /// The registry, by path.
    resources: BTreeMap<String, Resource>,
    /// Those of its resources that were used.
    resource_entries: HashMap<String, Entry>,
    /// Compiled once, by key; or what is wrong with them.
    pub(crate) stylesheets: HashMap<String, Result<Arc<Stylesheet>, String>>,
    diagnostics: Vec<Diagnostic>,
    /// By file; at most `DIAGNOSTICS_MAX` of them are kept.
    reported: BTreeMap<Arc<str>, Reported>,
    file: Arc<str>,
    depth: usize,
    artefacts: artefact::Artefacts,
    inbound_names: BTreeSet<String>,
    /// By file, and as the artefact names them.
    documents: BTreeMap<(String, String), Arc<[u8]>>,
    /// Endpoints that are another one, and its name.
    aliases: BTreeMap<String, String>,
    /// Those whose WSDL a proxy publishes: where it names them, and how.
    wsdl_endpoints: Vec<(Site, String, EndpointId)>,
    /// Groups of endpoints.
    groups: Vec<endpoint::Group>,
    /// Groups `failover`, with their members.
    failovers: Vec<(Site, Vec<EndpointId>)>,
    endpoint_templates: HashMap<String, endpoint::Template>,
    endpoint_depth: usize,
    /// The size of the endpoint templates that were used, with their values.
    template_bytes: usize,
    /// Whether a key is computed from the message, which may be that of any entry.
    keeps_entries: bool,
    /// Whether an expression of the mediator that is compiled reads `To`.
    reads_to: bool,
}

impl Compiler {
    /// Compiles a whole set of artefacts, with its registry.
    #[must_use]
    pub fn compile_set(set: &ArtefactSet) -> (Program, Vec<Diagnostic>) {
        let parsed = set.artefacts.iter().filter_map(|artefact| {
            // The set has well-formed documents only.
            Some((&artefact.file, xml::Document::parse(&artefact.bytes).ok()?))
        });
        let parsed: Vec<_> = parsed.collect();
        let origins = parsed.iter().map(|(file, document)| Origin { file, document });
        let resources = set.resources.clone();
        let documents = set.artefacts.iter().flat_map(|artefact| {
            let file = artefact.file.to_string_lossy().into_owned();
            let of = move |(name, bytes): (&String, &Arc<[u8]>)| {
                ((file.clone(), name.clone()), Arc::clone(bytes))
            };
            artefact.documents.iter().map(of)
        });
        let registry = in_registry(set, parsed.iter().map(|(_, document)| document));
        let mut compiler = Self { resources, documents: documents.collect(), ..Self::default() };
        let configs = set.artefacts.iter().flat_map(|artefact| artefact.configs.clone());
        compiler.program.configs = configs.collect();
        let mut units: Vec<_> = origins.collect::<Vec<_>>().iter().flat_map(units).collect();
        let of_registry = registry.iter().filter_map(|(key, file, document)| {
            Some(Unit { file, node: document.element()?, key: Some(key) })
        });
        units.extend(of_registry);
        let problems = set.artefacts.iter().flat_map(|artefact| &artefact.problems);
        compiler.compile_all(&units, problems)
    }

    /// Compiles all `files` together, since artefacts refer to each other by name.
    #[must_use]
    pub fn compile(files: &[Origin<'_>]) -> (Program, Vec<Diagnostic>) {
        Self::default().compile_all(&files.iter().flat_map(units).collect::<Vec<_>>(), [])
    }

    fn compile_all<'p>(
        self,
        units: &[Unit<'_>],
        problems: impl IntoIterator<Item = &'p Diagnostic>,
    ) -> (Program, Vec<Diagnostic>) {
        let mut compiler = self;
        for problem in problems {
            if problem.severity == Severity::Error {
                compiler.artefacts.current = unit_at(units, problem);
                compiler.artefacts.has_error();
            }
            compiler.diagnostics.push(problem.clone());
        }
        let document = defaults::document();
        let defaults = compiler.defaults(&document, units);
        let sources = compiler.sources(units);
        let entries = in_entries(units, &sources);
        let units: Vec<_> = units.iter().chain(&defaults).chain(&entries).copied().collect();
        for (number, unit) in units.iter().enumerate() {
            compiler.enter_artefact(number, unit.file);
            compiler.declare(unit);
        }
        compiler.resolve_aliases();
        for (number, unit) in units.iter().enumerate() {
            compiler.enter_artefact(number, unit.file);
            compiler.define(unit.node);
        }
        compiler.check_wsdl_endpoints();
        compiler.check_groups();
        compiler.check_failovers();
        compiler.take_out(&units);
        compiler.report_others();
        // They handle nothing unless they are named.
        for default in &defaults {
            let name = default.node.attribute("", "name").unwrap_or_default();
            compiler.program.sequence_names.remove(name);
        }
        let named = units.iter().flat_map(|unit| named_properties(unit.node));
        let values =
            named.filter_map(|name| Some((name.to_owned(), compiler.entries.get(name)?.value())));
        compiler.program.entry_values = values.collect();
        if compiler.keeps_entries {
            let resources = compiler.resources.iter();
            let resources = resources.map(|(path, of)| (path.clone(), Entry::of(&of.bytes)));
            compiler.program.entries = resources.collect();
            compiler.program.entries.extend(std::mem::take(&mut compiler.entries));
        }
        let resources = compiler.resources.values().map(|of| &of.bytes);
        let mut texts = resources.chain(compiler.documents.values());
        compiler.program.keeps_original = units.iter().any(|unit| mentions(unit.node, ORIGINAL))
            || texts.any(|text| std::str::from_utf8(text).is_ok_and(|it| it.contains(ORIGINAL)));
        compiler.program.link();
        (compiler.program, compiler.diagnostics)
    }

    /// The local entries whose content is elsewhere, with that.
    fn sources<'u>(&self, units: &[Unit<'u>]) -> Vec<(Unit<'u>, xml::Document)> {
        let source = |unit: &Unit<'u>| {
            let src = unit.node.attribute("", "src").filter(|_| is_entry(unit.node))?;
            let key = (unit.file.to_string_lossy().into_owned(), src.trim().to_owned());
            Some((*unit, xml::Document::parse(self.documents.get(&key)?).ok()?))
        };
        units.iter().filter_map(source).collect()
    }

    fn enter_artefact(&mut self, number: usize, file: &Path) {
        self.artefacts.current = number;
        self.file = file.to_string_lossy().into();
    }

    /// Notes the names that others may refer to, and the local entries.
    fn declare(&mut self, unit: &Unit<'_>) {
        let artefact = unit.node;
        let element = Element::new(artefact);
        let name = unit.key.or(artefact.attribute("", "name")).unwrap_or_default().to_owned();
        if let Some(key) = unit.key {
            // What reports an error in it may be the entry that holds it.
            self.artefacts.uses("localEntry", key);
        }
        match artefact.local_name() {
            "sequence" => {
                let id = self.new_sequence();
                if self.claims("sequence", &name, &element) {
                    self.program.sequence_names.insert(name, id);
                }
            }
            "template" => self.declare_template(&element, &name),
            "endpoint" => match artefact.attribute("", "key").filter(|key| !key.is_empty()) {
                Some(key) => {
                    if self.claims("endpoint", &name, &element) {
                        self.aliases.insert(name, in_registry_or(key).into_owned());
                    }
                }
                None => {
                    let id = self.new_endpoint(Endpoint::default());
                    if self.claims("endpoint", &name, &element) {
                        self.program.endpoint_names.insert(name, id);
                    }
                }
            },
            "inboundEndpoint" => {
                self.inbound_names.insert(name);
            }
            "localEntry" => {
                let key = artefact.attribute("", "key").unwrap_or_default().to_owned();
                let is_note = |node: &xml::Node<'_>| {
                    node.namespace() == NAMESPACE && node.local_name() == "description"
                };
                let content = || artefact.children().filter(|node| !is_note(node));
                let text: String = content().map(xml::Node::string_value).collect();
                let content = content().find(|child| child.is_element());
                let entry = match (artefact.attribute("", "src"), content) {
                    (Some(src), _) => match self.document(&element, src) {
                        Some(bytes) => Entry::of(&bytes),
                        None => return,
                    },
                    (None, Some(content)) => Entry::Xml(serialise(content).into()),
                    (None, None) => Entry::Text(text.trim().into()),
                };
                if self.claims("localEntry", &key, &element) {
                    self.entries.insert(key, entry);
                }
            }
            _ => {}
        }
    }

    /// Whether the artefact has the name for itself; reports it if not.
    fn claims(&mut self, kind: &'static str, name: &str, element: &Element<'_>) -> bool {
        if name.is_empty() {
            let attribute = if kind == "localEntry" { "key" } else { "name" };
            self.error(element, format!("`{kind}` needs the attribute `{attribute}`"), None);
            return false;
        }
        let is_first = self.artefacts.claim(kind, name);
        if !is_first {
            self.error(element, format!("duplicate {kind} `{name}`"), None);
        }
        is_first
    }

    /// Gives endpoints that are another one by `key` its number. Of a circle, none gets one.
    fn resolve_aliases(&mut self) {
        for (name, key) in &self.aliases {
            let mut key = key;
            for _ in 0..limits::ENDPOINT_DEPTH_MAX {
                match (self.program.endpoint_names.get(key), self.aliases.get(key)) {
                    (Some(id), _) => {
                        self.program.endpoint_aliases.insert(name.clone(), *id);
                        break;
                    }
                    (None, Some(next)) => key = next,
                    (None, None) => break,
                }
            }
        }
    }

    fn define(&mut self, artefact: xml::Node<'_>) {
        let element = Element::new(artefact);
        element.ignore(&["name", "trace", "statistics"]);
        match artefact.local_name() {
            "sequence" => {
                if let Some(id) = self.artefacts.sequence() {
                    self.fill(id, &element);
                }
            }
            "endpoint" if element.optional("key").is_some() => {
                let key = element.optional("key").unwrap_or_default();
                self.endpoint_named(&element, key);
            }
            "endpoint" => {
                let found = self.endpoint_of(&element);
                if let (Some(found), Some(id)) = (found, self.artefacts.endpoint())
                    && let Some(endpoint) = self.program.endpoints.get_mut(id.0 as usize)
                {
                    *endpoint = found;
                }
            }
            // Of one with an error, not everything was read.
            "proxy" => {
                if self.proxy(&element).is_none() {
                    return;
                }
            }
            "api" => {
                if self.api(&element).is_none() {
                    return;
                }
            }
            "inboundEndpoint" => {
                if self.inbound(&element).is_none() {
                    return;
                }
            }
            "template" => {
                if let Some((id, child)) = self.artefacts.sequence().zip(element.child("sequence"))
                {
                    self.fill(id, &child);
                    child.finish(self);
                    let handler = element.optional("onError");
                    let handler = handler.and_then(|name| self.sequence_named(&element, name));
                    if let Some(sequence) = self.program.sequences.get_mut(id.0 as usize) {
                        sequence.on_error = handler.or(sequence.on_error);
                    }
                }
                // They were read when it was declared.
                let _ = element.children();
            }
            // The last two are of a server's own configuration.
            "localEntry" | "description" | "registry" | "taskManager" => return,
            // Whoever read it has reported it.
            _ if self.artefacts.is_broken() => return,
            other => {
                let help = "the artefacts are `api`, `proxy`, `inboundEndpoint`, `sequence`, `template`, `endpoint` and \
                            `localEntry`";
                self.error(&element, format!("`{other}` is not supported"), Some(help));
                return;
            }
        }
        element.finish(self);
    }

    /// The sequence template of this name, if there is one; else an error.
    pub(crate) fn template_named(&mut self, element: &Element<'_>, name: &str) -> Option<Template> {
        let name = &*in_registry_or(name);
        let found = self.program.templates.get(name).cloned();
        if found.is_none() {
            let help = self.nearest(name, self.program.templates.keys());
            self.error(element, format!("there is no template `{name}`"), help.as_deref());
        }
        self.artefacts.uses("template", name);
        found
    }

    fn new_sequence(&mut self) -> SequenceId {
        let next = u32::try_from(self.program.sequences.len()).unwrap_or(u32::MAX);
        self.program.sequences.push(Sequence::default());
        self.artefacts.made_sequence(SequenceId(next));
        SequenceId(next)
    }

    pub(crate) fn new_endpoint(&mut self, endpoint: Endpoint) -> EndpointId {
        let next = u32::try_from(self.program.endpoints.len()).unwrap_or(u32::MAX);
        self.program.endpoints.push(endpoint);
        self.artefacts.made_endpoint(EndpointId(next));
        EndpointId(next)
    }

    /// The sequence of this name, if there is one; else an error.
    pub(crate) fn sequence_named(
        &mut self,
        element: &Element<'_>,
        name: &str,
    ) -> Option<SequenceId> {
        let name = &*in_registry_or(name);
        let found = self.program.sequence(name);
        if found.is_none() {
            let help = self.nearest(name, self.program.sequence_names.keys());
            self.error(element, format!("there is no sequence `{name}`"), help.as_deref());
        }
        self.artefacts.uses("sequence", name);
        found
    }

    /// The number of a new `cache`.
    pub(crate) fn add_cache(&mut self, policy: CachePolicy) -> usize {
        self.program.caches.push(policy);
        self.program.caches.len() - 1
    }

    /// The number of a new `throttle`, and that of its group.
    pub(crate) fn add_throttle(&mut self, id: &str) -> (usize, usize) {
        self.program.throttles += 1;
        let groups = &mut self.program.throttle_groups;
        let group = groups.iter().position(|known| known == id).unwrap_or_else(|| {
            groups.push(id.to_owned());
            groups.len() - 1
        });
        (self.program.throttles - 1, group)
    }

    /// The endpoint of this name, if there is one; else an error.
    pub(crate) fn endpoint_named(
        &mut self,
        element: &Element<'_>,
        name: &str,
    ) -> Option<EndpointId> {
        let name = &*in_registry_or(name);
        let found = self.program.endpoint(name);
        if found.is_none() {
            let computed = name.contains(['{', '$']);
            let help = match computed {
                true => Some("write a computed name as `key-expression`".to_owned()),
                false => self.nearest(name, self.program.endpoint_names.keys()),
            };
            self.error(element, format!("there is no endpoint `{name}`"), help.as_deref());
        }
        self.artefacts.uses("endpoint", name);
        found
    }

    /// The endpoint that an attribute names, or that of a child.
    #[allow(clippy::option_option, reason = "an error was reported, or there is none")]
    pub(crate) fn endpoint_in(&mut self, element: &Element<'_>) -> Option<Option<EndpointId>> {
        match (element.optional("endpoint"), element.child("endpoint")) {
            (Some(name), _) => self.endpoint_named(element, name).map(Some),
            (None, Some(child)) => self.endpoint(&child).map(Some),
            (None, None) => Some(None),
        }
    }

    /// Reports an error. The caller has nothing else to return then.
    pub(crate) fn reject<T>(
        &mut self,
        at: &Element<'_>,
        message: impl Into<String>,
        help: Option<&str>,
    ) -> Option<T> {
        self.error(at, message, help);
        None
    }

    pub(crate) fn error(
        &mut self,
        at: &Element<'_>,
        message: impl Into<String>,
        help: Option<&str>,
    ) {
        self.artefacts.has_error();
        let site = self.site(at);
        self.report_at(Severity::Error, site, message.into(), help.map(str::to_owned));
    }

    pub(crate) fn warning(
        &mut self,
        at: &Element<'_>,
        message: impl Into<String>,
        help: Option<&str>,
    ) {
        let site = self.site(at);
        self.report_at(Severity::Warning, site, message.into(), help.map(str::to_owned));
    }

    fn report_at(&mut self, severity: Severity, site: Site, message: String, help: Option<String>) {
        let reported = self.reported.entry(Arc::clone(&site.file)).or_default();
        reported.count = reported.count.saturating_add(1);
        if reported.count >= DIAGNOSTICS_MAX {
            reported.has_error |= severity == Severity::Error;
            return;
        }
        let place = Some(Place { line: site.line, column: site.column });
        let file = Path::new(&*site.file).to_owned();
        self.diagnostics.push(Diagnostic { severity, file, place, message, help });
    }

    /// Counts the diagnostics that were left out.
    fn report_others(&mut self) {
        let kept = DIAGNOSTICS_MAX.saturating_sub(1);
        for (file, Reported { count, has_error }) in std::mem::take(&mut self.reported) {
            let Some(left_out) = count.checked_sub(kept).filter(|left_out| *left_out > 0) else {
                continue;
            };
            self.diagnostics.push(Diagnostic {
                severity: if has_error { Severity::Error } else { Severity::Warning },
                file: Path::new(&*file).to_owned(),
                place: None,
                message: format!("{left_out} more diagnostics are not shown"),
                help: None,
            });
        }
    }

    /// The known name that is most like `name`, for one of the first diagnostics of the file.
    fn nearest<'n>(&self, name: &str, known: impl Iterator<Item = &'n String>) -> Option<String> {
        let count = self.reported.get(&self.file).map_or(0, |reported| reported.count);
        if count >= SUGGESTIONS_MAX {
            return None;
        }
        let nearest = base::names::nearest(name, known.map(String::as_str));
        nearest.map(|name| format!("did you mean `{name}`?"))
    }

    pub(crate) fn site(&self, at: &Element<'_>) -> Site {
        let xml::Position { line, column } = at.position();
        Site { file: Arc::clone(&self.file), line, column }
    }

    /// Takes out the artefacts with errors, and those that use them.
    fn take_out(&mut self, all: &[Unit<'_>]) {
        for (number, (kind, name)) in self.artefacts.spread() {
            let Some(unit) = all.get(number) else { continue };
            self.enter_artefact(number, unit.file);
            let element = Element::new(unit.node);
            self.error(&element, format!("uses the {kind} `{name}`, which has errors"), None);
        }
        let (program, artefacts) = (&mut self.program, &self.artefacts);
        let broken = artefacts.broken().filter_map(|number| all.get(number));
        program.broken.extend(broken.map(|unit| {
            let xml::Position { line, column } = unit.node.position();
            (unit.file.to_string_lossy().into(), line, column)
        }));
        program.sequence_names.retain(|name, _| artefacts.is_good("sequence", name));
        program.endpoint_names.retain(|name, _| artefacts.is_good("endpoint", name));
        program.endpoint_aliases.retain(|name, _| artefacts.is_good("endpoint", name));
        program.templates.retain(|name, _| artefacts.is_good("template", name));
        program.proxies.retain(|proxy| artefacts.is_good("proxy", &proxy.name));
        program.apis.retain(|api| artefacts.is_good("api", &api.key()));
        program.inbounds.retain(|one| artefacts.is_good("inboundEndpoint", &one.name));
    }
}

/// `node`, of an artefact, as a document of its own. Of the namespaces around it, it declares those whose prefixes occur in it: as in
/// Micro Integrator, what is inserted into it does not come into the namespace of the artefact.
pub(crate) fn serialise(node: xml::Node<'_>) -> Vec<u8> {
    // What is before each colon: a prefix, or something that ends with it.
    let mut mentioned = BTreeSet::new();
    for part in std::iter::once(node).chain(node.descendants()) {
        let own = (!part.is_element()).then(|| part.text());
        for before in part
            .attributes()
            .map(xml::Node::text)
            .chain(own)
            .flat_map(|text| text.rsplit(':').skip(1))
        {
            mentioned.extend(before.rsplit(char::is_whitespace).next());
        }
    }
    let keeps = |prefix: &str, uri: &str| {
        node.declarations().any(|declared| declared == (prefix, uri))
            || !prefix.is_empty() && mentioned.iter().any(|name| name.ends_with(prefix))
    };
    let options = xml::WriterOptions { declaration: false, ..Default::default() };
    let written = xml::Writer::new(options).and_then(|mut writer| {
        xml::copy_declaring(node, keeps, &mut writer)?;
        writer.finish()
    });
    written.unwrap_or_default()
}
