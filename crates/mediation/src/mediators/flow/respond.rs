//! `respond`, `loopback`, `drop`, `in`, `out`: which way the message goes.

use crate::error::Failure;
use crate::message::{Direction, Message};
use crate::program::{Mediator, Next, Routing, Scene, SequenceId};
use crate::syntax::{Compiler, Element};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    Respond,
    Loopback,
    Drop,
}

impl Mediator for Turn {
    fn mediate(&self, _: &Scene<'_>, _: &mut Message) -> Result<Next, Failure> {
        Ok(match self {
            Self::Respond => Next::Respond,
            Self::Loopback => Next::Loopback,
            Self::Drop => Next::Drop,
        })
    }

    fn routing(&self) -> Option<Routing> {
        match self {
            Self::Respond => Some(Routing::Returns),
            Self::Loopback | Self::Drop => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Only {
    direction: Direction,
    branch: SequenceId,
}

impl Mediator for Only {
    fn enters(&self) -> Vec<SequenceId> {
        vec![self.branch]
    }

    fn mediate(&self, _: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let runs = message.direction == self.direction;
        Ok(if runs { Next::Enter(self.branch) } else { Next::Continue })
    }
}

pub(crate) fn respond(_: &mut Compiler, _: &Element<'_>) -> Option<Box<dyn Mediator>> {
    Some(Box::new(Turn::Respond))
}

pub(crate) fn loopback(_: &mut Compiler, _: &Element<'_>) -> Option<Box<dyn Mediator>> {
    Some(Box::new(Turn::Loopback))
}

pub(crate) fn drop_message(_: &mut Compiler, _: &Element<'_>) -> Option<Box<dyn Mediator>> {
    Some(Box::new(Turn::Drop))
}

pub(crate) fn request_only(
    compiler: &mut Compiler,
    element: &Element<'_>,
) -> Option<Box<dyn Mediator>> {
    let branch = compiler.nested(element);
    Some(Box::new(Only { direction: Direction::Request, branch }))
}

pub(crate) fn response_only(
    compiler: &mut Compiler,
    element: &Element<'_>,
) -> Option<Box<dyn Mediator>> {
    let branch = compiler.nested(element);
    Some(Box::new(Only { direction: Direction::Response, branch }))
}
