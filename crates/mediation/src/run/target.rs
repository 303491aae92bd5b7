//! Where a message is sent, resolved from its endpoint and its properties.

use bytes::Bytes;
use expression::{BodyUse, Budget};
use xpath::encoding;

use crate::error::{Code, Failure};
use crate::limits;
use crate::message::{CHARACTER_SET, Message, PropertyScope, PropertyValue, soap};
use crate::program::{
    Addressing, Credentials, Endpoint, EndpointFormat, EndpointId, EndpointKind, LogLevel, Program,
    Scene, To, uri_template,
};

/// The property with the name of the endpoint set that an interceptor service chose.
pub(crate) const ENDPOINT_SET: &str = "interceptor.endpoint";

/// Where a message is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The endpoint with its time limits and state. `None`: the message's own address.
    pub endpoint: Option<EndpointId>,
    /// An absolute URL, or the rest after the path of the host's own endpoints; empty for a group.
    pub url: String,
    /// The host's endpoint set of this name, instead of the operation's own.
    pub set: Option<String>,
    /// Replaces the message's own.
    pub method: Option<String>,
    /// The value of the field `Authorization`, instead of the message's own.
    pub authorization: Option<String>,
    /// The value of the field `Host`, instead of the URL's.
    pub host: Option<String>,
    /// The longest wait for the response, in milliseconds, instead of the endpoint's own.
    pub timeout_ms: Option<u32>,
    /// The members of a group. The host chooses among them by the endpoint's kind.
    pub members: Vec<Self>,
    /// Body for a member of a group instead of the message's own, since the member's address is in it.
    pub body: Option<Bytes>,
    /// Content type that the endpoint expects.
    pub(super) content_type: Option<&'static str>,
    /// The header blocks that it expects.
    pub(super) addressing: Option<Addressing>,
}

/// Sets the properties of the endpoint on a message that is about to be sent there.
///
/// # Errors
/// The endpoint does not exist, or a property cannot be set.
pub(super) fn set_properties(
    scene: &Scene<'_>,
    message: &mut Message,
    to: To,
) -> Result<(), Failure> {
    let To::Endpoint(mut id) = to else { return Ok(()) };
    for _ in 0..=limits::ENDPOINT_DEPTH_MAX {
        let endpoint = scene.program.endpoint_at(id).ok_or_else(|| unknown("endpoint"))?;
        for property in &*endpoint.properties {
            property.mediate(scene, message)?;
        }
        // Source: Synapse's `Axis2FlexibleMEPClient`.
        if let Some(charset) = scene.program.charset_of(id) {
            let value = PropertyValue::new(charset);
            message.set(PropertyScope::Axis2, CHARACTER_SET, value, scene.budget)?;
        }
        let EndpointKind::Computed(name) = &endpoint.kind else { break };
        let name = scene.text(name, message)?;
        id = scene.program.endpoint(&name).ok_or_else(|| unknown(&name))?;
    }
    Ok(())
}

impl Target {
    /// # Errors
    /// The address is missing, or the endpoint does not exist.
    pub(crate) fn resolve(scene: &Scene<'_>, message: &Message, to: To) -> Result<Self, Failure> {
        match to {
            To::Implied => {
                let url = own_address(message, scene.budget)?;
                Ok(Self { url, host: host(message)?, ..Self::default() })
            }
            To::Endpoint(id) => {
                let mut room = limits::TARGETS_MAX;
                Self::endpoint(scene, message, id, (0, &mut room))
            }
        }
    }

    /// Adds a form to the query of each target that is asked by `GET`. Source: `getTargetAddress` of Synapse's
    /// `XFormURLEncodedFormatter`, which its `TargetRequest` calls.
    pub(super) fn ask_for(&mut self, form: &str, is_get: bool) {
        let is_get = self.method.as_ref().map_or(is_get, |method| method == "GET");
        for member in &mut self.members {
            member.ask_for(form, is_get);
        }
        if is_get && self.members.is_empty() && !form.is_empty() {
            self.url.push(if self.url.contains('?') { '&' } else { '?' });
            self.url.push_str(form);
        }
    }

    fn endpoint(
        scene: &Scene<'_>,
        message: &Message,
        id: EndpointId,
        (depth, room): (usize, &mut usize),
    ) -> Result<Self, Failure> {
        let endpoint = scene.program.endpoint_at(id).ok_or_else(|| unknown("endpoint"))?;
        *room = room.checked_sub(1).ok_or_else(|| {
            let message = format!("a group with more than {} endpoints", limits::TARGETS_MAX);
            Failure::new(Code::MEDIATION, message)
        })?;
        if depth > limits::ENDPOINT_DEPTH_MAX {
            let message =
                format!("endpoints are nested deeper than {}", limits::ENDPOINT_DEPTH_MAX);
            return Err(Failure::new(Code::MEDIATION, message));
        }
        let timeout_ms = timeout(endpoint, scene, message)?;
        let host = host(message)?;
        let mut target = Self { endpoint: Some(id), host, timeout_ms, ..Self::default() };
        let members: &[EndpointId] = match &endpoint.kind {
            EndpointKind::Address { uri } => {
                target.url = with_postfix(uri, message, endpoint.format);
                &[]
            }
            EndpointKind::Member { http, https } => {
                let [own, other] =
                    if message.arrival.secure { [https, http] } else { [http, https] };
                let host = own.as_deref().or(other.as_deref()).unwrap_or_default();
                target.url = format!("{host}{}", own_path(message));
                &[]
            }
            EndpointKind::Http { method, template } => {
                target.method.clone_from(method);
                let value =
                    |name: &str| Some(message.property_text(PropertyScope::Synapse, name)?.into());
                target.url = uri_template::expand_url(template, value);
                &[]
            }
            EndpointKind::Upstream => {
                let set = message.properties.get(PropertyScope::Synapse, ENDPOINT_SET);
                target.set = set.map(|name| name.text().into_owned());
                let address = set_address(message).filter(|address| is_absolute(address));
                let address = address.unwrap_or_default();
                // The host's own path, which all its requests have.
                target.url = with_postfix(&address, message, Some(EndpointFormat::Rest));
                &[]
            }
            EndpointKind::Default => {
                let address = own_address(message, scene.budget)?;
                target.url = with_postfix(&address, message, endpoint.format);
                &[]
            }
            EndpointKind::Computed(name) => {
                let name = scene.text(name, message)?;
                let id = scene.program.endpoint(&name).ok_or_else(|| unknown(&name))?;
                return Self::endpoint(scene, message, id, (depth + 1, room));
            }
            EndpointKind::LoadBalance { members, .. }
            | EndpointKind::Failover { members, .. }
            | EndpointKind::RecipientList { members } => members,
            EndpointKind::Recipients(list) => {
                target.members = recipients(scene, &scene.text(list, message)?)?;
                &[]
            }
        };
        target.content_type = endpoint.format.and_then(EndpointFormat::content_type);
        target.addressing = endpoint.addressing;
        match endpoint.format {
            Some(EndpointFormat::Get) => target.method = Some("GET".to_owned()),
            Some(EndpointFormat::Soap11 | EndpointFormat::Soap12) => {
                target.method.get_or_insert_with(|| "POST".to_owned());
            }
            Some(EndpointFormat::Pox | EndpointFormat::Rest) | None => {}
        }
        if let Some(Credentials::Basic { user, password }) = &endpoint.credentials {
            let (user, password) = (scene.text(user, message)?, scene.text(password, message)?);
            let encoded = encoding::base64_encode(format!("{user}:{password}").as_bytes());
            target.authorization = Some(format!("Basic {encoded}"));
        }
        for member in members {
            let member = Self::endpoint(scene, message, *member, (depth + 1, room))?;
            // One body is written, so all members get the format of the first.
            target.content_type = target.content_type.or(member.content_type);
            target.addressing = target.addressing.or(member.addressing);
            target.members.push(member);
        }
        Ok(target)
    }
}

impl Target {
    /// The URL of the first one without members, itself or inside it, and all others.
    pub(super) fn leaves(&mut self) -> (String, Vec<&mut Self>) {
        fn collect<'t>(target: &'t mut Target, all: &mut Vec<&'t mut Target>) {
            if target.members.is_empty() {
                all.push(target);
                return;
            }
            target.members.iter_mut().for_each(|member| collect(member, all));
        }
        let mut all = Vec::new();
        collect(self, &mut all);
        (all.first().map(|first| first.url.clone()).unwrap_or_default(), all)
    }

    /// The number of those without members.
    pub(super) fn count(&self) -> usize {
        self.members.iter().map(Self::count).sum::<usize>().max(1)
    }
}

/// The timeout that an expression of the endpoint has; a value that is not a number is ignored. Source: Synapse's
/// `EndpointDefinition.evaluateDynamicEndpointTimeout`.
fn timeout(
    endpoint: &Endpoint,
    scene: &Scene<'_>,
    message: &Message,
) -> Result<Option<u32>, Failure> {
    let Some(timeout) = &endpoint.timeout_of else { return Ok(None) };
    let text = scene.text(timeout, message)?;
    let ms = text.trim().parse().ok().filter(|ms| *ms > 0);
    if ms.is_none() {
        let line = format!("the timeout `{timeout}` of the endpoint is `{text}`, not a number");
        scene.environment.log(LogLevel::Warn, &line);
    }
    Ok(ms)
}

/// Addresses, separated by commas. Source: Synapse's dynamic recipient list.
fn recipients(scene: &Scene<'_>, list: &str) -> Result<Vec<Target>, Failure> {
    let urls = list.split(',').map(str::trim).filter(|url| !url.is_empty());
    let of = |url: &str| Target { url: url.to_owned(), ..Target::default() };
    let members: Vec<_> = urls.take(limits::ENDPOINT_MEMBERS_MAX + 1).map(of).collect();
    if members.len() > limits::ENDPOINT_MEMBERS_MAX {
        let message = format!("more than {} recipients", limits::ENDPOINT_MEMBERS_MAX);
        return Err(Failure::new(Code::MEDIATION, message));
    }
    if members.is_empty() {
        return Err(Failure::new(Code::NO_READY_MEMBER, "the recipient list is empty"));
    }
    scene.budget.charge_reading(list.len())?;
    Ok(members)
}

/// The property `REQUEST_HOST_HEADER`: a host, with a port or without one.
fn host(message: &Message) -> Result<Option<String>, Failure> {
    let Some(value) = message.properties.get(PropertyScope::Axis2, "REQUEST_HOST_HEADER") else {
        return Ok(None);
    };
    let host = value.text().into_owned();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_part) {
        let text = format!("`{}` in REQUEST_HOST_HEADER is not a host", host.escape_debug());
        return Err(Failure::new(Code::NOT_SENT, text));
    }
    Ok(Some(host))
}

fn unknown(name: &str) -> Failure {
    Failure::new(Code::NO_ENDPOINT, format!("there is no endpoint `{name}`"))
}

/// The property `To`.
fn set_address(message: &Message) -> Option<String> {
    let address = message.properties.get(PropertyScope::Synapse, "To");
    address.map(|value| value.text().into_owned())
}

/// The property `To`, else that of the envelope.
fn own_address(message: &Message, budget: &Budget) -> Result<String, Failure> {
    let of_envelope = || {
        // Names of WS-Addressing stand for no address.
        let is_name = |address: &String| soap::ADDRESSING.iter().any(|of| address.starts_with(of));
        message.addressed_to(budget).filter(|address| !is_name(address))
    };
    let address = set_address(message).or_else(of_envelope);
    address.filter(|address| is_absolute(address)).ok_or_else(|| {
        let text = "the message has no address: set the header `To`, or name an endpoint";
        Failure::new(Code::NOT_SENT, text)
    })
}

fn is_absolute(address: &str) -> bool {
    address.contains("://")
}

/// Whether the address of the message may be in its body, which still streams.
pub(super) fn may_be_in_body(program: &Program, message: &Message, to: To) -> bool {
    let is_own = || match to {
        To::Implied => true,
        To::Endpoint(id) => {
            let kind = program.endpoint_at(id).map(|endpoint| &endpoint.kind);
            matches!(kind, Some(EndpointKind::Default))
        }
    };
    message.body.state() == BodyUse::Untouched
        && message.is_soap()
        && is_own()
        && set_address(message).is_none()
}

/// Path and query of the property `To`, or of the request. Source: Synapse's `LoadbalanceEndpoint`.
fn own_path(message: &Message) -> String {
    let set = message.properties.get(PropertyScope::Synapse, "To").map(PropertyValue::text);
    let to = set.or_else(|| message.head.property(PropertyScope::Axis2, "TransportInURL"));
    let to = to.unwrap_or_default();
    let path = to
        .split_once("://")
        .map_or(&*to, |(_, rest)| rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default());
    path.to_owned()
}

/// Whether the message is sent as REST: not to an endpoint that wants SOAP, and not as SOAP with an action.
/// Source: `isRequestRest` of Synapse's `Axis2FlexibleMEPClient`.
fn is_rest(message: &Message, format: Option<EndpointFormat>) -> bool {
    match format {
        Some(EndpointFormat::Rest) => true,
        Some(EndpointFormat::Soap11 | EndpointFormat::Soap12) => false,
        Some(EndpointFormat::Pox | EndpointFormat::Get) | None => !message.is_soap_call(),
    }
}

/// `uri` with the rest of the request's target, `REST_URL_POSTFIX`, if the message is sent as REST.
fn with_postfix(uri: &str, message: &Message, format: Option<EndpointFormat>) -> String {
    let postfix = message.property_text(PropertyScope::Axis2, "REST_URL_POSTFIX");
    let postfix = postfix.unwrap_or_default();
    if postfix.is_empty() || !is_rest(message, format) {
        return uri.to_owned();
    }
    let (path, query) = postfix.split_once('?').unwrap_or((&postfix, ""));
    let (address, own_query) = uri.split_once('?').unwrap_or((uri, ""));
    let mut url = String::with_capacity(uri.len().saturating_add(postfix.len()).saturating_add(2));
    url.push_str(address);
    if !path.is_empty() {
        if !url.ends_with('/') && !path.starts_with('/') {
            url.push('/');
        }
        let path = if url.ends_with('/') { path.trim_start_matches('/') } else { path };
        url.push_str(path);
    }
    let queries = [own_query, query].into_iter().filter(|query| !query.is_empty());
    for (mark, query) in ['?', '&'].into_iter().zip(queries) {
        url.push(mark);
        url.push_str(query);
    }
    url
}
