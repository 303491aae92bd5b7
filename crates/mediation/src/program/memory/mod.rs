//! State that mediators keep between messages: responses of `cache`, counts of `throttle`. The host owns it, as long as
//! the program; its workers share it. Everything in it has a limit.

mod responses;
mod windows;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits;
use crate::program::Program;

pub(crate) use responses::{Kept, Responses};
pub(crate) use windows::{Rate, Windows};

/// The state of a program's mediators.
#[derive(Debug, Default)]
pub struct Memory {
    /// By the number of the `cache`.
    caches: Vec<Cache>,
    /// The cache that the next sweep looks at.
    swept: AtomicUsize,
    /// By the number of the `throttle`.
    throttles: Vec<Mutex<Windows>>,
    /// Requests in progress, by the number of the `id`.
    groups: Vec<Arc<AtomicUsize>>,
}

impl Memory {
    /// Empty, with places for the mediators of `program`.
    #[must_use]
    pub fn new(program: &Program) -> Self {
        fn all<T: Default>(count: usize) -> Vec<T> {
            std::iter::repeat_with(T::default).take(count).collect()
        }
        Self {
            caches: all(program.caches.len()),
            swept: AtomicUsize::new(0),
            throttles: all(program.throttles),
            groups: all(program.throttle_groups.len()),
        }
    }

    /// A response of the `cache` with this number.
    pub(crate) fn cached(&self, number: usize, key: &str, now_ms: i64) -> Option<Arc<Kept>> {
        lock(&self.caches.get(number)?.responses).get(key, now_ms)
    }

    /// Keeps a response in the `cache` with this number: at most `count_max` there, and `limits::CACHE_BYTES_MAX` in
    /// all. The cache that uses most makes room: so none that is full keeps others empty.
    pub(crate) fn keep(&self, number: usize, key: &str, kept: Kept, count_max: usize) {
        let Some(cache) = self.caches.get(number) else { return };
        let bytes = kept.bytes(key);
        if bytes <= limits::CACHE_BYTES_MAX {
            // Workers that keep responses at the same time may exceed the limit by these.
            while self.cached_bytes().saturating_add(bytes) > limits::CACHE_BYTES_MAX {
                let largest = self.caches.iter().max_by_key(|cache| cache.bytes());
                if !largest.is_some_and(|largest| largest.change(Responses::drop_oldest)) {
                    break;
                }
            }
        }
        cache.change(|responses| responses.insert(key, kept, count_max));
    }

    /// Drops responses whose time is over from one of the caches, for which `limits::CACHE_SWEPT_MAX` responses are
    /// looked at. To be called now and then: a cache that gets no requests has no other reason to drop them.
    pub fn sweep(&self, now_ms: i64) {
        if self.caches.is_empty() {
            return;
        }
        let number = self.swept.fetch_add(1, Ordering::Relaxed) % self.caches.len();
        if let Some(cache) = self.caches.get(number).filter(|cache| cache.bytes() > 0) {
            cache.change(|responses| responses.sweep(now_ms, limits::CACHE_SWEPT_MAX));
        }
    }

    /// The size of the responses in all caches.
    #[must_use]
    pub fn cached_bytes(&self) -> usize {
        self.caches.iter().map(Cache::bytes).sum()
    }

    pub(crate) fn throttle(&self, number: usize) -> Option<MutexGuard<'_, Windows>> {
        self.throttles.get(number).map(lock)
    }

    /// A place among at most `max` requests of the group.
    pub(crate) fn enter(&self, group: usize, max: usize) -> Option<Place> {
        let group = self.groups.get(group)?;
        let add = |places: usize| (places < max).then_some(places + 1);
        group.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Place(Arc::clone(group)))
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The responses of one `cache`, and their size as of the last change.
#[derive(Debug, Default)]
struct Cache {
    responses: Mutex<Responses>,
    bytes: AtomicUsize,
}

impl Cache {
    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Responses) -> T) -> T {
        let mut responses = lock(&self.responses);
        let changed = change(&mut responses);
        self.bytes.store(responses.bytes(), Ordering::Relaxed);
        changed
    }
}

/// A place among the requests in progress; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    fn kept(since_ms: i64, lasts_ms: i64, bytes: usize) -> Kept {
        Kept {
            status: "200".into(),
            fields: Vec::new(),
            format: Format::Json,
            body: vec![b'1'; bytes].into(),
            since_ms,
            until_ms: since_ms.saturating_add(lasts_ms),
        }
    }

    /// With this number of caches.
    fn memory(caches: usize) -> Memory {
        Memory {
            caches: std::iter::repeat_with(Cache::default).take(caches).collect(),
            ..Memory::default()
        }
    }

    #[test]
    fn a_full_cache_makes_room_for_the_others() {
        let memory = memory(3);
        let body = limits::CACHED_BODY_BYTES_MAX;
        for at in 0..20 {
            memory.keep(0, &at.to_string(), kept(at, 1000, body), 100);
        }
        assert!(memory.cached(0, "19", 20).is_some() && memory.cached(0, "0", 20).is_none());
        for (cache, key) in [(1, "x"), (2, "y"), (1, "z")] {
            memory.keep(cache, key, kept(20, 1000, body), 100);
            assert!(memory.cached_bytes() <= limits::CACHE_BYTES_MAX);
        }
        let found = [(1, "x"), (2, "y"), (1, "z"), (0, "19")];
        let found = found.map(|(cache, key)| memory.cached(cache, key, 20).is_some());
        assert_eq!(found, [true; 4], "the oldest responses of the largest cache are gone");
    }

    #[test]
    fn responses_of_idle_caches_leave_when_their_time_is_over() {
        let memory = memory(3);
        let count = 2 * limits::CACHE_SWEPT_MAX;
        for at in 0..count {
            memory.keep(2, &format!("short {at}"), kept(0, 100, 1), count + 1);
        }
        memory.keep(2, "long", kept(0, 1000, 1), count + 1);
        let before = memory.cached_bytes();
        (0..9).for_each(|_| memory.sweep(99));
        assert_eq!(memory.cached_bytes(), before);
        (0..9).for_each(|_| memory.sweep(100));
        assert_eq!(memory.cached_bytes(), kept(0, 0, 1).bytes("long"));
        assert!(memory.cached(2, "long", 100).is_some());
    }

    #[test]
    fn a_response_that_never_fits_leaves_the_others() {
        let memory = memory(1);
        memory.keep(0, "a", kept(0, 100, 1), 10);
        memory.keep(0, "b", kept(1, 100, limits::CACHE_BYTES_MAX), 10);
        memory.keep(0, "c", kept(1, 100, 1), 0);
        let found = ["a", "b", "c"].map(|key| memory.cached(0, key, 2).is_some());
        assert_eq!(found, [true, false, false]);
    }
}
