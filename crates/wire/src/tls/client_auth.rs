//! Certificates that clients present to a listener.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::client::add_roots;
use super::{TlsError, provider};

/// The authorities whose certificates a listener accepts from clients.
#[derive(Clone)]
pub struct ClientAuth {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl fmt::Debug for ClientAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientAuth")
    }
}

impl ClientAuth {
    /// Certificates issued by one of `ca_pems` (each one or more PEM certificates) for client authentication. With
    /// `required`, a handshake without one fails; one that is not valid always does.
    ///
    /// # Errors
    /// [`TlsError::BadRoot`] for an invalid CA; [`TlsError::NoRoots`] if there is none.
    pub fn new(ca_pems: &[Vec<u8>], required: bool) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for (index, pem) in ca_pems.iter().enumerate() {
            add_roots(&mut roots, pem).map_err(|problem| TlsError::BadRoot { index, problem })?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        let builder = if required { builder } else { builder.allow_unauthenticated() };
        let verifier =
            builder.build().map_err(|error| TlsError::NoRoots { problem: error.to_string() })?;
        Ok(Self { verifier })
    }

    pub(super) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.verifier)
    }
}
