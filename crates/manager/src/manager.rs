//! What all endpoints use: the store, the keys, the clock; and who sends a request.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use base::{Clock, Entropy, SystemClock, SystemEntropy};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use store::{Client, Store};

use crate::attempts::{Attempts, Who};
use crate::form::{Form, decoded};
use crate::keys::Keys;
use crate::passwords::Passwords;
use crate::reply::Refusal;
use crate::{limits, secrets};

pub(crate) struct Manager {
    pub(crate) store: Store,
    pub(crate) keys: Keys,
    /// The `iss` of tokens.
    pub(crate) issuer: String,
    pub(crate) clock: SystemClock,
    passwords: Passwords,
    attempts: Attempts,
    /// Rows of tokens in the store, as last counted, and those added since.
    rows: AtomicU64,
    /// Clients that have too many tokens, as of the last count.
    full: Mutex<Vec<String>>,
}

impl Manager {
    pub(crate) fn new(store: Store, keys: Keys, issuer: String) -> Self {
        Self {
            store,
            keys,
            issuer,
            clock: SystemClock::new(),
            passwords: Passwords::new(),
            attempts: Attempts::new(),
            rows: AtomicU64::new(0),
            full: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn now_s(&self) -> u64 {
        self.clock.now().unix_s
    }

    #[allow(clippy::unused_self, reason = "the source of randomness is a property of the manager")]
    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &SystemEntropy
    }

    /// Removes expired tokens, and counts the others.
    pub(crate) async fn purge(&self) {
        let counted = async {
            let left = self.store.purge(self.now_s()).await?;
            let full = self.store.clients_with_more_tokens_than(limits::CLIENT_TOKENS_MAX).await?;
            Ok::<_, store::StoreError>((left, full))
        };
        match counted.await {
            Ok((left, full)) => {
                for client in &full {
                    tracing::warn!(client, most = limits::CLIENT_TOKENS_MAX, "too many tokens");
                }
                self.rows.store(left, Ordering::Relaxed);
                *self.full.lock().unwrap_or_else(PoisonError::into_inner) = full;
            }
            Err(error) => tracing::error!(%error, "expired tokens cannot be removed"),
        }
    }

    /// Admits `count` more rows of tokens for the client `id`.
    pub(crate) fn admit_rows(&self, id: &str, count: u64) -> Result<(), Refusal> {
        let full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        if full.iter().any(|other| other == id) {
            return Err(Refusal::Unavailable);
        }
        if self.rows.fetch_add(count, Ordering::Relaxed) >= limits::TOKENS_MAX {
            tracing::error!(most = limits::TOKENS_MAX, "too many tokens in the store");
            return Err(Refusal::Unavailable);
        }
        Ok(())
    }

    /// The client that sends the request, by HTTP Basic, by parameters, or, if it is public, by its id alone. Source: RFC
    /// 6749 sections 2.3.1 and 3.2.1.
    pub(crate) async fn client_or_public(
        &self,
        head: &HeaderMap,
        form: &Form,
        peer: IpAddr,
    ) -> Result<Client, Refusal> {
        let presents_nothing = !head.contains_key(AUTHORIZATION);
        let id = form.get("client_id").filter(|_| form.get("client_secret").is_none());
        match id.filter(|id| presents_nothing && is_name(id)) {
            Some(id) => {
                let client = self.store.client(id).await?;
                client.filter(Client::is_public).ok_or(Refusal::InvalidClient)
            }
            None => self.client(head, form, peer).await,
        }
    }

    /// The client that sends the request, by HTTP Basic or by parameters. Source: RFC 6749 section 2.3.1.
    async fn client(&self, head: &HeaderMap, form: &Form, peer: IpAddr) -> Result<Client, Refusal> {
        let (id, secret) = client_credentials(head, form)?;
        let who = [Who::Account(&id, peer), Who::Address(peer)];
        self.may_try(&who)?;
        let client = self.store.client(&id).await?;
        // An unknown client takes as long as a wrong secret. A public one has no secret that matches.
        let expected = client.as_ref().map_or("", |client| client.secret.as_str());
        let right = secrets::matches(&secret, expected);
        self.tried(&who, right);
        client.filter(|_| right).ok_or(Refusal::InvalidClient)
    }

    /// Authenticates the sender as a client, or as a user if HTTP Basic does not name a client.
    pub(crate) async fn client_or_user(
        &self,
        head: &HeaderMap,
        form: &Form,
        peer: IpAddr,
    ) -> Result<(), Refusal> {
        let name = basic(head)?.map(|(name, _)| name).filter(|name| is_name(name));
        let by_user = match name {
            Some(name) => self.store.client(&name).await?.is_none(),
            None => false,
        };
        if by_user {
            self.user(head, peer).await.map(drop)
        } else {
            self.client(head, form, peer).await.map(drop)
        }
    }

    /// The user who sends the request, by HTTP Basic. Source: RFC 7617.
    pub(crate) async fn user(&self, head: &HeaderMap, peer: IpAddr) -> Result<String, Refusal> {
        let (name, password) = basic(head)?.ok_or(Refusal::InvalidUser)?;
        if self.password_is(&name, &password, peer).await? {
            Ok(name)
        } else {
            Err(Refusal::InvalidUser)
        }
    }

    /// Whether the user `name` has this password.
    pub(crate) async fn password_is(
        &self,
        name: &str,
        password: &str,
        peer: IpAddr,
    ) -> Result<bool, Refusal> {
        if password.len() > base::limits::PASSWORD_BYTES_MAX || !is_name(name) {
            return Ok(false);
        }
        let who = [Who::Account(name, peer), Who::User(name), Who::Address(peer)];
        self.may_try(&who)?;
        let user = self.store.user(name).await?;
        let expected = user.map(|user| user.password);
        let verified = self.passwords.verify(password.to_owned(), expected).await;
        let verified = verified.map_err(|_| Refusal::Unavailable)?;
        self.tried(&who, verified);
        Ok(verified)
    }

    fn may_try(&self, who: &[Who<'_>]) -> Result<(), Refusal> {
        let now_s = self.now_s();
        match who.iter().map(|who| self.attempts.wait_s(*who, now_s)).max() {
            Some(0) | None => Ok(()),
            Some(wait_s) => Err(Refusal::Slowed { wait_s }),
        }
    }

    fn tried(&self, who: &[Who<'_>], succeeded: bool) {
        let now_s = self.now_s();
        for who in who {
            match who {
                // Otherwise a client of one's own would hide the guesses for others.
                Who::Address(_) if succeeded => {}
                Who::Account(..) | Who::User(_) if succeeded => self.attempts.succeeded(*who),
                Who::Account(..) | Who::User(_) | Who::Address(_) => {
                    self.attempts.failed(*who, now_s);
                }
            }
        }
    }
}

/// Whether `text` can be the name of a user or client.
pub(crate) fn is_name(text: &str) -> bool {
    let lengths = 1..=limits::NAME_BYTES_MAX;
    lengths.contains(&text.len()) && !text.chars().any(char::is_control)
}

/// Id and secret of a client, from one place only.
fn client_credentials(head: &HeaderMap, form: &Form) -> Result<(String, String), Refusal> {
    let parameters = (form.get("client_id"), form.get("client_secret"));
    match (basic(head)?, parameters) {
        (Some(_), (_, Some(_))) => {
            Err(Refusal::InvalidRequest("more than one method to authenticate"))
        }
        (Some((id, secret)), (other, None)) => {
            let form_encoded = (decoded(&id), decoded(&secret));
            let (Some(id), Some(secret)) = form_encoded else {
                return Err(Refusal::InvalidClient);
            };
            if other.is_some_and(|other| other != id) {
                return Err(Refusal::InvalidRequest("two different client ids"));
            }
            Ok((id, secret))
        }
        (None, (Some(id), Some(secret))) => Ok((id.to_owned(), secret.to_owned())),
        (None, _) => Err(Refusal::InvalidClient),
    }
}

/// Name and secret of HTTP Basic; `None` without an Authorization field.
fn basic(head: &HeaderMap) -> Result<Option<(String, String)>, Refusal> {
    let malformed = || Refusal::InvalidRequest("the Authorization field is not valid HTTP Basic");
    let mut fields = head.get_all(AUTHORIZATION).iter();
    let Some(field) = fields.next() else { return Ok(None) };
    let encoded = field.to_str().ok().filter(|_| fields.next().is_none());
    let (scheme, encoded) = encoded.and_then(|text| text.split_once(' ')).ok_or_else(malformed)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(malformed());
    }
    let bytes = BASE64_STANDARD.decode(encoded.trim()).map_err(|_| malformed())?;
    let text = String::from_utf8(bytes).map_err(|_| malformed())?;
    let (name, secret) = text.split_once(':').ok_or_else(malformed)?;
    Ok(Some((name.to_owned(), secret.to_owned())))
}
