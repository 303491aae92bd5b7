//! The echo backend.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// How to listen and answer.
#[derive(Clone, Debug)]
pub struct Options {
    /// Port 0 picks a free one.
    pub listen: SocketAddr,
    /// Wait before each answer, in milliseconds, without holding up anything else.
    pub delay_ms: u64,
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Threads; default: the CPUs allowed.
    pub workers: Option<usize>,
}

/// A running echo backend on threads of its own. Dropped or stopped, it closes its connections.
#[derive(Debug)]
pub struct Echo {
    addr: SocketAddr,
}

impl Echo {
    /// # Errors
    /// When the address cannot be bound, or threads cannot be started.
    pub fn start(options: Options) -> io::Result<Self> {
        let _ = options;
        Err(io::ErrorKind::Unsupported.into())
    }

    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Requests answered so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        0
    }

    pub fn stop(self) {}
}
