//! Sign-in of browsers at an OpenID Connect provider: the contents of their cookies, and the requests for which these
//! are valid.
//!
//! Life of a request: route -> **sign in** -> authenticate, for APIs with a login. The session of a browser is its
//! tokens, sealed in cookies; its access token is then verified for each request like any other. A request without a
//! session begins an attempt, which another cookie holds until the browser returns from the provider.
//!
//! Architecture invariant: a cookie is valid only for the login that created it, and never for a request that another
//! site causes a browser to send, except for a navigation.

use std::sync::Arc;

use base::limits::{
    COOKIE_BYTES_MAX, LEEWAY_S_MAX, SESSION_COOKIES_MAX, SESSION_FRESH_S, SIGN_IN_S_MAX,
    SIGN_IN_TARGET_BYTES_MAX,
};
use base::{Entropy, Method, Now};
use jose::{ExpectedIdToken, IdTokenProblem, IssuedTokens, SealingKeys, SignInAttempt};
use model::{Issuer, Login};

/// Prefix of the names of all login cookies, after [`HOST`] over TLS.
const PREFIX: &str = "penstock-login-";
/// Browsers accept cookies whose name begins with this only from the same host and over TLS.
const HOST: &str = "__Host-";

/// Whether a cookie of this name is a session or an attempt, which is never forwarded.
#[must_use]
pub fn is_cookie(name: &[u8]) -> bool {
    name.strip_prefix(HOST.as_bytes()).unwrap_or(name).starts_with(PREFIX.as_bytes())
}

/// The cookies of one login in one browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cookies {
    name: String,
    attributes: &'static str,
}

impl Cookies {
    /// `secure`: whether the browser uses https.
    #[must_use]
    pub fn of(login: &str, secure: bool) -> Self {
        let prefix = if secure { HOST } else { "" };
        let attributes = if secure {
            "; Path=/; Secure; HttpOnly; SameSite=Lax\r\n"
        } else {
            "; Path=/; HttpOnly; SameSite=Lax\r\n"
        };
        Self { name: format!("{prefix}{PREFIX}{login}"), attributes }
    }

    /// The sealed session. `value` returns the value of the only cookie with a name.
    #[must_use]
    pub fn session<'r>(&self, value: impl Fn(&str) -> Option<&'r [u8]>) -> Option<Vec<u8>> {
        // `COUNT.TEXT`, and the rest of the text in `COUNT - 1` further cookies.
        let ([count], text) = value(&self.name)?.split_first_chunk::<1>()?;
        let count = usize::from(count.wrapping_sub(b'0'));
        let mut sealed = text.strip_prefix(b".")?.to_vec();
        for number in 1..count.min(SESSION_COOKIES_MAX) {
            sealed.extend_from_slice(value(&self.part(number))?);
        }
        (1..=SESSION_COOKIES_MAX).contains(&count).then_some(sealed)
    }

    /// Appends the field lines that set the browser's session, and remove remaining cookies of its last one.
    ///
    /// # Errors
    /// The session is too large; nothing is appended.
    pub fn set_session(&self, sealed: &str, out: &mut Vec<u8>) -> Result<(), TooLarge> {
        let parts = sealed.as_bytes().chunks(COOKIE_BYTES_MAX);
        let count = parts.len();
        if count > SESSION_COOKIES_MAX {
            return Err(TooLarge);
        }
        for (number, part) in parts.enumerate() {
            let first = if number == 0 { format!("{count}.") } else { String::new() };
            self.set(&self.part(number), &[first.as_bytes(), part].concat(), "", out);
        }
        for number in count..SESSION_COOKIES_MAX {
            self.remove(&self.part(number), out);
        }
        Ok(())
    }

    /// Appends the field lines that end the browser's session.
    pub fn remove_session(&self, out: &mut Vec<u8>) {
        for number in 0..SESSION_COOKIES_MAX {
            self.remove(&self.part(number), out);
        }
    }

    /// The sealed attempt of this `state`.
    #[must_use]
    pub fn attempt<'r>(
        &self,
        state: &[u8],
        value: impl Fn(&str) -> Option<&'r [u8]>,
    ) -> Option<&'r [u8]> {
        value(&self.attempt_name(std::str::from_utf8(state).ok()?))
    }

    /// Appends the field line that sets the cookie of an attempt.
    pub fn set_attempt(&self, state: &str, sealed: &str, out: &mut Vec<u8>) {
        let age = format!("; Max-Age={SIGN_IN_S_MAX}");
        self.set(&self.attempt_name(state), sealed.as_bytes(), &age, out);
    }

    /// Appends the field line that removes the cookie of an attempt.
    pub fn remove_attempt(&self, state: &str, out: &mut Vec<u8>) {
        self.remove(&self.attempt_name(state), out);
    }

    /// The beginning of the state, if a cookie of this name is an attempt.
    #[must_use]
    pub fn attempt_of<'r>(&self, name: &'r [u8]) -> Option<&'r str> {
        let rest = name.strip_prefix(self.name.as_bytes())?.strip_prefix(b"~")?;
        std::str::from_utf8(rest).ok().filter(|state| is_state(state))
    }

    fn part(&self, number: usize) -> String {
        if number == 0 { self.name.clone() } else { format!("{}.{number}", self.name) }
    }

    /// The name contains the beginning of the state, since several tabs may sign in at once.
    fn attempt_name(&self, state: &str) -> String {
        let start = if is_state(state) { state.get(..8).unwrap_or(state) } else { "" };
        format!("{}~{start}", self.name)
    }

    fn set(&self, name: &str, value: &[u8], age: &str, out: &mut Vec<u8>) {
        for part in [b"Set-Cookie: ", name.as_bytes(), b"=", value, age.as_bytes()] {
            out.extend_from_slice(part);
        }
        out.extend_from_slice(self.attributes.as_bytes());
    }

    fn remove(&self, name: &str, out: &mut Vec<u8>) {
        self.set(name, b"", "; Max-Age=0", out);
    }
}

/// A session does not fit into the cookies of a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

fn is_state(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// The tokens of a browser.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    pub access_token: String,
    /// Expiry of the access token, in seconds since the Unix epoch.
    pub expires_s: u64,
    pub refresh_token: Option<String>,
    /// The ID token, which the provider needs when the user signs out.
    pub id_token: Option<String>,
    /// End of the session, in seconds since the Unix epoch. Renewing the access token does not change it.
    pub until_s: u64,
}

/// Tokens are never printed.
impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { expires_s, until_s, .. } = self;
        let mut shown = f.debug_struct("Session");
        shown.field("expires_s", expires_s).field("until_s", until_s).finish_non_exhaustive()
    }
}

impl Session {
    /// The session of a user who has just signed in.
    #[must_use]
    pub fn begin(issued: IssuedTokens, login: &Login, now: Now) -> Self {
        let until_s = now.unix_s.saturating_add(login.session_s);
        let none = Self {
            access_token: String::new(),
            expires_s: 0,
            refresh_token: None,
            id_token: None,
            until_s,
        };
        none.renewed(issued, now)
    }

    /// The same session with new tokens. The refresh token and ID token are kept if the response has no new ones.
    #[must_use]
    pub fn renewed(&self, issued: IssuedTokens, now: Now) -> Self {
        let valid_s = issued.expires_s.unwrap_or(u64::MAX);
        Self {
            access_token: issued.access_token,
            expires_s: now.unix_s.saturating_add(valid_s),
            refresh_token: issued.refresh_token.or_else(|| self.refresh_token.clone()),
            id_token: issued.id_token.or_else(|| self.id_token.clone()),
            until_s: self.until_s,
        }
    }

    /// Whether the user has just signed in.
    #[must_use]
    pub fn is_fresh(&self, login: &Login, now: Now) -> bool {
        // A session that lasts longer than `session_s` began before the setting was changed.
        let age_s = now.unix_s.saturating_add(login.session_s).checked_sub(self.until_s);
        age_s.is_some_and(|age_s| age_s < SESSION_FRESH_S)
    }

    #[must_use]
    pub fn seal(&self, keys: &SealingKeys, login: &str) -> Option<String> {
        let Self { access_token, expires_s, refresh_token, id_token, until_s } = self;
        let [refresh_token, id_token] = [refresh_token, id_token].map(|token| token.as_deref());
        let (refresh_token, id_token) =
            (refresh_token.unwrap_or_default(), id_token.unwrap_or_default());
        let text = format!("{until_s}\n{expires_s}\n{access_token}\n{refresh_token}\n{id_token}");
        keys.seal(&format!("session {login}"), text.as_bytes())
    }

    /// The session that was sealed for this login, unless it has ended.
    #[must_use]
    pub fn open(keys: &SealingKeys, login: &str, sealed: &[u8], now: Now) -> Option<Self> {
        let text = keys.open(&format!("session {login}"), sealed)?;
        let mut lines = std::str::from_utf8(&text).ok()?.split('\n');
        let until_s = lines.next()?.parse().ok()?;
        let expires_s = lines.next()?.parse().ok()?;
        let access_token = lines.next()?.to_owned();
        let mut optional = || lines.next().filter(|text| !text.is_empty()).map(str::to_owned);
        let (refresh_token, id_token) = (optional(), optional());
        let session = Self { access_token, expires_s, refresh_token, id_token, until_s };
        (now.unix_s < until_s).then_some(session)
    }
}

/// Begins an attempt, after which the browser returns to this path and query. `max_age_s`: as in [`Login`].
#[must_use]
pub fn begin(
    (path, query): (&[u8], Option<&[u8]>),
    max_age_s: Option<u64>,
    entropy: &dyn Entropy,
    now: Now,
) -> SignInAttempt {
    SignInAttempt::begin(target(path, query), max_age_s, entropy, now, SIGN_IN_S_MAX)
}

/// The path and query to which the browser returns, always on the same origin.
fn target(path: &[u8], query: Option<&[u8]>) -> String {
    let whole = query.map_or_else(|| path.to_vec(), |query| [path, b"?", query].concat());
    let text = String::from_utf8(whole).unwrap_or_default();
    // `//host` and `/\host` are other origins.
    let is_own = text.starts_with('/') && !text.starts_with("//") && !text.starts_with("/\\");
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    let fits = is_own && is_plain && text.len() <= SIGN_IN_TARGET_BYTES_MAX;
    if fits { text } else { "/".to_owned() }
}

/// Whether a browser shows the response to its user, who can then sign in. `mode` is `Sec-Fetch-Mode`, if it is sent.
#[must_use]
pub fn is_navigation(method: Method, accept: Option<&[u8]>, mode: Option<&[u8]>) -> bool {
    let is_html = |value: &[u8]| {
        let media_types = value.split(|byte| *byte == b',');
        media_types.map(<[u8]>::trim_ascii).any(|one| {
            one.split(|byte| *byte == b';')
                .next()
                .is_some_and(|name| name.trim_ascii().eq_ignore_ascii_case(b"text/html"))
        })
    };
    method == Method::Get
        && accept.is_some_and(is_html)
        && mode.is_none_or(|mode| mode == b"navigate")
}

/// Whether a page of this origin, or the user, has caused a request. `site` is `Sec-Fetch-Site`, `origin` is `Origin`,
/// `own` is scheme and host.
#[must_use]
pub fn is_same_origin(
    site: Option<&[u8]>,
    origin: Option<&[u8]>,
    (scheme, host): (&[u8], &[u8]),
) -> bool {
    match (site, origin) {
        (Some(site), _) => matches!(site, b"same-origin" | b"none"),
        (None, Some(origin)) => {
            let rest = origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix(b"://"));
            rest.is_some_and(|found| found.eq_ignore_ascii_case(host))
        }
        (None, None) => false,
    }
}

/// Checks that `token` is an ID token of the login's provider, for this client, and that it belongs to an attempt.
///
/// # Errors
/// The first check that fails. The number of an unknown key's set is that of the issuer.
pub fn check_id_token(
    token: &[u8],
    login: &Login,
    attempt: &SignInAttempt,
    issuers: &[Arc<Issuer>],
    now: Now,
) -> Result<(), IdTokenProblem> {
    let Login { issuer, client_id, .. } = login;
    let own = issuers
        .iter()
        .enumerate()
        .filter(|(_, one)| one.iss == *issuer && !one.api_keys && !one.internal_keys);
    let sets = own.map(|(number, one)| (number, &one.keys, one.leeway_s.min(LEEWAY_S_MAX)));
    let SignInAttempt { nonce, since_s, .. } = attempt;
    let expected = ExpectedIdToken { issuer, client_id, nonce, since_s: *since_s };
    jose::check_id_token(token, expected, sets, now).map(drop)
}

#[cfg(test)]
mod tests;
