//! Code shared by the mediators that split messages: items, targets, and texts as JSON.

use std::ops::Range;

use expression::{Budget, Expression, Value, json, markup};

use crate::error::{Code, Failure};
use crate::message::{Body, CONTENT_TYPE, Format, Message, PropertyScope, PropertyValue};
use crate::program::{Part, Scene, SequenceId, To};
use crate::syntax::{Compiler, Element};

/// The items of a message that an expression selects.
#[derive(Debug)]
pub(crate) struct Items {
    /// Serialised elements or JSON texts, one after the other.
    source: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
    pub(crate) place: Place,
}

/// Where the items are in the body.
#[derive(Debug)]
pub(crate) enum Place {
    Nodes(Vec<xml::NodeId>),
    /// The part of the body's text that an array of the body takes.
    Array(Option<Range<usize>>),
}

impl Items {
    /// # Errors
    /// The expression selects neither nodes of the body nor an array.
    pub(crate) fn select(
        expression: &Expression,
        scene: &Scene<'_>,
        message: &Message,
    ) -> Result<Self, Failure> {
        if expression.may_select_nodes()
            && let Some(items) = Self::nodes(expression, scene, message)?
        {
            return Ok(items);
        }
        let body = message.body.json(scene.budget);
        let view = scene.view(message);
        let value = match expression.evaluate_within(&view, scene.budget) {
            Ok(value) => value,
            Err(expression::Error::Missing(_)) => Value::Null,
            Err(error) => return Err(error.into()),
        };
        let is_in_body = matches!(value, Value::Json(_));
        let array = value.json().filter(|array| array.kind() == json::Kind::Array);
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

    /// `None`: it selects no nodes, but may select an array.
    fn nodes(
        expression: &Expression,
        scene: &Scene<'_>,
        message: &Message,
    ) -> Result<Option<Self>, Failure> {
        let view = scene.view(message);
        let nodes = match expression.nodes(&view, scene.budget) {
            Ok(nodes) => nodes,
            Err(expression::Error::Type(_)) if !expression.selects_nodes() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        scene.charge_parts(nodes.len())?;
        let elements = || nodes.iter().filter(|node| node.is_element());
        let places = elements().map(|node| node.id()).collect();
        let mut items = Self::with_capacity(nodes.len(), Place::Nodes(places));
        let writer = Elements::of(&message.body);
        for node in elements() {
            writer.push(*node, &mut items.source, scene.budget)?;
            items.end(scene)?;
        }
        items.source.shrink_to_fit();
        Ok(Some(items))
    }

    fn with_capacity(items: usize, place: Place) -> Self {
        Self { source: Vec::new(), ends: Vec::with_capacity(items), place }
    }

    fn push(&mut self, item: &[u8], scene: &Scene<'_>) -> Result<(), Failure> {
        scene.budget.charge_memory(item.len())?;
        self.source.extend_from_slice(item);
        self.end(scene)
    }

    /// Notes where an item ends in the source.
    fn end(&mut self, scene: &Scene<'_>) -> Result<(), Failure> {
        scene.budget.charge_memory(size_of::<usize>())?;
        self.ends.push(self.source.len());
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.source.get(start..*self.ends.get(index)?)
    }

    /// Bytes charged for them.
    pub(crate) fn bytes(&self) -> usize {
        self.source.len().saturating_add(self.ends.len().saturating_mul(size_of::<usize>()))
    }
}

/// Serialises elements: those of a body from its bytes, with the namespaces that are declared around them.
pub(crate) struct Elements<'b> {
    body: &'b Body,
}

impl<'b> Elements<'b> {
    pub(crate) fn of(body: &'b Body) -> Self {
        Self { body }
    }

    /// Appends an element, charged.
    pub(crate) fn push(
        &self,
        element: xml::Node<'_>,
        into: &mut Vec<u8>,
        budget: &Budget,
    ) -> Result<(), Failure> {
        budget.charge_scope(element)?;
        let Some((name, rest)) = self.source(element) else {
            into.append(&mut markup::write(element, budget)?);
            return Ok(());
        };
        budget.charge_memory(name.len().saturating_add(rest.len()))?;
        into.extend_from_slice(name.as_bytes());
        for (prefix, uri) in from_around(element) {
            let (xmlns, colon) = (" xmlns", if prefix.is_empty() { "" } else { ":" });
            let declaration = [xmlns, colon, prefix, "=\"", uri, "\""];
            budget.charge_memory(declaration.iter().map(|part| part.len()).sum())?;
            declaration.iter().for_each(|part| into.extend_from_slice(part.as_bytes()));
        }
        into.extend_from_slice(rest.as_bytes());
        Ok(())
    }

    /// The source of an element, split behind the name in its start tag.
    fn source<'d>(&self, element: xml::Node<'d>) -> Option<(&'d str, &'d str)> {
        let is_special = |byte: u8| matches!(byte, b'&' | b'<' | b'"') || byte < b' ';
        if from_around(element).any(|(_, uri)| uri.bytes().any(is_special)) {
            return None;
        }
        let (prefix, local) = (element.prefix().len(), element.local_name().len());
        let name = if prefix == 0 { local } else { prefix.checked_add(local)?.checked_add(1)? };
        self.body.source_of(element)?.split_at_checked(name.checked_add(1)?)
    }
}

/// The namespaces in the scope of an element that are declared around it: they come behind its own.
fn from_around<'d>(element: xml::Node<'d>) -> impl Iterator<Item = (&'d str, &'d str)> {
    let is_named = |(prefix, uri): &(&str, &str)| *prefix != "xml" && !uri.is_empty();
    let around = element.parent().filter(|parent| parent.is_element());
    around.into_iter().flat_map(move |_| {
        let own = element.declarations().filter(is_named).count();
        element.namespaces_in_scope().filter(is_named).skip(own)
    })
}

/// Where `part` is in the text of `whole`, if it is a part of it.
pub(crate) fn place(whole: json::Ref<'_>, part: json::Ref<'_>) -> Option<Range<usize>> {
    let start = part.offset();
    let range = start..start.checked_add(part.raw().len())?;
    let from = start.checked_sub(whole.offset())?;
    let text = whole.raw().get(from..from.checked_add(part.raw().len())?)?;
    // A value of another document may have the same place, but not the same memory.
    std::ptr::eq(text, part.raw()).then_some(range)
}

/// An XML item as the payload of `message`, or a JSON item as its body.
pub(crate) fn set_payload(
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
    message.set_field(CONTENT_TYPE, message.body.format().content_type())
}

/// The body as JSON; text that is none becomes a string.
pub(crate) fn body_json(message: &Message, scene: &Scene<'_>) -> Result<String, Failure> {
    match message.body.json(scene.budget)? {
        Some(document) => Ok(document.text().to_owned()),
        None => Ok(Value::Text(message.body.text(scene.budget)?).to_json()),
    }
}

/// `elements` at the end of the XML element `around`.
pub(crate) fn enclosed(around: &str, elements: &[u8]) -> Option<Vec<u8>> {
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
pub(crate) fn spliced(text: &str, range: Range<usize>, new: &str) -> Option<String> {
    Some([text.get(..range.start)?, new, text.get(range.end..)?].concat())
}

pub(crate) fn fail(message: impl Into<String>) -> Failure {
    Failure::new(Code::MEDIATION, message)
}

/// `target` of `clone`, `iterate` and `conditionalRouter`.
#[derive(Debug, Default)]
pub(crate) struct Target {
    sequence: Option<SequenceId>,
    to: Option<To>,
    address: Option<Box<str>>,
    action: Option<Box<str>>,
}

impl Target {
    pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Self> {
        let sequence = sequence_of(compiler, element)?;
        let to = compiler.endpoint_in(element)?.map(To::Endpoint);
        // Source: Synapse's `Target`.
        if sequence.is_some() && to.is_some() {
            element.counts(compiler, "the sequence", "the endpoint");
        }
        let to = to.filter(|_| sequence.is_none());
        let address = element.optional("to").map(Into::into);
        let action = element.optional("soapAction").map(Into::into);
        element.finish(compiler);
        if sequence.is_none() && to.is_none() && address.is_none() {
            let help = "write a sequence or an endpoint";
            return compiler.reject(element, "the target is empty", Some(help));
        }
        Some(Self { sequence, to, address, action })
    }

    pub(crate) fn of_sequence(sequence: SequenceId) -> Self {
        Self { sequence: Some(sequence), ..Self::default() }
    }

    pub(crate) fn sequence(&self) -> Option<SequenceId> {
        self.sequence
    }

    /// Where it sends to behind its sequence.
    pub(crate) fn to(&self) -> Option<To> {
        let implied = self.address.as_ref().filter(|_| self.sequence.is_none());
        self.to.or(implied.map(|_| To::Implied))
    }

    /// Sets the addresses of the message.
    pub(crate) fn address(&self, message: &mut Message, budget: &Budget) -> Result<(), Failure> {
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
    pub(crate) fn part(&self, message: Box<Message>) -> Part {
        Part { message, sequence: self.sequence, to: self.to() }
    }
}

/// The sequence that an attribute names, or that of a child.
#[allow(clippy::option_option, reason = "an error was reported, or there is none")]
pub(crate) fn sequence_of(
    compiler: &mut Compiler,
    element: &Element<'_>,
) -> Option<Option<SequenceId>> {
    match (element.optional("sequence"), element.child("sequence")) {
        (Some(name), _) => compiler.sequence_named(element, name).map(Some),
        (None, Some(child)) => sequence(compiler, &child).map(Some),
        (None, None) => Some(None),
    }
}

/// A child `sequence`: by `key`, or inline with its own `onError`.
pub(crate) fn sequence(compiler: &mut Compiler, child: &Element<'_>) -> Option<SequenceId> {
    let id = match child.optional("key") {
        Some(key) => compiler.sequence_named(child, key)?,
        None => compiler.inline(child),
    };
    child.finish(compiler);
    Some(id)
}
