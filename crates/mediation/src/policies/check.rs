//! Policies that refuse messages: threats in them, and claims of the token.

use std::borrow::Cow;

use expression::{BodyUse, Budget, json};
use model::{Denial, PolicyFlow};
use xpath::regex::Regex;

use super::{CLAIMS, PolicyReading};
use crate::message::{CONTENT_TYPE, Format};
use crate::run::Scene;
use crate::{Code, Failure, Mediator, Message, Next, PropertyScope, PropertyValue, template};

/// What a refused body leads to: the client's request is denied, the upstream's response fails.
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

/// The step before a policy that reads the body: it refuses a body that such a policy could not judge, before it is read.
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
/// It may be UTF-16 or UTF-32, which an upstream may detect whatever its content type.
fn narrow_content(
    flow: PolicyFlow,
    message: &Message,
    budget: &Budget,
) -> Result<Option<bytes::Bytes>, Failure> {
    let bytes = content(message, budget)?;
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
        .map_err(|error| refused(flow, format!("the body is refused: {error}")))?;
    budget.charge_memory(document.heap_bytes())?;
    Ok(document)
}

#[derive(Debug)]
struct Json {
    flow: PolicyFlow,
    depth: usize,
    properties: usize,
    string: usize,
    elements: usize,
    key: usize,
}

impl Mediator for Json {
    fn body_use(&self) -> BodyUse {
        BodyUse::Read
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let Some(bytes) = narrow_content(self.flow, message, scene.budget)? else {
            return Ok(Next::Continue);
        };
        if !is_json(message.body.format(), &bytes) {
            return Ok(Next::Continue);
        }
        let document = parse_json(self.flow, &bytes, scene.budget)?;
        match self.excess(&document, scene.budget)? {
            Some(what) => Err(refused(self.flow, format!("the body has {what}"))),
            None => Ok(Next::Continue),
        }
    }
}

impl Json {
    /// What exceeds a limit.
    fn excess(
        &self,
        document: &json::Document<'_>,
        budget: &Budget,
    ) -> Result<Option<&'static str>, Failure> {
        let mut rest = vec![(document.root(), 1)];
        while let Some((value, depth)) = rest.pop() {
            budget.charge_steps(1)?;
            let excess = match value.kind() {
                json::Kind::Null | json::Kind::Boolean | json::Kind::Number => None,
                json::Kind::String => {
                    let bytes = value.string().map_or(0, |text| text.len());
                    (bytes > self.string).then_some("a string above `maxStringLength`")
                }
                json::Kind::Array | json::Kind::Object if depth > self.depth => {
                    Some("values nested deeper than `maxJsonDepth`")
                }
                json::Kind::Array => {
                    rest.extend(value.elements().map(|element| (element, depth + 1)));
                    let exceeds = value.len() > self.elements;
                    exceeds.then_some("an array above `maxArrayElementCount`")
                }
                json::Kind::Object => {
                    let mut key = 0;
                    for (name, member) in value.members() {
                        key = key.max(name.len());
                        rest.push((member, depth + 1));
                    }
                    if key > self.key {
                        Some("a property name above `maxKeyLength`")
                    } else {
                        let exceeds = value.len() > self.properties;
                        exceeds.then_some("an object above `maxPropertyCount`")
                    }
                }
            };
            if excess.is_some() {
                return Ok(excess);
            }
        }
        Ok(None)
    }
}

/// WSO2's limit where a policy names none.
const DEFAULT: usize = 100;

pub(super) fn json(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    Some(Box::new(Json {
        flow: reading.flow,
        depth: reading.number("maxJsonDepth", DEFAULT)?,
        properties: reading.number("maxPropertyCount", DEFAULT)?,
        string: reading.number("maxStringLength", DEFAULT)?,
        elements: reading.number("maxArrayElementCount", DEFAULT)?,
        key: reading.number("maxKeyLength", DEFAULT)?,
    }))
}

#[derive(Debug)]
struct Xml {
    flow: PolicyFlow,
    options: xml::Options,
    elements: usize,
    attributes: usize,
    attribute: usize,
    children: usize,
}

impl Mediator for Xml {
    fn body_use(&self) -> BodyUse {
        BodyUse::Read
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let Some(bytes) = narrow_content(self.flow, message, scene.budget)? else {
            return Ok(Next::Continue);
        };
        if !is_xml(message.body.format(), &bytes) {
            return Ok(Next::Continue);
        }
        let document = parse_xml(self.flow, &bytes, &self.options, scene.budget)?;
        match self.excess(&document, scene.budget)? {
            Some(what) => Err(refused(self.flow, format!("the body has {what}"))),
            None => Ok(Next::Continue),
        }
    }
}

impl Xml {
    /// What exceeds a limit; the parser limits depth and document types.
    fn excess(
        &self,
        document: &xml::Document,
        budget: &Budget,
    ) -> Result<Option<&'static str>, Failure> {
        let mut elements = 0_usize;
        let descendants = document.root().descendants().filter(|node| node.is_element());
        for element in descendants {
            budget.charge_steps(1)?;
            elements += 1;
            let children = element.children().filter(|child| child.is_element()).count();
            let longest = element.attributes().map(|attribute| attribute.text().len()).max();
            let excess = if elements > self.elements {
                Some("more elements than `maxElementCount`")
            } else if element.attributes().count() > self.attributes {
                Some("an element with more attributes than `maxAttributeCount`")
            } else if longest.is_some_and(|longest| longest > self.attribute) {
                Some("an attribute above `maxAttributeLength`")
            } else if children > self.children {
                Some("an element with more children than `maxChildrenPerElement`")
            } else {
                None
            };
            if excess.is_some() {
                return Ok(excess);
            }
        }
        Ok(None)
    }
}

pub(super) fn xml(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    let mut options = xml::Options::default();
    if reading.flag("dtdEnabled", false)? {
        options.doctype = xml::Doctype::Read;
    }
    options.limits.depth = reading.number("maxXMLDepth", 100)?.min(options.limits.depth);
    Some(Box::new(Xml {
        flow: reading.flow,
        options,
        elements: reading.number("maxElementCount", DEFAULT)?,
        attributes: reading.number("maxAttributeCount", DEFAULT)?,
        attribute: reading.number("maxAttributeLength", DEFAULT)?,
        children: reading.number("maxChildrenPerElement", DEFAULT)?,
    }))
}

#[derive(Debug)]
struct Threat {
    regex: Regex,
    kind: Box<str>,
    body: bool,
    headers: bool,
    target: bool,
}

impl Mediator for Threat {
    fn body_use(&self) -> BodyUse {
        if self.body { BodyUse::Read } else { BodyUse::Untouched }
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let denial = if self.headers && self.is_in_headers(message, scene.budget)? {
            Denial::ThreatInHeaders
        } else if self.target && self.is_in_target(message, scene.budget)? {
            Denial::ThreatInTarget
        } else if self.body && self.is_in_body(message, scene.budget)? {
            Denial::ThreatInPayload
        } else {
            return Ok(Next::Continue);
        };
        Err(Failure::denied(denial, format!("the pattern of `{}` was found", self.kind)))
    }
}

impl Threat {
    fn is_in(&self, text: &str, budget: &Budget) -> Result<bool, Failure> {
        Ok(self.regex.is_match(text, budget)?)
    }

    /// As it is, or without escapes.
    fn is_in_escaped(&self, text: &str, budget: &Budget) -> Result<bool, Failure> {
        Ok(self.is_in(text, budget)? || self.is_in(&template::decode(text), budget)?)
    }

    fn is_in_headers(&self, message: &Message, budget: &Budget) -> Result<bool, Failure> {
        let mut found = Ok(false);
        message.head.fields(&mut |_, value| {
            if matches!(found, Ok(false)) {
                found = self.is_in(value, budget);
            }
        });
        found
    }

    fn is_in_target(&self, message: &Message, budget: &Budget) -> Result<bool, Failure> {
        let target = message.head.property(PropertyScope::Axis2, "TransportInURL");
        self.is_in_escaped(&target.unwrap_or_default(), budget)
    }

    /// Escapes of JSON, XML and forms hide nothing.
    ///
    /// # Errors
    /// The body is JSON or XML, by its content type or its first byte, and cannot be parsed; the budget.
    fn is_in_body(&self, message: &Message, budget: &Budget) -> Result<bool, Failure> {
        let Some(bytes) = content(message, budget)? else { return Ok(false) };
        let text: Cow<'_, str> = String::from_utf8_lossy(&bytes);
        if self.is_in(&text, budget)? || self.is_in_wide(&text, budget)? {
            return Ok(true);
        }
        let format = message.body.format();
        if is_json(format, &bytes) {
            let document = parse_json(PolicyFlow::Request, &bytes, budget)?;
            if self.is_in_json(&document, budget)? {
                return Ok(true);
            }
        }
        if is_xml(format, &bytes) {
            let options = xml::Options::default();
            let document = parse_xml(PolicyFlow::Request, &bytes, &options, budget)?;
            return self.is_in_xml(&document, budget);
        }
        if format == Format::Form {
            return self.is_in(&template::decode(&text), budget);
        }
        Ok(false)
    }

    /// UTF-16 and UTF-32 are ASCII between NULs, mostly.
    fn is_in_wide(&self, text: &str, budget: &Budget) -> Result<bool, Failure> {
        if !text.contains('\0') {
            return Ok(false);
        }
        budget.charge_memory(text.len())?;
        self.is_in(&text.replace('\0', ""), budget)
    }

    fn is_in_json(&self, document: &json::Document<'_>, budget: &Budget) -> Result<bool, Failure> {
        let mut rest = vec![document.root()];
        while let Some(value) = rest.pop() {
            if let Some(text) = value.string()
                && self.is_in(&text, budget)?
            {
                return Ok(true);
            }
            for (name, member) in value.members() {
                if self.is_in(&name, budget)? {
                    return Ok(true);
                }
                rest.push(member);
            }
            rest.extend(value.elements());
        }
        Ok(false)
    }

    fn is_in_xml(&self, document: &xml::Document, budget: &Budget) -> Result<bool, Failure> {
        for node in document.root().descendants() {
            budget.charge_steps(1)?;
            let is_found = match node.kind() {
                xml::Kind::Element => self.is_in_element(node, budget)?,
                xml::Kind::Comment | xml::Kind::ProcessingInstruction => {
                    self.is_in(node.text(), budget)?
                }
                // Text is part of its element.
                xml::Kind::Root | xml::Kind::Text | xml::Kind::Attribute | xml::Kind::Namespace => {
                    false
                }
            };
            if is_found {
                return Ok(true);
            }
        }
        // Elements inside others split text, too.
        let text = document.root().string_value();
        budget.charge_memory(text.len())?;
        self.is_in(&text, budget)
    }

    /// In an attribute, or the text between comments and child elements as one.
    fn is_in_element(&self, element: xml::Node<'_>, budget: &Budget) -> Result<bool, Failure> {
        for attribute in element.attributes() {
            if self.is_in(attribute.text(), budget)? {
                return Ok(true);
            }
        }
        self.is_in(&own_text(element), budget)
    }
}

/// The text of an element without that of its child elements.
fn own_text(element: xml::Node<'_>) -> Cow<'_, str> {
    let texts = element.children().filter(|child| child.kind() == xml::Kind::Text);
    let mut texts = texts.map(xml::Node::text);
    let first = texts.next().unwrap_or_default();
    let Some(second) = texts.next() else { return Cow::Borrowed(first) };
    let mut all = [first, second].concat();
    all.extend(texts);
    Cow::Owned(all)
}

pub(super) fn regex(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    let source = reading.required("regex")?;
    Some(Box::new(Threat {
        regex: reading.pattern("regex", source, false)?,
        kind: reading.optional("threatType").unwrap_or("regexPolicy").into(),
        body: reading.flag("enabledCheckBody", true)?,
        headers: reading.flag("enabledCheckHeaders", true)?,
        target: reading.flag("enabledCheckPathParams", true)?,
    }))
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
    if let Some(regex) = &regex
        && !regex.is_match(value, &budget).unwrap_or(true)
    {
        let message = format!("`accessVerificationClaimValue` does not match `{parameter}`");
        reading.wrong(parameter, message, "no token would be accepted; correct one of them");
    }
    let accepts_others = reading.flag("shouldAllowValidation", false)?;
    Some(Box::new(Claim { name: name.into(), value: value.into(), regex, accepts_others }))
}
