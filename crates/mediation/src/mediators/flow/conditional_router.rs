//! `conditionalRouter`: runs the targets of the routes whose conditions hold. Source: Synapse's
//! `ConditionalRouterMediator`.

use super::respond::Turn;
use crate::error::Failure;
use crate::mediators::content::condition::Condition;
use crate::mediators::content::rewrite::Address;
use crate::mediators::values::items::Target;
use crate::message::Message;
use crate::program::{Mediator, Next, Scene, SequenceId};
use crate::syntax::{Compiler, Element};

/// As messages name the steps of a route.
const ELEMENT: &str = "conditionalRoute";

/// The element's own step.
#[derive(Debug)]
struct Router(SequenceId);

/// Runs the first route whose condition holds.
#[derive(Debug)]
struct Choice {
    routes: Vec<(Condition, SequenceId)>,
    /// The routes behind them.
    otherwise: Option<SequenceId>,
}

/// The sequence of a route whose condition holds.
#[derive(Debug)]
struct Taken(Target);

impl Mediator for Router {
    fn enters(&self) -> Vec<SequenceId> {
        vec![self.0]
    }

    fn mediate(&self, _: &Scene<'_>, _: &mut Message) -> Result<Next, Failure> {
        Ok(Next::Enter(self.0))
    }
}

impl Mediator for Choice {
    fn enters(&self) -> Vec<SequenceId> {
        self.routes.iter().map(|(_, target)| *target).chain(self.otherwise).collect()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let address = Address::of(message, None)?;
        for (condition, target) in &self.routes {
            if condition.holds(&address, scene, message)? {
                return Ok(Next::Enter(*target));
            }
        }
        Ok(self.otherwise.map_or(Next::Continue, Next::Enter))
    }
}

impl Mediator for Taken {
    fn enters(&self) -> Vec<SequenceId> {
        self.0.sequence().into_iter().collect()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        self.0.address(message, scene.budget)?;
        Ok(match (self.0.sequence(), self.0.to()) {
            (Some(sequence), _) => Next::Enter(sequence),
            (None, Some(to)) => Next::Send { to, receive: None },
            (None, None) => Next::Continue,
        })
    }
}

/// A route, and whether it ends the router.
fn route(compiler: &mut Compiler, element: &Element<'_>) -> Option<(Condition, SequenceId, bool)> {
    let ends = element.flag(compiler, "breakRoute", true)?;
    if element.flag(compiler, "asynchronous", false)? {
        let help = "write `clone`, whose targets run concurrently";
        let message = "`asynchronous` routes are not supported";
        return compiler.reject(element, message, Some(help));
    }
    let (Some(condition), Some(target)) = (element.child("condition"), element.child("target"))
    else {
        let message = "`conditionalRoute` needs a `condition` and a `target`";
        return compiler.reject(element, message, None);
    };
    let condition = Condition::compile(compiler, &condition)?;
    let target = Target::compile(compiler, &target)?;
    element.finish(compiler);
    let taken = compiler.sequence_of(element, ELEMENT, vec![Box::new(Taken(target))]);
    Some((condition, taken, ends))
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let continues = element.flag(compiler, "continueAfter", false)?;
    let mut routes = Vec::new();
    for child in element.children() {
        if child.name() == "conditionalRoute" {
            routes.push(route(compiler, &child)?);
        } else {
            element.ignores(compiler, &child, &["conditionalRoute"]);
        }
    }
    let mut steps: Vec<Box<dyn Mediator>> = Vec::new();
    // A route that ends the router is an alternative to all that is behind it.
    while let Some((_, _, ends)) = routes.last() {
        let ends = *ends;
        let from = routes.iter().rposition(|(_, _, other)| *other != ends).map_or(0, |at| at + 1);
        let run =
            routes.split_off(from).into_iter().map(|(condition, taken, _)| (condition, taken));
        if ends {
            let rest = std::mem::take(&mut steps);
            let otherwise =
                (!rest.is_empty()).then(|| compiler.sequence_of(element, ELEMENT, rest));
            steps.push(Box::new(Choice { routes: run.collect(), otherwise }));
        } else {
            let one = |route| Box::new(Choice { routes: vec![route], otherwise: None }) as _;
            steps.splice(..0, run.map(one).collect::<Vec<_>>());
        }
    }
    if !continues {
        steps.push(Box::new(Turn::Drop));
    }
    Some(Box::new(Router(compiler.sequence_of(element, ELEMENT, steps))))
}
