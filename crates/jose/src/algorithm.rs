//! The signature algorithms, by their registered names.

use std::str::FromStr;

/// A signature algorithm. Source: RFC 7518 section 3.1, RFC 8037 section 3.1 (Ed25519 only).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    Es512,
    EdDsa,
}

/// The name isn't a supported algorithm; `none` isn't one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not one of HS256/384/512, RS256/384/512, PS256/384/512, ES256/384/512, EdDSA")]
pub struct UnknownAlgorithm;

impl Algorithm {
    /// Every algorithm, in the order of RFC 7518.
    pub const ALL: [Self; 13] = [
        Self::Hs256,
        Self::Hs384,
        Self::Hs512,
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::Es512,
        Self::EdDsa,
    ];

    /// The registered name, as in a header's `alg`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Hs384 => "HS384",
            Self::Hs512 => "HS512",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
            Self::EdDsa => "EdDSA",
        }
    }

    /// Whether both sides share a secret, so that a verifier could also sign.
    pub const fn is_symmetric(self) -> bool {
        match self {
            Self::Hs256 | Self::Hs384 | Self::Hs512 => true,
            Self::Rs256
            | Self::Rs384
            | Self::Rs512
            | Self::Ps256
            | Self::Ps384
            | Self::Ps512
            | Self::Es256
            | Self::Es384
            | Self::Es512
            | Self::EdDsa => false,
        }
    }
}

/// Names are case-sensitive (RFC 7515 section 4.1.1).
impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name).ok_or(UnknownAlgorithm)
    }
}

impl std::fmt::Display for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_is_found_by_its_own_name_and_by_no_other() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.as_str().parse(), Ok(algorithm));
        }
        for name in ["", "none", "None", "rs256", "RS256 ", "ES521", "ES256K", "Ed25519", "RSA1_5"]
        {
            assert_eq!(name.parse::<Algorithm>(), Err(UnknownAlgorithm), "{name}");
        }
    }
}
