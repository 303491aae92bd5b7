//! Connections to the target. Its address is resolved once; TLS as required by the URL.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use wire::stream::Stream;
use wire::tls::ClientTls;

use crate::load::request::Destination;
use crate::load::{Authorities, LoadError};

pub(crate) struct Connector {
    addresses: Vec<SocketAddr>,
    tls: Option<(Arc<ClientTls>, String)>,
}

impl Connector {
    /// # Errors
    /// [`LoadError::Name`]: the host cannot be resolved. [`LoadError::Tls`]: no certificate authority to
    /// trust.
    pub(crate) async fn new(
        target: &Destination,
        authorities: &Authorities,
    ) -> Result<Self, LoadError> {
        let unknown = |source| LoadError::Name { host: target.host.clone(), source };
        let name = (target.host.as_str(), target.port);
        let found = tokio::net::lookup_host(name).await.map_err(unknown)?;
        let addresses: Vec<_> = found.collect();
        if addresses.is_empty() {
            return Err(unknown(io::ErrorKind::NotFound.into()));
        }
        let tls = if target.secure {
            Some((client_tls(authorities)?, target.host.clone()))
        } else {
            None
        };
        Ok(Self { addresses, tls })
    }

    /// Connects to the first address that accepts.
    ///
    /// # Errors
    /// The error of the last address, or of the TLS handshake.
    pub(crate) async fn open(&self) -> io::Result<Stream> {
        let tcp = TcpStream::connect(&self.addresses[..]).await?;
        tcp.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Stream::Clear(tcp)),
            Some((tls, name)) => tls.connect(tcp, name).await,
        }
    }
}

fn client_tls(authorities: &Authorities) -> Result<Arc<ClientTls>, LoadError> {
    let trusting = match authorities {
        Authorities::Any => return Ok(ClientTls::insecure()),
        Authorities::System => ClientTls::new(&[], true),
        Authorities::Pem(pem) => ClientTls::new(&[pem.clone().into_bytes()], false),
    };
    trusting.map_err(|error| LoadError::Tls(error.to_string()))
}
