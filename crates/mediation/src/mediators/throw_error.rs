//! `throwError`: fails on purpose. Its type is the `ERROR_CODE`.

use expression::{BodyUse, Expression};

use crate::compile::{Compiler, Element};
use crate::run::Scene;
use crate::{Code, Failure, Mediator, Message, Next};

/// The type and the message of one without. Source: Synapse's `ThrowErrorMediatorFactory`.
const DEFAULT: [&str; 2] = ["ANY", "Error occurred in the mediation flow"];

#[derive(Debug)]
struct ThrowError {
    kind: Box<str>,
    message: Expression,
}

impl Mediator for ThrowError {
    fn body_use(&self) -> BodyUse {
        self.message.body_use()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let mut failure = Failure::new(Code::MEDIATION, scene.text(&self.message, message)?);
        failure.kind = Some(self.kind.to_string());
        Err(failure)
    }
}

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let [kind, text] = DEFAULT;
    let kind = element.optional("type").unwrap_or(kind).into();
    let text = element.optional("errorMessage").unwrap_or(text);
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let message = match inner {
        Some(inner) => element.compiled(compiler, inner)?,
        None if text.starts_with("${") => element.compiled(compiler, text)?,
        None => Expression::literal(text),
    };
    Some(Box::new(ThrowError { kind, message }))
}
