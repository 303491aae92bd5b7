//! The message that mediators act on.

mod body;
mod head;
pub(crate) mod mapping;
mod properties;
pub(crate) mod soap;
mod view;

use expression::BodyUse;

use crate::{Code, Failure};

pub use body::{Body, Format};
pub use head::{Head, PlainHead};
pub use properties::{Properties, PropertyValue};
pub use view::{Environment, LogLevel, View};
pub use xpath::synapse::PropertyScope;

/// Which way a message travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the client.
    #[default]
    Request,
    /// To the client.
    Response,
}

/// A request or a response under mediation.
#[derive(Debug)]
pub struct Message {
    pub direction: Direction,
    pub head: Box<dyn Head>,
    pub body: Body,
    pub properties: Properties,
}

impl Message {
    #[must_use]
    pub fn new(direction: Direction, head: Box<dyn Head>, body: Body) -> Self {
        Self { direction, head, body, properties: Properties::default() }
    }

    /// Sets a property; in the transport scope, a header field.
    ///
    /// # Errors
    /// Above `limits::PROPERTIES_MAX`, or a scope that cannot be written.
    pub fn set(
        &mut self,
        scope: PropertyScope,
        name: &str,
        value: PropertyValue,
    ) -> Result<(), Failure> {
        match scope {
            PropertyScope::Transport => self.head.set_field(name, &value.text()),
            PropertyScope::Synapse
            | PropertyScope::Axis2
            | PropertyScope::Axis2Client
            | PropertyScope::Operation
            | PropertyScope::Variable => self.properties.set(scope, name, value)?,
            PropertyScope::Url
            | PropertyScope::Function
            | PropertyScope::System
            | PropertyScope::Environment
            | PropertyScope::Registry => {
                let message = format!("`{name}`: properties of this scope can only be read");
                return Err(Failure::new(Code::MEDIATION, message));
            }
        }
        Ok(())
    }

    /// Removes a property, or all header fields of this name.
    pub fn remove(&mut self, scope: PropertyScope, name: &str) {
        match scope {
            PropertyScope::Transport => self.head.remove_field(name),
            PropertyScope::Synapse
            | PropertyScope::Axis2
            | PropertyScope::Axis2Client
            | PropertyScope::Operation
            | PropertyScope::Variable
            | PropertyScope::Url
            | PropertyScope::Function
            | PropertyScope::System
            | PropertyScope::Environment
            | PropertyScope::Registry => self.properties.remove(scope, name),
        }
    }

    /// A copy for another branch of the run. A body that still streams stays with the original.
    ///
    /// # Errors
    /// The budget does not suffice.
    pub fn copy(&self, budget: &expression::Budget) -> Result<Self, Failure> {
        budget.charge_memory(self.body.size())?;
        Ok(Self {
            direction: self.direction,
            head: self.head.copy(),
            body: self.body.copy()?,
            properties: self.properties.clone(),
        })
    }

    /// Turns the message into the response that arrived for it. Properties of the transport (`axis2`) end with
    /// the request; the others remain.
    pub fn become_response(&mut self, head: Box<dyn Head>, body: Body) {
        self.direction = Direction::Response;
        self.head = head;
        self.body = body;
        self.properties
            .retain(|scope| !matches!(scope, PropertyScope::Axis2 | PropertyScope::Axis2Client));
    }

    /// Writes the body for its next receiver, in the format that the property `messageType` says, and sets
    /// `Content-Type` if that changed. `None`: the host still streams it.
    ///
    /// # Errors
    /// The body is not well-formed, or cannot be written in that format.
    pub fn finish(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let declared = self.properties.get(PropertyScope::Axis2, "messageType");
        if let Some(content_type) = declared.map(|value| value.text().into_owned()) {
            let format = Format::of(&content_type);
            if format != self.body.format() {
                self.body.convert(format)?;
                self.head.set_field("Content-Type", format.content_type());
            }
        }
        self.body.take_bytes()
    }

    /// Whether the host has to write the body anew.
    #[must_use]
    pub fn body_use(&self) -> BodyUse {
        self.body.state()
    }
}
