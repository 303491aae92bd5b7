//! Errors of tokens, keys and signatures. They contain no secrets.

use crate::json::JsonError;

/// Why a token is rejected. The texts contain no part of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token is not a JWS in compact form with the claims of a JWT.
    #[error("malformed token: {0}")]
    Malformed(&'static str),
    /// Well formed, but its header has a `typ` or an extension such as `crit` that is rejected.
    #[error("unsupported token: {0}")]
    Unsupported(&'static str),
    /// The algorithm is `none`, unknown, or not supported by any of the keys.
    #[error("unsupported algorithm: {0}")]
    UnsupportedAlgorithm(&'static str),
    /// No key has the token's `kid`, and no key without a `kid` verifies it. The issuer may have published newer keys.
    #[error("no key with the token's kid")]
    UnknownKid,
    /// No matching key verifies it.
    #[error("invalid signature")]
    BadSignature,
}

/// Why keys can't be loaded. The caller adds detail such as the name of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("the key set has {bytes} bytes; the limit is {max}")]
    TooLarge { bytes: usize, max: usize },
    #[error("the key set has {count} keys; the limit is {max}")]
    TooManyKeys { count: usize, max: usize },
    #[error("invalid JSON: {0}")]
    Json(#[from] JsonError),
    #[error("not a JWK set: {0}")]
    NotAKeySet(&'static str),
    /// Anyone who can read the set could sign. Publish the public members only, and replace the key.
    #[error(
        "key {index} of the set has private members; publish the public ones only, and replace the key"
    )]
    PrivateKey { index: usize },
    #[error("keys {first} and {second} of the set have the same `kid` and algorithm")]
    DuplicateKid { first: usize, second: usize },
    #[error("the set mixes shared secrets with public keys")]
    Mixed,
    #[error("{0}")]
    Pem(&'static str),
    #[error("unusable key: {0}")]
    Unusable(&'static str),
    /// The secret is shorter than the hash, which RFC 7518 section 3.2 forbids.
    #[error("the secret has {bytes} bytes; HS256 needs 32, HS384 48, HS512 64")]
    ShortSecret { bytes: usize },
}

/// Why a token can't be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    #[error("the key can't sign {algorithm}; it supports {}", names(.supported))]
    WrongAlgorithm { algorithm: crate::Algorithm, supported: Vec<crate::Algorithm> },
    #[error("the claims are not valid JSON: {0}")]
    Json(#[from] JsonError),
    #[error("the claims are not acceptable: {0}")]
    Claims(TokenError),
    #[error("signing failed")]
    Failed,
    #[error("a shared secret has no public part")]
    Secret,
}

fn names(algorithms: &[crate::Algorithm]) -> String {
    algorithms.iter().map(|algorithm| algorithm.as_str()).collect::<Vec<_>>().join(", ")
}
