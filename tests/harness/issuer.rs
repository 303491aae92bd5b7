//! Token issuers with real keys.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use jose::{Algorithm, Header, KeySet, SigningKey};
use model::{BackendClient, Introspection};
use serde_json::{Map, Value, json};

use crate::Upstream;

/// Seconds since the Unix epoch, now.
#[must_use]
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// A token issuer whose keys the gateway knows.
#[derive(Debug)]
pub struct Issuer {
    name: String,
    iss: String,
    key: SigningKey,
    /// The private key, for `penstock token sign`.
    pub pem: String,
    /// The certificate of the key in PEM; empty with an RSA key.
    pub certificate: String,
    audiences: Vec<String>,
    leeway_s: u64,
    allow_unlimited: bool,
    api_keys: bool,
    internal_keys: bool,
    introspection: Option<Introspection>,
    passwords: Option<BackendClient>,
}

impl Issuer {
    /// An issuer with a fresh P-256 key.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let (certificate, pem) = wire::tls::generate_self_signed(&["localhost"], now_s()).unwrap();
        Self { certificate, ..Self::with_pem(name, pem) }
    }

    /// An issuer with a fresh RSA key of 2048 bits.
    #[must_use]
    pub fn rsa(name: &str) -> Self {
        Self::with_pem(name, SigningKey::generate_rsa().unwrap())
    }

    fn with_pem(name: &str, pem: String) -> Self {
        Self {
            name: name.to_owned(),
            iss: format!("https://{name}.example/token"),
            key: SigningKey::from_pem(pem.as_bytes()).unwrap(),
            pem,
            certificate: String::new(),
            audiences: Vec::new(),
            leeway_s: 0,
            allow_unlimited: false,
            api_keys: false,
            internal_keys: false,
            introspection: None,
            passwords: None,
        }
    }

    /// With another `iss`.
    #[must_use]
    pub fn at(mut self, iss: &str) -> Self {
        iss.clone_into(&mut self.iss);
        self
    }

    /// Only tokens for one of `audiences` are accepted.
    #[must_use]
    pub fn audiences(mut self, audiences: &[&str]) -> Self {
        self.audiences = audiences.iter().map(|&audience| audience.to_owned()).collect();
        self
    }

    /// Allowed clock skew, in seconds.
    #[must_use]
    pub fn leeway_s(mut self, leeway_s: u64) -> Self {
        self.leeway_s = leeway_s;
        self
    }

    /// Tokens without `exp` are accepted.
    #[must_use]
    pub fn allow_unlimited(mut self) -> Self {
        self.allow_unlimited = true;
        self
    }

    /// Makes the issuer's tokens API keys.
    #[must_use]
    pub fn api_keys(mut self) -> Self {
        self.api_keys = true;
        self
    }

    /// Lets the issuer's tokens be internal keys.
    #[must_use]
    pub fn internal_keys(mut self) -> Self {
        self.internal_keys = true;
        self
    }

    /// `server` is asked about opaque tokens, as the client `gateway` with the secret `se+cret`.
    #[must_use]
    pub fn introspected_by(mut self, server: &Upstream) -> Self {
        self.introspection = Some(Introspection {
            url: format!("{}/introspect?tenant=a", server.url()),
            client_id: "gateway".to_owned(),
            client_secret: b"se+cret".to_vec(),
            cache_s: 900,
        });
        self
    }

    /// `server` exchanges passwords for tokens, as the client `gateway` with the secret `se+cret`.
    #[must_use]
    pub fn with_users_of(mut self, server: &Upstream) -> Self {
        self.passwords = Some(BackendClient {
            token_url: format!("{}/token", server.url()),
            client_id: "gateway".to_owned(),
            client_secret: b"se+cret".to_vec(),
            scopes: vec!["read".to_owned(), "write".to_owned()],
            ..BackendClient::default()
        });
        self
    }

    /// The `iss` of its tokens.
    #[must_use]
    pub fn iss(&self) -> &str {
        &self.iss
    }

    /// The issuer's public key as a JWKS document.
    #[must_use]
    pub fn jwks(&self) -> String {
        format!("{{\"keys\":[{}]}}", self.key.public_jwk(Some(&self.name)).unwrap())
    }

    /// The issuer as part of a snapshot.
    #[must_use]
    pub fn model(&self) -> Arc<model::Issuer> {
        Arc::new(model::Issuer {
            name: self.name.clone(),
            iss: self.iss.clone(),
            revision: 1,
            keys: KeySet::from_jwks(self.jwks().as_bytes()).unwrap(),
            audiences: self.audiences.clone(),
            leeway_s: self.leeway_s,
            padded_segments: false,
            api_keys: self.api_keys,
            internal_keys: self.internal_keys,
            allow_unlimited: self.allow_unlimited,
            introspection: self.introspection.clone(),
            passwords: self.passwords.clone(),
            revoked: None,
        })
    }

    /// A token for `sub` `somebody`, valid for an hour.
    #[must_use]
    pub fn token(&self) -> Token<'_> {
        let header = Header {
            alg: self.key.algorithm(),
            kid: Some(self.name.clone()),
            typ: Some("JWT".to_owned()),
        };
        let claims = json!({"iss": self.iss, "sub": "somebody", "exp": now_s() + 3_600});
        let Value::Object(claims) = claims else { unreachable!() };
        Token { issuer: self, header, claims }
    }
}

/// A token under construction.
#[derive(Clone, Debug)]
pub struct Token<'a> {
    issuer: &'a Issuer,
    header: Header,
    claims: Map<String, Value>,
}

impl Token<'_> {
    /// Sets a claim; null removes it.
    #[must_use]
    pub fn claim(mut self, name: &str, value: impl Into<Value>) -> Self {
        set_claim(&mut self.claims, name, value.into());
        self
    }

    /// `exp`, this many seconds from now.
    #[must_use]
    pub fn expires_in_s(self, seconds: i64) -> Self {
        self.claim("exp", now_s().saturating_add_signed(seconds))
    }

    /// The header's `kid`.
    #[must_use]
    pub fn kid(mut self, kid: Option<&str>) -> Self {
        self.header.kid = kid.map(str::to_owned);
        self
    }

    /// The header's `typ`.
    #[must_use]
    pub fn typ(mut self, typ: Option<&str>) -> Self {
        self.header.typ = typ.map(str::to_owned);
        self
    }

    /// The header's `alg`.
    #[must_use]
    pub fn alg(mut self, alg: Algorithm) -> Self {
        self.header.alg = alg;
        self
    }

    /// Signed, in compact form.
    #[must_use]
    pub fn sign(&self) -> String {
        let claims = Value::Object(self.claims.clone()).to_string();
        self.issuer.key.sign(&self.header, &claims).unwrap()
    }

    /// As the value of an `Authorization` field.
    #[must_use]
    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.sign())
    }
}

/// Sets a claim of a token or a proof; null removes it.
pub(crate) fn set_claim(claims: &mut Map<String, Value>, name: &str, value: Value) {
    if value.is_null() {
        claims.remove(name);
    } else {
        claims.insert(name.to_owned(), value);
    }
}
