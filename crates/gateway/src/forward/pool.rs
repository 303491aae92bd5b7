//! Connections to one endpoint, kept between requests. Each worker has its own.

mod connection;
mod pools;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use model::{Denial, Fault};
use tokio::sync::watch;
use wire::tls::ClientTls;

pub(crate) use connection::Connection;
pub(crate) use pools::{PoolLimits, Pools};

use super::addresses::Addresses;
use super::connect::{Address, Connected, Opening, Report, connect, is_local, lacks_descriptors};
use super::names::{self, Name, Resolution};
use crate::body::request_body::{RequestBody, Unwanted, while_wanted};
use crate::message::resources::Resources;
use crate::shares::gate::{ConnectionGate, Pass, Refusal, SetLimits, Waiting};
use connection::Lease;
use pools::AllPools;

/// A pool's figures for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolFigures {
    pub(crate) idle: u64,
    pub(crate) in_use: u64,
    pub(crate) waiting: u64,
    pub(crate) opened: u64,
    pub(crate) failed: u64,
    /// Requests that wait for a connection or the head of the response.
    pub(crate) awaited: u64,
    /// Requests that were rejected since too many waited.
    pub(crate) shed: u64,
}

/// Connections to one address.
#[derive(Debug)]
pub(crate) struct Pool {
    all: Weak<AllPools>,
    /// Connections to all addresses.
    all_in_use: Rc<ConnectionGate>,
    address: Address,
    source: Source,
    opening: Opening,
    addresses: RefCell<Addresses<Box<Connection>>>,
    gate: ConnectionGate,
    /// Requests that wait because of the limits of their endpoint set.
    waiting_for_set: Cell<usize>,
    /// Requests in the count of `gate` that wait because of the limit on connections to all addresses.
    waiting_for_all: Cell<usize>,
    opened: Cell<u64>,
    failed: Cell<u64>,
    /// Requests that wait for a connection or the head of the response.
    awaited: Cell<usize>,
    shed: Cell<u64>,
}

/// Where a pool gets its addresses from.
#[derive(Debug)]
enum Source {
    /// The endpoint names one.
    Literal,
    /// All workers' knowledge of its name, which is kept up to date while one of them has it.
    Shared { resolution: RefCell<watch::Receiver<Resolution>>, _name: Arc<Name> },
}

/// Why no connection was leased.
#[derive(Debug)]
pub(crate) struct ConnectFailure {
    pub(crate) fault: Box<Fault>,
    /// The endpoint is not to blame: the pool was at its limit, or earlier waits used up the time.
    pub(crate) endpoint_blameless: bool,
}

/// Whether an idle connection may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    Any,
    /// A retry: only a new connection.
    Fresh,
}

/// How a connection is leased.
pub(crate) struct Leasing<'a> {
    pub(crate) resources: &'a Resources,
    pub(crate) freshness: Freshness,
    pub(crate) tls: &'a ClientTls,
    pub(crate) limits: &'a SetLimits,
    /// Longest wait to connect; before it, the longest wait for another request's connection, if `limits` have none.
    pub(crate) connect_ms: u32,
    /// End of all waits of the request, on the worker's clock.
    pub(crate) latest_us: u64,
}

/// The pool's, that of all pools, and the endpoint set's if it has limits of its own.
type Passes = (Pass, Pass, Option<Pass>);

/// Records how connecting to single addresses ends.
struct Outcomes<'a> {
    addresses: &'a RefCell<Addresses<Box<Connection>>>,
    now_us: u64,
}

impl Report for Outcomes<'_> {
    fn failed(&self, ip: IpAddr) {
        self.addresses.borrow_mut().failed(ip, self.now_us);
    }

    fn connected(&self, ip: IpAddr) {
        self.addresses.borrow_mut().connected(ip);
    }
}

impl Pool {
    /// Changes its idle connections, which are counted.
    fn change<T>(&self, change: impl FnOnce(&mut Addresses<Box<Connection>>) -> T) -> T {
        let mut addresses = self.addresses.borrow_mut();
        let before = addresses.idle();
        let result = change(&mut addresses);
        if let Some(all) = self.all.upgrade() {
            all.idle.set((all.idle.get() + addresses.idle()).saturating_sub(before));
        }
        result
    }

    /// Counts a request as waiting for a connection or the head of its response, until the guard is dropped. `None`:
    /// `most` wait already.
    pub(crate) fn await_response(&self, most: usize) -> Option<Waiting<'_>> {
        if self.awaited.get() >= most {
            self.shed.set(self.shed.get().wrapping_add(1));
            return None;
        }
        Some(Waiting::new(&self.awaited))
    }

    /// Leases a connection, which is closed when it is dropped: an idle one that is still open, or a new one; if a
    /// limit is reached, after another is released. The wait ends when the watch of `body` expires, or its sender
    /// leaves.
    ///
    /// # Errors
    /// [`ConnectFailure`] with [`Fault::Unreachable`], [`Fault::ConnectTimeout`], [`Fault::EndpointBusy`] if the queue
    /// is full, [`Fault::NotReady`] after the longest wait that the endpoint set allows, [`Denial::Overloaded`] if too
    /// many connections to all endpoints are in use, or the fault of a sender that left.
    pub(crate) async fn lease(
        self: &Rc<Self>,
        leasing: Leasing<'_>,
        body: &mut impl RequestBody,
    ) -> Result<Box<Connection>, ConnectFailure> {
        let passes = match self.try_passes(leasing.limits) {
            Some(passes) => passes,
            // Boxed, so that the rare cases do not enlarge every future.
            None => Box::pin(self.wait_for_passes(&leasing, body)).await?,
        };
        let (pool, idle_max) = (Rc::clone(self), leasing.limits.idle_max);
        let lease = Lease { pool, idle_max, _passes: passes };
        self.follow_name();
        let may_reuse = leasing.freshness == Freshness::Any;
        let now_us = leasing.resources.coarse_us();
        let is_open = |connection: &mut Box<Connection>| !connection.stream.is_stale();
        match self.change(|addresses| addresses.take(may_reuse, now_us, is_open)) {
            Ok((mut connection, _, _)) => {
                (connection.reused, connection.lease) = (true, Some(lease));
                Ok(connection)
            }
            Err(ips) => Box::pin(self.open(ips, leasing, lease, body)).await,
        }
    }

    /// Opens a connection to one of `ips`.
    ///
    /// # Errors
    /// As [`Pool::lease`].
    async fn open(
        &self,
        ips: Vec<IpAddr>,
        leasing: Leasing<'_>,
        lease: Lease,
        body: &mut impl RequestBody,
    ) -> Result<Box<Connection>, ConnectFailure> {
        let Leasing { resources, tls, connect_ms, .. } = leasing;
        let (authority, now_us) = (self.authority(), resources.coarse_us());
        // A request that has waited for other connections has as long for its own.
        let deadline_us = resources.deadline_us(connect_ms);
        body.watch().set(deadline_us.min(leasing.latest_us));
        if let Some(all) = self.all.upgrade() {
            all.make_room();
        }
        let connecting = pin!(self.connect(ips, tls, connect_ms, now_us));
        let fault = match while_wanted(body, connecting).await {
            Ok(Ok(connected)) => {
                self.opened.set(self.opened.get() + 1);
                // Boxed, since it passes through many hands.
                return Ok(Box::new(Connection::new(connected, now_us, lease)));
            }
            Ok(Err(error)) => {
                let (is_local, cause) = (is_local(&error), error.to_string());
                self.failed.set(self.failed.get() + 1);
                let fault = Fault::Unreachable { authority, cause, is_local }.into();
                return Err(ConnectFailure { fault, endpoint_blameless: is_local });
            }
            Err(Unwanted::TimeUp) => {
                Fault::ConnectTimeout { authority, waited_ms: connect_ms }.into()
            }
            Err(Unwanted::Left(fault)) => {
                return Err(ConnectFailure { fault, endpoint_blameless: true });
            }
        };
        self.failed.set(self.failed.get() + 1);
        Err(ConnectFailure { fault, endpoint_blameless: leasing.latest_us < deadline_us })
    }

    /// The passes of a connection, if no limit is reached and no request waits.
    fn try_passes(&self, limits: &SetLimits) -> Option<Passes> {
        let of_set = match &limits.gate {
            Some(gate) => Some(gate.try_pass()?),
            None => None,
        };
        Some((self.gate.try_pass()?, self.all_in_use.try_pass()?, of_set))
    }

    async fn wait_for_passes(
        &self,
        leasing: &Leasing<'_>,
        body: &mut impl RequestBody,
    ) -> Result<Passes, ConnectFailure> {
        let wait_ms = leasing.limits.wait_ms;
        let wait_end_us = leasing.resources.deadline_us(wait_ms.unwrap_or(leasing.connect_ms));
        body.watch().set(wait_end_us.min(leasing.latest_us));
        let refused = |refusal| {
            let fault = match refusal {
                Refusal::Unwanted(Unwanted::Left(fault)) => fault,
                Refusal::Unwanted(Unwanted::TimeUp) if wait_ms.is_none() => {
                    let waited_ms = leasing.connect_ms;
                    Fault::ConnectTimeout { authority: self.authority(), waited_ms }.into()
                }
                Refusal::Unwanted(Unwanted::TimeUp) => {
                    Fault::NotReady { authority: self.authority() }.into()
                }
                Refusal::Full => Fault::EndpointBusy { authority: self.authority() }.into(),
            };
            ConnectFailure { fault, endpoint_blameless: true }
        };
        let of_set = match &leasing.limits.gate {
            Some(gate) => match gate.try_pass() {
                Some(pass) => Some(pass),
                None => {
                    let _waiting = Waiting::new(&self.waiting_for_set);
                    Some(gate.wait(body).await.map_err(refused)?)
                }
            },
            None => None,
        };
        let of_pool = match self.gate.try_pass() {
            Some(pass) => pass,
            None => self.gate.wait(body).await.map_err(refused)?,
        };
        let of_all = match self.all_in_use.try_pass() {
            Some(pass) => pass,
            None => self.wait_for_all(body).await?,
        };
        Ok((of_pool, of_all, of_set))
    }

    /// Waits until fewer connections to all addresses are in use.
    ///
    /// # Errors
    /// [`Denial::Overloaded`], or the sender left.
    async fn wait_for_all(&self, body: &mut impl RequestBody) -> Result<Pass, ConnectFailure> {
        let _waiting = Waiting::new(&self.waiting_for_all);
        self.all_in_use.wait(body).await.map_err(|refusal| {
            let fault = match refusal {
                Refusal::Unwanted(Unwanted::Left(fault)) => fault,
                Refusal::Full | Refusal::Unwanted(Unwanted::TimeUp) => {
                    Fault::Denied(Denial::Overloaded).into()
                }
            };
            ConnectFailure { fault, endpoint_blameless: true }
        })
    }

    /// Requests that use a connection or wait for one.
    pub(crate) fn requests(&self) -> usize {
        self.gate.in_use() + self.waiting()
    }

    fn waiting(&self) -> usize {
        self.gate.waiting() + self.waiting_for_set.get()
    }

    #[cfg(test)]
    pub(crate) fn enter(&self) -> Passes {
        (self.gate.try_pass().unwrap(), self.all_in_use.try_pass().unwrap(), None)
    }

    /// Connects to one of `ips`; if there are none, to those of the name when they are known.
    async fn connect(
        &self,
        mut ips: Vec<IpAddr>,
        tls: &ClientTls,
        connect_ms: u32,
        now_us: u64,
    ) -> io::Result<Connected> {
        let found = match &self.source {
            Source::Literal => None,
            Source::Shared { resolution, .. } if ips.is_empty() => {
                let mut resolution = resolution.borrow().clone();
                Some(names::addresses(&mut resolution).await?)
            }
            Source::Shared { .. } => None,
        };
        if let Some(found) = found {
            ips = self.change(|addresses| {
                addresses.set(&found);
                addresses.take(false, now_us, |_| false).err().unwrap_or_default()
            });
        }
        let report = Outcomes { addresses: &self.addresses, now_us };
        let connect = || connect(&self.address, &ips, tls, connect_ms, &self.opening, &report);
        match connect().await {
            Err(error) if lacks_descriptors(&error) && self.closes_idle() => connect().await,
            connected => connected,
        }
    }

    /// Closes idle connections of all pools. Returns whether there were some.
    fn closes_idle(&self) -> bool {
        self.all.upgrade().is_some_and(|all| all.close_idle())
    }

    /// Uses the new addresses of the name if they have changed. Costs one atomic read otherwise.
    fn follow_name(&self) {
        let Source::Shared { resolution, .. } = &self.source else { return };
        let is_new = resolution.borrow().has_changed().unwrap_or(false);
        if is_new && let Resolution::Found(ips) = &*resolution.borrow_mut().borrow_and_update() {
            self.change(|addresses| addresses.set(ips));
        }
    }

    fn authority(&self) -> String {
        format!("{}:{}", self.address.host, self.address.port)
    }

    fn figures(&self) -> PoolFigures {
        PoolFigures {
            idle: self.addresses.borrow().idle() as u64,
            in_use: self.gate.in_use().saturating_sub(self.waiting_for_all.get()) as u64,
            waiting: (self.waiting() + self.waiting_for_all.get()) as u64,
            opened: self.opened.get(),
            failed: self.failed.get(),
            awaited: self.awaited.get() as u64,
            shed: self.shed.get(),
        }
    }
}

#[cfg(test)]
mod tests;
