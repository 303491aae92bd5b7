//! Sign-in of browsers: their sessions, and their way to the provider of a login and back.
//!
//! Life of a request: route -> **session** -> authenticate, for APIs with a login. The session's access token is
//! authenticated like that of any other client; a browser without a session is sent to the provider, from which it
//! returns to [`respond`]. Decisions are made in `stages::sign_in`.

mod pages;
mod provider;

use std::rc::Rc;
use std::sync::Arc;

use base::limits::{LOGIN_MS_MAX, SESSION_MARGIN_S, SESSION_RENEWALS_MAX, SIGN_INS_MAX};
use base::{Method, SystemEntropy};
use model::{Accepts, Api, AuthFailure, Denial, Fault, Security};
use percent_encoding::percent_encode;
use stages::authenticate::places;
use stages::sign_in::{self, Cookies, Session, is_navigation, is_same_origin};
use wire::http1::{Known, Upgrade};

use crate::body::request_body::{Unwanted, while_wanted};
use crate::exchange::Exchange;
use crate::exchange::client::Client;
use crate::message::Request;
use crate::own_requests::fetch::FORM;
use crate::tasks;
use crate::worker::Worker;
use crate::worker::compiled::Compiled;
use crate::worker::sessions::{self, Joined, Provider, Renewal, Renewing};

pub(crate) use pages::respond;

/// Why a request has no session.
pub(crate) enum Refused {
    Auth(AuthFailure),
    Fault(Box<Fault>),
}

/// The login whose sessions an operation accepts in place of a token.
pub(crate) fn login_of<'a>(
    revision: &'a Compiled,
    api: &Api,
    security: &Security,
) -> Option<&'a Provider> {
    let name = api.login.as_ref()?;
    let Security::Required(Accepts { token: Some(_), .. }) = security else { return None };
    revision.live.logins.find(name.as_bytes())
}

/// The session of a browser. One whose token expires soon is renewed meanwhile; one whose token has expired, first.
///
/// # Errors
/// The browser has no usable session; the error determines its response.
pub(crate) async fn session<C: Client>(
    exchange: &mut Exchange<'_>,
    revision: &Rc<Compiled>,
    provider: &Provider,
    client: &mut C,
) -> Result<Arc<Session>, Refused> {
    let (worker, request) = (exchange.worker, exchange.request);
    let missing = AuthFailure::MissingCredential;
    let Some(session) = open(request, provider, worker) else {
        return Err(begin(exchange, revision, provider, missing, client).await);
    };
    if !is_safe(request) && !is_own(request) {
        return Err(Refused::Auth(AuthFailure::CrossSite));
    }
    let now_s = worker.resources.exact().unix_s;
    if now_s.saturating_add(SESSION_MARGIN_S) < session.expires_s {
        return Ok(Arc::new(session));
    }
    let renewing = Renewing::of(worker, revision, (provider, &session));
    if now_s < session.expires_s {
        exchange.renewing = renewing.map(Box::new);
        let renewed = give_renewed(exchange, revision);
        return Ok(renewed.unwrap_or_else(|| Arc::new(session)));
    }
    let first = sessions::key(&provider.login.name, &session);
    let (mut renewing, mut over) = (renewing, Arc::new(session));
    for round in 1..=SESSION_RENEWALS_MAX {
        let is_earlier = renewing.as_ref().is_some_and(|one| one.outcome.borrow().is_some());
        let outcome = match (renewing, &over.refresh_token) {
            (Some(renewing), _) => {
                renewing.outcome(worker, client).await.map_err(Refused::Fault)?
            }
            (None, Some(_)) => Renewal::Failed,
            (None, None) => Renewal::Refused,
        };
        match outcome {
            Renewal::Renewed(renewed)
                if !is_earlier || worker.resources.exact().unix_s < renewed.expires_s =>
            {
                give(exchange, provider, &renewed).map_err(Refused::Fault)?;
                worker.sign_ins.renewals.given(first, worker.resources.now_us());
                return Ok(renewed);
            }
            // It was renewed for an earlier request, and has expired since.
            Renewal::Renewed(renewed) => {
                // No request would wait for a renewal after the last round.
                renewing = (round < SESSION_RENEWALS_MAX)
                    .then(|| Renewing::of(worker, revision, (provider, &renewed)))
                    .flatten();
                over = renewed;
            }
            Renewal::Failed => break,
            Renewal::Refused => {
                let (session, failure) = (&over, AuthFailure::Expired);
                return Err(
                    begin_again(exchange, revision, (provider, session, failure), client).await
                );
            }
        }
    }
    Err(Refused::Auth(AuthFailure::IssuerUnavailable))
}

/// The same as [`begin`], for a session that is over. A user who has just signed in would come back with the same
/// `failure`.
pub(crate) async fn begin_again<C: Client>(
    exchange: &mut Exchange<'_>,
    revision: &Rc<Compiled>,
    (provider, session, failure): (&Provider, &Session, AuthFailure),
    client: &mut C,
) -> Refused {
    if session.is_fresh(&provider.login, exchange.worker.resources.exact()) {
        return Refused::Auth(failure);
    }
    begin(exchange, revision, provider, failure, client).await
}

/// Sends the browser to the provider, if its user sees the response; else the response is that to `failure`.
async fn begin<C: Client>(
    exchange: &mut Exchange<'_>,
    revision: &Rc<Compiled>,
    provider: &Provider,
    failure: AuthFailure,
    client: &mut C,
) -> Refused {
    let (worker, request) = (exchange.worker, exchange.request);
    let value = |known| field(request, known);
    let mode = request.head.find_name(&request.bytes, b"sec-fetch-mode");
    let mode = mode.map(|field| field.value.of(&request.bytes));
    let is_seen = is_navigation(request.head.method(), value(Known::Accept), mode);
    let Some(secure) = is_secure(request).filter(|_| is_seen) else {
        return Refused::Auth(failure);
    };
    client.watch().set(worker.resources.deadline_us(LOGIN_MS_MAX));
    let found = while_wanted(client, provider::endpoints(worker, revision, provider)).await;
    let endpoints = match found {
        Ok(Some(endpoints)) => endpoints,
        Ok(None) | Err(Unwanted::TimeUp) => return Refused::Auth(AuthFailure::IssuerUnavailable),
        Err(Unwanted::Left(fault)) => return Refused::Fault(fault),
    };
    let login = &provider.login;
    let target = (request.head.path(&request.bytes), request.head.query(&request.bytes));
    let now = worker.resources.exact();
    let attempt = sign_in::begin(target, login.max_age_s, &SystemEntropy, now);
    let Some(sealed) = attempt.seal(&provider.keys, &login.name) else {
        return Refused::Auth(AuthFailure::IssuerUnavailable);
    };
    let lines = &mut exchange.lines;
    let cookies = Cookies::of(&login.name, secure);
    forget_attempts(request, &cookies, lines);
    cookies.set_attempt(&attempt.state, &sealed, lines);
    let encoded = |text: &str| percent_encode(text.as_bytes(), FORM).to_string();
    let separator = if endpoints.authorize.contains('?') { '&' } else { '?' };
    let location = format!(
        "Location: {}{separator}response_type=code&client_id={}&redirect_uri={}&scope={}&state={}&nonce={}\
         &code_challenge={}&code_challenge_method=S256{}\r\n",
        endpoints.authorize,
        encoded(&login.client_id),
        encoded(&redirect_uri(request, provider)),
        encoded(&login.scopes.join(" ")),
        attempt.state,
        attempt.nonce,
        attempt.challenge(),
        jose::fresh_sign_in(login.max_age_s),
    );
    lines.extend_from_slice(location.as_bytes());
    Refused::Fault(Fault::Denied(Denial::SignInRequired).into())
}

/// Gives the browser this session.
fn give(
    exchange: &mut Exchange<'_>,
    provider: &Provider,
    session: &Session,
) -> Result<(), Box<Fault>> {
    let name = &provider.login.name;
    let failed = || Box::new(Fault::Denied(Denial::SignInFailed));
    let sealed = session.seal(&provider.keys, name).ok_or_else(failed)?;
    let secure = is_secure(exchange.request).ok_or_else(failed)?;
    Cookies::of(name, secure).set_session(&sealed, &mut exchange.lines).map_err(|_| {
        let bytes = sealed.len();
        tracing::warn!(login = name, bytes, "the tokens of a session do not fit into cookies");
        failed()
    })
}

/// The session of a browser that has one.
fn open(request: &Request, provider: &Provider, worker: &Worker) -> Option<Session> {
    let name = &provider.login.name;
    let sealed = Cookies::of(name, is_secure(request)?).session(|name| cookie(request, name))?;
    Session::open(&provider.keys, name, &sealed, worker.resources.exact())
}

impl Renewing {
    /// Begins to renew a session, unless another request has. That ends, even if the client leaves. `None`: it has no
    /// refresh token, or too many are remembered.
    fn of(
        worker: &Worker,
        revision: &Rc<Compiled>,
        (provider, session): (&Provider, &Session),
    ) -> Option<Self> {
        session.refresh_token.as_ref()?;
        let (login, key) =
            (Arc::clone(&provider.login), sessions::key(&provider.login.name, session));
        let outcome = match worker.sign_ins.renewals.join(key, worker.resources.now_us()) {
            Joined::Other(outcome) => outcome,
            Joined::First(sender) => {
                let outcome = sender.subscribe();
                let (worker, revision) = (worker.this(), Rc::clone(revision));
                let (session, login) = (session.clone(), Arc::clone(&login));
                tasks::spawn(async move {
                    let busy = worker.busy();
                    let renewal = provider::renew(&worker, &revision, &login.name, &session).await;
                    let now_us = worker.resources.now_us();
                    worker.sign_ins.renewals.end(key, &sender, renewal, now_us);
                    drop(busy);
                    worker.notice_the_end();
                });
                outcome
            }
            Joined::Full => return None,
        };
        Some(Self { login, key, outcome })
    }

    /// Waits for the outcome, as long as the client does.
    async fn outcome<C: Client>(
        mut self,
        worker: &Worker,
        client: &mut C,
    ) -> Result<Renewal, Box<Fault>> {
        drop(client.take_turn());
        // Asking has a limit of its own, which is shorter.
        client.watch().set(worker.resources.deadline_us(LOGIN_MS_MAX.saturating_mul(3)));
        match while_wanted(client, self.outcome.wait_for(Option::is_some)).await {
            Ok(Ok(renewal)) => Ok(renewal.clone().unwrap_or(Renewal::Failed)),
            Ok(Err(_)) | Err(Unwanted::TimeUp) => Ok(Renewal::Failed),
            Err(Unwanted::Left(fault)) => Err(fault),
        }
    }
}

/// Gives the browser the session that was renewed during its request. One that is not renewed yet is given to its next.
pub(crate) fn give_renewed(
    exchange: &mut Exchange<'_>,
    revision: &Compiled,
) -> Option<Arc<Session>> {
    let Renewing { login, key, outcome } = &**exchange.renewing.as_ref()?;
    let Some(Renewal::Renewed(renewed)) = outcome.borrow().clone() else { return None };
    let now_s = exchange.worker.resources.exact().unix_s;
    if renewed.expires_s <= now_s {
        return None;
    }
    let (provider, key) = (revision.live.logins.find(login.name.as_bytes())?, *key);
    exchange.renewing = None;
    // That it does not fit is logged.
    give(exchange, provider, &renewed).ok()?;
    let worker = exchange.worker;
    worker.sign_ins.renewals.given(key, worker.resources.now_us());
    Some(renewed)
}

/// Removes the attempts of a browser that has too many.
fn forget_attempts(request: &Request, cookies: &Cookies, lines: &mut Vec<u8>) {
    let names =
        cookies_of(request).map(|pair| pair.split(|b| *b == b'=').next().unwrap_or_default());
    let attempts: Vec<_> = names.filter_map(|name| cookies.attempt_of(name)).collect();
    if attempts.len() >= SIGN_INS_MAX {
        attempts.into_iter().for_each(|state| cookies.remove_attempt(state, lines));
    }
}

fn redirect_uri(request: &Request, provider: &Provider) -> String {
    format!("{}/.login/{}/callback", origin(request), provider.login.name)
}

/// Scheme and host as the browser has them.
fn origin(request: &Request) -> String {
    let (scheme, host) = request.origin();
    format!("{}://{}", String::from_utf8_lossy(scheme), String::from_utf8_lossy(host))
}

/// Whether the browser uses https. `None`: it does not, and others could read its cookies.
fn is_secure(request: &Request) -> Option<bool> {
    let (scheme, host) = request.origin();
    if scheme == b"https" {
        return Some(true);
    }
    let is_loopback = |name: &&[u8]| {
        host.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with(b":"))
    };
    [&b"localhost"[..], b"127.0.0.1", b"[::1]"].iter().any(is_loopback).then_some(false)
}

/// Whether a request changes nothing, and opens no WebSocket.
fn is_safe(request: &Request) -> bool {
    let is_read = matches!(request.head.method(), Method::Get | Method::Head | Method::Options);
    is_read && request.head.upgrade(&request.bytes) == Upgrade::None
}

/// Whether a page of this origin, or the user, has caused the request.
fn is_own(request: &Request) -> bool {
    let site = request.head.find_name(&request.bytes, b"sec-fetch-site");
    let site = site.map(|field| field.value.of(&request.bytes));
    is_same_origin(site, field(request, Known::Origin), request.origin())
}

fn field(request: &Request, known: Known) -> Option<&[u8]> {
    request.head.find(known).map(|field| field.value.of(&request.bytes))
}

fn cookies_of(request: &Request) -> impl Iterator<Item = &[u8]> {
    let fields = request.head.fields().iter().filter(|field| field.known == Known::Cookie);
    fields.flat_map(|field| places::cookies(field.value.of(&request.bytes)))
}

/// The value of the only cookie of this name. If there are several, none counts.
fn cookie<'r>(request: &'r Request, name: &str) -> Option<&'r [u8]> {
    places::only(cookies_of(request), name).ok().flatten()
}
