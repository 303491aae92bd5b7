//! The addresses that the gateway listens on, and why it did not start.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

use base::limits::ACCEPT_BACKLOG;
use socket2::{Domain, Socket, Type};

/// Why the gateway did not start. Messages name the setting to change.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("address {address} is in use; choose another port with `{setting}`")]
    AddressInUse { address: SocketAddr, setting: &'static str },
    #[error("cannot listen on {address} (`{setting}`): {source}")]
    Listen { address: SocketAddr, setting: &'static str, source: io::Error },
    #[error("connections cannot come from {address} (`[gateway] source_addresses`): {source}")]
    SourceAddress { address: IpAddr, source: io::Error },
    #[error("cannot open the access log (`[access_log] to`): {0}")]
    AccessLog(io::Error),
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
    #[error("no listener: set `http` or `https` of `[gateway]` or `[integration]`")]
    NoListener,
}

impl StartError {
    pub(crate) fn listen(address: SocketAddr, setting: &'static str, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::AddrInUse {
            Self::AddressInUse { address, setting }
        } else {
            Self::Listen { address, setting, source }
        }
    }
}

/// The listeners of one setting, one per worker.
#[derive(Default)]
pub(crate) struct Bound {
    pub(crate) address: Option<SocketAddr>,
    pub(crate) listeners: Vec<TcpListener>,
}

impl Bound {
    pub(crate) fn of(
        address: Option<SocketAddr>,
        setting: &'static str,
        count: usize,
    ) -> Result<Self, StartError> {
        let Some(address) = address else { return Ok(Self::default()) };
        let bound = bind_all(address, count);
        let failed = |error| StartError::listen(address, setting, error);
        let (address, listeners) = bound.map_err(failed)?;
        Ok(Self { address: Some(address), listeners })
    }
}

/// Binds `count` listeners to one address, on which no other process listens.
pub(super) fn bind_all(
    mut address: SocketAddr,
    count: usize,
) -> io::Result<(SocketAddr, Vec<TcpListener>)> {
    probe(address)?;
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        let listener = bind(address)?;
        address = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok((address, listeners))
}

/// Binds a worker's listener. The workers share the address through `SO_REUSEPORT`.
///
/// # Errors
/// The kernel's.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(ACCEPT_BACKLOG)?;
    Ok(socket.into())
}

/// Fails if another process listens on `address`, even if it would share the port.
///
/// # Errors
/// The kernel's; `AddrInUse` if the address is in use.
fn probe(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())
}
