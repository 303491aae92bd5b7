//! A client that waits for the response of mediation.

use std::future::Future;

use bytes::Bytes;
use model::Fault;
use wire::http1::BodyFraming;

use crate::body::held::Holding;
use crate::body::request_body::{RequestBody, Unwanted, while_wanted};
use crate::exchange::held_request::hold_request;
use crate::shares::gate::Pass;
use crate::shares::share::Places;
use crate::worker::Worker;
use crate::worker::compiled::Stall;

/// The client as long as it waits for its response, and the framing of its body.
pub(super) struct Waiting<'c, B> {
    pub(super) client: &'c mut B,
    pub(super) framing: BodyFraming,
    /// The place of a request whose body has not come: it counts until the body is used.
    pub(super) early_upload: Places,
    /// Until the head of its response, unless the client is waited for.
    pub(super) turn: Option<Pass>,
}

impl<B: RequestBody> Waiting<'_, B> {
    /// Reads the client's body.
    ///
    /// # Errors
    /// The client's error, or the body lacks room.
    pub(super) async fn hold(
        &mut self,
        worker: &Worker,
        holding: &Holding,
        stall: Stall,
    ) -> Result<Bytes, Box<Fault>> {
        let Self { client, framing, early_upload, turn } = self;
        let had_turn = turn.is_some();
        let held =
            hold_request(worker, (&mut **client, &mut *turn), *framing, holding, stall).await?;
        *early_upload = Places::default();
        if had_turn && turn.is_none() {
            *turn = Some(worker.saturation.turn(&worker.resources, &mut **client).await?);
        }
        Ok(held)
    }
}

/// The output of `future`, as long as the client waits for it. Exchanges have limits of their own.
pub(super) async fn while_waiting<B: RequestBody, F: Future>(
    client: &mut Option<Waiting<'_, B>>,
    future: F,
) -> Result<F::Output, Box<Fault>> {
    let Some(Waiting { client, .. }) = client else { return Ok(future.await) };
    client.watch().set(u64::MAX);
    match while_wanted(&mut **client, future).await {
        Ok(output) => Ok(output),
        Err(Unwanted::Left(fault)) => Err(fault),
        Err(Unwanted::TimeUp) => Err(Fault::ClientLeft.into()),
    }
}
