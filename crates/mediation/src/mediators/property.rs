//! `property`, `propertyGroup` and `variable`.

use std::sync::Arc;

use expression::{BodyUse, Budget, Expression, Value, json, markup};

use super::pattern::{Groups, subject};
use crate::compile::{Compiler, Element, serialise};
use crate::run::Scene;
use crate::{Code, Failure, Mediator, Message, Next, PropertyScope, PropertyValue};

#[derive(Debug)]
struct Property {
    scope: PropertyScope,
    name: Box<str>,
    action: Action,
}

#[derive(Debug)]
enum Action {
    Remove,
    Set { value: Source, of: Type, groups: Option<Groups> },
}

#[derive(Debug)]
enum Source {
    Expression(Expression),
    /// A child element.
    Xml(Arc<xml::Document>),
}

/// The `type` of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    /// A property without a type, or a variable: the expression's own.
    Any,
    Text,
    Integer,
    Double,
    Boolean,
    Json,
    Xml,
}

/// Source: `XMLConfigConstants.DATA_TYPES`; `OM` is Synapse's name for XML.
const TYPES: &[(&str, Type)] = &[
    ("STRING", Type::Text),
    ("INTEGER", Type::Integer),
    ("LONG", Type::Integer),
    ("SHORT", Type::Integer),
    ("DOUBLE", Type::Double),
    ("FLOAT", Type::Double),
    ("BOOLEAN", Type::Boolean),
    ("JSON", Type::Json),
    ("OM", Type::Xml),
    ("XML", Type::Xml),
];

const SCOPES: &[(&str, PropertyScope)] = &[
    ("default", PropertyScope::Synapse),
    ("synapse", PropertyScope::Synapse),
    ("axis2", PropertyScope::Axis2),
    ("axis2-client", PropertyScope::Axis2Client),
    ("transport", PropertyScope::Transport),
    ("operation", PropertyScope::Operation),
];

impl Mediator for Property {
    fn body_use(&self) -> BodyUse {
        // The body is written in another format.
        if self.scope == PropertyScope::Axis2 && &*self.name == "messageType" {
            return BodyUse::Rewritten;
        }
        match &self.action {
            Action::Set { value: Source::Expression(value), .. } => value.body_use(),
            Action::Set { value: Source::Xml(_), .. } | Action::Remove => BodyUse::Untouched,
        }
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        match &self.action {
            Action::Remove => message.remove(self.scope, &self.name),
            Action::Set { value, of, groups } => {
                let value = match value {
                    Source::Xml(document) => Some(PropertyValue::Xml(Arc::clone(document))),
                    Source::Expression(value) => self.evaluate(value, *of, scene, message)?,
                };
                let value = match (groups, value) {
                    (Some(groups), Some(PropertyValue::Text(text))) => {
                        Some(PropertyValue::new(groups.find(&text, scene.budget)?))
                    }
                    (_, value) => value,
                };
                match value {
                    Some(value) => message.set(self.scope, &self.name, value, scene.budget)?,
                    None if self.scope == PropertyScope::Transport => {
                        message.set_field(&self.name, "")?;
                    }
                    None => message.remove(self.scope, &self.name),
                }
            }
        }
        Ok(Next::Continue)
    }
}

impl Property {
    /// `None`: what does not exist.
    fn evaluate(
        &self,
        value: &Expression,
        of: Type,
        scene: &Scene<'_>,
        message: &Message,
    ) -> Result<Option<PropertyValue>, Failure> {
        if of == Type::Xml {
            let view = scene.view(message);
            if let Some(node) =
                value.nodes(&view, scene.budget).ok().and_then(|all| all.first().copied())
            {
                let copy = markup::copy(node, scene.budget)?;
                return Ok(Some(PropertyValue::Xml(Arc::new(copy))));
            }
        }
        let is_plain = matches!(of, Type::Any | Type::Text | Type::Xml);
        let found = if of == Type::Any {
            let copy = |value: Value<'_>| PropertyValue::of(value, scene.budget);
            scene.with(value, message, copy)??
        } else {
            subject(value, scene, message)?.map(PropertyValue::new)
        };
        match found {
            None if is_plain => Ok(None),
            found => {
                let found = found.unwrap_or_else(|| PropertyValue::new(""));
                self.convert(found, of, scene.budget).map(Some)
            }
        }
    }

    /// A text that does not spell the type fails, as in Synapse.
    fn convert(
        &self,
        value: PropertyValue,
        of: Type,
        budget: &Budget,
    ) -> Result<PropertyValue, Failure> {
        if matches!(of, Type::Any | Type::Text) {
            return Ok(value);
        }
        let text = value.text();
        let text = text.trim();
        let converted = match of {
            Type::Any | Type::Text => None,
            Type::Integer => Some(text.parse().ok().map(PropertyValue::Integer)),
            Type::Double => Some(text.parse().ok().map(PropertyValue::Double)),
            Type::Boolean => Some(Some(PropertyValue::Boolean(text.eq_ignore_ascii_case("true")))),
            Type::Json => {
                let document = json::Document::parse_within(text.as_bytes(), budget);
                Some(document.ok().map(|it| PropertyValue::Json(Arc::new(it.into_owned()))))
            }
            Type::Xml => {
                budget.charge_reading(text.len())?;
                let document = xml::Document::parse(text.as_bytes());
                if let Ok(document) = &document {
                    budget.charge_memory(document.heap_bytes())?;
                }
                Some(document.ok().map(|it| PropertyValue::Xml(Arc::new(it))))
            }
        };
        match converted {
            None => Ok(value),
            Some(Some(converted)) => Ok(converted),
            Some(None) => {
                let message = format!("`{}`: the value is not of the type {of:?}", self.name);
                Err(Failure::new(Code::MEDIATION, message))
            }
        }
    }
}

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let scope = element.choice(compiler, "scope", SCOPES)?;
    let property = read(compiler, element, scope, Type::Text)?;
    Some(Box::new(property))
}

pub(super) fn variable(
    compiler: &mut Compiler,
    element: &Element<'_>,
) -> Option<Box<dyn Mediator>> {
    let property = read(compiler, element, PropertyScope::Variable, Type::Any)?;
    Some(Box::new(property))
}

/// `untyped`: the type if none is written.
fn read(
    compiler: &mut Compiler,
    element: &Element<'_>,
    scope: PropertyScope,
    untyped: Type,
) -> Option<Property> {
    let name = element.required(compiler, "name")?.into();
    if element.choice(compiler, "action", &[("set", false), ("remove", true)])? {
        return Some(Property { scope, name, action: Action::Remove });
    }
    let of = match element.optional("type") {
        Some(_) => element.choice(compiler, "type", TYPES)?,
        None => untyped,
    };
    let groups = match element.optional("pattern") {
        Some(pattern) => {
            let group = element.optional("group").unwrap_or("0");
            Some(Groups::compile(compiler, element, pattern, group)?)
        }
        None => None,
    };
    let value = match element.children().next() {
        Some(child) => match xml::Document::parse(&serialise(child.node())) {
            Ok(document) => Source::Xml(Arc::new(document)),
            Err(error) => {
                compiler.error(&child, error.to_string(), None);
                return None;
            }
        },
        None => Source::Expression(element.value_or_expression(compiler)?),
    };
    Some(Property { scope, name, action: Action::Set { value, of, groups } })
}

#[derive(Debug)]
struct Group(Vec<Box<dyn Mediator>>);

impl Mediator for Group {
    fn body_use(&self) -> BodyUse {
        self.0.iter().map(|property| property.body_use()).max().unwrap_or_default()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        for property in &self.0 {
            property.mediate(scene, message)?;
        }
        Ok(Next::Continue)
    }
}

pub(super) fn group(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let mut properties = Vec::new();
    for child in element.children() {
        if child.name() != "property" {
            let message = format!("`propertyGroup` has no child `{}`", child.name());
            compiler.error(&child, message, None);
            continue;
        }
        properties.push(compile(compiler, &child)?);
        child.finish(compiler);
    }
    Some(Box::new(Group(properties)))
}
