//! Applications, and the APIs to which they are subscribed.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::KeyType;

/// An application: whose credentials may use which APIs, under which plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// Unique.
    pub name: String,
    pub owner: Option<String>,
    /// Name of the plan for all its requests. `None`: unlimited.
    pub plan: Option<String>,
    pub keys: Vec<ApplicationKey>,
    /// No two are to the same API in the same version.
    pub subscriptions: Vec<Subscription>,
    /// The file that describes it.
    pub source: PathBuf,
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
    /// Values of `Referer`; `*` stands for anything but spaces. Empty: not checked.
    pub referers: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub enum KeyCredential {
    /// Tokens whose `client_id`, or `azp`, is this one.
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
