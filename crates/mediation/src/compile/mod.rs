//! From artefacts to a program.

mod artefact;
mod element;
mod endpoint;
mod inbound;
mod service;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use model::{ArtefactSet, Diagnostic, Place, Resource, Severity};
use xslt::Stylesheet;

use crate::mediators::{CachePolicy, ORIGINAL, instead_of};
use crate::program::{
    Endpoint, EndpointId, Program, Sequence, SequenceId, Site, Step, Template, TemplateParameter,
};
use crate::{MEDIATORS, Mediator, limits};

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
    file: Arc<str>,
    depth: usize,
    artefacts: artefact::Artefacts,
    inbound_names: BTreeSet<String>,
    /// By file, and as the artefact names them.
    documents: BTreeMap<(String, String), Arc<[u8]>>,
    endpoint_templates: HashMap<String, endpoint::Template>,
    endpoint_depth: usize,
    /// The size of the endpoint templates that were used, with their values.
    template_bytes: usize,
    /// Whether a key is computed from the message, which may be that of any entry.
    keeps_entries: bool,
}

/// A local entry, or a resource of the registry.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Text(Arc<str>),
    /// Serialised, with its namespaces.
    Xml(Arc<[u8]>),
}

impl Entry {
    fn of(bytes: &Arc<[u8]>) -> Self {
        if xml::Document::parse(bytes).is_ok() {
            Self::Xml(Arc::clone(bytes))
        } else {
            Self::Text(String::from_utf8_lossy(bytes).into())
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Xml(bytes) => bytes,
        }
    }

    pub(crate) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes())
    }
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
        let compiler = Self { resources, documents: documents.collect(), ..Self::default() };
        let mut units: Vec<_> = origins.collect::<Vec<_>>().iter().flat_map(units).collect();
        let of_registry = registry.iter().filter_map(|(key, file, document)| {
            Some(Unit { file, node: document.element()?, key: Some(key) })
        });
        units.extend(of_registry);
        let (mut program, diagnostics) = compiler.compile_all(&units);
        let configs = set.artefacts.iter().flat_map(|artefact| artefact.configs.clone());
        program.configs = configs.collect();
        (program, diagnostics)
    }

    /// Compiles all `files` together, since artefacts refer to each other by name.
    #[must_use]
    pub fn compile(files: &[Origin<'_>]) -> (Program, Vec<Diagnostic>) {
        Self::default().compile_all(&files.iter().flat_map(units).collect::<Vec<_>>())
    }

    fn compile_all(self, units: &[Unit<'_>]) -> (Program, Vec<Diagnostic>) {
        let mut compiler = self;
        for (number, unit) in units.iter().enumerate() {
            compiler.enter_artefact(number, unit.file);
            compiler.declare(unit);
        }
        for (number, unit) in units.iter().enumerate() {
            compiler.enter_artefact(number, unit.file);
            compiler.define(unit.node);
        }
        compiler.reject(units);
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

    fn enter_artefact(&mut self, number: usize, file: &Path) {
        self.artefacts.current = number;
        self.file = file.to_string_lossy().into();
    }

    /// Notes the names that others may refer to, and the local entries.
    fn declare(&mut self, unit: &Unit<'_>) {
        let artefact = unit.node;
        let element = Element::new(artefact);
        let name = unit.key.or(artefact.attribute("", "name")).unwrap_or_default().to_owned();
        match artefact.local_name() {
            "sequence" => {
                let id = self.new_sequence();
                if self.claims("sequence", &name, &element) {
                    self.program.sequence_names.insert(name, id);
                }
            }
            "template" => self.declare_template(&element),
            "endpoint" => {
                let id = self.new_endpoint(Endpoint::default());
                if self.claims("endpoint", &name, &element) {
                    self.program.endpoint_names.insert(name, id);
                }
            }
            "inboundEndpoint" => {
                self.inbound_names.insert(name);
            }
            "localEntry" => {
                let key = artefact.attribute("", "key").unwrap_or_default().to_owned();
                let content = artefact.children().find(|child| child.is_element());
                let entry = match (artefact.attribute("", "src"), content) {
                    (Some(src), _) => match self.document(&element, src) {
                        Some(bytes) => Entry::of(&bytes),
                        None => return,
                    },
                    (None, Some(content)) => Entry::Xml(serialise(content).into()),
                    (None, None) => Entry::Text(artefact.string_value().trim().into()),
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
            self.error(element, format!("there are two of `{kind}` with the name `{name}`"), None);
        }
        is_first
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
            "endpoint" => {
                let found = self.endpoint_of(&element);
                if let (Some(found), Some(id)) = (found, self.artefacts.endpoint())
                    && let Some(endpoint) = self.program.endpoints.get_mut(id.0 as usize)
                {
                    *endpoint = found;
                }
            }
            "proxy" => {
                let _ = self.proxy(&element);
            }
            "api" => {
                let _ = self.api(&element);
            }
            "inboundEndpoint" => {
                let _ = self.inbound(&element);
            }
            "template" => {
                if let Some((id, child)) = self.artefacts.sequence().zip(element.child("sequence"))
                {
                    self.fill(id, &child);
                    child.finish(self);
                }
                // They were read when it was declared.
                let _ = element.children();
            }
            // The last two are of a server's own configuration.
            "localEntry" | "description" | "registry" | "taskManager" => return,
            other => {
                let help = "the artefacts are `api`, `proxy`, `inboundEndpoint`, `sequence`, `template`, `endpoint` and \
                            `localEntry`";
                self.error(&element, format!("`{other}` is not served yet"), Some(help.to_owned()));
                return;
            }
        }
        element.finish(self);
    }

    fn declare_template(&mut self, element: &Element<'_>) {
        let Some(name) = element.required(self, "name") else { return };
        let endpoint = element.child("endpoint");
        if element.child("sequence").is_none() && endpoint.is_none() {
            let message = "a template needs a `sequence` or an `endpoint`".to_owned();
            return self.error(element, message, None);
        }
        let mut parameters = Vec::new();
        let is_body = |child: &Element<'_>| matches!(child.name(), "sequence" | "endpoint");
        for child in element.children().filter(|child| !is_body(child)) {
            if child.name() != "parameter" {
                let message = format!("`template` has no child `{}`", child.name());
                self.error(&child, message, None);
                continue;
            }
            let Some(name) = child.required(self, "name").map(str::to_owned) else { return };
            let default = child.optional("defaultValue").map(str::to_owned);
            let Some(mandatory) = child.flag(self, "isMandatory", false) else { return };
            child.ignore(&["description"]);
            child.finish(self);
            parameters.push(TemplateParameter { name, default, mandatory });
        }
        if let Some(endpoint) = endpoint {
            if self.claims("template", name, element) {
                let names = parameters.into_iter().map(|parameter| parameter.name).collect();
                let template = endpoint::Template::new(&endpoint, names);
                self.endpoint_templates.insert(name.to_owned(), template);
            }
            return;
        }
        let sequence = self.new_sequence();
        if self.claims("template", name, element) {
            self.program.templates.insert(name.to_owned(), Template { sequence, parameters });
        }
    }

    /// The sequence template of this name, if there is one; else an error.
    pub(crate) fn template_named(&mut self, element: &Element<'_>, name: &str) -> Option<Template> {
        let found = self.program.templates.get(name).cloned();
        if found.is_none() {
            let help = nearest(name, self.program.templates.keys());
            self.error(element, format!("there is no template `{name}`"), help);
        }
        self.artefacts.uses("template", name);
        found
    }

    /// Compiles the children of `element` as steps of `id`, and its `onError`.
    fn fill(&mut self, id: SequenceId, element: &Element<'_>) {
        let steps = self.steps(element.node());
        let on_error =
            element.optional("onError").and_then(|name| self.sequence_named(element, name));
        element.ignore(&["description", "trace", "statistics"]);
        if let Some(sequence) = self.program.sequences.get_mut(id.0 as usize) {
            *sequence = Sequence { steps, on_error };
        }
    }

    /// A sequence of its own for an inline `sequence`, with its `onError`.
    pub(crate) fn inline(&mut self, element: &Element<'_>) -> SequenceId {
        let id = self.new_sequence();
        self.fill(id, element);
        id
    }

    /// A sequence of its own for the mediators inside `element`.
    pub(crate) fn nested(&mut self, element: &Element<'_>) -> SequenceId {
        let id = self.new_sequence();
        let steps = self.steps(element.node());
        if let Some(sequence) = self.program.sequences.get_mut(id.0 as usize) {
            sequence.steps = steps;
        }
        id
    }

    fn steps(&mut self, parent: xml::Node<'_>) -> Vec<Step> {
        self.depth += 1;
        let mut steps = Vec::new();
        if self.depth > limits::ELEMENT_DEPTH_MAX {
            let message = format!("mediators are nested deeper than {}", limits::ELEMENT_DEPTH_MAX);
            self.error(&Element::new(parent), message, None);
        } else {
            for child in parent.children().filter(|child| child.is_element()) {
                steps.extend(self.mediator(child));
            }
        }
        self.depth -= 1;
        steps
    }

    fn mediator(&mut self, node: xml::Node<'_>) -> Option<Step> {
        let element = Element::new(node);
        let name = node.local_name();
        if node.namespace() != NAMESPACE {
            let message = format!("`{name}` is not in Synapse's namespace");
            self.error(&element, message, Some(format!("declare xmlns=\"{NAMESPACE}\"")));
            return None;
        }
        // What a designer notes for readers.
        if matches!(name, "description" | "comment") {
            return None;
        }
        let Some(row) = MEDIATORS.iter().find(|row| row.element == name) else {
            if let Some(instead) = instead_of(name) {
                let message = format!("the mediator `{name}` is not served");
                self.error(&element, message, Some(instead.to_owned()));
                return None;
            }
            let nearest = base::names::nearest(name, MEDIATORS.iter().map(|row| row.element));
            let help = match nearest {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => "docs/synapse.md lists the mediators".to_owned(),
            };
            self.error(&element, format!("unknown mediator `{name}`"), Some(help));
            return None;
        };
        element.ignore(&["description", "trace", "statistics"]);
        let mediator = (row.compile)(self, &element)?;
        element.finish(self);
        Some(Step { element: row.element, site: self.site(&element), mediator })
    }

    fn new_sequence(&mut self) -> SequenceId {
        let next = u32::try_from(self.program.sequences.len()).unwrap_or(u32::MAX);
        self.program.sequences.push(Sequence::default());
        self.artefacts.made_sequence(SequenceId(next));
        SequenceId(next)
    }

    fn new_endpoint(&mut self, endpoint: Endpoint) -> EndpointId {
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
            let help = nearest(name, self.program.sequence_names.keys());
            self.error(element, format!("there is no sequence `{name}`"), help);
        }
        self.artefacts.uses("sequence", name);
        found
    }

    /// A sequence of these steps, which are a part of the element `at`.
    pub(crate) fn sequence_of(
        &mut self,
        at: &Element<'_>,
        element: &'static str,
        steps: Vec<Box<dyn Mediator>>,
    ) -> SequenceId {
        let id = self.new_sequence();
        let site = self.site(at);
        let step = |mediator| Step { element, site: site.clone(), mediator };
        if let Some(sequence) = self.program.sequences.get_mut(id.0 as usize) {
            sequence.steps = steps.into_iter().map(step).collect();
        }
        id
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
            let help = nearest(name, self.program.endpoint_names.keys());
            self.error(element, format!("there is no endpoint `{name}`"), help);
        }
        self.artefacts.uses("endpoint", name);
        found
    }

    /// The local entry or the registry resource of this key, if there is one; else an error.
    pub(crate) fn entry(&mut self, element: &Element<'_>, key: &str) -> Option<Entry> {
        let found = self.entries.get(key).cloned().or_else(|| self.registry_entry(key));
        if found.is_none() {
            let help = nearest(key, self.entries.keys().chain(self.resources.keys()));
            let message = format!("there is no local entry or registry resource `{key}`");
            self.error(element, message, help);
        }
        self.artefacts.uses("localEntry", key);
        found
    }

    /// Keeps all entries for the messages, since any of them may be named there.
    pub(crate) fn keep_entries(&mut self) {
        self.keeps_entries = true;
    }

    /// A document that the artefact names by URL or file, if it was read; else an error.
    fn document(&mut self, element: &Element<'_>, name: &str) -> Option<Arc<[u8]>> {
        let key = (self.file.to_string(), name.trim().to_owned());
        let found = self.documents.get(&key).cloned();
        if found.is_none() {
            let help = "write the document into the artefact".to_owned();
            self.error(element, format!("`{name}` was not read"), Some(help));
        }
        found
    }

    /// Of a resource; whether it is XML is found out once.
    fn registry_entry(&mut self, key: &str) -> Option<Entry> {
        let path = model::resource_path(key)?;
        if let Some(known) = self.resource_entries.get(&path) {
            return Some(known.clone());
        }
        let entry = Entry::of(&self.resources.get(&path)?.bytes);
        self.resource_entries.insert(path, entry.clone());
        Some(entry)
    }

    pub(crate) fn error(&mut self, at: &Element<'_>, message: String, help: Option<String>) {
        self.report(Severity::Error, at, message, help);
    }

    pub(crate) fn warning(&mut self, at: &Element<'_>, message: String, help: Option<String>) {
        self.report(Severity::Warning, at, message, help);
    }

    fn report(
        &mut self,
        severity: Severity,
        at: &Element<'_>,
        message: String,
        help: Option<String>,
    ) {
        if severity == Severity::Error {
            self.artefacts.has_error();
        }
        let site = self.site(at);
        let place = Some(Place { line: site.line, column: site.column });
        let file = Path::new(&*self.file).to_owned();
        self.diagnostics.push(Diagnostic { severity, file, place, message, help });
    }

    pub(crate) fn site(&self, at: &Element<'_>) -> Site {
        let xml::Position { line, column } = at.position();
        Site { file: Arc::clone(&self.file), line, column }
    }

    /// Takes out the artefacts with errors, and those that use them.
    fn reject(&mut self, all: &[Unit<'_>]) {
        for (number, (kind, name)) in self.artefacts.spread() {
            let Some(unit) = all.get(number) else { continue };
            self.enter_artefact(number, unit.file);
            let element = Element::new(unit.node);
            let message = format!("uses the {kind} `{name}`, which has errors");
            self.error(&element, message, None);
        }
        let (program, artefacts) = (&mut self.program, &self.artefacts);
        program.sequence_names.retain(|name, _| artefacts.is_good("sequence", name));
        program.endpoint_names.retain(|name, _| artefacts.is_good("endpoint", name));
        program.templates.retain(|name, _| artefacts.is_good("template", name));
        program.proxies.retain(|proxy| artefacts.is_good("proxy", &proxy.name));
        program.apis.retain(|api| artefacts.is_good("api", &api.name));
        program.inbounds.retain(|one| artefacts.is_good("inboundEndpoint", &one.name));
    }
}

fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n String>) -> Option<String> {
    let nearest = base::names::nearest(name, known.map(String::as_str));
    nearest.map(|name| format!("did you mean `{name}`?"))
}

/// An artefact that is compiled.
struct Unit<'o> {
    file: &'o Path,
    node: xml::Node<'o>,
    /// Its path in the registry, which is its name then.
    key: Option<&'o str>,
}

/// The artefacts of a file: its document element, or each child of `definitions`.
fn units<'o>(origin: &Origin<'o>) -> Vec<Unit<'o>> {
    let file = origin.file;
    let unit = |node| Unit { file, node, key: None };
    let Some(root) = origin.document.element() else { return Vec::new() };
    if root.local_name() == "definitions" {
        return root.children().filter(|child| child.is_element()).map(unit).collect();
    }
    vec![unit(root)]
}

/// A name of a sequence or an endpoint; of one in the registry, its path there.
fn in_registry_or(name: &str) -> Cow<'_, str> {
    model::resource_path(name).map_or(Cow::Borrowed(name), Cow::Owned)
}

/// The sequences and endpoints of the registry that `artefacts` name, and those that these name, by their paths.
fn in_registry<'s>(
    set: &'s ArtefactSet,
    artefacts: impl Iterator<Item = &'s xml::Document>,
) -> Vec<(String, &'s Path, xml::Document)> {
    let mut paths: BTreeSet<String> = artefacts.flat_map(named_paths).collect();
    let mut left: Vec<_> = paths.iter().cloned().collect();
    let mut found = Vec::new();
    while let Some(path) = left.pop() {
        let Some(resource) = set.resources.get(&path) else { continue };
        let Ok(document) = xml::Document::parse(&resource.bytes) else { continue };
        let is_artefact = document.element().is_some_and(|root| {
            root.namespace() == NAMESPACE && matches!(root.local_name(), "sequence" | "endpoint")
        });
        if is_artefact {
            let new = named_paths(&document).into_iter().filter(|path| !paths.contains(path));
            left.extend(new);
            paths.extend(left.iter().cloned());
            found.push((path, resource.file.as_path(), document));
        }
    }
    found
}

/// The paths in the registry that its attributes name.
fn named_paths(document: &xml::Document) -> Vec<String> {
    let elements = document.root().descendants().filter(|node| node.is_element());
    let keys = elements.flat_map(|element| element.attributes().map(|one| one.text()));
    keys.filter_map(model::resource_path).collect()
}

/// Whether a text or an attribute has `name` in it.
fn mentions(artefact: xml::Node<'_>, name: &str) -> bool {
    let has = |node: xml::Node<'_>| node.text().contains(name);
    artefact.descendants().any(|node| has(node) || node.attributes().any(has))
}

/// `node` as a document of its own, with the namespaces in scope.
pub(crate) fn serialise(node: xml::Node<'_>) -> Vec<u8> {
    let options = xml::WriterOptions { declaration: false, ..Default::default() };
    let written = xml::Writer::new(options).and_then(|mut writer| {
        writer.tree(node)?;
        writer.finish()
    });
    written.unwrap_or_default()
}
