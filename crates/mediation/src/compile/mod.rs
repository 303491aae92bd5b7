//! From artefacts to a program.
//!
//! Reads whole artefacts with the elements of `syntax` and the table of `mediators`: first their names, then their
//! content, since artefacts refer to each other; finally, those with errors and those that use them are taken out.

mod defaults;
mod inbound;
mod service;
mod units;

use std::path::Path;
use std::sync::Arc;

use base::limits::DIAGNOSTICS_MAX;
use model::{ArtefactSet, Diagnostic, Severity};

use crate::limits;
use crate::mediators::{MEDIATORS, UNSERVED};
use crate::program::{Endpoint, Entry, ORIGINAL, Program};
use crate::syntax::{Compiler, Element, NAMESPACE, Reported, in_registry_or, serialise};
use units::{Unit, in_entries, in_registry, is_entry, mentions, named_properties, unit_at, units};

/// An artefact file.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'o> {
    /// As diagnostics name it.
    pub file: &'o Path,
    pub document: &'o xml::Document,
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
        let mut compiler =
            Self { resources, documents: documents.collect(), ..Self::with_mediators() };
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
        Self::with_mediators().compile_all(&files.iter().flat_map(units).collect::<Vec<_>>(), [])
    }

    fn with_mediators() -> Self {
        Self { mediators: MEDIATORS, unserved: UNSERVED, ..Self::default() }
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
            // An error in it may be reported by the entry that holds it.
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

    /// Gives endpoints that are another one by `key` its number. Members of a circle get none.
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
            // An artefact with an error was not read completely.
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
            // Its reader has reported it.
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
