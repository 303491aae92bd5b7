//! The client's side of TLS: to upstreams, JWKS servers, and from the lab's load generator.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::sign::SingleCertAndKey;
use rustls::{ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme, WantsVerifier};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, TlsStream};

use super::certificates::{pem_problem, read_pair};
use super::{ALPN_H2, ALPN_HTTP1, TlsError, provider};
use crate::stream::Stream;

/// Trusted certificate authorities, client certificates, and the TLS configuration for connections: TLS 1.2 and 1.3,
/// SNI, ALPN `http/1.1`, session resumption. Share one; it stores the sessions.
pub struct ClientTls {
    connector: TlsConnector,
    /// Configurations by server name, in lower case.
    exact: HashMap<String, TlsConnector>,
    /// Configurations by the name after `*.`, in lower case.
    wildcard: HashMap<String, TlsConnector>,
}

/// TLS settings for particular servers.
#[derive(Debug, Default)]
pub struct EndpointTls {
    /// DNS names, `*.` and a DNS name, or IP addresses.
    pub hosts: Vec<String>,
    /// Certificate chain and key of this side, both PEM, for servers that require one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The only trusted CAs, each one or more PEM certificates. If empty, the CAs for all other servers are trusted.
    pub ca_pems: Vec<Vec<u8>>,
}

impl ClientTls {
    /// Verifies servers against `extra_ca_pems` (each one or more PEM certificates) and, with
    /// `system_roots`, the system's trust store.
    ///
    /// # Errors
    /// [`TlsError::BadRoot`] for an invalid CA in `extra_ca_pems`; [`TlsError::NoRoots`] if no CA is left.
    /// System roots that cannot be read are skipped.
    pub fn new(extra_ca_pems: &[Vec<u8>], system_roots: bool) -> Result<Arc<Self>, TlsError> {
        Self::with_endpoints(extra_ca_pems, system_roots, &[])
    }

    /// As [`ClientTls::new`], with exceptions for some servers.
    ///
    /// # Errors
    /// As [`ClientTls::new`], also for the pair or CA of an endpoint, which is named by its hosts.
    pub fn with_endpoints(
        extra_ca_pems: &[Vec<u8>],
        system_roots: bool,
        endpoints: &[EndpointTls],
    ) -> Result<Arc<Self>, TlsError> {
        let roots = roots_of(extra_ca_pems);
        let mut roots = roots.map_err(|(index, problem)| TlsError::BadRoot { index, problem })?;
        let mut problem = "not enabled".to_owned();
        if system_roots {
            let found = rustls_native_certs::load_native_certs();
            let errors = found.errors.iter().map(ToString::to_string).collect::<Vec<_>>();
            problem = if errors.is_empty() { "none found".into() } else { errors.join("; ") };
            roots.add_parsable_certificates(found.certs);
        }
        if roots.is_empty() && endpoints.iter().all(|endpoint| endpoint.ca_pems.is_empty()) {
            return Err(TlsError::NoRoots { problem });
        }
        let roots = Arc::new(roots);
        let with_roots = builder().with_root_certificates(Arc::clone(&roots));
        let mut client = Self::from_client_config(finish(with_roots.with_no_client_auth()));
        for endpoint in endpoints {
            let connector = endpoint.connector(&roots)?;
            for host in &endpoint.hosts {
                let lower = host.to_ascii_lowercase();
                match lower.strip_prefix("*.") {
                    Some(parent) => client.wildcard.insert(parent.to_owned(), connector.clone()),
                    None => client.exact.insert(lower, connector.clone()),
                };
            }
        }
        Ok(Arc::new(client))
    }

    /// Does not verify the server's identity: for `penstock lab load --insecure` and test servers with
    /// self-signed certificates. The data plane never uses it.
    pub fn insecure() -> Arc<Self> {
        let any = Arc::new(AnyServer(provider()));
        let builder = builder().dangerous().with_custom_certificate_verifier(any);
        Arc::new(Self::from_client_config(finish(builder.with_no_client_auth())))
    }

    /// The configuration for servers without exceptions, for connections that do not await.
    #[must_use]
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(self.connector.config())
    }

    /// A copy for a load generator: offers either HTTP/2 or HTTP/1.1 (the caller checks [`Stream::alpn`], since a
    /// server may ignore the offer), and resumes only its own sessions, or none.
    #[must_use]
    pub fn for_load(&self, is_http2: bool, resumes: bool) -> Arc<Self> {
        let changed = |connector: &TlsConnector| {
            let mut config = ClientConfig::clone(connector.config());
            config.alpn_protocols = vec![if is_http2 { ALPN_H2 } else { ALPN_HTTP1 }.to_vec()];
            config.resumption = if resumes {
                Resumption::in_memory_sessions(base::limits::TLS_SESSIONS_MAX)
            } else {
                Resumption::disabled()
            };
            TlsConnector::from(Arc::new(config))
        };
        let all = |map: &HashMap<String, TlsConnector>| {
            map.iter().map(|(host, connector)| (host.clone(), changed(connector))).collect()
        };
        Arc::new(Self {
            connector: changed(&self.connector),
            exact: all(&self.exact),
            wildcard: all(&self.wildcard),
        })
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
        let tls = self.connector(bare.unwrap_or(server_name)).connect(name, tcp).await?;
        Ok(Stream::Tls(Box::new(TlsStream::Client(tls))))
    }

    /// The configuration for `host`: the exact name, then `*.` for its first label, then the general one.
    fn connector(&self, host: &str) -> &TlsConnector {
        if self.exact.is_empty() && self.wildcard.is_empty() {
            return &self.connector;
        }
        let host = host.to_ascii_lowercase();
        let parent = host.split_once('.').map(|(_, parent)| parent);
        self.exact.get(&host).or_else(|| self.wildcard.get(parent?)).unwrap_or(&self.connector)
    }

    pub(super) fn from_client_config(config: ClientConfig) -> Self {
        let connector = TlsConnector::from(Arc::new(config));
        Self { connector, exact: HashMap::new(), wildcard: HashMap::new() }
    }
}

impl EndpointTls {
    fn connector(&self, general: &Arc<RootCertStore>) -> Result<TlsConnector, TlsError> {
        let pair = self.hosts.join(", ");
        let roots = if self.ca_pems.is_empty() {
            Arc::clone(general)
        } else {
            let named = |(index, problem)| {
                let pair = pair.clone();
                TlsError::BadEndpointRoot { pair, index, problem }
            };
            Arc::new(roots_of(&self.ca_pems).map_err(named)?)
        };
        let with_roots = builder().with_root_certificates(roots);
        let config = match &self.identity {
            None => with_roots.with_no_client_auth(),
            Some((cert, key)) => {
                let certified = read_pair(&pair, cert, key)?;
                with_roots.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
            }
        };
        Ok(TlsConnector::from(Arc::new(finish(config))))
    }
}

/// Adds the common settings of all configurations.
fn finish(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![ALPN_HTTP1.to_vec()];
    config.resumption = Resumption::in_memory_sessions(base::limits::TLS_SESSIONS_MAX);
    config
}

/// The certificates in `pems`; or the position of the one that is not valid, and its problem.
fn roots_of(pems: &[Vec<u8>]) -> Result<RootCertStore, (usize, String)> {
    let mut roots = RootCertStore::empty();
    for (index, pem) in pems.iter().enumerate() {
        add_roots(&mut roots, pem).map_err(|problem| (index, problem))?;
    }
    Ok(roots)
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("aws-lc-rs has suites for TLS 1.2 and 1.3")
}

pub(super) fn add_roots(
    roots: &mut RootCertStore,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| pem_problem(&error).to_owned())?;
    if certificates.is_empty() {
        return Err("no `BEGIN CERTIFICATE` block in the PEM".to_owned());
    }
    for certificate in &certificates {
        roots.add(certificate.clone()).map_err(|error| error.to_string())?;
    }
    Ok(certificates)
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
