//! The verification keys of one issuer.

use base::limits;

use crate::algorithm::Algorithm;
use crate::error::{KeyError, TokenError};
use crate::json::{self, Object, Value};
use crate::jws::Header;
use crate::key::{self, Verifier, Verifiers};
use crate::{der, jwk, pem};

/// Verification keys of one issuer, parsed once, each bound to the algorithms that it supports.
#[derive(Clone, Default)]
pub struct KeySet {
    keys: Vec<Key>,
    skipped: Vec<Skipped>,
}

#[derive(Clone)]
struct Key {
    kid: Option<String>,
    verifiers: Verifiers,
}

/// A key of a JWK set that isn't used, with the reason. Source: RFC 7517 section 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Index in the set, from 0.
    pub index: usize,
    pub reason: &'static str,
}

/// Prints counts only: no key material, no `kid`.
impl std::fmt::Debug for KeySet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeySet")
            .field("keys", &self.keys.len())
            .field("skipped", &self.skipped.len())
            .field("algorithms", &self.algorithms())
            .finish()
    }
}

/// How to treat `oct` keys of a set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Secrets {
    Skipped,
    Accepted,
}

impl KeySet {
    /// Parses a JWK set of public keys. Keys that are unsupported, unsuitable or for another purpose are
    /// skipped and listed by [`Self::skipped`], and so are shared secrets.
    ///
    /// # Errors
    /// If it isn't a JWK set in strict JSON, exceeds [`limits::JWKS_BYTES_MAX`] or
    /// [`limits::JWKS_KEYS_MAX`], contains a private key, or two keys that a header can't distinguish.
    pub fn from_jwks(document: &[u8]) -> Result<Self, KeyError> {
        Self::read_jwks(document, Secrets::Skipped)
    }

    /// As [`Self::from_jwks`], with `oct` keys accepted. Only for private sets: anyone who can read the
    /// set can sign.
    ///
    /// # Errors
    /// As [`Self::from_jwks`]; also for a set that has both secrets and public keys.
    pub fn from_jwks_with_secrets(document: &[u8]) -> Result<Self, KeyError> {
        Self::read_jwks(document, Secrets::Accepted)
    }

    /// Parses one public key: `PUBLIC KEY`, `RSA PUBLIC KEY` or `CERTIFICATE`. It has no `kid`.
    ///
    /// # Errors
    /// If there isn't exactly one such block, or the kind or size of the key isn't supported.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let block = pem::single(text)?;
        let verifiers = match block.label {
            "PUBLIC KEY" => from_info(der::public_key_info(&block.der))?,
            "CERTIFICATE" => from_info(der::certificate(&block.der))?,
            "RSA PUBLIC KEY" => {
                let (modulus, exponent) = der::rsa_public_key(&block.der).ok_or(BAD_DER)?;
                key::rsa(modulus, exponent).map_err(KeyError::Unusable)?
            }
            label if label.ends_with("PRIVATE KEY") => {
                return Err(KeyError::Pem("this is a private key; configure its public key"));
            }
            _ => {
                return Err(KeyError::Pem(
                    "expected `PUBLIC KEY`, `RSA PUBLIC KEY` or `CERTIFICATE`",
                ));
            }
        };
        Ok(Self::of_one(verifiers))
    }

    /// A shared secret for HS256 and, if it is long enough, HS384 and HS512. It has no `kid`.
    ///
    /// # Errors
    /// [`KeyError::ShortSecret`] below 32 bytes; [`KeyError::Pem`] for a PEM file, since a public key isn't
    /// secret.
    pub fn from_secret(secret: &[u8]) -> Result<Self, KeyError> {
        if secret.starts_with(b"-----BEGIN ") {
            return Err(KeyError::Pem("a PEM file isn't a shared secret; configure it as `pem`"));
        }
        let verifiers = key::secret(secret);
        if verifiers.is_empty() {
            return Err(KeyError::ShortSecret { bytes: secret.len() });
        }
        Ok(Self::of_one(verifiers))
    }

    /// Restricts each key to these algorithms, and drops keys without any. An empty list leaves no key.
    #[must_use]
    pub fn restrict(mut self, algorithms: &[Algorithm]) -> Self {
        for key in &mut self.keys {
            key.verifiers.retain(|(algorithm, _)| algorithms.contains(algorithm));
        }
        self.keys.retain(|key| !key.verifiers.is_empty());
        self
    }

    /// The number of keys in use.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub fn has_kid(&self, kid: &str) -> bool {
        self.keys.iter().any(|key| key.kid.as_deref() == Some(kid))
    }

    /// The algorithms that the keys support, sorted.
    pub fn algorithms(&self) -> Vec<Algorithm> {
        let each = self.keys.iter().flat_map(|key| key.verifiers.iter());
        let mut algorithms: Vec<_> = each.map(|(algorithm, _)| *algorithm).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        algorithms
    }

    /// The keys of the set that are not used.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Verifies `signature` over `message` with the keys that `header` selects: the keys with its `kid`, or else those
    /// without any; all keys if the header has no `kid`. Only keys that support its `alg` are tried, at most
    /// [`limits::JWS_TRIES_MAX`].
    pub(crate) fn verify(
        &self,
        header: &Header,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), TokenError> {
        let named = header.kid.as_deref().filter(|kid| self.has_kid(kid));
        let is_named = |key: &&Key| match &header.kid {
            Some(_) => key.kid.as_deref() == named,
            None => true,
        };
        let mut selected = self
            .keys
            .iter()
            .filter(is_named)
            .filter_map(|key| key.verifier(header.alg))
            .take(limits::JWS_TRIES_MAX)
            .peekable();
        if selected.peek().is_none() {
            return Err(match (&header.kid, named) {
                (Some(_), None) => TokenError::UnknownKid,
                (Some(_), Some(_)) | (None, _) => {
                    TokenError::UnsupportedAlgorithm("no key supports the header's `alg`")
                }
            });
        }
        if selected.any(|verifier| verifier.verifies(message, signature)) {
            return Ok(());
        }
        // If the issuer names its keys, a newer key may have this name.
        let names_keys = self.keys.iter().any(|key| key.kid.is_some());
        match (&header.kid, named) {
            (Some(_), None) if names_keys => Err(TokenError::UnknownKid),
            (Some(_) | None, _) => Err(TokenError::BadSignature),
        }
    }

    fn of_one(verifiers: Verifiers) -> Self {
        Self { keys: vec![Key { kid: None, verifiers }], skipped: Vec::new() }
    }

    fn read_jwks(document: &[u8], secrets: Secrets) -> Result<Self, KeyError> {
        let max = limits::JWKS_BYTES_MAX;
        if document.len() > max {
            return Err(KeyError::TooLarge { bytes: document.len(), max });
        }
        let set = json::parse_object(document)?;
        let keys = set.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or(KeyError::NotAKeySet("`keys` is not an array"))?;
        let max = limits::JWKS_KEYS_MAX;
        if keys.len() > max {
            return Err(KeyError::TooManyKeys { count: keys.len(), max });
        }
        let mut reading = Reading { set: Self::default(), names: Vec::new(), secrets };
        for (index, jwk) in keys.iter().enumerate() {
            match jwk {
                Value::Object(jwk) => reading.add(index, jwk)?,
                Value::Null
                | Value::Bool(_)
                | Value::Unsigned(_)
                | Value::Negative(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Array(_) => {
                    return Err(KeyError::NotAKeySet("a member of `keys` is not an object"));
                }
            }
        }
        reading.finish()
    }
}

const BAD_DER: KeyError = KeyError::Pem("the content of the block does not match its label");

fn from_info(info: Option<der::PublicKeyInfo<'_>>) -> Result<Verifiers, KeyError> {
    key::from_info(&info.ok_or(BAD_DER)?).map_err(KeyError::Unusable)
}

/// Parses `der` as each kind of key, for the fuzz target.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_der(der: &[u8]) {
    drop([from_info(der::public_key_info(der)), from_info(der::certificate(der))]);
    drop(der::rsa_public_key(der).map(|(modulus, exponent)| key::rsa(modulus, exponent)));
}

impl Key {
    fn verifier(&self, algorithm: Algorithm) -> Option<&Verifier> {
        self.verifiers.iter().find(|(own, _)| *own == algorithm).map(|(_, verifier)| verifier)
    }

    fn is_secret(&self) -> bool {
        self.verifiers.iter().any(|(algorithm, _)| algorithm.is_symmetric())
    }
}

/// A JWK set being read.
struct Reading {
    set: KeySet,
    /// The names of the keys so far, with their indexes. Unusable keys count too.
    names: Vec<(usize, jwk::Name)>,
    secrets: Secrets,
}

impl Reading {
    fn add(&mut self, index: usize, jwk: &Object<'_>) -> Result<(), KeyError> {
        if jwk::is_private(jwk) {
            return Err(KeyError::PrivateKey { index });
        }
        if jwk::is_secret(jwk) && self.secrets == Secrets::Skipped {
            let reason = "a shared secret in a public set";
            self.set.skipped.push(Skipped { index, reason });
            return Ok(());
        }
        if let Some(name) = jwk::Name::of(jwk) {
            let mut earlier = self.names.iter();
            if let Some(&(first, _)) = earlier.find(|(_, earlier)| earlier.clashes_with(&name)) {
                return Err(KeyError::DuplicateKid { first, second: index });
            }
            self.names.push((index, name));
        }
        match jwk::read(jwk) {
            Ok(jwk) => self.set.keys.push(Key { kid: jwk.kid, verifiers: jwk.verifiers }),
            Err(reason) => self.set.skipped.push(Skipped { index, reason }),
        }
        Ok(())
    }

    fn finish(self) -> Result<KeySet, KeyError> {
        let secrets = self.set.keys.iter().filter(|key| key.is_secret()).count();
        if secrets > 0 && secrets < self.set.keys.len() {
            return Err(KeyError::Mixed);
        }
        Ok(self.set)
    }
}
