//! `send` and `call`: the message goes to an endpoint.

use crate::compile::{Compiler, Element};
use crate::mediator::To;
use crate::message::Direction;
use crate::program::SequenceId;
use crate::run::Scene;
use crate::{Ask, Failure, Mediator, Message, Next, PropertyScope};

#[derive(Debug)]
struct Send {
    to: To,
    receive: Option<SequenceId>,
}

impl Mediator for Send {
    fn mediate(&self, _: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        // A response without an endpoint goes back to the client; `RESPONSE` makes it one.
        let declared = || {
            let property = message.properties.get(PropertyScope::Synapse, "RESPONSE");
            property.is_some_and(|value| value.value().truth())
        };
        if self.to == To::Implied && (message.direction == Direction::Response || declared()) {
            return Ok(Next::Respond);
        }
        Ok(Next::Ask(Ask::Send { to: self.to, receive: self.receive }))
    }
}

#[derive(Debug)]
struct Call(To);

impl Mediator for Call {
    fn mediate(&self, _: &Scene<'_>, _: &mut Message) -> Result<Next, Failure> {
        Ok(Next::Ask(Ask::Call(self.0)))
    }
}

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let to = endpoint(compiler, element)?;
    element.ignore(&["buildmessage"]);
    let receive = match element.optional("receive") {
        Some(name) => Some(compiler.sequence_named(element, name)?),
        None => None,
    };
    Some(Box::new(Send { to, receive }))
}

pub(super) fn call(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    // Nothing blocks here: a message waits, and its thread does not.
    element.flag(compiler, "blocking", false)?;
    Some(Box::new(Call(endpoint(compiler, element)?)))
}

/// The child `endpoint`; without one, the message's own address.
fn endpoint(compiler: &mut Compiler, element: &Element<'_>) -> Option<To> {
    let Some(child) = element.child("endpoint") else { return Some(To::Implied) };
    Some(To::Endpoint(compiler.endpoint(&child)?))
}
