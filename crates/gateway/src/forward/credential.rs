//! The credentials that requests to the endpoints of a set get from the gateway.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use model::{AwsCredential, BackendAuth, BackendClient, BackendCredential};

/// `[[credential]]` by name.
pub(crate) type Credentials = HashMap<String, Arc<Credential>>;

/// The credential of a request to an upstream, as it is written.
#[derive(PartialEq, Eq)]
pub(crate) enum Credential {
    Field {
        name: Vec<u8>,
        value: Vec<u8>,
    },
    /// `pair`: `NAME=VALUE`, escaped.
    Parameter {
        name: String,
        pair: String,
    },
    /// An answer to a challenge.
    Digest {
        username: String,
        password: Vec<u8>,
    },
    /// A token that is to be asked for.
    Token(BackendClient),
    /// A signature.
    Aws(AwsCredential),
    /// It was not read from Vault yet.
    Unread,
}

impl From<&BackendCredential> for Credential {
    fn from(of: &BackendCredential) -> Self {
        match of {
            BackendCredential::Basic { username, password } => {
                let login = BASE64_STANDARD.encode([username.as_bytes(), b":", password].concat());
                let (name, value) = (b"Authorization".to_vec(), format!("Basic {login}"));
                Self::Field { name, value: value.into_bytes() }
            }
            BackendCredential::Header { name, value } => {
                Self::Field { name: name.as_bytes().to_vec(), value: value.clone() }
            }
            BackendCredential::Query { name, pair } => {
                Self::Parameter { name: name.clone(), pair: pair.clone() }
            }
            BackendCredential::Digest { username, password } => {
                Self::Digest { username: username.clone(), password: password.clone() }
            }
            BackendCredential::ClientCredentials(client) => Self::Token((**client).clone()),
            BackendCredential::Aws(key) => Self::Aws((**key).clone()),
            BackendCredential::Unread { .. } => Self::Unread,
        }
    }
}

/// The credential of an endpoint set.
pub(crate) enum OfSet {
    Named(String),
    Own(Arc<Credential>),
}

impl From<&BackendAuth> for OfSet {
    fn from(of: &BackendAuth) -> Self {
        match of {
            BackendAuth::Named(name) => Self::Named(name.clone()),
            BackendAuth::Own(own) => Self::Own(Arc::new(Credential::from(&**own))),
        }
    }
}

/// Secrets are never printed.
impl fmt::Debug for OfSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfSet(..)")
    }
}
