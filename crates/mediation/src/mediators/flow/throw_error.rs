//! `throwError`: fails on purpose. The `type` is the `ERROR_CODE`.

use expression::{BodyUse, Expression};

use crate::error::{Code, Failure};
use crate::mediators::values::text::Text;
use crate::message::Message;
use crate::program::{Mediator, Next, Scene};
use crate::syntax::{Compiler, Element};

/// The type and the message of one without. Source: Synapse's `ThrowErrorMediatorFactory`.
const DEFAULT: [&str; 2] = ["ANY", "Error occurred in the mediation flow"];

#[derive(Debug)]
struct ThrowError {
    kind: Box<str>,
    message: Reason,
}

#[derive(Debug)]
enum Reason {
    Expression(Expression),
    Text(Text),
}

impl Mediator for ThrowError {
    fn body_use(&self) -> BodyUse {
        match &self.message {
            Reason::Expression(expression) => expression.body_use(),
            Reason::Text(text) => text.body_use(),
        }
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let reason = match &self.message {
            Reason::Expression(expression) => scene.text(expression, message)?,
            Reason::Text(text) => text.render(scene, message)?,
        };
        let mut failure = Failure::new(Code::MEDIATION, reason);
        failure.kind = Some(self.kind.to_string());
        Err(failure)
    }
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let [kind, text] = DEFAULT;
    let kind = element.optional("type").unwrap_or(kind).into();
    let text = element.optional("errorMessage").unwrap_or(text);
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let message = match inner {
        Some(inner) => Reason::Expression(element.compiled(compiler, inner)?),
        None => Reason::Text(Text::compile(compiler, element, text)?),
    };
    Some(Box::new(ThrowError { kind, message }))
}
