//! Requests that a service only sends on, as they come: no run is made for them, unless the exchange fails.

use expression::Budget;
use mediation::{Failure, Flow, Properties, Target};
use model::Fault;

use super::Start;
use super::environment::RunEnvironment;
use super::exchange::{self, Sender};
use super::response::{Returned, returned};
use crate::exchange::Exchange;
use crate::forward::UpstreamResponse;
use crate::message::Request;
use crate::response::Response;

/// A request that is sent on, and what a run needs if that fails.
pub(super) struct Passing {
    pub(super) sender: Sender,
    flow: Flow,
    properties: Properties,
    budget: Budget,
}

impl Passing {
    pub(super) fn new(
        start: Start,
        environment: RunEnvironment,
        target: Target,
        request: &Request,
    ) -> Self {
        let Start { flow, mut message, budget } = start;
        let properties = std::mem::take(&mut message.properties);
        let framing = request.head.framing();
        let sender =
            Sender::new(environment, (target, message), None, &request.peer, framing, None);
        Self { sender, flow, properties, budget }
    }

    /// The response to the client.
    pub(super) fn returned(
        self,
        exchange: &mut Exchange<'_>,
        response: UpstreamResponse,
    ) -> Response {
        exchange.upstream_responded();
        let worker = exchange.worker;
        self.sender.release(&worker.resources);
        let Returned { head, stream } = Returned::of(response, &worker.resources);
        returned(worker, head, stream)
    }

    /// What a run starts with, and what it gets instead of sending the request to the same target.
    pub(super) fn failed(self, fault: &Fault) -> (Start, RunEnvironment, (Target, Failure)) {
        let Self { sender, flow, properties, budget } = self;
        let (environment, target) = (sender.environment().clone(), sender.target().clone());
        let mut message = sender.into_message(None);
        message.properties = properties;
        (Start { flow, message, budget }, environment, (target, exchange::failure(fault)))
    }
}
