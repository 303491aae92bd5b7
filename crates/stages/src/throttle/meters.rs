//! The counters by key: those of the process, and what each worker has found of them.
//!
//! A worker finds a counter in its own table, without a lock. Only a key that it meets for the first time takes it to the
//! table of the process, behind the lock of one of many shards. A counter whose window is over is dropped by both.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use base::limits::{QUOTA_KEYS_MAX, QUOTA_SHARDS};

use super::counter::Counter;
use crate::hash::LoadedKeysState;

type Table = HashMap<u64, Arc<Counter>, LoadedKeysState>;

/// What finds a counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) hash: u64,
    pub(crate) period_ms: u64,
    /// Of a key that clients choose: what it shares with others if there are too many.
    pub(crate) crowd: Option<u64>,
}

/// The counters of the process.
#[derive(Debug)]
pub struct Meters {
    shards: Vec<Mutex<Table>>,
    /// With random keys, so that no client can choose names that share a counter.
    hashing: RandomState,
    /// Counters of a shard beyond which new keys of clients share one.
    shard_keys_max: usize,
}

impl Default for Meters {
    fn default() -> Self {
        Self::with_room(QUOTA_KEYS_MAX)
    }
}

/// A worker's view of them.
#[derive(Debug)]
pub struct WorkerMeters {
    shared: Arc<Meters>,
    shards: Vec<Table>,
    /// The shard that is swept next.
    next: usize,
}

impl Meters {
    pub(crate) fn with_room(keys_max: usize) -> Self {
        let shards = (0..QUOTA_SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hashing: RandomState::new(), shard_keys_max: keys_max / QUOTA_SHARDS }
    }

    /// If there are too many, keys that clients choose share a counter, so that a limit is reached early instead of
    /// never.
    fn counter(&self, key: Key, now_ms: u64) -> Arc<Counter> {
        let shard = self.shards.get(shard_of(key.hash));
        let shard = shard.expect("numbers of shards are below their count");
        let mut table = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = table.len() < self.shard_keys_max || table.contains_key(&key.hash);
        let hash = key.crowd.filter(|_| !has_room).unwrap_or(key.hash);
        let new = || Arc::new(Counter::new(key.period_ms, now_ms));
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
        Self { shared, shards, next: 0 }
    }

    pub(crate) fn counter(&mut self, key: Key, now_ms: u64) -> &Arc<Counter> {
        let table = self.shards.get_mut(shard_of(key.hash)).expect("as many as of the process");
        if table.len() >= self.shared.shard_keys_max && !table.contains_key(&key.hash) {
            table.clear(); // The process still has those whose windows are not over.
        }
        let shared = &self.shared;
        table.entry(key.hash).or_insert_with(|| shared.counter(key, now_ms))
    }

    /// Hashes what a client says of itself.
    pub(crate) fn hash(&self, name: impl std::hash::Hash) -> u64 {
        self.shared.hashing.hash_one(name)
    }

    /// Drops the counters of one shard whose windows are over: all, in `QUOTA_SHARDS` calls.
    pub fn sweep(&mut self, now_ms: u64) {
        let number = self.next;
        self.next = (number + 1) % QUOTA_SHARDS;
        if let Some(table) = self.shards.get_mut(number).filter(|table| !table.is_empty()) {
            table.retain(|_, counter| !counter.is_over(now_ms));
            shrink(table);
        }
        // Another worker is at it, or finds a counter: next time, then.
        if let Some(Ok(mut table)) = self.shared.shards.get(number).map(|shard| shard.try_lock()) {
            drop_over(&mut table, now_ms);
        }
    }
}

/// Drops the counters that nobody holds and whose windows are over. Whoever wants one needs the table's lock, so none
/// is dropped that is about to count.
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
