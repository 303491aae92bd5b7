//! The client's address, and values derived from it.

use std::cell::OnceCell;
use std::net::{IpAddr, SocketAddr};

use base::addresses;
use wire::http1::write;
use wire::tls::CertificateDer;

use crate::shares::clients::ClientConnection;
use crate::shares::own_connections::OwnConnections;
use crate::shares::share::Share;

use super::certificate::{CERTIFICATE_FIELD, ClientCertificate};

/// The services that a listener's requests are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Serves {
    /// The APIs of OpenAPI files.
    #[default]
    Apis,
    /// Synapse's proxies and APIs.
    Integration,
    /// The inbound endpoint with this port in its artefact.
    Inbound(u16),
}

/// The client's end of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// The port of `address`.
    pub(crate) port: u16,
    /// See [`Self::is_own`].
    pub(crate) own: OnceCell<bool>,
    pub(crate) serves: Serves,
    /// It is one of `trusted_proxies`, whose `X-Forwarded-*` fields are trusted.
    pub(crate) trusted: bool,
    /// `X-Forwarded-For` and `X-Forwarded-Proto` lines to add; empty for a trusted proxy, whose own are
    /// forwarded.
    pub(crate) forwarded_lines: Vec<u8>,
    /// The one that it has proven in the TLS handshake.
    pub(crate) certificate: Option<ClientCertificate>,
    /// Counts this connection as one of its client; `None` for a trusted proxy.
    pub(crate) connection: Option<ClientConnection>,
}

impl Default for Peer {
    fn default() -> Self {
        let address = IpAddr::from([0, 0, 0, 0]);
        Self {
            address,
            port: 0,
            own: OnceCell::new(),
            serves: Serves::Apis,
            trusted: false,
            forwarded_lines: Vec::new(),
            certificate: None,
            connection: None,
        }
    }
}

impl Peer {
    pub(crate) fn new(from: SocketAddr, secure: bool, trusted_proxies: &[(IpAddr, u8)]) -> Self {
        let address = from.ip().to_canonical();
        let trusted = addresses::is_in(trusted_proxies, address);
        let scheme = if secure { "https" } else { "http" };
        let lines = format!("X-Forwarded-For: {address}\r\nX-Forwarded-Proto: {scheme}\r\n");
        let forwarded_lines = if trusted { Vec::new() } else { lines.into_bytes() };
        Self { address, port: from.port(), trusted, forwarded_lines, ..Self::default() }
    }

    /// Records the verified certificate of the connection, the first one of `chain`. `forward`: upstreams get it.
    pub(crate) fn present(&mut self, chain: &[CertificateDer<'static>], forward: bool) {
        self.certificate = ClientCertificate::new(chain);
        if let Some(certificate) = self.certificate.as_ref().filter(|_| forward && !self.trusted) {
            write::field(
                &mut self.forwarded_lines,
                CERTIFICATE_FIELD,
                certificate.base64().as_bytes(),
            );
        }
    }

    /// Whether the connection is one of this process. To be asked when a request has arrived.
    pub(crate) fn is_own(&self, connections: &OwnConnections) -> bool {
        *self.own.get_or_init(|| connections.contains(SocketAddr::new(self.address, self.port)))
    }

    /// The network of the peer's client, if that has a share of its own.
    pub(crate) fn network(&self) -> Option<u128> {
        self.connection.as_ref().map(ClientConnection::network)
    }

    /// The share of the peer's client, over all its connections; `None` for a trusted proxy.
    pub(crate) fn share(&self) -> Option<&Share> {
        self.connection.as_ref().map(ClientConnection::share)
    }
}
