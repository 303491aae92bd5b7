//! `endpoint`: where messages are sent.

use expression::{BodyUse, Expression};
use model::Place;

use super::{Compiler, Element};
use crate::mediators::property;
use crate::message::is_token;
use crate::program::{
    Credentials, Endpoint, EndpointFormat, EndpointId, EndpointKind, Retry, Suspend, TimeoutAction,
};
use crate::{Mediator, limits};

/// Of a port of a service in WSDL.
fn address(wsdl: xml::Node<'_>, service: &str, port: &str) -> Option<String> {
    let named = |node: &xml::Node<'_>, local: &str, name: &str| {
        node.is_element() && node.local_name() == local && node.attribute("", "name") == Some(name)
    };
    let service = wsdl.descendants().find(|node| named(node, "service", service))?;
    let port = service.descendants().find(|node| named(node, "port", port))?;
    let address = port.descendants().find(|node| node.local_name() == "address")?;
    address.attribute("", "location").map(str::to_owned)
}

/// Attributes of designers and statistics, without effect.
const IGNORED: &[&str] = &["statistics", "trace", "name"];

impl Compiler {
    /// An endpoint inside another element: a reference by `key` or `key-expression`, or a definition.
    pub(crate) fn endpoint(&mut self, element: &Element<'_>) -> Option<EndpointId> {
        let found = match (element.optional("key"), element.optional("key-expression")) {
            (Some(key), _) => self.endpoint_named(element, key),
            (None, Some(source)) => {
                let kind = EndpointKind::Computed(element.compiled(self, source)?);
                Some(self.new_endpoint(Endpoint { kind, ..Endpoint::default() }))
            }
            (None, None) => {
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

    pub(super) fn endpoint_of(&mut self, element: &Element<'_>) -> Option<Endpoint> {
        if let Some(name) = element.optional("template") {
            return self.endpoint_of_template(element, name);
        }
        let (others, kinds): (Vec<_>, Vec<_>) = element
            .children()
            .filter(|child| !is_note(child))
            .partition(|child| matches!(child.name(), "property" | "session"));
        let mut properties = Vec::new();
        let mut kinds = kinds.into_iter();
        let Some(child) = kinds.next() else {
            self.error(element, "the endpoint is empty".to_owned(), None);
            return None;
        };
        for other in others.into_iter().chain(kinds) {
            if other.name() == "property" {
                properties.extend(self.endpoint_property(&other));
                continue;
            }
            if other.name() == "session" {
                let help =
                    "remove it, and keep the sessions where all members find them".to_owned();
                self.error(&other, "sessions of endpoints are not served".to_owned(), Some(help));
                continue;
            }
            let message = format!("an endpoint has one kind, and `{}` is another", other.name());
            self.error(&other, message, None);
        }
        let endpoint = self.deeper(&child, Self::endpoint_kind);
        child.ignore(IGNORED);
        child.finish(self);
        Some(Endpoint { properties: properties.into(), ..endpoint? })
    }

    /// What is set on every message that is sent there.
    fn endpoint_property(&mut self, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
        let property = property::compile(self, element)?;
        element.finish(self);
        self.check_untouched(element, property.body_use());
        Some(property)
    }

    /// Reports an expression of an endpoint that reads the body.
    fn check_untouched(&mut self, element: &Element<'_>, body_use: BodyUse) {
        if body_use != BodyUse::Untouched {
            let message = "the body is not read on the way to an endpoint".to_owned();
            let help = "set it by `property` before the message is sent".to_owned();
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
            self.error(element, format!("endpoints are nested deeper than {most}"), None);
            return None;
        }
        self.endpoint_depth += 1;
        let endpoint = compile(self, element);
        self.endpoint_depth -= 1;
        endpoint
    }

    /// `endpoint template="..."`: what is wrong with it is reported where it is used.
    fn endpoint_of_template(&mut self, element: &Element<'_>, name: &str) -> Option<Endpoint> {
        let Some(template) = self.endpoint_templates.get(name).cloned() else {
            let help = super::nearest(name, self.endpoint_templates.keys());
            self.error(element, format!("there is no endpoint template `{name}`"), help);
            return None;
        };
        self.artefacts.uses("template", name);
        let values = self.template_values(element, name, &template)?;
        let room = limits::TEMPLATES_BYTES_MAX.saturating_sub(self.template_bytes);
        let Some(text) = template.fill(&values, room) else {
            let message = "endpoint templates take too much memory with their values".to_owned();
            self.error(element, message, None);
            return None;
        };
        self.template_bytes = self.template_bytes.saturating_add(text.len());
        let document = match xml::Document::parse(text.as_bytes()) {
            Ok(document) => document,
            Err(error) => {
                self.error(element, format!("the template `{name}`: {error}"), None);
                return None;
            }
        };
        let before = self.diagnostics.len();
        let inner = Element::new(document.element()?);
        let endpoint = self.deeper(&inner, Self::endpoint_of);
        let xml::Position { line, column } = element.position();
        for diagnostic in self.diagnostics.iter_mut().skip(before) {
            diagnostic.place = Some(Place { line, column });
            diagnostic.message = format!("in the template `{name}`: {}", diagnostic.message);
        }
        endpoint
    }

    /// The parameters that an endpoint gives to its template.
    fn template_values(
        &mut self,
        element: &Element<'_>,
        name: &str,
        template: &Template,
    ) -> Option<Vec<(String, String)>> {
        let mut values = Vec::new();
        for own in ["name", "uri"] {
            values.extend(element.optional(own).map(|value| (own.to_owned(), value.to_owned())));
        }
        for child in element.children().filter(|child| !is_note(child)) {
            if child.name() != "parameter" {
                let message = format!("an endpoint of a template has no child `{}`", child.name());
                self.error(&child, message, None);
                continue;
            }
            let parameter = child.required(self, "name")?.to_owned();
            let value = child.optional("value").unwrap_or_default().to_owned();
            if !template.knows(&parameter) {
                let message = format!("the template `{name}` has no parameter `{parameter}`");
                self.error(&child, message, None);
            }
            child.finish(self);
            values.push((parameter, value));
        }
        Some(values)
    }

    fn endpoint_kind(&mut self, child: &Element<'_>) -> Option<Endpoint> {
        let kind = match child.name() {
            "address" => EndpointKind::Address { uri: child.required(self, "uri")?.to_owned() },
            "http" => {
                let method = child.optional("method").map(str::to_ascii_uppercase);
                if let Some(method) = method.as_ref().filter(|method| !is_token(method)) {
                    self.error(child, format!("`method` is `{method}`"), None);
                    return None;
                }
                let template = child.required(self, "uri-template")?.to_owned();
                if child.choice(self, "version", &[("1.1", false), ("2.0", true)])? {
                    let message = "messages are sent over HTTP/1.1".to_owned();
                    let help = "remove `version`, if the service accepts HTTP/1.1".to_owned();
                    self.warning(child, message, Some(help));
                }
                EndpointKind::Http { method, template }
            }
            "default" => EndpointKind::Default,
            "wsdl" => EndpointKind::Address { uri: self.wsdl_address(child)? },
            "loadbalance" => return self.load_balance(child),
            "failover" => {
                // Not `dynamic`: the member that works is kept, though the first is ready again.
                let fails_back = child.flag(self, "dynamic", true)?;
                let members = self.members(child)?.into_iter().map(|(id, _)| id).collect();
                return Some(group(EndpointKind::Failover { members, fails_back }));
            }
            "recipientlist" => return self.recipient_list(child),
            "dynamicLoadbalance" => {
                let help = "list the members in a `loadbalance`".to_owned();
                self.error(child, "members of a cluster are not discovered".to_owned(), Some(help));
                return None;
            }
            other => {
                let help = "docs/synapse.md lists the endpoints".to_owned();
                self.error(child, format!("the endpoint `{other}` is not served"), Some(help));
                return None;
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
        // Of what is written, which may have no other.
        child.choice(self, "encoding", &[("UTF-8", ())])?;
        let is_wsdl = child.name() == "wsdl";
        let mut endpoint = Endpoint { kind, format, is_wsdl, ..Endpoint::default() };
        for part in child.children().filter(|part| !is_note(part)) {
            match part.name() {
                "timeout" => self.timeout(&part, &mut endpoint)?,
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
                // The port's address was read from it.
                "definitions" | "description" if child.name() == "wsdl" => {}
                other => {
                    let message = format!("`{other}` of an endpoint is not served");
                    self.error(&part, message, None);
                }
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
                    Err(error) => {
                        self.error(child, format!("`{uri}`: {error}"), None);
                        return None;
                    }
                }
            }
            (None, Some(definitions)) => address(definitions.node(), service, port),
            (None, None) => {
                let help = "write the WSDL into the endpoint, or name it with `uri`".to_owned();
                self.error(child, "the endpoint has no WSDL".to_owned(), Some(help));
                return None;
            }
        };
        if found.is_none() {
            let message = format!("the WSDL has no address of the port `{port}` of `{service}`");
            self.error(child, message, None);
        }
        found
    }

    fn load_balance(&mut self, child: &Element<'_>) -> Option<Endpoint> {
        let fails_over = child.flag(self, "failover", true)?;
        child.choice(self, "policy", &[("roundRobin", ())])?;
        let algorithm = child.optional("algorithm").unwrap_or("RoundRobin");
        let algorithm = algorithm.rsplit('.').next().unwrap_or_default();
        if !matches!(algorithm, "RoundRobin" | "roundRobin" | "WeightedRoundRobin") {
            let help = "write `RoundRobin` or `WeightedRoundRobin`".to_owned();
            self.error(child, format!("`algorithm` is `{algorithm}`"), Some(help));
        }
        let (members, weights) = self.members(child)?.into_iter().unzip();
        Some(group(EndpointKind::LoadBalance { members, weights, fails_over }))
    }

    fn recipient_list(&mut self, child: &Element<'_>) -> Option<Endpoint> {
        let Some(dynamic) = child.children().find(|part| part.name() == "endpoints") else {
            let members = self.members(child)?.into_iter().map(|(id, _)| id).collect();
            return Some(group(EndpointKind::RecipientList { members }));
        };
        let source = dynamic.required(self, "value")?;
        let list = dynamic.computed(self, source)?;
        let list = list.unwrap_or_else(|| Expression::literal(source));
        dynamic.optional("max-cache");
        dynamic.finish(self);
        Some(group(EndpointKind::Recipients(list)))
    }

    /// The members of a group, with their weights.
    fn members(&mut self, child: &Element<'_>) -> Option<Vec<(EndpointId, u32)>> {
        let mut members = Vec::new();
        for part in child.children().filter(|part| !is_note(part)) {
            match part.name() {
                "endpoint" => {
                    let weight = part.children().find_map(|kind| kind.attribute("weight"));
                    let weight = part.optional("weight").or(weight).unwrap_or("1").parse();
                    members.push((self.endpoint(&part)?, weight.unwrap_or(1).max(1)));
                }
                "member" => members.push((self.member(&part)?, 1)),
                other => {
                    let message = format!("`{}` has no child `{other}`", child.name());
                    self.error(&part, message, None);
                }
            }
        }
        self.check_members(child, &members);
        if members.is_empty() || members.len() > limits::ENDPOINT_MEMBERS_MAX {
            let most = limits::ENDPOINT_MEMBERS_MAX;
            let message = format!("`{}` needs 1 to {most} endpoints", child.name());
            self.error(child, message, None);
            return None;
        }
        Some(members)
    }

    /// What a member has of its own although one message is written for all, and one wait is theirs.
    fn check_members(&mut self, child: &Element<'_>, members: &[(EndpointId, u32)]) {
        let mut endpoints = members.iter().filter_map(|(id, _)| self.program.endpoint_at(*id));
        if endpoints.any(|one| !one.properties.is_empty()) {
            let help = "give it to the group, or set it by `property` before".to_owned();
            let message = "a property of a member is not served".to_owned();
            self.error(child, message, Some(help));
        }
        // Each recipient gets a copy.
        if child.name() == "recipientlist" {
            return;
        }
        let endpoints = members.iter().filter_map(|(id, _)| self.program.endpoint_at(*id));
        let all: Vec<_> = endpoints.map(|one| (one.format, one.timeout.action)).collect();
        let mut formats = all.iter().filter_map(|(format, _)| *format);
        let first = formats.next();
        if formats.any(|format| Some(format) != first) {
            let help = "give them one `format`, or send to each by a `filter`".to_owned();
            let message = "all members get the `format` of the first that has one".to_owned();
            self.warning(child, message, Some(help));
        }
        if all.iter().any(|(_, action)| *action == TimeoutAction::Discard) {
            let help = "write `drop` into the fault sequence for the error 101504".to_owned();
            let message = "`discard` of a member has no effect: the message fails".to_owned();
            self.warning(child, message, Some(help));
        }
    }

    /// `member hostName="..." httpPort="..."`: the message's own path at another host.
    fn member(&mut self, part: &Element<'_>) -> Option<EndpointId> {
        let host = part.required(self, "hostName")?;
        let (http, https) = (part.optional("httpPort"), part.optional("httpsPort"));
        let uri = match (http, https) {
            (None, Some(port)) => format!("https://{host}:{port}"),
            (Some(port), _) => format!("http://{host}:{port}"),
            (None, None) => format!("http://{host}"),
        };
        part.finish(self);
        let kind = EndpointKind::Address { uri };
        Some(self.new_endpoint(Endpoint { kind, ..Endpoint::default() }))
    }

    fn timeout(&mut self, element: &Element<'_>, endpoint: &mut Endpoint) -> Option<()> {
        let mut action = "fault".to_owned();
        for part in element.children() {
            match part.name() {
                "duration" => match part.computed(self, &text(&part))? {
                    Some(computed) => {
                        self.check_untouched(&part, computed.body_use());
                        endpoint.timeout_of = Some(computed);
                    }
                    None => endpoint.timeout.ms = self.number(&part)?,
                },
                "responseAction" | "action" => action = text(&part),
                other => self.error(&part, format!("`timeout` has no child `{other}`"), None),
            }
        }
        endpoint.timeout.action = match action.as_str() {
            "fault" => TimeoutAction::Fault,
            "discard" => TimeoutAction::Discard,
            other => {
                let help = "write `fault` or `discard`".to_owned();
                self.error(element, format!("`responseAction` is `{other}`"), Some(help));
                return None;
            }
        };
        Some(())
    }

    fn suspend(&mut self, element: &Element<'_>, suspend: &mut Suspend) -> Option<()> {
        for part in element.children() {
            match part.name() {
                "errorCodes" => suspend.codes = Some(self.codes(&part)?),
                "initialDuration" => {
                    suspend.initial_ms = self.duration(&part)?.unwrap_or(suspend.initial_ms);
                }
                "maximumDuration" => {
                    suspend.maximum_ms = self.duration(&part)?.unwrap_or(suspend.maximum_ms);
                }
                "progressionFactor" => {
                    suspend.factor = self.number(&part)?;
                    if !suspend.factor.is_finite() || suspend.factor < 0.0 {
                        let message = format!("`progressionFactor` is `{}`", text(&part));
                        self.error(&part, message, Some("write 0 or more".to_owned()));
                    }
                }
                other => {
                    self.error(&part, format!("`suspendOnFailure` has no child `{other}`"), None);
                }
            }
        }
        Some(())
    }

    fn retry(&mut self, element: &Element<'_>) -> Option<Retry> {
        let mut retry = Retry::All;
        for part in element.children() {
            retry = match part.name() {
                "enabledErrorCodes" => Retry::Only(self.codes(&part)?),
                "disabledErrorCodes" => Retry::Not(self.codes(&part)?),
                other => {
                    self.error(&part, format!("`retryConfig` has no child `{other}`"), None);
                    continue;
                }
            };
        }
        Some(retry)
    }

    /// `authentication`, with `basicAuth`.
    fn credentials(&mut self, element: &Element<'_>) -> Option<Credentials> {
        let Some(basic) = element.child("basicAuth") else {
            let help = "get the token by `call`, and set the header `Authorization`".to_owned();
            let message = "of `authentication`, only `basicAuth` is served".to_owned();
            self.error(element, message, Some(help));
            return None;
        };
        let mut read = |name: &'static str| {
            let Some(part) = basic.child(name) else {
                self.error(&basic, format!("`basicAuth` needs a `{name}`"), None);
                return None;
            };
            let written = text(&part);
            let computed = part.computed(self, &written)?;
            Some(computed.unwrap_or_else(|| Expression::literal(&written)))
        };
        let (user, password) = (read("username"), read("password"));
        basic.finish(self);
        Some(Credentials { user: user?, password: password? })
    }

    fn mark(&mut self, element: &Element<'_>, suspend: &mut Suspend) -> Option<()> {
        for part in element.children() {
            match part.name() {
                "errorCodes" => suspend.marking_codes = self.codes(&part)?,
                "retriesBeforeSuspension" => suspend.retries = self.number(&part)?,
                "retryDelay" => {
                    suspend.retry_delay_ms = self.duration(&part)?.unwrap_or_default();
                }
                other => {
                    self.error(&part, format!("`markForSuspension` has no child `{other}`"), None);
                }
            }
        }
        Some(())
    }

    /// Error codes, separated by commas; `-1`, no code of ours, means none.
    fn codes(&mut self, element: &Element<'_>) -> Option<Vec<u32>> {
        let all = text(element);
        let mut codes = Vec::new();
        for code in all.split(',').map(str::trim).filter(|code| !code.is_empty() && *code != "-1") {
            match code.parse() {
                Ok(code) => codes.push(code),
                Err(_) => {
                    self.error(element, format!("`{code}` is not an error code"), None);
                    return None;
                }
            }
        }
        Some(codes)
    }

    /// In milliseconds; `-1`, as tools write it, means none.
    fn duration(&mut self, element: &Element<'_>) -> Option<Option<u32>> {
        if text(element) == "-1" { Some(None) } else { self.number(element).map(Some) }
    }

    fn number<T: std::str::FromStr>(&mut self, element: &Element<'_>) -> Option<T> {
        let written = text(element);
        let number = written.parse().ok();
        if number.is_none() {
            self.error(element, format!("`{}` is `{written}`, not a number", element.name()), None);
        }
        number
    }
}

/// A template of endpoints, serialised: `$name` stands for a parameter.
#[derive(Clone, Debug)]
pub(super) struct Template {
    text: String,
    parameters: Vec<String>,
}

impl Template {
    pub(super) fn new(endpoint: &Element<'_>, parameters: Vec<String>) -> Self {
        let text = String::from_utf8_lossy(&super::serialise(endpoint.node())).into_owned();
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

fn group(kind: EndpointKind) -> Endpoint {
    Endpoint { kind, ..Endpoint::default() }
}

fn is_note(element: &Element<'_>) -> bool {
    matches!(element.name(), "description" | "comment")
}

fn text(element: &Element<'_>) -> String {
    element.node().string_value().trim().to_owned()
}
