//! JWS, JWK, JWT: bytes in, claims out; signatures by aws-lc-rs.

/// Signature algorithms (RFC 7518 section 3.1, RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm { Hs256, Hs384, Hs512, Rs256, Rs384, Rs512, Ps256, Ps384, Ps512, Es256, Es384, Es512, EdDsa }

/// Verification keys of one issuer.
#[derive(Debug, Default)]
pub struct KeySet {}
