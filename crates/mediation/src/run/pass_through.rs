//! Requests that a flow only sends on: they need no [`crate::Run`], unless their responses are mediated.

use expression::{BodyUse, Budget};

use crate::error::Failure;
use crate::limits;
use crate::message::Message;
use crate::program::{
    EndpointKind, Environment, Flow, Mediator, Program, Routing, Scene, SequenceId, To,
};
use crate::run::{At, Sent, Target};

/// Why a message does not pass through, or not yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detour {
    /// The body is read on the way. When it is held, [`Program::passes_through`] finds out more.
    Body,
    /// A [`crate::Run`] has to decide about it.
    Run,
}

impl From<Failure> for Detour {
    /// A run fails again, and has error handlers.
    fn from(_: Failure) -> Self {
        Self::Run
    }
}

/// How a request passes through a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Where it is sent as it is.
    pub target: Target,
    /// For the run that goes on with the response: [`crate::Run::sent`]. `None`: the response is returned unchanged.
    pub response: Option<Sent>,
}

/// How far a message has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Begun,
    /// The response continues in the sequence for responses.
    Sent(To),
    /// The response continues here, after this step, if it is one of the flow's own.
    Called(To, Option<At>),
    Returned(To),
}

impl Program {
    /// How `message`, a request that has just arrived, passes through `flow`: if nothing happens to it before it is
    /// sent. If the exchange fails, a run sends the same message to the same target again, and goes on with the error
    /// handlers.
    ///
    /// # Errors
    /// The detour that the message needs first.
    pub fn passes_through(
        &self,
        flow: &Flow,
        message: &Message,
        environment: &dyn Environment,
        budget: &Budget,
    ) -> Result<Passage, Detour> {
        if flow.request.is_some_and(|sequence| !self.may_pass(sequence)) {
            return Err(Detour::Run);
        }
        // A run moves longer work to another thread.
        let withheld = budget.withhold_steps(limits::HEAVY_STEPS);
        let scene = Scene { program: self, environment, budget, parameters: &[] };
        let before = (budget.bytes_used(), message.kept());
        let passage = self.passage(&scene, flow, message);
        message.release_since(before, budget);
        budget.release_steps(withheld);
        passage
    }

    fn passage(
        &self,
        scene: &Scene<'_>,
        flow: &Flow,
        message: &Message,
    ) -> Result<Passage, Detour> {
        let mut way = Way::Begun;
        if let Some(sequence) = flow.request {
            self.follow(scene, message, (sequence, 0), &mut way)?;
        }
        let (to, called) = match (way, flow.endpoint) {
            (Way::Begun, Some(endpoint)) => (To::Endpoint(endpoint), None),
            (Way::Sent(to) | Way::Returned(to), _) => (to, None),
            (Way::Called(to, Some(at)), _) => (to, Some(at)),
            (Way::Called(_, None), _) | (Way::Begun, None) => return Err(Detour::Run),
        };
        let To::Endpoint(id) = to else { return Err(Detour::Run) };
        let endpoint = self.endpoint_at(id).ok_or(Detour::Run)?;
        let is_one = matches!(
            endpoint.kind,
            EndpointKind::Address { .. } | EndpointKind::Http { .. } | EndpointKind::Upstream
        );
        let is_plain = is_one
                && endpoint.body_use() == BodyUse::Untouched
                && endpoint.timeout_of.is_none()
                && endpoint.properties.is_empty()
                // A body that is held would be encoded.
                && (self.charset_of(id).is_none() || message.body.state() == BodyUse::Untouched);
        let returns = match way {
            Way::Begun | Way::Sent(_) => self.returns(flow.response),
            Way::Called(..) => false,
            Way::Returned(_) => true,
        };
        // Steps that read the response make a run read the envelope of such a request.
        let reads_to = called.and_then(|at| at.step(self)).is_some_and(|step| step.reads_to);
        if !is_plain || reads_to && message.is_soap() {
            return Err(Detour::Run);
        }
        let response = (!returns).then_some(Sent { called, endpoint: id });
        Ok(Passage { target: Target::resolve(scene, message, to)?, response })
    }

    /// Follows a sequence to its end, or to a call whose response a run goes on with.
    ///
    /// # Errors
    /// It does more than to choose and to send, or the body has to be held first.
    fn follow(
        &self,
        scene: &Scene<'_>,
        message: &Message,
        (sequence, depth): (SequenceId, usize),
        way: &mut Way,
    ) -> Result<(), Detour> {
        if depth > limits::PASS_THROUGH_DEPTH_MAX {
            return Err(Detour::Run);
        }
        for (index, step) in self.get(sequence).ok_or(Detour::Run)?.steps.iter().enumerate() {
            let routing = step.mediator.routing();
            if matches!(*way, Way::Called(_, Some(_)))
                && depth == 0
                && routing != Some(Routing::Returns)
            {
                return Ok(());
            }
            scene.budget.charge_steps(limits::MEDIATOR_STEPS).map_err(Failure::from)?;
            *way = match (routing.ok_or(Detour::Run)?, *way) {
                (Routing::Chooses, Way::Begun) => {
                    if step.reads_to && message.is_soap() {
                        // It knows whether a later step reads the envelope.
                        return Err(Detour::Run);
                    }
                    check_body(&*step.mediator, message)?;
                    if let Some(entered) = step.mediator.choose(scene, message)? {
                        self.follow(scene, message, (entered, depth + 1), way)?;
                    }
                    continue;
                }
                (Routing::Sends(to), Way::Begun) => Way::Sent(to),
                (Routing::Calls(to), Way::Begun) => {
                    Way::Called(to, (depth == 0).then_some(At { sequence, index }))
                }
                (Routing::Returns, Way::Called(to, _)) => Way::Returned(to),
                (
                    Routing::Chooses | Routing::Sends(_) | Routing::Calls(_) | Routing::Returns,
                    Way::Begun | Way::Sent(_) | Way::Called(..) | Way::Returned(_),
                ) => return Err(Detour::Run),
            };
        }
        Ok(())
    }

    /// Whether a sequence for responses returns every one as it is.
    fn returns(&self, sequence: Option<SequenceId>) -> bool {
        let Some(sequence) = sequence else { return true };
        let Some(sequence) = self.get(sequence) else { return false };
        sequence.steps.first().is_none_or(|step| {
            let routing = step.mediator.routing();
            matches!(routing, Some(Routing::Sends(To::Implied) | Routing::Returns))
        })
    }
}

/// Whether a mediator may read the body here and now.
///
/// # Errors
/// The body is not held, or is so large that a run moves the step to another thread.
fn check_body(mediator: &dyn Mediator, message: &Message) -> Result<(), Detour> {
    if mediator.body_use() == BodyUse::Untouched {
        return Ok(());
    }
    if message.body.state() == BodyUse::Untouched {
        return Err(Detour::Body);
    }
    let is_heavy = limits::takes_long(message.body.size_to_read(), mediator.ns_per_byte());
    if is_heavy { Err(Detour::Run) } else { Ok(()) }
}
