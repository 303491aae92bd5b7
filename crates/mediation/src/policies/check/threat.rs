//! `regexPolicy`: a pattern that no part of a request may have.

use std::borrow::Cow;

use expression::{BodyUse, Budget, json};
use model::{Denial, PolicyFlow};
use xpath::regex::Regex;

use super::{content, is_json, is_xml, parse_json, parse_xml, parsed_content};
use crate::error::Failure;
use crate::message::{Format, Message, PropertyScope};
use crate::policies::PolicyReading;
use crate::program::{Mediator, Next, Scene, uri_template};

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
        Ok(self.is_in(text, budget)? || self.is_in(&uri_template::decode(text), budget)?)
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
        let (format, flow) = (message.body.format(), PolicyFlow::Request);
        let Some(bytes) = parsed_content(flow, message, budget)? else { return Ok(false) };
        if is_json(format, &bytes) {
            let document = parse_json(flow, &bytes, budget)?;
            if self.is_in_json(&document, budget)? {
                return Ok(true);
            }
        }
        if is_xml(format, &bytes) {
            let options = xml::Options::default();
            let document = parse_xml(flow, &bytes, &options, budget)?;
            return self.is_in_xml(&document, budget);
        }
        if format == Format::Form {
            return self.is_in(&uri_template::decode(&text), budget);
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

pub(in crate::policies) fn regex(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    let source = reading.required("regex")?;
    Some(Box::new(Threat {
        regex: reading.pattern("regex", source, false)?,
        kind: reading.optional("threatType").unwrap_or("regexPolicy").into(),
        body: reading.flag("enabledCheckBody", true)?,
        headers: reading.flag("enabledCheckHeaders", true)?,
        target: reading.flag("enabledCheckPathParams", true)?,
    }))
}
