//! `header`: a header field, or a header block of the SOAP envelope.

use expression::{BodyUse, Expression};

use crate::compile::{Compiler, Element};
use crate::message::Format;
use crate::run::Scene;
use crate::{Failure, Mediator, Message, Next, PropertyScope, PropertyValue};

/// Synapse's names for addressing; they are set as properties that the transport reads, not in the envelope.
const ADDRESSING: &[&str] =
    &["To", "From", "Action", "FaultTo", "ReplyTo", "MessageID", "RelatesTo"];

#[derive(Debug)]
struct Header {
    scope: Scope,
    name: Box<str>,
    /// `None`: it is removed.
    value: Option<Expression>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// A field of the HTTP head.
    Transport,
    Addressing,
}

impl Mediator for Header {
    fn body_use(&self) -> BodyUse {
        self.value.as_ref().map_or(BodyUse::Untouched, Expression::body_use)
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let value = match &self.value {
            Some(value) => Some(scene.text(value, message)?),
            None => None,
        };
        match (self.scope, value) {
            (Scope::Transport, Some(value)) => message.head.set_field(&self.name, &value),
            (Scope::Transport, None) => message.head.remove_field(&self.name),
            (Scope::Addressing, Some(value)) => {
                if &*self.name == "Action" && message.body.format() == Format::Soap11 {
                    message.head.set_field("SOAPAction", &format!("\"{value}\""));
                }
                message.set(PropertyScope::Synapse, &self.name, PropertyValue::new(value))?;
            }
            (Scope::Addressing, None) => message.remove(PropertyScope::Synapse, &self.name),
        }
        Ok(Next::Continue)
    }
}

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let name = element.required(compiler, "name")?;
    let is_transport =
        element.choice(compiler, "scope", &[("default", false), ("transport", true)])?;
    let removes = element.choice(compiler, "action", &[("set", false), ("remove", true)])?;
    let scope = if is_transport {
        if !is_token(name) {
            compiler.error(element, format!("`{name}` is not the name of a header field"), None);
            return None;
        }
        Scope::Transport
    } else if ADDRESSING.contains(&name) {
        Scope::Addressing
    } else {
        let help = format!("write scope=\"transport\", or one of {}", ADDRESSING.join(", "));
        let message = format!("`{name}`: header blocks of the envelope are not served");
        compiler.error(element, message, Some(help));
        return None;
    };
    let value = if removes { None } else { Some(element.value_or_expression(compiler)?) };
    Some(Box::new(Header { scope, name: name.into(), value }))
}

/// Source: RFC 9110 section 5.6.2.
fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
