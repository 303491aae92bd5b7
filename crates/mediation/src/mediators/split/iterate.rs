//! `iterate`: each element or array item goes its own way.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use expression::{BodyUse, Budget, Expression, Value, json};

use crate::error::Failure;
use crate::limits;
use crate::mediators::values::items::{Items, Place, Target, fail, place, spliced};
use crate::message::{CONTENT_TYPE, Format, Message, PropertyScope, PropertyValue, soap};
use crate::program::{Fork, Mediator, Next, Part, Parts, Scene, SequenceId};
use crate::syntax::{Compiler, Element};

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
    target: Arc<Target>,
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
        let pieces = match &self.attach {
            None => Pieces::new(items, scene, message)?,
            Some(attach) => Pieces::attached(items, (attach, self.is_same), scene, message)?,
        };
        let parts = Box::new(Split { pieces, target: Arc::clone(&self.target), counter: None });
        let (id, continues, sequential) = (self.id.clone(), self.continues, self.sequential);
        Ok(Next::Fork(Fork { parts, id, continues, sequential }))
    }
}

/// Pieces for the target.
#[derive(Debug)]
pub(crate) struct Split {
    pub(crate) pieces: Pieces,
    pub(crate) target: Arc<Target>,
    /// The variable that counts them, from 0.
    pub(crate) counter: Option<Box<str>>,
}

impl Parts for Split {
    fn left(&self) -> usize {
        self.pieces.left()
    }

    fn next(&mut self, budget: &Budget) -> Result<Option<Part>, Failure> {
        let count = PropertyValue::count(self.pieces.made);
        let piece = self.pieces.next(budget, |piece| {
            if let Some(name) = &self.counter {
                piece.set(PropertyScope::Variable, name, count, budget)?;
            }
            self.target.address(piece, budget)
        })?;
        Ok(piece.map(|message| self.target.part(message)))
    }

    fn is_long(&self) -> bool {
        self.pieces.is_long()
    }

    fn rest(self: Box<Self>) -> Option<Box<Message>> {
        Some(self.pieces.shell)
    }

    fn each(&mut self, each: &mut dyn FnMut(&mut Message)) {
        each(&mut self.pieces.shell);
    }

    fn bytes(&self) -> usize {
        self.pieces.bytes()
    }
}

/// Copies of a message, each with an item instead of all.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// Their common message: head, properties, and a body without items.
    shell: Box<Message>,
    items: Items,
    /// How many were made.
    made: usize,
    way: Way,
}

/// How an item becomes a body.
#[derive(Debug)]
enum Way {
    /// As the payload of the common body.
    Payload,
    /// Between these two.
    Between(Box<str>, Box<str>),
    /// Below this node of the common body.
    Below(xml::NodeId),
}

impl Pieces {
    /// With the items as their payloads.
    pub(crate) fn new(items: Items, scene: &Scene<'_>, message: &Message) -> Result<Self, Failure> {
        let mut shell = message.copy(scene.budget)?;
        let format = match (&items.place, message.body.format()) {
            (Place::Array(_), _) => Format::Json,
            (Place::Nodes(_), format @ (Format::Soap11 | Format::Soap12)) => format,
            (Place::Nodes(_), _) => Format::Xml,
        };
        let way = if !matches!(format, Format::Soap11 | Format::Soap12) {
            shell.body.replace(format, Vec::new(), scene.budget)?;
            Way::Between(Box::default(), Box::default())
        } else if let Some((before, after)) = message.body.around_payload(scene.budget)? {
            let after = after.concat();
            scene.budget.charge_memory(before.len().saturating_add(after.len()))?;
            let around = [before.as_bytes(), after.as_bytes()];
            shell.body.replace_by(format, &around, scene.budget)?;
            Way::Between(before.into(), after.into())
        } else {
            // The header of the envelope is left.
            shell.body.replace_payload(Vec::new(), scene.budget)?;
            Way::Payload
        };
        shell.set_field(CONTENT_TYPE, format.content_type())?;
        Ok(Self { shell, items, made: 0, way })
    }

    /// With the items where `attach` selects; `is_same`: instead of the array that they are from.
    fn attached(
        items: Items,
        (attach, is_same): (&Expression, bool),
        scene: &Scene<'_>,
        message: &Message,
    ) -> Result<Self, Failure> {
        let (shell, way) = match &items.place {
            Place::Nodes(nodes) => {
                let nodes = nodes.iter().copied().collect();
                let (shell, at) = without_nodes(attach, &nodes, scene, message)?;
                (shell, Way::Below(at))
            }
            Place::Array(Some(range)) => {
                let attach = Some(attach).filter(|_| !is_same);
                around_array(attach, range.clone(), scene, message)?
            }
            Place::Array(None) => return Err(fail("the array is not part of the body")),
        };
        Ok(Self { shell, items, made: 0, way })
    }

    fn left(&self) -> usize {
        self.items.len().saturating_sub(self.made)
    }

    /// Whether the next one takes long: it has a copy of the text around all items.
    fn is_long(&self) -> bool {
        let item = self.items.get(self.made).map_or(0, <[u8]>::len);
        let (around, ns_per_byte) = match &self.way {
            Way::Between(before, after) => {
                (before.len().saturating_add(after.len()), limits::READ_NS_PER_BYTE)
            }
            Way::Payload | Way::Below(_) => {
                (self.shell.body.size_to_read(), limits::REWRITE_NS_PER_BYTE)
            }
        };
        self.left() > 0 && limits::takes_long(around.saturating_add(item), ns_per_byte)
    }

    /// The next part, with the changes of `set`. It is charged steps for its memory, which is released when it was
    /// sent.
    fn next(
        &mut self,
        budget: &Budget,
        set: impl FnOnce(&mut Message) -> Result<(), Failure>,
    ) -> Result<Option<Box<Message>>, Failure> {
        let (used, before) = (budget.bytes_used(), self.shell.kept());
        let Some(mut piece) = self.make(budget)? else { return Ok(None) };
        set(&mut piece)?;
        let kept = piece.kept().bytes as u64;
        self.shell.release_since((used.saturating_add(kept), before), budget);
        budget.charge_steps(kept / limits::RELEASED_BYTES_PER_STEP)?;
        Ok(Some(piece))
    }

    fn make(&mut self, budget: &Budget) -> Result<Option<Box<Message>>, Failure> {
        let Some(item) = self.items.get(self.made) else { return Ok(None) };
        let format = self.shell.body.format();
        let mut piece = self.shell.copy(budget)?;
        match &self.way {
            Way::Between(before, after) if !is_whole(item, format) => {
                let body = [before.as_bytes(), item, after.as_bytes()];
                piece.body.replace_by(format, &body, budget)?;
            }
            Way::Payload | Way::Between(..) => {
                budget.charge_memory(item.len())?;
                piece.body.replace_payload(item.to_vec(), budget)?;
                piece.set_field(CONTENT_TYPE, piece.body.format().content_type())?;
            }
            Way::Below(at) => {
                let body = self.below(*at, item, budget)?;
                piece.body.replace(format, body, budget)?;
            }
        }
        self.made = self.made.saturating_add(1);
        Ok(Some(piece))
    }

    fn below(&self, at: xml::NodeId, item: &[u8], budget: &Budget) -> Result<Vec<u8>, Failure> {
        let rest = self.shell.body.xml(budget)?.ok_or_else(|| fail("the body is not XML"))?;
        budget.charge_memory(rest.heap_bytes().saturating_add(item.len()))?;
        let mut document = rest.clone();
        let at = same_nodes(rest, &document, &HashSet::from([at])).pop();
        let item = xml::Document::parse(item)?;
        if let Some((root, at)) = item.element().zip(at) {
            let new = document.import(root)?;
            document.append(at, new)?;
        }
        Ok(document.write(undeclared())?)
    }

    /// Bytes charged for them beside the common message.
    fn bytes(&self) -> usize {
        let around = match &self.way {
            Way::Between(before, after) => before.len().saturating_add(after.len()),
            Way::Payload | Way::Below(_) => 0,
        };
        self.items.bytes().saturating_add(around)
    }
}

/// Whether an item is an envelope of its own.
fn is_whole(item: &[u8], format: Format) -> bool {
    let text = std::str::from_utf8(item).unwrap_or_default();
    format != Format::Json && soap::is_envelope(soap::without_declaration(text))
}

fn undeclared() -> xml::WriterOptions {
    xml::WriterOptions { declaration: false, ..Default::default() }
}

/// A copy of the message without `nodes`, and the node of it that `attach` selects.
fn without_nodes(
    attach: &Expression,
    nodes: &HashSet<xml::NodeId>,
    scene: &Scene<'_>,
    message: &Message,
) -> Result<(Box<Message>, xml::NodeId), Failure> {
    let whole = message.body.xml(scene.budget)?.ok_or_else(|| fail("the body is not XML"))?;
    scene.budget.charge_memory(whole.heap_bytes())?;
    let mut rest = whole.clone();
    for node in same_nodes(whole, &rest, nodes) {
        rest.detach(node)?;
    }
    let mut shell = message.copy(scene.budget)?;
    let format = message.body.format();
    let format = if format == Format::Json { Format::Xml } else { format };
    shell.body.replace(format, rest.write(undeclared())?, scene.budget)?;
    let at = {
        let view = scene.view(&shell);
        let at = attach.nodes(&view, scene.budget)?.first().copied();
        let at = at.ok_or_else(|| fail(format!("`{attach}` selects nothing")))?;
        // The context of a path, `.`, is the document. In Synapse that is the envelope, also of a message without one.
        let is_root = at.kind() == xml::Kind::Root;
        let element = if is_root { at.document().element() } else { Some(at) };
        let element = element.ok_or_else(|| fail(format!("`{attach}` selects no element")))?;
        if format == Format::Soap12 && at.document().element() == Some(element) {
            return Err(fail("an envelope of SOAP 1.2 has only a header and a body"));
        }
        element.id()
    };
    Ok((shell, at))
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

/// A copy of the message without items, and the text around each of them: the body without the array at `range`, or
/// without the nodes that `attach` selects in it.
fn around_array(
    attach: Option<&Expression>,
    range: Range<usize>,
    scene: &Scene<'_>,
    message: &Message,
) -> Result<(Box<Message>, Way), Failure> {
    let text = message.body.text(scene.budget)?;
    let mut shell = message.copy(scene.budget)?;
    let rest = spliced(&text, range.clone(), "[]").unwrap_or_default();
    shell.body.replace(Format::Json, rest.clone().into_bytes(), scene.budget)?;
    let (around, range) = match attach {
        None => (&*text, range),
        Some(attach) => {
            let view = scene.view(&shell);
            let root = shell.body.json(scene.budget)?.map(json::Document::root);
            let at = attach.evaluate_within(&view, scene.budget)?;
            let at = if let Value::Json(at) = at { Some(at) } else { None };
            let range = root.zip(at).and_then(|(root, at)| place(root, at));
            (&*rest, range.ok_or_else(|| fail(format!("`{attach}` selects nothing")))?)
        }
    };
    let before = around.get(..range.start).unwrap_or_default();
    let after = around.get(range.end..).unwrap_or_default();
    scene.budget.charge_memory(before.len().saturating_add(after.len()))?;
    let way = Way::Between(before.into(), after.into());
    shell.set_field(CONTENT_TYPE, Format::Json.content_type())?;
    Ok((shell, way))
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
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
        // Synapse's default, which is an XPath.
        None if preserves && expression.selects_nodes() => Some(element.compiled(compiler, ".")?),
        None if preserves => {
            let message = "`preservePayload` needs an `attachPath` here";
            let help = "write the path of the array, or another one";
            return compiler.reject(element, message, Some(help));
        }
        Some(_) | None => None,
    };
    let Some(child) = element.child("target") else {
        return compiler.reject(element, "`iterate` needs a `target`", None);
    };
    let target = Arc::new(Target::compile(compiler, &child)?);
    Some(Box::new(Iterate { id, continues, sequential, expression, attach, is_same, target }))
}
