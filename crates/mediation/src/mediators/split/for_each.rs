//! `foreach`: runs a sequence on each item of the body, and puts the results in their places. With `expression` as
//! Synapse always had it, one item after the other, which share their properties; with `collection` as Micro Integrator
//! 4.4 has it.

use std::sync::Arc;

use expression::{BodyUse, Expression, json, markup};

use super::iterate::{Pieces, Split};
use super::scatter_gather::Results;
use crate::error::Failure;
use crate::limits;
use crate::mediators::values::items::{
    Items, Place, Target, body_json, fail, sequence_of, spliced,
};
use crate::message::{Format, Message, PropertyScope, PropertyValue, soap};
use crate::program::{Fork, Mediator, Next, ORIGINAL, Parts as _, Scatter, Scene, SequenceId};
use crate::syntax::{Compiler, Element};

#[derive(Debug)]
struct ForEach {
    items: Expression,
    /// A sequence.
    target: Arc<Target>,
    kind: Kind,
    output: Output,
}

#[derive(Debug)]
enum Kind {
    /// With the names of its properties.
    Expression { counter: Box<str>, original: Box<str> },
    /// With the variable that counts the items, from 0.
    Collection { parallel: bool, counter: Option<Box<str>> },
}

#[derive(Debug)]
enum Output {
    /// Results replace their items, in the body or in a variable with an array.
    Original {
        variable: Option<Box<str>>,
    },
    Results(Results),
    /// Results are not awaited.
    None,
}

impl Mediator for ForEach {
    fn body_use(&self) -> BodyUse {
        BodyUse::Rewritten
    }

    fn enters(&self) -> Vec<SequenceId> {
        self.target.sequence().into_iter().collect()
    }

    fn ns_per_byte(&self) -> u64 {
        limits::SPLIT_NS_PER_BYTE
    }

    fn join_ns_per_byte(&self) -> u64 {
        limits::REWRITE_NS_PER_BYTE
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        if let Kind::Expression { counter, original } = &self.kind {
            let none = PropertyValue::Integer(0);
            message.set(PropertyScope::Synapse, counter, none, scene.budget)?;
            if let Some(envelope) = envelope(scene, message)? {
                message.set(PropertyScope::Synapse, original, envelope, scene.budget)?;
            }
        }
        let items = Items::select(&self.items, scene, message)?;
        let pieces = Pieces::new(items, scene, message)?;
        let (parallel, variable, counter) = match &self.kind {
            Kind::Expression { counter, .. } => (false, None, Some(counter.clone())),
            Kind::Collection { parallel, counter } => (*parallel, counter.clone(), None),
        };
        let target = Arc::clone(&self.target);
        let mut split = Box::new(Split { pieces, target, counter: variable });
        if matches!(self.output, Output::None) {
            let (id, continues, sequential) = (None, true, false);
            return Ok(Next::Fork(Fork { parts: split, id, continues, sequential }));
        }
        let mut parts = Vec::with_capacity(split.left());
        while let Some(part) = split.next(scene.budget)? {
            parts.push(part);
        }
        let (enough, timeout_ms) = (None, None);
        Ok(Next::Scatter(Scatter { parts, parallel, enough, timeout_ms, counter }))
    }

    fn join(
        &self,
        scene: &Scene<'_>,
        message: &mut Message,
        parts: Vec<Option<Box<Message>>>,
    ) -> Result<Next, Failure> {
        match &self.output {
            Output::None => {}
            Output::Results(results) => results.store(scene, message, parts)?,
            Output::Original { variable } => {
                // With the properties that it selected the items with.
                let items = Items::select(&self.items, scene, message)?;
                self.continue_as_last(&parts, scene, message)?;
                match &items.place {
                    Place::Nodes(nodes) => replace_nodes(scene, message, nodes, parts)?,
                    Place::Array(place) => {
                        let array = array(scene, &items, parts)?;
                        replace_array(scene, message, &array, place.clone(), variable.as_deref())?;
                    }
                }
            }
        }
        Ok(Next::Continue)
    }
}

impl ForEach {
    /// The message continues with the head and the properties of the last item.
    fn continue_as_last(
        &self,
        parts: &[Option<Box<Message>>],
        scene: &Scene<'_>,
        message: &mut Message,
    ) -> Result<(), Failure> {
        let Kind::Expression { counter, .. } = &self.kind else { return Ok(()) };
        if let Some(last) = parts.iter().flatten().next_back() {
            message.continue_as(last, scene.budget)?;
        }
        let count = PropertyValue::count(parts.len());
        message.set(PropertyScope::Synapse, counter, count, scene.budget)
    }
}

/// The envelope of the message; `None` if it is empty, or nothing refers to the property.
fn envelope(scene: &Scene<'_>, message: &Message) -> Result<Option<PropertyValue>, Failure> {
    let body = &message.body;
    if !scene.program.keeps_original {
        return Ok(None);
    }
    let Some(payload) = body.payload(scene.budget)? else { return Ok(None) };
    let document = match soap::namespace(body.format()) {
        Some(_) => markup::copy(payload.document().root(), scene.budget)?,
        None => {
            let written = body.in_envelope(soap::SOAP11, scene.budget)?;
            scene.budget.charge_reading(written.len())?;
            let document = xml::Document::parse(&written)?;
            scene.budget.charge_memory(document.heap_bytes())?;
            document
        }
    };
    Ok(Some(PropertyValue::Xml(Arc::new(document))))
}

fn replace_nodes(
    scene: &Scene<'_>,
    message: &mut Message,
    places: &[xml::NodeId],
    parts: Vec<Option<Box<Message>>>,
) -> Result<(), Failure> {
    let Some(document) = message.body.edit_xml(scene.budget)? else { return Ok(()) };
    for (place, part) in places.iter().zip(parts) {
        // An item that was dropped stays as it was.
        let Some(part) = part else { continue };
        if document.node(*place).is_none() {
            return Err(fail("the items are not part of the body"));
        }
        let Some(payload) = part.body.payload(scene.budget)? else { continue };
        markup::charge_copy(payload, scene.budget)?;
        let new = document.import(payload)?;
        document.replace(*place, new)?;
    }
    Ok(())
}

/// The items, or their results.
fn array(
    scene: &Scene<'_>,
    items: &Items,
    parts: Vec<Option<Box<Message>>>,
) -> Result<String, Failure> {
    let mut array = String::from("[");
    for (index, part) in parts.into_iter().enumerate() {
        let text = match part {
            Some(part) => body_json(&part, scene)?,
            None => items.get(index).map(String::from_utf8_lossy).unwrap_or_default().into_owned(),
        };
        scene.budget.charge_memory(text.len())?;
        if array.len() > 1 {
            array.push(',');
        }
        array.push_str(&text);
    }
    array.push(']');
    Ok(array)
}

fn replace_array(
    scene: &Scene<'_>,
    message: &mut Message,
    array: &str,
    place: Option<std::ops::Range<usize>>,
    variable: Option<&str>,
) -> Result<(), Failure> {
    if let Some(name) = variable {
        let document = json::Document::parse(array.as_bytes())?.into_owned();
        let value = PropertyValue::Json(Arc::new(document));
        return message.set(PropertyScope::Variable, name, value, scene.budget);
    }
    let whole = place.and_then(|place| {
        let text = message.body.text(scene.budget).ok()?;
        spliced(&text, place, array)
    });
    let whole = whole.ok_or_else(|| fail("the array is not part of the body"))?;
    message.body.replace(Format::Json, whole.into_bytes(), scene.budget)
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let collection = element.optional("collection");
    let Some(sequence) = sequence_of(compiler, element)? else {
        return compiler.reject(element, "`foreach` needs a `sequence`", None);
    };
    let target = Arc::new(Target::of_sequence(sequence));
    let Some(collection) = collection else {
        if element.flag(compiler, "continueLoopOnFailure", false)? {
            let message = "`continueLoopOnFailure` is not supported";
            compiler.error(element, message, None);
        }
        let id = element.optional("id");
        let named = |name: &str| id.map_or(name.into(), |id| format!("{id}_{name}").into());
        let kind =
            Kind::Expression { counter: named("FOREACH_COUNTER"), original: named(ORIGINAL) };
        let source = element.required(compiler, "expression")?;
        let items = element.compiled(compiler, source)?;
        let output = Output::Original { variable: None };
        return Some(Box::new(ForEach { items, target, kind, output }));
    };
    let items = element.compiled(compiler, collection)?;
    let parallel = element.flag(compiler, "parallel-execution", true)?;
    let counter = element.optional("counter-variable").map(Into::into);
    let output = output(compiler, element, collection)?;
    let kind = Kind::Collection { parallel, counter };
    Some(Box::new(ForEach { items, target, kind, output }))
}

fn output(compiler: &mut Compiler, element: &Element<'_>, collection: &str) -> Option<Output> {
    let continues = element.flag(compiler, "continue-without-aggregation", false)?;
    let updates = element.flag(compiler, "update-original", true)?;
    if continues {
        return Some(Output::None);
    }
    if !updates {
        return Some(Output::Results(Results::compile_variable(compiler, element)?));
    }
    let inner = collection.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
    let variable = inner.and_then(|inner| inner.trim().strip_prefix("vars."));
    if let Some(name) = variable {
        let is_name = name.chars().all(|next| next.is_alphanumeric() || "_-".contains(next));
        if !is_name {
            let help =
                "keep the array in a variable of its own, or write update-original=\"false\"";
            let message = format!("a part of the variable `{name}` cannot be updated");
            return compiler.reject(element, message, Some(help));
        }
    }
    Some(Output::Original { variable: variable.map(Into::into) })
}
