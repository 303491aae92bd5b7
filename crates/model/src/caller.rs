//! The authenticated identity of a client.

use std::sync::Arc;

use crate::Permitted;

/// The claims of a verified token that later stages use.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// `sub`; a whole number is its decimal text.
    pub subject: Option<String>,
    /// `client_id`, else `azp`, else `cid` or `appid`.
    pub client_id: Option<String>,
    /// `scope` and `scp`, each separated by spaces or an array.
    pub scopes: Vec<String>,
    pub key_type: KeyType,
    /// Subscriptions that the token itself lists.
    pub subscriptions: Option<Box<jose::TokenSubscriptions>>,
    /// Identifies the application of a token that lists its subscriptions.
    pub application_key: u64,
    /// Index of the issuer in `Snapshot::issuers`; `None` if the caller has presented a key of an application.
    pub issuer: Option<usize>,
    pub kind: CredentialKind,
    pub token_type: TokenType,
    /// Restrictions on the use of an API key that an issuer has signed; those of an application's key are looked up.
    pub permitted: Option<Arc<Permitted>>,
    /// `jti`.
    pub token_id: Option<String>,
    /// `aud`, whether a string or an array.
    pub audiences: Vec<String>,
    /// `exp`, seconds since the Unix epoch. `None` if the token does not expire and the issuer allows that.
    pub expires_s: Option<u64>,
    /// `nbf`, seconds since the Unix epoch.
    pub not_before_s: Option<u64>,
    /// `iat`, seconds since the Unix epoch; 0 if it is absent.
    pub issued_s: u64,
    /// Claims that conditions of plans use.
    pub claims: Option<Box<KeptClaims>>,
    /// `cnf`: the key whose possession the client has to prove.
    pub confirmation: Option<jose::Confirmation>,
}

/// The claims that conditions used when the token was verified.
#[derive(Clone, PartialEq, Eq)]
pub struct KeptClaims {
    pub names: Arc<[String]>,
    /// The text of each claim.
    pub texts: Vec<Option<String>>,
}

/// Claims are personal data and aren't printed.
impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { issuer, key_type, .. } = self;
        f.debug_struct("Caller")
            .field("issuer", issuer)
            .field("key_type", key_type)
            .finish_non_exhaustive()
    }
}

/// The kind of credential that a caller has presented. Each is accepted only where an API requires it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum CredentialKind {
    /// An access token.
    #[default]
    Token,
    /// An API key that an issuer has signed.
    ApiKey,
    /// The name and password of a configured user.
    Login,
    /// The key with which a publisher tests an API in any lifecycle state.
    InternalKey,
    /// The API key of an application with this SHA-256 hash.
    ApplicationKey([u8; 32]),
}

/// The kind of holder that a token was issued for (WSO2's claim `aut`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenType {
    #[default]
    Application,
    ApplicationUser,
}

/// The endpoints that a key gives access to (WSO2's claim `keytype`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyType {
    #[default]
    Production,
    Sandbox,
}
