//! `clone`: copies of the message go their own ways.

use std::collections::VecDeque;

use expression::BodyUse;

use crate::error::Failure;
use crate::mediators::values::items::Target;
use crate::message::Message;
use crate::program::{Fork, Mediator, Next, Scene, SequenceId};
use crate::syntax::{Compiler, Element};

#[derive(Debug)]
struct Clone {
    id: Option<Box<str>>,
    continues: bool,
    sequential: bool,
    targets: Vec<Target>,
}

impl Mediator for Clone {
    fn body_use(&self) -> BodyUse {
        // Copies share the views of a body.
        BodyUse::Read
    }

    fn enters(&self) -> Vec<SequenceId> {
        self.targets.iter().filter_map(Target::sequence).collect()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        scene.charge_parts(self.targets.len())?;
        let parts = self.targets.iter().map(|target| {
            let mut copy = message.copy(scene.budget)?;
            target.address(&mut copy, scene.budget)?;
            Ok::<_, Failure>(target.part(copy))
        });
        let parts: Box<VecDeque<_>> = Box::new(parts.collect::<Result<_, _>>()?);
        let (id, continues, sequential) = (self.id.clone(), self.continues, self.sequential);
        Ok(Next::Fork(Fork { parts, id, continues, sequential }))
    }
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let id = element.optional("id").map(Into::into);
    let continues = element.flag(compiler, "continueParent", false)?;
    let sequential = element.flag(compiler, "sequential", false)?;
    let mut targets = Vec::new();
    for child in element.children() {
        if child.name() == "target" {
            targets.push(Target::compile(compiler, &child)?);
        } else {
            element.ignores(compiler, &child, &["target"]);
        }
    }
    Some(Box::new(Clone { id, continues, sequential, targets }))
}
