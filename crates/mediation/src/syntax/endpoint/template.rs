//! Endpoints of a template.

use model::Place;

use super::is_note;
use crate::limits;
use crate::program::Endpoint;
use crate::syntax::{Compiler, Element, in_registry_or, serialise};

impl Compiler {
    /// `endpoint template="..."`: its problems are reported at its use.
    pub(super) fn endpoint_of_template(
        &mut self,
        element: &Element<'_>,
        name: &str,
    ) -> Option<Endpoint> {
        let name = &*in_registry_or(name);
        let template = self.endpoint_templates.get(name).cloned();
        let values = self.template_values(element, name, template.as_ref())?;
        let Some(template) = template else {
            let help = self.nearest(name, self.endpoint_templates.keys());
            let message = format!("there is no endpoint template `{name}`");
            return self.reject(element, message, help.as_deref());
        };
        self.artefacts.uses("template", name);
        let room = limits::TEMPLATES_BYTES_MAX.saturating_sub(self.template_bytes);
        let Some(text) = template.fill(&values, room) else {
            let message = "endpoint templates take too much memory with their values";
            return self.reject(element, message, None);
        };
        self.template_bytes = self.template_bytes.saturating_add(text.len());
        let document = match xml::Document::parse(text.as_bytes()) {
            Ok(document) => document,
            Err(error) => {
                return self.reject(element, format!("the template `{name}`: {error}"), None);
            }
        };
        let before = self.diagnostics.len();
        let (groups, failovers) = (self.groups.len(), self.failovers.len());
        let inner = Element::new(document.element()?);
        let endpoint = self.deeper(&inner, Self::endpoint_of);
        let xml::Position { line, column } = element.position();
        for diagnostic in self.diagnostics.iter_mut().skip(before) {
            diagnostic.place = Some(Place { line, column });
            diagnostic.message = format!("in the template `{name}`: {}", diagnostic.message);
        }
        let of_groups = self.groups.iter_mut().skip(groups).map(|group| &mut group.site);
        let of_failovers = self.failovers.iter_mut().skip(failovers).map(|(site, _)| site);
        for site in of_groups.chain(of_failovers) {
            (site.line, site.column) = (line, column);
        }
        endpoint
    }

    /// The parameters that an endpoint gives to its template.
    fn template_values(
        &mut self,
        element: &Element<'_>,
        name: &str,
        template: Option<&Template>,
    ) -> Option<Vec<(String, String)>> {
        let mut values = Vec::new();
        for own in ["name", "uri"] {
            values.extend(element.optional(own).map(|value| (own.to_owned(), value.to_owned())));
        }
        for child in element.children().filter(|child| !is_note(child)) {
            if child.name() != "parameter" {
                element.ignores(self, &child, &["parameter"]);
                continue;
            }
            let parameter = child.required(self, "name")?.to_owned();
            let value = child.optional("value").unwrap_or_default().to_owned();
            if template.is_some_and(|template| !template.knows(&parameter)) {
                let message = format!("the template `{name}` has no parameter `{parameter}`");
                self.error(&child, message, None);
            }
            child.finish(self);
            values.push((parameter, value));
        }
        Some(values)
    }
}

/// A template of endpoints, serialised: `$name` stands for a parameter.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    text: String,
    parameters: Vec<String>,
}

impl Template {
    pub(crate) fn new(endpoint: &Element<'_>, parameters: Vec<String>) -> Self {
        let text = String::from_utf8_lossy(&serialise(endpoint.node())).into_owned();
        Self { text, parameters }
    }

    /// `name` and `uri` are always there.
    fn knows(&self, parameter: &str) -> bool {
        matches!(parameter, "name" | "uri") || self.parameters.iter().any(|own| own == parameter)
    }

    /// The template with the values; a parameter without one is empty. `None`: it is longer than `room`.
    fn fill(&self, values: &[(String, String)], room: usize) -> Option<String> {
        if self.text.len() > room {
            return None;
        }
        let (mut filled, mut rest) = (String::with_capacity(self.text.len()), self.text.as_str());
        while let Some((before, after)) = rest.split_once('$') {
            filled.push_str(before);
            if filled.len() > room {
                return None;
            }
            // The longest parameter that the text begins with.
            let names = self.parameters.iter().map(String::as_str).chain(["name", "uri"]);
            let found = names.filter(|name| after.starts_with(name)).max_by_key(|name| name.len());
            rest = match found {
                Some(name) => {
                    let value = values.iter().find(|(known, _)| known == name);
                    filled.push_str(&escaped(value.map_or("", |(_, value)| value)));
                    after.get(name.len()..).unwrap_or_default()
                }
                None => {
                    filled.push('$');
                    after
                }
            };
        }
        filled.push_str(rest);
        (filled.len() <= room).then_some(filled)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
