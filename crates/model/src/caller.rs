//! The authenticated identity of a client.

/// The claims of a verified token that later stages use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// `sub`.
    pub subject: Option<String>,
    /// `client_id`, else `azp`.
    pub client_id: Option<String>,
    /// `scope` (space separated) or `scp` (array).
    pub scopes: Vec<String>,
    pub key_type: KeyType,
    /// Index of the issuer in `Snapshot::issuers`.
    pub issuer: usize,
    /// `jti`.
    pub token_id: Option<String>,
    /// `aud`, whether a string or an array.
    pub audiences: Vec<String>,
    /// `exp`, seconds since the Unix epoch. A token without it does not expire.
    pub expires_s: Option<u64>,
    /// `nbf`, seconds since the Unix epoch.
    pub not_before_s: Option<u64>,
}

/// The endpoints that a key gives access to (WSO2's claim `keytype`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyType {
    #[default]
    Production,
    Sandbox,
}
