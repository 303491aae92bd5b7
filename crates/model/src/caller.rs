//! Who calls.

/// What a verified token says of its bearer: all that later stages may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// `sub`.
    pub subject: Option<String>,
    /// `client_id`, else `azp`.
    pub client_id: Option<String>,
    /// `scope` (space separated) or `scp` (array).
    pub scopes: Vec<String>,
    pub key_type: KeyType,
    /// `name` of the issuer in the configuration, as an index in `Snapshot::issuers`.
    pub issuer: usize,
    /// `jti`.
    pub token_id: Option<String>,
    /// `aud`, whether a string or an array.
    pub audiences: Vec<String>,
    /// `exp`, seconds since the Unix epoch. A token without it never expires by itself.
    pub expires_s: Option<u64>,
    /// `nbf`, seconds since the Unix epoch.
    pub not_before_s: Option<u64>,
}

/// Which endpoints the caller's key opens (claim `keytype`, WSO2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyType {
    #[default]
    Production,
    Sandbox,
}
