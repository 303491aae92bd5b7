//! Clients that authenticate by a signed assertion: `private_key_jwt`. Source: RFC 7523 sections 2.2 and 3.

use jose::{Claims, Compact, KeySet, Padding};
use store::Client;

use crate::form::Form;
use crate::manager::{Manager, is_name};
use crate::metadata::origin;
use crate::peer::Peer;
use crate::reply::Refusal;
use crate::{limits, secrets};

const TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

impl Manager {
    /// The client whose key signed `assertion`, which can be used once.
    pub(crate) async fn client_by_assertion(
        &self,
        form: &Form,
        assertion: &str,
        peer: &Peer,
    ) -> Result<Client, Refusal> {
        if form.get("client_assertion_type") != Some(TYPE) {
            return Err(Refusal::InvalidRequest("`client_assertion_type` is not that of a JWT"));
        }
        let parsed = Compact::parse(assertion.as_bytes(), Padding::Rejected);
        let token = parsed.map_err(|_| Refusal::InvalidClient)?;
        let claims = token.unverified_claims().map_err(|_| Refusal::InvalidClient)?;
        let id = claims.iss.as_deref().filter(|iss| claims.sub.as_deref() == Some(iss));
        let id = id.filter(|id| is_name(id)).ok_or(Refusal::InvalidClient)?;
        if form.get("client_id").is_some_and(|other| other != id) {
            return Err(Refusal::InvalidRequest("two different client ids"));
        }
        let client = self.store.client(id).await?;
        let Some(client) = client.filter(|client| self.is_right(&token, &claims, client)) else {
            return Err(self.wrong_client(id, false, peer).await);
        };
        let (Some(jti), Some(exp)) = (&claims.jti, claims.exp) else {
            return Err(Refusal::InvalidClient);
        };
        self.admit_rows(id, 1)?;
        let used = secrets::hash(format!("{id} {jti}"));
        if self.store.spend_jwt(&used, id, exp).await? {
            Ok(client)
        } else {
            Err(self.wrong_client(id, true, peer).await)
        }
    }

    /// Whether one of the client's keys signed the assertion, for this server and for now.
    fn is_right(&self, token: &Compact<'_>, claims: &Claims, client: &Client) -> bool {
        let Ok(keys) = KeySet::from_jwks(client.jwks.as_bytes()) else { return false };
        self.is_for_us_now(claims) && claims.jti.is_some() && token.verify_signature(&keys).is_ok()
    }

    /// Whether an assertion is for this server and for now.
    pub(crate) fn is_for_us_now(&self, claims: &Claims) -> bool {
        let now_s = self.now_s();
        let endpoint = format!("{}/oauth2/token", origin(&self.issuer));
        let for_us = claims.aud.iter().any(|aud| *aud == self.issuer || *aud == endpoint);
        let lifetimes = now_s.saturating_add(1)..=now_s.saturating_add(limits::ASSERTION_S_MAX);
        let begun = claims.nbf.is_none_or(|nbf| nbf <= now_s.saturating_add(limits::SKEW_S));
        let valid = claims.exp.is_some_and(|exp| lifetimes.contains(&exp)) && begun;
        for_us && valid
    }
}
