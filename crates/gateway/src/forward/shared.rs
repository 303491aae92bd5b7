//! State of upstreams that workers share: the health of endpoints, and the addresses of names. Looked up when a worker
//! meets an API, not per request.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use base::Entropy;
use model::{Endpoint, HealthCheck, Upstream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use wire::tls::ClientTls;

use super::balance::SetName;
use super::connect::Opening;
use super::document::Fetch;
use super::health::Health;
use super::names::Name;
use super::ports::LocalPorts;
use crate::shares::own_connections::OwnConnections;

/// Shared by all workers of a gateway.
pub(crate) struct Shared {
    workers: u32,
    seed: AtomicU64,
    sets: Mutex<Sets>,
    names: Mutex<HashMap<String, Weak<Name>>>,
    /// To the thread that looks after endpoints, if there is one. There are at most as many as endpoints.
    watched: Option<UnboundedSender<Watched>>,
    client_tls: Mutex<Option<Arc<ClientTls>>>,
    pub(crate) own: OwnConnections,
    pub(crate) ports: LocalPorts,
    checks_passed: AtomicU64,
    checks_failed: AtomicU64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

/// Work for a thread of its own, which looks after names and endpoints while a worker uses them.
pub(crate) enum Watched {
    /// To be looked up.
    Name(Weak<Name>),
    /// To be checked.
    Endpoint(Box<CheckedEndpoint>),
    /// To be sent.
    Fetch(Box<Fetch>),
    /// The work is complete.
    Nothing,
}

/// An endpoint with health checks.
#[derive(Debug)]
pub(crate) struct CheckedEndpoint {
    set: SetName,
    pub(crate) health: Weak<Health>,
    pub(crate) endpoint: Endpoint,
    pub(crate) check: HealthCheck,
}

#[derive(Debug, Default)]
struct Sets {
    /// Under one name there are several during an edit.
    by_name: HashMap<SetName, Vec<SharedSet>>,
    /// Number of sets at which those without workers are dropped.
    full: usize,
}

#[derive(Debug)]
struct SharedSet {
    upstream: Upstream,
    health: Vec<Arc<Health>>,
}

impl SharedSet {
    fn is_used(&self) -> bool {
        self.health.iter().any(|health| Arc::strong_count(health) > 1)
    }
}

/// Number of sets before the first time that those without workers are dropped.
const FULL_MIN: usize = 1_024;

impl Shared {
    /// For `workers` worker threads. No names are looked up, and there are no health checks.
    pub(crate) fn new(workers: usize, entropy: &impl Entropy) -> Arc<Self> {
        Arc::new(Self::with(workers, entropy, None))
    }

    /// For `workers` worker threads; another thread receives the names and endpoints to look after.
    pub(crate) fn watched(
        workers: usize,
        entropy: &impl Entropy,
    ) -> (Arc<Self>, UnboundedReceiver<Watched>) {
        let (sender, receiver) = unbounded_channel();
        (Arc::new(Self::with(workers, entropy, Some(sender))), receiver)
    }

    fn with(
        workers: usize,
        entropy: &impl Entropy,
        watched: Option<UnboundedSender<Watched>>,
    ) -> Self {
        Self {
            workers: u32::try_from(workers).unwrap_or(u32::MAX).max(1),
            seed: AtomicU64::new(entropy.u64()),
            sets: Mutex::default(),
            names: Mutex::default(),
            watched,
            client_tls: Mutex::default(),
            own: OwnConnections::default(),
            ports: LocalPorts::default(),
            checks_passed: AtomicU64::new(0),
            checks_failed: AtomicU64::new(0),
        }
    }

    /// The registers for the connections of a pool, which have turns of their own.
    pub(crate) fn opening(&self) -> Opening {
        Opening { own: self.own.clone(), ports: self.ports.clone(), turns: Rc::default() }
    }

    /// The TLS settings of health checks.
    pub(crate) fn set_client_tls(&self, client_tls: Arc<ClientTls>) {
        *self.client_tls.lock().unwrap_or_else(PoisonError::into_inner) = Some(client_tls);
    }

    pub(crate) fn client_tls(&self) -> Option<Arc<ClientTls>> {
        self.client_tls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn count_check(&self, passed: bool) {
        let count = if passed { &self.checks_passed } else { &self.checks_failed };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Health checks that passed, and those that failed.
    pub(crate) fn checks(&self) -> [u64; 2] {
        [&self.checks_passed, &self.checks_failed].map(|count| count.load(Ordering::Relaxed))
    }

    /// Hands work to the thread that looks after endpoints. Returns whether there is one.
    pub(crate) fn send(&self, work: Watched) -> bool {
        self.watched.as_ref().is_some_and(|watched| watched.send(work).is_ok())
    }

    /// The state of a host name. Starts a lookup if the name is new.
    pub(crate) fn name(&self, host: &str) -> Arc<Name> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.get(host).and_then(Weak::upgrade) {
            return known;
        }
        names.retain(|_, name| name.strong_count() > 0);
        let name = Arc::new(Name::new(host));
        names.insert(host.to_owned(), Arc::downgrade(&name));
        if !self.send(Watched::Name(Arc::downgrade(&name))) {
            name.looked_up(Err("no names are looked up".to_owned()));
        }
        name
    }

    pub(crate) fn workers(&self) -> u32 {
        self.workers
    }

    /// Another one each time.
    pub(crate) fn seed(&self) -> u64 {
        self.seed.fetch_add(1, Ordering::Relaxed)
    }

    /// Begins the health checks of a set, if it has some.
    fn watch(&self, set: &SetName, upstream: &Upstream, health: &[Arc<Health>]) {
        let Some(check) = &upstream.health_check else { return };
        for (endpoint, health) in upstream.endpoints.iter().zip(health) {
            let checked = CheckedEndpoint {
                set: set.clone(),
                health: Arc::downgrade(health),
                endpoint: endpoint.clone(),
                check: check.clone(),
            };
            // Fails only if the gateway is shutting down.
            let _ = self.send(Watched::Endpoint(Box::new(checked)));
        }
    }

    /// The health of the endpoints of a set, in its order. An edit of the API that changes the set begins a new one.
    pub(crate) fn health(&self, name: SetName, upstream: &Upstream) -> Vec<Arc<Health>> {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if sets.by_name.len() >= sets.full.max(FULL_MIN) {
            sets.by_name.retain(|_, named| named.iter().any(SharedSet::is_used));
            sets.full = 2 * sets.by_name.len();
        }
        let named = sets.by_name.entry(name.clone()).or_default();
        // A set that no worker uses is not checked any more.
        named.retain(SharedSet::is_used);
        if let Some(known) = named.iter().find(|known| known.upstream == *upstream) {
            return known.health.clone();
        }
        let health: Vec<_> = upstream.endpoints.iter().map(|_| Arc::default()).collect();
        named.push(SharedSet { upstream: upstream.clone(), health: health.clone() });
        self.watch(&name, upstream, &health);
        health
    }

    /// The health of an endpoint, while a worker uses its set. `None`: it is to be checked no more; a worker that uses
    /// the set from now on begins a new one.
    pub(crate) fn checked(&self, endpoint: &CheckedEndpoint) -> Option<Arc<Health>> {
        let health = endpoint.health.upgrade()?;
        // The registry has one, this function another, and each worker one.
        let is_used = || Arc::strong_count(&health) > 2;
        if !is_used() {
            // Only the registry hands out more of them, so that the answer does not change while it is locked.
            let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
            if !is_used() {
                if let Some(named) = sets.by_name.get_mut(&endpoint.set) {
                    named.retain(|set| !set.health.iter().any(|one| Arc::ptr_eq(one, &health)));
                }
                return None;
            }
        }
        Some(health)
    }
}

#[cfg(test)]
mod tests {
    use base::SystemEntropy;
    use model::UpstreamKind;

    use super::*;
    use crate::forward::balance::tests::endpoint;

    #[test]
    fn workers_share_the_health_of_an_unchanged_set() {
        let shared = Shared::new(2, &SystemEntropy);
        let set = |count| {
            let endpoints = (0..count).map(endpoint).collect();
            Upstream::new(UpstreamKind::Failover, endpoints)
        };
        let of = |version: &str, count| {
            shared.health(("pets".to_owned(), version.to_owned(), 0), &set(count))
        };
        let (first, second) = (of("1", 2), of("1", 2));
        assert!(Arc::ptr_eq(&first[0], &second[0]) && !Arc::ptr_eq(&first[0], &first[1]));
        let edited = of("1", 3);
        assert!(!Arc::ptr_eq(&first[0], &edited[0]), "an edit begins a new one");
        assert!(Arc::ptr_eq(&first[0], &of("1", 2)[0]), "workers before the edit keep theirs");
        drop((first, second, edited));
        assert!(!Arc::ptr_eq(&of("2", 2)[0], &of("1", 2)[0]));
    }

    #[test]
    fn a_set_whose_checks_have_ended_gets_new_ones_when_it_is_used_again() {
        let (shared, mut watched) = Shared::watched(1, &SystemEntropy);
        let mut set = Upstream::new(UpstreamKind::Single, vec![endpoint(0)]);
        set.health_check = Some(HealthCheck {
            path: "/up".to_owned(),
            interval_ms: 1,
            timeout_ms: 1,
            unhealthy_after: 1,
            healthy_after: 1,
        });
        let mut checked = || match watched.try_recv() {
            Ok(Watched::Endpoint(endpoint)) => Some(endpoint),
            Ok(_) | Err(_) => None,
        };
        let of = || shared.health(("pets".to_owned(), "1".to_owned(), 0), &set);
        let used = of();
        let first = checked().unwrap();
        let checking = shared.checked(&first).expect("a worker uses it");
        drop(used);
        // The check is still running, so that one more has its health than the registry.
        let again = of();
        assert!(checked().is_none() && shared.checked(&first).is_some(), "the checks go on");
        drop((again, checking));
        assert!(shared.checked(&first).is_none(), "they end");
        let last = first.health.upgrade();
        let _new = of();
        assert!(checked().is_some(), "and begin again");
        assert!(last.is_none(), "with a new health");
    }

    #[test]
    fn sets_without_workers_are_dropped() {
        let shared = Shared::new(1, &SystemEntropy);
        let set = Upstream::new(UpstreamKind::Single, vec![endpoint(0)]);
        let name = |number: usize| (number.to_string(), "1".to_owned(), 0);
        let used = shared.health(name(0), &set);
        for number in 1..=FULL_MIN {
            shared.health(name(number), &set);
        }
        let sets = shared.sets.lock().unwrap();
        assert_eq!(sets.by_name.len(), 2, "the one in use, and the last one");
        drop((sets, used));
    }
}
