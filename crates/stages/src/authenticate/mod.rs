//! Who calls: from the credential to a [`Caller`].
//!
//! Life of a request: route -> **authenticate** -> authorise. Reads the credential's header value,
//! the issuers and the time; answers an [`Identity`]. It keeps verified tokens in a [`TokenCache`]
//! and nothing else.
//!
//! Architecture invariant: a token that didn't verify is never cached, and no part of a token is
//! ever logged or told.

mod cache;

use std::rc::Rc;
use std::sync::Arc;

use base::Now;
use model::{Caller, Denial, Issuer};

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

/// Takes the token out of the value of the credential's header.
///
/// # Errors
/// [`Denial::MissingCredentials`] for another scheme or no token at all.
pub fn bearer(value: &[u8]) -> Result<&[u8], Denial> {
    let _ = value;
    Err(Denial::MissingCredentials)
}

/// Finds out whose `token` it is, from the cache or by verifying it with its issuer's keys.
pub fn identify(
    cache: &mut TokenCache,
    token: &[u8],
    issuers: &[Arc<Issuer>],
    now: Now,
) -> Identity {
    let _ = (cache, token, issuers, now);
    Identity::Denied(Denial::InvalidCredentials)
}
