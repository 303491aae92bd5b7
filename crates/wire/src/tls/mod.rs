//! TLS 1.2 and 1.3 by rustls with aws-lc-rs, both sides of a connection.
//!
//! Life of a request: before **listen** sees a byte ([`accept`]), and when **forward** opens a
//! connection ([`ClientTls::connect`]). Certificates come in as bytes, by whoever reads files, and
//! are swapped as one set; connections that stand keep what they agreed on.
//!
//! Architecture invariant: no file is read here but the system's trust store, no process-wide
//! default provider is used, and no message carries key material.

mod certificates;
mod client;
mod self_signed;
#[cfg(test)]
pub(crate) mod tests;
mod validity;

use std::io;
use std::sync::Arc;

use base::limits;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::ServerSessionMemoryCache;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsStream};

pub use certificates::{CertificateSet, PemPair, ServerCertificates, SniPair};
pub use client::ClientTls;
pub use self_signed::generate_self_signed;
pub use validity::Lapse;

use crate::stream::Stream;

/// The ALPN names offered and understood. Source: IANA's TLS ALPN registry.
pub const ALPN_H2: &[u8] = b"h2";
pub const ALPN_HTTP1: &[u8] = b"http/1.1";

/// Why certificates, keys or roots are of no use. `pair` names the one meant, as the operator
/// listed it: `default`, or the host names.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("certificate of `{pair}`: no `BEGIN CERTIFICATE` block in the PEM")]
    NoCertificate { pair: String },
    #[error("key of `{pair}`: no `BEGIN PRIVATE KEY` block in the PEM")]
    NoKey { pair: String },
    #[error("{part} of `{pair}`: the PEM is broken: {problem}")]
    BrokenPem { part: &'static str, pair: String, problem: &'static str },
    #[error("certificate of `{pair}` is not an X.509 certificate: {source}")]
    BrokenCertificate { pair: String, source: rustls::Error },
    #[error(
        "key of `{pair}` is not one we can sign with (RSA from 2048 bits, ECDSA, Ed25519): {source}"
    )]
    UnusableKey { pair: String, source: rustls::Error },
    #[error("key and certificate of `{pair}` do not belong together")]
    KeyMismatch { pair: String },
    #[error("`{host}` is no host for a certificate: write a DNS name, or `*.` and a DNS name")]
    BadHost { host: String },
    #[error("`{host}` has two certificates")]
    DuplicateHost { host: String },
    #[error("custom CA {index}: {problem}")]
    BadRoot { index: usize, problem: String },
    #[error(
        "no CA is trusted: the system has none ({problem}); name one, or install ca-certificates"
    )]
    NoRoots { problem: String },
    #[error("a certificate could not be made: {0}")]
    Generate(#[from] rcgen::Error),
}

/// aws-lc-rs, named explicitly so that no process-wide default has to be installed.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// What listeners share: TLS 1.2 and 1.3, certificates by SNI from `certs` (looked up in each
/// handshake, so [`ServerCertificates::replace`] takes effect with the next one), ALPN `h2` before
/// `http/1.1` (`h2` only with `alpn_h2`), resumption by ticket and by cache, no client
/// certificates, no early data.
pub fn server_config(certs: Arc<ServerCertificates>, alpn_h2: bool) -> Arc<rustls::ServerConfig> {
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("aws-lc-rs has suites for TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_cert_resolver(certs);
    config.alpn_protocols = if alpn_h2 {
        vec![ALPN_H2.to_vec(), ALPN_HTTP1.to_vec()]
    } else {
        vec![ALPN_HTTP1.to_vec()]
    };
    config.session_storage = ServerSessionMemoryCache::new(limits::TLS_SESSIONS_MAX);
    // Without tickets (the system gives no random numbers) resumption falls back to the cache.
    if let Ok(ticketer) = aws_lc_rs::Ticketer::new() {
        config.ticketer = ticketer;
    }
    // A replayed request is the caller's risk to take, and no caller can say so yet.
    config.max_early_data_size = 0;
    Arc::new(config)
}

/// Performs the server's side of a handshake. The caller bounds the wait
/// ([`limits::HANDSHAKE_MS_MAX`]).
///
/// # Errors
/// The socket's, or `InvalidData` holding a [`rustls::Error`]; the alert has been sent.
pub async fn accept(tcp: TcpStream, config: Arc<rustls::ServerConfig>) -> io::Result<Stream> {
    let tls = TlsAcceptor::from(config).accept(tcp).await?;
    Ok(Stream::Tls(Box::new(TlsStream::Server(tls))))
}
