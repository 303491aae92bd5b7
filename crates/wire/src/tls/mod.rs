//! TLS 1.2 and 1.3 by rustls with aws-lc-rs, both sides of a connection.
//!
//! Used by **listen** ([`accept`]) and **forward** ([`ClientTls::connect`]). Certificates are given as bytes
//! and replaced as one set; existing connections are not affected.
//!
//! Architecture invariant: no file is read but the system's trust store, no process-wide default provider
//! is used, and no message contains key material.

mod ber;
mod certificates;
mod client;
mod client_auth;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod self_signed;
mod start_tls;
mod subject;
#[cfg(test)]
pub(crate) mod tests;
mod validity;

use std::io;
use std::sync::Arc;

use base::limits;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsStream};

pub use certificates::{CertificateSet, PemPair, ServerCertificates, SniPair};
pub use client::{ClientTls, EndpointTls};
pub use client_auth::{ClientAuth, has_name};
pub use rustls_pki_types::CertificateDer;
pub use self_signed::generate_self_signed;
pub use start_tls::{LDAP_START_TLS, ldap_tls_started};
pub use subject::DistinguishedName;
pub use validity::Lapse;

use crate::stream::Stream;

/// The supported ALPN protocols. Source: IANA's TLS ALPN registry.
pub const ALPN_H2: &[u8] = b"h2";
pub const ALPN_HTTP1: &[u8] = b"http/1.1";

/// Why certificates, keys or roots cannot be used. `pair` is `default`, or the configured host names.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("certificate of `{pair}`: no `BEGIN CERTIFICATE` block in the PEM")]
    NoCertificate { pair: String },
    #[error("key of `{pair}`: no `BEGIN PRIVATE KEY` block in the PEM")]
    NoKey { pair: String },
    #[error("{part} of `{pair}`: invalid PEM: {problem}")]
    BrokenPem { part: &'static str, pair: String, problem: &'static str },
    #[error("certificate of `{pair}`: not an X.509 certificate: {source}")]
    BrokenCertificate { pair: String, source: rustls::Error },
    #[error(
        "key of `{pair}`: unsupported; use RSA of at least 2048 bits, ECDSA or Ed25519: {source}"
    )]
    UnusableKey { pair: String, source: rustls::Error },
    #[error("key and certificate of `{pair}` do not match")]
    KeyMismatch { pair: String },
    #[error("`{host}` is not a valid host: use a DNS name, or `*.` and a DNS name")]
    BadHost { host: String },
    #[error("two certificates for `{host}`; remove one")]
    DuplicateHost { host: String },
    #[error("custom CA {index}: {problem}")]
    BadRoot { index: usize, problem: String },
    #[error("CA {index} of `{pair}`: {problem}")]
    BadEndpointRoot { pair: String, index: usize, problem: String },
    #[error(
        "no trusted CA: none in the system's store ({problem}); configure one, or install ca-certificates"
    )]
    NoRoots { problem: String },
    #[error("cannot generate a certificate: {0}")]
    Generate(#[from] rcgen::Error),
}

/// aws-lc-rs, passed explicitly so that no process-wide default is needed.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// The configuration of TLS listeners: TLS 1.2 and 1.3, certificates by SNI from `certs` (looked up in each
/// handshake, so [`ServerCertificates::replace`] takes effect with the next one), ALPN `h2` before
/// `http/1.1` (`h2` only with `alpn_h2`), resumption by ticket and by cache, no client certificates, no early data.
pub fn server_config(certs: Arc<ServerCertificates>, alpn_h2: bool) -> Arc<rustls::ServerConfig> {
    server_config_for(certs, alpn_h2, None)
}

/// As [`server_config`], with certificates of `clients`. Sessions are not resumed, because a resumed session would keep
/// the certificate of its first handshake, which may have expired since.
pub fn server_config_for(
    certs: Arc<ServerCertificates>,
    alpn_h2: bool,
    clients: Option<&ClientAuth>,
) -> Arc<rustls::ServerConfig> {
    let builder = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("aws-lc-rs has suites for TLS 1.2 and 1.3");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(clients.verifier()),
    };
    let mut config = builder.with_cert_resolver(certs);
    config.alpn_protocols = if alpn_h2 {
        vec![ALPN_H2.to_vec(), ALPN_HTTP1.to_vec()]
    } else {
        vec![ALPN_HTTP1.to_vec()]
    };
    if clients.is_some() {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    } else {
        config.session_storage = ServerSessionMemoryCache::new(limits::TLS_SESSIONS_MAX);
        // Without tickets (no random numbers from the system) sessions are resumed from the cache.
        if let Ok(ticketer) = aws_lc_rs::Ticketer::new() {
            config.ticketer = ticketer;
        }
    }
    // Early data can be replayed.
    config.max_early_data_size = 0;
    Arc::new(config)
}

/// Performs the server's side of a handshake. The caller limits the wait
/// ([`limits::HANDSHAKE_MS_MAX`]).
///
/// # Errors
/// An error of the socket, or `InvalidData` holding a [`rustls::Error`]; the alert has been sent.
pub async fn accept(tcp: TcpStream, config: Arc<rustls::ServerConfig>) -> io::Result<Stream> {
    let tls = TlsAcceptor::from(config).accept(tcp).await?;
    Ok(Stream::Tls(Box::new(TlsStream::Server(tls))))
}
