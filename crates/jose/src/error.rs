//! Why a token, a key or a signature is refused: data without secrets, to be mapped by who asked.

use crate::json::JsonError;

/// Why a token is refused. Texts are ours; none holds a part of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It isn't a JWS in compact form with a JWT's claims.
    #[error("malformed token: {0}")]
    Malformed(&'static str),
    /// It is well formed, but its header has a `typ` or an extension such as `crit` that is rejected.
    #[error("unsupported token: {0}")]
    Unsupported(&'static str),
    /// Its algorithm is `none`, unknown, or one that none of the keys serves.
    #[error("unsupported algorithm: {0}")]
    UnsupportedAlgorithm(&'static str),
    /// Its `kid` is none of ours. Newer keys of the issuer may hold it.
    #[error("no key has the token's kid")]
    UnknownKid,
    /// No key that suits verifies it.
    #[error("the signature does not verify")]
    BadSignature,
}

/// Why keys can't be loaded. Private detail such as the file's name is added by who read it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("{bytes} bytes are more than the {max} that a key set may have")]
    TooLarge { bytes: usize, max: usize },
    #[error("{count} keys are more than the {max} that a key set may have")]
    TooManyKeys { count: usize, max: usize },
    #[error("not strict JSON: {0}")]
    Json(#[from] JsonError),
    #[error("not a JWK set: {0}")]
    NotAKeySet(&'static str),
    /// Whoever can read the set could sign. Publish the public members only, and replace the key.
    #[error("key {index} of the set holds private members; leave only the public ones")]
    PrivateKey { index: usize },
    #[error(
        "keys {first} and {second} of the set have the same `kid` and serve the same algorithm"
    )]
    DuplicateKid { first: usize, second: usize },
    #[error("the set mixes shared secrets with public keys")]
    Mixed,
    #[error("{0}")]
    Pem(&'static str),
    #[error("unusable key: {0}")]
    Unusable(&'static str),
    /// RFC 7518 section 3.2: a secret at least as long as the hash.
    #[error("a secret of {bytes} bytes; HS256 needs 32, HS384 48, HS512 64")]
    ShortSecret { bytes: usize },
}

/// Why a token can't be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    #[error("this key cannot sign {algorithm}; it signs {}", names(.suited))]
    WrongAlgorithm { algorithm: crate::Algorithm, suited: Vec<crate::Algorithm> },
    #[error("the claims are not strict JSON: {0}")]
    Json(#[from] JsonError),
    #[error("the claims are not acceptable: {0}")]
    Claims(TokenError),
    #[error("the key failed to sign")]
    Failed,
    #[error("a shared secret has no public part")]
    Secret,
}

fn names(algorithms: &[crate::Algorithm]) -> String {
    algorithms.iter().map(|algorithm| algorithm.as_str()).collect::<Vec<_>>().join(", ")
}
