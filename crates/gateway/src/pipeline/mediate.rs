//! Mediation of an exchange: changes of the request before it is forwarded, and of the response.
//!
//! Life of a request: admit -> **mediate** -> forward -> **mediate** -> deliver. Most exchanges are forwarded as they
//! are, but for a few header fields; others pass through the response cache. The messages of services and of operations
//! with policies go through a flow of mediation, which sends requests by itself, as often as it needs.

use std::rc::Rc;

use model::{Api, Fault, Operation};
use wire::http1::{Field, Known};

use super::caching::{self, Caching, Looked};
use crate::exchange::Exchange;
use crate::exchange::client::Client;
use crate::exchange::response::{Body, Response};
use crate::exchange::route::Route;
use crate::forward::UpstreamResponse;
use crate::identity::{credentials, outgoing_head};
use crate::integration;
use crate::message::{HeadEdits, Request};
use crate::shares::share::Admitted;
use crate::tasks::boxed::boxed;
use crate::worker::compiled::Compiled;

/// Result of the mediation of a request.
pub(crate) enum Mediated {
    /// It is forwarded with these changes, and perhaps the cache looks at its response.
    Forward { edits: Box<HeadEdits>, caching: Option<Box<Caching>> },
    /// The response is there.
    Response(Response),
}

/// Changes a request, or finds its response.
///
/// # Errors
/// Any [`Fault`] of its flow.
pub(super) async fn mediate_request<C: Client>(
    exchange: &mut Exchange<'_>,
    revision: &Rc<Compiled>,
    route: &Route<'_>,
    admitted: &mut Admitted,
    client: &mut C,
) -> Result<Mediated, Box<Fault>> {
    let Exchange { worker, request, .. } = *exchange;
    let routes = route.api.routes();
    let api: &Api = &routes.api;
    let Some(operation) = route.operation().filter(|operation| !has_flow(operation)) else {
        let admitted = std::mem::take(admitted);
        // Boxed, so that it does not enlarge every task.
        let mediated = boxed(|| integration::mediate(exchange, revision, route, admitted, client));
        let response = mediated.await?;
        if api.caches {
            caching::invalidate(worker, routes, request, response.head.status());
        }
        return Ok(Mediated::Response(response));
    };
    let mut caching = None;
    if api.caches {
        let is_personal = route.assertion.is_some() || is_personal(request, api);
        let default_s = operation.response_cache;
        match caching::look_up(worker, routes, route.set, request, is_personal, default_s) {
            Looked::Hit(response) => return Ok(Mediated::Response(*response)),
            Looked::Miss(forwarded) => caching = Some(forwarded),
            Looked::Bypass => {}
        }
    }
    let mut edits = worker.resources.edits();
    if let Some(caching) = &caching {
        caching.validate(&mut edits);
    }
    outgoing_head::prepare(exchange, revision, route, &mut edits);
    Ok(Mediated::Forward { edits, caching })
}

/// Whether a flow of mediation carries the messages of an operation.
fn has_flow(operation: &Operation) -> bool {
    operation.policies.as_ref().is_some_and(|policies| policies.mediate_exchanges())
}

/// Changes the response to a request that was forwarded with these changes.
///
/// # Errors
/// The fault of the upstream or of the client.
pub(super) fn mediate_response(
    exchange: &mut Exchange<'_>,
    (edits, caching): (Box<HeadEdits>, Option<Box<Caching>>),
    response: Result<UpstreamResponse, Box<Fault>>,
) -> Result<Response, Box<Fault>> {
    let resources = &exchange.worker.resources;
    resources.release_edits(edits);
    let UpstreamResponse { mut head, body } = response?;
    if head.parsed.find(Known::Date).is_none() {
        resources.append_date(&mut head.edits);
    }
    exchange.upstream_responded();
    let response = Response { head, body: Body::Streaming(body), tap: None };
    Ok(match caching {
        Some(caching) => caching.conclude(exchange.request, response),
        None => response,
    })
}

/// Whether the upstream gets data that identifies the client, so that its response may be for that client only.
fn is_personal(request: &Request, api: &Api) -> bool {
    const PERSONAL: [Known; 5] = [
        Known::Authorization,
        Known::Cookie,
        Known::ApiKey,
        Known::InternalKey,
        Known::XJwtAssertion,
    ];
    let head = &request.head;
    let is_credential = |name: &[u8]| credentials::is_field(api, name);
    let is_kept =
        |field: &Field| api.forward_auth_header || !is_credential(field.name.of(&request.bytes));
    let sends = |known| head.find(known).is_some_and(is_kept);
    let sends_user = |name: &&str| head.find_name(&request.bytes, name.as_bytes()).is_some();
    request.peer.certificate.is_some()
        || request.certificate().is_some()
        || PERSONAL.into_iter().any(sends)
        || api.forward_auth_header && credentials::are_sent(request, api)
        || head.find(Known::Identity).is_some()
            && ["remote-user", "x-remote-user"].iter().any(sends_user)
}
