//! DPoP: tokens that are bound to a key, which the client proves to have. Source: RFC 9449.

use base::limits::{PROOF_AGE_S_MAX, PROOF_AHEAD_S_MAX};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::HeaderMap;
use jose::Proof;

use crate::manager::Manager;
use crate::metadata::origin;
use crate::reply::Refusal;
use crate::secrets;

/// The name of the header field, and of the type of tokens.
pub(crate) const DPOP: &str = "DPoP";

const WRONG: Refusal =
    Refusal::Other("invalid_dpop_proof", "the DPoP proof is not one for this request, or was used");

/// The request that a proof must be for.
pub(crate) struct Subject<'a> {
    pub(crate) method: &'a str,
    /// The path of the endpoint.
    pub(crate) path: &'a str,
    /// The access token that is sent along.
    pub(crate) token: Option<&'a str>,
}

/// A right proof.
pub(crate) struct Proven {
    /// The thumbprint of the key that the client has proven to have.
    pub(crate) key: String,
    /// The hash by which the store knows that the proof was used, and until when.
    used: String,
    until_s: u64,
}

impl Manager {
    /// The proof of a request, which may have been used before: see [`Self::spend_proof`]. `None`: there is none.
    /// Source: RFC 9449 section 4.3.
    pub(crate) fn proof(
        &self,
        head: &HeaderMap,
        subject: Subject<'_>,
    ) -> Result<Option<Proven>, Refusal> {
        let mut fields = head.get_all(DPOP).iter();
        let Some(field) = fields.next() else { return Ok(None) };
        let proof = Proof::verify(field.as_bytes()).map_err(|_| WRONG)?;
        let now_s = self.now_s();
        let oldest_s = now_s.saturating_sub(PROOF_AGE_S_MAX);
        let is_right = fields.next().is_none()
            && proof.method == subject.method
            && self.is_at(&proof.url, subject.path)
            && proof.token_hash == subject.token.map(|token| jose::sha256(token.as_bytes()))
            && (oldest_s..=now_s.saturating_add(PROOF_AHEAD_S_MAX)).contains(&proof.issued_s);
        if !is_right {
            return Err(WRONG);
        }
        let key = BASE64_URL_SAFE_NO_PAD.encode(proof.key);
        // A client chooses `jti`: with its key, no other client can have the same.
        let used = secrets::hash(format!("{DPOP} {key} {}", proof.id));
        let until_s = proof.issued_s.saturating_add(PROOF_AGE_S_MAX).saturating_add(1);
        Ok(Some(Proven { key, used, until_s }))
    }

    /// Makes sure that `proof` was not used before. A proof takes one of the client's rows: the rest of the request is
    /// checked before, so that a stranger cannot take the rows of a client without a secret.
    pub(crate) async fn spend_proof(&self, proof: &Proven, client: &str) -> Result<(), Refusal> {
        self.admit_rows(client, 1)?;
        let is_new = self.store.spend_jwt(&proof.used, client, proof.until_s).await?;
        if is_new { Ok(()) } else { Err(WRONG) }
    }

    /// Whether `url` is that of an endpoint, without query and fragment.
    fn is_at(&self, url: &str, path: &str) -> bool {
        let url = url.split(['?', '#']).next().unwrap_or_default();
        let (own, given) = (origin(&self.issuer), origin(url));
        given.eq_ignore_ascii_case(own) && url.get(given.len()..) == Some(path)
    }
}

/// Separates a bound token from its key, so that its row needs no column for the key.
const BOUND_TO: char = '~';

/// The token with the key that it is bound to.
pub(crate) fn bound(token: String, key: Option<&str>) -> String {
    match key {
        Some(key) => format!("{token}{BOUND_TO}{key}"),
        None => token,
    }
}

/// The key that a token is bound to, if it is not a JWT.
pub(crate) fn key_of(token: &str) -> Option<&str> {
    token.split_once(BOUND_TO).map(|(_, key)| key)
}
