//! Why a credential was rejected: for the metrics and the access log, never for the response.

use crate::Denial;

/// Why a credential was rejected. Responses contain less detail: see [`Self::denial`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthFailure {
    /// The credential's header field is absent.
    MissingCredential,
    /// The field contains something other than `Bearer` and a token.
    UnsupportedScheme,
    /// The field occurs more than once.
    RepeatedHeader,
    /// The token is longer than `limits::TOKEN_BYTES_MAX`.
    TokenTooLong,
    /// The token is not a JWS in compact form whose header and claims are strict JSON of the registered types.
    MalformedToken,
    /// base64url with `=` padding, from an issuer without `padded_segments = true`.
    PaddedToken,
    /// The token's header has `crit`, `b64`, `zip`, `enc`, or a `typ` that is not an access token's; or its claims are
    /// those of an ID token, a refresh token or a logout token.
    UnsupportedHeader,
    /// The algorithm is `none`, unknown, or not supported by the issuer's keys.
    UnsupportedAlgorithm,
    /// `iss` is absent, or names no configured issuer.
    UnknownIssuer,
    /// The issuer has no key with the token's `kid`.
    UnknownKid,
    /// None of the issuer's keys verifies the signature.
    BadSignature,
    /// `exp` is absent, from an issuer without `allow_unlimited = true`.
    NoExpiry,
    /// `exp` is in the past.
    Expired,
    /// `nbf` is in the future.
    NotYetValid,
    /// `aud` names none of the issuer's `audiences`.
    WrongAudience,
    /// No issuer reports the opaque token as active.
    InactiveToken,
    /// No issuer reports the opaque token as active, and one did not respond, or too many requests wait for its
    /// response.
    IssuerUnavailable,
    /// The issuer has revoked the token.
    Revoked,
    /// The token is bound to a key (`cnf`), and the client has not proven that it has this key.
    Unconfirmed,
    /// The token is bound to the key of DPoP proofs, and the request has none.
    MissingProof,
    /// The DPoP proof is malformed, too old, or for another request, token or key.
    InvalidProof,
    /// The DPoP proof has no nonce from the gateway, or an old one.
    ProofNonce,
    /// The DPoP proof was used before.
    ReplayedProof,
    /// The memory for DPoP proofs is full.
    TooManyProofs,
    /// A request with the session of a browser that another site may have caused.
    CrossSite,
    /// No application has the API key, and no issuer has signed it.
    UnknownKey,
    /// An API key in the place of a token, or a token in the place of an API key.
    WrongKind,
    /// The API key may not be used from the client's address, or with its `Referer`.
    NotPermitted,
    /// The request has no password, and the operation accepts nothing else.
    MissingLogin,
    /// The user name is unknown, or the password is wrong.
    WrongPassword,
}

impl AuthFailure {
    pub const ALL: [Self; 30] = [
        Self::MissingCredential,
        Self::UnsupportedScheme,
        Self::RepeatedHeader,
        Self::TokenTooLong,
        Self::MalformedToken,
        Self::PaddedToken,
        Self::UnsupportedHeader,
        Self::UnsupportedAlgorithm,
        Self::UnknownIssuer,
        Self::UnknownKid,
        Self::BadSignature,
        Self::NoExpiry,
        Self::Expired,
        Self::NotYetValid,
        Self::WrongAudience,
        Self::InactiveToken,
        Self::IssuerUnavailable,
        Self::Revoked,
        Self::Unconfirmed,
        Self::MissingProof,
        Self::InvalidProof,
        Self::ProofNonce,
        Self::ReplayedProof,
        Self::TooManyProofs,
        Self::CrossSite,
        Self::UnknownKey,
        Self::WrongKind,
        Self::NotPermitted,
        Self::MissingLogin,
        Self::WrongPassword,
    ];

    /// The name of the failure in the metrics and the access log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingCredential => "missing_credential",
            Self::UnsupportedScheme => "unsupported_scheme",
            Self::RepeatedHeader => "repeated_header",
            Self::TokenTooLong => "token_too_long",
            Self::MalformedToken => "malformed_token",
            Self::PaddedToken => "padded_token",
            Self::UnsupportedHeader => "unsupported_header",
            Self::UnsupportedAlgorithm => "unsupported_algorithm",
            Self::UnknownIssuer => "unknown_issuer",
            Self::UnknownKid => "unknown_kid",
            Self::BadSignature => "bad_signature",
            Self::NoExpiry => "no_expiry",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::WrongAudience => "wrong_audience",
            Self::InactiveToken => "inactive_token",
            Self::IssuerUnavailable => "issuer_unavailable",
            Self::Revoked => "revoked",
            Self::Unconfirmed => "unconfirmed",
            Self::MissingProof => "missing_proof",
            Self::InvalidProof => "invalid_proof",
            Self::ProofNonce => "proof_nonce",
            Self::ReplayedProof => "replayed_proof",
            Self::TooManyProofs => "too_many_proofs",
            Self::CrossSite => "cross_site",
            Self::UnknownKey => "unknown_key",
            Self::WrongKind => "wrong_kind",
            Self::NotPermitted => "not_permitted",
            Self::MissingLogin => "missing_login",
            Self::WrongPassword => "wrong_password",
        }
    }

    /// The denial that the client receives.
    #[must_use]
    pub const fn denial(self) -> Denial {
        match self {
            Self::MissingCredential | Self::UnsupportedScheme => Denial::MissingCredentials,
            Self::RepeatedHeader
            | Self::TokenTooLong
            | Self::MalformedToken
            | Self::PaddedToken
            | Self::UnsupportedHeader
            | Self::UnsupportedAlgorithm
            | Self::UnknownIssuer
            | Self::UnknownKid
            | Self::BadSignature
            | Self::NoExpiry
            | Self::NotYetValid
            | Self::InactiveToken
            | Self::Revoked
            | Self::Unconfirmed
            | Self::UnknownKey
            | Self::WrongKind => Denial::InvalidCredentials,
            Self::Expired => Denial::ExpiredToken,
            Self::WrongAudience => Denial::WrongAudience,
            Self::MissingProof => Denial::InvalidBoundToken,
            Self::CrossSite => Denial::CrossSite,
            Self::InvalidProof | Self::ReplayedProof => Denial::InvalidProof,
            Self::ProofNonce => Denial::ProofNonce,
            Self::IssuerUnavailable | Self::TooManyProofs => Denial::IssuerUnavailable,
            Self::NotPermitted => Denial::NotPermitted,
            Self::MissingLogin => Denial::MissingLogin,
            Self::WrongPassword => Denial::WrongPassword,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_failure_is_listed_once_under_its_own_name() {
        for (position, failure) in AuthFailure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, position, "{failure:?}");
        }
        let names: HashSet<_> = AuthFailure::ALL.into_iter().map(AuthFailure::as_str).collect();
        assert_eq!(names.len(), AuthFailure::ALL.len());
        assert_eq!(AuthFailure::ALL.last(), Some(&AuthFailure::WrongPassword));
    }
}
