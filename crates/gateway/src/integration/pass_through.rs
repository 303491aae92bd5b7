//! Requests that a service only sends on, as they come: no run is made for them, unless the exchange fails. What chooses
//! the way may read the body, which is held then.

use bytes::Bytes;
use expression::Budget;
use mediation::{Arrival, Failure, Flow, Properties, Target};
use model::Fault;

use super::Start;
use super::environment::RunEnvironment;
use super::exchange::{self, Sender};
use super::response::{Returned, returned};
use crate::compiled::Compiled;
use crate::exchange::Exchange;
use crate::flow::Held;
use crate::forward::UpstreamResponse;
use crate::held_request::HeldRequest;
use crate::message::Request;
use crate::request_body::RequestBody;
use crate::response::Response;
use crate::worker::Worker;

/// A request that is sent on, and what a run needs if that fails.
pub(super) struct Passing {
    sender: Sender,
    /// `None`: the client's body is sent as it comes.
    held: Option<Bytes>,
    flow: Flow,
    properties: Properties,
    arrival: Arrival,
    budget: Budget,
}

impl Passing {
    pub(super) fn new(
        start: Start,
        environment: RunEnvironment,
        target: Target,
        (request, held): (&Request, Option<Bytes>),
    ) -> Self {
        let Start { flow, mut message, budget } = start;
        message.body.settle(&budget);
        let (properties, arrival) = (std::mem::take(&mut message.properties), message.arrival);
        let framing = held.as_deref().map_or(request.head.framing(), exchange::framing);
        let sender =
            Sender::new(environment, (target, message), None, &request.peer, framing, None);
        Self { sender, held, flow, properties, arrival, budget }
    }

    /// # Errors
    /// Any fault of the target, or the client's.
    pub(super) async fn send<B: RequestBody>(
        &self,
        worker: &Worker,
        revision: &Compiled,
        client: &mut B,
    ) -> Result<UpstreamResponse, Box<Fault>> {
        let Some(bytes) = &self.held else {
            return self.sender.run(worker, revision, client).await;
        };
        // Boxed, so that it does not enlarge what is not held.
        Box::pin(async {
            let mut held = HeldRequest { client, held: Held::new(bytes.clone()) };
            let mut response = self.sender.run(worker, revision, &mut held).await?;
            held.finish_upload(&worker.resources, &mut response, revision.live.stall_ms).await;
            Ok(response)
        })
        .await
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
        let Self { sender, held, flow, properties, arrival, budget } = self;
        let (environment, target) = (sender.environment().clone(), sender.target().clone());
        let mut message = sender.into_message(held);
        (message.properties, message.arrival) = (properties, arrival);
        (Start { flow, message, budget }, environment, (target, exchange::failure(fault)))
    }
}
