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

/// Base64 with padding, without line breaks. Source: RFC 4648 section 4.
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| {
        let found = ALPHABET.get((bits & 63) as usize).copied();
        char::from(found.unwrap_or(b'='))
    };
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        text.push(digit(bits >> 18));
        text.push(digit(bits >> 12));
        text.push(if group.len() > 1 { digit(bits >> 6) } else { '=' });
        text.push(if group.len() > 2 { digit(bits) } else { '=' });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_has_the_vectors_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
    }
}
