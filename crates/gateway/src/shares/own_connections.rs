//! Connections of this process to its own listeners: an API whose endpoint is a proxy of the same gateway, or a proxy
//! that calls another one. Their requests take no turn ([`crate::worker::saturation`]), since the request that waits
//! for them has one: with all turns taken by such requests, none of them could go on.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpStream;

/// The local addresses of open connections that lead to this machine. Shared by all workers; locked when such a
/// connection is opened or closed, and when a connection from this machine waits for its first turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnConnections(Arc<Mutex<HashSet<SocketAddr>>>);

/// A connection that leads to this machine, until dropped.
#[derive(Debug)]
pub(crate) struct OwnConnection {
    all: OwnConnections,
    from: SocketAddr,
}

impl OwnConnections {
    fn lock(&self) -> MutexGuard<'_, HashSet<SocketAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: the connection leads to another machine. To be called before anything is sent.
    pub(crate) fn open(&self, tcp: &TcpStream) -> Option<OwnConnection> {
        let (from, to) = tcp.local_addr().ok().zip(tcp.peer_addr().ok())?;
        if from.ip() != to.ip() && !from.ip().is_loopback() {
            return None;
        }
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        self.lock().insert(from);
        Some(OwnConnection { all: self.clone(), from })
    }

    /// Whether a connection that was accepted from `from`, in canonical form, is one of them.
    pub(crate) fn contains(&self, from: SocketAddr) -> bool {
        self.lock().contains(&from)
    }
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        self.all.lock().remove(&self.from);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    use super::*;
    use crate::message::Peer;

    #[tokio::test(flavor = "current_thread")]
    async fn a_connection_to_this_machine_is_own_while_it_is_open() {
        let own = OwnConnections::default();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (_accepted, from) = listener.accept().await.unwrap();
        let peer = || Peer::new(from, false, &[]);
        assert!(!peer().is_own(&own), "a client on this machine, but not this process");
        let opened = own.open(&tcp);
        assert!(peer().is_own(&own));
        drop(opened);
        assert!(!peer().is_own(&own), "its port may be another's now");
    }
}
