//! Routing: which operation of which API, or which service, a request is for.
//!
//! Life of a request: **route** -> authenticate. The routes are those of `stages::route`; the listener of the request
//! decides whether they are those of APIs or of services.

use std::rc::Rc;

use base::Method;
use model::{Denial, Fault, Lifecycle, MethodSet};

use crate::artefacts::{FoundService, Service};
use crate::exchange::response::Response;
use crate::exchange::route::{Route, Target};
use crate::exchange::{Exchange, cross_origin};
use crate::message::{Request, Serves};
use crate::worker::compiled::Compiled;

/// The result of routing.
pub(crate) enum Routed<'a> {
    Target(Route<'a>),
    /// The gateway's own response.
    Own(Box<Response>),
    /// A path of a login, where a browser signs in or out.
    Login,
}

/// Finds the API and operation, or the service, of a request on its listener.
///
/// # Errors
/// [`Fault::Denied`].
pub(super) fn route<'a, 'e: 'a>(
    exchange: &mut Exchange<'e>,
    revision: &'a Compiled,
) -> Result<Routed<'a>, Box<Fault>> {
    let Exchange { worker, request, .. } = *exchange;
    let path = request.head.path(&request.bytes);
    let serves = request.peer.serves;
    if serves == Serves::Apis && revision.live.logins.own(path) {
        return Ok(Routed::Login);
    }
    if path == b"*" {
        return Ok(Routed::Own(Box::new(worker.own_response(200))));
    }
    match serves {
        Serves::Apis => operation(exchange, revision),
        Serves::Integration | Serves::Inbound(_) => service(exchange, revision),
    }
}

/// Finds the service, and records it even if it is not served on this transport.
///
/// # Errors
/// [`Fault::Denied`].
fn service<'a, 'e: 'a>(
    exchange: &mut Exchange<'e>,
    revision: &'a Compiled,
) -> Result<Routed<'a>, Box<Fault>> {
    let Exchange { worker, request, .. } = *exchange;
    let integration = &revision.integration;
    let FoundService { routes, service, remainder, is_served } = integration.find(request)?;
    let api = worker.services.get(routes, &worker.pools);
    exchange.record.api = Some(Rc::clone(&api.account));
    if !is_served {
        return Err(Fault::Denied(Denial::UnsupportedTransport).into());
    }
    if let Service::Api(number) = service {
        let methods = || integration.methods(number, request, remainder);
        if let Some(fields) = cross_origin::preflight(request, routes, methods) {
            return Ok(Routed::Own(Box::new(worker.own_response_with(204, &fields))));
        }
        if let Some(allow) = allowed(request, methods) {
            return Ok(Routed::Own(Box::new(worker.own_response_with(200, allow.as_bytes()))));
        }
    }
    Ok(Routed::Target(Route::new(api, Target::Service(service), remainder)))
}

/// The `Allow` of the response to `OPTIONS` for resources with other methods alone. Source: Synapse's
/// `Resource.sendOptions`.
fn allowed(request: &Request, methods: impl FnOnce() -> MethodSet) -> Option<String> {
    if request.head.method() != Method::Options {
        return None;
    }
    let all = methods();
    let is_mediated = all.is_empty() || all.contains(Method::Options);
    (!is_mediated).then(|| format!("Allow: {all}\r\n"))
}

/// Finds the operation, and records the API even if none of its operations matches.
///
/// # Errors
/// [`Fault::Denied`].
fn operation<'a, 'e: 'a>(
    exchange: &mut Exchange<'e>,
    revision: &'a Compiled,
) -> Result<Routed<'a>, Box<Fault>> {
    let Exchange { worker, request, record, .. } = exchange;
    let (head, bytes) = (&request.head, request.bytes.as_slice());
    let (host, path) = (head.host(bytes), head.path(bytes));
    let (api, remainder, found) =
        match revision.routes.find(host, head.method(), path, request.secure) {
            Ok(found) => (Some(found.api), found.remainder, Ok(found.operation)),
            Err(not_found) => {
                record.allow = not_found.allow;
                (not_found.api, not_found.remainder, Err(not_found.denial))
            }
        };
    let Some(routes) = api else {
        return Err(Fault::Denied(found.err().unwrap_or(Denial::NoApi)).into());
    };
    let api = worker.apis.get(routes, &worker.pools);
    record.api = Some(Rc::clone(&api.account));
    record.operation = found.ok();
    let state = match routes.api.lifecycle {
        // An API that was not published yet is for internal keys: `authorise` checks it.
        Lifecycle::Created | Lifecycle::Published | Lifecycle::Deprecated => Ok(()),
        Lifecycle::Blocked => Err(Denial::ApiBlocked),
        Lifecycle::Retired => Err(Denial::NoApi),
    };
    state.map_err(Fault::Denied)?;
    if found.is_ok() && routes.api.strict_paths && head.has_ambiguous_path() {
        return Err(Fault::Denied(Denial::AmbiguousPath).into());
    }
    if matches!(found, Ok(_) | Err(Denial::MethodNotAllowed))
        && let Some(fields) = cross_origin::preflight(request, routes, || routes.methods(remainder))
    {
        return Ok(Routed::Own(Box::new(worker.own_response_with(204, &fields))));
    }
    let operation = found.map_err(Fault::Denied)?;
    Ok(Routed::Target(Route::new(api, Target::Operation(operation), remainder)))
}
