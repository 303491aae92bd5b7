//! State and services that all endpoints use: the store, the keys, the clock, passwords.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::addresses::Block;
use base::{Clock, Entropy, Now, SystemClock, SystemEntropy};
use model::{ApiKeySettings, TokenLifetimes};
use store::{Rows, Store, StoreError, User};
use tokio::sync::watch;
use wire::tls::ClientAuth;

use crate::attempts::{Attempts, Who, network};
use crate::bearer::Trusted;
use crate::keys::{CurrentKeys, Keys};
use crate::ldap::Directory;
use crate::limits;
use crate::passwords::{Busy, Passwords};
use crate::peer::Peer;
use crate::plans::CheckPlan;
use crate::provider::Provider;
use crate::reply::Refusal;

/// Result of the check of a password.
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
    /// The proxies whose `X-Forwarded-For` is trusted.
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

    /// Admits a row for a revocation by the client `id`. Rows of other clients do not prevent it.
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
        if !Self::may_be_login(name, password) {
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

    /// Whether a user can have this name and this password.
    pub(crate) fn may_be_login(name: &str, password: &str) -> bool {
        password.len() <= base::limits::PASSWORD_BYTES_MAX && is_name(name)
    }

    /// The hash of a new password.
    pub(crate) async fn hashed(&self, password: &str) -> Result<String, Refusal> {
        let hash = self.passwords.hash(password.to_owned()).await;
        hash.map_err(|Busy| Refusal::Unavailable)
    }

    /// By the store, or by the directory if it has no such user of its own.
    pub(crate) async fn checked(
        &self,
        name: &str,
        password: &str,
        peer: &Peer,
    ) -> Result<Checked, Refusal> {
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
pub(crate) fn log_failure(kind: &'static str, name: Option<&str>, peer: &Peer) {
    let name = name.unwrap_or("(unknown)");
    tracing::warn!(kind, name, address = %peer.address, "failed attempt to authenticate");
}

/// Whether `text` can be the name of a user or client.
pub(crate) fn is_name(text: &str) -> bool {
    let lengths = 1..=limits::NAME_BYTES_MAX;
    lengths.contains(&text.len()) && !text.chars().any(char::is_control)
}
