//! Sequences, templates and the mediators in them.

use super::{Compiler, Element, NAMESPACE, Row, endpoint};
use crate::limits;
use crate::program::{Mediator, Sequence, SequenceId, Step, Template, TemplateParameter};

impl Compiler {
    pub(crate) fn declare_template(&mut self, element: &Element<'_>, name: &str) {
        let endpoint = element.child("endpoint");
        if element.child("sequence").is_none() && endpoint.is_none() {
            return self.error(element, "a template needs a `sequence` or an `endpoint`", None);
        }
        let mut parameters = Vec::new();
        let is_read_elsewhere = |child: &Element<'_>| {
            matches!(child.name(), "sequence" | "endpoint" | "description" | "comment")
        };
        for child in element.children().filter(|child| !is_read_elsewhere(child)) {
            if child.name() != "parameter" {
                element.ignores(self, &child, &["parameter", "sequence", "endpoint"]);
                continue;
            }
            let Some(name) = child.required(self, "name").map(str::to_owned) else { return };
            let default = child.optional("defaultValue").map(str::to_owned);
            let Some(mandatory) = child.flag(self, "isMandatory", false) else { return };
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

    /// Compiles the children of `element` as steps of `id`, and its `onError`.
    pub(crate) fn fill(&mut self, id: SequenceId, element: &Element<'_>) {
        let steps = self.steps(element.node());
        let on_error =
            element.optional("onError").and_then(|name| self.sequence_named(element, name));
        element.ignore(&["trace", "statistics"]);
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
            for child in parent.elements() {
                steps.extend(self.mediator(child));
            }
        }
        self.depth -= 1;
        steps
    }

    /// The row of a mediator's element.
    pub(crate) fn row(&self, element: &str) -> Option<&'static Row> {
        self.mediators.iter().find(|row| row.element == element)
    }

    /// Substitute for a mediator that is not supported.
    fn instead_of(&self, element: &str) -> Option<&'static str> {
        // An operation of a connector, such as `email.send`.
        if element.contains('.') {
            return Some(
                "call the service with `call` and an `http` endpoint: connectors are not supported",
            );
        }
        self.unserved.iter().find(|(known, _)| *known == element).map(|(_, instead)| *instead)
    }

    fn mediator(&mut self, node: xml::Node<'_>) -> Option<Step> {
        let element = Element::new(node);
        let name = node.local_name();
        let found = self.row(name);
        if node.namespace() != NAMESPACE && (found.is_some() || self.instead_of(name).is_none()) {
            let message = format!("`{name}` is not in Synapse's namespace");
            return self.reject(&element, message, Some(&format!("declare xmlns=\"{NAMESPACE}\"")));
        }
        // Notes of a designer for readers.
        if matches!(name, "description" | "comment") {
            return None;
        }
        let Some(row) = found else {
            if let Some(instead) = self.instead_of(name) {
                let message = format!("the mediator `{name}` is not supported");
                return self.reject(&element, message, Some(instead));
            }
            let nearest = base::names::nearest(name, self.mediators.iter().map(|row| row.element));
            let help = match nearest {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => "docs/synapse.md lists the mediators".to_owned(),
            };
            return self.reject(&element, format!("unknown mediator `{name}`"), Some(&help));
        };
        element.ignore(&["trace", "statistics"]);
        // Mediators are nested.
        let outer = std::mem::take(&mut self.reads_to);
        let mediator = (row.compile)(self, &element);
        let reads_to = std::mem::replace(&mut self.reads_to, outer);
        let mediator = mediator?;
        element.finish(self);
        Some(Step { element: row.element, site: self.site(&element), mediator, reads_to })
    }

    /// Notes whether the source of an expression may read `To`.
    pub(crate) fn note_names(&mut self, source: &str) {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        self.reads_to |= memchr::memmem::find_iter(source.as_bytes(), "To").any(|at| {
            let (before, after) = source.as_bytes().split_at(at);
            !before.last().is_some_and(is_part) && !after.get(2).is_some_and(is_part)
        });
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
        let step = |mediator| Step { element, site: site.clone(), mediator, reads_to: false };
        if let Some(sequence) = self.program.sequences.get_mut(id.0 as usize) {
            sequence.steps = steps.into_iter().map(step).collect();
        }
        id
    }
}
