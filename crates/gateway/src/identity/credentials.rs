//! The credentials of requests: where they are, further checks of valid ones, and their removal before upstreams.
//!
//! Life of a request: route -> **find** -> authenticate (stages) -> **confirm** -> authorise; **hide** -> forward.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use base::Now;
use base::addresses;
use base::limits::{REFERER_BYTES_MAX, TOKEN_BYTES_MAX};
use jose::Confirmation;
use model::{
    Accepts, Api, AuthFailure, Caller, CredentialKind, KeyPlace, Lifecycle, Permitted, Security,
};
use percent_encoding::percent_decode;
use stages::authenticate::places::{self, is_key, only, parameters, value_of, write_query};
use stages::authenticate::referer;
use stages::authenticate::{Proofs, Proven};
use stages::sign_in::Session;
use stages::{Identity, TokenCache, authenticate};
use wire::http1::{Field, Known, KnownSet, write};

use crate::message::{Framing, Head, HeadEdits, Request};
use crate::worker::Worker;
use crate::worker::compiled::Compiled;
use crate::worker::sessions::Logins;

/// The credential of a request, as it came.
pub(crate) enum Presented<'r> {
    Token(&'r [u8]),
    /// A token that comes with a DPoP proof.
    Proven(&'r [u8]),
    /// The token of a browser.
    Session(Arc<Session>),
    InternalKey(&'r [u8]),
    /// Name and password, in base64.
    Login(&'r [u8]),
    Key(Cow<'r, [u8]>),
}

impl Presented<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Token(bytes)
            | Self::Proven(bytes)
            | Self::InternalKey(bytes)
            | Self::Login(bytes) => bytes,
            Self::Session(session) => session.access_token.as_bytes(),
            Self::Key(key) => key,
        }
    }

    pub(crate) fn identify(
        &self,
        cache: &mut TokenCache,
        revision: &Compiled,
        now: Now,
    ) -> Identity {
        let issuers = revision.routes.issuers();
        match self {
            Self::Token(_) | Self::Proven(_) | Self::Session(_) => {
                authenticate::identify(cache, self.bytes(), issuers, now)
            }
            Self::Login(login) => {
                let issuers = revision.routes.issuers();
                authenticate::identify_login(cache, login, &revision.live.users, issuers, now)
            }
            Self::InternalKey(key) => authenticate::identify_internal_key(cache, key, issuers, now),
            Self::Key(key) => {
                let subscribers = revision.quotas.subscribers.as_deref();
                authenticate::identify_key(cache, key, issuers, subscribers, now)
            }
        }
    }
}

/// Finds the credential: an internal key, else a token, else an API key, as in WSO2. `None`: there is none, and none is
/// needed. `has_certificate`: the client has one that the API accepts.
pub(crate) fn find<'r>(
    request: &'r Request,
    (api, security): (&Api, &Security),
    has_certificate: bool,
    revision: &Compiled,
) -> Result<Option<Presented<'r>>, AuthFailure> {
    let accepts = match security {
        Security::Open if api.lifecycle != Lifecycle::Created => return Ok(None),
        Security::Open => None,
        Security::Required(accepts) => Some(accepts),
    };
    let is_signed = || revision.routes.issuers().iter().any(|issuer| issuer.internal_keys);
    if let Some(field) = request.head.find(Known::InternalKey)
        && is_signed()
    {
        if request.head.has_several(Known::InternalKey) {
            return Err(AuthFailure::RepeatedHeader);
        }
        let key = field.value.of(&request.bytes).trim_ascii();
        if key.len() > TOKEN_BYTES_MAX {
            return Err(AuthFailure::TokenTooLong);
        }
        return Ok(Some(Presented::InternalKey(key)));
    }
    accepts.map_or(Ok(None), |accepts| accepted(request, api, accepts, has_certificate))
}

/// A token or a password, else an API key.
fn accepted<'r>(
    request: &'r Request,
    api: &Api,
    accepts: &Accepts,
    has_certificate: bool,
) -> Result<Option<Presented<'r>>, AuthFailure> {
    let missing = match of_header(request, api, accepts) {
        Ok(presented) => return Ok(Some(presented)),
        Err(missing @ (AuthFailure::MissingCredential | AuthFailure::UnsupportedScheme)) => missing,
        Err(failure) => return Err(failure),
    };
    for place in &accepts.api_keys {
        let Some(key) = key_at(request, place)? else { continue };
        if key.len() > TOKEN_BYTES_MAX {
            return Err(AuthFailure::TokenTooLong);
        }
        return Ok(Some(Presented::Key(key)));
    }
    let is_enough = accepts.optional && has_certificate;
    let is_needed = !is_enough || missing != AuthFailure::MissingCredential;
    let is_only_login = accepts.token.is_none() && accepts.api_keys.is_empty();
    match is_needed {
        true if is_only_login => Err(AuthFailure::MissingLogin),
        true => Err(missing),
        false => Ok(None),
    }
}

/// The token or the password in the credential's field.
fn of_header<'r>(
    request: &'r Request,
    api: &Api,
    accepts: &Accepts,
) -> Result<Presented<'r>, AuthFailure> {
    if accepts.token.is_none() && accepts.login.is_none() {
        return Err(AuthFailure::MissingCredential);
    }
    let field = field(request, &api.auth_header)?.ok_or(AuthFailure::MissingCredential)?;
    let value = field.value.of(&request.bytes);
    let mut found = Err(AuthFailure::UnsupportedScheme);
    if accepts.token.is_some() {
        found = authenticate::bearer(value).map(Presented::Token);
        if matches!(found, Err(AuthFailure::UnsupportedScheme)) {
            found = authenticate::bound(value).map(Presented::Proven);
        }
    }
    match found {
        Err(AuthFailure::UnsupportedScheme) if accepts.login.is_some() => {
            authenticate::login(value).map(Presented::Login)
        }
        found => found,
    }
}

/// The field of this name, in lower case. An upstream that gets two of them could read the other one.
fn field<'r>(request: &'r Request, name: &str) -> Result<Option<&'r Field>, AuthFailure> {
    let head = &request.head;
    let (found, is_repeated) = match name {
        "authorization" => {
            (head.find(Known::Authorization), head.has_several(Known::Authorization))
        }
        name => {
            let is_it = |field: &&Field| {
                field.name.of(&request.bytes).eq_ignore_ascii_case(name.as_bytes())
            };
            let mut fields = head.fields().iter().filter(is_it);
            (fields.next(), fields.next().is_some())
        }
    };
    if is_repeated { Err(AuthFailure::RepeatedHeader) } else { Ok(found) }
}

/// The API key at `place`, if there is one.
fn key_at<'r>(
    request: &'r Request,
    place: &KeyPlace,
) -> Result<Option<Cow<'r, [u8]>>, AuthFailure> {
    let bytes = request.bytes.as_slice();
    let key = match place {
        KeyPlace::Header(name) => {
            field(request, name)?.map(|field| Cow::Borrowed(field.value.of(bytes).trim_ascii()))
        }
        KeyPlace::Query(name) => {
            let value = only(parameters(request.head.query(bytes).unwrap_or_default()), name)?;
            value.map(|value| percent_decode(value).into())
        }
        KeyPlace::Cookie(name) => only(cookies(request), name)?.map(Cow::Borrowed),
    };
    Ok(key.filter(|key| !key.is_empty()))
}

fn cookies(request: &Request) -> impl Iterator<Item = &[u8]> {
    let fields = request.head.fields().iter().filter(|field| field.known == Known::Cookie);
    fields.flat_map(|field| places::cookies(field.value.of(&request.bytes)))
}

/// Further checks of a valid credential: that it is of the kind that was asked for, that the client has the key that it
/// is bound to, and that an API key may be used from the client's address. `proofs`: the proofs that were used, and the
/// exact time. Returns a nonce for the client's next proofs, if there is a new one.
pub(crate) fn confirm(
    proofs: (&Proofs, impl FnOnce() -> Now),
    revision: &Compiled,
    request: &Request,
    presented: &Presented<'_>,
    caller: &Caller,
) -> Result<Option<String>, AuthFailure> {
    let mut nonce = None;
    match presented {
        Presented::Proven(token) => {
            let needs_nonce = revision.live.dpop_nonce;
            nonce = prove(proofs, request, (token, needs_nonce), caller)?;
        }
        Presented::Token(_)
        | Presented::Session(_)
        | Presented::InternalKey(_)
        | Presented::Login(_)
        | Presented::Key(_) => {
            authenticate::confirm(caller, request.certificate())?;
        }
    }
    let permitted = match (presented, &caller.kind) {
        (
            Presented::Token(_) | Presented::Proven(_) | Presented::Session(_),
            CredentialKind::Token,
        )
        | (Presented::Login(_), CredentialKind::Login) => return Ok(nonce),
        (Presented::Key(_), CredentialKind::ApiKey)
        | (Presented::InternalKey(_), CredentialKind::InternalKey) => caller.permitted.as_deref(),
        (Presented::Key(_), CredentialKind::ApplicationKey(_)) => {
            let subscribers = revision.quotas.subscribers.as_deref();
            let known = subscribers.and_then(|all| all.of_caller(caller));
            known.ok_or(AuthFailure::UnknownKey)?.permitted.as_deref()
        }
        (
            Presented::Token(_)
            | Presented::Proven(_)
            | Presented::Session(_)
            | Presented::InternalKey(_)
            | Presented::Login(_)
            | Presented::Key(_),
            CredentialKind::Token
            | CredentialKind::InternalKey
            | CredentialKind::Login
            | CredentialKind::ApiKey
            | CredentialKind::ApplicationKey(_),
        ) => return Err(AuthFailure::WrongKind),
    };
    let Some(permitted) = permitted else { return Ok(None) };
    let address = request.client_address(&revision.live.trusted_proxies);
    let referer = request.head.find_name(&request.bytes, b"referer");
    let referer = referer.map_or(&b""[..], |field| field.value.of(&request.bytes));
    if permits(permitted, address, referer) { Ok(None) } else { Err(AuthFailure::NotPermitted) }
}

/// Checks the DPoP proof of a request, which has exactly one.
fn prove(
    (proofs, now): (&Proofs, impl FnOnce() -> Now),
    request: &Request,
    (token, needs_nonce): (&[u8], bool),
    caller: &Caller,
) -> Result<Option<String>, AuthFailure> {
    let Some(Confirmation::Key(key)) = &caller.confirmation else {
        return Err(AuthFailure::Unconfirmed);
    };
    let (head, bytes) = (&request.head, request.bytes.as_slice());
    let proof = head.find(Known::Dpop).ok_or(AuthFailure::MissingProof)?;
    if head.has_several(Known::Dpop) {
        return Err(AuthFailure::InvalidProof);
    }
    let is_url = |url: &[u8]| head.is_for(bytes, request.origin(), url);
    let method = head.method_bytes(bytes);
    let of = Proven { method, is_url: &is_url, token, key, needs_nonce };
    authenticate::prove(&of, proof.value.of(bytes), proofs, now())
}

fn permits(permitted: &Permitted, address: IpAddr, referer: &[u8]) -> bool {
    let Permitted { addresses, referers } = permitted;
    let from_here = |blocks: &Vec<_>| addresses::is_in(blocks, address);
    let fits = |pattern: &String| referer::fits(pattern.as_bytes(), referer);
    addresses.as_ref().is_none_or(from_here)
        && (referers.is_empty()
            || (1..=REFERER_BYTES_MAX).contains(&referer.len()) && referers.iter().any(fits))
}

/// Whether credentials are in fields of this name.
pub(crate) fn is_field(api: &Api, name: &[u8]) -> bool {
    let is_it = |known: &String| name.eq_ignore_ascii_case(known.as_bytes());
    let has_keys = |place: &KeyPlace| matches!(place, KeyPlace::Header(known) if is_it(known));
    is_it(&api.auth_header)
        || matches!(Known::of(name), Known::InternalKey | Known::Dpop)
        || api.key_places.iter().any(has_keys)
}

/// Whether the request may have a credential in one of these fields, or in its query.
pub(crate) fn are_sent(request: &Request, api: &Api) -> bool {
    let fields = request.head.fields().iter();
    let query = request.head.query(&request.bytes).unwrap_or_default();
    fields.into_iter().any(|field| is_field(api, field.name.of(&request.bytes)))
        || parameters(query).any(|pair| is_key(&api.key_places, pair))
}

/// Removes credentials from the fields of a request that is forwarded.
pub(super) fn hide(request: &Request, api: &Api, logins: &Logins, edits: &mut HeadEdits) {
    edits.remove_known(KnownSet::of(&[Known::InternalKey]));
    let are_kept = api.forward_auth_header;
    if !are_kept {
        edits.remove_known(KnownSet::of(&[Known::Dpop]));
        edits.remove(api.auth_header.as_bytes());
    }
    let places = if are_kept { &[][..] } else { &api.key_places };
    let mut has_keys = false;
    for place in places {
        match place {
            KeyPlace::Header(name) => edits.remove(name.as_bytes()),
            KeyPlace::Cookie(_) => has_keys = true,
            KeyPlace::Query(_) => {}
        }
    }
    let is_hidden = |pair: &[u8]| is_key_cookie(places, pair) || logins.own_cookie(pair);
    if (has_keys || logins.have_cookies()) && cookies(request).any(is_hidden) {
        hide_cookies(request, is_hidden, edits);
    }
    if are_kept {
        return;
    }
    let query = request.head.query(&request.bytes).filter(|_| !api.key_places.is_empty());
    if let Some(query) =
        query.filter(|query| parameters(query).any(|pair| is_key(&api.key_places, pair)))
    {
        write_query(&api.key_places, query, edits.new_query());
    }
}

/// Removes cookies with the names of sessions from a response: no upstream may sign a browser in.
pub(crate) fn refuse_sessions(head: &mut Head, logins: &Logins) {
    let is_session = |(name, value): (&[u8], &[u8])| {
        // Browsers take `=NAME=VALUE` for a cookie without a name, and send it as `NAME=VALUE`.
        let pair = value.trim_ascii_start().strip_prefix(b"=").unwrap_or(value).trim_ascii_start();
        name.eq_ignore_ascii_case(b"set-cookie") && logins.own_cookie(pair)
    };
    if !logins.have_cookies() || !head.fields(Framing::Declared).any(is_session) {
        return;
    }
    let mut kept = Vec::new();
    for (name, value) in head.fields(Framing::Declared).filter(|field| !is_session(*field)) {
        if name.eq_ignore_ascii_case(b"set-cookie") {
            write::field(&mut kept, name, value);
        }
    }
    head.edits.remove(b"set-cookie");
    head.edits.lines_mut().extend_from_slice(&kept);
}

fn is_key_cookie(places: &[KeyPlace], pair: &[u8]) -> bool {
    let is_it = |place: &KeyPlace| matches!(place, KeyPlace::Cookie(name) if value_of(pair, name).is_some());
    places.iter().any(is_it)
}

fn hide_cookies(request: &Request, is_hidden: impl Fn(&[u8]) -> bool, edits: &mut HeadEdits) {
    edits.remove(b"cookie");
    let lines = edits.lines_mut();
    let mut separator = &b"Cookie: "[..];
    for pair in cookies(request).filter(|pair| !is_hidden(pair)) {
        lines.extend_from_slice(separator);
        lines.extend_from_slice(pair);
        separator = b"; ";
    }
    if separator == b"; " {
        lines.extend_from_slice(b"\r\n");
    }
}

impl Worker {
    /// Looks up a credential in the caches.
    pub(crate) fn identify(&self, revision: &Compiled, presented: &Presented<'_>) -> Identity {
        let mut tokens = self.tokens.borrow_mut();
        let identity = presented.identify(&mut tokens, revision, self.resources.coarse());
        if matches!(identity, Identity::Rejected(AuthFailure::NotYetValid)) {
            // Judged by the time of the last sweep: it may have become valid since.
            return presented.identify(&mut tokens, revision, self.resources.exact());
        }
        identity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_may_be_restricted_to_addresses_and_referrers() {
        let blocks = |text: &str| Some(vec![(text.parse().unwrap(), 8)]);
        let here = IpAddr::from([10, 1, 2, 3]);
        for (addresses, referers, referer, expect) in [
            (None, "", "", true),
            (blocks("10.0.0.0"), "", "", true),
            (blocks("11.0.0.0"), "", "", false),
            (Some(Vec::new()), "", "", false),
            (None, "https://a/*", "https://a/b", true),
            (None, "https://a/*", "", false),
            (None, "https://*.a/*", "https://b/.a/x", false),
            (None, "*", "", false),
            (blocks("11.0.0.0"), "https://a/*", "https://a/b", false),
            (blocks("10.0.0.0"), "https://a/*", "https://b/", false),
        ] {
            let referers: Vec<_> = referers.split_whitespace().map(str::to_owned).collect();
            let permitted = Permitted { addresses, referers };
            assert_eq!(permits(&permitted, here, referer.as_bytes()), expect, "{permitted:?}");
        }
        let any = Permitted { addresses: None, referers: vec!["*".to_owned()] };
        assert!(permits(&any, here, &[b'a'; REFERER_BYTES_MAX]));
        assert!(!permits(&any, here, &[b'a'; REFERER_BYTES_MAX + 1]));
    }
}
