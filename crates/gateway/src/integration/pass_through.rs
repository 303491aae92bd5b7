//! Requests that a flow only forwards unchanged: no run is made for them until their response is mediated, or the
//! exchange fails. Conditions that choose the endpoint may read the body, which is held then.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use expression::Budget;
use mediation::{Arrival, Flow, Passage, Properties, Run, Sent};
use model::{Blame, Fault};

use super::exchange::{self, Sender};
use super::pending::answered;
use super::response::{Returned, returned};
use super::session::Session;
use super::waiting::Waiting;
use super::{Start, begin, session};
use crate::body::Held;
use crate::body::request_body::RequestBody;
use crate::exchange::Exchange;
use crate::exchange::held_request::HeldRequest;
use crate::exchange::response::Response;
use crate::forward::UpstreamResponse;
use crate::message::Request;
use crate::shares::share::Places;
use crate::tasks::boxed::boxed;
use crate::worker::Worker;
use crate::worker::compiled::Compiled;

/// Result of passing a request through.
pub(super) enum Passed {
    /// The response goes to the client unchanged.
    Returned(Response),
    /// A run finds out.
    Mediated(Box<Session>),
}

/// A forwarded request, and the state that a later run needs.
pub(super) struct Passing {
    sender: Sender,
    /// `None`: the response is returned as it comes.
    response: Option<Sent>,
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
        Passage { target, response }: Passage,
        (request, held): (&Request, Option<Bytes>),
    ) -> Self {
        let Start { flow, mut message, budget, environment, upstream } = start;
        message.body.settle(&budget);
        let (properties, arrival) = (std::mem::take(&mut message.properties), message.arrival);
        let framing = held.as_deref().map_or(request.head.framing(), exchange::framing);
        let sender =
            Sender::new(environment, (target, message), None, &request.peer, framing, upstream);
        Self { sender, response, held, flow, properties, arrival, budget }
    }

    /// Sends it. If that fails, a run begins with the same exchange.
    ///
    /// # Errors
    /// Any fault of the client.
    pub(super) async fn pass<B: RequestBody>(
        self,
        exchange: &mut Exchange<'_>,
        revision: &Rc<Compiled>,
        waiting: &mut Waiting<'_, B>,
    ) -> Result<Passed, Box<Fault>> {
        let response = match self.send(exchange.worker, revision, &mut *waiting.client).await {
            Ok(response) => response,
            Err(fault) if fault.blame() == Blame::Client => return Err(fault),
            Err(fault) => {
                waiting.early_upload = Places::default();
                return Ok(Passed::Mediated(self.failed(exchange, revision, &fault)));
            }
        };
        let Some(sent) = self.response else {
            return Ok(Passed::Returned(self.returned(exchange, response)));
        };
        waiting.early_upload = Places::default();
        Ok(Passed::Mediated(self.continued(exchange, revision, sent, response)))
    }

    /// # Errors
    /// Any fault of the target, or the client's.
    async fn send<B: RequestBody>(
        &self,
        worker: &Worker,
        revision: &Compiled,
        client: &mut B,
    ) -> Result<UpstreamResponse, Box<Fault>> {
        let Some(bytes) = &self.held else {
            return self.sender.run(worker, revision, client).await;
        };
        // Boxed, so that it does not enlarge the future of requests whose body streams.
        boxed(|| async {
            let mut held = HeldRequest { client, held: Held::new(bytes.clone()) };
            let mut response = self.sender.run(worker, revision, &mut held).await?;
            held.finish_upload(&worker.resources, &mut response, revision.live.stall_ms).await;
            Ok(response)
        })
        .await
    }

    /// The response to the client.
    fn returned(self, exchange: &mut Exchange<'_>, response: UpstreamResponse) -> Response {
        exchange.upstream_responded();
        let worker = exchange.worker;
        self.sender.release(&worker.resources);
        let Returned { head, stream } = Returned::of(response, &worker.resources);
        returned(worker, head, stream)
    }

    /// A run that goes on with the response.
    fn continued(
        self,
        exchange: &Exchange<'_>,
        revision: &Rc<Compiled>,
        sent: Sent,
        response: UpstreamResponse,
    ) -> Box<Session> {
        let Self { sender, held, flow, properties, arrival, budget, .. } = self;
        let (environment, upstream) = sender.surroundings();
        let program = Arc::clone(environment.shared_program());
        let (run, ask) = Run::sent(program, flow, (properties, arrival), budget, sent);
        let mut session = session(exchange, revision, (environment, upstream), run);
        session.answer(answered(&exchange.worker.resources, ask, Ok(response), sender, held));
        session
    }

    /// A run from the beginning, which gets the fault instead of sending the request to the same target.
    fn failed(
        self,
        exchange: &Exchange<'_>,
        revision: &Rc<Compiled>,
        fault: &Fault,
    ) -> Box<Session> {
        let Self { sender, held, flow, properties, arrival, budget, .. } = self;
        let ((environment, upstream), target) = (sender.surroundings(), sender.target().clone());
        let mut message = sender.into_message(held);
        (message.properties, message.arrival) = (properties, arrival);
        let start = Start { flow, message, budget, environment, upstream };
        let mut session = begin(exchange, revision, start);
        session.failed = Some((target, exchange::failure(fault)));
        session
    }
}
