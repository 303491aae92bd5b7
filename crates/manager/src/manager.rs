//! What all endpoints use: the store, the keys, the clock; and who sends a request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::addresses::Block;
use base::{Clock, Entropy, Now, SystemClock, SystemEntropy};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use model::{ApiKeySettings, TokenLifetimes};
use store::{Client, Rows, Store, StoreError, User};
use tokio::sync::watch;
use wire::tls::ClientAuth;

use crate::attempts::{Attempts, Who, network};
use crate::bearer::Trusted;
use crate::form::{Form, decoded};
use crate::keys::{CurrentKeys, Keys};
use crate::ldap::Directory;
use crate::passwords::{Busy, Passwords};
use crate::peer::Peer;
use crate::plans::CheckPlan;
use crate::provider::Provider;
use crate::reply::Refusal;
use crate::{limits, secrets};

const TWO_METHODS: Refusal = Refusal::InvalidRequest("more than one method to authenticate");

/// Who sends a request.
pub(crate) enum Sender {
    Client(Client),
    User(User),
}

/// What the check of a password results in.
pub(crate) enum Checked {
    Right(User),
    /// The name of the user, if there is one.
    Wrong(Option<String>),
}

/// How many rows of a kind the store has.
#[derive(Default)]
struct Counted {
    /// As last counted, and those added since.
    rows: AtomicU64,
    /// Clients that have too many, as of the last count.
    full: Mutex<Vec<String>>,
}

pub(crate) struct Manager {
    pub(crate) store: Store,
    current_keys: CurrentKeys,
    /// The `iss` of tokens.
    pub(crate) issuer: String,
    pub(crate) lifetimes: TokenLifetimes,
    pub(crate) access_token_claims: Vec<String>,
    /// Scopes, each with the roles of which a user needs one.
    pub(crate) scopes: Vec<(String, Vec<String>)>,
    pub(crate) trusted: Vec<Arc<Trusted>>,
    /// Whether clients may authenticate by certificates; the CAs of those that are not self-signed.
    pub(crate) accepts_certificates: bool,
    pub(crate) authorities: Option<ClientAuth>,
    pub(crate) directory: Option<Directory>,
    pub(crate) providers: Vec<Provider>,
    pub(crate) api_keys: Option<ApiKeySettings>,
    /// Whose `X-Forwarded-For` says who their clients are.
    pub(crate) trusted_proxies: Vec<Block>,
    pub(crate) cors_origins: Vec<String>,
    pub(crate) check_plan: CheckPlan,
    pub(crate) clock: SystemClock,
    passwords: Passwords,
    pub(crate) attempts: Attempts,
    tokens: Counted,
    devices: Counted,
    /// The number of the last change, while gateways wait for the next one.
    pub(crate) revision: watch::Sender<u64>,
}

impl Counted {
    fn has_too_many(&self, client: &str) -> bool {
        let full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        full.iter().any(|other| other == client)
    }
}

impl Manager {
    pub(crate) fn new(
        store: Store,
        current_keys: CurrentKeys,
        issuer: String,
        lifetimes: TokenLifetimes,
        check_plan: CheckPlan,
    ) -> Self {
        let keys = current_keys.clone();
        Self {
            store,
            current_keys,
            issuer,
            lifetimes,
            access_token_claims: Vec::new(),
            scopes: Vec::new(),
            trusted: Vec::new(),
            accepts_certificates: false,
            authorities: None,
            directory: None,
            providers: Vec::new(),
            api_keys: None,
            trusted_proxies: Vec::new(),
            cors_origins: Vec::new(),
            check_plan,
            clock: SystemClock::new(),
            passwords: Passwords::new(),
            attempts: Attempts::new(move || keys.get().attempts),
            tokens: Counted::default(),
            devices: Counted::default(),
            revision: watch::Sender::new(0),
        }
    }

    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    pub(crate) fn now_s(&self) -> u64 {
        self.now().unix_s
    }

    pub(crate) fn keys(&self) -> Arc<Keys> {
        self.current_keys.get()
    }

    /// The provider of this name.
    pub(crate) fn provider(&self, name: &str) -> Option<&Provider> {
        self.providers.iter().find(|provider| provider.settings.name == name)
    }

    #[allow(clippy::unused_self, reason = "the source of randomness is a property of the manager")]
    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &SystemEntropy
    }

    /// Removes expired tokens and device codes, and counts the others.
    pub(crate) async fn purge(&self) {
        let counted = async {
            self.store.purge(self.now_s(), base::limits::LEEWAY_S_MAX).await?;
            self.recount(Rows::Tokens, limits::CLIENT_TOKENS_MAX).await?;
            self.recount(Rows::Devices, limits::CLIENT_DEVICES_MAX).await
        };
        if let Err(error) = counted.await {
            tracing::error!(%error, "expired tokens cannot be removed");
        }
    }

    /// `most`: of one client.
    async fn recount(&self, kind: Rows, most: u64) -> Result<(), StoreError> {
        let left = self.store.count(kind).await?;
        let full = self.store.clients_with_more(kind, most).await?;
        let (counted, message) = match kind {
            Rows::Tokens => (&self.tokens, "too many tokens"),
            Rows::Devices => (&self.devices, "too many device codes"),
        };
        full.iter().for_each(|client| tracing::warn!(client, most, "{message}"));
        counted.rows.store(left, Ordering::Relaxed);
        *counted.full.lock().unwrap_or_else(PoisonError::into_inner) = full;
        Ok(())
    }

    /// Admits `count` more rows of tokens for the client `id`.
    pub(crate) fn admit_rows(&self, id: &str, count: u64) -> Result<(), Refusal> {
        self.admit_revocation(id)?;
        if self.count_rows(count) >= limits::TOKENS_MAX {
            tracing::error!(most = limits::TOKENS_MAX, "too many tokens in the store");
            return Err(Refusal::Unavailable);
        }
        Ok(())
    }

    /// Admits a row for a revocation by the client `id`. What others store does not prevent it.
    pub(crate) fn admit_revocation(&self, id: &str) -> Result<(), Refusal> {
        if self.tokens.has_too_many(id) { Err(Refusal::Unavailable) } else { Ok(()) }
    }

    /// Admits one more device code for the client `id`. They are counted apart: a client without a secret gets them for
    /// anybody, and its users are to sign in all the same.
    pub(crate) fn admit_device(&self, id: &str) -> Result<(), Refusal> {
        let is_full = self.devices.has_too_many(id);
        if is_full || self.devices.rows.fetch_add(1, Ordering::Relaxed) >= limits::DEVICES_MAX {
            return Err(Refusal::Unavailable);
        }
        Ok(())
    }

    /// Counts rows that were added. Returns the count before.
    pub(crate) fn count_rows(&self, count: u64) -> u64 {
        self.tokens.rows.fetch_add(count, Ordering::Relaxed)
    }

    /// The client that sends the request, as [`Self::client`], or, if it is public, by its id alone. Source: RFC 6749
    /// section 3.2.1.
    pub(crate) async fn client_or_public(
        &self,
        head: &HeaderMap,
        form: &Form,
        peer: &Peer,
    ) -> Result<Client, Refusal> {
        let presents_nothing = !head.contains_key(AUTHORIZATION);
        let presents = |name| form.get(name).is_some();
        let proof = presents("client_secret") || presents("client_assertion");
        let id = form.get("client_id").filter(|_| !proof);
        if let Some(id) = id.filter(|id| presents_nothing && is_name(id))
            && let Some(client) = self.store.client(id).await?.filter(Client::is_public)
        {
            return Ok(client);
        }
        self.client(head, form, peer).await
    }

    /// The client that sends the request, by HTTP Basic, by parameters or by its certificate. Source: RFC 6749 section
    /// 2.3.1, RFC 7521 section 4.2, RFC 8705 section 2.
    pub(crate) async fn client(
        &self,
        head: &HeaderMap,
        form: &Form,
        peer: &Peer,
    ) -> Result<Client, Refusal> {
        if let Some(assertion) = form.get("client_assertion") {
            if head.contains_key(AUTHORIZATION) || form.get("client_secret").is_some() {
                return Err(TWO_METHODS);
            }
            return self.client_by_assertion(form, assertion, peer).await;
        }
        if !head.contains_key(AUTHORIZATION)
            && form.get("client_secret").is_none()
            && !peer.certificates.is_empty()
            && let Some(id) = form.get("client_id").filter(|id| is_name(id))
        {
            let client = self.store.client(id).await?;
            return match client {
                Some(client) if self.has_certificate_of(&client, peer) => Ok(client),
                client => Err(self.wrong_client(id, client.is_some(), peer).await),
            };
        }
        let (id, secret) = client_credentials(head, form)?;
        let client = if is_name(&id) { self.store.client(&id).await? } else { None };
        // An unknown client takes as long as a wrong secret. A public one has no secret that matches.
        let expected = client.as_ref().map_or("", |client| client.secret.as_str());
        let right = secrets::matches(&secret, expected);
        match client {
            // Nobody can guess a secret, so a right one is accepted however many wrong ones others send.
            Some(client) if right => Ok(client),
            client => Err(self.wrong_client(&id, client.is_some(), peer).await),
        }
    }

    /// Counts and logs a failed attempt to authenticate as the client `id`. Of one that does not exist, the store is not to
    /// know: anybody can invent many.
    pub(crate) async fn wrong_client(&self, id: &str, exists: bool, peer: &Peer) -> Refusal {
        let who = [Who::Account(id, network(peer.address))];
        let begun = if exists { self.begin(&who).await } else { self.begin_here(&who) };
        if let Err(slowed) = begun {
            return slowed;
        }
        if exists {
            self.failed(&who).await;
        }
        log_failure("client", exists.then_some(id), peer);
        Refusal::InvalidClient
    }

    /// The client who sends the request, or the user, if HTTP Basic does not name a client.
    pub(crate) async fn client_or_user(
        &self,
        head: &HeaderMap,
        form: &Form,
        peer: &Peer,
    ) -> Result<Sender, Refusal> {
        let name = basic(head)?.map(|(name, _)| name).filter(|name| is_name(name));
        let by_user = match name {
            Some(name) => self.store.client(&name).await?.is_none(),
            None => false,
        };
        if by_user {
            self.user(head, peer).await.map(Sender::User)
        } else {
            self.client(head, form, peer).await.map(Sender::Client)
        }
    }

    /// The administrator who sends the request, by HTTP Basic.
    pub(crate) async fn admin(&self, head: &HeaderMap, peer: &Peer) -> Result<String, Refusal> {
        let user = self.user(head, peer).await?;
        const WHY: Refusal = Refusal::Forbidden("only an administrator may do this");
        if user.admin { Ok(user.name) } else { Err(WHY) }
    }

    /// The user who sends the request, by HTTP Basic. Source: RFC 7617.
    pub(crate) async fn user(&self, head: &HeaderMap, peer: &Peer) -> Result<User, Refusal> {
        let (name, password) = basic(head)?.ok_or(Refusal::InvalidUser)?;
        self.signed_in(&name, &password, peer).await?.ok_or(Refusal::InvalidUser)
    }

    /// The user `name`, if they exist and have this password, which they do not have to replace first.
    pub(crate) async fn signed_in(
        &self,
        name: &str,
        password: &str,
        peer: &Peer,
    ) -> Result<Option<User>, Refusal> {
        match self.with_password(name, password, peer).await? {
            Some(user) if user.one_time_until_s > 0 => Err(Refusal::OneTimePassword),
            user => Ok(user),
        }
    }

    /// The user `name`, if they exist and have this password.
    pub(crate) async fn with_password(
        &self,
        name: &str,
        password: &str,
        peer: &Peer,
    ) -> Result<Option<User>, Refusal> {
        if password.len() > base::limits::PASSWORD_BYTES_MAX || !is_name(name) {
            return Ok(None);
        }
        let network = network(peer.address);
        let who = [Who::Account(name, network), Who::User(name), Who::Address(network)];
        self.begin(&who).await?;
        let checked = self.checked(name, password, peer).await;
        match checked.inspect_err(|_| self.attempts.withdrawn(&who))? {
            Checked::Right(user) => {
                self.succeeded(&who).await;
                Ok(Some(user))
            }
            Checked::Wrong(known) => {
                self.failed(&who).await;
                log_failure("user", known.as_deref(), peer);
                Ok(None)
            }
        }
    }

    /// The hash of a new password.
    pub(crate) async fn hashed(&self, password: &str) -> Result<String, Refusal> {
        let hash = self.passwords.hash(password.to_owned()).await;
        hash.map_err(|Busy| Refusal::Unavailable)
    }

    /// By the store, or by the directory if it has no such user of its own.
    async fn checked(&self, name: &str, password: &str, peer: &Peer) -> Result<Checked, Refusal> {
        let user = self.store.user(name).await?;
        if let Some(directory) = &self.directory
            && user.as_ref().is_none_or(|user| !user.source.is_empty())
        {
            return self.checked_in(directory, (name, password), peer).await;
        }
        let expected = user.as_ref().map(|user| user.password.clone());
        let right = self.passwords.verify(password.to_owned(), expected).await;
        let right = right.map_err(|Busy| Refusal::Unavailable)?;
        Ok(match user {
            Some(user) if right => Checked::Right(user),
            user => Checked::Wrong(user.map(|user| user.name)),
        })
    }
}

/// Only a name that exists: another may be a password in the wrong field. The log counts repeated lines.
fn log_failure(kind: &'static str, name: Option<&str>, peer: &Peer) {
    let name = name.unwrap_or("(unknown)");
    tracing::warn!(kind, name, address = %peer.address, "failed attempt to authenticate");
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
        (Some(_), (_, Some(_))) => Err(TWO_METHODS),
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
