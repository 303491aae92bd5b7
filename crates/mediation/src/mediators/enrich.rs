//! `enrich`: copies a part of the message, a property or a constant to another place.

use std::sync::Arc;

use expression::{BodyUse, Budget, Error, Expression, Value, json, markup};
use xml::{Node, NodeId};

use super::json_target::{self, Edit};
use super::piece::Piece;
use super::split::json_text;
use crate::compile::{Compiler, Element, serialise};
use crate::message::{Format, LogLevel, NO_ENTITY_BODY};
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
    /// Values inside a JSON body; several only for `remove`.
    Json(Vec<Expression>),
    /// The name of a member of an object.
    Key(Expression),
    /// What is removed from a property in JSON.
    InProperty(Box<str>, Vec<Expression>),
    Envelope,
    /// And the whole of a body in JSON.
    Body(Expression),
    Property(PropertyScope, Box<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Replace,
    Child,
    Sibling,
    Remove,
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
            Target::InProperty(..) => BodyUse::Untouched,
            Target::Property(..) => source,
            Target::Custom(_)
            | Target::Json(_)
            | Target::Key(_)
            | Target::Envelope
            | Target::Body(_) => BodyUse::Rewritten,
        }
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        if self.action == Action::Remove {
            self.remove(scene, message)?;
            return Ok(Next::Continue);
        }
        let is_json = message.body.format() == Format::Json;
        let piece = match &self.target {
            Target::Json(_) => self.json_piece(scene, message)?,
            Target::Body(_) if is_json && self.action == Action::Child => {
                self.json_piece(scene, message)?
            }
            Target::Custom(_)
            | Target::Key(_)
            | Target::InProperty(..)
            | Target::Envelope
            | Target::Body(_)
            | Target::Property(..) => self.piece(scene, message)?,
        };
        let Some(piece) = piece else {
            // As Synapse does.
            let line = "enrich: the source does not exist, so nothing is copied";
            scene.environment.log(LogLevel::Error, line);
            return Ok(Next::Continue);
        };
        self.put(piece, scene, message)?;
        Ok(Next::Continue)
    }
}

impl Enrich {
    fn remove(&self, scene: &Scene<'_>, message: &mut Message) -> Result<(), Failure> {
        match &self.target {
            Target::Custom(target) => detach(target, scene, message),
            Target::Json(targets) => targets
                .iter()
                .try_for_each(|target| json_target::edit(target, Edit::Remove, scene, message)),
            Target::InProperty(name, targets) => {
                let Some(document) = json_property(name, message, scene.budget)? else {
                    return Ok(());
                };
                let edited = json_target::without(targets, document, scene)?;
                message.set(PropertyScope::Synapse, name, edited, scene.budget)
            }
            Target::Key(_) | Target::Envelope | Target::Body(_) | Target::Property(..) => Ok(()),
        }
    }

    fn put(&self, piece: Piece, scene: &Scene<'_>, message: &mut Message) -> Result<(), Failure> {
        let budget = scene.budget;
        match &self.target {
            Target::Property(scope, name) => {
                let old = message.properties.get(*scope, name);
                let value = match self.action {
                    Action::Child => with_child(old, piece, message, scene)?,
                    Action::Replace | Action::Sibling | Action::Remove => {
                        Some(property(piece, budget)?)
                    }
                };
                value.map_or(Ok(()), |value| message.set(*scope, name, value, budget))
            }
            Target::Envelope => {
                message.remove(PropertyScope::Axis2, NO_ENTITY_BODY);
                replace_all(piece, message, budget)
            }
            Target::Body(root) => {
                message.remove(PropertyScope::Axis2, NO_ENTITY_BODY);
                if message.body.format() == Format::Json && self.action == Action::Child {
                    let text = piece.to_json(message.body.mapping(), budget)?;
                    return json_target::edit(root, Edit::Child(&text), scene, message);
                }
                self.to_body(piece, message, scene)
            }
            Target::Custom(target) => self.to_nodes(target, &piece, scene, message),
            Target::Json(targets) => {
                let text = piece.to_json(message.body.mapping(), budget)?;
                let edit = match self.action {
                    Action::Child => Edit::Child(&text),
                    Action::Replace | Action::Sibling | Action::Remove => Edit::Replace(&text),
                };
                targets
                    .iter()
                    .try_for_each(|target| json_target::edit(target, edit, scene, message))
            }
            Target::Key(target) => match &piece {
                Piece::Text(name) => {
                    let name = json_text(Value::Text((&**name).into()));
                    json_target::edit(target, Edit::Rename(&name), scene, message)
                }
                Piece::Xml(_) | Piece::Json(_) => {
                    Err(fail("the new name of a member must be a text".to_owned()))
                }
            },
            Target::InProperty(..) => Ok(()),
        }
    }

    /// `None`: the source does not exist.
    fn piece(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Option<Piece>, Failure> {
        let piece = match &self.source {
            Source::Inline(piece) => piece.clone(),
            Source::Property(name) => match message.properties.get(PropertyScope::Synapse, name) {
                Some(value) => of_property(value, scene.budget)?,
                None => return Ok(None),
            },
            Source::Custom(expression) => match custom(expression, scene, message)? {
                Some(piece) => piece,
                None => return Ok(None),
            },
            Source::Body | Source::Envelope if message.body.is_empty() => return Ok(None),
            Source::Body if message.body.format() == Format::Json => whole(message, scene.budget)?,
            Source::Body => match message.body.payload(scene.budget)? {
                Some(payload) => Piece::Xml(vec![copy(payload, scene.budget)?]),
                None => return Ok(None),
            },
            Source::Envelope => whole(message, scene.budget)?,
        };
        if let (true, Source::Custom(expression)) = (self.moves, &self.source)
            && expression.selects_nodes()
        {
            detach(expression, scene, message)?;
        }
        Ok(Some(piece))
    }

    /// As [`Enrich::piece`]; a JSON value keeps its type.
    fn json_piece(
        &self,
        scene: &Scene<'_>,
        message: &mut Message,
    ) -> Result<Option<Piece>, Failure> {
        match &self.source {
            Source::Custom(expression) if !expression.selects_nodes() => {
                let of = |value: Value<'_>| {
                    if matches!(value, Value::Null) {
                        return Ok(None);
                    }
                    value.charge_copy(scene.budget)?;
                    Piece::of_json(&json_text(value)).map(Some)
                };
                let piece = scene.with(expression, message, of)??;
                if self.moves && piece.is_some() {
                    json_target::edit(expression, Edit::Remove, scene, message)?;
                }
                Ok(piece)
            }
            Source::Custom(_)
            | Source::Envelope
            | Source::Body
            | Source::Property(_)
            | Source::Inline(_) => self.piece(scene, message),
        }
    }

    fn to_body(
        &self,
        piece: Piece,
        message: &mut Message,
        scene: &Scene<'_>,
    ) -> Result<(), Failure> {
        let budget = scene.budget;
        match (self.action, piece) {
            (Action::Replace, Piece::Json(document)) => set_json(message, &document, budget),
            (Action::Replace, Piece::Text(_)) if message.body.format() == Format::Json => {
                let line = "enrich: a text does not replace a body in JSON";
                scene.environment.log(LogLevel::Error, line);
                Ok(())
            }
            (Action::Replace, Piece::Text(text)) if !message.body.format().is_xml() => {
                message.body.replace(Format::Text, text.as_bytes().to_vec(), budget)
            }
            (Action::Replace, Piece::Xml(documents)) => {
                message.body.replace_payload(all_written(&documents, budget)?, budget)
            }
            // A text becomes the content of the payload.
            (action, piece) => match (message.body.payload(budget)?.map(Node::id), piece) {
                (Some(payload), piece) => match message.body.edit_xml(budget)? {
                    Some(document) => insert(document, payload, &piece, action, budget),
                    None => Ok(()),
                },
                // As Synapse does: what has nothing beside it is the payload.
                (None, Piece::Xml(documents)) => {
                    message.body.replace_payload(all_written(&documents, budget)?, budget)
                }
                (None, Piece::Text(text)) if action == Action::Replace => {
                    message.body.replace(Format::Text, text.as_bytes().to_vec(), budget)
                }
                (None, _) => Err(fail("there is no XML in the body".to_owned())),
            },
        }
    }

    fn to_nodes(
        &self,
        target: &Expression,
        piece: &Piece,
        scene: &Scene<'_>,
        message: &mut Message,
    ) -> Result<(), Failure> {
        let (holder, nodes) = selected(target, scene, message)?;
        let first = nodes.first().ok_or_else(|| fail(format!("`{target}` selects nothing")))?;
        match holder.edit(message, scene.budget)? {
            Some(document) => insert(document, *first, piece, self.action, scene.budget),
            None => Ok(()),
        }
    }
}

/// What an expression selects or is; `None`: nothing.
fn custom(
    expression: &Expression,
    scene: &Scene<'_>,
    message: &Message,
) -> Result<Option<Piece>, Failure> {
    let view = scene.view(message);
    let nodes = match expression.nodes(&view, scene.budget) {
        Ok(nodes) => nodes,
        Err(Error::Type(_)) if !expression.selects_nodes() => {
            let own = |value: Value<'_>| PropertyValue::of(value, scene.budget);
            return Ok(scene.with(expression, message, own)??.map(|value| {
                if let PropertyValue::Json(document) = value {
                    return Piece::Json(document);
                }
                Piece::Text((&*value.text()).into())
            }));
        }
        Err(error) => return Err(error.into()),
    };
    Ok(match &*nodes {
        [] => None,
        [node] if !node.is_element() => Some(Piece::Text((&*node.string_value()).into())),
        nodes => {
            let copies = nodes.iter().map(|node| copy(*node, scene.budget));
            Some(Piece::Xml(copies.collect::<Result<_, _>>()?))
        }
    })
}

fn fail(message: String) -> Failure {
    Failure::new(Code::MEDIATION, message)
}

/// Where the nodes are that an expression selects.
enum Holder {
    Body,
    Property(PropertyScope, String),
}

impl Holder {
    fn edit<'m>(
        &self,
        message: &'m mut Message,
        budget: &Budget,
    ) -> Result<Option<&'m mut xml::Document>, Failure> {
        match self {
            Self::Body => message.body.edit_xml(budget),
            Self::Property(scope, name) => message.properties.edit_xml(*scope, name, budget),
        }
    }
}

/// The nodes that `expression` selects in the body, or else in the property of the first, which [`Holder::edit`] edits.
fn selected(
    expression: &Expression,
    scene: &Scene<'_>,
    message: &mut Message,
) -> Result<(Holder, Vec<NodeId>), Failure> {
    let (holder, nodes) = select(expression, scene, message)?;
    if let (Holder::Property(..), Some(first)) = (&holder, nodes.first())
        && let Some(document) = holder.edit(message, scene.budget)?
        && document.node(*first).is_none()
    {
        // Other messages have the property too; the copy has node ids of its own.
        return select(expression, scene, message);
    }
    Ok((holder, nodes))
}

fn select(
    expression: &Expression,
    scene: &Scene<'_>,
    message: &Message,
) -> Result<(Holder, Vec<NodeId>), Failure> {
    let view = scene.view(message);
    let body = message.body.xml(scene.budget)?;
    let nodes = expression.nodes(&view, scene.budget)?;
    let is_in = |node: &Node<'_>, document| std::ptr::eq(node.document(), document);
    let in_body = body.filter(|body| nodes.iter().any(|node| is_in(node, *body)));
    let (holder, document) = match (in_body, nodes.first()) {
        (Some(body), _) => (Holder::Body, body),
        (None, None) => return Ok((Holder::Body, Vec::new())),
        (None, Some(first)) => {
            let found = message.properties.holder(first.document());
            let (scope, name) = found.ok_or_else(|| {
                fail(format!("`{expression}` selects nothing that can be changed"))
            })?;
            (Holder::Property(scope, name.to_owned()), first.document())
        }
    };
    let ids = nodes.iter().filter(|node| is_in(node, document)).map(|node| node.id()).collect();
    Ok((holder, ids))
}

fn detach(
    expression: &Expression,
    scene: &Scene<'_>,
    message: &mut Message,
) -> Result<(), Failure> {
    let (holder, nodes) = selected(expression, scene, message)?;
    if nodes.is_empty() {
        return Ok(());
    }
    if let Some(document) = holder.edit(message, scene.budget)? {
        for node in nodes {
            document.detach(node)?;
        }
    }
    Ok(())
}

/// Puts `piece` in the place of `at`, below it, or behind it. Source: Synapse's `Target.insert`.
fn insert(
    document: &mut xml::Document,
    at: NodeId,
    piece: &Piece,
    action: Action,
    budget: &Budget,
) -> Result<(), Failure> {
    let text = document.node(at).filter(|node| node.kind() == xml::Kind::Text);
    let around = text.and_then(Node::parent).map(Node::id);
    if let (Some(parent), Piece::Xml(_)) = (around, piece) {
        insert(document, parent, piece, Action::Child, budget)?;
        return Ok(document.detach(at)?);
    }
    match piece {
        Piece::Xml(pieces) => {
            budget.charge_memory(pieces.iter().map(|piece| piece.heap_bytes()).sum())?;
        }
        Piece::Text(text) => budget.charge_memory(text.len())?,
        Piece::Json(_) => {}
    }
    let is_element = document.node(at).is_some_and(Node::is_element);
    let new = match piece {
        Piece::Xml(pieces) if is_element => {
            let roots = pieces.iter().filter_map(|piece| piece.element());
            roots.map(|root| document.import(root)).collect::<Result<Vec<_>, _>>()?
        }
        Piece::Text(text) if action == Action::Replace && is_element => {
            let text = document.create_text(text)?;
            document.replace_children(at, &[text])?;
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
    for node in new {
        match action {
            Action::Child => document.append(at, node)?,
            Action::Replace => document.insert_before(at, node)?,
            // Of several, the last one comes first.
            Action::Sibling => document.insert_after(at, node)?,
            Action::Remove => {}
        }
    }
    if action == Action::Replace {
        document.detach(at)?;
    }
    Ok(())
}

/// The whole body.
fn whole(message: &Message, budget: &Budget) -> Result<Piece, Failure> {
    if message.body.format() == Format::Json
        && let Some(document) = message.body.json(budget)?
    {
        Value::Json(document.root()).charge_copy(budget)?;
        return Ok(Piece::Json(Arc::new(document.clone())));
    }
    match message.body.xml(budget)?.and_then(xml::Document::element) {
        Some(root) => Ok(Piece::Xml(vec![copy(root, budget)?])),
        None => {
            let text = message.body.text(budget)?;
            budget.charge_memory(text.len())?;
            Ok(Piece::Text((&*text).into()))
        }
    }
}

fn replace_all(piece: Piece, message: &mut Message, budget: &Budget) -> Result<(), Failure> {
    match piece {
        Piece::Json(document) => set_json(message, &document, budget),
        Piece::Text(text) => message.body.replace(Format::Text, text.as_bytes().to_vec(), budget),
        Piece::Xml(documents) => {
            let root = documents.first().and_then(|document| document.element());
            let format = root.map_or(Format::Xml, Format::of_element);
            message.body.replace(format, all_written(&documents, budget)?, budget)
        }
    }
}

fn set_json(
    message: &mut Message,
    document: &json::Document<'static>,
    budget: &Budget,
) -> Result<(), Failure> {
    Value::Json(document.root()).charge_copy(budget)?;
    message.body.replace_json(document.clone(), budget);
    Ok(())
}

fn property(piece: Piece, budget: &Budget) -> Result<PropertyValue, Failure> {
    Ok(match piece {
        Piece::Json(document) => PropertyValue::Json(document),
        Piece::Text(text) => PropertyValue::new(&*text),
        Piece::Xml(mut documents) if documents.len() == 1 => {
            documents.pop().map_or_else(|| PropertyValue::new(""), PropertyValue::Xml)
        }
        Piece::Xml(documents) => {
            PropertyValue::new(String::from_utf8_lossy(&all_written(&documents, budget)?))
        }
    })
}

fn of_property(value: &PropertyValue, budget: &Budget) -> Result<Piece, Failure> {
    Ok(match value {
        PropertyValue::Xml(document) => Piece::Xml(vec![Arc::clone(document)]),
        PropertyValue::Json(document) => Piece::Json(Arc::clone(document)),
        PropertyValue::Text(_)
        | PropertyValue::Integer(_)
        | PropertyValue::Double(_)
        | PropertyValue::Boolean(_)
        | PropertyValue::Held(_) => Piece::read(&value.text(), budget)?,
    })
}

/// The JSON in a property; `None`: there is no property.
fn json_property(
    name: &str,
    message: &Message,
    budget: &Budget,
) -> Result<Option<Arc<json::Document<'static>>>, Failure> {
    let value = message.properties.get(PropertyScope::Synapse, name);
    let Some(value) = value else { return Ok(None) };
    match of_property(value, budget)? {
        Piece::Json(document) => Ok(Some(document)),
        Piece::Xml(_) | Piece::Text(_) => Err(fail(format!("the property `{name}` is not JSON"))),
    }
}

/// The property with `piece` as another child: of its element, of its array, or as members of its object. XML replaces
/// what is neither; `None`: nothing is added, which is logged. Source: Synapse's `Target.insert` and `Target.insertJson`.
fn with_child(
    old: Option<&PropertyValue>,
    piece: Piece,
    message: &Message,
    scene: &Scene<'_>,
) -> Result<Option<PropertyValue>, Failure> {
    let budget = scene.budget;
    let old = old.map(|value| of_property(value, budget)).transpose()?;
    match (old, piece) {
        (Some(Piece::Xml(documents)), piece) => {
            let Some(document) = documents.first() else { return Ok(None) };
            budget.charge_memory(document.heap_bytes())?;
            let mut document = xml::Document::clone(document);
            if let Some(root) = document.element().map(Node::id) {
                insert(&mut document, root, &piece, Action::Child, budget)?;
            }
            Ok(Some(PropertyValue::Xml(Arc::new(document))))
        }
        (Some(Piece::Json(document)), piece) => {
            let child = piece.to_json(message.body.mapping(), budget)?;
            let text = json_target::with_child(document.root(), &child, scene)?;
            property(Piece::read(&text, budget)?, budget).map(Some)
        }
        (Some(Piece::Text(_)) | None, piece @ Piece::Xml(_)) => property(piece, budget).map(Some),
        (Some(Piece::Text(_)) | None, _) => {
            let line = "enrich: no child is added, since the property does not exist or is a text";
            scene.environment.log(LogLevel::Error, line);
            Ok(None)
        }
    }
}

/// The documents, one after another.
fn all_written(documents: &[Arc<xml::Document>], budget: &Budget) -> Result<Vec<u8>, Failure> {
    let mut all = Vec::new();
    for root in documents.iter().filter_map(|document| document.element()) {
        all.append(&mut markup::write(root, budget)?);
    }
    Ok(all)
}

/// A copy of `node` as a document of its own.
fn copy(node: Node<'_>, budget: &Budget) -> Result<Arc<xml::Document>, Failure> {
    Ok(Arc::new(markup::copy(node, budget)?))
}

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let (Some(from), Some(to)) = (element.child("source"), element.child("target")) else {
        let message = "`enrich` needs a `source` and a `target`".to_owned();
        compiler.error(element, message, None);
        return None;
    };
    let moves = !from.flag(compiler, "clone", true)?;
    from.ignore(&["type"]);
    let actions = [
        ("replace", Action::Replace),
        ("child", Action::Child),
        ("sibling", Action::Sibling),
        ("remove", Action::Remove),
    ];
    let action = to.choice(compiler, "action", &actions)?;
    let is_removed_there = action == Action::Remove
        && matches!(to.optional("type"), Some("body" | "property"))
        && from.optional("xpath").is_some();
    let target = if is_removed_there {
        removed(compiler, &from, &to)?
    } else {
        target(compiler, &to, action)?
    };
    let source = if is_removed_there { Source::Body } else { source(compiler, &from)? };
    from.finish(compiler);
    to.finish(compiler);
    let is_json = match &source {
        Source::Custom(expression) => expression.is_json_path(),
        Source::Inline(piece) => matches!(piece, Piece::Json(_)),
        Source::Envelope | Source::Body | Source::Property(_) => false,
    };
    if is_json && action == Action::Sibling && matches!(target, Target::Body(_)) {
        let help = "write `child`, or `replace`".to_owned();
        let message = "JSON has nothing beside the body".to_owned();
        compiler.error(&to, message, Some(help));
        return None;
    }
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
                (Some(key), _) => compiler.entry(from, key)?.text().into_owned(),
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

/// What `source` selects, removed from the body or a property. Source: Synapse's `Target.removeJsonFromBody`.
fn removed(compiler: &mut Compiler, from: &Element<'_>, to: &Element<'_>) -> Option<Target> {
    let path = from.required(compiler, "xpath")?;
    let paths = json_target::paths(compiler, from, path, true)?;
    let is_property = to.optional("type") == Some("property");
    match (is_property, paths.is_empty()) {
        (true, false) => Some(Target::InProperty(to.required(compiler, "property")?.into(), paths)),
        (false, false) => Some(Target::Json(paths)),
        (false, true) => nodes(compiler, from, path).map(Target::Custom),
        (true, true) => {
            let help = "write `json-eval(...)`, or the type `custom` and `$ctx:name//...`";
            let message = format!("`{path}` selects nothing in a property");
            compiler.error(from, message, Some(help.to_owned()));
            None
        }
    }
}

/// A path that selects nodes.
fn nodes(compiler: &mut Compiler, at: &Element<'_>, path: &str) -> Option<Expression> {
    let path = at.compiled(compiler, path)?;
    if !path.selects_nodes() {
        compiler.error(at, format!("`{path}` selects no part of the body"), None);
        return None;
    }
    Some(path)
}

/// Whether `source` is a call of `get-property`, without a path behind it.
fn is_property(source: &str) -> bool {
    let Some(arguments) = source.trim().strip_prefix("get-property(") else { return false };
    let mut quote = None;
    let end = arguments.find(|next| {
        match quote {
            None if matches!(next, '\'' | '"') => quote = Some(next),
            Some(of) if next == of => quote = None,
            None | Some(_) => {}
        }
        quote.is_none() && next == ')'
    });
    end.is_some_and(|end| end + 1 == arguments.len())
}

/// The property of `get-property('name')` or `get-property('scope', 'name')`.
fn property_named(compiler: &mut Compiler, to: &Element<'_>, source: &str) -> Option<Target> {
    let literals: Vec<_> = source.split(['\'', '"']).skip(1).step_by(2).collect();
    let (scope, name) = match *literals {
        [name] | ["default" | "synapse", name] => (PropertyScope::Synapse, name),
        ["axis2", name] => (PropertyScope::Axis2, name),
        ["operation", name] => (PropertyScope::Operation, name),
        _ => {
            let help =
                "write `get-property('name')`, or the scope `axis2` or `operation` before it";
            compiler.error(to, format!("`{source}` names no property"), Some(help.to_owned()));
            return None;
        }
    };
    Some(Target::Property(scope, name.into()))
}

fn target(compiler: &mut Compiler, to: &Element<'_>, action: Action) -> Option<Target> {
    let of = to.optional("type").unwrap_or("custom");
    let target = match of {
        "custom" => {
            let source = to.required(compiler, "xpath")?;
            match json_target::paths(compiler, to, source, action == Action::Remove)? {
                _ if is_property(source) => property_named(compiler, to, source)?,
                paths if paths.is_empty() => Target::Custom(nodes(compiler, to, source)?),
                paths => Target::Json(paths),
            }
        }
        "envelope" => Target::Envelope,
        "body" => Target::Body(to.compiled(compiler, "json-eval($)")?),
        "property" => {
            Target::Property(PropertyScope::Synapse, to.required(compiler, "property")?.into())
        }
        "key" => {
            let source = to.required(compiler, "xpath")?;
            let paths = json_target::paths(compiler, to, source, false)?;
            let Some(path) = paths.into_iter().next() else {
                let message = format!("`{source}` names no member of an object");
                compiler.error(to, message, Some("write `json-eval($.name)`".to_owned()));
                return None;
            };
            Target::Key(path)
        }
        other => {
            let help = "write `custom`, `envelope`, `body`, `property` or `key`".to_owned();
            compiler.error(to, format!("`type` is `{other}`"), Some(help));
            return None;
        }
    };
    let fits = match target {
        Target::Custom(_) | Target::InProperty(..) => true,
        Target::Json(_) => action != Action::Sibling,
        Target::Body(_) => action != Action::Remove,
        Target::Property(..) => matches!(action, Action::Replace | Action::Child),
        Target::Envelope | Target::Key(_) => action == Action::Replace,
    };
    if !fits {
        let help = "replace it, or name a part of the body by `xpath`".to_owned();
        let message = format!("this `action` does not fit the target `{of}`");
        compiler.error(to, message, Some(help));
    }
    fits.then_some(target)
}
