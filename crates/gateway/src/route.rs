//! Routing: which operation of which API, or which service, a request is for.
//!
//! Life of a request: **route** -> authenticate. The routes are those of `stages::route`; the listener of the request
//! decides whether they are those of APIs or of services.

use std::rc::Rc;
use std::sync::Arc;

use base::Method;
use model::{Denial, Fault, KeyType, Lifecycle, MethodSet, Operation, Security};
use stages::authorise;
use stages::sign_in::Session;

use crate::artefacts::{FoundService, Service};
use crate::client_trust::AcceptedFor;
use crate::compiled::Compiled;
use crate::cross_origin;
use crate::exchange::Exchange;
use crate::forward::Balancer;
use crate::message::{Request, Serves};
use crate::response::Response;
use crate::worker_api::WorkerApi;

/// What serves a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// The operation of the API with this number.
    Operation(usize),
    /// A service of artefacts.
    Service(Service),
}

/// Where a request goes.
pub(crate) struct Route<'a> {
    /// The API, or the service as an API without operations.
    pub(crate) api: Rc<WorkerApi>,
    pub(crate) target: Target,
    /// The path below the API's base path.
    pub(crate) remainder: &'a [u8],
    /// For which of the API's endpoints the client's certificate is accepted.
    pub(crate) certificate: AcceptedFor,
    /// Of the caller's credential, or of its certificate. `None`: the operation needs none.
    pub(crate) key_type: Option<KeyType>,
    /// Whether the caller has presented a token.
    pub(crate) has_token: bool,
    /// That of a browser, with the token.
    pub(crate) session: Option<Arc<Session>>,
    /// What says to the upstream who the caller is.
    pub(crate) assertion: Option<Rc<str>>,
    /// The number of the endpoint set, once it is chosen.
    pub(crate) set: usize,
}

impl<'a> Route<'a> {
    /// One whose caller is not known yet.
    fn new(api: Rc<WorkerApi>, target: Target, remainder: &'a [u8]) -> Self {
        Self {
            api,
            target,
            remainder,
            certificate: AcceptedFor::default(),
            key_type: None,
            has_token: false,
            session: None,
            assertion: None,
            set: 0,
        }
    }

    /// The operation. `None`: the request is for a service.
    pub(crate) fn operation(&self) -> Option<&Operation> {
        match self.target {
            Target::Operation(number) => self.api.routes().api.operations.get(number),
            Target::Service(_) => None,
        }
    }

    /// The credentials that the target requires.
    ///
    /// # Errors
    /// The target does not exist, which no route has.
    pub(crate) fn security(&self) -> Result<&Security, Box<Fault>> {
        let security = match self.target {
            Target::Operation(_) => self.operation().map(|operation| &operation.security),
            Target::Service(_) => self.api.routes().api.service.as_ref().map(|of| &of.security),
        };
        Ok(security.ok_or(Fault::Denied(Denial::NoResource))?)
    }

    /// Whether it is a service that any client may call, which is known when it is loaded.
    pub(crate) fn needs_no_caller(&self) -> bool {
        match self.target {
            Target::Operation(_) => false,
            Target::Service(_) => matches!(self.security(), Ok(Security::Open)),
        }
    }

    /// Chooses the endpoints for the caller's kind of key. A service names its own.
    ///
    /// # Errors
    /// The operation has no endpoints of that kind.
    pub(crate) fn choose_endpoints(&mut self) -> Result<(), Box<Fault>> {
        let Some(operation) = self.operation() else { return Ok(()) };
        let set = authorise::upstream(&self.api.routes().api, operation, self.key_type);
        self.set = set.map_err(Fault::Denied)?;
        Ok(())
    }

    /// The endpoints.
    ///
    /// # Errors
    /// The API has none for this kind of key.
    pub(crate) fn balancer(&self) -> Result<&Rc<Balancer>, Box<Fault>> {
        let balancer = self.api.balancers.get(self.set);
        let denial = || match self.key_type {
            Some(KeyType::Sandbox) => Denial::NoSandboxEndpoint,
            Some(KeyType::Production) | None => Denial::NoProductionEndpoint,
        };
        Ok(balancer.ok_or_else(|| Fault::Denied(denial()))?)
    }
}

/// The result of routing.
pub(crate) enum Routed<'a> {
    Target(Route<'a>),
    /// The gateway's own response.
    Own(Box<Response>),
    /// A path of a login, where a browser signs in or out.
    Login,
}

/// Finds what serves a request on its listener.
///
/// # Errors
/// [`Fault::Denied`].
pub(crate) fn route<'a, 'e: 'a>(
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

/// Finds the operation, and records what is known of it even if there is none.
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
        // What was not published yet is for internal keys: `authorise` checks it.
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
