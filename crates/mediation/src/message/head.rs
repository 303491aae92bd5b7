//! The head of a message, which the host keeps.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;

use expression::ParameterKind;
use xpath::synapse::PropertyScope;

use super::format::is_name;

/// The head of a message under mediation: the host's own, so that an unread head is not copied.
pub trait Head: Any + fmt::Debug + Send {
    /// The first field of this name, in any case.
    fn field(&self, name: &str) -> Option<Cow<'_, str>>;

    /// Replaces all fields of this name by one. Mediators set fields by
    /// [`Message::set_field`](crate::Message::set_field), which checks that the name is a token and the value has no
    /// control characters.
    fn set_field(&mut self, name: &str, value: &str);

    /// Adds a field; others of this name remain. As [`Head::set_field`], by
    /// [`Message::add_field`](crate::Message::add_field).
    fn add_field(&mut self, name: &str, value: &str);

    /// Removes all fields of this name.
    fn remove_field(&mut self, name: &str);

    /// Calls `each` with every field, in order.
    fn fields(&self, each: &mut dyn FnMut(&str, &str));

    /// Calls `each` with the name of every field.
    fn names(&self, each: &mut dyn FnMut(&[u8])) {
        self.fields(&mut |name, _| each(name.as_bytes()));
    }

    /// A parameter of the request's target.
    fn parameter(&self, _kind: ParameterKind, _name: &str) -> Option<Cow<'_, str>> {
        None
    }

    /// A property that the transport defines, such as `HTTP_METHOD` in the axis2 scope. One that was set comes first.
    fn property(&self, _scope: PropertyScope, _name: &str) -> Option<Cow<'_, str>> {
        None
    }

    /// A copy for another branch of the run.
    fn copy(&self) -> Box<dyn Head>;

    /// For the host, to get its own type back.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// A head without a connection: of a copy of a message, or in a test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlainHead {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub fields: Vec<(String, String)>,
}

impl PlainHead {
    /// The fields of another head.
    #[must_use]
    pub fn copy_of(head: &dyn Head) -> Self {
        let mut copy = Self::default();
        head.fields(&mut |name, value| copy.fields.push((name.to_owned(), value.to_owned())));
        copy
    }
}

impl Head for PlainHead {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut fields = self.fields.iter();
        fields.find(|(known, _)| is_name(known, name)).map(|(_, value)| value.into())
    }

    fn set_field(&mut self, name: &str, value: &str) {
        self.remove_field(name);
        self.add_field(name, value);
    }

    fn add_field(&mut self, name: &str, value: &str) {
        self.fields.push((name.to_owned(), value.to_owned()));
    }

    fn remove_field(&mut self, name: &str) {
        self.fields.retain(|(known, _)| !is_name(known, name));
    }

    fn fields(&self, each: &mut dyn FnMut(&str, &str)) {
        for (name, value) in &self.fields {
            each(name, value);
        }
    }

    fn property(&self, scope: PropertyScope, name: &str) -> Option<Cow<'_, str>> {
        match (scope, name) {
            (PropertyScope::Axis2, "HTTP_METHOD") => Some(Cow::Borrowed(&self.method)),
            (PropertyScope::Axis2, "TransportInURL") => Some(Cow::Borrowed(&self.target)),
            _ => None,
        }
    }

    fn copy(&self) -> Box<dyn Head> {
        Box::new(self.clone())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// In a message whose head is elsewhere.
#[derive(Debug)]
pub(crate) struct NoHead;

impl Head for NoHead {
    fn field(&self, _: &str) -> Option<Cow<'_, str>> {
        None
    }

    fn set_field(&mut self, _: &str, _: &str) {}

    fn add_field(&mut self, _: &str, _: &str) {}

    fn remove_field(&mut self, _: &str) {}

    fn fields(&self, _: &mut dyn FnMut(&str, &str)) {}

    fn copy(&self) -> Box<dyn Head> {
        Box::new(Self)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
