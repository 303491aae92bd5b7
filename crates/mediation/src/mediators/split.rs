//! What the mediators that split messages have in common: items, targets, and texts as JSON.

use std::ops::Range;

use expression::{Budget, Expression, Value, json};

use crate::compile::{Compiler, Element, writer};
use crate::mediator::To;
use crate::message::Format;
use crate::program::SequenceId;
use crate::run::Scene;
use crate::{Code, Failure, Message, Part, PropertyScope, PropertyValue};

/// What an expression selects to split a message by.
#[derive(Debug)]
pub(super) struct Items {
    /// Serialised elements or JSON texts, one after the other.
    source: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
    pub(super) place: Place,
}

/// Where the items are in the body.
#[derive(Debug)]
pub(super) enum Place {
    Nodes(Vec<xml::NodeId>),
    /// The part of the body's text that an array of the body takes.
    Array(Option<Range<usize>>),
}

impl Items {
    /// # Errors
    /// The expression selects neither nodes of the body nor an array.
    pub(super) fn select(
        expression: &Expression,
        scene: &Scene<'_>,
        message: &Message,
    ) -> Result<Self, Failure> {
        if expression.selects_nodes() {
            return Self::nodes(expression, scene, message);
        }
        let body = message.body.json(scene.budget);
        let view = scene.view(message);
        let value = match expression.evaluate_within(&view, scene.budget) {
            Ok(value) => value,
            Err(expression::Error::Missing(_)) => Value::Null,
            Err(error) => return Err(error.into()),
        };
        let is_in_body = matches!(value, Value::Json(_));
        let array = match &value {
            Value::Json(array) => Some(*array),
            Value::Made(document) => Some(document.root()),
            Value::Text(_)
            | Value::Integer(_)
            | Value::Double(_)
            | Value::Boolean(_)
            | Value::Null
            | _ => None,
        };
        let array = array.filter(|array| array.kind() == json::Kind::Array);
        let array = array.ok_or_else(|| fail(format!("`{expression}` selects no array")))?;
        scene.charge_parts(array.len())?;
        let whole = body.ok().flatten().map(json::Document::root).filter(|_| is_in_body);
        let place = whole.and_then(|whole| place(whole, array));
        let mut items = Self::with_capacity(array.len(), Place::Array(place));
        for item in array.elements() {
            items.push(item.raw().as_bytes(), scene)?;
        }
        Ok(items)
    }

    fn nodes(
        expression: &Expression,
        scene: &Scene<'_>,
        message: &Message,
    ) -> Result<Self, Failure> {
        let view = scene.view(message);
        let nodes = expression.nodes(&view, scene.budget)?;
        scene.charge_parts(nodes.len())?;
        let elements = || nodes.iter().filter(|node| node.is_element());
        let places = elements().map(|node| node.id()).collect();
        let mut items = Self::with_capacity(nodes.len(), Place::Nodes(places));
        let mut writer = writer()?;
        for node in elements() {
            let before = writer.written();
            writer.tree(*node)?;
            items.end(before, writer.written(), scene)?;
        }
        items.source = writer.take();
        items.source.shrink_to_fit();
        Ok(items)
    }

    fn with_capacity(items: usize, place: Place) -> Self {
        Self { source: Vec::new(), ends: Vec::with_capacity(items), place }
    }

    fn push(&mut self, item: &[u8], scene: &Scene<'_>) -> Result<(), Failure> {
        let before = self.source.len();
        self.end(before, before.saturating_add(item.len()), scene)?;
        self.source.extend_from_slice(item);
        Ok(())
    }

    /// Notes where an item begins and ends in the source.
    fn end(&mut self, begin: usize, end: usize, scene: &Scene<'_>) -> Result<(), Failure> {
        let bytes = end.saturating_sub(begin).saturating_add(size_of::<usize>());
        scene.budget.charge_memory(bytes)?;
        self.ends.push(end);
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&[u8]> {
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.source.get(start..*self.ends.get(index)?)
    }

    /// What they were charged.
    pub(super) fn bytes(&self) -> usize {
        self.source.len().saturating_add(self.ends.len().saturating_mul(size_of::<usize>()))
    }
}

/// Where `part` is in the text of `whole`, if it is a part of it.
pub(super) fn place(whole: json::Ref<'_>, part: json::Ref<'_>) -> Option<Range<usize>> {
    let start = part.offset();
    let range = start..start.checked_add(part.raw().len())?;
    let from = start.checked_sub(whole.offset())?;
    let text = whole.raw().get(from..from.checked_add(part.raw().len())?)?;
    // A value of another document may have the same place, but not the same memory.
    std::ptr::eq(text, part.raw()).then_some(range)
}

/// An XML item as the payload of `message`, or a JSON item as its body.
pub(super) fn set_payload(
    message: &mut Message,
    bytes: Vec<u8>,
    format: Format,
    scene: &Scene<'_>,
) -> Result<(), Failure> {
    if format == Format::Json {
        message.body.replace(Format::Json, bytes, scene.budget)?;
    } else {
        message.body.replace_payload(bytes, scene.budget)?;
    }
    let content_type = message.body.format().content_type();
    message.set_field("Content-Type", content_type)?;
    Ok(())
}

/// The result of an expression as JSON.
pub(super) fn json_text(value: Value<'_>) -> String {
    match value {
        Value::Json(json) => json.raw().to_owned(),
        Value::Made(document) => document.text().to_owned(),
        Value::Text(text) => quoted(&text),
        Value::Null => "null".to_owned(),
        Value::Integer(_) | Value::Double(_) | Value::Boolean(_) | _ => value.text().into_owned(),
    }
}

fn quoted(text: &str) -> String {
    let mut builder = json::Builder::new();
    builder.string(text);
    builder.finish().text().to_owned()
}

/// The body as JSON; text that is none becomes a string.
pub(super) fn body_json(message: &Message, scene: &Scene<'_>) -> Result<String, Failure> {
    match message.body.json(scene.budget)? {
        Some(document) => Ok(document.text().to_owned()),
        None => Ok(quoted(&message.body.text(scene.budget)?)),
    }
}

/// `elements` at the end of the XML element `around`.
pub(super) fn enclosed(around: &str, elements: &[u8]) -> Option<Vec<u8>> {
    let name_end = around.find(|next: char| next.is_whitespace() || matches!(next, '/' | '>'))?;
    let name = around.get(1..name_end)?;
    let start = match around.strip_suffix("/>") {
        Some(start) => format!("{start}>"),
        None => around.get(..around.rfind("</")?)?.to_owned(),
    };
    let mut bytes = start.into_bytes();
    bytes.extend_from_slice(elements);
    bytes.extend_from_slice(format!("</{name}>").as_bytes());
    Some(bytes)
}

/// `text` with `new` instead of a part of it.
pub(super) fn spliced(text: &str, range: Range<usize>, new: &str) -> Option<String> {
    Some([text.get(..range.start)?, new, text.get(range.end..)?].concat())
}

pub(super) fn fail(message: impl Into<String>) -> Failure {
    Failure::new(Code::MEDIATION, message)
}

/// `target` of `clone`, `iterate` and `conditionalRouter`.
#[derive(Debug, Default)]
pub(super) struct Target {
    sequence: Option<SequenceId>,
    to: Option<To>,
    address: Option<Box<str>>,
    action: Option<Box<str>>,
}

impl Target {
    pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Self> {
        let sequence = match (element.optional("sequence"), element.child("sequence")) {
            (Some(name), _) => Some(compiler.sequence_named(element, name)?),
            (None, Some(child)) => Some(sequence(compiler, &child)?),
            (None, None) => None,
        };
        let to = match (element.optional("endpoint"), element.child("endpoint")) {
            (Some(name), _) => Some(To::Endpoint(compiler.endpoint_named(element, name)?)),
            (None, Some(child)) => Some(To::Endpoint(compiler.endpoint(&child)?)),
            (None, None) => None,
        };
        // Source: Synapse's `Target`.
        if sequence.is_some() && to.is_some() {
            element.counts(compiler, "the sequence", "the endpoint");
        }
        let to = to.filter(|_| sequence.is_none());
        let address = element.optional("to").map(Into::into);
        let action = element.optional("soapAction").map(Into::into);
        element.finish(compiler);
        if sequence.is_none() && to.is_none() && address.is_none() {
            let help = "write a sequence or an endpoint".to_owned();
            compiler.error(element, "the target does nothing".to_owned(), Some(help));
            return None;
        }
        Some(Self { sequence, to, address, action })
    }

    pub(super) fn of_sequence(sequence: SequenceId) -> Self {
        Self { sequence: Some(sequence), ..Self::default() }
    }

    pub(super) fn sequence(&self) -> Option<SequenceId> {
        self.sequence
    }

    /// Where it sends to behind its sequence.
    pub(super) fn to(&self) -> Option<To> {
        let implied = self.address.as_ref().filter(|_| self.sequence.is_none());
        self.to.or(implied.map(|_| To::Implied))
    }

    /// Sets the addresses of the message.
    pub(super) fn address(&self, message: &mut Message, budget: &Budget) -> Result<(), Failure> {
        let texts = [("To", &self.address), ("Action", &self.action)];
        for (name, text) in texts {
            if let Some(text) = text {
                let value = PropertyValue::new(&**text);
                message.set(PropertyScope::Synapse, name, value, budget)?;
            }
        }
        Ok(())
    }

    /// A message that has its addresses.
    pub(super) fn part(&self, message: Message) -> Part {
        Part { message, sequence: self.sequence, to: self.to() }
    }
}

/// A child `sequence`: by `key`, or inline with its own `onError`.
pub(super) fn sequence(compiler: &mut Compiler, child: &Element<'_>) -> Option<SequenceId> {
    let id = match child.optional("key") {
        Some(key) => compiler.sequence_named(child, key)?,
        None => compiler.inline(child),
    };
    child.finish(compiler);
    Some(id)
}
