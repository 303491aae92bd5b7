//! `/oauth2/authorize`: the authorisation code grant with PKCE. Source: RFC 6749 section 4.1, RFC 7636, RFC 9207.
//!
//! One page, without scripts and without a session: the user enters name and password, and with the same click allows
//! the client what it asks for. A forged request achieves nothing, since it does not have the password.

use std::net::IpAddr;

use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use store::{Client, Code};

use crate::form::Form;
use crate::manager::{Manager, is_name};
use crate::reply::{Refusal, Reply};
use crate::token::{granted, has};
use crate::{limits, reply, secrets};

/// The parameters that the page sends back.
const CARRIED: &[&str] = &[
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
];

/// Length of a SHA-256 hash in base64url.
const CHALLENGE_BYTES: usize = 43;

/// A request that may be answered at its redirect URI.
struct Asked {
    client: Client,
    redirect: String,
    state: Option<String>,
}

/// What a valid request asks for.
struct Wanted<'a> {
    scope: String,
    challenge: &'a str,
}

/// GET: the page.
pub(crate) async fn ask(manager: &Manager, form: &Form) -> Result<Reply, Refusal> {
    let asked = asked(manager, form).await?;
    Ok(match wanted(&asked, form) {
        Ok(wanted) => page(form, &asked, &wanted, StatusCode::OK, ""),
        Err(error) => asked.redirected(manager, &[("error", error)]),
    })
}

/// POST: what the user decided on the page.
pub(crate) async fn decide(manager: &Manager, form: &Form, peer: IpAddr) -> Result<Reply, Refusal> {
    let asked = asked(manager, form).await?;
    let wanted = match wanted(&asked, form) {
        Ok(wanted) => wanted,
        Err(error) => return Ok(asked.redirected(manager, &[("error", error)])),
    };
    if form.get("decision") != Some("allow") {
        return Ok(asked.redirected(manager, &[("error", "access_denied")]));
    }
    let user = form.get("username").unwrap_or_default();
    let password = form.get("password").unwrap_or_default();
    if !manager.password_is(user, password, peer).await? {
        let message = "Unknown user or wrong password.";
        return Ok(page(form, &asked, &wanted, StatusCode::FORBIDDEN, message));
    }
    let code = secrets::secret(manager.entropy());
    manager.admit_rows(&asked.client.id, 1)?;
    let row = Code {
        hash: secrets::hash(&code),
        family: secrets::identifier(manager.entropy()),
        client: asked.client.id.clone(),
        subject: user.to_owned(),
        scope: wanted.scope,
        redirect: asked.redirect.clone(),
        challenge: wanted.challenge.to_owned(),
        expires_s: manager.now_s().saturating_add(limits::CODE_S),
    };
    manager.store.add_code(&row).await?;
    Ok(asked.redirected(manager, &[("code", &code)]))
}

/// The client and redirect URI. Without both, the user sees the error: nothing is sent to an address that the client
/// has not registered. Source: RFC 6749 section 4.1.2.1.
async fn asked(manager: &Manager, form: &Form) -> Result<Asked, Refusal> {
    let id = form.required("client_id", "`client_id` is missing")?;
    let client = if is_name(id) { manager.store.client(id).await? } else { None };
    let client = client.ok_or(Refusal::InvalidRequest("unknown `client_id`"))?;
    let redirect = form.required("redirect_uri", "`redirect_uri` is missing")?;
    if !has(&client.redirects, redirect) {
        return Err(Refusal::InvalidRequest("the client has not registered this `redirect_uri`"));
    }
    let state = form.get("state").map(str::to_owned);
    Ok(Asked { redirect: redirect.to_owned(), client, state })
}

/// The error is a code of RFC 6749 section 4.1.2.1, for the client.
fn wanted<'f>(asked: &Asked, form: &'f Form) -> Result<Wanted<'f>, &'static str> {
    if form.get("response_type") != Some("code") {
        return Err("unsupported_response_type");
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
    Ok(Wanted { scope: granted(form.get("scope"), &asked.client.scopes), challenge })
}

impl Asked {
    /// A redirection to the client, with `iss` against mix-up attacks.
    fn redirected(&self, manager: &Manager, parameters: &[(&str, &str)]) -> Reply {
        let state = self.state.as_deref().map(|state| ("state", state));
        let all = parameters.iter().copied().chain(state).chain([("iss", &*manager.issuer)]);
        let mut location = self.redirect.clone();
        let mut separator = if location.contains('?') { '&' } else { '?' };
        for (name, value) in all {
            location.push(separator);
            location.push_str(name);
            location.push('=');
            location.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
            separator = '&';
        }
        reply::redirect(&location)
    }
}

fn page(
    form: &Form,
    asked: &Asked,
    wanted: &Wanted<'_>,
    status: StatusCode,
    message: &str,
) -> Reply {
    let hidden: String = CARRIED
        .iter()
        .filter_map(|name| Some((name, form.get(name)?)))
        .map(|(name, value)| {
            format!("<input type=\"hidden\" name=\"{name}\" value=\"{}\">\n", escaped(value))
        })
        .collect();
    let (client, scope) = (escaped(&asked.client.name), escaped(&wanted.scope));
    let user = escaped(form.get("username").unwrap_or_default());
    reply::page(
        status,
        &format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>Sign in</title>\n\
             <h1>Sign in</h1>\n<p><strong>{client}</strong> asks for access on your behalf: \
             {scope}</p>\n<p role=\"alert\">{message}</p>\n\
             <form method=\"post\" action=\"/oauth2/authorize\">\n{hidden}\
             <p><label>User name <input name=\"username\" value=\"{user}\" \
             autocomplete=\"username\"></label>\n\
             <p><label>Password <input name=\"password\" type=\"password\" \
             autocomplete=\"current-password\"></label>\n\
             <p><button name=\"decision\" value=\"allow\">Sign in and allow</button>\n\
             <button name=\"decision\" value=\"deny\">Deny</button>\n</form>\n</html>\n"
        ),
    )
}

/// `text` for HTML, also inside a quoted attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
