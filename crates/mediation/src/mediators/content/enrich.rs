//! `enrich`: copies a part of the message, a property or a constant to another place.

mod compile;
mod nodes;
mod values;

use expression::{BodyUse, Expression, Value};
use xml::Node;

use super::json_target;
use super::json_target::Edit;
use super::piece::Piece;
use crate::error::Failure;
use crate::mediators::values::inline::Inline;
use crate::mediators::values::items::fail;
use crate::message::{Format, Message, NO_ENTITY_BODY, PropertyScope};
use crate::program::{LogLevel, Mediator, Next, Scene};

pub(crate) use compile::compile;
use nodes::{detach, insert, selected};
use values::{
    all_written, copy, custom, json_property, of_property, property, replace_all, set_json, whole,
    with_child,
};

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
    Property(PropertyScope, Box<str>),
    Inline(Piece),
    /// With expressions.
    Computed(Inline),
}

#[derive(Debug)]
enum Target {
    Custom(Expression),
    /// Values inside a JSON body; several only for `remove`.
    Json(Vec<Expression>),
    /// The name of a member of an object.
    Key(Expression),
    /// Part that is removed from a property in JSON.
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
            Source::Computed(inline) => inline.body_use(),
            Source::Property(..) | Source::Inline(_) => BodyUse::Untouched,
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
        let gets_json = matches!(self.target, Target::Json(_))
            || is_json && self.action == Action::Child && matches!(self.target, Target::Body(_));
        let piece = match gets_json {
            true => self.json_piece(scene, message)?,
            false => self.piece(scene, message)?,
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
                    let name = Value::Text((&**name).into()).to_json();
                    json_target::edit(target, Edit::Rename(&name), scene, message)
                }
                Piece::Xml(_) | Piece::Json(_) => {
                    Err(fail("the new name of a member must be a text"))
                }
            },
            Target::InProperty(..) => Ok(()),
        }
    }

    /// `None`: the source does not exist.
    fn piece(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Option<Piece>, Failure> {
        let piece = match &self.source {
            Source::Inline(piece) => piece.clone(),
            Source::Computed(inline) => Piece::read(&inline.text(scene, message)?, scene.budget)?,
            Source::Property(of, name) => match message.properties.get(*of, name) {
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
        if let Source::Custom(expression) = &self.source
            && !expression.selects_nodes()
        {
            let of = |value: Value<'_>| {
                if matches!(value, Value::Null) {
                    return Ok(None);
                }
                value.charge_copy(scene.budget)?;
                Piece::of_json(&value.to_json()).map(Some)
            };
            let piece = scene.with(expression, message, of)??;
            if self.moves && piece.is_some() {
                json_target::edit(expression, Edit::Remove, scene, message)?;
            }
            return Ok(piece);
        }
        self.piece(scene, message)
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
                let line = "enrich: text cannot replace a JSON body";
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
                // As in Synapse: a node without siblings is the payload.
                (None, Piece::Xml(documents)) => {
                    message.body.replace_payload(all_written(&documents, budget)?, budget)
                }
                (None, Piece::Text(text)) if action == Action::Replace => {
                    message.body.replace(Format::Text, text.as_bytes().to_vec(), budget)
                }
                (None, _) => Err(fail("there is no XML in the body")),
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
