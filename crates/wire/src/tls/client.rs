//! The client's side of TLS: to upstreams, JWKS servers, and from the lab's load generator.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme, WantsVerifier};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, TlsStream};

use super::certificates::pem_problem;
use super::{ALPN_HTTP1, TlsError, provider};
use crate::stream::Stream;

/// Trusted certificate authorities, and the TLS configuration for connections: TLS 1.2 and 1.3, SNI, ALPN
/// `http/1.1`, session resumption. Share one per set of authorities; it stores the sessions.
pub struct ClientTls {
    connector: TlsConnector,
}

impl ClientTls {
    /// Verifies servers against `extra_ca_pems` (each one or more PEM certificates) and, with
    /// `system_roots`, the system's trust store.
    ///
    /// # Errors
    /// [`TlsError::BadRoot`] for an invalid CA in `extra_ca_pems`; [`TlsError::NoRoots`] if no CA is left.
    /// System roots that cannot be read are skipped.
    pub fn new(extra_ca_pems: &[Vec<u8>], system_roots: bool) -> Result<Arc<Self>, TlsError> {
        let mut roots = RootCertStore::empty();
        for (index, pem) in extra_ca_pems.iter().enumerate() {
            add_roots(&mut roots, pem).map_err(|problem| TlsError::BadRoot { index, problem })?;
        }
        let mut problem = "not enabled".to_owned();
        if system_roots {
            let found = rustls_native_certs::load_native_certs();
            let errors = found.errors.iter().map(ToString::to_string).collect::<Vec<_>>();
            problem = if errors.is_empty() { "none found".into() } else { errors.join("; ") };
            roots.add_parsable_certificates(found.certs);
        }
        if roots.is_empty() {
            return Err(TlsError::NoRoots { problem });
        }
        Ok(Self::from_config(builder().with_root_certificates(roots).with_no_client_auth()))
    }

    /// Does not verify the server's identity: for `penstock lab load --insecure` and test servers with
    /// self-signed certificates. The data plane never uses it.
    pub fn insecure() -> Arc<Self> {
        let any = Arc::new(AnyServer(provider()));
        let builder = builder().dangerous().with_custom_certificate_verifier(any);
        Self::from_config(builder.with_no_client_auth())
    }

    /// Performs the client's side of a handshake with `server_name`: a DNS name, or an IP address with or
    /// without brackets. The caller limits the wait.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid name; the socket's; or `InvalidData` with a [`rustls::Error`].
    pub async fn connect(&self, tcp: TcpStream, server_name: &str) -> io::Result<Stream> {
        let bare = server_name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let name = ServerName::try_from(bare.unwrap_or(server_name).to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let tls = self.connector.connect(name, tcp).await?;
        Ok(Stream::Tls(Box::new(TlsStream::Client(tls))))
    }

    fn from_config(mut config: ClientConfig) -> Arc<Self> {
        config.alpn_protocols = vec![ALPN_HTTP1.to_vec()];
        config.resumption = Resumption::in_memory_sessions(base::limits::TLS_SESSIONS_MAX);
        Arc::new(Self::from_client_config(config))
    }

    pub(super) fn from_client_config(config: ClientConfig) -> Self {
        Self { connector: TlsConnector::from(Arc::new(config)) }
    }
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("aws-lc-rs has suites for TLS 1.2 and 1.3")
}

pub(super) fn add_roots(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), String> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| pem_problem(&error).to_owned())?;
    if certificates.is_empty() {
        return Err("no `BEGIN CERTIFICATE` block in the PEM".to_owned());
    }
    for certificate in certificates {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Accepts any certificate, but still verifies that the server has its private key.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
