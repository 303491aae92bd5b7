//! Who calls: from the credential to a [`Caller`].
//!
//! Life of a request: route -> **authenticate** -> authorise. Reads the credential's header value,
//! the issuers and the time; answers an [`Identity`]. It keeps verified tokens in a [`TokenCache`]
//! and nothing else. Lifetime and audience are checked each time, cached or not; scopes are
//! `authorise`'s.
//!
//! Architecture invariant: a token that didn't verify is never cached, and no part of a token is
//! ever logged, printed or told.

mod cache;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::Arc;

use base::{Now, limits};
use jose::{Claims, Compact, Padding, TokenError};
use model::{Caller, Denial, Issuer, KeyType};

pub use cache::TokenCache;

/// What a token turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    Known(Rc<Caller>),
    Denied(Denial),
    /// Well-formed, of a configured issuer, with a `kid` that its keys don't have: answered by
    /// `denial`, and a reason to fetch the issuer's keys again.
    UnknownKid {
        /// Index in the issuers given.
        issuer: usize,
        denial: Denial,
    },
}

/// Takes the token out of the value of the credential's header: `Bearer`, in any case, blanks, the
/// token. What the token is made of, [`identify`] finds out.
///
/// # Errors
/// [`Denial::MissingCredentials`] for another scheme or no token at all;
/// [`Denial::InvalidCredentials`] for one longer than `limits::TOKEN_BYTES_MAX`.
///
/// Source: RFC 6750 section 2.1, RFC 9110 section 11.4.
pub fn bearer(value: &[u8]) -> Result<&[u8], Denial> {
    const SCHEME: &[u8] = b"Bearer";
    let (scheme, rest) =
        value.trim_ascii().split_at_checked(SCHEME.len()).ok_or(Denial::MissingCredentials)?;
    let token = rest.trim_ascii_start();
    let is_apart = token.len() < rest.len();
    if !scheme.eq_ignore_ascii_case(SCHEME) || !is_apart || token.is_empty() {
        return Err(Denial::MissingCredentials);
    }
    if token.len() > limits::TOKEN_BYTES_MAX {
        return Err(Denial::InvalidCredentials);
    }
    Ok(token)
}

/// Finds out whose `token` it is, from the cache or by verifying it with its issuer's keys.
///
/// [`Identity::Denied`] holds [`Denial::InvalidCredentials`] for anything but a JWS of a configured
/// issuer that verifies, and for one that isn't valid yet; [`Denial::ExpiredToken`] and
/// [`Denial::WrongAudience`] for what verified.
pub fn identify(
    cache: &mut TokenCache,
    token: &[u8],
    issuers: &[Arc<Issuer>],
    now: Now,
) -> Identity {
    let Some(key) = cache.key(token) else {
        return Identity::Denied(Denial::InvalidCredentials);
    };
    let held = cache.find(key, token, issuers, now);
    let is_held = held.is_some();
    let caller = match held.map_or_else(|| verify(token, issuers).map(Rc::new), Ok) {
        Ok(caller) => caller,
        Err(refused) => return refused,
    };
    let Some(issuer) = issuers.get(caller.issuer) else {
        return Identity::Denied(Denial::InvalidCredentials);
    };
    match standing(&caller, issuer, now) {
        Err(denial) => {
            if is_held {
                cache.remove(key);
            }
            return Identity::Denied(denial);
        }
        Ok(()) if is_held => {}
        Ok(()) => cache.insert(key, token, &caller, issuer, now),
    }
    Identity::Known(caller)
}

/// What holds at one time may not hold at another: lifetime, then audience.
///
/// Source: RFC 7519 sections 4.1.3 (`aud`), 4.1.4 (`exp`) and 4.1.5 (`nbf`).
fn standing(caller: &Caller, issuer: &Issuer, now: Now) -> Result<(), Denial> {
    let leeway_s = issuer.leeway_s.min(limits::LEEWAY_S_MAX);
    if caller.expires_s.is_some_and(|exp_s| now.unix_s >= exp_s.saturating_add(leeway_s)) {
        return Err(Denial::ExpiredToken);
    }
    if caller.not_before_s.is_some_and(|nbf_s| now.unix_s.saturating_add(leeway_s) < nbf_s) {
        return Err(Denial::InvalidCredentials);
    }
    let wanted = &issuer.audiences;
    if !wanted.is_empty() && !caller.audiences.iter().any(|audience| wanted.contains(audience)) {
        return Err(Denial::WrongAudience);
    }
    Ok(())
}

/// Verifies `token` with the keys of the issuers that its unverified `iss` names: once a signature
/// holds, so does the `iss` under it. Several issuers may share an `iss`; the first whose keys verify
/// the token wins.
fn verify(token: &[u8], issuers: &[Arc<Issuer>]) -> Result<Caller, Identity> {
    let invalid = |_: TokenError| Identity::Denied(Denial::InvalidCredentials);
    let padding = if issuers.iter().any(|issuer| issuer.padded_segments) {
        Padding::Allowed
    } else {
        Padding::Refused
    };
    let jws = Compact::parse(token, padding).map_err(invalid)?;
    let claims = jws.unverified_claims().map_err(invalid)?;
    let mut refused = Identity::Denied(Denial::InvalidCredentials);
    let meant = |issuer: &Issuer| {
        claims.iss.as_ref() == Some(&issuer.iss) && (issuer.padded_segments || !jws.is_padded())
    };
    for (index, issuer) in issuers.iter().enumerate().filter(|(_, issuer)| meant(issuer)) {
        match jws.verify_signature(&issuer.keys) {
            Ok(()) => return Ok(caller(claims, index)),
            Err(TokenError::UnknownKid) => {
                let denial = Denial::InvalidCredentials;
                refused = Identity::UnknownKid { issuer: index, denial };
            }
            Err(
                TokenError::Malformed(_) | TokenError::Unsupported(_) | TokenError::BadSignature,
            ) => {}
        }
    }
    Err(refused)
}

fn caller(claims: Claims, issuer: usize) -> Caller {
    let is_sandbox = claims.keytype.is_some_and(|it| it.eq_ignore_ascii_case("SANDBOX"));
    Caller {
        subject: claims.sub,
        client_id: claims.client_id.or(claims.azp),
        scopes: claims.scopes,
        key_type: if is_sandbox { KeyType::Sandbox } else { KeyType::Production },
        issuer,
        token_id: claims.jti,
        audiences: claims.aud,
        expires_s: claims.exp,
        not_before_s: claims.nbf,
    }
}
