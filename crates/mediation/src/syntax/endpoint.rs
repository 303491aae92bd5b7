//! `endpoint`: where messages are sent.

mod address;
mod behaviour;
mod group;
mod template;

use expression::BodyUse;

use super::{Compiler, Element};
use crate::limits;
use crate::message::charset::Charset;
use crate::message::is_token;
use crate::message::known::ATTACHMENTS;
use crate::program::{Endpoint, EndpointFormat, EndpointId, EndpointKind, Mediator};

pub(crate) use group::Group;
pub(crate) use template::Template;

/// Address of a port of a service in WSDL.
fn address(wsdl: xml::Node<'_>, service: &str, port: &str) -> Option<String> {
    let named = |node: &xml::Node<'_>, local: &str, name: &str| {
        node.is_element() && node.local_name() == local && node.attribute("", "name") == Some(name)
    };
    let service = wsdl.descendants().find(|node| named(node, "service", service))?;
    let port = service.descendants().find(|node| named(node, "port", port))?;
    let address = port.descendants().find(|node| node.local_name() == "address")?;
    address.attribute("", "location").map(str::to_owned)
}

/// A property that is for the group of an endpoint, and not for its messages. Source: Synapse's `WeightedRoundRobin`.
const WEIGHT: &str = "loadbalance.weight";

const KINDS: &[&str] = &[
    "address",
    "http",
    "default",
    "wsdl",
    "loadbalance",
    "failover",
    "recipientlist",
    "dynamicLoadbalance",
    "serviceDynamicLoadbalance",
    "class",
];

/// The children of an endpoint of its own.
const PARTS: &[&str] = &[
    "timeout",
    "suspendOnFailure",
    "markForSuspension",
    "retryConfig",
    "authentication",
    "enableAddressing",
];

/// Attributes of designers and statistics, without effect.
const IGNORED: &[&str] = &["statistics", "trace", "name"];

impl Compiler {
    /// An endpoint inside another element: a reference by `key` or `key-expression`, or a definition.
    pub(crate) fn endpoint(&mut self, element: &Element<'_>) -> Option<EndpointId> {
        let found = match element.optional("key") {
            Some(key) => self.endpoint_named(element, key),
            None => {
                let endpoint = self.endpoint_of(element)?;
                let id = self.new_endpoint(endpoint);
                let name = element.optional("name").map(str::to_owned);
                self.program.inner_names.extend(name.map(|name| (id, name)));
                Some(id)
            }
        };
        element.ignore(IGNORED);
        element.finish(self);
        found
    }

    pub(crate) fn endpoint_of(&mut self, element: &Element<'_>) -> Option<Endpoint> {
        if let Some(source) = element.optional("key-expression") {
            let kind = EndpointKind::Computed(element.compiled(self, source)?);
            return Some(Endpoint { kind, ..Endpoint::default() });
        }
        if let Some(name) = element.optional("template") {
            return self.endpoint_of_template(element, name);
        }
        if let Some(handler) = element.optional("onError") {
            let help = format!("write onError=\"{handler}\" on the sequence that sends");
            self.error(element, "`onError` of an endpoint is not supported", Some(&help));
        }
        let (others, kinds): (Vec<_>, Vec<_>) = element
            .children()
            .filter(|child| !is_note(child))
            .partition(|child| matches!(child.name(), "property" | "session"));
        let (mut properties, mut weight) = (Vec::new(), None);
        let mut kinds = kinds.into_iter();
        let Some(child) = kinds.next() else {
            return self.reject(element, "the endpoint is empty", None);
        };
        for other in others.into_iter().chain(kinds) {
            if other.name() == "property" && other.attribute("name") == Some(WEIGHT) {
                weight = self.weight(&other);
                continue;
            }
            if other.name() == "property" {
                properties.extend(self.endpoint_property(&other));
                continue;
            }
            if other.name() == "session" {
                let help = "remove it, and keep sessions in a store that all members share";
                self.error(&other, "sessions of endpoints are not supported", Some(help));
                continue;
            }
            if !KINDS.contains(&other.name()) {
                element.ignores(self, &other, &["property"]);
                continue;
            }
            let message = format!("an endpoint has one kind; `{}` is a second one", other.name());
            self.error(&other, message, None);
        }
        let endpoint = self.deeper(&child, Self::endpoint_kind);
        let own = child.attribute("encoding").filter(|name| !name.is_empty());
        if let Some(name) = own.filter(|name| !Charset::is_known(name)) {
            self.error(&child, format!("unknown charset `{name}` in `encoding`"), None);
        }
        let endpoint = endpoint?;
        child.ignore(IGNORED);
        child.finish(self);
        let charset = own.map(Into::into);
        Some(Endpoint { properties: properties.into(), charset, weight, ..endpoint })
    }

    /// The property with the number of messages in turn that a member of a group gets.
    fn weight(&mut self, element: &Element<'_>) -> Option<u32> {
        element.ignore(&["name", "scope"]);
        let value = element.required(self, "value")?;
        element.finish(self);
        let weight = value.trim().parse().ok().filter(|weight| *weight > 0);
        if weight.is_none() {
            self.error(element, format!("`{WEIGHT}` is `{value}`, not a number above zero"), None);
        }
        weight
    }

    /// Properties set on every message that is sent there.
    fn endpoint_property(&mut self, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
        let property = (self.row("property")?.compile)(self, element)?;
        element.finish(self);
        self.check_untouched(element, property.body_use());
        Some(property)
    }

    /// Reports an expression of an endpoint that reads the body.
    fn check_untouched(&mut self, element: &Element<'_>, body_use: BodyUse) {
        if body_use != BodyUse::Untouched {
            let message = "expressions of an endpoint cannot read the body";
            let help = "compute the value with the mediator `property` before the message is sent";
            self.error(element, message, Some(help));
        }
    }

    /// What `compile` makes of an endpoint inside another.
    fn deeper(
        &mut self,
        element: &Element<'_>,
        compile: impl FnOnce(&mut Self, &Element<'_>) -> Option<Endpoint>,
    ) -> Option<Endpoint> {
        if self.endpoint_depth >= limits::ENDPOINT_DEPTH_MAX {
            let most = limits::ENDPOINT_DEPTH_MAX;
            return self.reject(element, format!("endpoints are nested deeper than {most}"), None);
        }
        self.endpoint_depth += 1;
        let endpoint = compile(self, element);
        self.endpoint_depth -= 1;
        endpoint
    }

    fn endpoint_kind(&mut self, child: &Element<'_>) -> Option<Endpoint> {
        let kind = match child.name() {
            "address" => {
                let uri = child.required(self, "uri")?;
                self.check_address(child, uri)?;
                EndpointKind::Address { uri: uri.to_owned() }
            }
            "http" => {
                let method = child.optional("method").map(str::to_ascii_uppercase);
                if let Some(method) = method.as_ref().filter(|method| !is_token(method)) {
                    return self.reject(child, format!("`{method}` is not a method"), None);
                }
                let template = child.required(self, "uri-template")?.to_owned();
                let help =
                    "set the property `uri.var.NAME` before, and write `{uri.var.NAME}` here";
                child.warn_of_expression(self, &template, help);
                self.check_address(child, &template)?;
                if child.choice(self, "version", &[("1.1", false), ("2.0", true)])? {
                    let message = "messages are sent over HTTP/1.1";
                    let help = "remove `version`, if the service accepts HTTP/1.1";
                    self.warning(child, message, Some(help));
                }
                EndpointKind::Http { method, template }
            }
            "default" => EndpointKind::Default,
            "wsdl" => EndpointKind::Address { uri: self.wsdl_address(child)? },
            "loadbalance" => return self.load_balance(child),
            "failover" => {
                child.ignore(group::BUILD);
                // Not `dynamic`: the member that works is kept, though the first is ready again.
                let fails_back = child.flag(self, "dynamic", true)?;
                let members = self.members(child)?.into_iter().map(|(id, _)| id);
                let members = members.collect::<Vec<_>>();
                self.failovers.push((self.site(child), members.clone()));
                return Some(group(EndpointKind::Failover { members, fails_back }));
            }
            "recipientlist" => return self.recipient_list(child),
            "dynamicLoadbalance" => {
                let help = "list the members in a `loadbalance`";
                return self.reject(child, "members of a cluster are not discovered", Some(help));
            }
            other => {
                let help = match other {
                    "serviceDynamicLoadbalance" => "list the members in a `loadbalance`",
                    "class" => "choose the endpoint with `key-expression`",
                    _ => "docs/synapse.md lists the endpoints",
                };
                let message = format!("the endpoint `{other}` is not supported");
                return self.reject(child, message, Some(help));
            }
        };
        let formats = [
            ("leave-as-is", None),
            ("soap11", Some(EndpointFormat::Soap11)),
            ("soap12", Some(EndpointFormat::Soap12)),
            ("pox", Some(EndpointFormat::Pox)),
            ("rest", Some(EndpointFormat::Rest)),
            ("get", Some(EndpointFormat::Get)),
        ];
        let format = child.choice(self, "format", &formats)?;
        // The compiler of the whole endpoint reads it.
        child.ignore(&["encoding"]);
        let optimize = child.optional("optimize").filter(|value| matches!(*value, "mtom" | "swa"));
        if let Some(optimize) = optimize {
            let message = format!("`optimize=\"{optimize}\"` has no effect");
            self.warning(child, message, Some(ATTACHMENTS));
        }
        let is_wsdl = child.name() == "wsdl";
        let mut endpoint = Endpoint { kind, format, is_wsdl, ..Endpoint::default() };
        for part in child.children().filter(|part| !is_note(part)) {
            match part.name() {
                "timeout" => self.timeout(&part, &mut endpoint)?,
                "suspendDurationOnFailure" => {
                    self.suspend_for(&part, endpoint.suspend.get_or_insert_default())?
                }
                "suspendOnFailure" => {
                    self.suspend(&part, endpoint.suspend.get_or_insert_default())?
                }
                "markForSuspension" => {
                    self.mark(&part, endpoint.suspend.get_or_insert_default())?
                }
                "retryConfig" => endpoint.retry = self.retry(&part)?,
                "authentication" if child.name() == "http" => {
                    endpoint.credentials = Some(self.credentials(&part)?);
                }
                "enableAddressing" => endpoint.addressing = Some(self.addressing(&part)?),
                // The port's address was read from it.
                "definitions" | "description" if child.name() == "wsdl" => {}
                other @ ("enableSec" | "enableRM") => {
                    let help = "use TLS, or a service that signs and encrypts";
                    self.error(
                        &part,
                        format!("`{other}` of an endpoint is not supported"),
                        Some(help),
                    );
                }
                _ => child.ignores(self, &part, PARTS),
            }
        }
        Some(endpoint)
    }

    /// The address of a port in WSDL, inline or by URL or file. Source: WSDL 1.1 section 3.8.
    fn wsdl_address(&mut self, child: &Element<'_>) -> Option<String> {
        let (service, port) = (child.required(self, "service")?, child.required(self, "port")?);
        let found = match (child.optional("uri"), child.child("definitions")) {
            (Some(uri), _) => {
                let bytes = self.document(child, uri)?;
                match xml::Document::parse(&bytes) {
                    Ok(document) => address(document.root(), service, port),
                    Err(error) => return self.reject(child, format!("`{uri}`: {error}"), None),
                }
            }
            (None, Some(definitions)) => address(definitions.node(), service, port),
            (None, None) => {
                let help = "write the WSDL into the endpoint, or give its URL with `uri`";
                return self.reject(child, "the endpoint has no WSDL", Some(help));
            }
        };
        if found.is_none() {
            let message = format!("the WSDL has no address of the port `{port}` of `{service}`");
            self.error(child, message, None);
        }
        found
    }
}

fn group(kind: EndpointKind) -> Endpoint {
    Endpoint { kind, ..Endpoint::default() }
}

fn is_note(element: &Element<'_>) -> bool {
    matches!(element.name(), "description" | "comment")
}

fn text(element: &Element<'_>) -> String {
    element.node().string_value().trim().to_owned()
}
