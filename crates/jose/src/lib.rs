//! JWS, JWK, JWT: bytes in, claims out.
//!
//! Life of a request: route -> **authenticate** -> authorise; only when the worker's token cache misses.
//! Reads a credential's bytes and a [`KeySet`]; answers [`Claims`] or a [`TokenError`] that carries no
//! part of the token. Also signs, for `penstock token sign` and the sample keys of `penstock up`.
//!
//! It parses for itself and strictly, because two readers that disagree about a token are how
//! signatures get bypassed: JSON with duplicate members, trailing bytes or lone surrogates is refused,
//! and so is base64url with stray trailing bits. Signatures are checked by aws-lc-rs.
//!
//! What a token says about its own keys (`jwk`, `jku`, `x5c`, `x5u`) is never looked at. The algorithm is the
//! key's: a header only chooses among those that the key was loaded for.
//!
//! Architecture invariant: no clock, no sockets, no files here; time is an argument. No error and no
//! `Debug` text holds a token, a claim or key material.

#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "a test may panic")
)]

mod algorithm;
mod base64url;
mod claims;
mod der;
mod error;
mod json;
mod jwk;
mod jws;
mod key;
mod keyset;
mod pem;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod roca;
mod sign;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use base64url::Padding;
pub use claims::{Claims, LifetimeError, with_member};
pub use error::{KeyError, SignError, TokenError};
pub use json::JsonError;
pub use jws::{Compact, Header};
pub use keyset::{KeySet, Skipped};
pub use sign::SigningKey;
