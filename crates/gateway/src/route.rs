//! Routing: which operation of which API a request is for.
//!
//! Life of a request: **route** -> authenticate. The routes are those of `stages::route`.

use std::rc::Rc;
use std::sync::Arc;

use model::{Denial, Fault, KeyType, Lifecycle, Operation};
use stages::authorise;
use stages::sign_in::Session;

use crate::client_trust::AcceptedFor;
use crate::compiled::Compiled;
use crate::cross_origin;
use crate::exchange::Exchange;
use crate::forward::Balancer;
use crate::response::Response;
use crate::worker_api::WorkerApi;

/// Where a request goes.
pub(crate) struct Route<'a> {
    pub(crate) api: Rc<WorkerApi>,
    /// The number of the operation.
    pub(crate) operation: usize,
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

impl Route<'_> {
    /// # Errors
    /// There is none of this number, which no route has.
    pub(crate) fn operation(&self) -> Result<&Operation, Box<Fault>> {
        let operations = &self.api.routes().api.operations;
        let operation = operations.get(self.operation);
        Ok(operation.ok_or(Fault::Denied(Denial::NoResource))?)
    }

    /// Chooses the endpoints for the caller's kind of key.
    ///
    /// # Errors
    /// The operation has none for it.
    pub(crate) fn choose_endpoints(&mut self) -> Result<(), Box<Fault>> {
        let set = authorise::upstream(&self.api.routes().api, self.operation()?, self.key_type);
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

pub(crate) enum Routed<'a> {
    Operation(Route<'a>),
    /// The gateway's own response.
    Own(Box<Response>),
}

/// Finds the operation, and records what is known of it even if there is none.
///
/// # Errors
/// [`Fault::Denied`].
pub(crate) fn route<'a>(
    exchange: &mut Exchange<'a>,
    revision: &Compiled,
) -> Result<Routed<'a>, Box<Fault>> {
    let Exchange { worker, request, record, .. } = exchange;
    let (head, bytes) = (&request.head, request.bytes.as_slice());
    let (host, path) = (head.host(bytes), head.path(bytes));
    if path == b"*" {
        return Ok(Routed::Own(Box::new(worker.own_response(200))));
    }
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
    Ok(Routed::Operation(Route {
        api,
        operation,
        remainder,
        certificate: AcceptedFor::default(),
        key_type: None,
        has_token: false,
        session: None,
        assertion: None,
        set: 0,
    }))
}
