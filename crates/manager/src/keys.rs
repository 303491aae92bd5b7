//! The keys that sign tokens, and their public halves.

use std::sync::{Arc, Mutex, PoisonError};

use jose::{Algorithm, Compact, Header, KeySet, Padding, SealingKeys, SigningKey};

use crate::secrets;

/// The `typ` of access tokens. Source: RFC 9068 section 2.1.
pub(crate) const ACCESS_TOKEN: &str = "at+jwt";
/// The `typ` of ID tokens.
pub(crate) const ID_TOKEN: &str = "JWT";

/// The `typ` of API keys. Source: API Microgateway.
pub(crate) const API_KEY: &str = "JWT";

/// Never empty. The first key signs; all are published and verify.
pub(crate) struct Keys {
    signing: SigningKey,
    kid: String,
    jwks: String,
    verifying: KeySet,
    algorithms: Vec<String>,
    /// For texts that browsers hold, each derived from one of the keys: all instances have the same ones.
    pub(crate) sealing: SealingKeys,
    /// The key of the table of failed attempts, derived from the first key.
    pub(crate) attempts: [u8; 32],
}

/// The keys that are in use now. Copies share them.
#[derive(Clone)]
pub(crate) struct CurrentKeys(Arc<Mutex<Arc<Keys>>>);

impl std::fmt::Debug for CurrentKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CurrentKeys")
    }
}

impl CurrentKeys {
    pub(crate) fn new(keys: Keys) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(keys))))
    }

    pub(crate) fn get(&self) -> Arc<Keys> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// False: they are the same as before.
    pub(crate) fn replace(&self, keys: Keys) -> bool {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = current.jwks != keys.jwks;
        *current = Arc::new(keys);
        changed
    }
}

impl Keys {
    /// Reads private keys in PEM. The error names the key by its number, from 1.
    pub(crate) fn read(pems: &[Vec<u8>]) -> Result<Self, String> {
        let mut jwks = Vec::new();
        let mut keys = Vec::new();
        let mut derived = Vec::new();
        for (number, pem) in (1..).zip(pems) {
            let wrong = |error: &dyn std::fmt::Display| format!("signing key {number}: {error}");
            let key = SigningKey::from_pem(pem).map_err(|error| wrong(&error))?;
            jwks.push(key.public_jwk(None).map_err(|error| wrong(&error))?);
            let secret = key.derived_secret(b"sign-in of users").map_err(|error| wrong(&error))?;
            derived.push(secrets::hash(secret));
            keys.push(key);
        }
        let first = pems.first().map_or(&[][..], Vec::as_slice);
        let attempts = jose::hmac_sha256(first, b"penstock failed attempts");
        let jwks = format!("{{\"keys\":[{}]}}", jwks.join(","));
        let verifying = KeySet::from_jwks(jwks.as_bytes()).map_err(|error| error.to_string())?;
        let mut algorithms: Vec<String> =
            keys.iter().map(|key| key.algorithm().to_string()).collect();
        algorithms.dedup();
        let signing = keys.into_iter().next().ok_or("there is no signing key")?;
        let kid = signing.thumbprint().map_err(|error| error.to_string())?;
        let sealing = SealingKeys::new(derived.join("\n").as_bytes());
        let sealing = sealing.map_err(|error| error.to_string())?;
        Ok(Self { signing, kid, jwks, verifying, algorithms, sealing, attempts })
    }

    /// The public keys as a JWK set.
    pub(crate) fn jwks(&self) -> &str {
        &self.jwks
    }

    /// The algorithms of the keys.
    pub(crate) fn algorithms(&self) -> &[String] {
        &self.algorithms
    }

    /// The algorithm of [`Self::sign`].
    pub(crate) fn algorithm(&self) -> Algorithm {
        self.signing.algorithm()
    }

    /// Signs claims as a token of type `typ`: [`ACCESS_TOKEN`], [`ID_TOKEN`] or [`API_KEY`].
    pub(crate) fn sign(&self, typ: &str, claims: &serde_json::Value) -> Option<String> {
        let header = Header {
            alg: self.signing.algorithm(),
            kid: Some(self.kid.clone()),
            typ: Some(typ.to_owned()),
        };
        self.signing.sign(&header, &claims.to_string()).ok()
    }

    /// The claims of a token of type `typ` that one of the keys signed.
    pub(crate) fn verify(&self, token: &str, typ: &str) -> Option<serde_json::Value> {
        let compact = Compact::parse(token.as_bytes(), Padding::Rejected).ok()?;
        compact.verify(&self.verifying).ok()?;
        let right = compact.header().typ.as_deref() == Some(typ);
        right.then(|| serde_json::from_slice(compact.payload()).ok())?
    }
}
