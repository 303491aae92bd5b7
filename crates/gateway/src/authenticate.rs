//! Authentication and authorisation of an exchange: who calls, and may they?
//!
//! Life of a request: route -> **authenticate** -> **authorise** -> throttle. What a credential means, and what a
//! caller may do, is decided in `stages`; here the credential is taken from the request, and questions are asked.

use std::rc::Rc;

use base::limits::KEY_SET_WAIT_MS_MAX;
use model::{Api, AuthFailure, Caller, Denial, Fault, Grant, Security};
use stages::{Identity, Question, authenticate as stage, authorise as rules};
use wire::http1::{Field, Known};

use crate::account::Record;
use crate::ask::Outcome;
use crate::client::Client;
use crate::compiled::Compiled;
use crate::exchange::Exchange;
use crate::introspect;
use crate::message::Request;
use crate::request_body::{Unwanted, while_wanted};
use crate::route::Route;

/// The caller. `None`: the operation needs no credential. If only the network can tell whose a token is, the request
/// waits for that.
///
/// # Errors
/// [`Fault::Denied`], or the client left while it waited.
pub(crate) async fn authenticate<C: Client>(
    exchange: &mut Exchange<'_>,
    revision: &Rc<Compiled>,
    route: &Route<'_>,
    client: &mut C,
) -> Result<Option<Rc<Caller>>, Fault> {
    let request = exchange.request;
    let api: &Api = &route.api.routes().api;
    if api.mutual_tls && request.peer.certificate.is_none() {
        return Err(Fault::Denied(Denial::NoCertificate));
    }
    if matches!(route.operation()?.security, Security::Open) {
        return Ok(None);
    }
    let token = token(request, api).map_err(|failure| reject(&mut exchange.record, failure))?;
    let known = match exchange.worker.identify(revision, token) {
        Identity::Known(caller) => Ok(caller),
        Identity::Rejected(failure) => Err(failure),
        // Boxed, so that the rare case does not enlarge every future.
        Identity::Ask(question) => {
            Box::pin(ask(exchange, revision, (token, question), client)).await?
        }
    };
    let confirmed = known.and_then(|caller| {
        stage::confirm(&caller, request.peer.certificate.as_ref()).map(|()| caller)
    });
    confirmed.map(Some).map_err(|failure| reject(&mut exchange.record, failure))
}

/// Whether the caller may use the operation, and with which endpoints. Returns what that uses.
///
/// # Errors
/// [`Fault::Denied`].
pub(crate) fn authorise(
    revision: &Compiled,
    route: &mut Route<'_>,
    caller: Option<&Caller>,
) -> Result<Grant, Fault> {
    let grant = grant(revision, route, caller)?;
    let operation = route.operation()?;
    let set = rules::upstream(&route.api.routes().api, operation, grant.key_type);
    let set = set.map_err(Fault::Denied)?;
    (route.key_type, route.set) = (grant.key_type, set);
    Ok(grant)
}

fn grant(revision: &Compiled, route: &Route<'_>, caller: Option<&Caller>) -> Result<Grant, Fault> {
    let (rule, caller) = match (&route.operation()?.security, caller) {
        (Security::Open, _) => return Ok(Grant::default()),
        (Security::Token(_), None) => return Err(Fault::Denied(Denial::MissingCredentials)),
        (Security::Token(rule), Some(caller)) => (rule, caller),
    };
    let quotas = &revision.quotas;
    let issuer = revision.routes.issuers().get(caller.issuer);
    let of = (caller, issuer.map_or("", |issuer| issuer.iss.as_str()));
    let routes = route.api.routes();
    let to = (&*routes.api, routes.key);
    let grant = rules::subscription(of, to, quotas.subscribers.as_deref(), &quotas.plans);
    let grant = grant.map_err(Fault::Denied)?;
    rules::grant(caller, rule).map_err(Fault::Denied)?;
    Ok(grant)
}

/// Waits for the answer to a question, as long as the client does, then identifies the caller.
///
/// # Errors
/// The client left meanwhile.
async fn ask<C: Client>(
    exchange: &Exchange<'_>,
    revision: &Rc<Compiled>,
    (token, question): (&[u8], Question),
    client: &mut C,
) -> Result<Outcome, Fault> {
    let Exchange { worker, request, .. } = exchange;
    drop(client.take_turn());
    let (asked, deadline_us, failure) = match question {
        Question::KeySet { issuer } => {
            let issuer = revision.routes.issuers().get(issuer);
            let now_us = worker.resources.coarse_us();
            let asked = issuer.and_then(|issuer| worker.questions.key_set(&issuer.name, now_us));
            (asked, worker.resources.deadline_us(KEY_SET_WAIT_MS_MAX), AuthFailure::UnknownKid)
        }
        Question::Token => {
            let asked = introspect::ask(worker, revision, request, token, client).await?;
            // Asking has limits of its own.
            (asked, u64::MAX, AuthFailure::IssuerUnavailable)
        }
    };
    if let Some(asked) = asked {
        client.watch().set(deadline_us);
        match while_wanted(client, asked.answer()).await {
            Ok(Some(outcome)) => return Ok(outcome),
            Ok(None) | Err(Unwanted::TimeUp) => {}
            Err(Unwanted::Left(fault)) => return Err(fault),
        }
    }
    // The answer is in the current revision, which may be newer than the request's, or among the worker's tokens.
    Ok(match worker.identify(&worker.compiled(), token) {
        Identity::Known(caller) => Ok(caller),
        Identity::Rejected(failure) => Err(failure),
        Identity::Ask(_) => Err(failure),
    })
}

/// The request's token.
fn token<'a>(request: &'a Request, api: &Api) -> Result<&'a [u8], AuthFailure> {
    let field = if api.auth_header == "authorization" {
        request.head.find(Known::Authorization)
    } else {
        request.head.find_name(&request.bytes, api.auth_header.as_bytes())
    };
    let field = field.ok_or(AuthFailure::MissingCredential)?;
    if is_repeated(request, field) {
        return Err(AuthFailure::RepeatedHeader);
    }
    stage::bearer(field.value.of(&request.bytes))
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

/// Whether another field has the same name. An upstream that gets both could read the other one.
fn is_repeated(request: &Request, field: &Field) -> bool {
    if field.known == Known::Authorization {
        return request.head.has_several(Known::Authorization);
    }
    let name = field.name.of(&request.bytes);
    let same = |other: &&Field| other.name.of(&request.bytes).eq_ignore_ascii_case(name);
    request.head.fields().iter().filter(same).count() > 1
}
