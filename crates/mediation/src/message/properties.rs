//! Properties in Synapse's scopes, and variables.

use std::borrow::Cow;
use std::sync::Arc;

use expression::{Budget, Expression, Value, json};
use xpath::synapse::PropertyScope;

use crate::error::{Code, Failure};
use crate::limits;

/// The value of a property or a variable.
#[derive(Clone, Debug)]
pub enum PropertyValue {
    Text(Box<str>),
    Integer(i64),
    Double(f64),
    Boolean(bool),
    Json(Arc<json::Document<'static>>),
    /// The document element, or the XML of a property mediator.
    Xml(Arc<xml::Document>),
    /// State that a mediator keeps as long as the message; expressions see an empty text.
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
        if let Self::Held(held) = self { held.downcast_ref() } else { None }
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
        if let Self::Xml(document) = self { Some(document) } else { None }
    }
}

impl PropertyValue {
    /// The result of an expression as a property; `None` for a value that does not exist. JSON is copied out of the
    /// body.
    ///
    /// # Errors
    /// The copy does not fit the rest of the budget.
    pub fn of(value: Value<'_>, budget: &Budget) -> Result<Option<Self>, Failure> {
        if matches!(value, Value::Null) {
            return Ok(None);
        }
        value.charge_copy(budget)?;
        Ok(Some(Self::from(value)))
    }

    /// The memory that a copy of it takes; documents are shared.
    fn bytes(&self) -> usize {
        if let Self::Text(text) = self { text.len() } else { 0 }
    }

    /// The memory of a document that is not shared.
    fn own_document_bytes(&self) -> usize {
        match self {
            Self::Json(document) if Arc::strong_count(document) == 1 => document.heap_bytes(),
            Self::Xml(document) if Arc::strong_count(document) == 1 => document.heap_bytes(),
            Self::Text(_)
            | Self::Integer(_)
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
#[derive(Debug, Default)]
pub struct Properties {
    all: Vec<Property>,
    /// Memory that they were charged, and release when they are replaced or removed.
    charged: usize,
    /// Documents that were edited in their place, which the editor charges.
    edits: usize,
}

/// A copy, whose memory is [`Properties::bytes`].
impl Clone for Properties {
    fn clone(&self) -> Self {
        Self { all: self.all.clone(), charged: self.bytes(), edits: 0 }
    }
}

#[derive(Debug)]
struct Property {
    scope: PropertyScope,
    name: Box<str>,
    value: PropertyValue,
    /// Bytes charged for its document; a shared one was charged to its first owner.
    document_bytes: usize,
}

/// A copy, which shares the document.
impl Clone for Property {
    fn clone(&self) -> Self {
        let (name, value) = (self.name.clone(), self.value.clone());
        Self { scope: self.scope, name, value, document_bytes: 0 }
    }
}

impl Property {
    fn is(&self, scope: PropertyScope, name: &str) -> bool {
        self.scope == scope && *self.name == *name
    }

    /// The memory of a copy.
    fn bytes(&self) -> usize {
        self.name.len() + self.value.bytes() + size_of::<Self>()
    }

    /// The memory that is free when it is dropped: not a document that others still have.
    fn freed(&self) -> usize {
        let is_own = self.value.own_document_bytes() > 0;
        self.bytes() + if is_own { self.document_bytes } else { 0 }
    }
}

impl Properties {
    /// The memory of a copy.
    pub(super) fn bytes(&self) -> usize {
        self.all.iter().map(Property::bytes).sum()
    }

    /// Bytes charged for them.
    pub(super) fn charged(&self) -> usize {
        self.charged
    }

    /// How often [`Properties::edit_xml`] was called.
    pub(super) fn edits(&self) -> usize {
        self.edits
    }

    /// What `axis2` does not have may be in `axis2-client`, as in Axis2's `MessageContext`.
    #[must_use]
    pub fn get(&self, scope: PropertyScope, name: &str) -> Option<&PropertyValue> {
        let own = |scope| self.all.iter().find(|of| of.is(scope, name)).map(|of| &of.value);
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
        let document_bytes = value.own_document_bytes();
        let new = Property { scope, name: name.into(), value, document_bytes };
        let bytes = new.bytes() + document_bytes;
        budget.charge_memory(bytes)?;
        let count = self.all.len();
        let old = self.all.iter_mut().find(|of| of.is(scope, name));
        if old.is_none() && count >= limits::PROPERTIES_MAX {
            budget.release_memory(bytes);
            let message = format!("more than {} properties", limits::PROPERTIES_MAX);
            return Err(Failure::new(Code::MEDIATION, message));
        }
        self.charged += bytes;
        match old {
            Some(old) => {
                let old = std::mem::replace(old, new).freed();
                self.charged = self.charged.saturating_sub(old);
                budget.release_memory(old);
            }
            None => self.all.push(new),
        }
        Ok(())
    }

    /// The caller releases the difference of [`Properties::charged`].
    pub(super) fn remove(&mut self, scope: PropertyScope, name: &str) {
        self.retain(|of| !of.is(scope, name));
    }

    /// Keeps the properties whose scope `keeps`; as [`Properties::remove`].
    pub(super) fn retain_scopes(&mut self, keeps: impl Fn(PropertyScope) -> bool) {
        self.retain(|of| keeps(of.scope));
    }

    fn retain(&mut self, keeps: impl Fn(&Property) -> bool) {
        let gone = self.all.extract_if(.., |of| !keeps(of));
        let freed = gone.map(|of| of.freed()).sum();
        self.charged = self.charged.saturating_sub(freed);
    }

    /// The property that holds this document.
    pub(crate) fn holder(&self, document: &xml::Document) -> Option<(PropertyScope, &str)> {
        let is_it = |of: &&Property| of.value.xml().is_some_and(|it| std::ptr::eq(it, document));
        self.all.iter().find(is_it).map(|of| (of.scope, &*of.name))
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
        let found = self.all.iter_mut().find(|of| of.is(scope, name));
        let Some(PropertyValue::Xml(document)) = found.map(|of| &mut of.value) else {
            return Ok(None);
        };
        if Arc::strong_count(document) > 1 {
            budget.charge_memory(document.heap_bytes())?;
        }
        self.edits += 1;
        Ok(Some(Arc::make_mut(document)))
    }

    /// All properties of a scope, in the order in which they were first set.
    pub fn of(&self, scope: PropertyScope) -> impl Iterator<Item = (&str, &PropertyValue)> {
        self.all.iter().filter(move |of| of.scope == scope).map(|of| (&*of.name, &of.value))
    }
}
