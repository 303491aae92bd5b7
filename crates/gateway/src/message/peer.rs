//! The client's address, and what follows from it.

use std::cell::{OnceCell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use base::addresses;
use base::limits::JUDGED_APIS_MAX;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use stages::authenticate;
use wire::http1::write;
use wire::tls::CertificateDer;

use crate::client_trust::{AcceptedFor, Trust};
use crate::clients::ClientConnection;
use crate::own_connections::OwnConnections;
use crate::share::Share;

/// What the requests of a listener are for.
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
    /// Of `address`.
    pub(crate) port: u16,
    /// See [`Self::is_own`].
    pub(crate) own: OnceCell<bool>,
    pub(crate) serves: Serves,
    /// It is one of `trusted_proxies`, whose `X-Forwarded-*` fields are trusted.
    pub(crate) trusted: bool,
    /// `X-Forwarded-For` and `X-Forwarded-Proto` lines to add; empty for a trusted proxy, whose own are
    /// forwarded.
    pub(crate) forwarded_lines: Vec<u8>,
    /// SHA-256 of the certificate that it has proven in the TLS handshake.
    pub(crate) certificate: Option<[u8; 32]>,
    /// That certificate, and those of its issuers that came with it.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// What the lists of APIs say of it.
    pub(crate) judged: RefCell<Vec<(Arc<Trust>, AcceptedFor)>>,
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
            chain: Vec::new(),
            judged: RefCell::default(),
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
        let Some(certificate) = chain.first() else { return };
        self.chain = chain.to_vec();
        self.certificate = Some(authenticate::thumbprint(certificate));
        if forward && !self.trusted {
            let text = BASE64_STANDARD.encode(certificate);
            write::field(&mut self.forwarded_lines, b"X-WSO2-CLIENT-CERTIFICATE", text.as_bytes());
        }
    }

    /// The endpoints of an API for which its certificate is accepted at `now_s`. `trust`: the lists of the API; `None`: it
    /// accepts all that the listener does.
    pub(crate) fn accepted_for(&self, trust: Option<&Arc<Trust>>, now_s: u64) -> AcceptedFor {
        let (Some(hash), Some(trust)) = (&self.certificate, trust) else {
            let has_certificate = self.certificate.is_some();
            return if has_certificate { AcceptedFor::ALL } else { AcceptedFor::default() };
        };
        let mut judged = self.judged.borrow_mut();
        if let Some((_, known)) = judged.iter().find(|(of, _)| Arc::ptr_eq(of, trust)) {
            return *known;
        }
        let found = trust.judge(hash, &self.chain, now_s);
        if judged.len() >= JUDGED_APIS_MAX {
            judged.clear();
        }
        judged.push((Arc::clone(trust), found));
        found
    }

    /// Whether the connection is one of this process. To be asked when a request has arrived.
    pub(crate) fn is_own(&self, connections: &OwnConnections) -> bool {
        *self.own.get_or_init(|| connections.contains(SocketAddr::new(self.address, self.port)))
    }

    /// What its client holds over all its connections; `None` for a trusted proxy.
    pub(crate) fn share(&self) -> Option<&Share> {
        self.connection.as_ref().map(ClientConnection::share)
    }
}
