//! Policies that refuse messages: threats in them, and claims of the token.

mod limits;
mod threat;

use std::borrow::Cow;

use expression::{BodyUse, Budget, json};
use model::{Denial, PolicyFlow};
use xpath::regex::Regex;

use super::{CLAIMS, PolicyReading};
use crate::error::{Code, Failure};
use crate::message::{CONTENT_TYPE, Format, Message, PropertyScope, PropertyValue};
use crate::program::{Mediator, Next, Scene};

pub(super) use limits::{json, xml};
pub(super) use threat::regex;

/// Consequence of a refused body: the client's request is denied, the upstream's response fails.
fn refused(flow: PolicyFlow, reason: impl Into<String>) -> Failure {
    match flow {
        PolicyFlow::Request => Failure::denied(Denial::ThreatInPayload, reason),
        PolicyFlow::Response | PolicyFlow::Fault => {
            Failure::new(Code::RESPONSE_REFUSED, reason.into())
        }
    }
}

/// The policies of this module that read bodies.
const READING_BODIES: &[&str] =
    &["jsonValidator", "regexPolicy", super::SCHEMA_VALIDATION, "xmlValidator"];

/// The step before a policy that reads the body: it refuses a body that such a policy could not judge, before it is
/// read.
pub(super) fn guard(
    policy: &str,
    mediator: &dyn Mediator,
    flow: PolicyFlow,
) -> Option<Box<dyn Mediator>> {
    let reads = mediator.body_use() != BodyUse::Untouched && READING_BODIES.contains(&policy);
    reads.then(|| Box::new(Guard(flow)) as Box<dyn Mediator>)
}

#[derive(Debug)]
struct Guard(PolicyFlow);

impl Mediator for Guard {
    fn mediate(&self, _: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        if message.body.is_empty() {
            return Ok(Next::Continue);
        }
        // Upstreams differ in which of several fields they use.
        for name in [CONTENT_TYPE, "Content-Encoding"] {
            if occurs_twice(message, name) {
                return Err(refused(self.0, format!("`{name}` occurs more than once")));
            }
        }
        match message.encoded() {
            Some(_) => Err(refused(self.0, "the body has a content encoding")),
            None => Ok(Next::Continue),
        }
    }
}

pub(super) fn occurs_twice(message: &Message, name: &str) -> bool {
    let mut count = 0_usize;
    message.head.fields(&mut |known, _| count += usize::from(known.eq_ignore_ascii_case(name)));
    count > 1
}

/// The body as bytes, unless it is empty.
fn content(message: &Message, budget: &Budget) -> Result<Option<bytes::Bytes>, Failure> {
    Ok(message.body.bytes(budget)?.filter(|bytes| !bytes.trim_ascii().is_empty()))
}

/// The same as a parser reads it: of an envelope with attachments, the root part.
///
/// # Errors
/// It has none.
fn parsed_content(
    flow: PolicyFlow,
    message: &Message,
    budget: &Budget,
) -> Result<Option<bytes::Bytes>, Failure> {
    let bytes = message.body.plain_bytes(budget).map_err(|failure| match failure.code {
        Code::MALFORMED_BODY => refused(flow, failure.into_message()),
        _ => failure,
    })?;
    Ok(bytes.filter(|bytes| !bytes.trim_ascii().is_empty()))
}

/// The first byte after white space and a byte order mark of UTF-8.
fn first_byte(bytes: &[u8]) -> Option<u8> {
    let bytes = bytes.trim_ascii_start();
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes.trim_ascii_start().first().copied()
}

/// Declared, or looks like it: an upstream may ignore the content type. A quote begins much else that has a type.
fn is_json(format: Format, bytes: &[u8]) -> bool {
    format == Format::Json
        || match first_byte(bytes) {
            Some(b'{' | b'[') => true,
            Some(b'"') => format == Format::Binary,
            Some(_) | None => false,
        }
}

/// As [`is_json`].
fn is_xml(format: Format, bytes: &[u8]) -> bool {
    format.is_xml() || first_byte(bytes) == Some(b'<')
}

/// Whether it may be UTF-16 or UTF-32, by a byte order mark or a NUL.
fn is_wide(bytes: &[u8]) -> bool {
    let has_mark = bytes.starts_with(b"\xfe\xff") || bytes.starts_with(b"\xff\xfe");
    has_mark || bytes.iter().take(4).any(|byte| *byte == 0)
}

/// The body for a validator.
///
/// # Errors
/// It may be UTF-16 or UTF-32, which an upstream may detect under any content type.
fn narrow_content(
    flow: PolicyFlow,
    message: &Message,
    budget: &Budget,
) -> Result<Option<bytes::Bytes>, Failure> {
    let bytes = parsed_content(flow, message, budget)?;
    if bytes.as_deref().is_some_and(is_wide) {
        return Err(refused(flow, "the body is not UTF-8"));
    }
    Ok(bytes)
}

/// # Errors
/// It is not JSON; the budget.
fn parse_json<'b>(
    flow: PolicyFlow,
    bytes: &'b [u8],
    budget: &Budget,
) -> Result<json::Document<'b>, Failure> {
    match json::Document::parse_within(bytes, budget) {
        Ok(document) => Ok(document),
        Err(expression::Error::Budget(exceeded)) => Err(exceeded.into()),
        Err(error) => Err(refused(flow, format!("the body is not JSON: {error}"))),
    }
}

/// # Errors
/// It is not XML, or exceeds a limit; the budget.
fn parse_xml(
    flow: PolicyFlow,
    bytes: &[u8],
    options: &xml::Options,
    budget: &Budget,
) -> Result<xml::Document, Failure> {
    budget.charge_reading(bytes.len())?;
    let document = xml::Document::parse_with(bytes, options)
        .map_err(|error| refused(flow, format!("the body is rejected: {error}")))?;
    budget.charge_memory(document.heap_bytes())?;
    Ok(document)
}

#[derive(Debug)]
struct Claim {
    name: Box<str>,
    value: Box<str>,
    regex: Option<Regex>,
    accepts_others: bool,
}

impl Mediator for Claim {
    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let claims = message.properties.get(PropertyScope::Synapse, CLAIMS);
        let missing = || {
            let text = format!("the token lacks the claim `{}`", self.name);
            Failure::denied(Denial::ClaimMissing, text)
        };
        let Some(PropertyValue::Json(claims)) = claims else { return Err(missing()) };
        let claim = claims.root().get(&self.name).ok_or_else(missing)?;
        let all = match claim.kind() {
            json::Kind::Array => claim.elements().collect(),
            json::Kind::Null
            | json::Kind::Boolean
            | json::Kind::Number
            | json::Kind::String
            | json::Kind::Object => vec![claim],
        };
        let texts = all.into_iter().filter(|value| !value.is_null());
        let texts = texts.map(|value| value.string().unwrap_or(Cow::Borrowed(value.raw())));
        let texts: Vec<_> = texts.filter(|text| !text.trim().is_empty()).collect();
        if texts.is_empty() {
            return Err(missing());
        }
        if self.accepts_others {
            return Ok(Next::Continue);
        }
        for text in texts {
            let is_it = match &self.regex {
                Some(regex) => regex.is_match(&text, scene.budget)?,
                None => text == *self.value,
            };
            if is_it {
                return Ok(Next::Continue);
            }
        }
        let text = format!("the claim `{}` of the token has another value", self.name);
        Err(Failure::denied(Denial::ClaimMismatch, text))
    }
}

pub(super) fn claim(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    let name = reading.required("accessVerificationClaim")?;
    let value = reading.required("accessVerificationClaimValue")?;
    let parameter = "accessVerificationClaimValueRegex";
    let regex = match reading.optional(parameter).filter(|source| !source.is_empty()) {
        Some(source) => Some(reading.pattern(parameter, source, true)?),
        None => None,
    };
    // As in WSO2; there no token would match, so this is a mistake.
    let budget = Budget::default();
    let accepts_others = reading.flag("shouldAllowValidation", false)?;
    if let Some(regex) = &regex
        && !regex.is_match(value, &budget).unwrap_or(true)
    {
        let message = format!("`accessVerificationClaimValue` does not match `{parameter}`");
        let help = "no token would be accepted; correct one of them";
        return reading.reject(parameter, message, help);
    }
    Some(Box::new(Claim { name: name.into(), value: value.into(), regex, accepts_others }))
}
