//! The configuration that the gateway serves. Parts are in `Arc`s, so that a change replaces only its part.

use std::sync::Arc;

use crate::{Api, Applications, ArtefactSet, BackendClient, Introspection, Plans, Revoked};

/// One revision of the configuration that can change without a restart.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Incremented by each change.
    pub revision: u64,
    /// APIs; each host and path belongs to one. The same allocation until one of them changes.
    pub apis: Arc<[LoadedApi]>,
    pub issuers: Vec<Arc<Issuer>>,
    /// The same allocation until an artefact changes.
    pub artefacts: Arc<ArtefactSet>,
    /// The same allocation until a plan changes.
    pub plans: Arc<Plans>,
    /// The same allocation until an application changes. `None` if callers need no subscription.
    pub applications: Option<Arc<Applications>>,
}

/// An API and its state.
#[derive(Clone, Debug)]
pub struct LoadedApi {
    pub api: Arc<Api>,
    pub state: ApiState,
}

impl LoadedApi {
    /// Whether both are the same description in the same state.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.api, &other.api) && self.state == other.state
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiState {
    Serving,
    /// The file never loaded, although its base path could be read. Every request below it gets 503.
    Unloaded,
}

/// An accepted token issuer with its current keys.
#[derive(Clone, Debug)]
pub struct Issuer {
    pub name: String,
    pub iss: String,
    /// Changes with the keys and the rules below; cached tokens of another revision are verified again.
    pub revision: u64,
    pub keys: jose::KeySet,
    /// Accepted audiences; not checked if empty.
    pub audiences: Vec<String>,
    pub leeway_s: u64,
    /// Whether base64url with `=` padding is accepted.
    pub padded_segments: bool,
    /// Whether tokens without `exp` are accepted.
    pub allow_unlimited: bool,
    /// The issuer's tokens are API keys.
    pub api_keys: bool,
    /// The issuer's tokens may be internal keys.
    pub internal_keys: bool,
    /// The endpoint that reports whether opaque tokens are active.
    pub introspection: Option<Introspection>,
    /// The endpoint that verifies the passwords of the issuer's users.
    pub passwords: Option<BackendClient>,
    /// Revoked tokens; `None` if the gateway does not follow them.
    pub revoked: Option<Arc<Revoked>>,
}
