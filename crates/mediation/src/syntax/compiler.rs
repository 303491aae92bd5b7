//! The state of a compilation: names, diagnostics, and the program as far as it is compiled.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use base::limits::DIAGNOSTICS_MAX;
use base::names::SUGGESTIONS_MAX;
use model::{Diagnostic, Place, Resource, Severity};
use xslt::Stylesheet;

use super::artefact::Artefacts;
use super::{Element, Row, endpoint, in_registry_or};
use crate::program::{
    CachePolicy, Endpoint, EndpointId, Entry, Program, Sequence, SequenceId, Site, Template,
};

/// The diagnostics of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reported {
    pub(crate) count: usize,
    /// Whether one that was left out is an error.
    pub(crate) has_error: bool,
}

/// Compiles artefacts. One error rejects the artefact in which it is, and those that use it; the others are served.
#[derive(Debug, Default)]
pub struct Compiler {
    /// The table of mediators, and those that are not supported, with substitutes.
    pub(crate) mediators: &'static [Row],
    pub(crate) unserved: &'static [(&'static str, &'static str)],
    pub(crate) program: Program,
    /// Text or XML of the local entries.
    pub(crate) entries: HashMap<String, Entry>,
    /// The registry, by path.
    pub(crate) resources: BTreeMap<String, Resource>,
    /// Used resources.
    pub(crate) resource_entries: HashMap<String, Entry>,
    /// Compiled once, by key; or their problems.
    pub(crate) stylesheets: HashMap<String, Result<Arc<Stylesheet>, String>>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// By file; at most `DIAGNOSTICS_MAX` of them are kept.
    pub(crate) reported: BTreeMap<Arc<str>, Reported>,
    pub(crate) file: Arc<str>,
    pub(crate) depth: usize,
    pub(crate) artefacts: Artefacts,
    pub(crate) inbound_names: BTreeSet<String>,
    /// By file, and as the artefact names them.
    pub(crate) documents: BTreeMap<(String, String), Arc<[u8]>>,
    /// Endpoints that are another one, and its name.
    pub(crate) aliases: BTreeMap<String, String>,
    /// Endpoints whose WSDL a proxy publishes: the place and form of the reference.
    pub(crate) wsdl_endpoints: Vec<(Site, String, EndpointId)>,
    /// Groups of endpoints.
    pub(crate) groups: Vec<endpoint::Group>,
    /// Groups `failover`, with their members.
    pub(crate) failovers: Vec<(Site, Vec<EndpointId>)>,
    pub(crate) endpoint_templates: HashMap<String, endpoint::Template>,
    pub(crate) endpoint_depth: usize,
    /// The size of the endpoint templates that were used, with their values.
    pub(crate) template_bytes: usize,
    /// Whether a key is computed from the message, which may be that of any entry.
    pub(crate) keeps_entries: bool,
    /// Whether an expression of the mediator that is compiled reads `To`.
    pub(crate) reads_to: bool,
}

impl Compiler {
    /// Whether the artefact has the name for itself; reports it if not.
    pub(crate) fn claims(&mut self, kind: &'static str, name: &str, element: &Element<'_>) -> bool {
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

    pub(crate) fn new_sequence(&mut self) -> SequenceId {
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

    pub(crate) fn report_at(
        &mut self,
        severity: Severity,
        site: Site,
        message: String,
        help: Option<String>,
    ) {
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

    /// The known name that is most like `name`, for one of the first diagnostics of the file.
    pub(crate) fn nearest<'n>(
        &self,
        name: &str,
        known: impl Iterator<Item = &'n String>,
    ) -> Option<String> {
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
}
