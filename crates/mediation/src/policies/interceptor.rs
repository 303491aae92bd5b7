//! `callInterceptorService`: a service that inspects messages and returns changes. Source: Choreo Connect's
//! `interceptor-service-open-api-v1.yaml`, and its router for questions that it leaves open.

mod parts;

use std::sync::Arc;

use bytes::Bytes;
use expression::{BodyUse, json};
use model::{Denial, Policies, PolicyFlow};

use super::{INVOCATION, PolicyReading, respond};
use crate::error::Failure;
use crate::limits;
use crate::message::{
    Body, CONTENT_TYPE, Direction, Format, MESSAGE_TYPE, Message, PlainHead, PropertyScope,
    PropertyValue,
};
use crate::program::{
    EndpointId, EndpointKind, LogLevel, Mediator, Next, Scene, Timeout, TimeoutAction, To,
};
use crate::run::ENDPOINT_SET;
use parts::{
    add, add_fields, change_fields, decoded, encoded, fields, invalid, member, status, unavailable,
};

pub(super) const NAME: &str = "callInterceptorService";
const INCLUDES: &str = "includes";
const TIMEOUT: &str = "requestTimeout";

/// The property in which the service for requests leaves data for the one for responses.
const CONTEXT: &str = "interceptorContext";
/// The property with the data of the request for the service for responses.
const REMEMBERED: &str = "interceptor.request";

/// Parts of a message that the service gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Includes {
    invocation: bool,
    request_headers: bool,
    request_body: bool,
    response_headers: bool,
    response_body: bool,
}

impl Includes {
    /// # Errors
    /// Problem of the list.
    fn read(list: &str, flow: PolicyFlow) -> Result<Self, String> {
        let mut includes = Self::default();
        let is_response = flow == PolicyFlow::Response;
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "invocation_context" => includes.invocation = true,
                // WSO2's own description of the policy writes the singular.
                "request_headers" | "request_header" => includes.request_headers = true,
                "request_body" => includes.request_body = true,
                "response_headers" | "response_header" if is_response => {
                    includes.response_headers = true;
                }
                "response_body" if is_response => includes.response_body = true,
                "response_headers" | "response_header" | "response_body" => {
                    return Err(format!("there is no `{name}` before the response"));
                }
                "request_trailers" | "response_trailers" => {
                    return Err(format!("`{name}`: trailers are not passed to services"));
                }
                other => return Err(format!("unknown part `{other}` of a message")),
            }
        }
        Ok(includes)
    }
}

/// The request as the client sent it, without fields that the upstream does not get either.
#[derive(Debug)]
struct Request {
    fields: Vec<(String, String)>,
    body: Bytes,
}

/// The first step for a request whose response goes to a service that wants to know of the request.
#[derive(Debug)]
pub(super) struct Remember(Includes);

impl Remember {
    /// `None`: no service for responses needs it.
    pub(super) fn of(policies: &Policies) -> Option<Box<dyn Mediator>> {
        let services = policies.response.iter().filter(|policy| policy.name == NAME);
        let lists = services.flat_map(|policy| &policy.parameters);
        let lists = lists.filter(|(name, _)| name == INCLUDES);
        let mut all = Includes::default();
        for (_, list) in lists {
            let one = Includes::read(list, PolicyFlow::Response).unwrap_or_default();
            all.request_headers |= one.request_headers;
            all.request_body |= one.request_body;
        }
        (all != Includes::default()).then(|| Box::new(Self(all)) as Box<dyn Mediator>)
    }
}

impl Mediator for Remember {
    fn body_use(&self) -> BodyUse {
        if self.0.request_body { BodyUse::Read } else { BodyUse::Untouched }
    }

    fn ns_per_byte(&self) -> u64 {
        0
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let mut request = Request { fields: Vec::new(), body: Bytes::new() };
        if self.0.request_headers {
            request.fields = fields(message, scene.budget)?;
        }
        if self.0.request_body {
            request.body = message.body.bytes(scene.budget)?.unwrap_or_default();
        }
        let value = PropertyValue::Held(Arc::new(request));
        message.set(PropertyScope::Synapse, REMEMBERED, value, scene.budget)?;
        Ok(Next::Continue)
    }
}

#[derive(Debug)]
struct Service {
    flow: PolicyFlow,
    endpoint: EndpointId,
    includes: Includes,
}

impl Mediator for Service {
    fn body_use(&self) -> BodyUse {
        let includes = self.includes;
        match self.flow {
            PolicyFlow::Request if includes.request_body => BodyUse::Rewritten,
            PolicyFlow::Response if includes.response_body => BodyUse::Rewritten,
            PolicyFlow::Request | PolicyFlow::Response | PolicyFlow::Fault => BodyUse::Untouched,
        }
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let question = self.question(scene, message)?;
        let json = || "application/json".to_owned();
        let head = PlainHead {
            fields: vec![(CONTENT_TYPE.to_owned(), json()), ("Accept".to_owned(), json())],
            ..PlainHead::default()
        };
        let body = Body::held(Format::Json, Bytes::new());
        let mut part = Message::new(Direction::Request, Box::new(head), body);
        part.body.replace(Format::Json, question.text().to_owned(), scene.budget)?;
        Ok(Next::Exchange { to: To::Endpoint(self.endpoint), part: Some(part) })
    }

    fn exchange_failed(&self, failure: Failure) -> Failure {
        match failure.denial {
            Some(Denial::HeldBytesUsed) => failure,
            Some(_) | None => unavailable(&failure.message),
        }
    }

    fn join(
        &self,
        scene: &Scene<'_>,
        message: &mut Message,
        parts: Vec<Option<Box<Message>>>,
    ) -> Result<Next, Failure> {
        let answer = parts.into_iter().flatten().next();
        let answer = answer.ok_or_else(|| unavailable("there is no response"))?;
        match answer.status() {
            200 => {}
            204 => return Ok(Next::Continue),
            status => return Err(unavailable(&format!("it responded with {status}"))),
        }
        let bytes = answer.body.bytes(scene.budget)?.unwrap_or_default();
        let document = match json::Document::parse_within(&bytes, scene.budget) {
            Ok(document) if document.root().kind() == json::Kind::Object => document,
            Ok(_) => return Err(invalid("the response is not a JSON object")),
            Err(expression::Error::Budget(exceeded)) => return Err(exceeded.into()),
            Err(error) => return Err(invalid(&format!("the response is not JSON: {error}"))),
        };
        self.obey(scene, message, document.root())
    }
}

impl Service {
    /// The body of the request to the service.
    fn question(
        &self,
        scene: &Scene<'_>,
        message: &Message,
    ) -> Result<json::Document<'static>, Failure> {
        let mut question = json::Builder::new();
        question.begin_object();
        let remembered = match self.flow {
            PolicyFlow::Response => remembered(message),
            PolicyFlow::Request | PolicyFlow::Fault => None,
        };
        if self.includes.request_headers {
            let own =
                if remembered.is_none() { fields(message, scene.budget)? } else { Vec::new() };
            let of = remembered.map_or(&own, |request| &request.fields);
            add_fields(question.key("requestHeaders"), of);
        }
        if self.includes.request_body {
            let body = match remembered {
                Some(request) => request.body.clone(),
                None => message.body.bytes(scene.budget)?.unwrap_or_default(),
            };
            question.key("requestBody").string(&encoded(&body, scene.budget)?);
        }
        if self.flow == PolicyFlow::Response {
            question.key("responseCode").number(&message.status().to_string());
        }
        if self.includes.response_headers {
            let fields = fields(message, scene.budget)?;
            add_fields(question.key("responseHeaders"), &fields);
        }
        if self.includes.response_body {
            let body = message.body.bytes(scene.budget)?.unwrap_or_default();
            question.key("responseBody").string(&encoded(&body, scene.budget)?);
        }
        let mut embed = |name: &str| {
            let value = message.properties.get(PropertyScope::Synapse, name);
            if let Some(PropertyValue::Json(document)) = value {
                question.key(name).embed(document.root());
            }
        };
        if self.includes.invocation {
            embed(INVOCATION);
        }
        if self.flow == PolicyFlow::Response {
            embed(CONTEXT);
        }
        question.end();
        Ok(question.finish())
    }

    /// Applies the service's changes to the message.
    fn obey(
        &self,
        scene: &Scene<'_>,
        message: &mut Message,
        answer: json::Ref<'_>,
    ) -> Result<Next, Failure> {
        let is_request = self.flow == PolicyFlow::Request;
        let status = status(answer)?;
        let body = match member(answer, "body") {
            Some(body) => Some(decoded(body, scene.budget)?),
            None => None,
        };
        for name in ["trailersToAdd", "trailersToReplace", "trailersToRemove"] {
            if member(answer, name).is_some_and(|value| !value.is_empty()) {
                let line = format!("`{name}` of an interceptor service has no effect");
                scene.environment.log(LogLevel::Warn, &line);
            }
        }
        let responds = member(answer, "directRespond").and_then(json::Ref::boolean);
        if is_request && responds == Some(true) {
            let body = body.unwrap_or_default();
            let default = if body.is_empty() { 204 } else { 200 };
            respond::begin(scene, message, status.unwrap_or(default))?;
            add(message, answer)?;
            replace_body(scene, message, body)?;
            return Ok(Next::Respond);
        }
        if body.is_some() {
            message.forget_bytes();
        }
        change_fields(message, answer)?;
        if let Some(body) = body {
            if self.body_use() == BodyUse::Untouched {
                let part = if is_request { "request_body" } else { "response_body" };
                let text = format!("it returned a body, which needs `{part}` in `{INCLUDES}`");
                return Err(invalid(&text));
            }
            replace_body(scene, message, body)?;
        }
        if is_request {
            return keep_for_later(scene, message, answer);
        }
        if let Some(status) = status {
            let status = PropertyValue::Integer(i64::from(status));
            message.set(PropertyScope::Axis2, "HTTP_SC", status, scene.budget)?;
        }
        Ok(Next::Continue)
    }
}

/// Changes that take effect after the policies for requests.
fn keep_for_later(
    scene: &Scene<'_>,
    message: &mut Message,
    answer: json::Ref<'_>,
) -> Result<Next, Failure> {
    if let Some(context) = member(answer, CONTEXT) {
        if context.kind() != json::Kind::Object {
            return Err(invalid("`interceptorContext` is not an object"));
        }
        scene.budget.charge_memory(context.raw().len())?;
        let mut copy = json::Builder::new();
        copy.embed(context);
        let context = PropertyValue::Json(Arc::new(copy.finish()));
        message.set(PropertyScope::Synapse, CONTEXT, context, scene.budget)?;
    }
    let endpoint = member(answer, "dynamicEndpoint").and_then(|it| member(it, "endpointName"));
    if let Some(name) = endpoint.and_then(json::Ref::string).filter(|name| !name.is_empty()) {
        let name = PropertyValue::new(name.into_owned());
        message.set(PropertyScope::Synapse, ENDPOINT_SET, name, scene.budget)?;
        // Overrides the choice of an earlier policy.
        message.remove(PropertyScope::Synapse, "To");
    }
    Ok(Next::Continue)
}

fn remembered(message: &Message) -> Option<&Request> {
    match message.properties.get(PropertyScope::Synapse, REMEMBERED) {
        Some(PropertyValue::Held(request)) => request.downcast_ref(),
        _ => None,
    }
}

/// No property of the old body applies to the new one; the service sets its fields.
fn replace_body(scene: &Scene<'_>, message: &mut Message, body: Vec<u8>) -> Result<(), Failure> {
    for name in [MESSAGE_TYPE, "ContentType", "NO_ENTITY_BODY"] {
        message.remove(PropertyScope::Axis2, name);
    }
    let content_type = message.head.field(CONTENT_TYPE);
    let format = content_type.map_or(Format::Binary, |content_type| Format::of(&content_type));
    message.body.replace(format, body, scene.budget)?;
    message.adopt_body();
    Ok(())
}

pub(super) fn compile(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    const URL: &str = "interceptorServiceURL";
    let url = reading.url(URL)?;
    let authority = url.split_once("://").map_or("", |(_, rest)| rest);
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    if authority.is_empty() || authority.contains(['/', '?', '{', '}']) {
        let help = "write `https://host:port`: the gateway appends `/api/v1/handle-request`";
        return reading.reject(URL, format!("`{url}` is more than scheme, host and port"), help);
    }
    let list = reading.optional(INCLUDES).unwrap_or_default();
    let includes = match Includes::read(list, reading.flow) {
        Ok(includes) => includes,
        Err(message) => {
            let help = "list some of `request_headers`, `request_body`, `response_headers`, \
                        `response_body` and `invocation_context`, separated by commas";
            return reading.reject(INCLUDES, message, help);
        }
    };
    let seconds: u32 = reading.number(TIMEOUT, limits::INTERCEPTOR_TIMEOUT_S)?;
    let most_s = base::limits::CONFIGURED_MS_MAX / 1_000;
    if seconds == 0 || seconds > most_s {
        let message = format!("`{TIMEOUT}` must be between 1 and {most_s} seconds");
        return reading.reject(TIMEOUT, message, "");
    }
    let path = if reading.flow == PolicyFlow::Request { "request" } else { "response" };
    let template = format!("{}/api/v1/handle-{path}", url.trim_end_matches('/'));
    let endpoint = reading.add(EndpointKind::Http { method: Some("POST".to_owned()), template });
    let timeout = Timeout { ms: seconds.saturating_mul(1_000), action: TimeoutAction::Fault };
    reading.set_timeout(endpoint, timeout);
    Some(Box::new(Service { flow: reading.flow, endpoint, includes }))
}
