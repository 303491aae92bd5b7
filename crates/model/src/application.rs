//! Applications, and the APIs to which they are subscribed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use crate::KeyType;

/// Number of shards. With 100,000 applications, a change of one copies some 200 pointers.
const SHARDS: usize = 512;

/// All applications, in parts of which a change replaces one. A copy shares them.
#[derive(Clone, Debug)]
pub struct Applications {
    shards: Vec<Arc<Vec<Arc<Application>>>>,
}

/// An application: whose credentials may use which APIs, under which plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// Unique.
    pub name: String,
    pub owner: Option<String>,
    /// Name of the plan for all its requests. `None`: unlimited.
    pub plan: Option<String>,
    /// Names and values that upstreams get in the backend JWT. No two have the same name.
    pub attributes: Box<[(Box<str>, Box<str>)]>,
    pub keys: Box<[ApplicationKey]>,
    /// No two are to the same API in the same version. Applications share those that are equal: there are far fewer
    /// than all applications together have.
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

    /// Adds one whose name no other has.
    pub fn insert(&mut self, application: Arc<Application>) {
        self.shard(&application.name).push(application);
    }

    pub fn remove(&mut self, name: &str) {
        self.shard(name).retain(|one| one.name != name);
    }

    /// The parts of `self` that differ from those of `before`: each with its applications then and now.
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

/// A credential of an application. No two applications have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationKey {
    pub credential: KeyCredential,
    pub key_type: KeyType,
    /// `None`: it may be used from everywhere.
    pub permitted: Option<Arc<Permitted>>,
}

/// From where an API key may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permitted {
    /// CIDR blocks. `None`: from everywhere.
    pub addresses: Option<Vec<(IpAddr, u8)>>,
    /// Values of `Referer`; `*` stands for anything but spaces. Scheme, host and path are compared apart. Empty: not
    /// checked.
    pub referers: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub enum KeyCredential {
    /// Tokens whose `client_id`, or what is in its place, is this one.
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
    /// Name of the plan. `None`: unlimited.
    pub plan: Option<String>,
    pub state: SubscriptionState,
}

/// Whether a subscription gives access. Source: WSO2's states of subscriptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SubscriptionState {
    #[default]
    Active,
    /// For both types of keys.
    Blocked,
    /// For production keys only.
    ProductionBlocked,
    /// Not approved yet, or rejected.
    Inactive,
}
