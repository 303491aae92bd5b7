//! `sequence`: runs another sequence.

use expression::{BodyUse, Expression};

use crate::error::{Code, Failure};
use crate::message::Message;
use crate::program::{Mediator, Next, Routing, Scene, SequenceId};
use crate::syntax::{Compiler, Element};

/// A sequence by its name.
#[derive(Debug)]
pub(crate) enum Sequence {
    Named(SequenceId),
    /// `{expression}`: the name is known when the message is there.
    Computed(Expression),
}

impl Sequence {
    pub(crate) fn compile(
        compiler: &mut Compiler,
        element: &Element<'_>,
        name: &str,
    ) -> Option<Self> {
        Some(match element.computed(compiler, name)? {
            Some(name) => Self::Computed(name),
            None => Self::Named(compiler.sequence_named(element, name)?),
        })
    }

    /// The one that is known at load.
    pub(crate) fn named(&self) -> Option<SequenceId> {
        match self {
            Self::Named(sequence) => Some(*sequence),
            Self::Computed(_) => None,
        }
    }

    /// Body use of its name.
    pub(crate) fn name_use(&self) -> BodyUse {
        match self {
            Self::Named(_) => BodyUse::Untouched,
            Self::Computed(name) => name.body_use(),
        }
    }

    /// # Errors
    /// No sequence has this name.
    pub(crate) fn find(&self, scene: &Scene<'_>, message: &Message) -> Result<SequenceId, Failure> {
        match self {
            Self::Named(sequence) => Ok(*sequence),
            Self::Computed(name) => sequence_named(scene, &scene.text(name, message)?),
        }
    }
}

/// # Errors
/// There is none.
pub(crate) fn sequence_named(scene: &Scene<'_>, name: &str) -> Result<SequenceId, Failure> {
    let missing = || Failure::new(Code::MEDIATION, format!("there is no sequence `{name}`"));
    scene.program.sequence(name).ok_or_else(missing)
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
        self.named().into_iter().collect()
    }

    fn routing(&self) -> Option<Routing> {
        Some(Routing::Chooses)
    }

    fn choose(&self, scene: &Scene<'_>, message: &Message) -> Result<Option<SequenceId>, Failure> {
        self.find(scene, message).map(Some)
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        self.choose(scene, message).map(Next::chosen)
    }
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    // A name makes it one of its own. Source: Synapse's `SequenceMediatorFactory`.
    if element.optional("name").is_some() {
        return Some(Box::new(Sequence::Named(compiler.inline(element))));
    }
    let key = element.required(compiler, "key")?;
    Some(Box::new(Sequence::compile(compiler, element, key)?))
}
