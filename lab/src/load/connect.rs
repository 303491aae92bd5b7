//! Opening a connection to the target: its address is looked up once, TLS where the URL says so.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use base::limits;
use tokio::net::TcpStream;
use wire::stream::Stream;
use wire::tls::ClientTls;

use crate::load::request::Target;
use crate::load::{LoadError, Trust};

pub(crate) struct Connector {
    addresses: Vec<SocketAddr>,
    tls: Option<(Arc<ClientTls>, String)>,
}

impl Connector {
    /// # Errors
    /// [`LoadError::Name`] when the host is unknown, [`LoadError::Tls`] or [`LoadError::File`] when
    /// nobody could be trusted.
    pub(crate) async fn new(target: &Target, trust: &Trust) -> Result<Self, LoadError> {
        let unknown = |source| LoadError::Name { host: target.host.clone(), source };
        let name = (target.host.as_str(), target.port);
        let found = tokio::net::lookup_host(name).await.map_err(unknown)?;
        let addresses: Vec<_> = found.collect();
        if addresses.is_empty() {
            return Err(unknown(io::ErrorKind::NotFound.into()));
        }
        let tls =
            if target.secure { Some((client_tls(trust)?, target.host.clone())) } else { None };
        Ok(Self { addresses, tls })
    }

    /// A new connection, to the first of the host's addresses that takes one.
    ///
    /// # Errors
    /// The last address's, or the TLS handshake's.
    pub(crate) async fn open(&self) -> io::Result<Stream> {
        let tcp = TcpStream::connect(&self.addresses[..]).await?;
        tcp.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Stream::Clear(tcp)),
            Some((tls, name)) => tls.connect(tcp, name).await,
        }
    }
}

fn client_tls(trust: &Trust) -> Result<Arc<ClientTls>, LoadError> {
    let trusting = match trust {
        Trust::Insecure => return Ok(ClientTls::insecure()),
        Trust::System => ClientTls::new(&[], true),
        Trust::Ca(path) => ClientTls::new(&[read(path, limits::DOCUMENT_BYTES_MAX)?], false),
    };
    trusting.map_err(|error| LoadError::Tls(error.to_string()))
}

/// Reads a file of at most `most` bytes.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>, LoadError> {
    let file = |source| LoadError::File { path: path.to_owned(), source };
    let bytes = fs::metadata(path).map_err(file)?.len();
    if bytes > most {
        let path = path.display();
        return Err(LoadError::Content(format!("{path}: {bytes} bytes; at most {most} are read")));
    }
    fs::read(path).map_err(file)
}
