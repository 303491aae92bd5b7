//! The life of an exchange, in both directions. Read [`exchange`] and [`respond`] first: each step is the module or
//! the function of that name.

use std::rc::Rc;

use base::Method;
use base::limits::KEY_SET_WAIT_MS_MAX;
use model::{
    Accepts, Api, AuthFailure, Caller, CredentialKind, Denial, Fault, FaultStatus, Grant, KeyType,
    Operation, Security,
};
use stages::{ApiRoutes, Identity, authorise};
use wire::http1::{BodyFraming, Field, Known, Upgrade};

use crate::account::Record;
use crate::admission::{self, Admitted};
use crate::ask::Question;
use crate::cache::{self, Looked};
use crate::client::Client;
use crate::compiled::Compiled;
use crate::credentials::{self, Presented, VisibleQuery};
use crate::cross_origin;
use crate::deliver::{Stall, deliver};
use crate::fault;
use crate::forward::{self, Forwarding, Unwanted, while_wanted};
use crate::integration::{self, policies};
use crate::introspect::introspect;
use crate::message::{Outgoing, Request, Serves};
use crate::quotas;
use crate::response::{Body, Response};
use crate::worker::Worker;
use crate::worker_api::WorkerApi;

/// One exchange, from a parsed or rejected head to the last byte of the response. The only place where a fault
/// becomes a response, a record and a log line.
pub(crate) async fn exchange<C: Client>(
    worker: &Worker,
    parsed: Result<(), Fault>,
    request: &Request,
    client: &mut C,
) {
    let _busy = worker.busy();
    let mut record = Record::open(worker.number, &worker.resources);
    let revision = worker.compiled();
    let statuses = revision.live.fault_status;
    let stall = Stall { ms: revision.live.stall_ms, min_rate: revision.live.min_rate };
    let mut outcome = match (parsed, request.peer.serves) {
        (Ok(()), Serves::Apis) => respond(worker, &revision, request, client, &mut record).await,
        // Boxed, so that it does not enlarge every task.
        (Ok(()), Serves::Integration | Serves::Inbound(_)) => {
            let mediated = integration::respond(worker, &revision, request, client, &mut record);
            Box::pin(mediated).await
        }
        (Err(fault), _) => Err(fault),
    };
    if let Err(fault) = &outcome
        && policies::handle_fault(&record, fault)
        && let Some(own) = on_fault(worker, &mut record, fault, statuses, request)
    {
        let mediated = policies::mediate_fault(worker, &revision, request, &record, own);
        outcome = Ok(Box::pin(mediated).await);
    }
    // Dropped now, so that a long body does not keep a revision alive.
    drop(revision);
    for attempt in 0..2 {
        let delivered = match outcome {
            Ok(Response { head, body: Body::Streaming(mut upstream), .. })
                if head.status() == 101 =>
            {
                worker.count_tunnel();
                record.status = 101;
                let _places = std::mem::take(&mut record.places);
                worker.settle(std::mem::take(&mut record), request);
                // Boxed, so that it does not enlarge every task.
                Box::pin(client.tunnel(request, &head, &mut upstream)).await;
                worker.resources.release_head(head);
                return;
            }
            Ok(mut response) => {
                let now_ms = worker.quota_ms(record.started_us);
                record.quota.write_fields(now_ms, response.head.edits.lines_mut());
                record.status = response.head.status();
                deliver(&worker.resources, client, request, response, stall).await
            }
            Err(fault) => Err(fault),
        };
        (record.received, record.sent) = (client.consumed(), client.sent());
        let Err(fault) = delivered else { break };
        match on_fault(worker, &mut record, &fault, statuses, request) {
            Some(response) if attempt == 0 => outcome = Ok(response),
            Some(_) | None => break,
        }
    }
    client.watch().holds_place(None);
    worker.settle(record, request);
}

/// From the request to the head of the response.
///
/// # Errors
/// Any [`Fault`].
async fn respond<C: Client>(
    worker: &Worker,
    revision: &Rc<Compiled>,
    request: &Request,
    client: &mut C,
    record: &mut Record,
) -> Result<Response, Fault> {
    let Route { api: worker_api, operation: number, remainder } =
        match route(worker, revision, request, record)? {
            Routed::Operation(route) => route,
            Routed::Own(response) => return Ok(*response),
        };
    let routes = worker_api.routes();
    let api: &Api = &routes.api;
    let operation = api.operations.get(number).ok_or(Fault::Denied(Denial::NoResource))?;
    if api.mutual_tls && request.peer.certificate.is_none() {
        return Err(Fault::Denied(Denial::NoCertificate));
    }
    let caller = match &operation.security {
        Security::Open => None,
        Security::Required(accepts) => {
            authenticate(worker, revision, request, (api, accepts), client, record).await?
        }
    };
    let key_type = {
        let grant = authorise(revision, routes, operation, caller.as_deref());
        let grant = grant.map_err(Fault::Denied)?;
        let (to, by) = ((&**routes, number), (&grant, caller.as_deref()));
        quotas::throttle(worker, revision, request, to, by, record)?;
        grant.key_type
    };
    drop(caller);
    let set = authorise::upstream(api, operation, key_type).map_err(Fault::Denied)?;
    let balancer = worker_api.balancers.get(set).ok_or(Fault::Denied(no_endpoint(key_type)))?;
    let Admitted { places, early_upload, turn } =
        admission::admit(worker, &revision.live, request, &worker_api, client).await?;
    record.places = places;
    if operation.policies.as_ref().is_some_and(|policies| policies.mediate_exchanges()) {
        let to = policies::Forwarded {
            api: &worker_api,
            operation: number,
            balancer,
            key_type,
            remainder,
            early_upload,
            turn,
        };
        let mediated = policies::respond(worker, revision, request, to, client, record);
        let mut response = Box::pin(mediated).await?;
        if api.caches {
            cache::invalidate(worker, routes, request, response.head.status());
        }
        cross_origin::mediate(request, routes, &mut response.head.edits);
        return Ok(response);
    }
    let mut caching = None;
    if api.caches {
        let (is_personal, default_s) = (is_personal(request, api), operation.response_cache);
        match cache::look_up(worker, routes, set, request, is_personal, default_s) {
            Looked::Hit(mut response) => {
                cross_origin::mediate(request, routes, &mut response.head.edits);
                return Ok(*response);
            }
            Looked::Miss(forwarded) => caching = Some(forwarded),
            Looked::Bypass => {}
        }
    }
    let mut edits = worker.resources.edits();
    if let Some(caching) = &caching {
        caching.validate(&mut edits);
    }
    credentials::hide(request, api, &mut edits);
    let query = VisibleQuery::of(request, api, &worker.resources);
    let retries = &worker.tally.retries;
    let forwarding = Forwarding {
        operation: number,
        forward_fields: &api.forward_fields,
        ..revision.live.forwarding(retries, balancer, record.started_us)
    };
    let outgoing = Outgoing {
        query: query.bytes(request),
        ..Outgoing::of(request, remainder, &edits, may_upgrade(request, api))
    };
    let upstream = forward::exchange(&worker.resources, &forwarding, &outgoing, client).await;
    drop((early_upload, turn));
    worker.resources.release_edits(edits);
    query.release(&worker.resources);
    let upstream = upstream?;
    record.upstream_us = Some(worker.resources.now_us().saturating_sub(record.started_us));
    let body = Body::Streaming(upstream.body);
    let mut response = Response { head: upstream.head, body, tap: None };
    let head = &mut *response.head;
    if head.parsed.find(Known::Date).is_none() {
        worker.resources.append_date(&mut head.edits);
    }
    if let Some(caching) = caching {
        response = caching.conclude(request, response);
    }
    cross_origin::mediate(request, routes, &mut response.head.edits);
    Ok(response)
}

/// Whether the upstream gets something that says who the client is, so that its response may be for that client only.
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
        || PERSONAL.into_iter().any(sends)
        || api.forward_auth_header && credentials::are_sent(request, api)
        || head.find(Known::Identity).is_some()
            && ["remote-user", "x-remote-user"].iter().any(sends_user)
}

/// Where a request goes.
struct Route<'a> {
    api: Rc<WorkerApi>,
    operation: usize,
    /// The path below the API's base path.
    remainder: &'a [u8],
}

enum Routed<'a> {
    Operation(Route<'a>),
    /// The gateway's own response.
    Own(Box<Response>),
}

fn route<'a>(
    worker: &Worker,
    revision: &'a Compiled,
    request: &'a Request,
    record: &mut Record,
) -> Result<Routed<'a>, Fault> {
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
    let Some(api) = api else {
        return Err(Fault::Denied(found.err().unwrap_or(Denial::NoApi)));
    };
    let worker_api = worker.apis.get(api, &worker.pools);
    record.api = Some(Rc::clone(&worker_api.account));
    record.operation = found.ok();
    if found.is_ok() && api.api.strict_paths && head.has_ambiguous_path() {
        return Err(Fault::Denied(Denial::AmbiguousPath));
    }
    if matches!(found, Ok(_) | Err(Denial::MethodNotAllowed))
        && let Some(fields) = cross_origin::preflight(request, api, || api.methods(remainder))
    {
        return Ok(Routed::Own(Box::new(worker.own_response_with(204, &fields))));
    }
    let operation = found.map_err(Fault::Denied)?;
    Ok(Routed::Operation(Route { api: worker_api, operation, remainder }))
}

/// Identifies the caller; `None`: it has no credential, and needs none. If the token names a key that its issuer's key set lacks, the request waits for the key
/// set to be fetched again; if the token is opaque and new, it waits for the issuer.
async fn authenticate<C: Client>(
    worker: &Worker,
    revision: &Rc<Compiled>,
    request: &Request,
    (api, accepts): (&Api, &Accepts),
    client: &mut C,
    record: &mut Record,
) -> Result<Option<Rc<Caller>>, Fault> {
    let presented = credentials::find(request, api, accepts);
    let Some(presented) = presented.map_err(|failure| reject(record, failure))? else {
        return Ok(None);
    };
    let mut identity = identify(worker, revision, &presented);
    if let Identity::UnknownKid { issuer } = identity
        && let Some(issuer) = revision.routes.issuers().get(issuer)
    {
        ask(worker, Question::KeySet { issuer: issuer.name.clone() }, client).await?;
        // The answer is in the current revision, which may be newer than the request's.
        identity = identify(worker, &worker.compiled(), &presented);
    }
    let known = match identity {
        Identity::Known(caller) => Ok(caller),
        // Boxed, so that the rare case does not enlarge every future.
        Identity::Opaque => {
            Box::pin(introspect(worker, revision, request, presented.bytes(), client)).await?
        }
        Identity::Rejected(failure) => Err(failure),
        Identity::UnknownKid { .. } => Err(AuthFailure::UnknownKid),
    };
    let confirmed = known.and_then(|caller| {
        credentials::confirm(revision, request, &presented, &caller).map(|()| Some(caller))
    });
    confirmed.map_err(|failure| reject(record, failure))
}

/// Whether the caller may use the operation, and what that uses.
fn authorise(
    revision: &Compiled,
    routes: &ApiRoutes,
    operation: &Operation,
    caller: Option<&Caller>,
) -> Result<Grant, Denial> {
    let (accepts, caller) = match (&operation.security, caller) {
        (Security::Open, _) => return Ok(Grant::default()),
        (Security::Required(accepts), None) if accepts.optional => return Ok(Grant::default()),
        (Security::Required(_), None) => return Err(Denial::MissingCredentials),
        (Security::Required(accepts), Some(caller)) => (accepts, caller),
    };
    let quotas = &revision.quotas;
    let subscribers = quotas.subscribers.as_deref();
    let issuer = caller.issuer.and_then(|number| revision.routes.issuers().get(number));
    let issuer = issuer.map_or("", |issuer| issuer.iss.as_str());
    let (of, to) = ((caller, issuer), (&*routes.api, routes.key));
    let grant = authorise::subscription(of, to, subscribers, &quotas.plans)?;
    if let (CredentialKind::Token, Some(rule)) = (&caller.kind, &accepts.token) {
        authorise::grant(caller, rule)?;
    }
    Ok(grant)
}

/// Waits until `question` is answered, at most `KEY_SET_WAIT_MS_MAX`.
///
/// # Errors
/// The client left meanwhile.
async fn ask<C: Client>(worker: &Worker, question: Question, client: &mut C) -> Result<(), Fault> {
    drop(client.take_turn());
    client.watch().set(worker.resources.deadline_us(KEY_SET_WAIT_MS_MAX));
    let answer = worker.questions.ask(question, worker.resources.coarse_us());
    match while_wanted(client, answer).await {
        Ok(()) | Err(Unwanted::TimeUp) => Ok(()),
        Err(Unwanted::Left(fault)) => Err(fault),
    }
}

fn identify(worker: &Worker, revision: &Compiled, presented: &Presented<'_>) -> Identity {
    let mut tokens = worker.tokens.borrow_mut();
    let identity = presented.identify(&mut tokens, revision, worker.resources.coarse());
    if matches!(identity, Identity::Rejected(AuthFailure::NotYetValid)) {
        // Perhaps it was by the last sweep, and was issued since.
        return presented.identify(&mut tokens, revision, worker.resources.exact());
    }
    identity
}

/// Records why the credential was rejected. The response contains only [`AuthFailure::denial`].
#[cold]
fn reject(record: &mut Record, failure: AuthFailure) -> Fault {
    record.auth_failure = Some(failure);
    if let Some(api) = &record.api {
        api.counters.auth_failed(failure);
    }
    Fault::Denied(failure.denial())
}

/// Whether this request may turn its connection into a tunnel: always for WebSocket, for other
/// protocols where the API lists them, never for `h2c`, whose requests would bypass the gateway.
fn may_upgrade(request: &Request, api: &Api) -> bool {
    if request.head.framing() != BodyFraming::None {
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

fn no_endpoint(key_type: Option<KeyType>) -> Denial {
    match key_type {
        Some(KeyType::Sandbox) => Denial::NoSandboxEndpoint,
        Some(KeyType::Production) | None => Denial::NoProductionEndpoint,
    }
}

/// Records and logs a fault. Returns the response to it, unless a response has begun or the client is gone.
#[cold]
fn on_fault(
    worker: &Worker,
    record: &mut Record,
    fault: &Fault,
    statuses: FaultStatus,
    request: &Request,
) -> Option<Response> {
    let response = if record.sent > 0 {
        record.cut_off(fault);
        None
    } else {
        let mut own = fault::response(fault, record.allow, statuses);
        if let Some(time) = record.quota.next_access() {
            own.next_access(&time);
        }
        record.fault(fault, own.status, own.code);
        (*fault != Fault::ClientLeft).then(|| {
            let mut response = worker.own_response(0);
            own.write(&mut response, fault::format(request));
            if let Some(api) = &record.api {
                cross_origin::mediate(request, &api.routes, &mut response.head.edits);
            }
            response
        })
    };
    record.log(fault);
    response
}
