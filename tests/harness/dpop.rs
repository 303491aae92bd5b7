//! Clients that prove with each request which key they have (DPoP).

use std::sync::atomic::{AtomicU64, Ordering};

use jose::SigningKey;
use serde_json::{Map, Value, json};

use crate::issuer::set_claim;
use crate::now_s;

/// The key of such a client.
#[derive(Debug)]
pub struct ProofKey(SigningKey);

impl Default for ProofKey {
    fn default() -> Self {
        let (_, pem) = wire::tls::generate_self_signed(&["localhost"], now_s()).unwrap();
        Self(SigningKey::from_pem(pem.as_bytes()).unwrap())
    }
}

impl ProofKey {
    /// The `cnf` of its tokens.
    #[must_use]
    pub fn confirmation(&self) -> Value {
        json!({ "jkt": self.0.thumbprint().unwrap() })
    }

    /// The public key.
    #[must_use]
    pub fn jwk(&self) -> Value {
        serde_json::from_str(&self.0.public_jwk(None).unwrap()).unwrap()
    }

    /// A proof for `request`, as in `GET http://gateway/a`, with `token`.
    #[must_use]
    pub fn proof(&self, request: &str, token: &str) -> Proof<'_> {
        let (method, url) = request.split_once(' ').unwrap();
        let hash = jose::token_hash_text(&jose::sha256(token.as_bytes()));
        let header = json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": self.jwk() });
        let claims = json!({
            "jti": unique(), "htm": method, "htu": url, "iat": now_s(), "ath": hash,
        });
        let object =
            |value| if let Value::Object(object) = value { object } else { unreachable!() };
        Proof { key: &self.0, header: object(header), claims: object(claims) }
    }

    /// The header fields of `request` with `token` and a new proof.
    #[must_use]
    pub fn fields(&self, request: &str, token: &str) -> String {
        self.proof(request, token).fields(token)
    }
}

/// A text that no other proof has.
fn unique() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("proof-{}", LAST.fetch_add(1, Ordering::Relaxed))
}

/// A proof under construction.
#[derive(Clone, Debug)]
pub struct Proof<'k> {
    key: &'k SigningKey,
    header: Map<String, Value>,
    claims: Map<String, Value>,
}

impl Proof<'_> {
    /// Sets a member of the header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.header.insert(name.to_owned(), value.into());
        self
    }

    /// Sets a claim; null removes it.
    #[must_use]
    pub fn claim(mut self, name: &str, value: impl Into<Value>) -> Self {
        set_claim(&mut self.claims, name, value.into());
        self
    }

    /// Signed, in compact form.
    #[must_use]
    pub fn sign(&self) -> String {
        let [header, claims] = [&self.header, &self.claims].map(|of| Value::from(of.clone()));
        let algorithm = self.key.algorithm();
        self.key.sign_text(algorithm, &header.to_string(), &claims.to_string()).unwrap()
    }

    /// The header fields of a request with `token` and this proof.
    #[must_use]
    pub fn fields(&self, token: &str) -> String {
        format!("Authorization: DPoP {token}\r\nDPoP: {}\r\n", self.sign())
    }
}
