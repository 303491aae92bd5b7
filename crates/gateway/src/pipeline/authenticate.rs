//! Authentication and authorisation of an exchange: who calls, and may they?
//!
//! Life of a request: route -> **authenticate** -> **authorise** -> throttle. The meaning of a credential, and the
//! permissions of a caller, are decided in `stages`; this module asks the questions, and records failures.

use std::rc::Rc;
use std::sync::Arc;

use base::limits::KEY_SET_WAIT_MS_MAX;
use model::{
    Accepts, Api, AuthFailure, Caller, CredentialKind, Denial, Fault, Grant, Lifecycle, Security,
};
use stages::{Identity, Question, authorise as rules};

use crate::account::{Challenge, Record};
use crate::body::request_body::{Unwanted, while_wanted};
use crate::exchange::Exchange;
use crate::exchange::client::Client;
use crate::exchange::route::{Route, Target};
use crate::identity::credentials::{self, Presented};
use crate::identity::introspect;
use crate::identity::sign_in::{self, Refused};
use crate::worker::ask::Outcome;
use crate::worker::backend_jwt::Asserted;
use crate::worker::compiled::Compiled;

/// The caller. `None`: the request has no credential, and needs none. If a token has to be looked up over the network,
/// the request waits for that.
///
/// # Errors
/// [`Fault::Denied`], or the client left while it waited.
pub(super) async fn authenticate<C: Client>(
    exchange: &mut Exchange<'_>,
    revision: &Rc<Compiled>,
    route: &mut Route<'_>,
    client: &mut C,
) -> Result<Option<Rc<Caller>>, Box<Fault>> {
    let request = exchange.request;
    let api: &Api = &route.api.routes().api;
    if route.needs_no_caller() {
        return Ok(None);
    }
    let now_s = exchange.worker.resources.coarse().unix_s;
    let certificate = request.accepted_for(revision.trusts.of(api), now_s);
    if api.mutual_tls && !certificate.any() {
        return Err(Fault::Denied(Denial::NoCertificate).into());
    }
    let security = route.security()?;
    exchange.record.challenge = Challenge::of(security);
    let presented = credentials::find(request, (api, security), certificate.any(), revision);
    let presented = match (presented, sign_in::login_of(revision, api, security)) {
        (Err(AuthFailure::MissingCredential), Some(provider)) => {
            // Boxed, so that browsers do not enlarge every future.
            let session = Box::pin(sign_in::session(exchange, revision, provider, client)).await;
            let session = session.map_err(|refused| refuse(&mut exchange.record, refused))?;
            route.session = Some(Arc::clone(&session));
            Some(Presented::Session(session))
        }
        (presented, _) => presented.map_err(|failure| reject(&mut exchange.record, failure))?,
    };
    route.certificate = certificate;
    let Some(presented) = presented else { return Ok(None) };
    let known = match exchange.worker.identify(revision, &presented) {
        Identity::Known(caller) => Ok(caller),
        Identity::Rejected(failure) => Err(failure),
        // Boxed, so that the rare case does not enlarge every future.
        Identity::Ask(question) => {
            Box::pin(ask(exchange, revision, (&presented, question), client)).await?
        }
    };
    let confirmed = known.and_then(|caller| {
        if !is_of_listed_issuer(revision, route.security().ok(), &caller) {
            return Err(AuthFailure::UnknownIssuer);
        }
        let worker = exchange.worker;
        let proofs = (&*worker.proofs, || worker.resources.exact());
        let nonce = credentials::confirm(proofs, revision, request, &presented, &caller)?;
        Ok((caller, nonce))
    });
    match confirmed {
        Ok((caller, None)) => Ok(Some(caller)),
        Ok((caller, Some(nonce))) => {
            exchange.give_nonce(&nonce);
            Ok(Some(caller))
        }
        Err(failure) => {
            if failure == AuthFailure::ProofNonce {
                let nonce = exchange.worker.proofs.nonce(exchange.worker.resources.exact());
                exchange.give_nonce(&nonce);
            }
            Err(rejected(exchange, revision, (route, &presented, failure), client).await)
        }
    }
}

/// The response to a credential that is not valid, which depends on the kind.
#[cold]
async fn rejected<C: Client>(
    exchange: &mut Exchange<'_>,
    revision: &Rc<Compiled>,
    (route, presented, failure): (&Route<'_>, &Presented<'_>, AuthFailure),
    client: &mut C,
) -> Box<Fault> {
    let api = &route.api.routes().api;
    let is_over =
        matches!(failure, AuthFailure::Expired | AuthFailure::Revoked | AuthFailure::InactiveToken);
    if let (Presented::Session(session), true, Some(name)) = (presented, is_over, &api.login)
        && let Some(provider) = revision.live.logins.find(name.as_bytes())
    {
        let of = (provider, &**session, failure);
        let begun = Box::pin(sign_in::begin_again(exchange, revision, of, client)).await;
        return refuse(&mut exchange.record, begun);
    }
    let fault = reject(&mut exchange.record, failure);
    let is_token = |denial| matches!(denial, Denial::InvalidCredentials | Denial::ExpiredToken);
    match (presented, &*fault) {
        // The challenge has the scheme of the request.
        (Presented::Proven(_), Fault::Denied(denial)) if is_token(*denial) => {
            Fault::Denied(Denial::InvalidBoundToken).into()
        }
        (_, _) => fault,
    }
}

fn refuse(record: &mut Record, refused: Refused) -> Box<Fault> {
    match refused {
        Refused::Auth(failure) => reject(record, failure),
        Refused::Fault(fault) => fault,
    }
}

/// Whether the caller may use the operation. Returns the limits that the request uses.
///
/// # Errors
/// [`Fault::Denied`].
pub(super) fn authorise(
    revision: &Compiled,
    route: &mut Route<'_>,
    caller: Option<&Caller>,
) -> Result<Grant, Box<Fault>> {
    let grant = granted(revision, route, caller)?;
    let needs_certificate = route.api.routes().api.mutual_tls;
    match route.key_type {
        None => route.key_type = route.certificate.only(),
        Some(key_type) if needs_certificate && !route.certificate.has(key_type) => {
            return Err(Fault::Denied(Denial::NoCertificate).into());
        }
        Some(_) => {}
    }
    Ok(grant)
}

fn granted(
    revision: &Compiled,
    route: &mut Route<'_>,
    caller: Option<&Caller>,
) -> Result<Grant, Box<Fault>> {
    let is_created = route.api.routes().api.lifecycle == Lifecycle::Created;
    let (accepts, caller) = match (route.security()?, caller) {
        (Security::Open | Security::Required(_), None) if is_created => {
            return Err(Fault::Denied(Denial::Unsubscribed).into());
        }
        (Security::Open, Some(caller)) if is_created => (None, caller),
        (Security::Open, _) => return Ok(Grant::default()),
        (Security::Required(accepts), None) if accepts.optional => return Ok(Grant::default()),
        (Security::Required(_), None) => {
            return Err(Fault::Denied(Denial::MissingCredentials).into());
        }
        (Security::Required(accepts), Some(caller)) => (Some(accepts), caller),
    };
    let quotas = &revision.quotas;
    let routes = route.api.routes();
    let to = (&*routes.api, routes.key);
    let grant = match route.target {
        // Applications subscribe to APIs, not to services.
        Target::Service(_) if caller.kind == CredentialKind::Token => {
            Grant { key_type: Some(caller.key_type), ..Grant::default() }
        }
        Target::Service(_) | Target::Operation(_) => {
            let subscribers = quotas.subscribers.as_deref();
            let grant = rules::subscription(caller, to, subscribers, &quotas.plans);
            grant.map_err(Fault::Denied)?
        }
    };
    let granted = match (caller.kind, accepts) {
        (CredentialKind::Token, Some(Accepts { token: Some(rule), .. })) => {
            rules::grant(caller, rule)
        }
        (CredentialKind::Login, Some(Accepts { login: Some(rule), .. })) => {
            rules::scopes(caller, rule)
        }
        (_, _) => Ok(()),
    };
    granted.map_err(Fault::Denied)?;
    route.has_token = caller.kind == CredentialKind::Token;
    route.key_type = grant.key_type;
    Ok(grant)
}

/// Signs the assertion that identifies the caller to the upstream, if that is configured.
pub(super) fn assert_caller(
    exchange: &Exchange<'_>,
    revision: &Compiled,
    route: &mut Route<'_>,
    caller: Option<&Rc<Caller>>,
) {
    let (Some(signer), Some(caller)) = (&revision.live.backend_jwt, caller) else { return };
    let Exchange { worker, request, .. } = exchange;
    let routes = route.api.routes();
    let credential = revision.quotas.subscribers.as_deref().and_then(|all| all.of_caller(caller));
    let of = Asserted {
        caller,
        routes,
        subscriber: credential.map(|credential| &credential.subscriber),
        key_type: route.key_type.unwrap_or_default(),
    };
    let presented = || {
        let of = (&*routes.api, route.security().ok()?);
        credentials::find(request, of, route.certificate.any(), revision).ok()?
    };
    let token = || match &route.session {
        Some(session) => Some(session.access_token.clone().into_bytes()),
        None => presented().map(|presented| presented.bytes().to_vec()),
    };
    let now_s = worker.resources.coarse().unix_s;
    route.assertion = worker.backend_jwts.assertion(signer, &of, token, now_s);
}

/// Waits for the answer to a question, as long as the client does, then identifies the caller.
///
/// # Errors
/// The client left meanwhile.
async fn ask<C: Client>(
    exchange: &Exchange<'_>,
    revision: &Rc<Compiled>,
    (presented, question): (&Presented<'_>, Question),
    client: &mut C,
) -> Result<Outcome, Box<Fault>> {
    let Exchange { worker, request, .. } = exchange;
    drop(client.take_turn());
    let is_key_set = matches!(question, Question::KeySet { .. });
    let (asked, deadline_us, failure) = match question {
        Question::KeySet { issuer } => {
            let issuer = revision.routes.issuers().get(issuer);
            let now_us = worker.resources.coarse_us();
            let asked = issuer.and_then(|issuer| worker.questions.key_set(&issuer.name, now_us));
            (asked, worker.resources.deadline_us(KEY_SET_WAIT_MS_MAX), AuthFailure::UnknownKid)
        }
        Question::Token | Question::Password => {
            let asked = introspect::ask(worker, revision, request, presented, client).await?;
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
    // A key set is in the current revision, which may be newer than the request's. The answer about a token may be
    // among the worker's tokens, if others asked meanwhile.
    let current = if is_key_set { worker.compiled() } else { Rc::clone(revision) };
    Ok(match worker.identify(&current, presented) {
        Identity::Known(caller) if is_same_issuer(revision, &current, &caller) => Ok(caller),
        Identity::Rejected(failure) => Err(failure),
        Identity::Known(_) | Identity::Ask(_) => Err(failure),
    })
}

/// Whether the caller's issuer is among those that a service lists.
fn is_of_listed_issuer(revision: &Compiled, security: Option<&Security>, caller: &Caller) -> bool {
    let Some(Security::Required(accepts)) = security else { return true };
    let Some(listed) = accepts.token.as_ref().map(|rule| &rule.issuers) else { return true };
    let issuer = || revision.routes.issuers().get(caller.issuer?);
    listed.is_empty() || issuer().is_some_and(|issuer| listed.contains(&issuer.name))
}

/// Whether the caller's issuer has the same number in two revisions.
fn is_same_issuer(one: &Compiled, other: &Compiled, caller: &Caller) -> bool {
    let name = |of: &Compiled| {
        let issuer = of.routes.issuers().get(caller.issuer?)?;
        Some(issuer.name.clone())
    };
    name(one) == name(other)
}

/// Records why the credential was rejected. The response contains only [`AuthFailure::denial`].
#[cold]
fn reject(record: &mut Record, failure: AuthFailure) -> Box<Fault> {
    record.auth_failure = Some(failure);
    if let Some(api) = &record.api {
        api.counters.auth_failed(failure);
    }
    Fault::Denied(failure.denial()).into()
}
