//! The counters by key: the table of the process, and each worker's table of the counters that it has used.
//!
//! A worker finds a counter in its own table, without a lock. Only a key that it meets for the first time takes it to
//! the table of the process, behind the lock of one of many shards. A counter whose window is over is dropped by both.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use base::limits::{KEY_VALUES_KEPT_BYTES, QUOTA_KEYS_MAX, QUOTA_SHARDS, SPARE_HEADS_MAX};

use super::Later;
use super::counter::Counter;
use super::link::{Link, Mode};
use crate::hash::LoadedKeysState;

type Table = HashMap<u64, Arc<Counter>, LoadedKeysState>;

/// The key of a counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'s> {
    pub(crate) hash: u64,
    pub(crate) period_ms: u64,
    /// Identifies the limit. Keys that clients choose share one counter per limit if there are too many.
    pub(crate) of_limit: u64,
    /// The client that the limit counts separately, if any.
    pub(crate) client: Option<Client<'s>>,
}

/// A client that a limit counts separately.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Client<'s> {
    /// `iss` and subject of a token.
    User(&'s str, &'s str),
    /// An address, or the network of one.
    Network(u128),
    /// The SHA-256 of the values that requests have in common.
    Values([u8; 32]),
}

/// The counters of the process.
#[derive(Debug)]
pub struct Meters {
    shards: Vec<Mutex<Table>>,
    /// Hashing with random keys, so that clients cannot choose names that share a counter.
    hashing: RandomState,
    /// The link to other gateways.
    link: Option<Arc<Link>>,
    /// Maximum number of counters in a shard; beyond it, new keys of clients share one.
    shard_keys_max: usize,
}

impl Default for Meters {
    fn default() -> Self {
        Self::with_room(QUOTA_KEYS_MAX)
    }
}

/// A worker's view of the counters.
#[derive(Debug)]
pub struct WorkerMeters {
    shared: Arc<Meters>,
    shards: Vec<Table>,
    /// The shard that is swept next.
    next: usize,
    /// Buffer for the values of a key.
    values: Vec<u8>,
    /// Lists for reuse by requests with quantities that are counted later.
    spare: Vec<Vec<Later>>,
}

impl Meters {
    pub(crate) fn with_room(keys_max: usize) -> Self {
        let shards = (0..QUOTA_SHARDS).map(|_| Mutex::default()).collect();
        let (hashing, shard_keys_max) = (RandomState::new(), keys_max / QUOTA_SHARDS);
        Self { shards, hashing, link: None, shard_keys_max }
    }

    /// Counters that are shared with other gateways by way of `link`.
    #[must_use]
    pub fn linked(link: Arc<Link>) -> Self {
        Self { link: Some(link), ..Self::default() }
    }

    /// Puts all counters into the queue of the reconciliation.
    pub(super) fn queue_all(&self) {
        for shard in &self.shards {
            let counters: Vec<_> = {
                let table = shard.lock().unwrap_or_else(PoisonError::into_inner);
                table.values().cloned().collect()
            };
            counters.iter().for_each(Counter::requeue);
        }
    }

    /// Finds or creates a counter. If there are too many, keys that clients choose share one, so that a limit is
    /// reached early instead of never.
    fn counter(&self, key: Key<'_>, now_ms: u64) -> Arc<Counter> {
        let shard = self.shards.get(shard_of(key.hash));
        let shard = shard.expect("numbers of shards are below their count");
        let mut table = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = table.len() < self.shard_keys_max || table.contains_key(&key.hash);
        let client = key.client.filter(|_| has_room);
        let hash = if client.is_some() { key.hash } else { key.of_limit };
        let link = self.link.as_ref();
        let name = || {
            let named = client.zip(link).map(|(client, link)| link.name(key.of_limit, client));
            named.unwrap_or(key.of_limit)
        };
        let new = || Arc::new(Counter::new(name(), key.period_ms, link, now_ms));
        Arc::clone(table.entry(hash).or_insert_with(new))
    }

    /// Counters in use.
    #[must_use]
    pub fn len(&self) -> usize {
        let len = |shard: &Mutex<Table>| shard.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.shards.iter().map(len).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl WorkerMeters {
    #[must_use]
    pub fn new(shared: Arc<Meters>) -> Self {
        let shards = (0..QUOTA_SHARDS).map(|_| Table::default()).collect();
        Self { shared, shards, next: 0, values: Vec::new(), spare: Vec::new() }
    }

    pub(crate) fn counter(&mut self, key: Key<'_>, now_ms: u64) -> &Arc<Counter> {
        let table = self.shards.get_mut(shard_of(key.hash)).expect("as many as of the process");
        if table.len() >= self.shared.shard_keys_max && !table.contains_key(&key.hash) {
            table.clear(); // The process still has the counters whose windows are not over.
        }
        let shared = &self.shared;
        table.entry(key.hash).or_insert_with(|| shared.counter(key, now_ms))
    }

    /// Hashes a name that a client has chosen.
    pub(crate) fn hash(&self, name: impl Hash) -> u64 {
        self.shared.hashing.hash_one(name)
    }

    /// The SHA-256 of the bytes that `write` appends.
    pub(crate) fn digest(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> [u8; 32] {
        self.values.clear();
        write(&mut self.values);
        let digest = jose::sha256(&self.values);
        if self.values.capacity() > KEY_VALUES_KEPT_BYTES {
            self.values = Vec::new();
        }
        digest
    }

    /// An empty list.
    pub(super) fn lend(&mut self) -> Vec<Later> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps the memory of a list for reuse.
    pub fn release(&mut self, mut list: Vec<Later>) {
        list.clear();
        if list.capacity() > 0 && self.spare.len() < SPARE_HEADS_MAX {
            self.spare.push(list);
        }
    }

    /// The time for windows: that of Redis, if counts are shared with other gateways.
    #[must_use]
    pub fn time_ms(&self, now_ms: u64) -> u64 {
        self.shared.link.as_ref().map_or(now_ms, |link| link.time_ms(now_ms))
    }

    pub(crate) fn mode(&self) -> Mode {
        self.shared.link.as_ref().map_or(Mode::Limited, |link| link.mode())
    }

    /// Drops the counters of one shard whose windows are over. `QUOTA_SHARDS` calls visit all shards.
    pub fn sweep(&mut self, now_ms: u64) {
        let number = self.next;
        self.next = (number + 1) % QUOTA_SHARDS;
        if let Some(table) = self.shards.get_mut(number).filter(|table| !table.is_empty()) {
            table.retain(|_, counter| !counter.is_over(now_ms));
            shrink(table);
        }
        // If another worker holds the lock, the shard is left for the next round.
        if let Some(Ok(mut table)) = self.shared.shards.get(number).map(|shard| shard.try_lock()) {
            drop_over(&mut table, now_ms);
        }
    }
}

/// Drops unreferenced counters whose windows are over. Getting a counter requires the table's lock, so a counter that
/// is about to be used is never dropped.
fn drop_over(table: &mut Table, now_ms: u64) {
    table.retain(|_, counter| Arc::strong_count(counter) > 1 || !counter.is_over(now_ms));
    shrink(table);
}

fn shrink(table: &mut Table) {
    if table.capacity() > 4 * table.len().max(16) {
        table.shrink_to_fit();
    }
}

fn shard_of(key: u64) -> usize {
    usize::try_from(key >> 32).unwrap_or_default() % QUOTA_SHARDS
}
