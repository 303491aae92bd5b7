//! Admission: may this request be forwarded now?
//!
//! Life of a request: throttle -> **admit** -> mediate. A request counts in the share of its client, of its API and of
//! the whole worker ([`Share`]), so that no client and no API takes all upstream connections. It waits for its place
//! rather than being rejected, since a place is often free a moment later.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use base::limits::{
    EARLY_UPLOADS_MAX, EARLY_UPLOADS_PER_API_MAX, EARLY_UPLOADS_PER_CLIENT_MAX, UPLOAD_START_MS,
};
use model::{Denial, Fault};
use wire::http1::BodyFraming;

use crate::body::request_body::{Unwanted, body_fault};
use crate::exchange::Exchange;
use crate::exchange::client::Client;
use crate::message::Request;
use crate::shares::gate::Gate;
use crate::shares::share::{Admitted, Places, Share, Whose};
use crate::tasks::watch::Place;
use crate::worker::Worker;
use crate::worker::api::WorkerApi;
use crate::worker::compiled::Live;

/// The shares that a request counts in, and its limits there.
struct Shares<'a> {
    /// `None`: a trusted proxy, whose clients are not known.
    client: Option<&'a Share>,
    api: &'a Share,
    all: &'a Share,
    /// The API's.
    key: u32,
    /// Most requests of the client, of the API and of the worker.
    requests_max: [usize; 3],
}

/// Waits until the request's body flows, for its places, which the record holds, and for its turn.
///
/// # Errors
/// [`Denial::ClientBusy`] or [`Denial::Overloaded`]; the body is malformed; or the client left or sent nothing in time.
pub(super) async fn admit<C: Client>(
    exchange: &mut Exchange<'_>,
    live: &Live,
    api: &WorkerApi,
    client: &mut C,
) -> Result<Admitted, Box<Fault>> {
    let Exchange { worker, request, .. } = *exchange;
    let shares = Shares::of(worker, live, request, api);
    let early_upload = if request.head.framing() == BodyFraming::None {
        Places::default()
    } else {
        body_flows(worker, live, request, &shares, client).await?
    };
    let places = match shares.try_places() {
        Some(places) => places,
        // Boxed, so that the rare case does not enlarge every future.
        None => {
            drop(client.take_turn());
            Box::pin(shares.wait(worker, live, client)).await?
        }
    };
    client.watch().has(Place::Holds(api.key()));
    let turn = match client.take_turn() {
        Some(turn) => Some(turn),
        None if worker.saturation.is_full() && request.peer.is_own(worker.own_connections()) => {
            None
        }
        None => Some(worker.saturation.turn(&worker.resources, client).await?),
    };
    exchange.record.places = places;
    Ok(Admitted { early_upload, turn })
}

/// Waits for the first byte of the body, or all of a short one. After `UPLOAD_START_MS` the request may go on without
/// it, if few others do; the places count it as one of them. gRPC does so at once, since its clients may read before
/// they write, and so does a client that waits for a 100, which it gets when the upstream connection is there.
///
/// # Errors
/// The body is malformed, or the client left or sent nothing within `stall_ms`.
async fn body_flows<C: Client>(
    worker: &Worker,
    live: &Live,
    request: &Request,
    shares: &Shares<'_>,
    client: &mut C,
) -> Result<Places, Box<Fault>> {
    if request.head.expects_continue()
        && let Some(early) = shares.try_early_upload()
    {
        return Ok(early);
    }
    let mut is_late = request.is_grpc();
    let wait_ms = if is_late { live.stall_ms } else { UPLOAD_START_MS };
    client.watch().set(worker.resources.deadline_us(wait_ms));
    client.watch().client_is_slow(true, worker.resources.coarse_us());
    let flows = poll_fn(|cx| {
        match client.poll_gather(cx) {
            Poll::Ready(Ok(())) => return Poll::Ready(Ok(Places::default())),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(body_fault(error))),
            Poll::Pending => {}
        }
        if let Poll::Ready(fault) = client.poll_left(cx, true) {
            return Poll::Ready(Err(fault));
        }
        let expired = client.watch().poll_expired(cx);
        if (expired || is_late)
            && let Some(early) = shares.try_early_upload()
        {
            return Poll::Ready(Ok(early));
        }
        if expired && is_late {
            return Poll::Ready(Err(Fault::ClientTimeout.into()));
        }
        if expired {
            is_late = true;
            client.watch().set(worker.resources.deadline_us(live.stall_ms));
            // Registers with the new deadline.
            let _ = client.watch().poll_expired(cx);
        }
        Poll::Pending
    })
    .await;
    // From now on it waits for others.
    client.watch().client_is_slow(false, worker.resources.coarse_us());
    flows
}

impl<'a> Shares<'a> {
    fn of(worker: &'a Worker, live: &Live, request: &'a Request, api: &'a WorkerApi) -> Self {
        let all_max = worker.descriptors.requests_max;
        Self {
            client: request.peer.share(),
            api: &api.share,
            all: &worker.share,
            key: api.key(),
            requests_max: [live.client_requests_max, all_max.min(live.api_requests_max), all_max],
        }
    }

    /// A place in each share, if all have one now.
    fn try_places(&self) -> Option<Places> {
        self.try_each(self.requests_max, |share| &share.requests)
    }

    fn try_early_upload(&self) -> Option<Places> {
        const MAX: [usize; 3] =
            [EARLY_UPLOADS_PER_CLIENT_MAX, EARLY_UPLOADS_PER_API_MAX, EARLY_UPLOADS_MAX];
        self.try_each(MAX, |share| &share.early_uploads)
    }

    fn try_each(
        &self,
        [client_max, api_max, all_max]: [usize; 3],
        gate: impl Fn(&Share) -> &Rc<Gate>,
    ) -> Option<Places> {
        let client = match self.client {
            Some(share) => Some(gate(share).try_pass(client_max)?),
            None => None,
        };
        let api = gate(self.api).try_pass(api_max)?;
        Some([client, Some(api), Some(gate(self.all).try_pass(all_max)?)])
    }

    /// A place in each share, as soon as there is one. The slowest requests of an API give way to one that waits for a
    /// place in it, and the slowest of all APIs to one that waits for any; no request gives way in a client's own
    /// share.
    async fn wait<C: Client>(
        &self,
        worker: &Worker,
        live: &Live,
        client: &mut C,
    ) -> Result<Places, Box<Fault>> {
        client.watch().set(worker.resources.deadline_us(live.connect_ms));
        let shares = [
            (self.client, Whose::Nobody, Denial::ClientBusy),
            (Some(self.api), Whose::Api(self.key), Denial::Overloaded),
            (Some(self.all), Whose::Anybody, Denial::Overloaded),
        ];
        let mut places = Places::default();
        for ((place, most), (share, whose, denial)) in
            places.iter_mut().zip(self.requests_max).zip(shares)
        {
            let Some(Share { requests: gate, .. }) = share else { continue };
            *place = match gate.try_pass(most) {
                Some(pass) => Some(pass),
                None => {
                    if whose != Whose::Nobody {
                        client.watch().has(Place::Waits(self.key));
                    }
                    let waited = worker.crowds.wait(gate, whose, client).await;
                    // The client has more than an even share.
                    let gives_way = client.watch().gives_way();
                    let denial = if gives_way { Denial::ClientBusy } else { denial };
                    client.watch().has(Place::None);
                    Some(waited.map_err(|unwanted| denied(unwanted, denial, gives_way))?)
                }
            };
        }
        Ok(places)
    }
}

fn denied(unwanted: Unwanted, denial: Denial, gives_way: bool) -> Box<Fault> {
    match unwanted {
        Unwanted::Left(fault) if !gives_way => fault,
        Unwanted::TimeUp | Unwanted::Left(_) => Fault::Denied(denial).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_without_bodies_are_limited_by_client_by_api_and_in_all() {
        let all = Share::default();
        let enter = |client: Option<&Share>, api: &Share| {
            let requests_max = [usize::MAX; 3];
            Shares { client, api, all: &all, key: 1, requests_max }.try_early_upload()
        };
        let fill = |client: Option<&Share>, api: &Share| -> Vec<Places> {
            std::iter::from_fn(|| enter(client, api)).collect()
        };
        let (one, [a, b, c]) = (Share::default(), [(); 3].map(|()| Share::default()));
        let of_one = fill(Some(&one), &a);
        assert_eq!(of_one.len(), EARLY_UPLOADS_PER_CLIENT_MAX);
        let to_a = fill(None, &a);
        assert_eq!(of_one.len() + to_a.len(), EARLY_UPLOADS_PER_API_MAX);
        let (to_b, to_c) = (fill(None, &b), fill(None, &c));
        assert_eq!(to_b.len(), EARLY_UPLOADS_PER_API_MAX);
        let held = of_one.len() + to_a.len() + to_b.len() + to_c.len();
        assert_eq!(held, EARLY_UPLOADS_MAX);
        // A place that was not got leaves none behind in the other shares.
        drop(of_one);
        assert_eq!(fill(Some(&one), &c).len(), EARLY_UPLOADS_PER_CLIENT_MAX);
    }
}
