//! `enrich`: copies a part of the message, a property or a constant to another place.

use std::sync::Arc;

use expression::{BodyUse, Expression, json};
use xml::{Node, NodeId};

use crate::compile::{Compiler, Element, Entry, serialise};
use crate::message::Format;
use crate::run::Scene;
use crate::{Code, Failure, Mediator, Message, Next, PropertyScope, PropertyValue};

#[derive(Debug)]
struct Enrich {
    source: Source,
    /// What `source` selects leaves its place.
    moves: bool,
    target: Target,
    action: Action,
}

#[derive(Debug)]
enum Source {
    Custom(Expression),
    Envelope,
    Body,
    Property(Box<str>),
    Inline(Piece),
}

#[derive(Debug)]
enum Target {
    Custom(Expression),
    Envelope,
    Body,
    Property(Box<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Replace,
    Child,
    Sibling,
    Remove,
}

/// What is copied.
#[derive(Clone, Debug)]
enum Piece {
    Xml(Vec<Arc<xml::Document>>),
    Json(Arc<json::Document<'static>>),
    Text(Arc<str>),
}

impl Piece {
    /// XML or JSON if the text looks like one of them and is well-formed.
    fn of(text: &str) -> Self {
        let parsed = match text.trim_start().bytes().next() {
            Some(b'<') => {
                let document = xml::Document::parse(text.trim().as_bytes()).ok();
                document.map(|document| Self::Xml(vec![Arc::new(document)]))
            }
            Some(b'{' | b'[') => {
                let document = json::Document::parse(text.trim().as_bytes()).ok();
                document.map(|document| Self::Json(Arc::new(document.into_owned())))
            }
            Some(_) | None => None,
        };
        parsed.unwrap_or_else(|| Self::Text(text.into()))
    }
}

impl Mediator for Enrich {
    fn body_use(&self) -> BodyUse {
        let source = match &self.source {
            Source::Custom(_) | Source::Envelope | Source::Body if self.moves => BodyUse::Rewritten,
            Source::Custom(expression) => expression.body_use(),
            Source::Envelope | Source::Body => BodyUse::Read,
            Source::Property(_) | Source::Inline(_) => BodyUse::Untouched,
        };
        match self.target {
            Target::Property(_) => source,
            Target::Custom(_) | Target::Envelope | Target::Body => BodyUse::Rewritten,
        }
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        if self.action == Action::Remove {
            if let Target::Custom(target) = &self.target {
                detach(target, scene, message)?;
            }
            return Ok(Next::Continue);
        }
        let piece = self.piece(scene, message)?;
        match &self.target {
            Target::Property(name) => {
                message.set(PropertyScope::Synapse, name, property(piece))?;
            }
            Target::Envelope => replace_all(piece, message)?,
            Target::Body => self.to_body(piece, message)?,
            Target::Custom(target) => self.to_nodes(target, &piece, scene, message)?,
        }
        Ok(Next::Continue)
    }
}

impl Enrich {
    fn piece(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Piece, Failure> {
        let piece = match &self.source {
            Source::Inline(piece) => piece.clone(),
            Source::Property(name) => match message.properties.get(PropertyScope::Synapse, name) {
                Some(PropertyValue::Xml(document)) => Piece::Xml(vec![Arc::clone(document)]),
                Some(PropertyValue::Json(document)) => Piece::Json(Arc::clone(document)),
                Some(value) => Piece::of(&value.text()),
                None => return Err(fail(format!("the property `{name}` does not exist"))),
            },
            Source::Custom(expression) if expression.selects_nodes() => {
                let view = scene.view(message);
                let nodes = expression.nodes(&view, scene.budget)?;
                if nodes.is_empty() {
                    return Err(fail(format!("`{expression}` selects nothing")));
                }
                match &*nodes {
                    [node] if !node.is_element() => Piece::Text((&*node.string_value()).into()),
                    _ => Piece::Xml(
                        nodes
                            .into_iter()
                            .map(|node| copy(node, scene))
                            .collect::<Result<_, _>>()?,
                    ),
                }
            }
            Source::Custom(expression) => {
                let value = scene.with(expression, message, |value| PropertyValue::from(value))?;
                if let PropertyValue::Json(document) = value {
                    Piece::Json(document)
                } else {
                    Piece::Text((&*value.text()).into())
                }
            }
            Source::Body if message.body.format() == Format::Json => whole(message, scene)?,
            Source::Body => match message.body.payload()? {
                Some(payload) => Piece::Xml(vec![copy(payload, scene)?]),
                None => Piece::Text((&*message.body.text()?).into()),
            },
            Source::Envelope => whole(message, scene)?,
        };
        if let (true, Source::Custom(expression)) = (self.moves, &self.source)
            && expression.selects_nodes()
        {
            detach(expression, scene, message)?;
        }
        Ok(piece)
    }

    fn to_body(&self, piece: Piece, message: &mut Message) -> Result<(), Failure> {
        match (self.action, piece) {
            (Action::Replace, Piece::Json(document)) => {
                set_json(message, &document);
                Ok(())
            }
            (Action::Replace, Piece::Text(text)) => {
                message.body.replace(Format::Text, text.as_bytes().to_vec());
                Ok(())
            }
            (Action::Replace, Piece::Xml(documents)) => {
                let bytes: Vec<u8> =
                    documents.iter().flat_map(|document| written(document)).collect();
                message.body.replace_payload(bytes)?;
                Ok(())
            }
            (action, piece) => {
                let payload = message.body.payload()?.map(Node::id);
                let payload =
                    payload.ok_or_else(|| fail("there is no XML in the body".to_owned()))?;
                insert(message, payload, &piece, action)
            }
        }
    }

    fn to_nodes(
        &self,
        target: &Expression,
        piece: &Piece,
        scene: &Scene<'_>,
        message: &mut Message,
    ) -> Result<(), Failure> {
        let nodes = selected(target, scene, message)?;
        let first = nodes.first().ok_or_else(|| fail(format!("`{target}` selects nothing")))?;
        insert(message, *first, piece, self.action)
    }
}

fn fail(message: String) -> Failure {
    Failure::new(Code::MEDIATION, message)
}

/// The nodes of the body that `expression` selects.
fn selected(
    expression: &Expression,
    scene: &Scene<'_>,
    message: &Message,
) -> Result<Vec<NodeId>, Failure> {
    let view = scene.view(message);
    let body = message.body.xml()?;
    let is_in_body = |node: &Node<'_>| body.is_some_and(|body| std::ptr::eq(node.document(), body));
    let nodes = expression.nodes(&view, scene.budget)?;
    Ok(nodes.into_iter().filter(is_in_body).map(Node::id).collect())
}

fn detach(
    expression: &Expression,
    scene: &Scene<'_>,
    message: &mut Message,
) -> Result<(), Failure> {
    let nodes = selected(expression, scene, message)?;
    if let Some(document) = message.body.edit_xml()? {
        for node in nodes {
            document.detach(node)?;
        }
    }
    Ok(())
}

/// Puts `piece` in the place of `at`, below it, or behind it.
fn insert(message: &mut Message, at: NodeId, piece: &Piece, action: Action) -> Result<(), Failure> {
    let Some(document) = message.body.edit_xml()? else { return Ok(()) };
    let is_element = document.node(at).is_some_and(Node::is_element);
    let new = match piece {
        Piece::Xml(pieces) if is_element => {
            let roots = pieces.iter().filter_map(|piece| piece.element());
            roots.map(|root| document.import(root)).collect::<Result<Vec<_>, _>>()?
        }
        Piece::Text(text) if action == Action::Replace && is_element => {
            let children: Vec<_> =
                document.node(at).into_iter().flat_map(Node::children).map(Node::id).collect();
            for child in children {
                document.detach(child)?;
            }
            let text = document.create_text(text)?;
            document.append(at, text)?;
            return Ok(());
        }
        Piece::Text(text) if is_element => vec![document.create_text(text)?],
        Piece::Text(text) if action == Action::Replace => {
            document.set_text(at, text)?;
            return Ok(());
        }
        Piece::Xml(_) | Piece::Json(_) | Piece::Text(_) => {
            return Err(fail("this source does not fit the target".to_owned()));
        }
    };
    let next = document.node(at).and_then(Node::next_sibling).map(Node::id);
    let parent = document.node(at).and_then(Node::parent).map(Node::id);
    for node in new {
        match (action, next, parent) {
            (Action::Child, ..) => document.append(at, node)?,
            (Action::Replace, ..) => document.insert_before(at, node)?,
            (Action::Sibling, Some(next), _) => document.insert_before(next, node)?,
            (Action::Sibling, None, Some(parent)) => document.append(parent, node)?,
            (Action::Sibling, None, None) | (Action::Remove, ..) => {}
        }
    }
    if action == Action::Replace {
        document.detach(at)?;
    }
    Ok(())
}

/// The whole body.
fn whole(message: &Message, scene: &Scene<'_>) -> Result<Piece, Failure> {
    if message.body.format() == Format::Json
        && let Some(document) = message.body.json()?
    {
        return Ok(Piece::Json(Arc::new(document.clone())));
    }
    match message.body.xml()?.and_then(xml::Document::element) {
        Some(root) => Ok(Piece::Xml(vec![copy(root, scene)?])),
        None => Ok(Piece::Text((&*message.body.text()?).into())),
    }
}

fn replace_all(piece: Piece, message: &mut Message) -> Result<(), Failure> {
    let format = message.body.format();
    match piece {
        Piece::Json(document) => set_json(message, &document),
        Piece::Text(text) => message.body.replace(Format::Text, text.as_bytes().to_vec()),
        Piece::Xml(documents) => {
            let bytes: Vec<u8> = documents.iter().flat_map(|document| written(document)).collect();
            let guess = Format::guess(&bytes);
            let format = if format == Format::Json { guess } else { format };
            message.body.replace(format, bytes);
        }
    }
    Ok(())
}

fn set_json(message: &mut Message, document: &json::Document<'static>) {
    message.body.replace_json(document.clone());
}

fn property(piece: Piece) -> PropertyValue {
    match piece {
        Piece::Json(document) => PropertyValue::Json(document),
        Piece::Text(text) => PropertyValue::new(&*text),
        Piece::Xml(mut documents) if documents.len() == 1 => {
            documents.pop().map_or_else(|| PropertyValue::new(""), PropertyValue::Xml)
        }
        Piece::Xml(documents) => {
            let bytes: Vec<u8> = documents.iter().flat_map(|document| written(document)).collect();
            PropertyValue::new(String::from_utf8_lossy(&bytes))
        }
    }
}

fn written(document: &xml::Document) -> Vec<u8> {
    document.element().map(serialise).unwrap_or_default()
}

/// A copy of `node` as a document of its own.
fn copy(node: Node<'_>, scene: &Scene<'_>) -> Result<Arc<xml::Document>, Failure> {
    scene.budget.charge_memory(node.document().heap_bytes())?;
    let mut builder = xml::Builder::new();
    xml::copy_subtree(node, &mut builder)?;
    Ok(Arc::new(builder.finish()))
}

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let (Some(from), Some(to)) = (element.child("source"), element.child("target")) else {
        let message = "`enrich` needs a `source` and a `target`".to_owned();
        compiler.error(element, message, None);
        return None;
    };
    let moves = !from.flag(compiler, "clone", true)?;
    let source = source(compiler, &from)?;
    from.finish(compiler);
    let actions = [
        ("replace", Action::Replace),
        ("child", Action::Child),
        ("sibling", Action::Sibling),
        ("remove", Action::Remove),
    ];
    let action = to.choice(compiler, "action", &actions)?;
    let target = target(compiler, &to, action)?;
    to.finish(compiler);
    Some(Box::new(Enrich { source, moves, target, action }))
}

fn source(compiler: &mut Compiler, from: &Element<'_>) -> Option<Source> {
    match from.optional("type").unwrap_or("custom") {
        "custom" => {
            let path = from.required(compiler, "xpath")?;
            Some(Source::Custom(from.compiled(compiler, path)?))
        }
        "envelope" => Some(Source::Envelope),
        "body" => Some(Source::Body),
        "property" => Some(Source::Property(from.required(compiler, "property")?.into())),
        "inline" => {
            let text = match (from.optional("key"), from.children().next()) {
                (Some(key), _) => match compiler.entry(from, key)? {
                    Entry::Text(text) => text.to_string(),
                    Entry::Xml(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                },
                (None, Some(child)) => {
                    String::from_utf8_lossy(&serialise(child.node())).into_owned()
                }
                (None, None) => from.node().string_value().trim().to_owned(),
            };
            Some(Source::Inline(Piece::of(&text)))
        }
        other => {
            let help = "write `custom`, `envelope`, `body`, `property` or `inline`".to_owned();
            compiler.error(from, format!("`type` is `{other}`"), Some(help));
            None
        }
    }
}

fn target(compiler: &mut Compiler, to: &Element<'_>, action: Action) -> Option<Target> {
    let of = to.optional("type").unwrap_or("custom");
    let target = match of {
        "custom" => {
            let path = to.required(compiler, "xpath")?;
            let path = to.compiled(compiler, path)?;
            if !path.selects_nodes() {
                let message = format!("`{path}` selects no nodes of the body");
                let help = "JSON is edited by replacing the body".to_owned();
                compiler.error(to, message, Some(help));
                return None;
            }
            Target::Custom(path)
        }
        "envelope" => Target::Envelope,
        "body" => Target::Body,
        "property" => Target::Property(to.required(compiler, "property")?.into()),
        other => {
            let help = "write `custom`, `envelope`, `body` or `property`".to_owned();
            compiler.error(to, format!("`type` is `{other}`"), Some(help));
            return None;
        }
    };
    let fits = match target {
        Target::Custom(_) => true,
        Target::Body => action != Action::Remove,
        Target::Envelope | Target::Property(_) => action == Action::Replace,
    };
    if !fits {
        compiler.error(to, format!("this `action` does not fit the target `{of}`"), None);
    }
    fits.then_some(target)
}
