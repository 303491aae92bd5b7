//! `proxy` and `api`: where messages come in.

use std::sync::Arc;

use base::Method;
use base::names::nearest;
use model::Severity;

use crate::mediators::values::pattern;
use crate::program::description::{import, is_object};
use crate::program::{
    Api, Bindings, Conditions, EndpointId, EndpointKind, Entry, Flow, Proxy, Resource,
    ResourcePath, SequenceId, Transports, Wsdl,
};
use crate::syntax::{Compiler, Element, in_registry_or, serialise};

const DEFAULT_TRANSPORTS: &str = "http https";

/// Substitute for security in artefacts.
const SECURED: &str = "put an OpenAPI description in front of it, with `[integration]` on loopback";

impl Compiler {
    /// Reports a child that Synapse has, and its substitute.
    fn unserved_child(&mut self, (child, of): (&Element<'_>, &Element<'_>), help: &str) {
        let message = format!("`{}` of `{}` is not supported", child.name(), of.name());
        self.error(child, message, Some(help));
    }

    pub(super) fn proxy(&mut self, element: &Element<'_>) -> Option<()> {
        let name = element.required(self, "name")?.to_owned();
        let is_first = self.claims("proxy", &name, element);
        let starts = element.flag(self, "startOnLoad", true)?;
        element.ignore(&["trace", "statistics", "serviceGroup", "pinnedServers"]);
        let transports = self.transports(element)?;
        let (mut flow, mut bindings) = (Flow::default(), Bindings::default());
        let (mut wsdl, mut described_by, mut has_target) = (None, None, false);
        for child in element.children() {
            match child.name() {
                "target" => {
                    flow = self.flow(&child)?;
                    has_target = true;
                    if !["inSequence", "endpoint"].iter().any(|part| child.has(part)) {
                        self.error(&child, "`target` needs an `inSequence` or an `endpoint`", None);
                    }
                }
                "description" => {}
                "publishWSDL" => {
                    described_by = self.wsdl_endpoint(&child);
                    wsdl = self.wsdl(&child);
                    continue;
                }
                "parameter" => {
                    let name = child.optional("name").unwrap_or_default();
                    if name == "inbound.only" {
                        let only = child.node().string_value();
                        bindings.default = !only.trim().eq_ignore_ascii_case("true");
                    } else {
                        self.warning(&child, format!("the parameter `{name}` has no effect"), None);
                    }
                    continue;
                }
                "enableAddressing" => {
                    let message = "`enableAddressing` of `proxy` has no effect: responses get no header blocks of \
                                   WS-Addressing, and go to the client, whatever its `ReplyTo` says";
                    self.warning(&child, message, None);
                }
                "policy" | "enableSec" | "enableRM" => {
                    self.unserved_child((&child, element), SECURED);
                    continue;
                }
                _ => {
                    element.ignores(self, &child, &["target", "publishWSDL", "parameter"]);
                    continue;
                }
            }
            child.finish(self);
        }
        if !has_target {
            self.error(element, "`proxy` needs a `target`", None);
        }
        if !starts {
            let message =
                format!("the proxy `{name}` is not served: it has `startOnLoad=\"false\"`");
            self.warning(element, message, None);
        } else if is_first {
            let proxy = Proxy { name, transports, bindings, flow, wsdl, described_by };
            self.program.proxies.push(proxy);
        }
        Some(())
    }

    /// The WSDL in a `publishWSDL`, or the one of its `key` or `uri`.
    fn wsdl(&mut self, element: &Element<'_>) -> Option<Wsdl> {
        let inline = element.children().find(|child| child.name() != "resource");
        let text = match (element.optional("key"), element.optional("uri"), inline) {
            (Some(key), ..) => match self.entry(element, key)? {
                Entry::Xml(bytes) => bytes.to_vec(),
                Entry::Text(text) => text.as_bytes().to_vec(),
            },
            // The proxy is served without it, with the warning of its reader.
            (None, Some(uri), _) => {
                let key = (self.file.to_string(), uri.trim().to_owned());
                self.documents.get(&key)?.to_vec()
            }
            (None, None, Some(inline)) => serialise(inline.node()),
            (None, None, None) => {
                if element.optional("endpoint").is_none() {
                    let message = "`publishWSDL`: there is no WSDL";
                    let help = "put it into the element, or name it with `key` or `uri`";
                    self.warning(element, message, Some(help));
                }
                return None;
            }
        };
        let imported = self.imported(element)?;
        let document = xml::Document::parse(&text).ok();
        let wsdl = document.as_ref().and_then(|document| Wsdl::new(document, &imported));
        if wsdl.is_none() {
            self.error(element, "`publishWSDL`: not a WSDL document", None);
        }
        let all = document.iter().chain(imported.iter().map(|(_, of)| of));
        for location in all.flat_map(|of| of.root().descendants()).filter_map(import) {
            let (_, location) = location;
            let is_known = imported.iter().any(|(known, _)| known == location);
            if !is_known && !location.contains("://") {
                let message = format!("the WSDL imports `{location}`, which is not supported");
                let help = format!("add <resource location=\"{location}\" key=\"...\"/>");
                self.warning(element, message, Some(&help));
            }
        }
        wsdl
    }

    /// The endpoint whose WSDL a proxy publishes.
    fn wsdl_endpoint(&mut self, element: &Element<'_>) -> Option<EndpointId> {
        let name = element.optional("endpoint")?;
        let found = self.program.endpoint(&in_registry_or(name));
        match found {
            Some(id) => {
                let site = self.site(element);
                self.wsdl_endpoints.push((site, name.to_owned(), id));
            }
            None => {
                let message = format!("`publishWSDL`: there is no endpoint `{name}`");
                let help = self.nearest(name, self.program.endpoint_names.keys());
                self.warning(element, message, help.as_deref());
            }
        }
        found
    }

    /// Reports the endpoints whose WSDL cannot be published, when all are compiled.
    pub(super) fn check_wsdl_endpoints(&mut self) {
        for (site, name, id) in std::mem::take(&mut self.wsdl_endpoints) {
            let endpoint = self.program.endpoint_at(id);
            if endpoint.is_some_and(|of| matches!(of.kind, EndpointKind::Address { .. })) {
                continue;
            }
            let message = format!(
                "`publishWSDL`: the endpoint `{name}` is not an `address`, so a WSDL is generated"
            );
            let help = "write `uri=\"...\"` with the address of the WSDL".to_owned();
            self.report_at(Severity::Warning, site, message, Some(help));
        }
    }

    /// The documents that a WSDL imports, by location.
    fn imported(&mut self, element: &Element<'_>) -> Option<Vec<(String, xml::Document)>> {
        let mut imported = Vec::new();
        for resource in element.children().filter(|child| child.name() == "resource") {
            let location = resource.required(self, "location")?.to_owned();
            let key = resource.required(self, "key")?;
            match xml::Document::parse(self.entry(&resource, key)?.bytes()) {
                Ok(document) => imported.push((location, document)),
                Err(error) => self.error(&resource, format!("`{key}`: {error}"), None),
            }
            resource.finish(self);
        }
        Some(imported)
    }

    pub(super) fn api(&mut self, element: &Element<'_>) -> Option<()> {
        let name = element.required(self, "name")?.to_owned();
        let version = element.optional("version").map(str::to_owned);
        let key = model::api_key(&name, version.as_deref());
        let is_first = self.claims("api", &key, element);
        let context = element.required(self, "context")?;
        let swagger = element.optional("publishSwagger");
        let swagger = swagger.and_then(|key| self.published(element, key));
        if !context.starts_with('/') {
            let help = "start it with `/`";
            return self.reject(
                element,
                format!("`context` `{context}` does not start with `/`"),
                Some(help),
            );
        }
        let transports = self.transports(element)?;
        let bindings = bindings(element).unwrap_or_default();
        for inbound in &bindings.inbounds {
            if !self.inbound_names.contains(inbound) {
                let help = self.nearest(inbound, self.inbound_names.iter());
                self.error(
                    element,
                    format!("there is no inbound endpoint `{inbound}`"),
                    help.as_deref(),
                );
            }
            self.artefacts.uses("inboundEndpoint", inbound);
        }
        let (base_path, version_type) = self.base_path(element, context)?;
        let mut resources = Vec::new();
        for child in element.children() {
            match child.name() {
                "resource" => {
                    if self::bindings(&child).is_some_and(|own| own != bindings) {
                        let message = "`binds-to` of a resource is not supported";
                        let help = "put the resource into an API of its own, and bind that";
                        self.error(&child, message, Some(help));
                    }
                    // The rest of a rejected one was not read.
                    let resource = self.resource(&child, resources.len());
                    let Some(resource) = resource else { continue };
                    resources.push(resource);
                }
                "description" => {}
                "cors" => {
                    let help = "write `cors_origins` and `cors_headers` in `[integration]`";
                    self.unserved_child((&child, element), help);
                    continue;
                }
                "handlers" => {
                    self.unserved_child((&child, element), SECURED);
                    continue;
                }
                _ => {
                    element.ignores(self, &child, &["resource", "handlers"]);
                    continue;
                }
            }
            child.finish(self);
        }
        if !element.has("resource") {
            self.error(element, "`api` needs a `resource`", None);
        }
        if self.program.apis.iter().any(|api| api.base_path == base_path) && is_first {
            return self.reject(element, format!("another API has the path `{base_path}`"), None);
        }
        if is_first {
            let host = element.optional("hostname").map(str::to_owned);
            let port = match element.number(self, "port", 0)? {
                0 => None,
                port => Some(port),
            };
            let conditions = Conditions { host, port, ..Conditions::default() };
            self.program.apis.push(Api {
                name,
                base_path,
                version,
                version_type,
                // Others may be rejected.
                number: 0,
                transports,
                bindings,
                resources,
                conditions,
                swagger,
            });
        }
        Some(())
    }

    /// The description that `publishSwagger` names.
    fn published(&mut self, element: &Element<'_>, key: &str) -> Option<Arc<str>> {
        let found: Option<Arc<str>> = self.entry_or_none(key).map(|entry| entry.text().into());
        let (message, help) = match &found {
            None => (
                format!("`publishSwagger`: there is no registry resource `{key}`"),
                "add it; until then, a description is generated from the resources",
            ),
            Some(text) if !is_object(text) => (
                format!(
                    "`publishSwagger`: `{key}` is YAML, so `?swagger.json` returns a generated description"
                ),
                "write the description in JSON; `?swagger.yaml` returns it, too",
            ),
            Some(_) => return found,
        };
        self.warning(element, message, Some(help));
        found
    }

    /// The context with the version, which `version-type` places, and that type.
    fn base_path(
        &mut self,
        element: &Element<'_>,
        context: &str,
    ) -> Option<(String, Option<&'static str>)> {
        #[derive(Clone, Copy)]
        enum Place {
            None,
            Url,
            Context,
        }
        let kinds = [("none", Place::None), ("url", Place::Url), ("context", Place::Context)];
        let place = element.choice(self, "version-type", &kinds)?;
        let version = element.optional("version");
        let context = context.trim_end_matches('/');
        match (place, version) {
            (Place::None, None) => Some((context.to_owned(), None)),
            (Place::Url, Some(version)) => Some((format!("{context}/{version}"), Some("url"))),
            (Place::Context, Some(version)) => {
                if !context.contains("{version}") {
                    let message = format!("`context` `{context}` has no `{{version}}`");
                    let help = "the URL has no version; write `{version}` where it belongs";
                    self.warning(element, message, Some(help));
                }
                Some((context.replace("{version}", version), Some("context")))
            }
            (Place::None, Some(_)) | (Place::Url | Place::Context, None) => {
                let message = "`version` and `version-type` must be given together";
                self.reject(element, message, None)
            }
        }
    }

    fn resource(&mut self, element: &Element<'_>, number: usize) -> Option<Resource> {
        let methods = element.optional("methods").unwrap_or_default();
        let methods = methods.split([' ', ',']).filter(|method| !method.is_empty());
        let methods: Vec<_> = methods.map(str::to_ascii_uppercase).collect();
        for method in &methods {
            if Method::from_bytes(method.as_bytes()) == Method::Other {
                let nearest = nearest(method, Method::NAMED.map(Method::as_str));
                let help = nearest.map(|nearest| format!("did you mean `{nearest}`?"));
                self.warning(element, format!("unknown method `{method}`"), help.as_deref());
            }
        }
        let template = element.optional("uri-template");
        let path = match (template, element.optional("url-mapping")) {
            (Some(template), None) => ResourcePath::Template(template.to_owned()),
            (None, Some(mapping)) => ResourcePath::Mapping(mapping.to_owned()),
            (None, None) => ResourcePath::Any,
            (Some(_), Some(_)) => {
                return self.reject(element, "write either `uri-template` or `url-mapping`", None);
            }
        };
        let protocols = [("", None), ("http", Some(false)), ("https", Some(true))];
        let secure = element.choice(self, "protocol", &protocols)?;
        let content_type = element.optional("content-type").map(str::to_owned);
        let user_agent = match element.optional("user-agent") {
            Some(pattern) => Some(pattern::compile(self, element, pattern)?),
            None => None,
        };
        let conditions = Conditions { secure, content_type, user_agent, ..Conditions::default() };
        let flow = self.flow(element)?;
        let resource = Resource { methods, path, flow, number, conditions };
        if let Some(problem) = resource.problem() {
            return self.reject(element, problem, None);
        }
        Some(resource)
    }

    /// The sequences and the endpoint of a proxy's target or a resource: by name in an attribute, or inline.
    fn flow(&mut self, element: &Element<'_>) -> Option<Flow> {
        let request = self.part(element, "inSequence");
        let response = self.part(element, "outSequence");
        let fault = self.part(element, "faultSequence");
        let endpoint = self.endpoint_in(element)?;
        Some(Flow { request, response, fault, endpoint })
    }

    fn part(&mut self, element: &Element<'_>, name: &'static str) -> Option<SequenceId> {
        let (named, child) = (element.optional(name), element.child(name));
        if let Some(named) = named {
            if child.is_some() {
                element.counts(self, "the attribute", &format!("the element `{name}`"));
            }
            return self.sequence_named(element, named);
        }
        let child = child?;
        let id = match child.optional("key") {
            Some(key) => self.sequence_named(&child, key),
            None => Some(self.inline(&child)),
        };
        child.finish(self);
        id
    }

    /// The HTTP transports of a service. Others are ignored beside one of them, as in Micro Integrator, where a service
    /// is reachable by those that are enabled.
    fn transports(&mut self, element: &Element<'_>) -> Option<Transports> {
        let written = element.optional("transports").unwrap_or(DEFAULT_TRANSPORTS);
        let mut transports = Transports::default();
        let mut others = Vec::new();
        for name in written.split([' ', ',']).filter(|name| !name.is_empty()) {
            match name {
                "http" => transports.http = true,
                "https" => transports.https = true,
                "all" => transports = Transports { http: true, https: true },
                other => others.push(other),
            }
        }
        let is_served = transports.http || transports.https;
        for other in &others {
            // Transport of messages that stay inside the server.
            if *other == "local" {
                let message = "the transport `local` has no effect";
                let help = "call it over HTTP, or put its mediators into a `sequence`";
                self.warning(element, message, Some(help));
                continue;
            }
            let message = format!("the transport `{other}` is not supported");
            let help = Some("the transports are `http` and `https`".to_owned());
            if !is_served {
                return self.reject(element, message, help.as_deref());
            }
            self.warning(element, message, help.as_deref());
        }
        if !is_served {
            let help = "the transports are `http` and `https`";
            self.error(element, "`transports` has neither `http` nor `https`", Some(help));
        }
        Some(transports)
    }
}

/// Reads `binds-to`: names of inbound endpoints, and `default`. Source: Synapse's `APIFactory` and `ApiConstants`.
fn bindings(element: &Element<'_>) -> Option<Bindings> {
    let names = element.optional("binds-to")?.split(',').map(str::trim);
    let names: Vec<_> = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let (default, inbounds): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| name == "default");
    let default = !default.is_empty() || inbounds.is_empty();
    Some(Bindings { default, inbounds })
}
