//! One side of a connection, in clear or over TLS, blocking.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection, StreamOwned};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use socket2::{Domain, Type};
use wire::tls::{CertificateSet, ServerCertificates};

use crate::{PATIENCE, now_s};

/// A certificate for some hosts, usually self-signed.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate in PEM; those of its issuers may follow.
    pub cert_pem: String,
    pub key_pem: String,
}

impl Identity {
    /// A new one for `hosts`.
    #[must_use]
    pub fn of(hosts: &[&str]) -> Self {
        let (cert_pem, key_pem) = wire::tls::generate_self_signed(hosts, now_s()).unwrap();
        Self { cert_pem, key_pem }
    }

    pub(crate) fn certificates(&self) -> CertificateSet {
        CertificateSet::load(Some((self.cert_pem.as_bytes(), self.key_pem.as_bytes())), Vec::new())
            .unwrap()
    }

    /// The certificate in DER.
    #[must_use]
    pub fn certificate(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.cert_pem.as_bytes()).unwrap()
    }

    pub(crate) fn server(&self) -> Arc<rustls::ServerConfig> {
        wire::tls::server_config(Arc::new(ServerCertificates::new(self.certificates())), false)
    }

    /// A server that requires a client with the certificate `client`.
    pub(crate) fn server_for(&self, client: &Self) -> Arc<rustls::ServerConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(client.cert_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
            Arc::new(roots),
            Arc::clone(&provider),
        );
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_cert_resolver(Arc::new(ServerCertificates::new(self.certificates())));
        Arc::new(config)
    }

    /// A client configuration that trusts only this certificate and offers `alpn`.
    #[must_use]
    pub fn client(&self, alpn: &[&str]) -> Arc<ClientConfig> {
        self.config(alpn, None)
    }

    /// The same, with the certificate of `identity` for servers that ask for one.
    #[must_use]
    pub fn client_as(&self, alpn: &[&str], identity: &Self) -> Arc<ClientConfig> {
        self.config(alpn, Some(identity))
    }

    fn config(&self, alpn: &[&str], identity: Option<&Self>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.cert_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap();
                let chain = CertificateDer::pem_slice_iter(identity.cert_pem.as_bytes());
                builder.with_client_auth_cert(chain.map(Result::unwrap).collect(), key).unwrap()
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

/// An authority that issues certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    #[must_use]
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(Self::params(name), key).unwrap())
    }

    /// One that this one has certified.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::signed_by(Self::params(name), key, &self.0).unwrap())
    }

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params
    }

    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    #[must_use]
    pub fn der(&self) -> Vec<u8> {
        self.0.der().to_vec()
    }

    /// Itself, as a client.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity { cert_pem: self.pem(), key_pem: self.0.key().serialize_pem() }
    }

    /// A certificate for `host`, without that of the authority.
    #[must_use]
    pub fn issue(&self, host: &str) -> Identity {
        let (params, key) = (CertificateParams::new([host.to_owned()]), KeyPair::generate());
        let key = key.unwrap();
        let certificate = params.unwrap().signed_by(&key, &self.0).unwrap();
        Identity { cert_pem: certificate.pem(), key_pem: key.serialize_pem() }
    }
}

/// One side of a connection.
#[derive(Debug)]
pub struct Socket {
    tcp: TcpStream,
    tls: Option<Tls>,
    /// It ended by a reset, or over TLS without `close_notify`.
    broken: bool,
}

#[derive(Debug)]
enum Tls {
    Client(Box<StreamOwned<ClientConnection, TcpStream>>),
    Server(Box<StreamOwned<ServerConnection, TcpStream>>),
}

/// Connects from `source`. `buffer_bytes`: the size of the system's buffer for unread bytes.
pub(crate) fn connect_from(
    source: IpAddr,
    address: SocketAddr,
    buffer_bytes: Option<usize>,
) -> TcpStream {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
    if let Some(bytes) = buffer_bytes {
        socket.set_recv_buffer_size(bytes).unwrap();
    }
    socket.bind(&SocketAddr::new(source, 0).into()).unwrap();
    socket.connect(&address.into()).unwrap_or_else(|e| panic!("connect {address}: {e}"));
    socket.into()
}

impl Socket {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let tcp = TcpStream::connect(address).unwrap_or_else(|e| panic!("connect {address}: {e}"));
        Self::clear(tcp)
    }

    pub(crate) fn connect_from(source: IpAddr, address: SocketAddr) -> Self {
        Self::clear(connect_from(source, address, None))
    }

    pub(crate) fn connect_with_buffer(source: IpAddr, address: SocketAddr, bytes: usize) -> Self {
        Self::clear(connect_from(source, address, Some(bytes)))
    }

    pub(crate) fn clear(tcp: TcpStream) -> Self {
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.set_write_timeout(Some(PATIENCE)).unwrap();
        tcp.set_nodelay(true).unwrap();
        Self { tcp, tls: None, broken: false }
    }

    pub(crate) fn tls_client(self, config: Arc<ClientConfig>, host: &str) -> Self {
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let connection = ClientConnection::new(config, name).unwrap();
        let tcp = self.tcp.try_clone().unwrap();
        let tls = Tls::Client(Box::new(StreamOwned::new(connection, tcp)));
        Self { tls: Some(tls), ..self }
    }

    pub(crate) fn tls_server(self, config: Arc<rustls::ServerConfig>) -> Self {
        let connection = ServerConnection::new(config).unwrap();
        let tcp = self.tcp.try_clone().unwrap();
        let tls = Tls::Server(Box::new(StreamOwned::new(connection, tcp)));
        Self { tls: Some(tls), ..self }
    }

    /// The protocol selected by ALPN, after the handshake.
    #[must_use]
    pub fn alpn(&self) -> Option<String> {
        let name = match self.tls.as_ref()? {
            Tls::Client(stream) => stream.conn.alpn_protocol(),
            Tls::Server(stream) => stream.conn.alpn_protocol(),
        };
        name.map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// Completes the TLS handshake; false if it fails.
    pub(crate) fn handshake_succeeds(&mut self) -> bool {
        let tcp = &mut self.tcp;
        let done = match &mut self.tls {
            None => return true,
            Some(Tls::Client(stream)) => stream.conn.complete_io(tcp),
            Some(Tls::Server(stream)) => stream.conn.complete_io(tcp),
        };
        done.is_ok()
    }

    /// A second handle, to shut the connection down from elsewhere.
    pub(crate) fn handle(&self) -> TcpStream {
        self.tcp.try_clone().unwrap()
    }

    /// Closes the sending side.
    pub(crate) fn half_close(&mut self) {
        match &mut self.tls {
            Some(Tls::Client(stream)) => {
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
            Some(Tls::Server(stream)) => {
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
            None => {}
        }
        // The other side may have closed both already.
        let _ = self.tcp.shutdown(Shutdown::Write);
    }

    /// Closes with a reset.
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.tcp).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    }

    /// Whether a read would find bytes, or the end, at once.
    pub(crate) fn has_bytes(&self) -> bool {
        self.tcp.set_nonblocking(true).unwrap();
        let found = self.tcp.peek(&mut [0]).is_ok();
        self.tcp.set_nonblocking(false).unwrap();
        found
    }

    /// One read; 0 at the end. A reset and a TLS alert count as the end; `Err` is a timeout.
    pub(crate) fn read_some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match &mut self.tls {
                None => self.tcp.read(buf),
                Some(Tls::Client(stream)) => stream.read(buf),
                Some(Tls::Server(stream)) => stream.read(buf),
            };
            match read {
                Err(error) if is_end(error.kind()) => {
                    self.broken = true;
                    return Ok(0);
                }
                // A process that was stopped and continues.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Whether it ended by a reset, or over TLS without `close_notify`.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.tcp.write_all(bytes),
            Some(Tls::Client(stream)) => stream.write_all(bytes).and_then(|()| stream.flush()),
            Some(Tls::Server(stream)) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}

fn is_end(kind: ErrorKind) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, InvalidData, UnexpectedEof};
    matches!(kind, ConnectionReset | BrokenPipe | UnexpectedEof | InvalidData)
}
