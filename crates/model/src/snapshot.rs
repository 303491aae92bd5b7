//! All that the gateway serves at one moment: parts behind `Arc`s, so that a change swaps its part alone.

use std::sync::Arc;

use crate::Api;

/// One consistent state of everything that live change may touch.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Grows by one with each change.
    pub revision: u64,
    /// No two claim the same host and path.
    pub apis: Vec<LoadedApi>,
    pub issuers: Vec<Arc<Issuer>>,
}

/// An API and whether it can be served.
#[derive(Clone, Debug)]
pub struct LoadedApi {
    pub api: Arc<Api>,
    pub state: ApiState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiState {
    Serving,
    /// The file never loaded, though its base path was readable: everything below it answers 503.
    Unloaded,
}

/// Whose tokens are accepted, with the keys as they are now.
#[derive(Debug)]
pub struct Issuer {
    pub name: String,
    pub iss: String,
    /// Changes whenever the keys or the rules below change; cached verdicts carry it.
    pub revision: u64,
    pub keys: jose::KeySet,
    /// Empty: not checked.
    pub audiences: Vec<String>,
    pub leeway_s: u64,
    /// Accept base64url with `=` padding.
    pub padded_segments: bool,
}
