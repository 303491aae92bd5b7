//! `callout`: a part of the message is sent to a service, and the response takes the place of a part.

use expression::{BodyUse, Budget, Expression};

use super::call::{check_status, endpoint, serialised, stored};
use crate::error::{Code, Failure};
use crate::mediators::values::items::fail;
use crate::message::{
    CONTENT_TYPE, Format, MESSAGE_TYPE, Message, NO_ENTITY_BODY, PropertyScope, PropertyValue, soap,
};
use crate::program::{Endpoint, EndpointKind, Entry, Mediator, Next, Scene, To};
use crate::syntax::{Compiler, Element};

#[derive(Debug)]
struct Callout {
    to: To,
    action: Option<Box<str>>,
    source: Source,
    target: Target,
}

/// Source of the sent payload.
#[derive(Debug)]
enum Source {
    /// The message as it is.
    Envelope,
    /// The first element, in an envelope without header blocks if the message has one.
    Element(Expression),
    Property(Box<str>),
    Entry(Entry),
}

/// Where the payload of the response goes.
#[derive(Debug)]
enum Target {
    Body,
    Element(Expression),
    Property(Box<str>),
}

impl Mediator for Callout {
    fn body_use(&self) -> BodyUse {
        BodyUse::Rewritten
    }

    fn check_response(
        &self,
        sent: &Message,
        response: &Message,
        budget: &Budget,
    ) -> Result<(), Failure> {
        check_status(sent, response, Code::CALLOUT, budget)
    }

    /// Source: Synapse's `CalloutMediator.handleFault`.
    fn exchange_failed(&self, failure: Failure) -> Failure {
        failure.with_code(Code::CALLOUT)
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let mut part = message.copy(scene.budget)?;
        let payload = match &self.source {
            Source::Envelope => None,
            Source::Element(expression) => {
                let selected = serialised(scene, message, expression)?;
                Some(selected.ok_or_else(|| fail(format!("`{expression}` selects no element")))?)
            }
            Source::Property(name) => {
                let value = message.properties.get(PropertyScope::Synapse, name);
                let value = value.ok_or_else(|| fail(format!("there is no property `{name}`")))?;
                Some(value.text().into_owned())
            }
            Source::Entry(entry) => Some(entry.text().into_owned()),
        };
        if let Some(payload) = payload {
            scene.budget.charge_memory(payload.len())?;
            let own = part.body.format();
            let format = if soap::namespace(own).is_some() { own } else { Format::Xml };
            part.body.replace(Format::Xml, payload, scene.budget)?;
            part.body.convert(format, scene.budget)?;
            part.set_field(CONTENT_TYPE, format.content_type())?;
            part.remove(PropertyScope::Axis2, MESSAGE_TYPE);
            part.remove(PropertyScope::Axis2, NO_ENTITY_BODY);
        }
        if let Some(action) = &self.action {
            let action = PropertyValue::new(&**action);
            part.set(PropertyScope::Synapse, "Action", action, scene.budget)?;
        }
        Ok(Next::Exchange { to: self.to, part: Some(part) })
    }

    fn join(
        &self,
        scene: &Scene<'_>,
        message: &mut Message,
        parts: Vec<Option<Box<Message>>>,
    ) -> Result<Next, Failure> {
        let Some(response) = parts.into_iter().flatten().next() else { return Ok(Next::Continue) };
        match &self.target {
            Target::Body => {
                let direction = message.direction;
                let sent_as = message.properties.get(PropertyScope::Axis2, MESSAGE_TYPE).cloned();
                message.take_response(response, sent_as, scene.budget)?;
                message.direction = direction;
            }
            Target::Element(expression) => replace(expression, scene, message, &response)?,
            Target::Property(name) => {
                scene.budget.charge_memory(response.body.size())?;
                let value = stored(&response, scene)?;
                message.set(PropertyScope::Synapse, name, value, scene.budget)?;
            }
        }
        Ok(Next::Continue)
    }
}

/// Puts the payload of the response in the place of the first node that `expression` selects.
fn replace(
    expression: &Expression,
    scene: &Scene<'_>,
    message: &mut Message,
    response: &Message,
) -> Result<(), Failure> {
    let place = {
        let view = scene.view(message);
        expression.nodes(&view, scene.budget)?.first().map(|node| node.id())
    };
    let place = place.ok_or_else(|| fail(format!("`{expression}` selects nothing")))?;
    let payload = response.body.payload(scene.budget)?;
    let payload = payload.ok_or_else(|| fail("the response has no payload"))?;
    scene.budget.charge_memory(response.body.size())?;
    if let Some(document) = message.body.edit_xml(scene.budget)? {
        let new = document.import(payload)?;
        document.replace(place, new)?;
    }
    Ok(())
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    element.ignore(&["initAxis2ClientOptions", "useServerConfig"]);
    let to = match (element.optional("serviceURL"), element.optional("endpointKey")) {
        (Some(url), _) => {
            let kind = EndpointKind::Address { uri: url.to_owned() };
            To::Endpoint(compiler.new_endpoint(Endpoint { kind, ..Endpoint::default() }))
        }
        (None, Some(key)) => To::Endpoint(compiler.endpoint_named(element, key)?),
        (None, None) => endpoint(compiler, element)?,
    };
    let action = element.optional("action").map(Into::into);
    if let Some(child) = element.child("configuration") {
        compiler.warning(&child, "`configuration` has no effect: there is no Axis2", None);
    }
    if let Some(child) = element.child("enableSec") {
        let help = "let the service accept requests without WS-Security on an internal network";
        compiler.error(&child, "`enableSec` is not supported", Some(help));
    }
    let source = match element.child("source") {
        Some(child) => source(compiler, &child)?,
        None => Source::Envelope,
    };
    let target = match element.child("target") {
        Some(child) => target(compiler, &child)?,
        None => Target::Body,
    };
    Some(Box::new(Callout { to, action, source, target }))
}

fn source(compiler: &mut Compiler, child: &Element<'_>) -> Option<Source> {
    let kind = child.optional("type");
    if let Some(other) = kind.filter(|kind| *kind != "envelope") {
        let help = "write `envelope`, or `xpath` or `key` instead";
        return compiler.reject(child, format!("unknown value `{other}` of `type`"), Some(help));
    }
    let source = match (child.optional("key"), child.optional("xpath")) {
        _ if kind.is_some() => Source::Envelope,
        (Some(key), _) => match compiler.entry_or_none(key) {
            Some(entry) => Source::Entry(entry),
            None => Source::Property(key.into()),
        },
        (None, Some(xpath)) => Source::Element(child.compiled(compiler, xpath)?),
        (None, None) => {
            let help = "write `xpath`, `key` or type=\"envelope\"";
            return compiler.reject(child, "`source` is empty", Some(help));
        }
    };
    child.finish(compiler);
    Some(source)
}

fn target(compiler: &mut Compiler, child: &Element<'_>) -> Option<Target> {
    let target = match (child.optional("key"), child.optional("xpath")) {
        (Some(key), _) => Target::Property(key.into()),
        (None, Some(xpath)) => Target::Element(child.compiled(compiler, xpath)?),
        (None, None) => {
            let help = "write `xpath` or `key`";
            return compiler.reject(child, "`target` is empty", Some(help));
        }
    };
    child.finish(compiler);
    Some(target)
}
