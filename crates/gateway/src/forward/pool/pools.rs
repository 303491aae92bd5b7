//! A worker's pools, and the limits on the connections of all of them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;

use base::limits::{COUNTERS_PER_TURN, UPSTREAM_WAITERS_MAX};
use model::Endpoint;

use super::{Pool, PoolFigures, Source};
use crate::forward::addresses::Addresses;
use crate::forward::connect::Address;
use crate::forward::shared::Shared;
use crate::shares::gate::ConnectionGate;

/// A worker's pools by address: endpoints with different paths share connections.
#[derive(Debug)]
pub(crate) struct Pools {
    pub(super) all: Rc<AllPools>,
    shared: Arc<Shared>,
}

/// State shared by the pools of a worker.
#[derive(Debug)]
pub(super) struct AllPools {
    /// In order, so that a simulation is repeatable.
    by_address: RefCell<BTreeMap<Address, Rc<Pool>>>,
    pub(super) idle: Cell<usize>,
    /// Connections in use. The limit is that of open connections.
    pub(super) in_use: Rc<ConnectionGate>,
    pub(super) limits: PoolLimits,
}

/// How many connections the pools of a worker may have together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolLimits {
    /// In use and idle.
    pub(crate) open_max: usize,
    pub(crate) idle_max: usize,
}

/// When idle connections have to be closed, one in so many is.
const IDLE_CLOSED_SHARE: usize = 16;

/// The pools of a single worker.
#[cfg(test)]
impl Default for Pools {
    fn default() -> Self {
        let limits =
            PoolLimits { open_max: usize::MAX, idle_max: base::limits::UPSTREAMS_IDLE_MAX };
        Self::new(Shared::new(1, &base::SystemEntropy), limits)
    }
}

impl AllPools {
    /// Closes idle connections if the new connection, which already counts as in use, exceeds the limit.
    pub(super) fn make_room(&self) {
        if self.in_use.in_use().saturating_add(self.idle.get()) > self.limits.open_max {
            self.close_idle();
        }
    }

    /// Closes the connections that have been idle for the longest time: a part of all, so that this is rare. Returns
    /// whether there were some.
    pub(super) fn close_idle(&self) -> bool {
        let pools = self.by_address.borrow();
        let mut since_us: Vec<u64> = Vec::with_capacity(self.idle.get());
        pools.values().for_each(|pool| since_us.extend(pool.addresses.borrow().idle_since()));
        let last = (since_us.len() / IDLE_CLOSED_SHARE).min(since_us.len().saturating_sub(1));
        if since_us.is_empty() {
            return false;
        }
        let (_, oldest_us, _) = since_us.select_nth_unstable(last);
        let oldest_us = *oldest_us;
        let mut left = last + 1;
        for pool in pools.values() {
            pool.change(|addresses| addresses.close_since(oldest_us, &mut left));
        }
        true
    }
}

impl Pools {
    pub(crate) fn new(shared: Arc<Shared>, limits: PoolLimits) -> Self {
        let in_use = Rc::new(ConnectionGate::new(limits.open_max, UPSTREAM_WAITERS_MAX));
        let all = AllPools { by_address: RefCell::default(), idle: Cell::new(0), in_use, limits };
        Self { all: Rc::new(all), shared }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The pool of `endpoint`'s address, created if needed.
    pub(crate) fn of(&self, endpoint: &Endpoint) -> Rc<Pool> {
        let address =
            Address { scheme: endpoint.scheme, host: endpoint.host.clone(), port: endpoint.port };
        let mut pools = self.all.by_address.borrow_mut();
        Rc::clone(pools.entry(address).or_insert_with_key(|address| {
            let mut addresses = Addresses::new(self.shared.seed());
            let source = match address.host.parse::<IpAddr>() {
                Ok(ip) => {
                    addresses.set(&[ip]);
                    Source::Literal
                }
                Err(_) => {
                    let name = self.shared.name(&address.host);
                    let resolution = RefCell::new(name.resolution());
                    Source::Shared { resolution, _name: name }
                }
            };
            Rc::new(Pool {
                all: Rc::downgrade(&self.all),
                all_in_use: Rc::clone(&self.all.in_use),
                address: address.clone(),
                source,
                opening: self.shared.opening(),
                addresses: RefCell::new(addresses),
                gate: ConnectionGate::default(),
                waiting_for_set: Cell::new(0),
                waiting_for_all: Cell::new(0),
                opened: Cell::new(0),
                failed: Cell::new(0),
                awaited: Cell::new(0),
                shed: Cell::new(0),
            })
        }))
    }

    /// Closes connections that were idle for too long, and drops unused pools.
    pub(crate) fn sweep(&self, now_us: u64) {
        self.all.by_address.borrow_mut().retain(|_, pool| {
            pool.change(|addresses| addresses.sweep(now_us));
            Rc::strong_count(pool) > 1 || pool.addresses.borrow().idle() > 0
        });
    }

    /// Visits some pools, those after `last`. Returns the last one, if there are more.
    pub(crate) fn visit(
        &self,
        last: Option<&Address>,
        mut visit: impl FnMut(&Address, PoolFigures),
    ) -> Option<Address> {
        let pools = self.all.by_address.borrow();
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut after = pools.range::<Address, _>((from, Bound::Unbounded));
        let turn = after.by_ref().take(COUNTERS_PER_TURN);
        let last = turn.inspect(|(address, pool)| visit(address, pool.figures())).last();
        let is_more = after.next().is_some();
        last.filter(|_| is_more).map(|(address, _)| address.clone())
    }

    /// Visits every pool: host, port and figures.
    #[cfg(test)]
    pub(crate) fn each(&self, mut visit: impl FnMut(&str, u16, PoolFigures)) {
        for pool in self.all.by_address.borrow().values() {
            visit(&pool.address.host, pool.address.port, pool.figures());
        }
    }
}
