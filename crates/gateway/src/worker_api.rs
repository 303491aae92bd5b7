//! A worker's own state of one API: its account and its endpoints.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use stages::ApiRoutes;

use crate::account::{ApiAccount, ApiCounters};
use crate::forward::{Balancer, Pools};

/// One API on one worker, in one revision.
#[derive(Debug)]
pub(crate) struct WorkerApi {
    pub(crate) account: Rc<ApiAccount>,
    pub(crate) balancers: Vec<Rc<Balancer>>,
}

impl WorkerApi {
    fn new(routes: &Arc<ApiRoutes>, pools: &Pools, counters: Rc<ApiCounters>) -> Self {
        let api = &routes.api;
        let balancer = |(position, set)| {
            let name = (api.name.clone(), api.version.clone(), position);
            Rc::new(Balancer::new(set, Some(name), pools))
        };
        let balancers = api.upstreams.iter().enumerate().map(balancer).collect();
        Self { balancers, account: Rc::new(ApiAccount::new(routes, counters)) }
    }

    pub(crate) fn routes(&self) -> &Arc<ApiRoutes> {
        &self.account.routes
    }

    /// The number of endpoints suspended at `now_us`.
    pub(crate) fn suspended(&self, now_us: u64) -> u64 {
        self.balancers.iter().map(|set| set.suspended(now_us) as u64).sum()
    }
}

/// A worker's APIs by slot, each created at its first request.
#[derive(Debug, Default)]
pub(crate) struct WorkerApis {
    by_slot: RefCell<Vec<Option<Rc<WorkerApi>>>>,
}

impl WorkerApis {
    /// The worker's state of `routes`, created if needed. An edited API keeps its counters, its connections, and the
    /// health of the endpoint sets that are the same.
    pub(crate) fn get(&self, routes: &Arc<ApiRoutes>, pools: &Pools) -> Rc<WorkerApi> {
        let slot = routes.slot as usize;
        let mut by_slot = self.by_slot.borrow_mut();
        if by_slot.len() <= slot {
            by_slot.resize(slot + 1, None);
        }
        let Some(entry) = by_slot.get_mut(slot) else {
            return Rc::new(WorkerApi::new(routes, pools, Rc::default()));
        };
        match entry {
            Some(existing) if Arc::ptr_eq(existing.routes(), routes) => Rc::clone(existing),
            _ => {
                let edited = entry.as_ref().filter(|old| is_same_api(old.routes(), routes));
                let counters =
                    edited.map(|old| Rc::clone(&old.account.counters)).unwrap_or_default();
                let created = Rc::new(WorkerApi::new(routes, pools, counters));
                *entry = Some(Rc::clone(&created));
                created
            }
        }
    }

    /// Drops the APIs for which `keeps` returns false.
    pub(crate) fn retain(&self, keeps: impl Fn(&WorkerApi) -> bool) {
        for entry in self.by_slot.borrow_mut().iter_mut() {
            entry.take_if(|api| !keeps(api));
        }
    }

    pub(crate) fn each(&self, mut visit: impl FnMut(&WorkerApi)) {
        for api in self.by_slot.borrow().iter().flatten() {
            visit(api);
        }
    }
}

fn is_same_api(a: &ApiRoutes, b: &ApiRoutes) -> bool {
    a.api.name == b.api.name && a.api.version == b.api.version
}
