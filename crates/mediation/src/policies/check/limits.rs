//! `jsonValidator` and `xmlValidator`: limits of a body.

use expression::{BodyUse, Budget, json};
use model::PolicyFlow;

use super::{is_json, is_xml, narrow_content, parse_json, parse_xml, refused};
use crate::error::Failure;
use crate::message::Message;
use crate::policies::PolicyReading;
use crate::program::{Mediator, Next, Scene};

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
    /// The exceeded limit.
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

pub(in crate::policies) fn json(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
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
    /// The exceeded limit; the parser limits depth and document types.
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
            let children = element.elements().count();
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

pub(in crate::policies) fn xml(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
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
