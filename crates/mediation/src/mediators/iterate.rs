//! `iterate`: each element or array item goes its own way.

use std::collections::HashSet;

use expression::{BodyUse, Expression, Value, json};

use super::split::{Items, Target, fail, place, set_payload, spliced};
use crate::compile::{Compiler, Element};
use crate::message::Format;
use crate::program::SequenceId;
use crate::run::Scene;
use crate::{Failure, Fork, Mediator, Message, Next, limits};

#[derive(Debug)]
struct Iterate {
    id: Option<Box<str>>,
    continues: bool,
    sequential: bool,
    expression: Expression,
    /// `preservePayload`: where an item is put in the message without all items. `None`: the item is the message.
    attach: Option<Expression>,
    /// Whether that is the array itself, which the item replaces then.
    is_same: bool,
    target: Target,
}

impl Mediator for Iterate {
    fn body_use(&self) -> BodyUse {
        BodyUse::Read
    }

    fn enters(&self) -> Vec<SequenceId> {
        self.target.sequence().into_iter().collect()
    }

    fn ns_per_byte(&self) -> u64 {
        limits::SPLIT_NS_PER_BYTE
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let items = Items::select(&self.expression, scene, message)?;
        let messages = match (&self.attach, items) {
            (None, items) => plain(items, scene, message)?,
            (Some(attach), Items::Xml(items)) => attached(attach, items, scene, message)?,
            (Some(attach), items @ Items::Json(..)) => {
                attached_json(attach, self.is_same, items, scene, message)?
            }
        };
        let parts = messages.into_iter().map(|message| self.target.part(message, scene));
        let parts = parts.collect::<Result<_, _>>()?;
        let (id, continues, sequential) = (self.id.clone(), self.continues, self.sequential);
        Ok(Next::Fork(Fork { parts, id, continues, sequential }))
    }
}

/// Messages with the items as their payloads.
pub(super) fn plain(
    items: Items,
    scene: &Scene<'_>,
    message: &Message,
) -> Result<Vec<Message>, Failure> {
    let (items, format): (Vec<_>, _) = match items {
        Items::Xml(items) => {
            let format = message.body.format();
            let format = if format == Format::Json { Format::Xml } else { format };
            (items.into_iter().map(|(_, bytes)| bytes).collect(), format)
        }
        Items::Json(items, _) => {
            (items.into_iter().map(String::into_bytes).collect(), Format::Json)
        }
    };
    // What the parts have of the message besides its payload: the header of an envelope.
    let mut shell = message.copy(scene.budget)?;
    if matches!(format, Format::Soap11 | Format::Soap12) {
        shell.body.replace_payload(Vec::new(), scene.budget)?;
    } else {
        let format = if format == Format::Json { format } else { Format::Xml };
        shell.body.replace(format, Vec::new(), scene.budget)?;
    }
    let mut messages = Vec::with_capacity(items.len());
    for item in items {
        let mut part = shell.copy(scene.budget)?;
        scene.budget.charge_memory(item.len())?;
        set_payload(&mut part, item, format, scene)?;
        messages.push(part);
    }
    Ok(messages)
}

/// Messages without the selected nodes, each with one of them below what `attach` selects.
fn attached(
    attach: &Expression,
    items: Vec<(xml::NodeId, Vec<u8>)>,
    scene: &Scene<'_>,
    message: &Message,
) -> Result<Vec<Message>, Failure> {
    let options = || xml::WriterOptions { declaration: false, ..Default::default() };
    let whole = message.body.xml(scene.budget)?.ok_or_else(|| fail("the body is not XML"))?;
    scene.budget.charge_memory(whole.heap_bytes())?;
    let selected: HashSet<_> = items.iter().map(|(node, _)| *node).collect();
    let mut rest = whole.clone();
    for node in same_nodes(whole, &rest, &selected) {
        rest.detach(node)?;
    }
    let mut shell = message.copy(scene.budget)?;
    let format = message.body.format();
    let format = if format == Format::Json { Format::Xml } else { format };
    shell.body.replace(format, rest.write(options())?, scene.budget)?;
    let at = {
        let view = scene.view(&shell);
        attach.nodes(&view, scene.budget)?.first().map(|node| node.id())
    };
    let at = at.ok_or_else(|| fail(format!("`{attach}` selects nothing")))?;
    let mut messages = Vec::with_capacity(items.len());
    for (_, item) in items {
        let mut part = shell.copy(scene.budget)?;
        let rest = shell.body.xml(scene.budget)?.ok_or_else(|| fail("the body is not XML"))?;
        scene.budget.charge_memory(rest.heap_bytes().saturating_add(item.len()))?;
        let mut document = rest.clone();
        let at = same_nodes(rest, &document, &HashSet::from([at])).pop();
        let item = xml::Document::parse(&item)?;
        if let Some((root, at)) = item.element().zip(at) {
            let new = document.import(root)?;
            document.append(at, new)?;
        }
        part.body.replace(format, document.write(options())?, scene.budget)?;
        messages.push(part);
    }
    Ok(messages)
}

/// The nodes of `copy` that are where `nodes` are in the document that it is a copy of.
fn same_nodes(
    document: &xml::Document,
    copy: &xml::Document,
    nodes: &HashSet<xml::NodeId>,
) -> Vec<xml::NodeId> {
    let pairs = document.root().descendants().zip(copy.root().descendants());
    pairs.filter(|(node, _)| nodes.contains(&node.id())).map(|(_, twin)| twin.id()).collect()
}

/// Messages with one item where `attach` selects, and without the array.
fn attached_json(
    attach: &Expression,
    is_same: bool,
    items: Items,
    scene: &Scene<'_>,
    message: &Message,
) -> Result<Vec<Message>, Failure> {
    let Items::Json(items, Some(range)) = items else {
        return Err(fail("the array is not a part of the body"));
    };
    let text = message.body.text(scene.budget)?;
    let mut shell = message.copy(scene.budget)?;
    let rest = if is_same { None } else { spliced(&text, range.clone(), "[]") };
    let range = match &rest {
        None => Some(range),
        Some(rest) => {
            shell.body.replace(Format::Json, rest.clone().into_bytes(), scene.budget)?;
            let view = scene.view(&shell);
            let root = shell.body.json(scene.budget)?.map(json::Document::root);
            let at = attach.evaluate_within(&view, scene.budget)?;
            if let Value::Json(at) = at { root.and_then(|root| place(root, at)) } else { None }
        }
    };
    let range = range.ok_or_else(|| fail(format!("`{attach}` selects nothing")))?;
    let rest = rest.as_deref().unwrap_or(&text);
    let mut messages = Vec::with_capacity(items.len());
    for item in items {
        scene.budget.charge_memory(rest.len().saturating_add(item.len()))?;
        let mut part = shell.copy(scene.budget)?;
        let whole = spliced(rest, range.clone(), &item).unwrap_or_default();
        set_payload(&mut part, whole.into_bytes(), Format::Json, scene)?;
        messages.push(part);
    }
    Ok(messages)
}

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let id = element.optional("id").map(Into::into);
    let continues = element.flag(compiler, "continueParent", false)?;
    let sequential = element.flag(compiler, "sequential", false)?;
    let source = element.required(compiler, "expression")?;
    let expression = element.compiled(compiler, source)?;
    let preserves = element.flag(compiler, "preservePayload", false)?;
    let path = element.optional("attachPath");
    let is_same = path == Some(source);
    let attach = match path {
        Some(path) if preserves => Some(element.compiled(compiler, path)?),
        None if preserves => {
            let message = "`preservePayload` needs an `attachPath`".to_owned();
            compiler.error(element, message, None);
            return None;
        }
        Some(_) | None => None,
    };
    let Some(child) = element.child("target") else {
        compiler.error(element, "`iterate` needs a `target`".to_owned(), None);
        return None;
    };
    let target = Target::compile(compiler, &child)?;
    Some(Box::new(Iterate { id, continues, sequential, expression, attach, is_same, target }))
}
