//! Connections to one endpoint, kept between requests. Each worker has its own.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::SystemEntropy;
use base::limits::IDLE_UPSTREAM_MS_MAX;
use model::{Endpoint, Fault, Scheme};
use tokio::net::{TcpStream, lookup_host};
use wire::stream::Stream;
use wire::tls::ClientTls;

use super::body::{RequestBody, Unwanted, while_wanted};
use super::gate::{Gate, Pass, Refusal, SetLimits, Waiting};
use super::shared::Shared;

/// The key of a pool: endpoints with different paths share connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Address {
    scheme: Scheme,
    host: String,
    port: u16,
}

/// A worker's pools by address.
#[derive(Debug)]
pub(crate) struct Pools {
    by_address: RefCell<HashMap<Address, Rc<Pool>>>,
    shared: Arc<Shared>,
}

/// The pools of a single worker.
impl Default for Pools {
    fn default() -> Self {
        Self::new(Shared::new(1, &SystemEntropy))
    }
}

impl Pools {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { by_address: RefCell::default(), shared }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The pool of `endpoint`'s address, created if needed.
    pub(crate) fn of(&self, endpoint: &Endpoint) -> Rc<Pool> {
        let address =
            Address { scheme: endpoint.scheme, host: endpoint.host.clone(), port: endpoint.port };
        let mut pools = self.by_address.borrow_mut();
        Rc::clone(pools.entry(address).or_insert_with_key(|address| {
            Rc::new(Pool {
                address: address.clone(),
                idle: RefCell::default(),
                gate: Rc::default(),
                waiting_for_set: Cell::new(0),
                opened: Cell::new(0),
                failed: Cell::new(0),
            })
        }))
    }

    /// Closes connections that were idle for too long, and drops unused pools.
    pub(crate) fn sweep(&self, now_us: u64) {
        self.by_address.borrow_mut().retain(|_, pool| {
            pool.close_idle(now_us);
            Rc::strong_count(pool) > 1 || !pool.idle.borrow().is_empty()
        });
    }

    /// Visits every pool: host, port and figures.
    pub(crate) fn each(&self, mut visit: impl FnMut(&str, u16, PoolFigures)) {
        for pool in self.by_address.borrow().values() {
            visit(&pool.address.host, pool.address.port, pool.figures());
        }
    }
}

/// A pool's figures for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolFigures {
    pub(crate) idle: u64,
    pub(crate) in_use: u64,
    pub(crate) waiting: u64,
    pub(crate) opened: u64,
    pub(crate) failed: u64,
}

/// Connections to one address.
#[derive(Debug)]
pub(crate) struct Pool {
    address: Address,
    /// The most recently used one is last and is used first, so that surplus connections expire.
    idle: RefCell<Vec<Idle>>,
    gate: Rc<Gate>,
    /// Requests that wait because of the limits of their endpoint set.
    waiting_for_set: Cell<usize>,
    opened: Cell<u64>,
    failed: Cell<u64>,
}

#[derive(Debug)]
struct Idle {
    stream: Stream,
    since_us: u64,
}

/// Why no connection was leased.
#[derive(Debug)]
pub(crate) struct ConnectFailure {
    pub(crate) fault: Fault,
    /// Connecting to the endpoint was attempted; otherwise the pool was at its limit.
    pub(crate) attempted: bool,
}

/// Whether an idle connection may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    Any,
    /// A retry: only a new connection.
    Fresh,
}

/// A leased connection. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) stream: Stream,
    /// It has served requests before, so the upstream may have closed it as idle.
    pub(crate) reused: bool,
    pool: Rc<Pool>,
    idle_max: usize,
    _passes: Passes,
}

/// How a connection is leased.
pub(crate) struct Leasing<'a> {
    pub(crate) freshness: Freshness,
    pub(crate) tls: &'a ClientTls,
    pub(crate) limits: &'a SetLimits,
    pub(crate) connect_ms: u32,
    /// On the worker's clock.
    pub(crate) now_us: u64,
    pub(crate) deadline_us: u64,
}

/// The pool's, and the endpoint set's if it has limits of its own.
type Passes = (Pass, Option<Pass>);

impl Lease {
    /// Returns the connection to its pool. Both bodies must be complete, and nothing unread.
    pub(crate) fn release(self, now_us: u64) {
        let mut idle = self.pool.idle.borrow_mut();
        if idle.len() < self.idle_max {
            idle.push(Idle { stream: self.stream, since_us: now_us });
        }
    }
}

impl Pool {
    /// Leases a connection: an idle one that is still open, or a new one; if a limit is reached, after another is
    /// released. The wait ends when the watch of `body` expires, or its sender leaves.
    ///
    /// # Errors
    /// [`ConnectFailure`] with [`Fault::Unreachable`], [`Fault::ConnectTimeout`], [`Fault::NotReady`] if the queue is
    /// full, or the fault of a sender that left.
    pub(crate) async fn lease(
        self: &Rc<Self>,
        leasing: Leasing<'_>,
        body: &mut impl RequestBody,
    ) -> Result<Lease, ConnectFailure> {
        let passes = self.passes(&leasing, body).await;
        let passes = passes.map_err(|fault| ConnectFailure { fault, attempted: false })?;
        let lease = |stream, reused| Lease {
            stream,
            reused,
            pool: Rc::clone(self),
            idle_max: leasing.limits.idle_max,
            _passes: passes,
        };
        if leasing.freshness == Freshness::Any
            && let Some(stream) = self.take_idle()
        {
            return Ok(lease(stream, true));
        }
        let Leasing { tls, connect_ms, .. } = leasing;
        let authority = self.authority();
        // Boxed, so that the rare case does not enlarge every future.
        let fault = match while_wanted(body, Box::pin(self.connect(tls, connect_ms))).await {
            Ok(Ok(stream)) => {
                self.opened.set(self.opened.get() + 1);
                return Ok(lease(stream, false));
            }
            Ok(Err(error)) => {
                let (attempted, cause) = (!is_local(&error), error.to_string());
                self.failed.set(self.failed.get() + 1);
                let fault = Fault::Unreachable { authority, cause };
                return Err(ConnectFailure { fault, attempted });
            }
            Err(Unwanted::TimeUp) => Fault::ConnectTimeout { authority, waited_ms: connect_ms },
            Err(Unwanted::Left(fault)) => return Err(ConnectFailure { fault, attempted: false }),
        };
        self.failed.set(self.failed.get() + 1);
        Err(ConnectFailure { fault, attempted: true })
    }

    async fn passes(
        &self,
        leasing: &Leasing<'_>,
        body: &mut impl RequestBody,
    ) -> Result<Passes, Fault> {
        let wait_us = leasing.limits.wait_ms.map(|ms| u64::from(ms) * 1_000);
        let wait_end_us = wait_us.map(|wait_us| leasing.now_us.saturating_add(wait_us));
        body.watch().set(wait_end_us.unwrap_or(u64::MAX).min(leasing.deadline_us));
        let refused = |refusal| match refusal {
            Refusal::Unwanted(Unwanted::Left(fault)) => fault,
            Refusal::Unwanted(Unwanted::TimeUp) if wait_end_us.is_none() => {
                let waited_ms = leasing.connect_ms;
                Fault::ConnectTimeout { authority: self.authority(), waited_ms }
            }
            Refusal::Full | Refusal::Unwanted(Unwanted::TimeUp) => {
                Fault::NotReady { authority: self.authority() }
            }
        };
        let of_set = match &leasing.limits.gate {
            Some(gate) => {
                let waiting = Waiting::new(&self.waiting_for_set);
                let pass = gate.pass(body).await;
                drop(waiting);
                Some(pass.map_err(refused)?)
            }
            None => None,
        };
        let of_pool = self.gate.pass(body).await.map_err(refused)?;
        if wait_end_us.is_some() {
            body.watch().set(leasing.deadline_us);
        }
        Ok((of_pool, of_set))
    }

    /// Requests that use a connection or wait for one.
    pub(crate) fn requests(&self) -> usize {
        self.gate.in_use() + self.waiting()
    }

    fn waiting(&self) -> usize {
        self.gate.waiting() + self.waiting_for_set.get()
    }

    #[cfg(test)]
    pub(crate) fn enter(&self) -> Pass {
        self.gate.enter()
    }

    /// The most recently used idle connection that its peer has not closed. The check costs no system call
    /// unless something arrived.
    fn take_idle(&self) -> Option<Stream> {
        let mut idle = self.idle.borrow_mut();
        while let Some(mut found) = idle.pop() {
            if !found.stream.is_stale() {
                return Some(found.stream);
            }
        }
        None
    }

    async fn connect(&self, tls: &ClientTls, connect_ms: u32) -> io::Result<Stream> {
        let Address { scheme, host, port } = &self.address;
        #[cfg(test)]
        if let Some(connected) = crate::simulation::connect(*port).await {
            return connected;
        }
        let addresses: Vec<_> = lookup_host((host.as_str(), *port)).await?.collect();
        let tcp = connect_to_one_of(&addresses, connect_ms).await?;
        tcp.set_nodelay(true)?;
        match scheme {
            Scheme::Http => Ok(Stream::Clear(tcp)),
            Scheme::Https => tls.connect(tcp, host).await,
        }
    }

    fn close_idle(&self, now_us: u64) {
        let oldest_us = now_us.saturating_sub(u64::from(IDLE_UPSTREAM_MS_MAX) * 1_000);
        self.idle.borrow_mut().retain(|kept| kept.since_us >= oldest_us);
    }

    fn authority(&self) -> String {
        format!("{}:{}", self.address.host, self.address.port)
    }

    fn figures(&self) -> PoolFigures {
        PoolFigures {
            idle: self.idle.borrow().len() as u64,
            in_use: self.gate.in_use() as u64,
            waiting: self.waiting() as u64,
            opened: self.opened.get(),
            failed: self.failed.get(),
        }
    }
}

/// Whether the connection failed for lack of something on this machine, such as descriptors, memory or ports.
fn is_local(error: &io::Error) -> bool {
    use nix::errno::Errno::{EADDRNOTAVAIL, EMFILE, ENFILE, ENOBUFS, ENOMEM};
    let lacking = [EADDRNOTAVAIL, EMFILE, ENFILE, ENOBUFS, ENOMEM];
    error.raw_os_error().is_some_and(|code| lacking.iter().any(|lacking| *lacking as i32 == code))
}

/// Tries each address in turn, each but the last for its share of the time, so that an address that drops
/// packets does not prevent the next attempt. The last one is limited by the caller.
async fn connect_to_one_of(addresses: &[SocketAddr], connect_ms: u32) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    let share = Duration::from_millis(u64::from(connect_ms)) / shares_of(addresses.len());
    let last = addresses.len().saturating_sub(1);
    for (position, address) in addresses.iter().enumerate() {
        let connecting = TcpStream::connect(address);
        let tried = if position == last {
            connecting.await
        } else {
            let tried = tokio::time::timeout(share, connecting).await;
            tried.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        };
        match tried {
            Ok(tcp) => return Ok(tcp),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn shares_of(addresses: usize) -> u32 {
    u32::try_from(addresses).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Socket, Type};

    use super::*;

    /// A listener whose queue is full: Linux drops further connection attempts.
    fn black_hole() -> (Socket, Vec<Socket>, SocketAddr) {
        let tcp = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let listener = tcp();
        listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let queued = std::iter::repeat_with(|| {
            let waiting = tcp();
            waiting.set_nonblocking(true).unwrap();
            // Stays in progress for those beyond the queue.
            let _ = waiting.connect(&address);
            waiting
        });
        let queued = queued.take(3).collect();
        (listener, queued, address.as_socket().unwrap())
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_next_address_is_tried_if_one_drops_packets() {
        let (_listener, _queued, hole) = black_hole();
        let good = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = [hole, good.local_addr().unwrap()];
        let connected = connect_to_one_of(&addresses, 200).await.unwrap();
        assert_eq!(connected.peer_addr().unwrap(), addresses[1]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_last_failure_is_returned_if_no_address_accepts() {
        let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = closed.local_addr().unwrap();
        drop(closed);
        let failure = connect_to_one_of(&[address, address], 200).await.unwrap_err();
        assert_eq!(failure.kind(), io::ErrorKind::ConnectionRefused);
        let nothing = connect_to_one_of(&[], 200).await.unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::NotFound);
    }
}
