//! The credentials of the gateway itself at upstreams. They are never printed.

use std::fmt;
use std::sync::Arc;

/// The credential of the gateway at the endpoints of a set.
#[derive(Clone, Debug, PartialEq)]
pub enum BackendAuth {
    /// The `[[credential]]` with this name.
    Named(String),
    /// A credential in the API's own file.
    Own(Arc<BackendCredential>),
}

/// A credential that is added to requests to an upstream.
#[derive(Clone, PartialEq, Eq)]
pub enum BackendCredential {
    /// HTTP Basic.
    Basic { username: String, password: Vec<u8> },
    /// HTTP Digest.
    Digest { username: String, password: Vec<u8> },
    /// A header field with this name and value.
    Header { name: String, value: Vec<u8> },
    /// A query parameter.
    Query {
        name: String,
        /// `NAME=VALUE`, escaped.
        pair: String,
    },
    /// A token that an OAuth2 server issues to the gateway.
    ClientCredentials(Box<BackendClient>),
    /// A signature of AWS, version 4.
    Aws(Box<AwsCredential>),
    /// A credential whose secret has not been read from Vault yet.
    Unread {
        /// Whether the credential is for sets of one endpoint.
        is_of_one: bool,
    },
}

/// An access key of AWS, and the region and service that it signs for.
#[derive(Clone, PartialEq, Eq)]
pub struct AwsCredential {
    pub access_key_id: String,
    pub secret_access_key: Vec<u8>,
    /// The session token of temporary credentials.
    pub session_token: Option<Vec<u8>>,
    pub region: String,
    pub service: String,
}

impl BackendCredential {
    /// Whether the credential is only for sets of one endpoint, because the header or signature depends on the
    /// endpoint.
    #[must_use]
    pub fn is_of_one_endpoint(&self) -> bool {
        match self {
            Self::Digest { .. } | Self::Aws(_) => true,
            Self::Unread { is_of_one } => *is_of_one,
            Self::Basic { .. }
            | Self::Header { .. }
            | Self::Query { .. }
            | Self::ClientCredentials(_) => false,
        }
    }

    /// A query parameter.
    #[must_use]
    pub fn query(name: &str, value: &[u8]) -> Self {
        let escaped = |bytes: &[u8]| {
            let mut text = String::new();
            for byte in bytes {
                if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
                    text.push(char::from(*byte));
                } else {
                    text.push_str(&format!("%{byte:02X}"));
                }
            }
            text
        };
        let pair = format!("{}={}", escaped(name.as_bytes()), escaped(value));
        Self::Query { name: name.to_owned(), pair }
    }
}

/// The gateway as a client of an OAuth2 server. Source: RFC 6749 section 4.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct BackendClient {
    /// The token endpoint.
    pub token_url: String,
    pub client_id: String,
    pub client_secret: Vec<u8>,
    pub scopes: Vec<String>,
    pub grant: BackendGrant,
    /// Whether id and secret are in the form, instead of HTTP Basic.
    pub in_form: bool,
    /// Other parameters of the form.
    pub parameters: Vec<(String, String)>,
}

/// The grant with which the gateway requests a token.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum BackendGrant {
    #[default]
    ClientCredentials,
    Password {
        username: String,
        password: String,
    },
    RefreshToken(String),
}

/// Secrets are never printed.
impl fmt::Debug for BackendClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendClient").field("token_url", &self.token_url).finish_non_exhaustive()
    }
}

impl fmt::Debug for BackendCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic { .. } => "Basic(..)",
            Self::Digest { .. } => "Digest(..)",
            Self::Header { .. } => "Header(..)",
            Self::Query { .. } => "Query(..)",
            Self::ClientCredentials(_) => "ClientCredentials(..)",
            Self::Aws(_) => "Aws(..)",
            Self::Unread { .. } => "Unread",
        })
    }
}
