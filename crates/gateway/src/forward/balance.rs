//! Selection of the next endpoint of a set, and suspension of failing ones ([`Health`], shared by all workers).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use model::{Endpoint, Fault, Retry, Suspension, Upstream, UpstreamKind};

use super::credential::OfSet;
use super::health::{Admission, Health, Successes};
use super::pool::{Pool, Pools};
use super::retry::RetryBudget;
use super::window::{Failure, half_window_us};
use crate::shares::gate::SetLimits;

/// A worker's state of an endpoint set.
#[derive(Debug)]
pub(crate) struct Balancer {
    kind: UpstreamKind,
    suspension: Suspension,
    pub(crate) response_head_ms: u32,
    pub(crate) try_ms: Option<u32>,
    pub(crate) retry: Retry,
    pub(crate) budget: RetryBudget,
    /// Position at which the next turn begins.
    next: Cell<usize>,
    random: Random,
    slow_start_us: u64,
    pub(crate) credential: Option<OfSet>,
    pub(crate) endpoints: Vec<EndpointState>,
}

/// A worker's state of an endpoint.
#[derive(Debug)]
pub(crate) struct EndpointState {
    pub(crate) config: Endpoint,
    pub(crate) authority: Rc<str>,
    pub(crate) pool: Rc<Pool>,
    /// Limits of this set on its connections to the endpoint.
    pub(crate) limits: SetLimits,
    health: Arc<Health>,
    successes: Successes,
}

/// The set that a balancer is for: API, version, and position of the set in the API.
pub(crate) type SetName = (String, String, usize);

/// Endpoints that a request has tried, by position. Positions from 63 on share a bit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tried(u64);

impl Tried {
    pub(crate) fn add(&mut self, position: usize) {
        self.0 |= 1 << position.min(63);
    }

    fn has(self, position: usize) -> bool {
        self.0 & (1 << position.min(63)) != 0
    }
}

/// The endpoint to try next.
#[derive(Debug)]
pub(crate) struct Chosen<'a> {
    pub(crate) position: usize,
    pub(crate) endpoint: &'a EndpointState,
    /// It is the first request after a suspension.
    pub(super) probe: Option<Probe>,
}

/// A request that decides whether a suspension ends. Without an outcome, the probe ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Probe(Arc<Health>);

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.end_probe();
    }
}

impl Balancer {
    /// `name`: the set whose health workers share; `None`: it has a health of its own.
    pub(crate) fn new(upstream: &Upstream, name: Option<SetName>, pools: &Pools) -> Self {
        let shared = pools.shared();
        let health = name.map(|name| shared.health(name, upstream));
        let endpoint = |(position, endpoint): (usize, &Endpoint)| EndpointState {
            config: endpoint.clone(),
            authority: Rc::from(endpoint.authority.as_str()),
            pool: pools.of(endpoint),
            limits: SetLimits::new(&upstream.connections, shared.workers()),
            health: health.as_ref().and_then(|set| set.get(position).cloned()).unwrap_or_default(),
            successes: Successes::default(),
        };
        Self {
            kind: upstream.kind,
            suspension: upstream.suspension.clone(),
            response_head_ms: upstream.response_head_ms,
            try_ms: upstream.try_ms,
            retry: upstream.retry.clone(),
            budget: RetryBudget::new(&upstream.retry, shared.workers()),
            next: Cell::new(0),
            random: Random(Cell::new(shared.seed())),
            slow_start_us: u64::from(upstream.slow_start_ms) * 1_000,
            credential: upstream.credential.as_ref().map(OfSet::from),
            endpoints: upstream.endpoints.iter().enumerate().map(endpoint).collect(),
        }
    }

    /// Selects the endpoint to try next.
    ///
    /// # Errors
    /// [`Fault::NotReady`] for a single endpoint, [`Fault::NoReadyChild`] for a set, if all untried endpoints
    /// are suspended.
    pub(crate) fn choose(&self, now_us: u64, tried: Tried) -> Result<Chosen<'_>, Box<Fault>> {
        let count = self.endpoints.len();
        let first = match self.kind {
            UpstreamKind::Single | UpstreamKind::Failover => 0,
            UpstreamKind::LeastRequests => self.less_busy(now_us, tried),
            UpstreamKind::RoundRobin => {
                let first = self.next.get();
                self.next.set((first + 1) % count.max(1));
                first
            }
        };
        let mut warming = None;
        for position in (first..count).chain(0..first) {
            let Some(endpoint) = self.endpoints.get(position) else { break };
            if tried.has(position) {
                continue;
            }
            if self.skips(endpoint, now_us) {
                warming = warming.or(Some(Chosen { position, endpoint, probe: None }));
                continue;
            }
            let probe = match endpoint.health.admit(now_us) {
                Admission::Open => None,
                Admission::Probe => Some(Probe(Arc::clone(&endpoint.health))),
                Admission::Suspended => continue,
            };
            return Ok(Chosen { position, endpoint, probe });
        }
        let spare = || self.spare(tried, first);
        warming.or_else(spare).ok_or_else(|| self.none_ready())
    }

    /// Whether an endpoint that is active again is left out this time: its share grows from a tenth to all within
    /// `slow_start_us`.
    fn skips(&self, endpoint: &EndpointState, now_us: u64) -> bool {
        if self.slow_start_us == 0 || self.kind == UpstreamKind::Failover {
            return false;
        }
        let active_us = endpoint.health.active_us(now_us).unwrap_or(u64::MAX);
        if active_us >= self.slow_start_us || !endpoint.health.is_open(now_us) {
            return false;
        }
        let percent = (active_us.saturating_mul(100) / self.slow_start_us).max(10);
        self.random.below(100) as u64 >= percent
    }

    /// Where outliers are suspended, a set is never without an endpoint, not even if two workers have suspended its
    /// last two at the same time.
    fn spare(&self, tried: Tried, first: usize) -> Option<Chosen<'_>> {
        let endpoint = self.endpoints.get(first)?;
        let is_allowed = self.suspension == Suspension::Outliers && tried.0 == 0;
        is_allowed.then_some(Chosen { position: first, endpoint, probe: None })
    }

    /// The position of the endpoint with fewer requests on this worker, of two random open ones. Source: M.
    /// Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001.
    fn less_busy(&self, now_us: u64, tried: Tried) -> usize {
        let open = || {
            let all = self.endpoints.iter().enumerate();
            all.filter(|(position, endpoint)| {
                !tried.has(*position) && endpoint.health.is_open(now_us)
            })
        };
        let count = open().count();
        let one = self.random.below(count);
        let other = (one + 1 + self.random.below(count.saturating_sub(1))) % count.max(1);
        match (open().nth(one), open().nth(other)) {
            (Some((one, first)), Some((other, second))) => {
                if second.pool.requests() < first.pool.requests() { other } else { one }
            }
            (_, _) => 0,
        }
    }

    /// Whether an untried endpoint is available.
    pub(crate) fn has_another(&self, now_us: u64, tried: Tried) -> bool {
        self.endpoints
            .iter()
            .enumerate()
            .any(|(position, endpoint)| !tried.has(position) && endpoint.health.is_open(now_us))
    }

    fn none_ready(&self) -> Box<Fault> {
        let authority = self.endpoints.first().map_or("", |endpoint| &endpoint.config.authority);
        Box::new(match self.kind {
            UpstreamKind::Single => Fault::NotReady { authority: authority.to_owned() },
            UpstreamKind::RoundRobin | UpstreamKind::LeastRequests | UpstreamKind::Failover => {
                Fault::NoReadyChild { authority: authority.to_owned() }
            }
        })
    }

    /// The number of endpoints suspended at `now_us`.
    pub(crate) fn suspended(&self, now_us: u64) -> usize {
        self.endpoints.iter().filter(|endpoint| !endpoint.health.is_open(now_us)).count()
    }

    /// Records a response to a request of the operation with this number.
    pub(crate) fn responded(
        &self,
        endpoint: &EndpointState,
        status: u16,
        operation: usize,
        now_us: u64,
    ) {
        if self.breaks_at(status) {
            return self.failed(endpoint, Failure::Broken { operation }, now_us);
        }
        if let Some(half_us) = half_window_us(&self.suspension) {
            endpoint.successes.add(&endpoint.health, operation, half_us, now_us);
        }
        if endpoint.health.succeeded(now_us) {
            tracing::info!(endpoint = %endpoint.authority, "endpoint active again");
        }
    }

    /// Whether a response with this status is a failure.
    pub(super) fn breaks_at(&self, status: u16) -> bool {
        matches!(&self.suspension, Suspension::Ratio(breaker) if breaker.statuses.contains(&status))
    }

    /// Records a response of a single endpoint, when its body was looked at: with `fault`, it is a failure, unless the
    /// endpoint's rule leaves that out.
    pub(crate) fn judged(&self, status: u16, fault: Option<&Fault>, now_us: u64) {
        let Some(endpoint) = self.endpoints.first() else { return };
        match fault.and_then(|fault| self.evidence(fault, 0)) {
            None => self.responded(endpoint, status, 0, now_us),
            Some(failure) => self.failed(endpoint, failure, now_us),
        }
    }

    /// The failure of an endpoint that a fault indicates; `None`: the fault does not count against it.
    pub(crate) fn evidence(&self, fault: &Fault, operation: usize) -> Option<Failure> {
        let Suspension::Consecutive { codes, marks, .. } = &self.suspension else {
            return Some(Failure::of(fault, operation));
        };
        let code = fault.code();
        let has = |codes: &Vec<u32>| codes.contains(&code);
        match (marks, codes) {
            (Some(marks), _) if has(marks) => Some(Failure::of(fault, operation)),
            (_, Some(codes)) if !has(codes) => None,
            (Some(_), _) => Some(Failure::Final),
            (None, _) => Some(Failure::of(fault, operation)),
        }
    }

    /// Records a failed exchange with `endpoint`.
    pub(crate) fn failed(&self, endpoint: &EndpointState, failure: Failure, now_us: u64) {
        let health = &endpoint.health;
        let mut elsewhere = 0;
        if let Some(half_us) = half_window_us(&self.suspension) {
            for known in &self.endpoints {
                known.successes.flush(&known.health, half_us, now_us);
                if !std::ptr::eq(known, endpoint) {
                    elsewhere |= known.health.served(half_us, now_us);
                }
            }
        }
        // Another worker may suspend it between the two.
        let others = self.suspended(now_us).saturating_sub(usize::from(!health.is_open(now_us)));
        let may = 2 * (others + 1) <= self.endpoints.len();
        if let Some(duration_ms) =
            health.failed(&self.suspension, failure, (may, elsewhere), now_us)
        {
            tracing::warn!(endpoint = %endpoint.authority, duration_ms, "endpoint suspended");
        }
    }
}

/// A fast generator for choices whose prediction gains an attacker nothing. Source: G. Steele et al., "Fast splittable
/// pseudorandom number generators", 2014 (SplitMix64).
#[derive(Debug)]
struct Random(Cell<u64>);

impl Random {
    /// A number below `bound`; zero if that is zero.
    fn below(&self, bound: usize) -> usize {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bound = bound as u64;
        usize::try_from((mixed ^ (mixed >> 31)).checked_rem(bound).unwrap_or(0)).unwrap_or(0)
    }
}

#[cfg(test)]
pub(crate) mod tests;
