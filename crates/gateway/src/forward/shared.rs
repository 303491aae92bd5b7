//! What workers share about upstreams: the health of endpoints. Looked up when a worker meets an API, not per request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::Entropy;
use model::Upstream;

use super::balance::SetName;
use super::health::Health;

/// Shared by all workers of a gateway.
#[derive(Debug)]
pub(crate) struct Shared {
    workers: u32,
    seed: AtomicU64,
    sets: Mutex<Sets>,
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
    /// For `workers` worker threads.
    pub(crate) fn new(workers: usize, entropy: &impl Entropy) -> Arc<Self> {
        let workers = u32::try_from(workers).unwrap_or(u32::MAX).max(1);
        Arc::new(Self { workers, seed: AtomicU64::new(entropy.u64()), sets: Mutex::default() })
    }

    pub(crate) fn workers(&self) -> u32 {
        self.workers
    }

    /// Another one each time.
    pub(crate) fn seed(&self) -> u64 {
        self.seed.fetch_add(1, Ordering::Relaxed)
    }

    /// The health of the endpoints of a set, in its order. An edit of the API that changes the set begins a new one.
    pub(crate) fn health(&self, name: SetName, upstream: &Upstream) -> Vec<Arc<Health>> {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if sets.by_name.len() >= sets.full.max(FULL_MIN) {
            sets.by_name.retain(|_, named| named.iter().any(SharedSet::is_used));
            sets.full = 2 * sets.by_name.len();
        }
        let named = sets.by_name.entry(name).or_default();
        if let Some(known) = named.iter().find(|known| known.upstream == *upstream) {
            return known.health.clone();
        }
        named.retain(SharedSet::is_used);
        let health: Vec<_> = upstream.endpoints.iter().map(|_| Arc::default()).collect();
        named.push(SharedSet { upstream: upstream.clone(), health: health.clone() });
        health
    }
}

#[cfg(test)]
mod tests {
    use base::SystemEntropy;
    use model::UpstreamKind;

    use super::super::balance::tests::endpoint;
    use super::*;

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
