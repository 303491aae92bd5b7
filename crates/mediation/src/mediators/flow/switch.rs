//! `switch`: runs the first case whose pattern matches.

use expression::{BodyUse, Expression};

use crate::error::Failure;
use crate::mediators::values::pattern;
use crate::mediators::values::pattern::with_subject;
use crate::message::Message;
use crate::program::{Mediator, Next, Pattern, Routing, Scene, SequenceId};
use crate::syntax::{Compiler, Element};

#[derive(Debug)]
struct Switch {
    source: Expression,
    cases: Vec<(Pattern, SequenceId)>,
    default: Option<SequenceId>,
}

impl Mediator for Switch {
    fn body_use(&self) -> BodyUse {
        self.source.body_use()
    }

    fn enters(&self) -> Vec<SequenceId> {
        self.cases.iter().map(|(_, branch)| *branch).chain(self.default).collect()
    }

    fn can_repeat(&self) -> bool {
        true
    }

    fn routing(&self) -> Option<Routing> {
        Some(Routing::Chooses)
    }

    fn choose(&self, scene: &Scene<'_>, message: &Message) -> Result<Option<SequenceId>, Failure> {
        with_subject(&self.source, scene, message, |text| {
            for (pattern, branch) in text.map_or(&[][..], |_| &self.cases) {
                if pattern.matches(text.unwrap_or_default(), scene.budget)? {
                    return Ok(Some(*branch));
                }
            }
            Ok(self.default)
        })?
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        self.choose(scene, message).map(Next::chosen)
    }
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let source = element.required(compiler, "source")?;
    let source = element.compiled(compiler, source)?;
    let (mut cases, mut default) = (Vec::new(), None);
    for child in element.children() {
        match child.name() {
            "case" => {
                child.ignore(&["regex"]);
                // An empty one matches the empty text.
                let pattern = match child.attribute("regex") {
                    Some(pattern) => pattern,
                    None => child.required(compiler, "regex")?,
                };
                let pattern = pattern::compile(compiler, &child, pattern)?;
                cases.push((pattern, compiler.nested(&child)));
            }
            "default" => default = Some(compiler.nested(&child)),
            _ => {
                element.ignores(compiler, &child, &["case", "default"]);
                continue;
            }
        }
        child.finish(compiler);
    }
    Some(Box::new(Switch { source, cases, default }))
}
