//! Authentication: from the credential to a [`Caller`].
//!
//! Life of a request: route -> **authenticate** -> authorise. Reads the value of the credential's header
//! field, the issuers and the time, and returns an [`Identity`]. Verified tokens are kept in a
//! [`TokenCache`]. Lifetime and audience are checked for each request, cached or not; scopes are checked
//! by `authorise`.
//!
//! Architecture invariant: a token that did not verify is never cached, and no part of a token is ever
//! logged, printed or sent in a response.

mod api_key;
mod cache;
mod login;
pub mod places;
mod proofs;
pub mod referer;
mod refused;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::Arc;

use base::{Now, limits};
use jose::{Claims, Compact, Confirmation, Padding, TokenError};
use model::{AuthFailure, Caller, CredentialKind, Issuer, KeptClaims, KeyType, TokenType};

use crate::plans::key_of;

pub use api_key::{identify_internal_key, identify_key};
pub use cache::TokenCache;
use cache::TokenId;
pub use login::{Users, conclude_issued, conclude_login, identify_login, login};
pub use proofs::{Proofs, Proven, bound, prove};

/// The outcome of [`identify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    Known(Rc<Caller>),
    Rejected(AuthFailure),
    /// The question requires the network. The caller calls again with the answer.
    Ask(Question),
}

/// A question that [`identify`] cannot answer itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The current key set of an issuer, because the known one lacks the token's key. Without an answer the token is
    /// rejected with [`AuthFailure::UnknownKid`].
    KeySet {
        /// Index in the `issuers` argument.
        issuer: usize,
    },
    /// The caller of an opaque token, which only an issuer knows. See [`conclude`]. Without an answer the token is
    /// rejected with [`AuthFailure::IssuerUnavailable`].
    Token,
    /// Whether a user has this password, which takes long to verify. See [`conclude_login`]. Without an answer it is
    /// rejected with [`AuthFailure::IssuerUnavailable`].
    Password,
}

/// Extracts the token from the value of the credential's header field: `Bearer` in any case, white
/// space, the token. The token itself is checked by [`identify`].
///
/// # Errors
/// [`AuthFailure::UnsupportedScheme`] for another scheme or an empty token;
/// [`AuthFailure::TokenTooLong`] above `limits::TOKEN_BYTES_MAX`.
///
/// Source: RFC 6750 section 2.1, RFC 9110 section 11.4.
pub fn bearer(value: &[u8]) -> Result<&[u8], AuthFailure> {
    credentials_of(b"Bearer", value, limits::TOKEN_BYTES_MAX)
}

/// The credentials, of at most `most` bytes, after the scheme `expected`, which consists of letters.
fn credentials_of<'v, const LENGTH: usize>(
    expected: &[u8; LENGTH],
    value: &'v [u8],
    most: usize,
) -> Result<&'v [u8], AuthFailure> {
    let unsupported = AuthFailure::UnsupportedScheme;
    let (scheme, rest) = value.trim_ascii().split_first_chunk::<LENGTH>().ok_or(unsupported)?;
    let found = rest.trim_ascii_start();
    let is_apart = found.len() < rest.len();
    // The two cases of a letter differ in one bit. There are no branches, and the length is known at compile time.
    let differ = |bits, (one, other): (&u8, &u8)| bits | ((one ^ other) & !0x20);
    let differing = scheme.iter().zip(expected).fold(0, differ);
    if differing != 0 || !is_apart || found.is_empty() {
        return Err(unsupported);
    }
    if found.len() > most { Err(AuthFailure::TokenTooLong) } else { Ok(found) }
}

/// Identifies the bearer of `token`, from the cache or by verifying it with its issuer's keys. A token that is not a
/// JWT is left to the issuers with an introspection endpoint, if there are any.
pub fn identify(
    cache: &mut TokenCache,
    token: &[u8],
    issuers: &[Arc<Issuer>],
    now: Now,
) -> Identity {
    let key = cache.key(token);
    match cache.find(key, token, issuers, now) {
        Some(caller) => cached(cache, key, caller, issuers, now),
        None => opaque(cache, token, issuers, now)
            .unwrap_or_else(|| verified(cache, token, issuers, now)),
    }
}

/// The caller of a cached token, if it is still valid.
#[allow(
    clippy::inline_always,
    reason = "as a call, it costs a cached token 20 of 425 instructions"
)]
#[inline(always)]
fn cached(
    cache: &mut TokenCache,
    key: u64,
    caller: Rc<Caller>,
    issuers: &[Arc<Issuer>],
    now: Now,
) -> Identity {
    let issuer = caller.issuer.and_then(|number| issuers.get(number));
    match issuer.map_or(Ok(()), |issuer| check_claims(&caller, issuer, now)) {
        Ok(()) => Identity::Known(caller),
        Err(failure) => {
            cache.remove(key);
            Identity::Rejected(failure)
        }
    }
}

/// The caller of a token that is not cached. If its issuer's keys verify it, it is cached.
fn verified(cache: &mut TokenCache, token: &[u8], issuers: &[Arc<Issuer>], now: Now) -> Identity {
    let (mut caller, issuer) = match verify(token, issuers) {
        Ok(verified) => verified,
        Err(rejected) => return rejected,
    };
    if !cache.claims.is_empty() {
        let texts = jose::claim_texts(token, &cache.claims);
        let kept = texts.map(|texts| KeptClaims { names: Arc::clone(&cache.claims), texts });
        caller.claims = kept.map(Box::new);
    }
    let caller = Rc::new(caller);
    if let Err(failure) = check_claims(&caller, issuer, now) {
        return Identity::Rejected(failure);
    }
    let id = id(issuer, &caller, token);
    if is_revoked(issuer, &caller, id.as_ref()) {
        return Identity::Rejected(AuthFailure::Revoked);
    }
    cache.insert(token, &caller, Some((issuer, id)), limits::TOKEN_CACHE_S_MAX, now);
    Identity::Known(caller)
}

/// The result for a token that is not a JWT, if an issuer has an introspection endpoint.
fn opaque(cache: &TokenCache, token: &[u8], issuers: &[Arc<Issuer>], now: Now) -> Option<Identity> {
    let is_asked = issuers.iter().any(|issuer| issuer.introspection.is_some());
    if !is_asked || is_jwt(token) {
        return None;
    }
    Some(if !is_token68(token) {
        Identity::Rejected(AuthFailure::MalformedToken)
    } else if is_revoked_by_any(issuers, token) {
        Identity::Rejected(AuthFailure::Revoked)
    } else if cache.refused.has(token, now) {
        Identity::Rejected(AuthFailure::InactiveToken)
    } else {
        Identity::Ask(Question::Token)
    })
}

/// The identifier by which `issuer` revokes the token, if its revocations are followed. `None` if the issuer cannot
/// revoke a single token.
fn id(issuer: &Issuer, caller: &Caller, token: &[u8]) -> Option<TokenId> {
    issuer.revoked.as_ref()?;
    match &caller.token_id {
        Some(jti) if is_jwt(token) => Some(jose::sha256(jti.as_bytes())),
        None if is_jwt(token) => None,
        Some(_) | None => Some(jose::sha256(token)),
    }
}

/// Whether `issuer` has revoked the token with this `id`, or all tokens of its client.
fn is_revoked(issuer: &Issuer, caller: &Caller, id: Option<&TokenId>) -> bool {
    let Some(revoked) = issuer.revoked.as_ref().filter(|revoked| !revoked.is_empty()) else {
        return false;
    };
    let has = |hash: &TokenId| revoked.has(hash, caller.issued_s);
    let client = caller.client_id.as_ref();
    id.is_some_and(has) || client.is_some_and(|client| has(&jose::sha256(client.as_bytes())))
}

/// Whether one of `issuers` has revoked the opaque `token`.
fn is_revoked_by_any(issuers: &[Arc<Issuer>], token: &[u8]) -> bool {
    let mut lists = issuers.iter().filter_map(|issuer| issuer.revoked.as_ref()).peekable();
    lists.peek().is_some() && {
        let id = jose::sha256(token);
        lists.any(|revoked| revoked.has(&id, 0))
    }
}

/// Whether `token` has two dots.
fn is_jwt(token: &[u8]) -> bool {
    token.iter().filter(|byte| **byte == b'.').count() == 2
}

/// Whether a token has the syntax of RFC 6750 section 2.1.
fn is_token68(token: &[u8]) -> bool {
    let end = token.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last.saturating_add(1));
    let text = token.get(..end).unwrap_or_default();
    !text.is_empty()
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte))
}

/// Evaluates the `response` of the introspection endpoint of `issuers[number]` for `token`. `None` if the token is not
/// active, or not one of this issuer.
///
/// # Errors
/// [`AuthFailure::IssuerUnavailable`] for a response that cannot be used; for an active token, the failure of its
/// claims.
pub fn conclude(
    cache: &mut TokenCache,
    token: &[u8],
    issuers: &[Arc<Issuer>],
    number: usize,
    response: &[u8],
    now: Now,
) -> Result<Option<Rc<Caller>>, AuthFailure> {
    let unavailable = AuthFailure::IssuerUnavailable;
    let issuer = issuers.get(number).ok_or(unavailable)?;
    let introspection = issuer.introspection.as_ref().ok_or(unavailable)?;
    let claims = jose::introspected(response).map_err(|error| match error {
        TokenError::Unsupported(_) => AuthFailure::UnsupportedHeader,
        TokenError::Malformed(_)
        | TokenError::UnsupportedAlgorithm(_)
        | TokenError::UnknownKid
        | TokenError::BadSignature => unavailable,
    })?;
    let is_its = |claims: &Claims| claims.iss.as_ref().is_none_or(|iss| *iss == issuer.iss);
    let Some(claims) = claims.filter(is_its) else { return Ok(None) };
    if claims.has_other_use {
        return Err(AuthFailure::UnsupportedHeader);
    }
    let mut caller = caller(claims, number, issuer);
    // RFC 7662 has no rule for a token without `exp`; this one is checked again after `cache_s`.
    caller.expires_s.get_or_insert(u64::MAX);
    check_claims(&caller, issuer, now)?;
    let id = id(issuer, &caller, token);
    if is_revoked(issuer, &caller, id.as_ref()) {
        return Err(AuthFailure::Revoked);
    }
    let caller = Rc::new(caller);
    cache.insert(token, &caller, Some((issuer, id)), introspection.cache_s, now);
    Ok(Some(caller))
}

/// Rejects an opaque `token` for `limits::INACTIVE_TOKEN_S`, since no issuer reported it as active.
pub fn refuse(cache: &mut TokenCache, token: &[u8], now: Now) {
    cache.refused.add(token, now);
}

/// The SHA-256 of a certificate in DER form, to which a token with `x5t#S256` is bound.
#[must_use]
pub fn thumbprint(certificate: &[u8]) -> [u8; 32] {
    jose::sha256(certificate)
}

/// Checks that the client has the key that the token is bound to. `certificate` is the thumbprint of the client's
/// certificate in the TLS handshake.
///
/// # Errors
/// [`AuthFailure::Unconfirmed`] if it does not, or the kind of proof is not supported; [`AuthFailure::MissingProof`] if
/// the token requires [`prove`] instead.
///
/// Source: RFC 8705 section 3.
pub fn confirm(caller: &Caller, certificate: Option<&[u8; 32]>) -> Result<(), AuthFailure> {
    match &caller.confirmation {
        None => Ok(()),
        Some(Confirmation::Certificate(bound)) if Some(bound) == certificate => Ok(()),
        // The token is presented as if it were not bound to a key.
        Some(Confirmation::Key(_)) => Err(AuthFailure::MissingProof),
        Some(Confirmation::Certificate(_) | Confirmation::Other) => Err(AuthFailure::Unconfirmed),
    }
}

/// Checks lifetime, then audience: the results that may differ between two requests with the same token.
///
/// Source: RFC 7519 sections 4.1.3 (`aud`), 4.1.4 (`exp`) and 4.1.5 (`nbf`).
fn check_claims(caller: &Caller, issuer: &Issuer, now: Now) -> Result<(), AuthFailure> {
    let leeway_s = issuer.leeway_s.min(limits::LEEWAY_S_MAX);
    match caller.expires_s {
        None if !issuer.allow_unlimited => return Err(AuthFailure::NoExpiry),
        Some(exp_s) if now.unix_s >= exp_s.saturating_add(leeway_s) => {
            return Err(AuthFailure::Expired);
        }
        None | Some(_) => {}
    }
    let early_s = leeway_s.max(limits::NOT_BEFORE_LEEWAY_S);
    if caller.not_before_s.is_some_and(|nbf_s| now.unix_s.saturating_add(early_s) < nbf_s) {
        return Err(AuthFailure::NotYetValid);
    }
    let accepted = &issuer.audiences;
    if !accepted.is_empty() && !caller.audiences.iter().any(|audience| accepted.contains(audience))
    {
        return Err(AuthFailure::WrongAudience);
    }
    Ok(())
}

/// Verifies `token` with the keys of the issuers that its `iss` names. The `iss` is unverified until a signature
/// verifies, which then covers it. Several issuers may share an `iss`; the first whose keys verify the token wins.
/// Internal keys are verified only by issuers that sign such keys. These verify other tokens only if no other issuer
/// has their `iss`.
fn verify<'i>(
    token: &[u8],
    issuers: &'i [Arc<Issuer>],
) -> Result<(Caller, &'i Arc<Issuer>), Identity> {
    let jws = parse(token, issuers).map_err(Identity::Rejected)?;
    let claims = jws.unverified_claims().map_err(|error| Identity::Rejected(failure(error)))?;
    if claims.has_other_use {
        // An ID token identifies a user to a client, and grants no access.
        return Err(Identity::Rejected(AuthFailure::UnsupportedHeader));
    }
    let mut rejected = Identity::Rejected(AuthFailure::UnknownIssuer);
    let named = |issuer: &Arc<Issuer>| claims.iss.as_ref() == Some(&issuer.iss);
    let is_internal = is_type(&claims, INTERNAL_KEY);
    let has_other = issuers.iter().any(|issuer| named(issuer) && !issuer.internal_keys);
    let fits = |issuer: &Arc<Issuer>| match is_internal {
        true => issuer.internal_keys,
        false => !issuer.internal_keys || !has_other,
    };
    let fitting = issuers.iter().enumerate().filter(|(_, issuer)| named(issuer) && fits(issuer));
    for (index, issuer) in fitting {
        let result = if jws.is_padded() && !issuer.padded_segments {
            Err(AuthFailure::PaddedToken)
        } else {
            jws.verify_signature(&issuer.keys).map_err(failure)
        };
        match result {
            Ok(()) => return Ok((caller(claims, index, issuer), issuer)),
            Err(AuthFailure::UnknownKid) => {
                rejected = Identity::Ask(Question::KeySet { issuer: index })
            }
            Err(failure) if !matches!(rejected, Identity::Ask(_)) => {
                rejected = Identity::Rejected(failure);
            }
            Err(_) => {}
        }
    }
    Err(rejected)
}

fn parse<'a>(token: &'a [u8], issuers: &[Arc<Issuer>]) -> Result<Compact<'a>, AuthFailure> {
    let padding = if issuers.iter().any(|issuer| issuer.padded_segments) {
        Padding::Allowed
    } else {
        Padding::Rejected
    };
    Compact::parse(token, padding).map_err(|error| {
        let only_padding_is_wrong = padding == Padding::Rejected
            && token.contains(&b'=')
            && Compact::parse(token, Padding::Allowed).is_ok();
        if only_padding_is_wrong { AuthFailure::PaddedToken } else { failure(error) }
    })
}

fn failure(error: TokenError) -> AuthFailure {
    match error {
        TokenError::Malformed(_) => AuthFailure::MalformedToken,
        TokenError::Unsupported(_) => AuthFailure::UnsupportedHeader,
        TokenError::UnsupportedAlgorithm(_) => AuthFailure::UnsupportedAlgorithm,
        TokenError::UnknownKid => AuthFailure::UnknownKid,
        TokenError::BadSignature => AuthFailure::BadSignature,
    }
}

/// The claim `token_type` of internal keys.
const INTERNAL_KEY: &str = "InternalKey";

/// Whether the claim `token_type` has this value.
fn is_type(claims: &Claims, value: &str) -> bool {
    claims.token_type.as_ref().is_some_and(|found| found.eq_ignore_ascii_case(value))
}

/// The caller of a token of `issuer`, whose index is `number`.
fn caller(claims: Claims, number: usize, issuer: &Issuer) -> Caller {
    let is_sandbox = claims.keytype.as_ref().is_some_and(|it| it.eq_ignore_ascii_case("SANDBOX"));
    let kind = if is_type(&claims, INTERNAL_KEY) {
        CredentialKind::InternalKey
    } else if issuer.api_keys || is_type(&claims, "apiKey") {
        CredentialKind::ApiKey
    } else {
        CredentialKind::Token
    };
    let permitted = api_key::permitted(&claims);
    let client_id = claims.client_id.or(claims.azp).or(claims.other_client_id);
    let of_user = match &claims.aut {
        Some(aut) => aut.eq_ignore_ascii_case("APPLICATION_USER"),
        // A client is the subject of the tokens that it gets for itself (RFC 9068 section 2.2).
        None => claims.sub.is_some() && claims.sub != client_id,
    };
    let application_key = claims.subscriptions.as_ref().map_or(0, |listed| {
        let application = listed.application.as_ref().or(client_id.as_ref());
        let application = application.or(claims.sub.as_ref()).map_or("", String::as_str);
        key_of(&["token", &issuer.iss, application])
    });
    Caller {
        application_key,
        subject: claims.sub,
        client_id,
        kind,
        token_type: if of_user { TokenType::ApplicationUser } else { TokenType::Application },
        permitted,
        scopes: claims.scopes,
        key_type: if is_sandbox { KeyType::Sandbox } else { KeyType::Production },
        subscriptions: claims.subscriptions,
        issuer: Some(number),
        token_id: claims.jti,
        audiences: claims.aud,
        expires_s: claims.exp,
        not_before_s: claims.nbf,
        issued_s: claims.iat.unwrap_or(0),
        claims: None,
        confirmation: claims.confirmation,
    }
}
