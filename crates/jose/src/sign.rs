//! Signing, for `penstock token sign` and the keys that `penstock up` generates.

use aws_lc_rs::encoding::{AsBigEndian, AsDer, EcPrivateKeyBin};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RsaEncoding, RsaKeyPair,
};
use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE;

use crate::algorithm::Algorithm;
use crate::base64url::{self, Padding};
use crate::claims::Claims;
use crate::error::{KeyError, SignError};
use crate::json;
use crate::jwk;
use crate::jws::{Compact, Header};
use crate::key::{Curve, hmac_algorithms};
use crate::keyset::KeySet;
use crate::{der, pem};

/// A private key or a shared secret.
pub struct SigningKey(Kind);

enum Kind {
    Rsa(RsaKeyPair),
    Ec(Curve, EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Secret(Vec<u8>),
}

/// Prints the kind of key, never the key itself.
impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm()).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Parses one private key: `PRIVATE KEY` (PKCS#8: RSA, P-256, P-384, P-521, Ed25519), `RSA PRIVATE KEY`
    /// (PKCS#1) or `EC PRIVATE KEY` (SEC 1).
    ///
    /// # Errors
    /// If there isn't exactly one such block, it is encrypted, or RSA with fewer than 2048 bits.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let block = pem::single(text)?;
        let kind = match block.label {
            "PRIVATE KEY" => RsaKeyPair::from_pkcs8(&block.der)
                .ok()
                .map(Kind::Rsa)
                .or_else(|| ec(&block.der))
                .or_else(|| {
                    Ed25519KeyPair::from_pkcs8_maybe_unchecked(&block.der).ok().map(Kind::Ed25519)
                }),
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(&block.der).ok().map(Kind::Rsa),
            "EC PRIVATE KEY" => ec(&block.der),
            "ENCRYPTED PRIVATE KEY" => {
                return Err(KeyError::Pem("the private key is encrypted; decrypt it first"));
            }
            _ => return Err(KeyError::Pem("not a private key")),
        };
        kind.map(Self).ok_or(KeyError::Unusable(
            "not an RSA (2048 to 8192 bits), P-256, P-384, P-521 or Ed25519 key",
        ))
    }

    /// A shared secret, for HS256, HS384 and HS512.
    ///
    /// # Errors
    /// [`KeyError::ShortSecret`] below 32 bytes. Source: RFC 7518 section 3.2.
    pub fn from_secret(secret: &[u8]) -> Result<Self, KeyError> {
        if secret.len() < hmac::HMAC_SHA256.tag_len() {
            return Err(KeyError::ShortSecret { bytes: secret.len() });
        }
        Ok(Self(Kind::Secret(secret.to_vec())))
    }

    /// Generates an RSA key of 2048 bits as PEM (PKCS#8), in a tenth of a second to some seconds.
    ///
    /// # Errors
    /// [`KeyError::Unusable`] if the system provides no randomness.
    pub fn generate_rsa() -> Result<String, KeyError> {
        let failed = |_| KeyError::Unusable("no RSA key could be generated");
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(failed)?;
        let der = pair.as_der().map_err(failed)?;
        Ok(pem::write("PRIVATE KEY", der.as_ref()))
    }

    /// The default algorithm of the key.
    pub fn algorithm(&self) -> Algorithm {
        match &self.0 {
            Kind::Rsa(_) => Algorithm::Rs256,
            Kind::Ec(curve, _) => curve.algorithm(),
            Kind::Ed25519(_) => Algorithm::EdDsa,
            Kind::Secret(_) => Algorithm::Hs256,
        }
    }

    /// The algorithms that the key supports.
    pub fn algorithms(&self) -> Vec<Algorithm> {
        Algorithm::ALL.into_iter().filter(|algorithm| self.supports(*algorithm)).collect()
    }

    /// Signs `claims_json`, unchanged, as a JWS in compact form.
    ///
    /// # Errors
    /// [`SignError::WrongAlgorithm`] if the key doesn't support `header.alg`; [`SignError::Claims`] for claims
    /// that verification would reject.
    pub fn sign(&self, header: &Header, claims_json: &str) -> Result<String, SignError> {
        json::parse_object(claims_json.as_bytes())?;
        Claims::parse(claims_json.as_bytes()).map_err(SignError::Claims)?;
        self.sign_text(header.alg, &header.to_json(), claims_json)
    }

    /// Signs any text, with a header that has `algorithm` as its `alg`.
    ///
    /// # Errors
    /// [`SignError::WrongAlgorithm`] if the key doesn't support `algorithm`.
    pub fn sign_text(
        &self,
        algorithm: Algorithm,
        header: &str,
        payload: &str,
    ) -> Result<String, SignError> {
        if !self.supports(algorithm) {
            let supported = self.algorithms();
            return Err(SignError::WrongAlgorithm { algorithm, supported });
        }
        let mut token = base64url::encode(header.as_bytes());
        token.push('.');
        token.push_str(&base64url::encode(payload.as_bytes()));
        let signature = self.raw_signature(algorithm, token.as_bytes()).ok_or(SignError::Failed)?;
        token.push('.');
        token.push_str(&base64url::encode(&signature));
        Ok(token)
    }

    /// The public key as a JWK, for a key set; the default `kid` is the thumbprint.
    ///
    /// # Errors
    /// [`SignError::Secret`] for a shared secret.
    pub fn public_jwk(&self, kid: Option<&str>) -> Result<String, SignError> {
        let kid = match kid {
            Some(kid) => kid.to_owned(),
            None => self.thumbprint()?,
        };
        let (kid, alg) = (json::string(&kid), self.algorithm());
        let mut jwk = format!("{{\"kid\":{kid},\"use\":\"sig\",\"alg\":\"{alg}\"");
        for (name, value) in self.public_members()? {
            jwk.push_str(&format!(",\"{name}\":\"{value}\""));
        }
        jwk.push('}');
        Ok(jwk)
    }

    /// The key's SHA-256 thumbprint in base64url. Source: RFC 7638 section 3, RFC 8037 appendix A.3.
    ///
    /// # Errors
    /// [`SignError::Secret`] for a shared secret, as its thumbprint would help to guess it.
    pub fn thumbprint(&self) -> Result<String, SignError> {
        let members = self.public_members()?;
        let members: Vec<_> = members.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Ok(base64url::encode(&jwk::thumbprint_of(&members)))
    }

    /// Whether the public key of this private key is among `keys`.
    pub fn is_private_key_of(&self, keys: &KeySet) -> bool {
        let header = Header { alg: self.algorithm(), kid: None, typ: None };
        let Ok(jws) = self.sign(&header, "{}") else { return false };
        Compact::parse(jws.as_bytes(), Padding::Rejected)
            .is_ok_and(|jws| jws.verify_signature(keys).is_ok())
    }

    /// A secret for `purpose`, derived from the private key. It does not depend on the format of the key's file.
    ///
    /// # Errors
    /// [`SignError::Failed`] if the library fails.
    pub fn derived_secret(&self, purpose: &[u8]) -> Result<[u8; 32], SignError> {
        let failed = |_| SignError::Failed;
        let private = match &self.0 {
            Kind::Rsa(pair) => pair.as_der().map_err(failed)?.as_ref().to_vec(),
            Kind::Ec(_, pair) => {
                let number: EcPrivateKeyBin<'_> =
                    pair.private_key().as_be_bytes().map_err(failed)?;
                number.as_ref().to_vec()
            }
            Kind::Ed25519(pair) => {
                let seed = pair.seed().map_err(failed)?;
                seed.as_be_bytes().map_err(failed)?.as_ref().to_vec()
            }
            Kind::Secret(secret) => secret.clone(),
        };
        Ok(crate::hmac_sha256(&private, purpose))
    }

    /// The members that define the public key, sorted by name as RFC 7638 requires.
    fn public_members(&self) -> Result<Vec<(&'static str, String)>, SignError> {
        match &self.0 {
            Kind::Rsa(pair) => {
                let public = pair.public_key();
                let (modulus, exponent) =
                    der::rsa_public_key(public.as_ref()).ok_or(SignError::Failed)?;
                Ok(vec![
                    ("e", base64url::encode(exponent)),
                    ("kty", "RSA".to_owned()),
                    ("n", base64url::encode(modulus)),
                ])
            }
            Kind::Ec(curve, pair) => {
                let point = pair.public_key().as_ref().strip_prefix(&[4]);
                let (x, y) = point
                    .and_then(|point| point.split_at_checked(curve.coordinate_bytes()))
                    .ok_or(SignError::Failed)?;
                Ok(vec![
                    ("crv", curve.name().to_owned()),
                    ("kty", "EC".to_owned()),
                    ("x", base64url::encode(x)),
                    ("y", base64url::encode(y)),
                ])
            }
            Kind::Ed25519(pair) => Ok(vec![
                ("crv", "Ed25519".to_owned()),
                ("kty", "OKP".to_owned()),
                ("x", base64url::encode(pair.public_key().as_ref())),
            ]),
            Kind::Secret(_) => Err(SignError::Secret),
        }
    }

    fn supports(&self, algorithm: Algorithm) -> bool {
        match &self.0 {
            Kind::Rsa(_) => rsa_encoding(algorithm).is_some(),
            Kind::Ec(curve, _) => curve.algorithm() == algorithm,
            Kind::Ed25519(_) => algorithm == Algorithm::EdDsa,
            Kind::Secret(secret) => {
                hmac_hash(algorithm).is_some_and(|hash| secret.len() >= hash.tag_len())
            }
        }
    }

    fn raw_signature(&self, algorithm: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
        match &self.0 {
            Kind::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let encoding = rsa_encoding(algorithm)?;
                pair.sign(encoding, &SystemRandom::new(), message, &mut signature).ok()?;
                Some(signature)
            }
            Kind::Ec(_, pair) => {
                let signature = pair.sign(&SystemRandom::new(), message).ok()?;
                Some(signature.as_ref().to_vec())
            }
            Kind::Ed25519(pair) => Some(pair.try_sign(message).ok()?.as_ref().to_vec()),
            Kind::Secret(secret) => {
                let key = hmac::Key::new(hmac_hash(algorithm)?, secret);
                Some(hmac::sign(&key, message).as_ref().to_vec())
            }
        }
    }
}

/// The thumbprints with which a JWT names the certificate of its key.
pub struct CertificateThumbprints {
    /// `x5t` as WSO2 writes it, and validators made for WSO2 expect it: padded base64url of the hexadecimal digits of
    /// the SHA-1, instead of the SHA-1. Source: WSO2's `AbstractAPIMgtGatewayJWTGenerator`.
    pub wso2: String,
    /// `x5t#S256`. Source: RFC 7515 section 4.1.8.
    pub sha256: String,
}

/// The thumbprints of a certificate in DER.
#[must_use]
pub fn certificate_thumbprints(der: &[u8]) -> CertificateThumbprints {
    let sha1 = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, der);
    let digits: String = sha1.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    CertificateThumbprints {
        wso2: BASE64_URL_SAFE.encode(digits),
        sha256: base64url::encode(&crate::sha256(der)),
    }
}

impl Header {
    /// The header as JSON, `alg` first.
    fn to_json(&self) -> String {
        let mut out = format!("{{\"alg\":\"{}\"", self.alg);
        for (name, value) in [("kid", &self.kid), ("typ", &self.typ)] {
            if let Some(value) = value {
                out.push_str(&format!(",\"{name}\":{}", json::string(value)));
            }
        }
        out.push('}');
        out
    }
}

/// An EC key in PKCS#8 or SEC 1, of any supported curve.
fn ec(der: &[u8]) -> Option<Kind> {
    Curve::ALL.into_iter().find_map(|curve| {
        let pair = EcdsaKeyPair::from_private_key_der(ec_signing(curve), der).ok()?;
        Some(Kind::Ec(curve, pair))
    })
}

fn ec_signing(curve: Curve) -> &'static EcdsaSigningAlgorithm {
    match curve {
        Curve::P256 => &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
        Curve::P384 => &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
        Curve::P521 => &signature::ECDSA_P521_SHA512_FIXED_SIGNING,
    }
}

fn rsa_encoding(algorithm: Algorithm) -> Option<&'static dyn RsaEncoding> {
    match algorithm {
        Algorithm::Rs256 => Some(&signature::RSA_PKCS1_SHA256),
        Algorithm::Rs384 => Some(&signature::RSA_PKCS1_SHA384),
        Algorithm::Rs512 => Some(&signature::RSA_PKCS1_SHA512),
        Algorithm::Ps256 => Some(&signature::RSA_PSS_SHA256),
        Algorithm::Ps384 => Some(&signature::RSA_PSS_SHA384),
        Algorithm::Ps512 => Some(&signature::RSA_PSS_SHA512),
        Algorithm::Hs256
        | Algorithm::Hs384
        | Algorithm::Hs512
        | Algorithm::Es256
        | Algorithm::Es384
        | Algorithm::Es512
        | Algorithm::EdDsa => None,
    }
}

fn hmac_hash(algorithm: Algorithm) -> Option<hmac::Algorithm> {
    hmac_algorithms().into_iter().find(|(own, _)| *own == algorithm).map(|(_, hash)| hash)
}
