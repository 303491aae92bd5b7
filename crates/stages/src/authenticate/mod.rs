//! Authentication: from the credential to a [`Caller`].
//!
//! Life of a request: route -> **authenticate** -> authorise. Reads the value of the credential's header
//! field, the issuers and the time, and returns an [`Identity`]. Verified tokens are kept in a
//! [`TokenCache`]. Lifetime and audience are checked for each request, cached or not; scopes are checked
//! by `authorise`.
//!
//! Architecture invariant: a token that did not verify is never cached, and no part of a token is ever
//! logged, printed or sent in a response.

mod cache;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::Arc;

use base::{Now, limits};
use jose::{Claims, Compact, Padding, TokenError};
use model::{AuthFailure, Caller, Issuer, KeyType};

pub use cache::TokenCache;

/// The outcome of [`identify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    Known(Rc<Caller>),
    Rejected(AuthFailure),
    /// Rejected with [`AuthFailure::UnknownKid`]; fetching the issuer's keys again may help.
    UnknownKid {
        /// Index in the `issuers` argument.
        issuer: usize,
    },
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
    const SCHEME: &[u8] = b"Bearer";
    let (scheme, rest) =
        value.trim_ascii().split_at_checked(SCHEME.len()).ok_or(AuthFailure::UnsupportedScheme)?;
    let token = rest.trim_ascii_start();
    let is_apart = token.len() < rest.len();
    if !scheme.eq_ignore_ascii_case(SCHEME) || !is_apart || token.is_empty() {
        return Err(AuthFailure::UnsupportedScheme);
    }
    if token.len() > limits::TOKEN_BYTES_MAX {
        return Err(AuthFailure::TokenTooLong);
    }
    Ok(token)
}

/// Identifies the bearer of `token`, from the cache or by verifying it with its issuer's keys.
pub fn identify(
    cache: &mut TokenCache,
    token: &[u8],
    issuers: &[Arc<Issuer>],
    now: Now,
) -> Identity {
    let Some(key) = cache.key(token) else {
        return Identity::Rejected(AuthFailure::MalformedToken);
    };
    let cached = cache.find(key, token, issuers, now);
    let is_cached = cached.is_some();
    let caller = match cached.map_or_else(|| verify(token, issuers).map(Rc::new), Ok) {
        Ok(caller) => caller,
        Err(rejected) => return rejected,
    };
    let Some(issuer) = issuers.get(caller.issuer) else {
        return Identity::Rejected(AuthFailure::UnknownIssuer);
    };
    match check_claims(&caller, issuer, now) {
        Err(failure) => {
            if is_cached {
                cache.remove(key);
            }
            return Identity::Rejected(failure);
        }
        Ok(()) if is_cached => {}
        Ok(()) => cache.insert(key, token, &caller, issuer, now),
    }
    Identity::Known(caller)
}

/// Checks lifetime, then audience: what may change between two requests with the same token.
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
    if caller.not_before_s.is_some_and(|nbf_s| now.unix_s.saturating_add(leeway_s) < nbf_s) {
        return Err(AuthFailure::NotYetValid);
    }
    let accepted = &issuer.audiences;
    if !accepted.is_empty() && !caller.audiences.iter().any(|audience| accepted.contains(audience))
    {
        return Err(AuthFailure::WrongAudience);
    }
    Ok(())
}

/// Verifies `token` with the keys of the issuers that its `iss` names. The `iss` is unverified until a
/// signature verifies, which then covers it. Several issuers may share an `iss`; the first whose keys
/// verify the token wins.
fn verify(token: &[u8], issuers: &[Arc<Issuer>]) -> Result<Caller, Identity> {
    let jws = parse(token, issuers).map_err(Identity::Rejected)?;
    let claims = jws.unverified_claims().map_err(|error| Identity::Rejected(failure(error)))?;
    let mut rejected = Identity::Rejected(AuthFailure::UnknownIssuer);
    let named = |issuer: &Issuer| claims.iss.as_ref() == Some(&issuer.iss);
    for (index, issuer) in issuers.iter().enumerate().filter(|(_, issuer)| named(issuer)) {
        let result = if jws.is_padded() && !issuer.padded_segments {
            Err(AuthFailure::PaddedToken)
        } else {
            jws.verify_signature(&issuer.keys).map_err(failure)
        };
        match result {
            Ok(()) => return Ok(caller(claims, index)),
            Err(AuthFailure::UnknownKid) => rejected = Identity::UnknownKid { issuer: index },
            Err(failure) if !matches!(rejected, Identity::UnknownKid { .. }) => {
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

fn caller(claims: Claims, issuer: usize) -> Caller {
    let is_sandbox = claims.keytype.is_some_and(|it| it.eq_ignore_ascii_case("SANDBOX"));
    Caller {
        subject: claims.sub,
        client_id: claims.client_id.or(claims.azp),
        scopes: claims.scopes,
        key_type: if is_sandbox { KeyType::Sandbox } else { KeyType::Production },
        subscriptions: claims.subscriptions,
        issuer,
        token_id: claims.jti,
        audiences: claims.aud,
        expires_s: claims.exp,
        not_before_s: claims.nbf,
    }
}
