//! `filter`: runs one of two branches.

use expression::{BodyUse, Expression};

use crate::error::Failure;
use crate::mediators::values::pattern;
use crate::mediators::values::pattern::with_subject;
use crate::message::Message;
use crate::program::{Mediator, Next, Pattern, Routing, Scene, SequenceId};
use crate::syntax::{Compiler, Element};

#[derive(Debug)]
struct Filter {
    source: Expression,
    /// Absent for `xpath`: whether the result is true, or selects anything.
    pattern: Option<Pattern>,
    then: Option<SequenceId>,
    otherwise: Option<SequenceId>,
}

impl Mediator for Filter {
    fn body_use(&self) -> BodyUse {
        self.source.body_use()
    }

    fn enters(&self) -> Vec<SequenceId> {
        self.then.into_iter().chain(self.otherwise).collect()
    }

    fn can_repeat(&self) -> bool {
        true
    }

    fn routing(&self) -> Option<Routing> {
        Some(Routing::Chooses)
    }

    fn choose(&self, scene: &Scene<'_>, message: &Message) -> Result<Option<SequenceId>, Failure> {
        let holds = match &self.pattern {
            Some(pattern) => with_subject(&self.source, scene, message, |text| {
                text.map_or(Ok(false), |text| pattern.matches(text, scene.budget))
            })??,
            None => scene.holds(&self.source, message)?,
        };
        Ok(if holds { self.then } else { self.otherwise })
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        self.choose(scene, message).map(Next::chosen)
    }
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let condition = element.expression(compiler, "xpath");
    let source = element.expression(compiler, "source");
    let pattern = element.optional("regex");
    if condition.is_some() && (source.is_some() || pattern.is_some()) {
        element.counts(compiler, "`xpath`", "`source` with `regex`");
    }
    let (source, pattern) = match (condition, source, pattern) {
        (Some(condition), ..) => (condition, None),
        (None, Some(source), Some(pattern)) => {
            (source, Some(pattern::compile(compiler, element, pattern)?))
        }
        // They have errors.
        _ if element.optional("xpath").or(element.optional("source").and(pattern)).is_some() => {
            return None;
        }
        _ => {
            let help = "write xpath=\"...\", or source=\"...\" regex=\"...\"";
            return compiler.reject(element, "`filter` needs a condition", Some(help));
        }
    };
    let branch = |compiler: &mut Compiler, name| {
        let child: Element<'_> = element.child(name)?;
        let id = match child.optional("sequence") {
            Some(name) => compiler.sequence_named(&child, name),
            None => Some(compiler.nested(&child)),
        };
        child.finish(compiler);
        id
    };
    let (then, otherwise) = match element.child("then") {
        Some(_) => (branch(compiler, "then"), branch(compiler, "else")),
        None => (Some(compiler.nested(element)), None),
    };
    Some(Box::new(Filter { source, pattern, then, otherwise }))
}
