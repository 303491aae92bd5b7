//! `sequence`: runs another sequence.

use expression::{BodyUse, Expression};

use crate::compile::{Compiler, Element};
use crate::program::SequenceId;
use crate::run::Scene;
use crate::{Code, Failure, Mediator, Message, Next};

#[derive(Debug)]
enum Sequence {
    Named(SequenceId),
    /// `key="{expression}"`: the name is known when the message is there.
    Computed(Expression),
}

impl Mediator for Sequence {
    /// Any sequence may be entered by a computed name.
    fn body_use(&self) -> BodyUse {
        match self {
            Self::Named(_) => BodyUse::Untouched,
            Self::Computed(_) => BodyUse::Rewritten,
        }
    }

    fn enters(&self) -> Vec<SequenceId> {
        match self {
            Self::Named(sequence) => vec![*sequence],
            Self::Computed(_) => Vec::new(),
        }
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let sequence = match self {
            Self::Named(sequence) => *sequence,
            Self::Computed(name) => {
                let name = scene.text(name, message)?;
                scene.program.sequence(&name).ok_or_else(|| {
                    Failure::new(Code::MEDIATION, format!("there is no sequence `{name}`"))
                })?
            }
        };
        Ok(Next::Enter(sequence))
    }
}

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let key = element.required(compiler, "key")?;
    let inner = key.strip_prefix('{').and_then(|key| key.strip_suffix('}'));
    Some(Box::new(match inner {
        Some(inner) => Sequence::Computed(element.compiled(compiler, inner)?),
        None => Sequence::Named(compiler.sequence_named(element, key)?),
    }))
}
