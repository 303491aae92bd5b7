//! `/oauth2/authorize`: the authorisation code grant with PKCE. Source: RFC 6749 section 4.1, RFC 7636, RFC 9207.

use http::StatusCode;
use store::{Client, Code};

use crate::form::Form;
use crate::manager::{Manager, is_name};
use crate::oidc::{OPENID, with_parameters};
use crate::peer::Peer;
use crate::register::is_redirect;
use crate::reply::{Refusal, Reply};
use crate::sign_in::{Page, SignedIn};
use crate::token::{granted, has};
use crate::{dpop, federation, limits, reply, secrets, sign_in};

const PAGE: &str = "/oauth2/authorize";
/// The parameters that the page sends back.
const CARRIED: &[&str] = &[
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "nonce",
    "prompt",
    "max_age",
    "dpop_jkt",
];

/// Length of a SHA-256 hash in base64url.
const CHALLENGE_BYTES: usize = 43;

/// A request that may be answered at its redirect URI.
struct Asked {
    client: Client,
    redirect: String,
    state: Option<String>,
}

/// The parameters of a valid request.
struct Wanted<'a> {
    scope: String,
    challenge: &'a str,
    nonce: &'a str,
    /// How long ago the user may have signed in, in seconds; `None`: however long.
    max_age_s: Option<u64>,
    /// The key with which the client must prove to be the one that asks, if it names one. Source: RFC 9449 section 10.
    key: Option<&'a str>,
}

/// GET: the page.
pub(crate) async fn ask(
    manager: &Manager,
    form: &Form,
    signed_in: SignedIn<'_>,
) -> Result<Reply, Refusal> {
    let asked = asked(manager, form).await?;
    Ok(match wanted(&asked, form) {
        Ok(wanted) => page((manager, form), (&asked, &wanted), (StatusCode::OK, ""), signed_in),
        Err(error) => asked.redirected(manager, &[("error", error)]),
    })
}

/// POST: the user's decision on the page.
pub(crate) async fn decide(manager: &Manager, form: &Form, peer: &Peer) -> Result<Reply, Refusal> {
    let asked = asked(manager, form).await?;
    let wanted = match wanted(&asked, form) {
        Ok(wanted) => wanted,
        Err(error) => return Ok(asked.redirected(manager, &[("error", error)])),
    };
    let target = with_parameters(PAGE, carried(form));
    if let Some(provider) = form.get("provider") {
        return federation::begin(manager, provider, (target, wanted.max_age_s)).await;
    }
    if form.get("decision") != Some("allow") {
        return Ok(asked.redirected(manager, &[("error", "access_denied")]));
    }
    let again = |failed| Ok(page((manager, form), (&asked, &wanted), failed, None));
    let (user, auth_s) = match sign_in::signed_in(manager, form, &target, peer).await? {
        Ok(signed_in) => signed_in,
        Err(failed) => return again(failed),
    };
    let code = dpop::bound(secrets::secret(manager.entropy()), wanted.key);
    manager.admit_rows(&asked.client.id, 1)?;
    let row = Code {
        hash: secrets::hash(&code),
        family: secrets::identifier(manager.entropy()),
        client: asked.client.id.clone(),
        subject: user.name.clone(),
        scope: wanted.scope.clone(),
        redirect: asked.redirect.clone(),
        challenge: wanted.challenge.to_owned(),
        expires_s: manager.now_s().saturating_add(limits::CODE_S),
        nonce: wanted.nonce.to_owned(),
        auth_s,
    };
    if !manager.store.add_code(&row, &user).await? {
        return again(sign_in::SIGN_IN_AGAIN);
    }
    Ok(asked.redirected(manager, &[("code", &code)]))
}

/// The client and redirect URI. Without both, the user sees the error: nothing is sent to an address that the client
/// has not registered. Source: RFC 6749 section 4.1.2.1.
async fn asked(manager: &Manager, form: &Form) -> Result<Asked, Refusal> {
    let id = form.required("client_id", "`client_id` is missing")?;
    let client = if is_name(id) { manager.store.client(id).await? } else { None };
    let client = client.ok_or(Refusal::InvalidRequest("unknown `client_id`"))?;
    let redirect = form.required("redirect_uri", "`redirect_uri` is missing")?;
    let mut registered = client.redirects.split(' ');
    if !is_redirect(redirect) || !registered.any(|registered| same_redirect(registered, redirect)) {
        return Err(Refusal::InvalidRequest("the client has not registered this `redirect_uri`"));
    }
    let state = form.get("state").map(str::to_owned);
    Ok(Asked { redirect: redirect.to_owned(), client, state })
}

/// Whether `redirect` is the `registered` URI. On this machine, an application may use any port. Source: RFC 8252
/// section 7.3.
fn same_redirect(registered: &str, redirect: &str) -> bool {
    let without_port = |uri: &str| {
        let origin = ["http://127.0.0.1", "http://[::1]"];
        let (origin, rest) = origin.iter().find_map(|o| Some((*o, uri.strip_prefix(o)?)))?;
        let after = rest
            .strip_prefix(':')
            .map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
        let path = after.unwrap_or(rest);
        (path.is_empty() || path.starts_with(['/', '?'])).then(|| (origin, path.to_owned()))
    };
    match (without_port(registered), without_port(redirect)) {
        (Some(registered), Some(redirect)) => registered == redirect,
        (_, _) => registered == redirect,
    }
}

/// The error is a code of RFC 6749 section 4.1.2.1, for the client.
fn wanted<'f>(asked: &Asked, form: &'f Form) -> Result<Wanted<'f>, &'static str> {
    for (name, error) in [
        ("request", "request_not_supported"),
        ("request_uri", "request_uri_not_supported"),
        ("registration", "registration_not_supported"),
    ] {
        if form.get(name).is_some() {
            return Err(error);
        }
    }
    if form.get("response_type") != Some("code") {
        return Err("unsupported_response_type");
    }
    if form.get("response_mode").is_some_and(|mode| mode != "query") {
        return Err("invalid_request");
    }
    if !has(&asked.client.grants, "authorization_code") {
        return Err("unauthorized_client");
    }
    let is_hash = |challenge: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        challenge.len() == CHALLENGE_BYTES && challenge.bytes().all(plain)
    };
    let challenge = form.get("code_challenge").filter(is_hash).ok_or("invalid_request")?;
    if form.get("code_challenge_method") != Some("S256") {
        return Err("invalid_request");
    }
    // The key manager keeps no sessions: the user has to sign in.
    if form.get("prompt").is_some_and(|prompt| has(prompt, "none")) {
        return Err("login_required");
    }
    let nonce = form.get("nonce").unwrap_or_default();
    if nonce.len() > limits::NONCE_BYTES_MAX {
        return Err("invalid_request");
    }
    let scope = granted(form.get("scope"), &asked.client.scopes, Some(OPENID));
    let key = form.get("dpop_jkt");
    if key.is_some_and(|key| !is_hash(&key)) {
        return Err("invalid_request");
    }
    // Source: OpenID Connect Core section 3.1.2.1.
    let max_age_s = if form.get("prompt").is_some_and(|prompt| has(prompt, "login")) {
        Some(0)
    } else {
        form.get("max_age").map(str::parse).transpose().map_err(|_| "invalid_request")?
    };
    Ok(Wanted { scope, challenge, nonce, max_age_s, key })
}

impl Asked {
    /// A redirection to the client, with `iss` against mix-up attacks.
    fn redirected(&self, manager: &Manager, parameters: &[(&str, &str)]) -> Reply {
        let state = self.state.as_deref().map(|state| ("state", state));
        let all = parameters.iter().copied().chain(state).chain([("iss", &*manager.issuer)]);
        reply::redirect(&with_parameters(&self.redirect, all))
    }
}

fn page(
    (manager, form): (&Manager, &Form),
    (asked, wanted): (&Asked, &Wanted<'_>),
    (status, message): (StatusCode, &str),
    signed_in: SignedIn<'_>,
) -> Reply {
    Page {
        action: PAGE,
        client: &asked.client.name,
        scope: &wanted.scope,
        note: "",
        message,
        user: form.get("username").unwrap_or_default(),
        hidden: &carried(form).collect::<Vec<_>>(),
        providers: &manager.providers,
        signed_in,
    }
    .reply(status)
}

fn carried(form: &Form) -> impl Iterator<Item = (&str, &str)> {
    CARRIED.iter().filter_map(|name| Some((*name, form.get(name)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_port_of_an_application_on_this_machine_may_differ() {
        for (registered, redirect, same) in [
            ("https://a.example/cb", "https://a.example/cb", true),
            ("https://a.example/cb", "https://a.example:444/cb", false),
            ("http://127.0.0.1/cb", "http://127.0.0.1:51004/cb", true),
            ("http://127.0.0.1:1/cb?a=b", "http://127.0.0.1:2/cb?a=b", true),
            ("http://[::1]/cb", "http://[::1]:51004/cb", true),
            ("http://127.0.0.1/cb", "http://127.0.0.1:51004/other", false),
            ("http://127.0.0.1/cb", "http://[::1]/cb", false),
            ("http://127.0.0.1", "http://127.0.0.1:80@evil.example", false),
            ("http://127.0.0.1", "http://127.0.0.1.evil.example", false),
            ("http://localhost/cb", "http://localhost:51004/cb", false),
        ] {
            assert_eq!(same_redirect(registered, redirect), same, "{registered} {redirect}");
        }
    }
}
