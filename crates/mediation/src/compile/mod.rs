//! From artefacts to a program.

mod element;
mod endpoint;
mod service;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use model::{Diagnostic, Place, Severity};

use crate::program::{
    EndpointId, Program, Sequence, SequenceId, Site, Step, Template, TemplateParameter,
};
use crate::{MEDIATORS, limits};

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

/// Compiles artefacts. One error rejects the artefact in which it is; the caller decides what becomes of the others.
#[derive(Debug, Default)]
pub struct Compiler {
    program: Program,
    /// Text or XML of the local entries.
    entries: HashMap<String, Entry>,
    diagnostics: Vec<Diagnostic>,
    file: Arc<str>,
    depth: usize,
}

/// An inline local entry.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Text(Arc<str>),
    /// Serialised, with its namespaces.
    Xml(Arc<[u8]>),
}

impl Compiler {
    /// Compiles all `files` together, since artefacts refer to each other by name.
    #[must_use]
    pub fn compile(files: &[Origin<'_>]) -> (Program, Vec<Diagnostic>) {
        let mut compiler = Self::default();
        let artefacts: Vec<_> = files.iter().flat_map(artefacts).collect();
        for (file, artefact) in &artefacts {
            compiler.enter_file(file);
            compiler.declare(*artefact);
        }
        for (file, artefact) in &artefacts {
            compiler.enter_file(file);
            compiler.define(*artefact);
        }
        compiler.finish()
    }

    fn enter_file(&mut self, file: &Path) {
        self.file = file.to_string_lossy().into();
    }

    /// Notes the names that others may refer to, and the local entries.
    fn declare(&mut self, artefact: xml::Node<'_>) {
        let element = Element::new(artefact);
        let name = || artefact.attribute("", "name").map(str::to_owned);
        match artefact.local_name() {
            "sequence" => {
                if let Some(name) = name() {
                    let id = self.new_sequence();
                    if self.program.sequence_names.insert(name.clone(), id).is_some() {
                        self.error(&element, format!("there are two sequences `{name}`"), None);
                    }
                }
            }
            "template" => self.declare_template(&element),
            "endpoint" => {
                let id = self.define_endpoint(&element);
                element.ignore(&["name", "trace", "statistics"]);
                element.finish(self);
                if let Some((name, id)) = name().zip(id) {
                    self.program.endpoint_names.insert(name, id);
                }
            }
            "localEntry" => {
                let key = artefact.attribute("", "key").map(str::to_owned);
                let content = artefact.children().find(|child| child.is_element());
                let entry = match content {
                    Some(content) => Entry::Xml(serialise(content).into()),
                    None => Entry::Text(artefact.string_value().trim().into()),
                };
                match key {
                    Some(key) => {
                        self.entries.insert(key, entry);
                    }
                    None => self.error(&element, "a local entry needs a `key`".to_owned(), None),
                }
            }
            _ => {}
        }
    }

    fn define(&mut self, artefact: xml::Node<'_>) {
        let element = Element::new(artefact);
        match artefact.local_name() {
            "sequence" => {
                let Some(name) = element.required(self, "name") else { return };
                let Some(id) = self.program.sequence(name) else { return };
                self.fill(id, &element);
                element.finish(self);
            }
            "proxy" => {
                let _ = self.proxy(&element);
                element.finish(self);
            }
            "api" => {
                let _ = self.api(&element);
                element.finish(self);
            }
            "template" => {
                let name = element.optional("name").unwrap_or_default();
                let id = self.program.templates.get(name).map(|template| template.sequence);
                if let Some((id, child)) = id.zip(element.child("sequence")) {
                    self.fill(id, &child);
                    child.finish(self);
                }
                element.finish(self);
            }
            "endpoint" | "localEntry" | "description" => {}
            other => {
                let help = "the artefacts are `api`, `proxy`, `sequence`, `template`, `endpoint` and `localEntry`";
                self.error(&element, format!("`{other}` is not served yet"), Some(help.to_owned()));
            }
        }
    }

    fn declare_template(&mut self, element: &Element<'_>) {
        let Some(name) = element.required(self, "name") else { return };
        if element.child("sequence").is_none() {
            let message = "templates of endpoints are not served".to_owned();
            return self.error(element, message, None);
        }
        let mut parameters = Vec::new();
        for child in element.children().filter(|child| child.name() == "parameter") {
            let Some(name) = child.required(self, "name").map(str::to_owned) else { return };
            let default = child.optional("defaultValue").map(str::to_owned);
            let Some(mandatory) = child.flag(self, "isMandatory", false) else { return };
            child.ignore(&["description"]);
            child.finish(self);
            parameters.push(TemplateParameter { name, default, mandatory });
        }
        let sequence = self.new_sequence();
        self.program.templates.insert(name.to_owned(), Template { sequence, parameters });
    }

    /// The sequence template of this name, if there is one; else an error.
    pub(crate) fn template_named(&mut self, element: &Element<'_>, name: &str) -> Option<Template> {
        let found = self.program.templates.get(name).cloned();
        if found.is_none() {
            let help = nearest(name, self.program.templates.keys());
            self.error(element, format!("there is no template `{name}`"), help);
        }
        found
    }

    /// Compiles the children of `element` as steps of `id`, and its `onError`.
    fn fill(&mut self, id: SequenceId, element: &Element<'_>) {
        let steps = self.steps(element.node());
        let on_error =
            element.optional("onError").and_then(|name| self.sequence_named(element, name));
        element.ignore(&["trace", "statistics"]);
        if let Some(sequence) = self.program.sequences.get_mut(id.0 as usize) {
            *sequence = Sequence { steps, on_error };
        }
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
            let help = "docs/synapse.md lists the mediators".to_owned();
            self.error(&element, format!("unknown mediator `{name}`"), Some(help));
            return None;
        };
        element.ignore(&["description"]);
        let mediator = (row.compile)(self, &element)?;
        element.finish(self);
        Some(Step { element: row.element, site: self.site(&element), mediator })
    }

    fn new_sequence(&mut self) -> SequenceId {
        let next = u32::try_from(self.program.sequences.len()).unwrap_or(u32::MAX);
        self.program.sequences.push(Sequence::default());
        SequenceId(next)
    }

    /// The sequence of this name, if there is one; else an error.
    pub(crate) fn sequence_named(
        &mut self,
        element: &Element<'_>,
        name: &str,
    ) -> Option<SequenceId> {
        let found = self.program.sequence(name);
        if found.is_none() {
            let help = nearest(name, self.program.sequence_names.keys());
            self.error(element, format!("there is no sequence `{name}`"), help);
        }
        found
    }

    /// The endpoint of this name, if there is one; else an error.
    pub(crate) fn endpoint_named(
        &mut self,
        element: &Element<'_>,
        name: &str,
    ) -> Option<EndpointId> {
        let found = self.program.endpoint(name);
        if found.is_none() {
            let help = nearest(name, self.program.endpoint_names.keys());
            self.error(element, format!("there is no endpoint `{name}`"), help);
        }
        found
    }

    /// The local entry of this key, if there is one; else an error.
    pub(crate) fn entry(&mut self, element: &Element<'_>, key: &str) -> Option<Entry> {
        let found = self.entries.get(key).cloned();
        if found.is_none() {
            let help = nearest(key, self.entries.keys());
            self.error(element, format!("there is no local entry `{key}`"), help);
        }
        found
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
        let site = self.site(at);
        let place = Some(Place { line: site.line, column: site.column });
        let file = Path::new(&*self.file).to_owned();
        self.diagnostics.push(Diagnostic { severity, file, place, message, help });
    }

    fn site(&self, at: &Element<'_>) -> Site {
        let xml::Position { line, column } = at.node().position();
        Site { file: Arc::clone(&self.file), line, column }
    }

    fn finish(mut self) -> (Program, Vec<Diagnostic>) {
        self.program.link();
        (self.program, self.diagnostics)
    }
}

fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n String>) -> Option<String> {
    let nearest = base::names::nearest(name, known.map(String::as_str));
    nearest.map(|name| format!("did you mean `{name}`?"))
}

/// The artefacts of a file: its document element, or each child of `definitions`.
fn artefacts<'o>(origin: &Origin<'o>) -> Vec<(&'o Path, xml::Node<'o>)> {
    let Some(root) = origin.document.element() else { return Vec::new() };
    if root.local_name() == "definitions" {
        let children = root.children().filter(|child| child.is_element());
        return children.map(|child| (origin.file, child)).collect();
    }
    vec![(origin.file, root)]
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
