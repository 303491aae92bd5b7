//! Policies that respond, and that send copies.

use std::collections::VecDeque;

use expression::BodyUse;
use expression::template::{MediaType, PayloadTemplate};
use model::Policy;

use super::{PolicyReading, convert};
use crate::error::Failure;
use crate::mediators::values::text::Text;
use crate::message::{Body, Format, Message, PlainHead, PropertyScope, PropertyValue};
use crate::program::{EndpointId, Fork, Mediator, Next, Part, Scene, To};

/// Makes the message a response of the gateway's own: nothing of the request remains.
pub(super) fn begin(scene: &Scene<'_>, message: &mut Message, status: u16) -> Result<(), Failure> {
    message.become_response(Box::<PlainHead>::default(), Body::held(Format::Binary, Vec::new()));
    let status = PropertyValue::Integer(i64::from(status));
    message.set(PropertyScope::Axis2, "HTTP_SC", status, scene.budget)
}

#[derive(Debug)]
struct Mock {
    status: u16,
    content_type: Box<str>,
    body: Option<PayloadTemplate>,
}

impl Mediator for Mock {
    fn body_use(&self) -> BodyUse {
        self.body.as_ref().map_or(BodyUse::Untouched, PayloadTemplate::body_use)
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let mut bytes = Vec::new();
        if let Some(body) = &self.body {
            body.render_within(&scene.view(message), scene.budget, &mut bytes)?;
        }
        begin(scene, message, self.status)?;
        if self.body.is_some() {
            message.body.replace(Format::of(&self.content_type), bytes, scene.budget)?;
            message.declare(&self.content_type)?;
        }
        Ok(Next::Loopback)
    }
}

pub(super) fn mock(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    let status = reading.number("statusCode", 200)?;
    if !(200..600).contains(&status) {
        let message = format!("{status} is not the status of a response");
        return reading.reject("statusCode", message, "");
    }
    let content_type = reading.optional("contentType").unwrap_or("application/json");
    if !content_type.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        return reading.reject("contentType", "`contentType` has characters that no field has", "");
    }
    let media = match Format::of(content_type) {
        Format::Json => MediaType::Json,
        format if format.is_xml() => MediaType::Xml,
        Format::Xml
        | Format::Soap11
        | Format::Soap12
        | Format::Form
        | Format::Multipart
        | Format::Text
        | Format::Binary => MediaType::Text,
    };
    let body = match reading.optional("body") {
        Some(_) => Some(convert::template(reading, "body", media)?),
        None => None,
    };
    Some(Box::new(Mock { status, content_type: content_type.into(), body }))
}

#[derive(Debug)]
struct Redirect {
    status: u16,
    url: Text,
}

impl Mediator for Redirect {
    fn body_use(&self) -> BodyUse {
        self.url.body_use()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let url = self.url.render(scene, message)?;
        begin(scene, message, self.status)?;
        message.set_field("Location", &url)?;
        Ok(Next::Respond)
    }
}

pub(super) fn redirect(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    let status = reading.number("statusCode", 302)?;
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        let message = format!("{status} is not the status of a redirect");
        return reading.reject("statusCode", message, "write 301, 302, 303, 307 or 308");
    }
    Some(Box::new(Redirect { status, url: reading.template("url")? }))
}

#[derive(Debug)]
struct Mirror(EndpointId);

impl Mediator for Mirror {
    fn body_use(&self) -> BodyUse {
        BodyUse::Read
    }

    fn ns_per_byte(&self) -> u64 {
        0
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let mut copy = message.copy(scene.budget)?;
        let one_way = PropertyValue::Boolean(true);
        copy.set(PropertyScope::Synapse, "OUT_ONLY", one_way, scene.budget)?;
        let part = Part { message: copy, sequence: None, to: Some(To::Endpoint(self.0)) };
        let parts = Box::new(VecDeque::from([part]));
        Ok(Next::Fork(Fork { parts, id: None, continues: true, sequential: false }))
    }
}

pub(super) fn mirror(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    Some(Box::new(Mirror(reading.endpoint("url")?)))
}

pub(super) const CACHE_TIMEOUT: &str = "cacheTimeoutInSeconds";

/// Source: WSO2's `x-wso2-response-cache`.
const CACHE_S: u32 = 300;

/// [`super::RESPONSE_CACHE`] as a step: it has no effect, since the host has the cache.
#[derive(Debug)]
struct Cache;

impl Mediator for Cache {
    fn mediate(&self, _: &Scene<'_>, _: &mut Message) -> Result<Next, Failure> {
        Ok(Next::Continue)
    }
}

pub(super) fn cache(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    reading.number(CACHE_TIMEOUT, CACHE_S)?;
    Some(Box::new(Cache))
}

/// For how long the policy [`super::RESPONSE_CACHE`] stores responses that do not say it, in seconds.
#[must_use]
pub fn response_cache_s(policy: &Policy) -> Option<u32> {
    let mut given = policy.parameters.iter();
    let given = given.find(|(name, _)| name == CACHE_TIMEOUT);
    given.map_or(Some(CACHE_S), |(_, seconds)| seconds.parse().ok())
}
