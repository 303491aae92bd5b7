//! A worker's own state of one API: its account and its endpoints.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use base::limits::{COUNTERS_PER_TURN, GONE_APIS_MAX};
use stages::{ApiRoutes, Routes};

use crate::account::{ApiAccount, ApiCounters, GONE_COUNTERS_US};
use crate::forward::{Balancer, Pools};
use crate::message::Serves;
use crate::shares::share::Share;

/// One API on one worker, in one revision.
#[derive(Debug)]
pub(crate) struct WorkerApi {
    pub(crate) account: Rc<ApiAccount>,
    pub(crate) balancers: Vec<Rc<Balancer>>,
    /// The share of the API's requests.
    pub(crate) share: Rc<Share>,
    serves: Serves,
}

impl WorkerApi {
    fn new(routes: &Arc<ApiRoutes>, pools: &Pools, serves: Serves, kept: Kept) -> Self {
        let api = &routes.api;
        let balancer = |(position, set)| {
            let name = (api.name.clone(), api.version.clone(), position);
            Rc::new(Balancer::new(set, Some(name), pools))
        };
        let balancers = api.upstreams.iter().enumerate().map(balancer).collect();
        let account = Rc::new(ApiAccount::new(routes, kept.counters));
        Self { balancers, account, share: kept.share, serves }
    }

    fn kept(&self) -> Kept {
        Kept { counters: Rc::clone(&self.account.counters), share: Rc::clone(&self.share) }
    }

    /// A number that distinguishes it from all other APIs and services of the worker.
    pub(crate) fn key(&self) -> u32 {
        let slot = self.routes().slot.wrapping_mul(2);
        slot.wrapping_add(u32::from(self.serves == Serves::Integration))
    }

    pub(crate) fn routes(&self) -> &Arc<ApiRoutes> {
        &self.account.routes
    }

    /// The number of endpoints suspended at `now_us`.
    pub(crate) fn suspended(&self, now_us: u64) -> u64 {
        self.balancers.iter().map(|set| set.suspended(now_us) as u64).sum()
    }
}

/// State that an API keeps when it is edited.
#[derive(Debug, Default)]
struct Kept {
    counters: Rc<ApiCounters>,
    share: Rc<Share>,
}

/// A worker's APIs by slot, each created at its first request.
#[derive(Debug, Default)]
pub(crate) struct WorkerApis {
    serves: Serves,
    by_slot: RefCell<Vec<Option<Rc<WorkerApi>>>>,
    /// APIs that are no longer served, whose counters are still reported. The oldest is first.
    gone: RefCell<VecDeque<Gone>>,
    /// The slot at which the next sweep begins.
    sweep_from: Cell<usize>,
}

#[derive(Debug)]
struct Gone {
    account: Rc<ApiAccount>,
    share: Rc<Share>,
    since_us: u64,
}

impl WorkerApis {
    pub(crate) fn new(serves: Serves) -> Self {
        Self { serves, ..Self::default() }
    }

    /// The worker's state of `routes`, created if needed. An edited API keeps its counters, its connections, and the
    /// health of the endpoint sets that are the same. So does one that returns soon.
    pub(crate) fn get(&self, routes: &Arc<ApiRoutes>, pools: &Pools) -> Rc<WorkerApi> {
        let slot = routes.slot as usize;
        let mut by_slot = self.by_slot.borrow_mut();
        if by_slot.len() <= slot {
            by_slot.resize(slot + 1, None);
        }
        let Some(entry) = by_slot.get_mut(slot) else {
            return Rc::new(WorkerApi::new(routes, pools, self.serves, Kept::default()));
        };
        if let Some(existing) = entry
            && Arc::ptr_eq(existing.routes(), routes)
        {
            return Rc::clone(existing);
        }
        let edited = entry.as_ref().filter(|old| is_same_api(old.routes(), routes));
        if let Some(old) = edited {
            old.account.replaced();
        }
        let kept = edited.map(|old| old.kept()).or_else(|| self.returned(routes));
        let created = Rc::new(WorkerApi::new(routes, pools, self.serves, kept.unwrap_or_default()));
        *entry = Some(Rc::clone(&created));
        created
    }

    /// Whether none of their places are taken.
    #[cfg(test)]
    pub(crate) fn are_free(&self) -> bool {
        self.by_slot.borrow().iter().flatten().all(|api| api.share.is_free())
    }

    /// The kept state of an API that was removed.
    fn returned(&self, routes: &ApiRoutes) -> Option<Kept> {
        let mut all = self.gone.borrow_mut();
        let position = all.iter().position(|gone| is_same_api(&gone.account.routes, routes))?;
        let gone = all.remove(position)?;
        Some(Kept { counters: Rc::clone(&gone.account.counters), share: gone.share })
    }

    /// Follows a new revision, with `current` APIs by slot. Edited APIs are replaced at once, so that their old
    /// endpoints are no longer checked; requests in progress keep theirs. The counters of removed APIs are reported for
    /// a while.
    pub(crate) fn update(&self, all: &Routes, pools: &Pools, now_us: u64) {
        let mut current = vec![None; all.slots()];
        for api in all.apis() {
            if let Some(entry) = current.get_mut(api.slot as usize) {
                *entry = Some(api);
            }
        }
        let mut gone = self.gone.borrow_mut();
        for (slot, entry) in self.by_slot.borrow_mut().iter_mut().enumerate() {
            let Some(api) = entry else { continue };
            let routes = current.get(slot).copied().flatten();
            match routes {
                Some(routes) if Arc::ptr_eq(api.routes(), routes) => {}
                Some(routes) if is_same_api(api.routes(), routes) => {
                    api.account.replaced();
                    *entry = Some(Rc::new(WorkerApi::new(routes, pools, self.serves, api.kept())));
                }
                Some(_) | None => {
                    api.account.replaced();
                    if gone.len() >= GONE_APIS_MAX {
                        gone.pop_front();
                    }
                    let (account, share) = (Rc::clone(&api.account), Rc::clone(&api.share));
                    gone.push_back(Gone { account, share, since_us: now_us });
                    *entry = None;
                }
            }
        }
    }

    /// Visits some accounts, from position `from` on: those of APIs by slot, then those of APIs that are gone, with the
    /// number of suspended endpoints at a time. Returns the next position, if there are more.
    pub(crate) fn visit(
        &self,
        from: usize,
        mut visit: impl FnMut(&ApiAccount, &dyn Fn(u64) -> u64),
    ) -> Option<usize> {
        let (by_slot, gone) = (self.by_slot.borrow(), self.gone.borrow());
        let mut left = COUNTERS_PER_TURN;
        for position in from..by_slot.len().saturating_add(gone.len()) {
            if left == 0 {
                return Some(position);
            }
            let mut counters = 1;
            if let Some(slot) = by_slot.get(position) {
                if let Some(api) = slot {
                    counters = api.account.counters.len();
                    visit(&api.account, &|now_us| api.suspended(now_us));
                }
            } else if let Some(gone) = gone.get(position.saturating_sub(by_slot.len())) {
                counters = gone.account.counters.len();
                visit(&gone.account, &|_| 0);
            }
            left = left.saturating_sub(counters);
        }
        None
    }

    /// Drops counters that are no longer reported: some in each sweep.
    pub(crate) fn sweep(&self, now_us: u64) {
        let mut gone = self.gone.borrow_mut();
        let mut left = COUNTERS_PER_TURN;
        while left > 0
            && let Some(oldest) = gone.front()
            && now_us.saturating_sub(oldest.since_us) >= GONE_COUNTERS_US
        {
            left = left.saturating_sub(oldest.account.counters.len());
            gone.pop_front();
        }
        drop(gone);
        let next = self.visit(self.sweep_from.get(), |account, _| account.forget_gone(now_us));
        self.sweep_from.set(next.unwrap_or(0));
    }
}

fn is_same_api(a: &ApiRoutes, b: &ApiRoutes) -> bool {
    a.api.name == b.api.name && a.api.version == b.api.version
}

#[cfg(test)]
mod tests {
    use model::{Api, ApiState, LoadedApi, Snapshot, Upstream, UpstreamKind};
    use stages::Routes;

    use super::*;
    use crate::forward::endpoint;

    /// An API whose only endpoint has this number.
    fn routes(number: u16, last: Option<&Routes>) -> Routes {
        let upstreams = vec![Upstream::new(UpstreamKind::Single, vec![endpoint(number)])];
        let api = Api { upstreams, ..crate::simulation::api("/a", UpstreamKind::Single, &[]) };
        let apis = vec![LoadedApi { api: Arc::new(api), state: ApiState::Serving }];
        let snapshot =
            Snapshot { revision: u64::from(number), apis: apis.into(), ..Snapshot::default() };
        Routes::compile(&snapshot, last)
    }

    #[test]
    fn the_endpoints_of_an_edited_api_are_forgotten_without_a_request() {
        let pools = Pools::default();
        let apis = WorkerApis::default();
        let first = routes(1, None);
        let old = apis.get(first.apis().next().unwrap(), &pools);
        old.account.counters.auth_failed(model::AuthFailure::MissingCredential);
        let counters = Rc::downgrade(&old.account.counters);
        let weak = Rc::downgrade(&old);
        drop(old);
        let second = routes(2, Some(&first));
        let api = second.apis().next().unwrap();
        apis.update(&second, &pools, 0);
        assert!(weak.upgrade().is_none(), "its endpoints, their checks and their names");
        let new = apis.get(api, &pools);
        assert!(std::ptr::eq(counters.as_ptr(), &*new.account.counters), "the counters are kept");
        apis.update(&Routes::compile(&Snapshot::default(), None), &pools, 0);
        assert_eq!(Rc::strong_count(&new), 1, "it is gone");
    }

    #[test]
    fn a_turn_visits_a_limited_number_of_counters_and_no_turn_skips_one() {
        let (pools, apis) = (Pools::default(), WorkerApis::default());
        let count = COUNTERS_PER_TURN / 2 + 10;
        let loaded = (0..count).map(|number| {
            let api = crate::simulation::api(&format!("/{number}"), UpstreamKind::Single, &[]);
            LoadedApi { api: Arc::new(api), state: ApiState::Serving }
        });
        let snapshot = Snapshot { revision: 1, apis: loaded.collect(), ..Snapshot::default() };
        let all = Routes::compile(&snapshot, None);
        // Each has one operation with requests, so that two counters are visited.
        for routes in all.apis() {
            apis.get(routes, &pools).account.count(Some(0), 200, 1, 1);
        }
        let turn = |from: usize| {
            let mut visited = Vec::new();
            let next = apis.visit(from, |account, _| visited.push(account.routes.slot));
            (visited, next)
        };
        let (first, next) = turn(0);
        assert_eq!((first.len(), next), (COUNTERS_PER_TURN / 2, Some(COUNTERS_PER_TURN / 2)));
        let (second, next) = turn(COUNTERS_PER_TURN / 2);
        assert_eq!((second.len(), next), (10, None));
        let slots: std::collections::BTreeSet<_> = first.iter().chain(&second).collect();
        assert_eq!(slots.len(), count);
        // Gone, they are visited after the empty slots, and dropped in turns.
        apis.update(
            &Routes::compile(&Snapshot { revision: 2, ..Snapshot::default() }, Some(&all)),
            &pools,
            1,
        );
        let left = || apis.gone.borrow().len();
        assert_eq!(left(), count);
        apis.sweep(1 + GONE_COUNTERS_US);
        assert_eq!(left(), 10);
        apis.sweep(1 + GONE_COUNTERS_US);
        assert_eq!(left(), 0);
    }
}
