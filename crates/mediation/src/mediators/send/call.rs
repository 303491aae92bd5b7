//! `send` and `call`: the message goes to an endpoint.

use std::sync::Arc;

use expression::{BodyUse, Budget, Expression, json, markup};

use crate::error::{Code, Failure};
use crate::mediators::flow::sequence::{Sequence, sequence_named};
use crate::mediators::values::inline::Inline;
use crate::message::{
    Body, Direction, Format, MESSAGE_TYPE, Message, NO_ENTITY_BODY, PropertyScope, PropertyValue,
};
use crate::program::{Mediator, Next, Routing, Scene, SequenceId, To};
use crate::run::exchange::RECEIVING_SEQUENCE;
use crate::syntax::{Compiler, Element};

/// The property (axis2) with the statuses that are no failures for a sender that blocks.
const NON_ERROR_STATUSES: &str = "non.error.http.status.codes";

#[derive(Debug)]
struct Send {
    to: To,
    receive: Option<Sequence>,
    /// `buildmessage`: the body is read before it is sent.
    builds: bool,
}

impl Mediator for Send {
    fn body_use(&self) -> BodyUse {
        let own = if self.builds { BodyUse::Read } else { BodyUse::Untouched };
        self.receive.as_ref().map_or(own, |receive| own.max(receive.name_use()))
    }

    fn enters(&self) -> Vec<SequenceId> {
        self.receive.iter().filter_map(Sequence::named).collect()
    }

    fn ns_per_byte(&self) -> u64 {
        0
    }

    fn sends_to(&self) -> Option<To> {
        Some(self.to)
    }

    fn routing(&self) -> Option<Routing> {
        (self.receive.is_none() && !self.builds).then_some(Routing::Sends(self.to))
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        // A response without an endpoint goes back to the client; `RESPONSE` makes it one.
        let declared = || {
            let property = message.properties.get(PropertyScope::Synapse, "RESPONSE");
            property.is_some_and(|value| value.value().truth())
        };
        if self.to == To::Implied && (message.direction == Direction::Response || declared()) {
            return Ok(Next::Respond);
        }
        let receive = match &self.receive {
            Some(receive) => Some(receive.find(scene, message)?),
            None => set_before(scene, message)?,
        };
        Ok(Next::Send { to: self.to, receive })
    }
}

/// The sequence for the response that a property names, which that removes, as `call` does. Source: Synapse's
/// `Axis2SynapseEnvironment.injectMessage` and `CallMediator`.
fn set_before(scene: &Scene<'_>, message: &Message) -> Result<Option<SequenceId>, Failure> {
    let name = message.properties.get(PropertyScope::Synapse, RECEIVING_SEQUENCE);
    name.map(|name| sequence_named(scene, &name.text())).transpose()
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let to = endpoint(compiler, element)?;
    let builds = element.flag(compiler, "buildmessage", false)?;
    let receive = match element.optional("receive") {
        Some(name) => Some(Sequence::compile(compiler, element, name)?),
        None => None,
    };
    Some(Box::new(Send { to, receive, builds }))
}

#[derive(Debug)]
struct Call {
    to: To,
    /// No thread waits for it nevertheless: a failure has another code.
    blocking: bool,
    /// Payload that is sent instead of the body.
    source: Option<Source>,
    /// Where the response is stored instead of in the body.
    target: Option<(PropertyScope, Box<str>)>,
}

#[derive(Debug)]
struct Source {
    payload: Payload,
    content_type: Option<Box<str>>,
}

#[derive(Debug)]
enum Payload {
    Body,
    Computed(Expression),
    Inline(Inline),
}

impl Mediator for Call {
    fn body_use(&self) -> BodyUse {
        match (&self.source, &self.target) {
            (None, None) => BodyUse::Untouched,
            (Some(_), None) => BodyUse::Rewritten,
            (_, Some(_)) => BodyUse::Read,
        }
    }

    fn sends_to(&self) -> Option<To> {
        Some(self.to)
    }

    fn routing(&self) -> Option<Routing> {
        let is_plain = self.source.is_none() && self.target.is_none() && !self.blocking;
        is_plain.then_some(Routing::Calls(self.to))
    }

    fn check_response(
        &self,
        sent: &Message,
        response: &Message,
        budget: &Budget,
    ) -> Result<(), Failure> {
        if self.blocking {
            check_status(sent, response, Code::BLOCKING_CALL, budget)
        } else {
            Ok(())
        }
    }

    /// Source: Synapse's `CallMediator.handleFault`.
    fn exchange_failed(&self, failure: Failure) -> Failure {
        let is_sending = matches!(failure.code.0, 101_000..=101_999 | 303_000..=305_999 | 500_000);
        let code = if self.blocking && is_sending { Code::BLOCKING_CALL } else { failure.code };
        failure.with_code(code)
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        message.remove(PropertyScope::Synapse, RECEIVING_SEQUENCE);
        if self.source.is_none() && self.target.is_none() {
            return Ok(Next::Exchange { to: self.to, part: None });
        }
        let mut part = message.copy(scene.budget)?;
        if let Some(source) = &self.source {
            source.fill(scene, message, &mut part)?;
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
            None => {
                let (direction, sent_as) = (message.direction, self.sent_as(message));
                message.take_response(response, sent_as, scene.budget)?;
                message.direction = direction;
            }
            Some((scope, name)) => {
                scene.budget.charge_memory(response.body.size())?;
                let value = stored(&response, scene)?;
                if *scope == PropertyScope::Variable {
                    set_variable(name, value, &response, message, scene)?;
                } else {
                    message.set(*scope, name, value, scene.budget)?;
                }
            }
        }
        Ok(Next::Continue)
    }
}

impl Call {
    /// The `messageType` of the sent message.
    fn sent_as(&self, message: &Message) -> Option<PropertyValue> {
        match &self.source {
            Some(Source { content_type: Some(content_type), .. }) => {
                Some(PropertyValue::new(&**content_type))
            }
            Some(Source { payload: Payload::Computed(_) | Payload::Inline(_), .. }) => None,
            Some(Source { payload: Payload::Body, .. }) | None => {
                message.properties.get(PropertyScope::Axis2, MESSAGE_TYPE).cloned()
            }
        }
    }
}

impl Source {
    fn fill(
        &self,
        scene: &Scene<'_>,
        message: &Message,
        part: &mut Message,
    ) -> Result<(), Failure> {
        let text = match &self.payload {
            Payload::Body => None,
            Payload::Computed(expression) => Some(match serialised(scene, message, expression)? {
                Some(xml) => xml,
                None => scene.text(expression, message)?,
            }),
            Payload::Inline(inline) => Some(inline.text(scene, message)?.into_owned()),
        };
        let Some(text) = text else {
            if let Some(content_type) = &self.content_type {
                part.body.convert(Format::of(content_type), scene.budget)?;
                part.set_field("Content-Type", content_type)?;
                part.remove(PropertyScope::Axis2, MESSAGE_TYPE);
            }
            return Ok(());
        };
        scene.budget.charge_memory(text.len())?;
        let format = match &self.content_type {
            Some(content_type) => Format::of(content_type),
            None => Format::guess(text.as_bytes()),
        };
        part.body.replace(format, text.into_bytes(), scene.budget)?;
        let content_type = self.content_type.as_deref().unwrap_or(format.content_type());
        part.declare(content_type)?;
        part.remove(PropertyScope::Axis2, MESSAGE_TYPE);
        part.remove(PropertyScope::Axis2, NO_ENTITY_BODY);
        Ok(())
    }
}

/// For a sender that blocks, only 2xx and the statuses that the sent message excludes are no failures. Source:
/// `handleResponse` of Axis2's `HTTPSender`, and Synapse's `BlockingMsgSender`.
pub(crate) fn check_status(
    sent: &Message,
    response: &Message,
    code: Code,
    budget: &Budget,
) -> Result<(), Failure> {
    let status = response.status();
    let excluded = || {
        let value = sent.properties.get(PropertyScope::Axis2, NON_ERROR_STATUSES)?;
        Some(value.text().split(',').any(|one| one.trim().parse() == Ok(status)))
    };
    if (200..300).contains(&status) || excluded().unwrap_or_default() {
        return Ok(());
    }
    let is_held = response.body.state() != BodyUse::Untouched;
    let reason = if is_held { response.soap_fault(budget).ok().flatten() } else { None };
    Err(Failure::new(code, reason.unwrap_or_else(|| format!("Transport error: {status}"))))
}

/// The first node that the expression selects, as XML.
pub(crate) fn serialised(
    scene: &Scene<'_>,
    message: &Message,
    expression: &Expression,
) -> Result<Option<String>, Failure> {
    if !expression.selects_nodes() {
        return Ok(None);
    }
    let view = scene.view(message);
    let Ok(nodes) = expression.nodes(&view, scene.budget) else { return Ok(None) };
    let Some(node) = nodes.first().filter(|node| node.is_element()) else { return Ok(None) };
    let bytes = markup::write(*node, scene.budget)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The body of a response as a value: JSON and XML as such.
pub(crate) fn stored(response: &Message, scene: &Scene<'_>) -> Result<PropertyValue, Failure> {
    let body: &Body = &response.body;
    let text = body.text(scene.budget)?;
    let value = match body.format() {
        Format::Json => {
            let document = json::Document::parse(text.as_bytes());
            document.ok().map(|it| PropertyValue::Json(Arc::new(it.into_owned())))
        }
        Format::Xml | Format::Soap11 | Format::Soap12 => {
            let document = body.payload(scene.budget)?.map(|payload| {
                let xml = markup::write(payload, scene.budget)?;
                scene.budget.release_memory(xml.len());
                Ok::<_, Failure>(xml::Document::parse(&xml)?)
            });
            document.transpose()?.map(|it| PropertyValue::Xml(Arc::new(it)))
        }
        Format::Text | Format::Binary | Format::Form | Format::Multipart => None,
    };
    Ok(value.unwrap_or_else(|| PropertyValue::new(text.into_owned())))
}

/// A response in a variable: `payload`, `headers` and `attributes`, as in Micro Integrator 4.4. XML is in a variable of
/// its own, too, where `xpath('//a', 'name.payload')` finds it.
fn set_variable(
    name: &str,
    payload: PropertyValue,
    response: &Message,
    message: &mut Message,
    scene: &Scene<'_>,
) -> Result<(), Failure> {
    let budget = scene.budget;
    payload.value().charge_copy(budget)?;
    let mut out = json::Builder::new();
    out.begin_object().key("payload");
    payload.value().build(&mut out);
    out.key("headers").begin_object();
    let mut fields = Vec::new();
    response.head.fields(&mut |name, value| fields.push((name.to_owned(), value.to_owned())));
    for (name, value) in &fields {
        budget.charge_memory(name.len() + value.len())?;
        out.key(name).string(value);
    }
    out.end().key("attributes").begin_object();
    out.key("statusCode").number(&response.status().to_string()).end().end();
    let whole = PropertyValue::Json(Arc::new(out.finish()));
    message.set(PropertyScope::Variable, name, whole, budget)?;
    let xml = format!("{name}.payload");
    match payload.xml() {
        Some(_) => message.set(PropertyScope::Variable, &xml, payload, budget),
        None => {
            message.remove(PropertyScope::Variable, &xml);
            Ok(())
        }
    }
}

pub(crate) fn call(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let blocking = element.flag(compiler, "blocking", false)?;
    element.flag(compiler, "initAxis2ClientOptions", true)?;
    let source = match element.child("source") {
        Some(child) => Some(call_source(compiler, &child)?),
        None => None,
    };
    let target = match element.child("target") {
        Some(child) => call_target(compiler, &child)?,
        None => None,
    };
    Some(Box::new(Call { to: endpoint(compiler, element)?, blocking, source, target }))
}

/// `source type="body|property|inline|custom" contentType="..."`.
fn call_source(compiler: &mut Compiler, child: &Element<'_>) -> Option<Source> {
    #[derive(Clone, Copy)]
    enum Kind {
        Custom,
        Body,
        Property,
        Inline,
    }
    let kinds = [
        ("custom", Kind::Custom),
        ("body", Kind::Body),
        ("property", Kind::Property),
        ("inline", Kind::Inline),
    ];
    let kind = child.choice(compiler, "type", &kinds)?;
    let content_type = child.optional("contentType").map(Into::into);
    let text = child.node().string_value();
    let text = text.trim();
    let payload = match kind {
        Kind::Body => Payload::Body,
        Kind::Custom => {
            let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
            Payload::Computed(child.compiled(compiler, inner.unwrap_or(text))?)
        }
        Kind::Property => {
            Payload::Computed(child.compiled(compiler, &format!("get-property('{text}')"))?)
        }
        Kind::Inline => Payload::Inline(Inline::compile(compiler, child)?),
    };
    child.finish(compiler);
    Some(Source { payload, content_type })
}

/// `target type="body|property|variable"`; the name is its text.
fn call_target(
    compiler: &mut Compiler,
    child: &Element<'_>,
) -> Option<Option<(PropertyScope, Box<str>)>> {
    let kinds = [
        ("body", None),
        ("property", Some(PropertyScope::Synapse)),
        ("variable", Some(PropertyScope::Variable)),
    ];
    let scope = child.choice(compiler, "type", &kinds)?;
    let text = child.node().string_value();
    let name = child.optional("name").unwrap_or(text.trim());
    if scope.is_some() && name.is_empty() {
        return compiler.reject(child, "`target` needs a name as its text", None);
    }
    child.finish(compiler);
    Some(scope.map(|scope| (scope, name.into())))
}

/// The child `endpoint`; without one, the message's own address.
pub(crate) fn endpoint(compiler: &mut Compiler, element: &Element<'_>) -> Option<To> {
    let Some(child) = element.child("endpoint") else { return Some(To::Implied) };
    Some(To::Endpoint(compiler.endpoint(&child)?))
}
