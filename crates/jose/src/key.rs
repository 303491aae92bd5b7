//! A verification key, parsed once for each algorithm that it supports.

use aws_lc_rs::signature::{self, ParsedPublicKey, RsaParameters, RsaPublicKeyComponents};
use aws_lc_rs::{hmac, signature::EcdsaVerificationAlgorithm};

use crate::algorithm::Algorithm;
use crate::{der, roca};

/// Smallest and largest RSA modulus, in bits. Source: RFC 7518 section 3.3; aws-lc's upper bound.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

#[derive(Clone)]
pub(crate) enum Verifier {
    Public(ParsedPublicKey),
    Secret(Box<hmac::Key>),
}

/// One verifier for each algorithm that the key supports.
pub(crate) type Verifiers = Vec<(Algorithm, Verifier)>;

/// The curves of RFC 7518 section 6.2.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    P256,
    P384,
    P521,
}

impl Verifier {
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Public(key) => key.verify_sig(message, signature).is_ok(),
            Self::Secret(key) => hmac::verify(key, message, signature).is_ok(),
        }
    }
}

impl Curve {
    pub(crate) const ALL: [Self; 3] = [Self::P256, Self::P384, Self::P521];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::P521 => "P-521",
        }
    }

    /// The object identifier's bytes. Source: RFC 5480 section 2.1.1.1.
    const fn oid(self) -> &'static [u8] {
        match self {
            Self::P256 => &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
            Self::P384 => &[0x2b, 0x81, 0x04, 0x00, 0x22],
            Self::P521 => &[0x2b, 0x81, 0x04, 0x00, 0x23],
        }
    }

    /// Length of a coordinate, in bytes.
    pub(crate) const fn coordinate_bytes(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    /// The one algorithm that RFC 7518 section 3.4 pairs with the curve.
    pub(crate) const fn algorithm(self) -> Algorithm {
        match self {
            Self::P256 => Algorithm::Es256,
            Self::P384 => Algorithm::Es384,
            Self::P521 => Algorithm::Es512,
        }
    }

    fn verification(self) -> &'static EcdsaVerificationAlgorithm {
        match self {
            Self::P256 => &signature::ECDSA_P256_SHA256_FIXED,
            Self::P384 => &signature::ECDSA_P384_SHA384_FIXED,
            Self::P521 => &signature::ECDSA_P521_SHA512_FIXED,
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|curve| curve.name() == name)
    }
}

/// An RSA key, modulus and exponent big-endian. Leading zeros, which some implementations write, are dropped.
pub(crate) fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Verifiers, &'static str> {
    let modulus = without_leading_zeros(modulus);
    let exponent = without_leading_zeros(exponent);
    if !RSA_BITS.contains(&bits(modulus)) {
        return Err("an RSA modulus needs 2048 to 8192 bits");
    }
    // Odd, above 1, and short: the time of a verification grows with the exponent's length.
    if exponent == [1] || exponent.len() > 4 || !is_odd(exponent) {
        return Err("an RSA exponent must be odd, from 3 to 2^32");
    }
    if !is_odd(modulus) {
        return Err("the RSA modulus is even");
    }
    if roca::is_weak(modulus) {
        return Err("the RSA modulus is weak (CVE-2017-15361); replace the key");
    }
    let components = RsaPublicKeyComponents { n: modulus, e: exponent };
    rsa_parameters()
        .into_iter()
        .map(|(algorithm, parameters)| match components.to_parsed_public_key(parameters) {
            Ok(key) => Ok((algorithm, Verifier::Public(key))),
            Err(_) => Err("invalid RSA key"),
        })
        .collect()
}

fn rsa_parameters() -> [(Algorithm, &'static RsaParameters); 6] {
    [
        (Algorithm::Rs256, &signature::RSA_PKCS1_2048_8192_SHA256),
        (Algorithm::Rs384, &signature::RSA_PKCS1_2048_8192_SHA384),
        (Algorithm::Rs512, &signature::RSA_PKCS1_2048_8192_SHA512),
        (Algorithm::Ps256, &signature::RSA_PSS_2048_8192_SHA256),
        (Algorithm::Ps384, &signature::RSA_PSS_2048_8192_SHA384),
        (Algorithm::Ps512, &signature::RSA_PSS_2048_8192_SHA512),
    ]
}

/// An EC key: `point` is 4, x, y (SEC 1 section 2.3.3, uncompressed).
pub(crate) fn ec(curve: Curve, point: &[u8]) -> Result<Verifiers, &'static str> {
    let expected = curve.coordinate_bytes().saturating_mul(2).saturating_add(1);
    if point.first() != Some(&4) || point.len() != expected {
        return Err("an EC key must be an uncompressed point of its curve");
    }
    let key = ParsedPublicKey::new(curve.verification(), point)
        .map_err(|_| "the EC point is not on its curve")?;
    Ok(vec![(curve.algorithm(), Verifier::Public(key))])
}

/// An Ed25519 key. Source: RFC 8032 section 5.1.5.
pub(crate) fn ed25519(x: &[u8]) -> Result<Verifiers, &'static str> {
    if x.len() != 32 {
        return Err("an Ed25519 key has 32 bytes");
    }
    let key = ParsedPublicKey::new(&signature::ED25519, x).map_err(|_| "invalid Ed25519 key")?;
    Ok(vec![(Algorithm::EdDsa, Verifier::Public(key))])
}

/// A shared secret, for the algorithms whose hash isn't longer. Empty if it is too short for all.
/// Source: RFC 7518 section 3.2.
pub(crate) fn secret(bytes: &[u8]) -> Verifiers {
    hmac_algorithms()
        .into_iter()
        .filter(|(_, hash)| bytes.len() >= hash.tag_len())
        .map(|(algorithm, hash)| {
            (algorithm, Verifier::Secret(Box::new(hmac::Key::new(hash, bytes))))
        })
        .collect()
}

pub(crate) fn hmac_algorithms() -> [(Algorithm, hmac::Algorithm); 3] {
    [
        (Algorithm::Hs256, hmac::HMAC_SHA256),
        (Algorithm::Hs384, hmac::HMAC_SHA384),
        (Algorithm::Hs512, hmac::HMAC_SHA512),
    ]
}

/// The key of a SubjectPublicKeyInfo.
pub(crate) fn from_info(info: &der::PublicKeyInfo<'_>) -> Result<Verifiers, &'static str> {
    match info.algorithm {
        der::RSA_ENCRYPTION => {
            let (modulus, exponent) =
                der::rsa_public_key(info.key).ok_or("invalid RSA public key")?;
            rsa(modulus, exponent)
        }
        der::EC_PUBLIC_KEY => {
            let curve = Curve::ALL
                .into_iter()
                .find(|curve| info.parameter == Some(curve.oid()))
                .ok_or("the curve is not one of P-256, P-384, P-521")?;
            ec(curve, info.key)
        }
        der::ED25519 => ed25519(info.key),
        _ => Err("not an RSA, EC or Ed25519 key"),
    }
}

fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

/// Bits of a number without leading zero bytes.
fn bits(bytes: &[u8]) -> usize {
    let spare = bytes.first().map_or(0, |byte| byte.leading_zeros());
    bytes.len().saturating_mul(8).saturating_sub(usize::try_from(spare).unwrap_or(usize::MAX))
}

fn is_odd(bytes: &[u8]) -> bool {
    bytes.last().is_some_and(|byte| byte & 1 == 1)
}
