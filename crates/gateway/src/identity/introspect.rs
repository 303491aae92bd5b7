//! Introspection: asks issuers about an opaque token, on the worker's own connections. Passwords are verified here,
//! too, by a thread for heavy work, or by an issuer.
//!
//! Life of a request: route -> authenticate -> **introspect**, if the token is not cached. The issuers are asked in the
//! order of the configuration, once for all requests with the same token, until one calls it active. The result is
//! stored in the token cache, whether or not a client still waits. A worker asks about `INTROSPECTIONS_MAX` tokens at a
//! time, and about fewer of one client.

use std::net::IpAddr;
use std::rc::Rc;

use base::limits::{
    INTROSPECTION_BY_ALL_MS_MAX, INTROSPECTION_BYTES_MAX, INTROSPECTION_MS_MAX, INTROSPECTIONS_MAX,
    INTROSPECTIONS_PER_CLIENT_MAX, PASSWORD_CHECKS_MAX, PASSWORD_WAIT_MS_MAX,
};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use model::{AuthFailure, BackendClient, Fault, Introspection, Issuer};
use percent_encoding::percent_encode;
use stages::{Identity, Question as Needed, authenticate};

use super::credentials::Presented;
use crate::account::bump;
use crate::body::request_body::Unwanted;
use crate::exchange::client::Client;
use crate::message::{Repetition, Request};
use crate::own_requests::fetch::FORM;
use crate::own_requests::form_post::{self, Form, Problem};
use crate::shares::gate::{Gate, Pass};
use crate::tasks;
use crate::worker::Worker;
use crate::worker::ask::{Asked, Outcome, Question};
use crate::worker::compiled::Compiled;

/// Asks about a credential, unless that waits for its answer. `None`: it was answered meanwhile, or the worker asks too
/// much.
///
/// # Errors
/// The client left meanwhile.
pub(crate) async fn ask<C: Client>(
    worker: &Worker,
    revision: &Rc<Compiled>,
    request: &Request,
    presented: &Presented<'_>,
    client: &mut C,
) -> Result<Option<Rc<Asked>>, Box<Fault>> {
    let (bytes, number) = (presented.bytes().into(), revision.routes.revision());
    let question = match presented {
        Presented::Login(_) => {
            let users = revision.live.users.fingerprint();
            Question::Password { login: bytes, users, revision: number }
        }
        Presented::Token(_)
        | Presented::Proven(_)
        | Presented::Session(_)
        | Presented::Key(_)
        | Presented::InternalKey(_) => Question::Token { token: bytes, revision: number },
    };
    let find = || worker.questions.find(&question, worker.resources.coarse_us());
    if let Some(asked) = find() {
        return Ok(Some(asked));
    }
    let shares = shares(worker, request, presented);
    let sender = request.client_address(&revision.live.trusted_proxies);
    if let Some(places) = try_places(&shares) {
        return Ok(Some(start(worker, revision, (question, sender), places)));
    }
    let most_ms = if matches!(presented, Presented::Login(_)) {
        PASSWORD_WAIT_MS_MAX
    } else {
        INTROSPECTION_MS_MAX
    };
    client.watch().set(worker.resources.deadline_us(most_ms));
    let places = match wait_for_places(&shares, client).await {
        Ok(places) => places,
        Err(Unwanted::TimeUp) => return Ok(None),
        Err(Unwanted::Left(fault)) => return Err(fault),
    };
    // Others may have asked meanwhile.
    if !matches!(worker.identify(revision, presented), Identity::Ask(_)) {
        return Ok(None);
    }
    Ok(Some(find().unwrap_or_else(|| start(worker, revision, (question, sender), places))))
}

type Places = [Option<Pass>; 2];

/// The gates at which a credential waits, and their limits: that of the client, unless it is a trusted proxy, and the
/// worker's.
type Gates<'a> = [(Option<&'a Rc<Gate>>, usize); 2];

fn shares<'a>(worker: &'a Worker, request: &'a Request, presented: &Presented<'_>) -> Gates<'a> {
    let shares = [request.peer.share(), Some(&worker.share)];
    if matches!(presented, Presented::Login(_)) {
        return shares.map(|share| (share.map(|share| &share.passwords), PASSWORD_CHECKS_MAX));
    }
    let [client, all] = shares.map(|share| share.map(|share| &share.introspections));
    [(client, INTROSPECTIONS_PER_CLIENT_MAX), (all, INTROSPECTIONS_MAX)]
}

/// A place in each share, if all have one now.
fn try_places(gates: &Gates<'_>) -> Option<Places> {
    let mut places = Places::default();
    for (place, (gate, most)) in places.iter_mut().zip(gates) {
        if let Some(gate) = gate {
            *place = Some(gate.try_pass(*most)?);
        }
    }
    Some(places)
}

/// A place in each share, as soon as there is one.
async fn wait_for_places<C: Client>(gates: &Gates<'_>, client: &mut C) -> Result<Places, Unwanted> {
    let mut places = Places::default();
    for (place, (gate, most)) in places.iter_mut().zip(gates) {
        let Some(gate) = gate else { continue };
        *place = match gate.try_pass(*most) {
            Some(pass) => Some(pass),
            None => Some(gate.wait(client).await?),
        };
    }
    Ok(places)
}

fn start(
    worker: &Worker,
    revision: &Rc<Compiled>,
    (question, sender): (Question, IpAddr),
    places: Places,
) -> Rc<Asked> {
    // Asking has limits of its own.
    let asked = worker.questions.begin(question, worker.resources.coarse_us(), u64::MAX);
    let (worker, outcome) = (worker.this(), None);
    let asking = Asking { worker, asked: Rc::clone(&asked), sender, outcome, _places: places };
    tasks::spawn(run(asking, Rc::clone(revision)));
    asked
}

/// Wakes those who wait when it is dropped, even by a panic.
struct Asking {
    worker: Rc<Worker>,
    asked: Rc<Asked>,
    /// The address of the client for whom it is asked.
    sender: IpAddr,
    outcome: Option<Outcome>,
    _places: Places,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.worker.questions.answer(&self.asked, self.outcome.take());
    }
}

async fn run(mut asking: Asking, revision: Rc<Compiled>) {
    let worker = Rc::clone(&asking.worker);
    let busy = worker.busy();
    asking.outcome = match asking.asked.question() {
        Question::Token { token, .. } => Some(ask_each(&worker, &revision, token).await),
        Question::Password { login, .. } => {
            Some(verify(&worker, &revision, login, asking.sender).await)
        }
        Question::KeySet { .. } | Question::BackendToken { .. } => None,
    };
    drop(asking);
    drop(busy);
    worker.notice_the_end();
}

/// Verifies a password: that of a configured user on a thread for heavy work, any other at the issuer that has users.
/// If there is none, one of an unknown user takes as long.
async fn verify(worker: &Worker, revision: &Compiled, login: &[u8], sender: IpAddr) -> Outcome {
    let users = &revision.live.users;
    let decoded = BASE64_STANDARD.decode(login).unwrap_or_default();
    let colon = decoded.iter().position(|byte| *byte == b':');
    let (name, password) = decoded.split_at(colon.unwrap_or(decoded.len()));
    let (user, hash) = users.find(std::str::from_utf8(name).unwrap_or_default());
    let password = password.get(1..).unwrap_or_default();
    let issuer = if user.is_none() { issuer_with_users(revision) } else { None };
    let user = if let Some((issuer, of)) = issuer {
        match exchanged(worker, revision, of, (name, password, sender)).await {
            Ok(Some(token)) => return issued(worker, revision, login, &token).await,
            Ok(None) => None,
            Err(problem) => {
                report(issuer, &problem);
                return Err(AuthFailure::IssuerUnavailable);
            }
        }
    } else {
        let (hash, password) = (hash.clone(), password.to_vec());
        let verified = worker.heavy.run(sender, move || hash.verify(&password)).await;
        let Ok(Some(is_verified)) = verified else { return Err(AuthFailure::IssuerUnavailable) };
        user.filter(|_| is_verified)
    };
    let (mut tokens, now) = (worker.tokens.borrow_mut(), worker.resources.exact());
    authenticate::conclude_login(&mut tokens, login, users, user, now)
}

fn issuer_with_users(revision: &Compiled) -> Option<(&Issuer, &BackendClient)> {
    let mut issuers = revision.routes.issuers().iter();
    issuers.find_map(|issuer| Some((&**issuer, issuer.passwords.as_ref()?)))
}

/// The token of the user with this name and password. `None`: no user has them. Source: RFC 6749 section 4.3.
async fn exchanged(
    worker: &Worker,
    revision: &Compiled,
    of: &BackendClient,
    (name, password, sender): (&[u8], &[u8], IpAddr),
) -> Result<Option<String>, String> {
    let escaped = |bytes: &[u8]| percent_encode(bytes, FORM).to_string();
    let (name, password) = (escaped(name), escaped(password));
    let mut text = format!("grant_type=password&username={name}&password={password}");
    if !of.scopes.is_empty() {
        text += "&scope=";
        text += &escaped(of.scopes.join(" ").as_bytes());
    }
    let form = Form {
        url: &of.token_url,
        client: Some((&of.client_id, &of.client_secret)),
        sender: Some(sender),
        text: &text,
        // A wrong password would count twice, and a password may be valid once.
        repetition: Repetition::SingleUse,
        bytes_max: INTROSPECTION_BYTES_MAX,
        total_ms: INTROSPECTION_MS_MAX,
    };
    let response = match form_post::send(worker, revision, &form).await {
        Ok(response) => response,
        Err(Problem::Grant) => return Ok(None),
        Err(problem) => return Err(problem.to_string()),
    };
    let issued = jose::issued_tokens(&response).map_err(|error| error.to_string())?;
    Ok(Some(issued.access_token))
}

/// The user whose token an issuer has issued.
async fn issued(worker: &Worker, revision: &Compiled, login: &[u8], token: &str) -> Outcome {
    let issuers = revision.routes.issuers();
    let now = worker.resources.exact();
    let identity =
        authenticate::identify(&mut worker.tokens.borrow_mut(), token.as_bytes(), issuers, now);
    let caller = match identity {
        Identity::Known(caller) => caller,
        Identity::Rejected(failure) => return Err(failure),
        Identity::Ask(Needed::Token) => ask_each(worker, revision, token.as_bytes()).await?,
        Identity::Ask(Needed::KeySet { issuer }) => {
            // The next request finds it.
            if let Some(issuer) = issuers.get(issuer) {
                worker.questions.key_set(&issuer.name, worker.resources.coarse_us());
            }
            return Err(AuthFailure::IssuerUnavailable);
        }
        Identity::Ask(Needed::Password) => return Err(AuthFailure::IssuerUnavailable),
    };
    let (mut tokens, now) = (worker.tokens.borrow_mut(), worker.resources.exact());
    let (users, login) = (&revision.live.users, (login, token.as_bytes()));
    authenticate::conclude_issued(&mut tokens, login, users, (issuers, &caller), now)
}

/// Asks one issuer after the other, within one deadline. One that fails leaves the token undecided unless another one
/// calls it active.
async fn ask_each(worker: &Worker, revision: &Compiled, token: &[u8]) -> Outcome {
    let issuers = revision.routes.issuers();
    let counts = &worker.tally.introspections;
    let mut undecided = false;
    let latest_us = worker.resources.deadline_us(INTROSPECTION_BY_ALL_MS_MAX);
    for (number, issuer) in issuers.iter().enumerate() {
        let Some(introspection) = &issuer.introspection else { continue };
        let left_us = latest_us.saturating_sub(worker.resources.now_us());
        let left_ms = u32::try_from(left_us / 1_000).unwrap_or(u32::MAX);
        if left_ms == 0 {
            undecided = true;
            break;
        }
        let total_ms = left_ms.min(INTROSPECTION_MS_MAX);
        let asked = ask_issuer(worker, revision, (introspection, total_ms), token).await;
        let concluded = asked.and_then(|response| {
            let (mut tokens, now) = (worker.tokens.borrow_mut(), worker.resources.exact());
            match authenticate::conclude(&mut tokens, token, issuers, number, &response, now) {
                Err(AuthFailure::IssuerUnavailable) => {
                    Err("the response is not that of an introspection endpoint".to_owned())
                }
                concluded => Ok(concluded),
            }
        });
        match concluded {
            Ok(Ok(Some(caller))) => {
                bump(&counts.active);
                return Ok(caller);
            }
            Ok(Ok(None)) => bump(&counts.inactive),
            Ok(Err(failure)) => {
                bump(&counts.inactive);
                return Err(failure);
            }
            Err(problem) => {
                bump(&counts.failed);
                report(issuer, &problem);
                undecided = true;
            }
        }
    }
    if undecided {
        return Err(AuthFailure::IssuerUnavailable);
    }
    authenticate::refuse(&mut worker.tokens.borrow_mut(), token, worker.resources.coarse());
    Err(AuthFailure::InactiveToken)
}

fn report(issuer: &Issuer, problem: &str) {
    tracing::warn!(issuer = issuer.name, problem, "a credential could not be verified");
}

/// The body of a successful response.
async fn ask_issuer(
    worker: &Worker,
    revision: &Compiled,
    (introspection, total_ms): (&Introspection, u32),
    token: &[u8],
) -> Result<Vec<u8>, String> {
    let text = format!("token={}&token_type_hint=access_token", percent_encode(token, FORM));
    let form = Form {
        url: &introspection.url,
        client: Some((&introspection.client_id, &introspection.client_secret)),
        sender: None,
        text: &text,
        repetition: Repetition::Harmless,
        bytes_max: INTROSPECTION_BYTES_MAX,
        total_ms,
    };
    Ok(form_post::send(worker, revision, &form).await?)
}
