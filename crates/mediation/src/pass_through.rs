//! Requests that a flow only sends on, with responses that it only returns: they need no [`crate::Run`].

use expression::{BodyUse, Budget};

use crate::mediator::To;
use crate::message::Environment;
use crate::program::{EndpointKind, Program, SequenceId, Step};
use crate::run::{Scene, Target};
use crate::service::Flow;
use crate::{Message, Next, limits};

/// What a mediator does to the way of a message, if it does nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// [`crate::Mediator::mediate`] enters a sequence or continues, and changes nothing.
    Chooses,
    /// A request is sent, and its response continues in the sequence for responses; without an address, a response goes
    /// back to the client.
    Sends(To),
    /// A request is sent, and the response takes its place.
    Calls(To),
    /// The message goes back to the client.
    Returns,
}

/// How far a message came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Begun,
    /// The response continues in the sequence for responses.
    Sent(To),
    /// The response continues here.
    Called(To),
    Returned(To),
}

impl Program {
    /// Where `message`, a request that has just arrived, is sent, if `flow` does nothing but to send it there and to
    /// return the response, whatever that is. `None`: a [`crate::Run`] finds out what becomes of it. If the exchange
    /// fails, a run does the same again, and goes on with the error handlers.
    pub fn passes_through(
        &self,
        flow: &Flow,
        message: &mut Message,
        environment: &dyn Environment,
    ) -> Option<Target> {
        // A run moves what takes longer to another thread.
        let budget = Budget::new(limits::HEAVY_STEPS, limits::PASS_THROUGH_BYTES_MAX);
        let scene = Scene { program: self, environment, budget: &budget, parameters: &[] };
        let mut way = Way::Begun;
        if let Some(sequence) = flow.request {
            self.follow(&scene, message, (sequence, 0), &mut way)?;
        }
        let to = match (way, flow.endpoint) {
            (Way::Begun, Some(endpoint)) if self.returns(flow.response) => To::Endpoint(endpoint),
            (Way::Sent(to), _) if self.returns(flow.response) => to,
            (Way::Returned(to), _) => to,
            (Way::Begun | Way::Sent(_) | Way::Called(_), _) => return None,
        };
        let To::Endpoint(id) = to else { return None };
        let endpoint = self.endpoint_at(id)?;
        let is_plain =
            matches!(endpoint.kind, EndpointKind::Address { .. } | EndpointKind::Http { .. });
        if !is_plain || !endpoint.properties.is_empty() {
            return None;
        }
        let target = Target::resolve(&scene, message, to).ok()?;
        target.takes_any_body().then_some(target)
    }

    /// Follows a sequence to its end. `None`: it does more than to choose and to send.
    fn follow(
        &self,
        scene: &Scene<'_>,
        message: &mut Message,
        (sequence, depth): (SequenceId, usize),
        way: &mut Way,
    ) -> Option<()> {
        if depth > limits::PASS_THROUGH_DEPTH_MAX {
            return None;
        }
        for step in &self.get(sequence)?.steps {
            scene.budget.charge_steps(limits::MEDIATOR_STEPS).ok()?;
            *way = match (step.mediator.routing()?, *way) {
                (Routing::Chooses, Way::Begun) => {
                    if let Some(entered) = choice(step, scene, message)? {
                        self.follow(scene, message, (entered, depth + 1), way)?;
                    }
                    continue;
                }
                (Routing::Sends(to), Way::Begun) => Way::Sent(to),
                (Routing::Calls(to), Way::Begun) => Way::Called(to),
                (Routing::Returns, Way::Called(to)) => Way::Returned(to),
                _ => return None,
            };
        }
        Some(())
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

/// The sequence that a step enters, if it enters one. `None`: it failed, or needs the body.
fn choice(step: &Step, scene: &Scene<'_>, message: &mut Message) -> Option<Option<SequenceId>> {
    if step.mediator.body_use() != BodyUse::Untouched {
        return None;
    }
    match step.mediator.mediate(scene, message) {
        Ok(Next::Enter(sequence)) => Some(Some(sequence)),
        Ok(Next::Continue) => Some(None),
        Ok(_) | Err(_) => None,
    }
}
