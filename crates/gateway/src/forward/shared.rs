//! What workers share about upstreams: the health of endpoints, and the addresses of names. Looked up when a worker
//! meets an API, not per request.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use base::Entropy;
use model::Upstream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use super::balance::SetName;
use super::health::Health;
use super::names::{Follower, Name};

/// Shared by all workers of a gateway.
#[derive(Debug)]
pub(crate) struct Shared {
    workers: u32,
    seed: AtomicU64,
    sets: Mutex<Sets>,
    names: Mutex<HashMap<String, Weak<Name>>>,
    /// To the thread that looks names up, if there is one. There are at most as many as endpoints.
    followed: Option<UnboundedSender<Weak<Name>>>,
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
    /// For `workers` worker threads. Names are looked up for each connection.
    pub(crate) fn new(workers: usize, entropy: &impl Entropy) -> Arc<Self> {
        Arc::new(Self::with(workers, entropy, None))
    }

    /// For `workers` worker threads, with a thread that looks up names until this is dropped: by `servers`, or if there
    /// are none by the system's name servers.
    ///
    /// # Errors
    /// The system provides no thread or no event queue.
    pub(crate) fn start(
        workers: usize,
        entropy: &impl Entropy,
        servers: Vec<SocketAddr>,
    ) -> io::Result<Arc<Self>> {
        let (sender, receiver) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new()
            .name("names".to_owned())
            .spawn(move || LocalSet::new().block_on(&runtime, follow_names(receiver, servers)))?;
        Ok(Arc::new(Self::with(workers, entropy, Some(sender))))
    }

    fn with(
        workers: usize,
        entropy: &impl Entropy,
        followed: Option<UnboundedSender<Weak<Name>>>,
    ) -> Self {
        Self {
            workers: u32::try_from(workers).unwrap_or(u32::MAX).max(1),
            seed: AtomicU64::new(entropy.u64()),
            sets: Mutex::default(),
            names: Mutex::default(),
            followed,
        }
    }

    /// What is known of a host name, which is looked up if it is new. `None`: no thread looks names up.
    pub(crate) fn name(&self, host: &str) -> Option<Arc<Name>> {
        let followed = self.followed.as_ref()?;
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.get(host).and_then(Weak::upgrade) {
            return Some(known);
        }
        names.retain(|_, name| name.strong_count() > 0);
        let name = Arc::new(Name::new(host));
        names.insert(host.to_owned(), Arc::downgrade(&name));
        followed.send(Arc::downgrade(&name)).ok()?;
        Some(name)
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

/// Keeps every name up to date. Ends when the gateway does.
async fn follow_names(mut names: UnboundedReceiver<Weak<Name>>, servers: Vec<SocketAddr>) {
    let follower = Follower::new(servers);
    while let Some(name) = names.recv().await {
        tokio::task::spawn_local(Rc::clone(&follower).follow(name));
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
