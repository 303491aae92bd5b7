//! Requests that a service only sends on, as they come: no run is made for them, unless the exchange fails.

use std::rc::Rc;

use mediation::Target;
use model::{Blame, Fault};

use super::environment::RunEnvironment;
use super::exchange::{self, Sender};
use super::response::{Returned, returned};
use super::session::Waiting;
use super::{Start, mediate};
use crate::client::Client;
use crate::compiled::Compiled;
use crate::exchange::Exchange;
use crate::response::Response;
use crate::share::Places;

/// Sends the request to `target`, and returns the response. If the exchange fails, the request starts a run, which gets
/// the failure where it would have sent the request.
///
/// # Errors
/// Any [`Fault`].
pub(super) async fn pass_through<C: Client>(
    exchange: &mut Exchange<'_>,
    revision: &Rc<Compiled>,
    mut start: Start,
    (environment, target): (RunEnvironment, Target),
    mut waiting: Waiting<'_, C>,
) -> Result<Response, Box<Fault>> {
    let Exchange { worker, request, .. } = *exchange;
    let properties = std::mem::take(&mut start.message.properties);
    let sent = (target, start.message);
    let sender = Sender::new(environment, sent, None, &request.peer, waiting.framing, None);
    let fault = match sender.run(worker, revision, &mut *waiting.client).await {
        Ok(response) => {
            exchange.upstream_responded();
            sender.release(&worker.resources);
            let Returned { head, stream } = Returned::of(response, &worker.resources);
            return Ok(returned(worker, head, stream));
        }
        Err(fault) if fault.blame() == Blame::Client => return Err(fault),
        Err(fault) => fault,
    };
    waiting.early_upload = Places::default();
    let environment = sender.environment().clone();
    start.message = sender.into_message(None);
    start.message.properties = properties;
    let failure = exchange::failure(&fault);
    Box::pin(mediate(exchange, revision, start, environment, waiting, Some(failure))).await
}
