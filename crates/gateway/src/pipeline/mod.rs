//! The life of an exchange, in both directions. Read [`exchange`] first: each step is the module of that name.

mod admission;
mod authenticate;
mod caching;
mod deliver;
mod mediate;
mod route;
mod throttle;

use std::rc::Rc;

use base::Method;
use model::{Api, Fault};
use wire::http1::{BodyFraming, Known, Upgrade};

use crate::exchange::client::Client;
use crate::exchange::route::{Route, Target};
use crate::exchange::{Exchange, cross_origin};
use crate::forward::{Balancer, Forwarding};
use crate::identity::{credentials, sign_in};
use crate::integration::policies;
use crate::message::{HeadEdits, Outgoing, Request};
use crate::tasks::boxed::boxed;
use crate::upstream_auth::backend_auth::forward;
use crate::worker::Worker;
use crate::worker::compiled::Compiled;
use admission::admit;
use authenticate::{assert_caller, authenticate, authorise};
use deliver::{Delivery, deliver};
use mediate::{Mediated, mediate_request, mediate_response};
use route::{Routed, route};
use throttle::throttle;

/// One exchange, from a parsed or rejected head to the last byte of the response. One that is dropped before is settled
/// then.
pub(crate) async fn exchange<C: Client>(
    worker: &Worker,
    parsed: Result<(), Box<Fault>>,
    request: &Request,
    client: &mut C,
) {
    let revision = worker.compiled();
    let mut exchange = Exchange::open(worker, request);
    let mut responded = async {
        parsed?;
        let mut route = match route(&mut exchange, &revision)? {
            Routed::Target(route) => route,
            Routed::Own(response) => return Ok(*response),
            // Boxed, so that it does not enlarge every task.
            Routed::Login => {
                return boxed(|| sign_in::respond(&mut exchange, &revision, client)).await;
            }
        };
        let caller = authenticate(&mut exchange, &revision, &mut route, client).await?;
        let grant = authorise(&revision, &mut route, caller.as_deref())?;
        assert_caller(&exchange, &revision, &mut route, caller.as_ref());
        throttle(&mut exchange, &revision, &route, caller, grant)?;
        route.choose_endpoints()?;
        let mut admitted = admit(&mut exchange, &revision.live, &route.api, client).await?;
        let mediated =
            mediate_request(&mut exchange, &revision, &route, &mut admitted, client).await?;
        let mut response = match mediated {
            Mediated::Forward { edits, caching } => {
                let how = forwarding(&exchange, &revision, &route, route.balancer()?);
                let outgoing = outgoing(&exchange, &route, &edits);
                let response = forward(worker, &revision, &how, &outgoing, client).await;
                drop(admitted);
                mediate_response(&mut exchange, (edits, caching), response)?
            }
            Mediated::Response(response) => response,
        };
        cross_origin::mediate(request, route.api.routes(), &mut response.head.edits);
        Ok(response)
    }
    .await;
    sign_in::give_renewed(&mut exchange, &revision);
    if let Ok(response) = &mut responded {
        credentials::refuse_sessions(&mut response.head, &revision.live.logins);
        exchange.add_lines(&mut response.head.edits);
    }
    policies::mediate_fault(&mut exchange, &revision, &mut responded).await;
    exchange.report(&responded, &revision.quotas.plans);
    let delivery = Delivery::of(&revision.live);
    // Dropped now, so that a long body does not keep a revision alive.
    drop(revision);
    deliver(&mut exchange, responded, delivery, client).await;
    exchange.settle();
}

/// How a request is forwarded.
fn forwarding<'r>(
    exchange: &Exchange<'r>,
    revision: &'r Compiled,
    route: &'r Route<'_>,
    to: &'r Rc<Balancer>,
) -> Forwarding<'r> {
    let (retries, begun_us) = (&exchange.worker.tally.retries, exchange.record.started_us);
    let operation = match route.target {
        Target::Operation(number) => number,
        Target::Service(_) => 0,
    };
    Forwarding {
        operation,
        forward_fields: &route.api.routes().api.forward_fields,
        ..revision.live.forwarding(retries, to, begun_us)
    }
}

/// The forwarded request.
fn outgoing<'r>(
    exchange: &Exchange<'r>,
    route: &'r Route<'_>,
    edits: &'r HeadEdits,
) -> Outgoing<'r> {
    let request = exchange.request;
    let upgrade = may_upgrade(request, &route.api.routes().api);
    Outgoing::of(request, route.remainder, edits, upgrade)
}

/// Whether this request may turn its connection into a tunnel: always for WebSocket, for other
/// protocols where the API lists them, never for `h2c`, whose requests would bypass the gateway.
fn may_upgrade(request: &Request, api: &Api) -> bool {
    if !matches!(request.head.framing(), BodyFraming::None | BodyFraming::Length(0)) {
        return false;
    }
    match request.head.upgrade(&request.bytes) {
        Upgrade::None => false,
        Upgrade::WebSocket => request.head.method() == Method::Get,
        Upgrade::Other => request.head.find(Known::Upgrade).is_some_and(|field| {
            let name = field.value.of(&request.bytes);
            !name.eq_ignore_ascii_case(b"h2c")
                && api.upgrades.iter().any(|allowed| name.eq_ignore_ascii_case(allowed.as_bytes()))
        }),
    }
}
