//! Properties in Synapse's scopes, and variables.

use std::borrow::Cow;
use std::sync::Arc;

use expression::{Budget, Expression, Value, json};
use xpath::synapse::PropertyScope;

use crate::{Code, Failure, limits};

/// The value of a property or a variable.
#[derive(Clone, Debug)]
pub enum PropertyValue {
    Text(Box<str>),
    Integer(i64),
    Double(f64),
    Boolean(bool),
    Json(Arc<json::Document<'static>>),
    /// The document element, or what a property mediator holds as XML.
    Xml(Arc<xml::Document>),
    /// What a mediator holds as long as the message; expressions see an empty text.
    Held(Arc<dyn std::any::Any + Send + Sync>),
}

impl PropertyValue {
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self::Text(text.into())
    }

    /// A parameter of a sequence template that is evaluated where it is read.
    pub(crate) fn late(expression: &Arc<Expression>) -> Self {
        let expression: Arc<Expression> = Arc::clone(expression);
        Self::Held(expression)
    }

    pub(crate) fn as_late(&self) -> Option<&Expression> {
        match self {
            Self::Held(held) => held.downcast_ref(),
            Self::Text(_)
            | Self::Integer(_)
            | Self::Double(_)
            | Self::Boolean(_)
            | Self::Json(_)
            | Self::Xml(_) => None,
        }
    }

    pub(crate) fn count(number: usize) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// As text: XML and JSON are written.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Xml(document) => {
                let options = xml::WriterOptions { declaration: false, ..Default::default() };
                let bytes = document.write(options).unwrap_or_default();
                Cow::Owned(String::from_utf8(bytes).unwrap_or_default())
            }
            Self::Text(text) => Cow::Borrowed(text),
            Self::Held(_) => Cow::Borrowed(""),
            Self::Integer(_) | Self::Double(_) | Self::Boolean(_) | Self::Json(_) => {
                Cow::Owned(self.value().text().into_owned())
            }
        }
    }

    /// As an expression sees it.
    #[must_use]
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Text(text) => Value::Text(Cow::Borrowed(text)),
            Self::Integer(number) => Value::Integer(*number),
            Self::Double(number) => Value::Double(*number),
            Self::Boolean(truth) => Value::Boolean(*truth),
            Self::Json(document) => Value::Json(document.root()),
            Self::Xml(_) | Self::Held(_) => Value::Text(self.text()),
        }
    }

    /// The XML that it holds.
    #[must_use]
    pub fn xml(&self) -> Option<&xml::Document> {
        match self {
            Self::Xml(document) => Some(document),
            Self::Text(_)
            | Self::Integer(_)
            | Self::Double(_)
            | Self::Boolean(_)
            | Self::Json(_)
            | Self::Held(_) => None,
        }
    }
}

impl PropertyValue {
    /// The result of an expression as a property; `None`: what does not exist. JSON is copied out of the body.
    ///
    /// # Errors
    /// The copy does not fit what is left of the budget.
    pub fn of(value: Value<'_>, budget: &Budget) -> Result<Option<Self>, Failure> {
        if matches!(value, Value::Null) {
            return Ok(None);
        }
        value.charge_copy(budget)?;
        Ok(Some(Self::from(value)))
    }

    /// The memory that a copy of it takes; documents are shared.
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Integer(_)
            | Self::Double(_)
            | Self::Boolean(_)
            | Self::Json(_)
            | Self::Xml(_)
            | Self::Held(_) => 0,
        }
    }
}

/// Charges nothing: [`PropertyValue::of`] does.
impl From<Value<'_>> for PropertyValue {
    fn from(value: Value<'_>) -> Self {
        match value.plain() {
            Value::Text(text) => Self::Text(text.into()),
            Value::Integer(number) => Self::Integer(number),
            Value::Double(number) => Self::Double(number),
            Value::Boolean(truth) => Self::Boolean(truth),
            Value::Made(document) => Self::Json(Arc::new(*document)),
            Value::Json(json) => {
                let mut copy = json::Builder::new();
                copy.embed(json);
                Self::Json(Arc::new(copy.finish()))
            }
            Value::Null | _ => Self::Text(Box::from("")),
        }
    }
}

/// The properties of a message. Few: searched one by one.
#[derive(Clone, Debug, Default)]
pub struct Properties(Vec<(PropertyScope, Box<str>, PropertyValue)>);

impl Properties {
    /// The memory of a copy.
    pub(super) fn bytes(&self) -> usize {
        let one = |(_, name, value): &(_, Box<str>, PropertyValue)| {
            name.len() + value.bytes() + size_of::<(PropertyScope, Box<str>, PropertyValue)>()
        };
        self.0.iter().map(one).sum()
    }

    /// What `axis2` does not have may be in `axis2-client`, as in Axis2's `MessageContext`.
    #[must_use]
    pub fn get(&self, scope: PropertyScope, name: &str) -> Option<&PropertyValue> {
        let own = |scope: PropertyScope| {
            let mut all = self.0.iter();
            all.find(|(of, known, _)| *of == scope && **known == *name).map(|(_, _, value)| value)
        };
        let client = || own(PropertyScope::Axis2Client).filter(|_| scope == PropertyScope::Axis2);
        own(scope).or_else(client)
    }

    /// # Errors
    /// Above `limits::PROPERTIES_MAX`, or the budget.
    pub fn set(
        &mut self,
        scope: PropertyScope,
        name: &str,
        value: PropertyValue,
        budget: &Budget,
    ) -> Result<(), Failure> {
        budget.charge_memory(name.len() + value.bytes() + size_of::<PropertyValue>())?;
        let mut all = self.0.iter_mut();
        if let Some((_, _, old)) = all.find(|(of, known, _)| *of == scope && **known == *name) {
            budget.release_memory(old.bytes() + size_of::<PropertyValue>());
            *old = value;
            return Ok(());
        }
        if self.0.len() >= limits::PROPERTIES_MAX {
            let message = format!("more than {} properties", limits::PROPERTIES_MAX);
            return Err(Failure::new(Code::MEDIATION, message));
        }
        self.0.push((scope, name.into(), value));
        Ok(())
    }

    pub fn remove(&mut self, scope: PropertyScope, name: &str) {
        self.0.retain(|(of, known, _)| *of != scope || **known != *name);
    }

    /// The property that holds this document.
    pub(crate) fn holder(&self, document: &xml::Document) -> Option<(PropertyScope, &str)> {
        let is_it =
            |value: &PropertyValue| value.xml().is_some_and(|it| std::ptr::eq(it, document));
        let found = self.0.iter().find(|(.., value)| is_it(value));
        found.map(|(scope, name, _)| (*scope, &**name))
    }

    /// The XML of a property, to edit it. Who adds to it charges that.
    ///
    /// # Errors
    /// The budget, if other messages have it too.
    pub(crate) fn edit_xml(
        &mut self,
        scope: PropertyScope,
        name: &str,
        budget: &Budget,
    ) -> Result<Option<&mut xml::Document>, Failure> {
        let mut all = self.0.iter_mut();
        let found = all.find(|(of, known, _)| *of == scope && **known == *name);
        let Some((.., PropertyValue::Xml(document))) = found else { return Ok(None) };
        if Arc::strong_count(document) > 1 {
            budget.charge_memory(document.heap_bytes())?;
        }
        Ok(Some(Arc::make_mut(document)))
    }

    /// Keeps the properties whose scope `keeps`.
    pub(crate) fn retain(&mut self, keeps: impl Fn(PropertyScope) -> bool) {
        self.0.retain(|(scope, ..)| keeps(*scope));
    }

    /// All properties of a scope, in the order in which they were first set.
    pub fn of(&self, scope: PropertyScope) -> impl Iterator<Item = (&str, &PropertyValue)> {
        let all = self.0.iter().filter(move |(of, ..)| *of == scope);
        all.map(|(_, name, value)| (&**name, value))
    }
}
