//! The life of a request, in the order of the rooms.

use std::rc::Rc;

use base::Method;
use model::{Api, Caller, Denial, Fault, KeyType, Security};
use stages::{Identity, authenticate, authorise};
use wire::http1::{BodyFraming, Field, Known, Upgrade};

use crate::account::Record;
use crate::compiled::Compiled;
use crate::cross_origin;
use crate::forward::{self, Forwarding, UpstreamResponse};
use crate::request::{Client, Request};
use crate::respond::OwnResponse;
use crate::worker::Worker;

/// What a request comes to.
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each request")]
pub(crate) enum Response {
    /// A backend's answer, its body still on the wire.
    Upstream(UpstreamResponse),
    /// The gateway's own.
    Own(OwnResponse),
}

/// The life of a request. Read this first: each verb below is a room of that name.
///
/// # Errors
/// Every [`Fault`]; `respond` tells it to the caller.
pub(crate) async fn exchange<C: Client>(
    worker: &Worker,
    compiled: &Compiled,
    request: &Request,
    client: &mut C,
    record: &mut Record,
) -> Result<Response, Fault> {
    let (head, bytes) = (&request.head, request.bytes.as_slice());
    let path = head.path(bytes);
    let found = match compiled.routes.find(head.host(bytes), head.method(), path, request.secure) {
        Ok(found) => found,
        Err(not_found) => {
            record.api = not_found.api.map(|api| worker.apis.get(api, &worker.pools));
            record.allow = not_found.allow;
            let api = not_found.api.filter(|_| not_found.denial == Denial::MethodNotAllowed);
            return cross_origin::preflight(request, api, not_found.remainder)
                .map(Response::Own)
                .ok_or(Fault::Denied(not_found.denial));
        }
    };
    let local = worker.apis.get(found.api, &worker.pools);
    record.api = Some(Rc::clone(&local));
    record.operation = Some(found.operation);
    if let Some(answer) = cross_origin::preflight(request, Some(found.api), found.remainder) {
        return Ok(Response::Own(answer));
    }
    let api: &Api = &found.api.api;
    let operation = api.operations.get(found.operation).ok_or(Fault::Denied(Denial::NoResource))?;
    let key_type = match &operation.security {
        Security::Open => None,
        Security::Token(rule) => {
            let caller = identify(worker, compiled, request, api)?;
            authorise::grant(&caller, rule).map_err(Fault::Denied)?;
            Some(caller.key_type)
        }
    };
    let set = authorise::upstream(api, operation, key_type).map_err(Fault::Denied)?;
    let balancer = local.balancers.get(set).ok_or(Fault::Denied(no_endpoint(key_type)))?;
    let forwarding = Forwarding {
        live: &compiled.live,
        begun_us: record.started_us,
        balancer,
        remainder: found.remainder,
        withhold: (!api.forward_auth_header).then_some(api.auth_header.as_str()),
        upgrade: may_upgrade(request, api),
    };
    let answer = forward::send(worker, &forwarding, request, client).await?;
    record.upstream_us = Some(worker.now_us().saturating_sub(record.started_us));
    Ok(Response::Upstream(answer))
}

/// Finds out who requests. A token that names an unknown key is a reason to fetch its issuer's keys.
fn identify(
    worker: &Worker,
    compiled: &Compiled,
    request: &Request,
    api: &Api,
) -> Result<Rc<Caller>, Fault> {
    let field = if api.auth_header == "authorization" {
        request.head.find(Known::Authorization)
    } else {
        request.head.find_name(&request.bytes, api.auth_header.as_bytes())
    };
    let field = field.ok_or(Fault::Denied(Denial::MissingCredentials))?;
    if is_repeated(request, field) {
        return Err(Fault::Denied(Denial::InvalidCredentials));
    }
    let token = authenticate::bearer(field.value.of(&request.bytes)).map_err(Fault::Denied)?;
    let issuers = compiled.routes.issuers();
    let mut tokens = worker.tokens.borrow_mut();
    match authenticate::identify(&mut tokens, token, issuers, worker.coarse()) {
        Identity::Known(caller) => Ok(caller),
        Identity::Denied(denial) => Err(Fault::Denied(denial)),
        Identity::UnknownKid { issuer, denial } => {
            if let Some(issuer) = issuers.get(issuer) {
                worker.report_unknown_kid(&issuer.name);
            }
            Err(Fault::Denied(denial))
        }
    }
}

/// Whether another field has the same name: a backend that gets both could believe the other one.
fn is_repeated(request: &Request, field: &Field) -> bool {
    if field.known == Known::Authorization {
        return request.head.has_several(Known::Authorization);
    }
    let name = field.name.of(&request.bytes);
    let same = |other: &&Field| other.name.of(&request.bytes).eq_ignore_ascii_case(name);
    request.head.fields().iter().filter(same).count() > 1
}

/// Whether this request may turn its connection into a tunnel. WebSocket always; others where the
/// API lists them; HTTP/2 never, since nobody would look at the requests within.
fn may_upgrade(request: &Request, api: &Api) -> bool {
    if request.head.framing() != BodyFraming::None {
        return false;
    }
    match request.head.upgrade(&request.bytes) {
        Upgrade::None => false,
        Upgrade::WebSocket => request.head.method() == Method::Get,
        Upgrade::Other => request.head.find(Known::Upgrade).is_some_and(|field| {
            let asked = field.value.of(&request.bytes);
            !asked.eq_ignore_ascii_case(b"h2c")
                && api.upgrades.iter().any(|allowed| asked.eq_ignore_ascii_case(allowed.as_bytes()))
        }),
    }
}

fn no_endpoint(key_type: Option<KeyType>) -> Denial {
    match key_type {
        Some(KeyType::Sandbox) => Denial::NoSandboxEndpoint,
        Some(KeyType::Production) | None => Denial::NoProductionEndpoint,
    }
}
