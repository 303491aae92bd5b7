//! JWS, JWK, JWT: bytes in, claims out.
//!
//! Life of a request: route -> **authenticate** -> authorise; used when the worker's token cache misses.
//! Reads a credential and a [`KeySet`]; returns [`Claims`] or a [`TokenError`] without any part of the
//! token. Also signs, for `penstock token sign` and the sample keys of `penstock up`.
//!
//! Parsing is strict, because signatures are bypassed where two parsers disagree about a token: JSON with
//! duplicate members, trailing bytes or lone surrogates is rejected, and so is base64url with non-zero
//! trailing bits. Signatures are verified by aws-lc-rs.
//!
//! Keys in a token (`jwk`, `jku`, `x5c`, `x5u`) are ignored; the key in a proof ([`Proof`]) is trusted if the token has
//! its thumbprint. The key determines the algorithm: a header only selects among those that the key was loaded for.
//!
//! Architecture invariant: no clock, no sockets, no files; time is an argument. No error and no `Debug`
//! output contains a token, a claim or key material.

#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "a test may panic")
)]

mod algorithm;
mod base64url;
mod claims;
mod der;
mod digest;
mod discovery;
mod dpop;
mod error;
mod introspection;
mod json;
mod jwk;
mod jws;
mod key;
mod keyset;
mod password;
mod pem;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod revocations;
mod roca;
mod sealed;
mod sign;
mod sign_in;
mod subscriptions;
mod token_response;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use base64url::Padding;
/// SHA-256 of `bytes`.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    hash.iter_mut().zip(digest.as_ref()).for_each(|(to, byte)| *to = *byte);
    hash
}

/// HMAC of `message` with SHA-256.
#[must_use]
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, key);
    let mut tag = [0; 32];
    let signed = aws_lc_rs::hmac::sign(&key, message);
    tag.iter_mut().zip(signed.as_ref()).for_each(|(to, byte)| *to = *byte);
    tag
}

pub use claims::{Claims, Confirmation, claim_texts, with_member};
pub use digest::{DigestChallenge, DigestLogin};
pub use discovery::{SignInEndpoints, jwks_uri, same_origin, sign_in_endpoints};
pub use dpop::Proof;
pub use error::{KeyError, SignError, TokenError};
pub use introspection::introspected;
pub use json::JsonError;
pub use jws::{Compact, Header};
pub use keyset::{KeySet, Skipped};
pub use password::{PasswordHash, SALT_BYTES};
pub use pem::certificates;
pub use revocations::{Revocation, RevocationPage, revocation_page, token_hash, token_hash_text};
pub use sealed::SealingKeys;
pub use sign::{CertificateThumbprints, SigningKey, certificate_thumbprints};
pub use sign_in::{ExpectedIdToken, IdTokenProblem, SignInAttempt, check_id_token, fresh_sign_in};
pub use subscriptions::{SubscribedApi, TokenSubscriptions};
pub use token_response::{IssuedTokens, is_invalid_grant, issued_tokens};
