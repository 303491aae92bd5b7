//! The gateway's own resources of a login: where a browser returns to from the provider, and where its user signs out.

use std::borrow::Cow;
use std::rc::Rc;

use base::Method;
use base::limits::{KEY_SET_WAIT_MS_MAX, LOGIN_MS_MAX, LOGIN_PAUSE_S};
use jose::{IdTokenProblem, IssuedTokens, SignInAttempt};
use model::{Denial, Fault};
use percent_encoding::{percent_decode, percent_encode};
use stages::authenticate::places;
use stages::sign_in::{Cookies, Session, check_id_token};

use super::{cookie, give, is_own, is_secure, open, origin, provider, redirect_uri};
use crate::body::request_body::{Unwanted, while_wanted};
use crate::exchange::Exchange;
use crate::exchange::client::Client;
use crate::exchange::response::Response;
use crate::message::Request;
use crate::own_requests::fetch::FORM;
use crate::own_requests::form_post::Problem;
use crate::worker::Worker;
use crate::worker::compiled::Compiled;
use crate::worker::sessions::Provider;

/// The response to a request for `/.login/NAME/ACTION`.
///
/// # Errors
/// The resource does not exist, or the sign-in has failed; or the client left meanwhile.
pub(crate) async fn respond<C: Client>(
    exchange: &mut Exchange<'_>,
    revision: &Rc<Compiled>,
    client: &mut C,
) -> Result<Response, Box<Fault>> {
    let request = exchange.request;
    let is_get = request.head.method() == Method::Get;
    let action = revision.live.logins.action(request.head.path(&request.bytes));
    let location = match action {
        Some((provider, b"/callback")) if is_get => {
            callback(exchange, revision, provider, client).await?
        }
        Some((provider, b"/logout")) if is_get || request.head.method() == Method::Post => {
            logout(exchange, revision, provider, client).await?
        }
        Some(_) | None => return Err(Fault::Denied(Denial::NoResource).into()),
    };
    let lines = format!("Location: {location}\r\nReferrer-Policy: no-referrer\r\n");
    Ok(exchange.worker.own_response_with(303, lines.as_bytes()))
}

/// Handles the provider's redirect to the callback. Returns where the browser goes on.
async fn callback<C: Client>(
    exchange: &mut Exchange<'_>,
    revision: &Rc<Compiled>,
    provider: &Provider,
    client: &mut C,
) -> Result<String, Box<Fault>> {
    let (worker, request) = (exchange.worker, exchange.request);
    let login = &provider.login;
    let log = |problem: &str| {
        if worker.sign_ins.logs_failure(worker.resources.now_us()) {
            tracing::warn!(login = login.name, problem, "a sign-in failed");
        }
    };
    let failed = |problem: &str| {
        log(problem);
        Box::new(Fault::Denied(Denial::SignInFailed))
    };
    let state = parameter(request, "state").ok_or_else(|| failed("there is no `state`"))?;
    let secure = is_secure(request).ok_or_else(|| failed("the browser does not use https"))?;
    let cookies = Cookies::of(&login.name, secure);
    let sealed = cookies.attempt(&state, |name| cookie(request, name));
    let now = worker.resources.exact();
    let attempt = sealed
        .and_then(|sealed| SignInAttempt::open(&provider.keys, &login.name, (sealed, &state), now));
    let attempt = attempt
        .ok_or_else(|| failed("this browser did not start the sign-in here, or too long ago"))?;
    let Ok(_turn) = worker.sign_ins.codes.try_acquire() else {
        return Err(Fault::Denied(Denial::IssuerUnavailable).into());
    };
    match issued(exchange, revision, (provider, &attempt), client).await? {
        Err(problem) if problem.is_outage() => {
            log(&problem.to_string());
            // The attempt stays: the browser may send the same request again.
            let retry = format!("Retry-After: {LOGIN_PAUSE_S}\r\n");
            exchange.lines.extend_from_slice(retry.as_bytes());
            Err(Fault::Denied(Denial::IssuerUnavailable).into())
        }
        Err(problem) => {
            cookies.remove_attempt(&attempt.state, &mut exchange.lines);
            Err(failed(&problem.to_string()))
        }
        Ok(issued) => {
            cookies.remove_attempt(&attempt.state, &mut exchange.lines);
            give(exchange, provider, &Session::begin(issued, login, worker.resources.exact()))?;
            Ok(attempt.target)
        }
    }
}

/// The tokens of the user, by the parameters with which the browser returns from the provider.
async fn issued<C: Client>(
    exchange: &Exchange<'_>,
    revision: &Rc<Compiled>,
    (provider, attempt): (&Provider, &SignInAttempt),
    client: &mut C,
) -> Result<Result<IssuedTokens, Problem>, Box<Fault>> {
    let (worker, request) = (exchange.worker, exchange.request);
    let other = |why: &str| Ok(Err(Problem::Other(why.to_owned())));
    let iss = parameter(request, "iss");
    if iss.as_deref().is_some_and(|iss| *iss != *provider.login.issuer.as_bytes()) {
        return other("the response is that of another issuer");
    }
    match parameter(request, "error").as_deref() {
        Some(b"temporarily_unavailable" | b"server_error") => {
            return Ok(Err(Problem::Unreachable("the provider reports an outage".to_owned())));
        }
        Some(_) => return other("the provider or its user has refused"),
        None => {}
    }
    let Some(code) = parameter(request, "code") else { return other("there is no `code`") };
    let redirect_uri = redirect_uri(request, provider);
    let with = (code.as_ref(), attempt.verifier.as_str(), redirect_uri.as_str());
    let redeemed = provider::redeem(worker, revision, provider, with, iss.is_some());
    let issued = match of_provider(worker, client, redeemed).await? {
        Some(Ok(issued)) => issued,
        Some(Err(problem)) => return Ok(Err(problem)),
        None => return Ok(Err(Problem::Unreachable("it did not respond".to_owned()))),
    };
    let id_token = issued.id_token.as_deref().unwrap_or_default();
    match check(worker, revision, provider, (id_token, attempt), client).await? {
        Ok(()) => Ok(Ok(issued)),
        Err(problem) => other(&format!("the ID token is rejected: {problem}")),
    }
}

/// Checks an ID token, if need be with newer keys of its issuer.
async fn check<C: Client>(
    worker: &Worker,
    revision: &Rc<Compiled>,
    provider: &Provider,
    (id_token, attempt): (&str, &SignInAttempt),
    client: &mut C,
) -> Result<Result<(), &'static str>, Box<Fault>> {
    let now = worker.resources.exact();
    let check = |revision: &Compiled| {
        let issuers = revision.routes.issuers();
        check_id_token(id_token.as_bytes(), &provider.login, attempt, issuers, now)
    };
    let number = match check(revision) {
        Ok(()) => return Ok(Ok(())),
        Err(IdTokenProblem::Invalid(problem)) => return Ok(Err(problem)),
        Err(IdTokenProblem::UnknownKey(number)) => number,
    };
    let issuer = revision.routes.issuers().get(number);
    let asked = issuer
        .and_then(|issuer| worker.questions.key_set(&issuer.name, worker.resources.coarse_us()));
    if let Some(asked) = asked {
        client.watch().set(worker.resources.deadline_us(KEY_SET_WAIT_MS_MAX));
        if let Err(Unwanted::Left(fault)) = while_wanted(client, asked.answer()).await {
            return Err(fault);
        }
    }
    Ok(match check(&worker.compiled()) {
        Ok(()) => Ok(()),
        Err(IdTokenProblem::Invalid(problem)) => Err(problem),
        Err(IdTokenProblem::UnknownKey(_)) => Err("no key of the issuer has its `kid`"),
    })
}

/// Ends the session of the browser. Returns where it goes on: to the provider, if that has a place for it.
async fn logout<C: Client>(
    exchange: &mut Exchange<'_>,
    revision: &Rc<Compiled>,
    provider: &Provider,
    client: &mut C,
) -> Result<String, Box<Fault>> {
    let (worker, request) = (exchange.worker, exchange.request);
    let secure = is_secure(request).filter(|_| is_own(request));
    let Some(secure) = secure else { return Err(Fault::Denied(Denial::CrossSite).into()) };
    let login = &provider.login;
    let session = open(request, provider, worker);
    Cookies::of(&login.name, secure).remove_session(&mut exchange.lines);
    let ended = async {
        let endpoints = provider::endpoints(worker, revision, provider).await?;
        if let Some(session) = &session {
            let renewed = worker.sign_ins.renewals.renewed(&login.name, session).await;
            let session = renewed.as_deref().unwrap_or(session);
            provider::revoke(worker, revision, (provider, &endpoints), session).await;
        }
        Some(endpoints)
    };
    let endpoints = of_provider(worker, client, ended).await?.flatten();
    let logout = endpoints.and_then(|endpoints| endpoints.logout.clone());
    let id_token = session.and_then(|session| session.id_token);
    let (Some(logout), Some(id_token)) = (logout, id_token) else {
        return Ok(login.after_logout.clone());
    };
    let encoded = |text: &str| percent_encode(text.as_bytes(), FORM).to_string();
    let after = format!("{}{}", origin(request), login.after_logout);
    let separator = if logout.contains('?') { '&' } else { '?' };
    Ok(format!(
        "{logout}{separator}id_token_hint={}&client_id={}&post_logout_redirect_uri={}",
        encoded(&id_token),
        encoded(&login.client_id),
        encoded(&after),
    ))
}

/// The provider's response, while the client waits for it. `None`: it took too long.
async fn of_provider<C: Client, F: Future>(
    worker: &Worker,
    client: &mut C,
    asked: F,
) -> Result<Option<F::Output>, Box<Fault>> {
    // Each request has a limit of its own, which is shorter.
    client.watch().set(worker.resources.deadline_us(LOGIN_MS_MAX.saturating_mul(3)));
    match while_wanted(client, asked).await {
        Ok(response) => Ok(Some(response)),
        Err(Unwanted::TimeUp) => Ok(None),
        Err(Unwanted::Left(fault)) => Err(fault),
    }
}

/// A parameter of the query, decoded. One that occurs twice is none.
fn parameter<'r>(request: &'r Request, name: &str) -> Option<Cow<'r, [u8]>> {
    let query = request.head.query(&request.bytes).unwrap_or_default();
    let value = places::only(places::parameters(query), name).ok().flatten()?;
    Some(Cow::from(percent_decode(value)))
}
