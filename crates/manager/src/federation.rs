//! Sign-in of a user at an OpenID Connect provider, from the key manager's own pages. Source: OpenID Connect Core 1.0
//! section 3.1, RFC 9700 section 2.1.
//!
//! The page has a button for each provider, besides the password. The browser goes to the provider and returns to
//! [`returned`], which shows the page again, for the user's decision: a session at the provider allows nothing here.
//! The page contains a sealed proof of the sign-in, which is valid for this user and this request of a client only.

use base::limits::SIGN_IN_S_MAX;
use http::header::{COOKIE, HeaderName, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode};
use jose::SignInAttempt;
use store::User;

use crate::attempts::{Who, network};
use crate::form::Form;
use crate::manager::Manager;
use crate::metadata::origin;
use crate::oidc::with_parameters;
use crate::peer::Peer;
use crate::provider::{AskError, Provider};
use crate::reply::{Refusal, Reply};
use crate::{authorize, device, limits, reply};

/// The redirect URI; the name of the provider follows.
pub(crate) const CALLBACK: &str = "/oauth2/callback";
/// Sent over TLS to this host alone. One sign-in of a browser at a time.
const ATTEMPT: &str = "__Host-penstock-sign-in";

/// Sends the browser to the provider that the user has chosen. `target`: the path and query of the page. `max_age_s`:
/// how long ago the user may have signed in there.
pub(crate) async fn begin(
    manager: &Manager,
    name: &str,
    (target, max_age_s): (String, Option<u64>),
) -> Result<Reply, Refusal> {
    const LONG: Refusal =
        Refusal::InvalidRequest("the request is too long for a sign-in at a provider");
    let provider = manager.provider(name).ok_or(Refusal::NotFound)?;
    if target.len() > limits::PROVIDER_TARGET_BYTES_MAX {
        return Err(LONG);
    }
    let now = manager.now();
    let Some(found) = provider.discovered(now.unix_s, limits::PROVIDER_S).await else {
        return Ok(no_response());
    };
    let attempt = SignInAttempt::begin(target, max_age_s, manager.entropy(), now, SIGN_IN_S_MAX);
    let sealed = attempt.seal(&manager.keys().sealing, name).ok_or(Refusal::Unavailable)?;
    let settings = &provider.settings;
    let location = with_parameters(
        &found.endpoints.authorize,
        [
            ("response_type", "code"),
            ("client_id", &settings.client_id),
            ("redirect_uri", &redirect_uri(manager, provider)),
            ("scope", &settings.scopes.join(" ")),
            ("state", &attempt.state),
            ("nonce", &attempt.nonce),
            ("code_challenge", &attempt.challenge()),
            ("code_challenge_method", "S256"),
        ],
    );
    let location = location + &jose::fresh_sign_in(max_age_s);
    Ok(with_cookie(reply::redirect(&location), &sealed, SIGN_IN_S_MAX))
}

/// The browser returns from the provider `name`.
pub(crate) async fn returned(
    manager: &Manager,
    name: &str,
    head: &HeaderMap,
    form: &Form,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let provider = manager.provider(name).ok_or(Refusal::NotFound)?;
    let reply = match signed_in(manager, provider, (head, form), peer).await {
        Ok(signed_in) => page(manager, &signed_in, peer).await?,
        // The browser may send the same request again.
        Err(Failure::Refused(refusal)) => return Err(refusal),
        Err(Failure::Outage(problem)) => {
            tracing::warn!(provider = name, problem, "a sign-in has to wait");
            return Ok(no_response());
        }
        Err(Failure::Failed(problem)) => {
            tracing::warn!(provider = name, problem, "a sign-in failed");
            let message = "The sign-in has failed. Go back to the application and try again.";
            reply::message(StatusCode::FORBIDDEN, message)
        }
    };
    Ok(with_cookie(reply, "", 0))
}

fn no_response() -> Reply {
    let message = "The provider does not respond. Try again later, or go back.";
    reply::message(StatusCode::SERVICE_UNAVAILABLE, message)
}

/// Reasons for which no user is signed in.
pub(crate) enum Failure {
    /// For the log.
    Failed(String),
    /// The provider cannot be asked now. For the log.
    Outage(String),
    Refused(Refusal),
}

impl From<String> for Failure {
    fn from(problem: String) -> Self {
        Self::Failed(problem)
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Outage(problem) => Self::Outage(problem),
            AskError::Refused(problem) => Self::Failed(problem),
        }
    }
}

impl From<&str> for Failure {
    fn from(problem: &str) -> Self {
        Self::Failed(problem.to_owned())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A user who has signed in.
struct SignedIn {
    user: User,
    /// When the user signed in at the provider, in seconds since the Unix epoch; 0: unknown.
    auth_s: u64,
    /// The page on which the sign-in began.
    target: String,
}

async fn signed_in(
    manager: &Manager,
    provider: &Provider,
    (head, form): (&HeaderMap, &Form),
    peer: &Peer,
) -> Result<SignedIn, Failure> {
    let state = form.get("state").ok_or("there is no `state`")?;
    let sealed = cookie(head).unwrap_or_default();
    let (name, now) = (&provider.settings.name, manager.now());
    let opened = SignInAttempt::open(
        &manager.keys().sealing,
        name,
        (sealed.as_bytes(), state.as_bytes()),
        now,
    );
    let attempt = opened.ok_or("it was not begun in this browser, or too long ago")?;
    let found = provider.discovered(now.unix_s, limits::PROVIDER_S).await;
    let found = found.ok_or_else(|| Failure::Outage("its metadata cannot be read".to_owned()))?;
    // Source: RFC 9207 section 2.4.
    match form.get("iss") {
        Some(iss) if iss != provider.settings.issuer => {
            return Err("the response is from another issuer".into());
        }
        None if found.endpoints.sends_iss => return Err("the response has no `iss`".into()),
        Some(_) | None => {}
    }
    match form.get("error") {
        Some("temporarily_unavailable" | "server_error") => {
            return Err(Failure::Outage("the provider reports an outage".to_owned()));
        }
        Some(_) => return Err("the provider returned an error".into()),
        None => {}
    }
    let code = form.get("code").ok_or("there is no `code`")?;
    let redirect_uri = redirect_uri(manager, provider);
    // Failed attempts of an address are slowed: each one asks the provider.
    let who = [Who::Address(network(peer.address))];
    manager.begin(&who).await?;
    let asked = provider.user(manager, (code, &redirect_uri), &attempt).await;
    match &asked {
        Ok(_) => manager.succeeded(&who).await,
        Err(Failure::Refused(_) | Failure::Outage(_)) => manager.attempts.withdrawn(&who),
        Err(Failure::Failed(_)) => manager.failed(&who).await,
    }
    let (profile, auth_s) = asked?;
    let user = manager.adopted(profile).await?;
    let user = user.ok_or("the user cannot have the name")?;
    Ok(SignedIn { user, auth_s, target: attempt.target })
}

/// The page for the decision of a user.
async fn page(manager: &Manager, signed_in: &SignedIn, peer: &Peer) -> Result<Reply, Refusal> {
    let proof = prove(manager, signed_in).ok_or(Refusal::Unavailable)?;
    let SignedIn { user, target, .. } = signed_in;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let form = Form::parse(query.as_bytes())?;
    let signed_in = Some((user.name.as_str(), proof.as_str()));
    match path {
        device::PAGE => device::ask(manager, &form, signed_in, peer).await,
        _ => authorize::ask(manager, &form, signed_in).await,
    }
}

/// The proof that a user has signed in, for the page on which that began.
fn prove(manager: &Manager, SignedIn { user, auth_s, target }: &SignedIn) -> Option<String> {
    let text = format!("{}\n{auth_s}\n{}", manager.now_s(), user.name);
    manager.keys().sealing.seal(&purpose(target), text.as_bytes())
}

/// The user who has signed in by `proof`, for the page `target`, if that was not too long ago, and when the provider
/// asked for the password (0: unknown).
pub(crate) async fn proven(
    manager: &Manager,
    proof: &str,
    target: &str,
) -> Result<Option<(User, u64)>, Refusal> {
    let opened = manager.keys().sealing.open(&purpose(target), proof.as_bytes());
    let text = opened.and_then(|text| String::from_utf8(text).ok()).unwrap_or_default();
    let mut lines = text.split('\n');
    let mut seconds = || lines.next()?.parse::<u64>().ok();
    let times = seconds().zip(seconds());
    let Some(((time_s, auth_s), name)) = times.zip(lines.next()) else { return Ok(None) };
    if manager.now_s() >= time_s.saturating_add(SIGN_IN_S_MAX) {
        return Ok(None);
    }
    Ok(manager.user_since(name, time_s).await?.map(|user| (user, auth_s)))
}

fn purpose(target: &str) -> String {
    format!("signed in for {target}")
}

fn redirect_uri(manager: &Manager, provider: &Provider) -> String {
    format!("{}{CALLBACK}/{}", origin(&manager.issuer), provider.settings.name)
}

/// The cookie of the attempt, if there is exactly one.
fn cookie(head: &HeaderMap) -> Option<&str> {
    let fields = head.get_all(COOKIE).iter().filter_map(|field| field.to_str().ok());
    let pairs = fields.flat_map(|field| field.split(';'));
    let mut values = pairs.filter_map(|pair| pair.trim().strip_prefix(ATTEMPT)?.strip_prefix('='));
    values.next().filter(|_| values.next().is_none())
}

fn with_cookie(mut reply: Reply, value: &str, age_s: u64) -> Reply {
    let attributes = "Path=/; Secure; HttpOnly; SameSite=Lax";
    let line = format!("{ATTEMPT}={value}; {attributes}; Max-Age={age_s}");
    let field: HeaderName = SET_COOKIE;
    if let Ok(line) = HeaderValue::from_str(&line) {
        reply.headers_mut().insert(field, line);
    }
    reply
}
