//! Applications, and the APIs to which they are subscribed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use crate::KeyType;

/// Number of shards. With 100,000 applications, changing one copies some 200 pointers.
const SHARDS: usize = 512;

/// All applications, in shards. A change replaces one shard, and copies share the others.
#[derive(Clone, Debug)]
pub struct Applications {
    shards: Vec<Arc<Vec<Arc<Application>>>>,
}

/// An application: credentials, and the APIs that they may use under which plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// Unique.
    pub name: String,
    pub owner: Option<String>,
    /// Name of the plan for all requests of the application. `None` is unlimited.
    pub plan: Option<String>,
    /// Names and values that upstreams receive in the backend JWT. Names are unique.
    pub attributes: Box<[(Box<str>, Box<str>)]>,
    pub keys: Box<[ApplicationKey]>,
    /// Subscriptions, at most one per API and version. Applications share equal subscriptions, since few of them are
    /// distinct.
    pub subscriptions: Box<[Arc<Subscription>]>,
}

impl Default for Applications {
    fn default() -> Self {
        Self { shards: vec![Arc::default(); SHARDS] }
    }
}

impl FromIterator<Arc<Application>> for Applications {
    fn from_iter<I: IntoIterator<Item = Arc<Application>>>(all: I) -> Self {
        let mut applications = Self::default();
        all.into_iter().for_each(|one| applications.insert(one));
        applications
    }
}

impl Applications {
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Application>> {
        self.shards.iter().flat_map(|shard| shard.iter())
    }

    /// Adds an application, whose name must be new.
    pub fn insert(&mut self, application: Arc<Application>) {
        self.shard(&application.name).push(application);
    }

    pub fn remove(&mut self, name: &str) {
        self.shard(name).retain(|one| one.name != name);
    }

    /// The shards of `self` that differ from those of `before`, each with its applications before and now.
    pub fn changes<'a>(
        &'a self,
        before: Option<&'a Self>,
    ) -> impl Iterator<Item = (&'a [Arc<Application>], &'a [Arc<Application>])> {
        let then = move |at: usize| before.and_then(|before| before.shards.get(at));
        let pairs = self.shards.iter().enumerate().map(move |(at, now)| (then(at), now));
        let differing =
            pairs.filter(|(then, now)| !then.is_some_and(|then| Arc::ptr_eq(then, now)));
        differing.map(|(then, now)| (then.map_or(&[][..], |then| then.as_slice()), now.as_slice()))
    }

    fn shard(&mut self, name: &str) -> &mut Vec<Arc<Application>> {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let number = usize::try_from(hasher.finish() >> 32).unwrap_or_default() % SHARDS;
        Arc::make_mut(self.shards.get_mut(number).expect("there are SHARDS, and numbers are below"))
    }
}

/// A credential of an application. Credentials are unique among all applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationKey {
    pub credential: KeyCredential,
    pub key_type: KeyType,
    /// Restrictions on the use of the key; `None` without any.
    pub permitted: Option<Arc<Permitted>>,
}

/// Restrictions on the client of an API key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permitted {
    /// CIDR blocks of permitted addresses. `None` permits all.
    pub addresses: Option<Vec<(IpAddr, u8)>>,
    /// Permitted values of `Referer`; `*` matches anything except spaces. Scheme, host and path are compared apart. Not
    /// checked if empty.
    pub referers: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub enum KeyCredential {
    /// Tokens with this `client_id`, or with this value in the claim that replaces it.
    ClientId(String),
    /// The API key with this SHA-256 hash.
    ApiKeySha256([u8; 32]),
}

/// Hashes of keys are not printed.
impl std::fmt::Debug for KeyCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ClientId(id) => f.debug_tuple("ClientId").field(id).finish(),
            Self::ApiKeySha256(_) => f.write_str("ApiKeySha256(..)"),
        }
    }
}

/// Access of an application to one API in one version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subscription {
    /// `info.title` of the API.
    pub api: String,
    /// `info.version` of the API.
    pub version: String,
    /// Name of the plan. `None` is unlimited.
    pub plan: Option<String>,
    pub state: SubscriptionState,
}

/// Whether a subscription gives access. Source: WSO2's states of subscriptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SubscriptionState {
    #[default]
    Active,
    /// Blocked for both types of keys.
    Blocked,
    /// Blocked for production keys only.
    ProductionBlocked,
    /// The subscription is not approved yet, or was rejected.
    Inactive,
}
