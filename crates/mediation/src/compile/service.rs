//! `proxy` and `api`: where messages come in.

use super::{Compiler, Element};
use crate::program::{
    Api, EndpointId, Flow, Proxy, Resource, ResourcePath, SequenceId, Transports,
};

const DEFAULT_TRANSPORTS: &str = "http https";

impl Compiler {
    pub(super) fn proxy(&mut self, element: &Element<'_>) -> Option<()> {
        let name = element.required(self, "name")?.to_owned();
        element.ignore(&["startOnLoad", "trace", "statistics", "serviceGroup", "pinnedServers"]);
        let transports = self.transports(element)?;
        let mut flow = Flow::default();
        for child in element.children() {
            match child.name() {
                "target" => flow = self.flow(&child)?,
                "description" => {}
                "publishWSDL" => {
                    let message = "`publishWSDL`: the WSDL is not served yet".to_owned();
                    self.warning(&child, message, None);
                    continue;
                }
                "parameter" => {
                    let name = child.optional("name").unwrap_or_default();
                    self.warning(&child, format!("the parameter `{name}` has no effect"), None);
                    continue;
                }
                other => {
                    let help = "secure the proxy by the gateway instead".to_owned();
                    self.error(&child, format!("`{other}` of `proxy` is not served"), Some(help));
                    continue;
                }
            }
            child.finish(self);
        }
        if self.program.proxies.iter().any(|proxy| proxy.name == name) {
            self.error(element, format!("there are two proxies `{name}`"), None);
            return None;
        }
        self.program.proxies.push(Proxy { name, transports, flow });
        Some(())
    }

    pub(super) fn api(&mut self, element: &Element<'_>) -> Option<()> {
        let name = element.required(self, "name")?.to_owned();
        let context = element.required(self, "context")?;
        element.ignore(&["trace", "statistics", "publishSwagger", "hostname", "port"]);
        if !context.starts_with('/') {
            self.error(
                element,
                format!("`context` is `{context}`"),
                Some("start it with `/`".to_owned()),
            );
            return None;
        }
        let transports = self.transports(element)?;
        let version = element.optional("version").map(str::to_owned);
        let kinds = [("url", true), ("context", false)];
        let in_url = element.choice(self, "version-type", &kinds)?;
        let context = context.trim_end_matches('/');
        let base_path = match &version {
            Some(version) if in_url => format!("{context}/{version}"),
            Some(version) => context.replace("{version}", version),
            None => context.to_owned(),
        };
        let mut resources = Vec::new();
        for child in element.children() {
            match child.name() {
                "resource" => resources.extend(self.resource(&child)),
                "description" => {}
                other => {
                    let message = format!("`{other}` of `api` is not served");
                    self.error(&child, message, None);
                    continue;
                }
            }
            child.finish(self);
        }
        self.program.apis.push(Api { name, base_path, transports, resources });
        Some(())
    }

    fn resource(&mut self, element: &Element<'_>) -> Option<Resource> {
        let methods = element.optional("methods").unwrap_or("GET");
        let methods = methods.split_ascii_whitespace().map(str::to_owned).collect();
        let template = element.optional("uri-template");
        let path = match (template, element.optional("url-mapping")) {
            (Some(template), None) => ResourcePath::Template(template.to_owned()),
            (None, Some(mapping)) => ResourcePath::Mapping(mapping.to_owned()),
            (None, None) => ResourcePath::Any,
            (Some(_), Some(_)) => {
                let message = "write either `uri-template` or `url-mapping`".to_owned();
                self.error(element, message, None);
                return None;
            }
        };
        let flow = self.flow(element)?;
        Some(Resource { methods, path, flow })
    }

    /// The sequences and the endpoint of a proxy's target or a resource: by name in an attribute, or inline.
    fn flow(&mut self, element: &Element<'_>) -> Option<Flow> {
        let request = self.part(element, "inSequence");
        let response = self.part(element, "outSequence");
        let fault = self.part(element, "faultSequence");
        let endpoint = match (element.optional("endpoint"), element.child("endpoint")) {
            (Some(name), _) => Some(self.endpoint_named(element, name)?),
            (None, Some(child)) => Some(self.endpoint(&child)?),
            (None, None) => None,
        };
        Some(Flow { request, response, fault, endpoint })
    }

    fn part(&mut self, element: &Element<'_>, name: &'static str) -> Option<SequenceId> {
        if let Some(named) = element.optional(name) {
            return self.sequence_named(element, named);
        }
        let child = element.child(name)?;
        let id = self.nested(&child);
        child.ignore(&["description"]);
        child.finish(self);
        Some(id)
    }

    fn transports(&mut self, element: &Element<'_>) -> Option<Transports> {
        let written = element.optional("transports").unwrap_or(DEFAULT_TRANSPORTS);
        let mut transports = Transports::default();
        for name in written.split([' ', ',']).filter(|name| !name.is_empty()) {
            match name {
                "http" => transports.http = true,
                "https" => transports.https = true,
                other => {
                    let help = "the transports are `http` and `https`".to_owned();
                    self.error(
                        element,
                        format!("the transport `{other}` is not served"),
                        Some(help),
                    );
                    return None;
                }
            }
        }
        Some(transports)
    }

    /// An endpoint inside another element: a reference by `key`, or a definition.
    pub(crate) fn endpoint(&mut self, element: &Element<'_>) -> Option<EndpointId> {
        let found = match element.optional("key") {
            Some(key) => self.endpoint_named(element, key),
            None => self.define_endpoint(element),
        };
        element.ignore(&["name"]);
        element.finish(self);
        found
    }
}
