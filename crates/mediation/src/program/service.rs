//! Where messages come in: proxy services, and the resources of REST APIs.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use base::names;
use expression::Budget;
use model::{Diagnostic, Place, ServiceRules, Severity};

use crate::error::Failure;
use crate::message::{Arrival, Head, Message, PropertyScope, PropertyValue, Served};
use crate::program::{EndpointId, Pattern, Program, SequenceId, Site, Wsdl, uri_template};

/// The sequence that gets requests which no other service takes.
const MAIN: &str = "main";

/// Flow of an incoming message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// `inSequence`.
    pub request: Option<SequenceId>,
    /// `outSequence`.
    pub response: Option<SequenceId>,
    /// `faultSequence`.
    pub fault: Option<SequenceId>,
    /// A request that reaches the end of its sequence is sent here.
    pub endpoint: Option<EndpointId>,
}

/// The listeners that a service is reached on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transports {
    pub http: bool,
    pub https: bool,
}

/// The listeners that a service is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bindings {
    /// Listeners of `[integration]`.
    pub default: bool,
    /// Inbound endpoints, by name.
    pub inbounds: Vec<String>,
}

impl Default for Bindings {
    fn default() -> Self {
        Self { default: true, inbounds: Vec::new() }
    }
}

/// A proxy service, at `/services/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    pub name: String,
    pub transports: Transports,
    /// Not bound to the default one with the parameter `inbound.only`; requests that an inbound endpoint dispatches
    /// still come here.
    pub bindings: Bindings,
    pub flow: Flow,
    /// `publishWSDL`
    pub wsdl: Option<Wsdl>,
    /// The endpoint that it names.
    pub(crate) described_by: Option<EndpointId>,
}

/// An inbound endpoint: a listener of its own.
#[derive(Clone, Debug)]
pub struct Inbound {
    pub name: String,
    /// 0: a free one.
    pub port: u16,
    pub secure: bool,
    pub flow: Flow,
    pub(crate) dispatches: Option<Pattern>,
    pub(crate) site: Site,
}

/// Service of a request to an inbound endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboundTarget {
    /// The inbound endpoint's own sequence.
    Own,
    /// The proxy or API with the path, else the sequence `main`.
    Service,
    /// The sequence `main`.
    Main,
}

impl Inbound {
    /// By `dispatch.filter.pattern`. `target`: path and query. Source: Micro Integrator's `InboundHttpServerWorker`.
    ///
    /// # Errors
    /// The budget.
    pub fn target(&self, target: &str, budget: &Budget) -> Result<InboundTarget, Failure> {
        let Some(pattern) = &self.dispatches else { return Ok(InboundTarget::Own) };
        let matches = pattern.matches(target, budget)?;
        Ok(if matches { InboundTarget::Service } else { InboundTarget::Main })
    }

    /// A finding about it, such as that its port is in use.
    #[must_use]
    pub fn diagnostic(&self, severity: Severity, message: String, help: &str) -> Diagnostic {
        let Site { file, line, column } = &self.site;
        Diagnostic {
            severity,
            file: Path::new(&**file).to_owned(),
            place: Some(Place { line: *line, column: *column }),
            message,
            help: Some(help.to_owned()),
        }
    }
}

/// A REST API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    pub name: String,
    /// Context and version, without a trailing `/`.
    pub base_path: String,
    pub version: Option<String>,
    /// `version-type`, if it has a version.
    pub(crate) version_type: Option<&'static str>,
    /// Position in the program.
    pub(crate) number: usize,
    pub transports: Transports,
    /// `binds-to`
    pub bindings: Bindings,
    pub resources: Vec<Resource>,
    pub(crate) conditions: Conditions,
    /// `publishSwagger`
    pub(crate) swagger: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// In upper case; empty: all.
    pub methods: Vec<String>,
    pub path: ResourcePath,
    pub flow: Flow,
    /// Position in the API.
    pub number: usize,
    pub(crate) conditions: Conditions,
}

/// Conditions of an API or a resource besides path and method. Source: Synapse's `API.canProcess` and
/// `Resource.canProcess`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// `hostname`
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    /// `protocol`: whether it comes over TLS.
    pub(crate) secure: Option<bool>,
    pub(crate) content_type: Option<String>,
    pub(crate) user_agent: Option<Pattern>,
}

/// A request whose resource is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'r> {
    pub method: &'r str,
    pub secure: bool,
    pub head: &'r dyn Head,
    /// Without one, its content type does not matter.
    pub has_body: bool,
}

impl Conditions {
    fn hold(&self, asked: &Asked<'_>) -> bool {
        if *self == Self::default() {
            return true;
        }
        // A pattern without budget matches nothing.
        let is_agent = |pattern: &Pattern| {
            let agent = asked.head.field("User-Agent");
            agent.is_some_and(|agent| pattern.matches(&agent, &Budget::default()).unwrap_or(false))
        };
        let is_type = |expected: &String| {
            asked.head.field("Content-Type").is_some_and(|is| is.eq_ignore_ascii_case(expected))
        };
        self.are_of(&asked.head.field("Host").unwrap_or_default(), asked.secure)
            && self.secure.is_none_or(|expected| asked.secure == expected)
            && (!asked.has_body || self.content_type.as_ref().is_none_or(is_type))
            && self.user_agent.as_ref().is_none_or(is_agent)
    }

    /// Whether this is the host, perhaps with a port.
    fn are_of(&self, host: &str, secure: bool) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, port.parse().ok()),
            Some(_) | None => (host, Some(if secure { 443 } else { 80 })),
        };
        self.host.as_ref().is_none_or(|expected| name.eq_ignore_ascii_case(expected))
            && self.port.is_none_or(|expected| port == Some(expected))
    }
}

/// Which paths below the API's a resource serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourcePath {
    /// `uri-template`, such as `/orders/{id}`.
    Template(String),
    /// `url-mapping`, such as `/orders/*`.
    Mapping(String),
    /// Every path that no other resource serves.
    Any,
}

/// Where a request to an API goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matched<'p> {
    Resource(Found<'p>),
    /// Resources serve the path, but none the method: `_method_not_allowed_handler_` if there is one, else 405.
    MethodNotAllowed {
        api: &'p Api,
        handler: Option<SequenceId>,
        allowed: Vec<&'p str>,
    },
    /// A resource serves the path and the method, but not this content type, user agent or protocol: 400.
    NotAdmitted,
    /// No resource serves the path: `_resource_mismatch_handler_` if there is one, else 404.
    NoResource {
        api: &'p Api,
        handler: Option<SequenceId>,
    },
    /// No API has the path: the sequence `main` if there is one, else 404.
    NoApi {
        handler: Option<SequenceId>,
    },
}

/// A resource, and the parameters in path and query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<'p> {
    pub api: &'p Api,
    pub resource: &'p Resource,
    /// Name and value of the variables of the template, as they are in the path.
    pub variables: Vec<(String, String)>,
    /// Name and value of the parameters, decoded.
    pub query: Vec<(String, String)>,
    /// Path and query after the API's base path.
    pub postfix: String,
}

impl Found<'_> {
    /// Sets the properties that sequences read: `uri.var.*`, `query.param.*` and `REST_SUB_REQUEST_PATH`. Others are
    /// read of the message's [`Arrival`].
    ///
    /// # Errors
    /// As [`Message::set`].
    pub fn describe(&self, message: &mut Message, budget: &Budget) -> Result<(), Failure> {
        let (api, resource) = (self.api.number, self.resource.number);
        message.arrival.service = Some(Served::Resource { api, resource });
        let lists = [("uri.var", &self.variables), ("query.param", &self.query)];
        for (prefix, list) in lists {
            for (name, value) in list {
                let name = format!("{prefix}.{name}");
                let value = PropertyValue::new(value.as_str());
                message.set(PropertyScope::Synapse, &name, value, budget)?;
            }
        }
        // With the query, as Synapse's `API.process` does.
        let sub_path = PropertyValue::new(self.postfix.as_str());
        message.set(PropertyScope::Synapse, "REST_SUB_REQUEST_PATH", sub_path, budget)
    }
}

impl Program {
    /// A property of a request that came in there. Source: Synapse's `API.process`, `Resource.process` and
    /// `ProxyServiceMessageReceiver`.
    pub(crate) fn of_arrival(&self, message: &Message, name: &str) -> Option<Cow<'_, str>> {
        let Arrival { service, secure } = message.arrival;
        let scheme = if secure { "https" } else { "http" };
        if name == "TRANSPORT_IN_NAME" {
            return Some(scheme.into());
        }
        let (api, resource) = match service? {
            Served::Proxy(number) => {
                let proxy = self.proxies.get(number).filter(|_| name == "proxy.name");
                return proxy.map(|proxy| proxy.name.as_str().into());
            }
            Served::Resource { api, resource } => (self.apis.get(api)?, resource),
        };
        match name {
            "SYNAPSE_REST_API" => Some(api.key().into()),
            "SYNAPSE_REST_API_VERSION" => api.version.as_deref().map(Cow::from),
            "SYNAPSE_REST_API_VERSION_STRATEGY" => api.version_type.map(Cow::from),
            "REST_API_CONTEXT" => Some(api.context().into()),
            "REST_URL_PREFIX" => {
                let host = message.head.field("Host")?;
                Some(format!("{scheme}://{host}").into())
            }
            "rest.url.pattern" => match &api.resources.get(resource)?.path {
                ResourcePath::Template(path) | ResourcePath::Mapping(path) => Some(path.into()),
                ResourcePath::Any => None,
            },
            _ => None,
        }
    }

    /// Whether a service has this name: a proxy, an API with or without its version, an inbound endpoint, or the
    /// sequence `main`.
    #[must_use]
    pub fn has_service(&self, name: &str) -> bool {
        self.service_names().any(|known| known == name)
    }

    fn service_names(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let proxies = self.proxies.iter().map(|proxy| Cow::from(&*proxy.name));
        let apis = self.apis.iter().flat_map(|api| [Cow::from(&*api.name), Cow::from(api.key())]);
        let inbounds = self.inbounds.iter().map(|inbound| Cow::from(&*inbound.name));
        let main = self.sequence(MAIN).map(|_| Cow::from(MAIN));
        proxies.chain(apis).chain(inbounds).chain(main)
    }

    /// Diagnostics of the sections `[[service]]` whose service does not exist, so that they protect nothing.
    #[must_use]
    pub fn check_services(&self, rules: &[ServiceRules]) -> Vec<Diagnostic> {
        let unknown = rules.iter().filter(|rule| !self.has_service(&rule.name));
        let diagnostic = |rule: &ServiceRules| {
            let names: Vec<_> = self.service_names().collect();
            let nearest = names::nearest(&rule.name, names.iter().map(AsRef::as_ref));
            let help = match nearest {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => {
                    "write the name of a proxy service, or of an API with or without `:vVERSION`"
                        .to_owned()
                }
            };
            Diagnostic {
                severity: Severity::Error,
                file: rule.file.clone(),
                place: Some(rule.place),
                message: format!("no artefact defines the service `{}`", rule.name),
                help: Some(help),
            }
        };
        unknown.map(diagnostic).collect()
    }

    /// The resource for a request. `target`: path and query.
    #[must_use]
    pub fn resource(&self, asked: &Asked<'_>, target: &str) -> Matched<'_> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let rest = |api: &Api| {
            let rest = path.strip_prefix(&*api.base_path)?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest.len())
        };
        // The longest base path leaves the shortest rest.
        let apis = self.apis.iter().filter(|api| api.conditions.hold(asked));
        let apis = apis.filter_map(|api| Some((rest(api)?, api)));
        let Some((rest, api)) = apis.min_by_key(|(rest, _)| *rest) else {
            return Matched::NoApi { handler: self.sequence("main") };
        };
        self.resource_of(api, asked, path.get(path.len() - rest..).unwrap_or_default(), query)
    }

    /// The same for a request whose API is known. `rest`: the path below the API's base path.
    #[must_use]
    pub fn resource_of<'p>(
        &'p self,
        api: &'p Api,
        asked: &Asked<'_>,
        rest: &str,
        query: &str,
    ) -> Matched<'p> {
        if !api.conditions.hold(asked) {
            return Matched::NoApi { handler: self.sequence("main") };
        }
        let rest = if rest.is_empty() { "/" } else { rest };
        let target = if query.is_empty() { rest.to_owned() } else { format!("{rest}?{query}") };
        let best = |resource: &'_ Resource| resource.matches(rest, &target);
        let of_path = || api.resources.iter().filter_map(|one| Some((one, best(one)?)));
        let of_method = of_path().filter(|(resource, _)| {
            resource.conditions.hold(asked) && resource.serves(asked.method)
        });
        let Some((resource, (_, variables))) = of_method.max_by(|one, other| {
            // The first of equally good ones.
            one.1.0.cmp(&other.1.0).then(std::cmp::Ordering::Greater)
        }) else {
            let mut allowed: Vec<_> = of_path()
                .flat_map(|(resource, _)| resource.methods.iter().map(String::as_str))
                .collect();
            allowed.sort_unstable();
            allowed.dedup();
            if of_path().next().is_none() {
                let handler = self.sequence("_resource_mismatch_handler_");
                return Matched::NoResource { api, handler };
            }
            if of_path().any(|(resource, _)| resource.serves(asked.method)) {
                return Matched::NotAdmitted;
            }
            let handler = self.sequence("_method_not_allowed_handler_");
            return Matched::MethodNotAllowed { api, handler, allowed };
        };
        let query = uri_template::query(query).collect();
        Matched::Resource(Found { api, resource, variables, query, postfix: target })
    }
}

impl Api {
    /// Whether its `hostname` and `port` admit this host.
    #[must_use]
    pub fn is_at(&self, host: &str, secure: bool) -> bool {
        self.conditions.are_of(host, secure)
    }

    /// Key that distinguishes it from others.
    #[must_use]
    pub fn key(&self) -> String {
        model::api_key(&self.name, self.version.as_deref())
    }

    /// The base path without a version that follows it.
    fn context(&self) -> &str {
        let version = self.version.as_deref().filter(|_| self.version_type == Some("url"));
        let context = version.and_then(|version| self.base_path.strip_suffix(version));
        context.and_then(|context| context.strip_suffix('/')).unwrap_or(&self.base_path)
    }

    /// The methods of the resources at a path below the API's, in upper case; `None` if one of them takes all.
    #[must_use]
    pub fn methods(&self, rest: &str, query: &str) -> Option<Vec<&str>> {
        let rest = if rest.is_empty() { "/" } else { rest };
        let target = if query.is_empty() { rest.to_owned() } else { format!("{rest}?{query}") };
        let is_there = |resource: &&Resource| resource.matches(rest, &target).is_some();
        let mut methods = Vec::new();
        for resource in self.resources.iter().filter(is_there) {
            if resource.methods.is_empty() {
                return None;
            }
            methods.extend(resource.methods.iter().map(String::as_str));
        }
        Some(methods)
    }
}

impl Resource {
    /// Problem of the path.
    pub(crate) fn problem(&self) -> Option<String> {
        let (ResourcePath::Template(path) | ResourcePath::Mapping(path)) = &self.path else {
            return None;
        };
        let braces = |mark| path.matches(mark).count();
        let is_suffix = matches!(self.path, ResourcePath::Mapping(_)) && path.starts_with("*.");
        if !path.starts_with('/') && !is_suffix {
            Some(format!("the path `{path}` does not start with `/`"))
        } else if braces('{') != braces('}') {
            Some(format!("the path `{path}` has an unmatched brace"))
        } else {
            None
        }
    }

    fn serves(&self, method: &str) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|own| own == method)
    }

    /// How well it fits, and the variables. Mappings come before templates, which are all as good, since the first in
    /// the artefact counts. Source: Synapse's `URLMappingBasedDispatcher` and `URITemplateBasedDispatcher`.
    fn matches(&self, path: &str, target: &str) -> Option<(usize, Vec<(String, String)>)> {
        let owned = |found: Vec<(&str, &str)>| {
            found.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        match &self.path {
            ResourcePath::Mapping(mapping) => {
                let score = mapping_score(mapping, path)?;
                Some((1 + score, Vec::new()))
            }
            ResourcePath::Template(template) => {
                // Only a template with a query looks at it.
                let of = if template.contains('?') { target } else { path };
                let found = uri_template::matches(template, of)?;
                Some((1, owned(found)))
            }
            ResourcePath::Any => Some((0, Vec::new())),
        }
    }
}

/// Exact, then the longest prefix, then a suffix.
fn mapping_score(mapping: &str, path: &str) -> Option<usize> {
    const PREFIX: usize = 1 << 16;
    if let Some(prefix) = mapping.strip_suffix("/*") {
        let rest = path.strip_prefix(prefix)?;
        let fits = rest.is_empty() || rest.starts_with('/');
        return fits.then_some(PREFIX + prefix.len());
    }
    if let Some(suffix) = mapping.strip_prefix('*') {
        return path.ends_with(suffix).then_some(suffix.len());
    }
    (mapping == path).then_some(2 * PREFIX)
}
