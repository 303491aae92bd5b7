//! Admission: may this request be forwarded now?
//!
//! Life of a request: throttle -> **admit** -> mediate. A request counts in the share of its client, of its API and of
//! the whole worker ([`Share`]), so that no client and no API takes all upstream connections. It waits for its place
//! rather than being rejected, since a place is often free a moment later.

use std::future::poll_fn;
use std::task::Poll;

use base::limits::{
    EARLY_UPLOADS_MAX, EARLY_UPLOADS_PER_API_MAX, EARLY_UPLOADS_PER_CLIENT_MAX, UPLOAD_START_MS,
};
use model::{Denial, Fault};
use wire::http1::BodyFraming;

use crate::client::Client;
use crate::compiled::Live;
use crate::exchange::Exchange;
use crate::gate::Pass;
use crate::message::Request;
use crate::request_body::{Unwanted, body_fault};
use crate::share::{Places, Share, Whose};
use crate::worker::Worker;
use crate::worker_api::WorkerApi;

/// One of the shares that a request counts in, and its limits.
struct Limited<'a> {
    share: &'a Share,
    requests_max: usize,
    early_uploads_max: usize,
    /// Why a request is denied that has waited too long for its place.
    denial: Denial,
    /// Whose slowest requests give way to one that waits.
    whose: Whose,
}

/// The shares of a request.
struct Shares<'a>([Option<Limited<'a>>; 3]);

/// What an admitted request holds until the head of the response.
#[derive(Default)]
pub(crate) struct Admitted {
    /// If its body had not begun.
    pub(crate) early_upload: Places,
    pub(crate) turn: Option<Pass>,
}

/// Waits until the request's body flows, for its places, which the record holds, and for its turn.
///
/// # Errors
/// [`Denial::ClientBusy`] or [`Denial::Overloaded`]; the body is malformed; or the client left or sent nothing in time.
pub(crate) async fn admit<C: Client>(
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
    client.watch().holds_place(Some(api.key()));
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

/// Waits for the first byte of the body, or all of a short one. After `UPLOAD_START_MS` the request may go on without it,
/// if few others do; the places count it as one of them. gRPC does so at once, since its clients may read before they
/// write, and so does a client that waits for a 100, which it gets when the upstream connection is there.
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
        let all = worker.descriptors.requests_max;
        let requests_max = [live.client_requests_max, all.min(live.api_requests_max), all];
        let shares = (request.peer.share(), &*api.share, &worker.share);
        Self::new(shares, api.key(), requests_max)
    }

    /// `shares` and `requests_max`: of the client, of the API with this key, and of the worker.
    fn new(
        (client, api, all): (Option<&'a Share>, &'a Share, &'a Share),
        key: u32,
        requests_max: [usize; 3],
    ) -> Self {
        let [client_max, api_max, all_max] = requests_max;
        Self([
            client.map(|share| Limited {
                share,
                requests_max: client_max,
                early_uploads_max: EARLY_UPLOADS_PER_CLIENT_MAX,
                denial: Denial::ClientBusy,
                whose: Whose::Nobody,
            }),
            Some(Limited {
                share: api,
                requests_max: api_max,
                early_uploads_max: EARLY_UPLOADS_PER_API_MAX,
                denial: Denial::Overloaded,
                whose: Whose::Api(key),
            }),
            Some(Limited {
                share: all,
                requests_max: all_max,
                early_uploads_max: EARLY_UPLOADS_MAX,
                denial: Denial::Overloaded,
                whose: Whose::Anybody,
            }),
        ])
    }

    /// A place in each share, if all have one now.
    fn try_places(&self) -> Option<Places> {
        self.try_each(|limited| limited.share.requests.try_pass(limited.requests_max))
    }

    fn try_early_upload(&self) -> Option<Places> {
        self.try_each(|limited| limited.share.early_uploads.try_pass(limited.early_uploads_max))
    }

    fn try_each(&self, enter: impl Fn(&Limited<'_>) -> Option<Pass>) -> Option<Places> {
        let mut places = Places::default();
        for (place, limited) in places.iter_mut().zip(&self.0) {
            if let Some(limited) = limited {
                *place = Some(enter(limited)?);
            }
        }
        Some(places)
    }

    /// A place in each share, as soon as there is one.
    async fn wait<C: Client>(
        &self,
        worker: &Worker,
        live: &Live,
        client: &mut C,
    ) -> Result<Places, Box<Fault>> {
        client.watch().set(worker.resources.deadline_us(live.connect_ms));
        let mut places = Places::default();
        for (place, limited) in places.iter_mut().zip(&self.0) {
            let Some(limited) = limited else { continue };
            let gate = &limited.share.requests;
            *place = match gate.try_pass(limited.requests_max) {
                Some(pass) => Some(pass),
                None => {
                    let waited = worker.crowds.wait(gate, limited.whose, client).await;
                    Some(waited.map_err(|unwanted| denied(unwanted, limited.denial))?)
                }
            };
        }
        Ok(places)
    }
}

fn denied(unwanted: Unwanted, denial: Denial) -> Box<Fault> {
    match unwanted {
        Unwanted::TimeUp => Fault::Denied(denial).into(),
        Unwanted::Left(fault) => fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_without_bodies_are_limited_by_client_by_api_and_in_all() {
        let all = Share::default();
        let enter = |client: Option<&Share>, api: &Share| {
            Shares::new((client, api, &all), 1, [usize::MAX; 3]).try_early_upload()
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
