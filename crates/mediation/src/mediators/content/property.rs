//! `property`, `propertyGroup` and `variable`.

use std::borrow::Cow;
use std::sync::Arc;

use expression::{BodyUse, Budget, Error, Expression, Value, json, markup};

use crate::error::{Code, Failure};
use crate::mediators::values::pattern::{Groups, subject};
use crate::message::charset::Charset;
use crate::message::known::{Effect, KNOWN, Known};
use crate::message::{CHARACTER_SET, MESSAGE_TYPE, Message, PropertyScope, PropertyValue};
use crate::program::{LogLevel, Mediator, Next, Scene};
use crate::syntax::{Compiler, Element, serialise};

#[derive(Debug)]
struct Property {
    scope: PropertyScope,
    name: Name,
    action: Action,
}

#[derive(Debug)]
enum Name {
    Fixed(Box<str>),
    /// `{expression}` or `${expression}`.
    Computed(Expression),
}

impl Name {
    fn text(&self, scene: &Scene<'_>, message: &Message) -> Result<Cow<'_, str>, Failure> {
        match self {
            Self::Fixed(name) => Ok(Cow::Borrowed(name)),
            Self::Computed(expression) => match scene.text(expression, message)? {
                name if name.is_empty() => {
                    let text =
                        format!("`{expression}` is empty, which is not the name of a property");
                    Err(Failure::new(Code::MEDIATION, text))
                }
                name => Ok(Cow::Owned(name)),
            },
        }
    }
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
        let name = match &self.name {
            // The body is written in another format.
            Name::Fixed(name)
                if of_transport(self.scope) == PropertyScope::Axis2 && &**name == MESSAGE_TYPE =>
            {
                return BodyUse::Rewritten;
            }
            Name::Fixed(_) => BodyUse::Untouched,
            Name::Computed(expression) => expression.body_use(),
        };
        name.max(match &self.action {
            Action::Set { value: Source::Expression(value), .. } => value.body_use(),
            Action::Set { value: Source::Xml(_), .. } | Action::Remove => BodyUse::Untouched,
        })
    }

    fn sets(&self, each: &mut dyn FnMut(PropertyScope, &str, Option<bool>)) {
        let Name::Fixed(name) = &self.name else { return };
        let is_true = match &self.action {
            Action::Remove | Action::Set { value: Source::Xml(_), .. } => Some(false),
            Action::Set { value: Source::Expression(value), groups, .. } => {
                let text = value.as_literal().filter(|_| groups.is_none());
                text.map(|text| PropertyValue::new(text).value().truth())
            }
        };
        each(of_transport(self.scope), name, is_true);
    }

    /// It is set when its value is known.
    fn can_repeat(&self) -> bool {
        true
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let name = self.name.text(scene, message)?;
        match &self.action {
            Action::Remove => message.remove(self.scope, &name),
            Action::Set { value, of, groups } => {
                let value = match value {
                    Source::Xml(document) => Some(PropertyValue::Xml(Arc::clone(document))),
                    Source::Expression(value) => scene.uncharged(message, || {
                        self.evaluate(&name, (value, *of), scene, message)
                    })?,
                };
                let value = match (groups, value) {
                    (Some(groups), Some(PropertyValue::Text(text))) => {
                        Some(PropertyValue::new(groups.find(&text, scene.budget)?))
                    }
                    (_, value) => value,
                };
                match value {
                    Some(value) => message.set(self.scope, &name, value, scene.budget)?,
                    None if self.scope == PropertyScope::Transport => {
                        message.set_field(&name, "")?;
                    }
                    // Source: Synapse's `Axis2MessageContext.setProperty`.
                    None if self.scope == PropertyScope::Synapse => {}
                    None => message.remove(self.scope, &name),
                }
            }
        }
        Ok(Next::Continue)
    }
}

impl Property {
    /// `None` for a value that does not exist.
    fn evaluate(
        &self,
        name: &str,
        (value, of): (&Expression, Type),
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
        let is_variable = self.scope == PropertyScope::Variable;
        let found = if of == Type::Any {
            let copy = |value: Value<'_>| PropertyValue::of(value, scene.budget);
            scene.with(value, message, copy)??
        } else if of == Type::Integer
            && is_variable
            && let Some(whole) = scene.with(value, message, whole)?
        {
            Some(PropertyValue::Integer(whole))
        } else {
            subject(value, scene, message)?.map(PropertyValue::new)
        };
        match found {
            None if is_plain => Ok(None),
            found => {
                let found = found.unwrap_or_else(|| PropertyValue::new(""));
                if of == Type::Json {
                    return json(name, &found, is_variable, scene);
                }
                convert(name, found, of, scene.budget).map(Some)
            }
        }
    }
}

/// A number with a fraction, without it; a text is none.
fn whole(value: Value<'_>) -> Option<i64> {
    let is_number = matches!(&value, Value::Double(_))
        || matches!(&value, Value::Json(json) if json.kind() == json::Kind::Number);
    let text = value.text();
    let number = text.parse::<f64>().ok().filter(|_| is_number && text.contains(['.', 'e', 'E']));
    number.and_then(|number| format!("{:.0}", number.trunc()).parse().ok())
}

/// A text that is not JSON is a string as a variable, and nothing as a property. As in Synapse.
fn json(
    name: &str,
    value: &PropertyValue,
    is_variable: bool,
    scene: &Scene<'_>,
) -> Result<Option<PropertyValue>, Failure> {
    let text = value.text();
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    match json::Document::parse_within(text.as_bytes(), scene.budget) {
        Ok(document) => Ok(Some(PropertyValue::Json(Arc::new(document.into_owned())))),
        Err(Error::Budget(exceeded)) => Err(exceeded.into()),
        Err(_) if is_variable => Ok(Some(PropertyValue::new(text))),
        Err(error) => {
            let line =
                format!("property: `{name}` is not set, since its value is not JSON: {error}");
            scene.environment.log(LogLevel::Error, &line);
            Ok(None)
        }
    }
}

/// A text that does not spell the type fails, as in Synapse.
fn convert(
    name: &str,
    value: PropertyValue,
    of: Type,
    budget: &Budget,
) -> Result<PropertyValue, Failure> {
    let text = value.text();
    let text = text.trim();
    let converted = match of {
        Type::Any | Type::Text | Type::Json => return Ok(value),
        Type::Integer => text.parse().ok().map(PropertyValue::Integer),
        Type::Double => text.parse().ok().map(PropertyValue::Double),
        // Source: `JavaUtils.isTrueExplicitly` of Axis2.
        Type::Boolean => {
            let is_true = ["true", "yes", "1"].iter().any(|it| text.eq_ignore_ascii_case(it));
            Some(PropertyValue::Boolean(is_true))
        }
        Type::Xml => {
            budget.charge_reading(text.len())?;
            let document = xml::Document::parse(text.as_bytes());
            if let Ok(document) = &document {
                budget.charge_memory(document.heap_bytes())?;
            }
            document.ok().map(|it| PropertyValue::Xml(Arc::new(it)))
        }
    };
    converted.ok_or_else(|| {
        let message = format!("`{name}`: the value is not of the type {of:?}");
        Failure::new(Code::MEDIATION, message)
    })
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    if let Some(scope @ ("trace" | "analytics")) = element.attribute("scope") {
        element.ignore(&["name", "value", "expression", "scope", "type", "action"]);
        compiler.warning(element, format!("a property of the scope `{scope}` has no effect"), None);
        return Some(Box::new(Group(Vec::new())));
    }
    let scope = element.choice(compiler, "scope", SCOPES)?;
    let property = read(compiler, element, scope, Type::Text)?;
    Some(Box::new(property))
}

pub(crate) fn variable(
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
    let name = name(compiler, element)?;
    if element.choice(compiler, "action", &[("set", false), ("remove", true)])? {
        element.ignore(&["value", "expression", "type", "pattern", "group"]);
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
    if let Name::Fixed(name) = &name {
        warn_of_unserved(compiler, element, scope, name);
    }
    let child = element.children().next();
    let has_value = element.attribute("value").is_some();
    if child.is_some() && has_value {
        element.counts(compiler, "`value`", "the child element");
    } else if child.is_some() && element.optional("expression").is_some() {
        element.counts(compiler, "the child element", "`expression`");
    }
    let value = match child.filter(|_| !has_value) {
        Some(child) => match xml::Document::parse(&serialise(child.node())) {
            Ok(document) => Source::Xml(Arc::new(document)),
            Err(error) => return compiler.reject(&child, error.to_string(), None),
        },
        None => Source::Expression(element.value_or_expression(compiler)?),
    };
    let literal = element.attribute("value").filter(|value| !value.starts_with("${"));
    if let (Some(charset), Name::Fixed(name)) = (literal, &name)
        && of_transport(scope) == PropertyScope::Axis2
        && **name == *CHARACTER_SET
        && !Charset::is_known(charset)
    {
        let help = "write the name of a charset, such as `UTF-8` or `windows-1252`";
        let message = format!("the charset `{charset}` is not known");
        return compiler.reject(element, message, Some(help));
    }
    if let Some(literal) = literal.filter(|_| scope != PropertyScope::Variable) {
        // As Synapse does when it reads a property.
        let value = PropertyValue::new(literal);
        if let Err(failure) = convert("value", value, of, &Budget::default()) {
            return compiler.reject(element, failure.into_message(), None);
        }
    }
    Some(Property { scope, name, action: Action::Set { value, of, groups } })
}

fn name(compiler: &mut Compiler, element: &Element<'_>) -> Option<Name> {
    let written = element.required(compiler, "name")?;
    Some(match element.computed(compiler, written)? {
        Some(name) => Name::Computed(name),
        None => Name::Fixed(written.into()),
    })
}

/// The scope whose properties have an effect: `axis2-client` are those of `axis2`.
fn of_transport(scope: PropertyScope) -> PropertyScope {
    if scope == PropertyScope::Axis2Client { PropertyScope::Axis2 } else { scope }
}

/// A property that Synapse gives a meaning, and Penstock does not.
fn warn_of_unserved(
    compiler: &mut Compiler,
    element: &Element<'_>,
    scope: PropertyScope,
    name: &str,
) {
    let scope = of_transport(scope);
    let known = KNOWN.iter().find(|known| known.scope == scope && known.name == name);
    // A feature that is off by default may be switched off.
    let is_off = element.attribute("value").is_some_and(|of| of.eq_ignore_ascii_case("false"));
    if let Some(Known { effect: Effect::Unserved(help), .. }) = known.filter(|_| !is_off) {
        compiler.warning(element, format!("the property `{name}` has no effect"), Some(help));
    }
}

#[derive(Debug)]
struct Group(Vec<Box<dyn Mediator>>);

impl Mediator for Group {
    fn body_use(&self) -> BodyUse {
        self.0.iter().map(|property| property.body_use()).max().unwrap_or_default()
    }

    fn sets(&self, each: &mut dyn FnMut(PropertyScope, &str, Option<bool>)) {
        self.0.iter().for_each(|property| property.sets(each));
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        for property in &self.0 {
            property.mediate(scene, message)?;
        }
        Ok(Next::Continue)
    }
}

pub(crate) fn group(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let mut properties = Vec::new();
    for child in element.children() {
        if child.name() != "property" {
            element.ignores(compiler, &child, &["property"]);
            continue;
        }
        properties.push(compile(compiler, &child)?);
        child.finish(compiler);
    }
    Some(Box::new(Group(properties)))
}
