//! `throwError`: fails on purpose. Its type is the `ERROR_CODE`.

use expression::{BodyUse, Expression};

use crate::compile::{Compiler, Element};
use crate::run::Scene;
use crate::{Code, Failure, Mediator, Message, Next};

/// The message of one without. Source: Micro Integrator's `ThrowError`.
const DEFAULT: &str = "Error occurred in the mediation flow";

#[derive(Debug)]
struct ThrowError {
    kind: Option<Box<str>>,
    message: Expression,
}

impl Mediator for ThrowError {
    fn body_use(&self) -> BodyUse {
        self.message.body_use()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let mut failure = Failure::new(Code::MEDIATION, scene.text(&self.message, message)?);
        failure.kind = self.kind.as_deref().map(str::to_owned);
        Err(failure)
    }
}

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let kind = element.optional("type").map(Into::into);
    let text = element.optional("errorMessage").unwrap_or(DEFAULT);
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let message = match inner {
        Some(inner) => element.compiled(compiler, inner)?,
        None if text.starts_with("${") => element.compiled(compiler, text)?,
        None => Expression::literal(text),
    };
    Some(Box::new(ThrowError { kind, message }))
}
