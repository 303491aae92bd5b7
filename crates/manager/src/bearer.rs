//! The grant `jwt-bearer`: a client that has a JWT of a trusted issuer about one of its users gets a token of ours for
//! this user. Source: RFC 7523 sections 2.1 and 3.

use std::sync::Arc;

use jose::{Compact, KeySet, Padding};
use serde_json::Value;

use crate::cached::Cached;
use crate::form::Form;
use crate::manager::{Manager, is_name};
use crate::reply::Refusal;
use crate::token::{Grant, Requester, granted, issue, stored};
use crate::{limits, secrets};

pub(crate) const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// An issuer whose JWTs are accepted in place of a user's sign-in.
pub struct TrustedIssuer {
    /// The prefix of the names of its users, without the slash that follows it.
    pub name: String,
    /// The `iss` of its JWTs.
    pub iss: String,
    /// Returns the issuer's JWK set, or the problem. May block.
    pub read_keys: Arc<dyn Fn() -> Result<Vec<u8>, String> + Send + Sync>,
}

/// A trusted issuer with its keys.
pub(crate) struct Trusted {
    issuer: TrustedIssuer,
    keys: Arc<Cached<KeySet>>,
}

pub(crate) async fn exchange(
    manager: &Manager,
    client: &Requester,
    form: &Form,
) -> Result<Value, Refusal> {
    const WRONG: Refusal = Refusal::InvalidGrant("the assertion is not valid");
    let assertion = form.required("assertion", "`assertion` is missing")?;
    let token = Compact::parse(assertion.as_bytes(), Padding::Rejected).map_err(|_| WRONG)?;
    let claims = token.unverified_claims().map_err(|_| WRONG)?;
    let is_its = |one: &&Arc<Trusted>| claims.iss.as_deref() == Some(&one.issuer.iss);
    let trusted = manager.trusted.iter().find(is_its).ok_or(WRONG)?;
    if !trusted.has_signed(&token, manager.now_s()).await? || !manager.is_for_us_now(&claims) {
        return Err(WRONG);
    }
    let user = claims.sub.as_ref().map(|sub| format!("{}/{sub}", trusted.issuer.name));
    let user = user.filter(|user| is_name(user)).ok_or(WRONG)?;
    if let (Some(jti), Some(exp)) = (&claims.jti, claims.exp) {
        manager.admit_rows(&client.id, 1)?;
        let used = secrets::hash(format!("{} {jti}", trusted.issuer.iss));
        if !manager.store.spend_jwt(&used, &client.id, exp).await? {
            return Err(WRONG);
        }
    }
    let scope = granted(form.get("scope"), &client.scopes, None);
    stored(manager, issue(manager, Grant::new(manager, client, Some(&user), scope)).await?, None)
        .await
}

impl Trusted {
    pub(crate) fn new(issuer: TrustedIssuer) -> Self {
        Self { issuer, keys: Cached::new() }
    }

    /// Whether `user` is the name of one of its users.
    pub(crate) fn has(&self, user: &str) -> bool {
        user.split_once('/').is_some_and(|(issuer, _)| issuer == self.issuer.name)
    }

    /// Whether one of the issuer's keys has signed `token`. An error if no keys are available.
    async fn has_signed(&self, token: &Compact<'_>, now_s: u64) -> Result<bool, Refusal> {
        let mut keys = None;
        // If none of the keys has, the right one may be new.
        for age_s in [limits::TRUSTED_KEYS_S, limits::TRUSTED_KEYS_AGAIN_S] {
            keys = self.keys(now_s, age_s).await;
            if keys.as_ref().is_some_and(|keys| token.verify_signature(keys).is_ok()) {
                return Ok(true);
            }
        }
        if keys.is_some() { Ok(false) } else { Err(Refusal::Unavailable) }
    }

    /// The keys, not older than `age_s` if they can be read.
    async fn keys(&self, now_s: u64, age_s: u64) -> Option<Arc<KeySet>> {
        let read = Arc::clone(&self.issuer.read_keys);
        let what = format!("the keys of the trusted issuer `{}`", self.issuer.name);
        let read = || async move {
            let read = tokio::task::spawn_blocking(move || read()).await;
            let text = read.unwrap_or_else(|_| Err("reading them failed".to_owned()))?;
            KeySet::from_jwks(&text).map_err(|error| error.to_string())
        };
        self.keys.get((now_s, age_s), &what, read).await
    }
}
