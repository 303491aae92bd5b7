//! Connections to the target. The address is resolved once; TLS as required by the URL.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use wire::stream::Stream;
use wire::tls::{ALPN_H2, ClientTls};

use crate::load::request::Destination;
use crate::load::{Authorities, LoadError, Options, Protocol};

pub(crate) struct Connector {
    addresses: Vec<SocketAddr>,
    tls: Option<(Arc<ClientTls>, String)>,
    is_http2: bool,
}

impl Connector {
    /// # Errors
    /// [`LoadError::Name`]: the host cannot be resolved. [`LoadError::Tls`]: no certificate authority to
    /// trust.
    pub(crate) async fn new(
        target: &Destination,
        authorities: &Authorities,
        options: &Options,
    ) -> Result<Self, LoadError> {
        let unknown = |source| LoadError::Name { host: target.host.clone(), source };
        let name = (target.host.as_str(), target.port);
        let found = tokio::net::lookup_host(name).await.map_err(unknown)?;
        let addresses: Vec<_> = found.collect();
        if addresses.is_empty() {
            return Err(unknown(io::ErrorKind::NotFound.into()));
        }
        let is_http2 = matches!(options.protocol, Protocol::Http2 { .. });
        let tls = if target.secure {
            let tls = client_tls(authorities)?;
            let resumes = !options.connection_per_request;
            Some((tls.for_load(is_http2, resumes), target.host.clone()))
        } else {
            None
        };
        Ok(Self { addresses, tls, is_http2 })
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
            Some((tls, name)) => {
                let stream = tls.connect(tcp, name).await?;
                if self.is_http2 && stream.alpn() != Some(ALPN_H2) {
                    return Err(io::Error::other("the server did not agree to HTTP/2 (ALPN `h2`)"));
                }
                Ok(stream)
            }
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
