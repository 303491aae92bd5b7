//! The responses of a `cache`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::limits;
use crate::message::Format;

/// A response that is kept.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) status: Box<str>,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) format: Format,
    pub(crate) body: Bytes,
    pub(crate) since_ms: i64,
    pub(crate) until_ms: i64,
}

impl Kept {
    fn bytes(&self, key: &str) -> usize {
        let fields: usize =
            self.fields.iter().map(|(name, value)| name.len() + value.len() + 48).sum();
        // The key is in the map and in the queue.
        size_of::<Self>() + 2 * (key.len() + 32) + fields + self.body.len()
    }
}

/// Entries of the queue beyond twice the responses, before it is cleaned.
const SPARE_MIN: usize = 16;

/// The responses of one `cache`, by the keys of their requests. The oldest leave first.
#[derive(Debug, Default)]
pub(crate) struct Responses {
    by_key: HashMap<Box<str>, Arc<Kept>>,
    /// Oldest first. A key that was removed or replaced may be in it once more.
    order: VecDeque<(Box<str>, i64)>,
}

impl Responses {
    pub(crate) fn get(&self, key: &str, now_ms: i64) -> Option<Arc<Kept>> {
        self.by_key.get(key).filter(|kept| now_ms < kept.until_ms).cloned()
    }

    /// Keeps a response, if there is room for it: at most `count_max` here, and `limits::CACHE_BYTES_MAX` in `total`, the
    /// size of all caches.
    pub(crate) fn insert(&mut self, key: &str, kept: Kept, count_max: usize, total: &AtomicUsize) {
        let now_ms = kept.since_ms;
        self.remove(key, total);
        // A response that does not fit into an empty cache must not evict others.
        if count_max == 0 || kept.bytes(key) > limits::CACHE_BYTES_MAX {
            return;
        }
        let is_over = |responses: &Self| {
            responses.by_key.len() >= count_max
                || total.load(Ordering::Relaxed).saturating_add(kept.bytes(key))
                    > limits::CACHE_BYTES_MAX
        };
        while self.oldest_is_over(now_ms) || is_over(self) {
            let Some((oldest, since_ms)) = self.order.pop_front() else { return };
            if self.by_key.get(&oldest).is_some_and(|found| found.since_ms == since_ms) {
                self.remove(&oldest, total);
            }
        }
        if self.order.len() > 2 * self.by_key.len() + SPARE_MIN {
            // Keys that were replaced are in it more than once.
            let by_key = &self.by_key;
            let is_current =
                |key: &str, since_ms| by_key.get(key).is_some_and(|kept| kept.since_ms == since_ms);
            self.order.retain(|(key, since_ms)| is_current(key, *since_ms));
        }
        total.fetch_add(kept.bytes(key), Ordering::Relaxed);
        self.order.push_back((key.into(), now_ms));
        self.by_key.insert(key.into(), Arc::new(kept));
    }

    /// Whether the oldest entry has expired.
    fn oldest_is_over(&self, now_ms: i64) -> bool {
        let Some((oldest, _)) = self.order.front() else { return false };
        self.by_key.get(oldest).is_none_or(|kept| kept.until_ms <= now_ms)
    }

    fn remove(&mut self, key: &str, total: &AtomicUsize) {
        if let Some(kept) = self.by_key.remove(key) {
            total.fetch_sub(kept.bytes(key), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{Kept, Responses};
    use crate::limits;
    use crate::message::Format;

    fn kept(since_ms: i64, lasts_ms: i64, bytes: usize) -> Kept {
        Kept {
            status: "200".into(),
            fields: Vec::new(),
            format: Format::Json,
            body: vec![b'1'; bytes].into(),
            since_ms,
            until_ms: since_ms + lasts_ms,
        }
    }

    #[test]
    fn a_response_leaves_when_its_time_is_over() {
        let (mut responses, total) = (Responses::default(), AtomicUsize::new(0));
        responses.insert("a", kept(0, 100, 1), 10, &total);
        assert!(responses.get("a", 99).is_some());
        assert!(responses.get("a", 100).is_none());
        responses.insert("b", kept(100, 100, 1), 10, &total);
        assert_eq!(responses.by_key.len(), 1);
    }

    #[test]
    fn the_oldest_response_leaves_for_a_new_one() {
        let (mut responses, total) = (Responses::default(), AtomicUsize::new(0));
        for (at, key) in ["a", "b", "a", "c"].into_iter().enumerate() {
            responses.insert(key, kept(at as i64, 100, 1), 2, &total);
        }
        let found = ["a", "b", "c"].map(|key| responses.get(key, 5).is_some());
        assert_eq!(found, [true, false, true], "`a` was replaced after `b`");
    }

    #[test]
    fn all_caches_together_have_a_size() {
        let total = AtomicUsize::new(0);
        let (mut first, mut second) = (Responses::default(), Responses::default());
        let body = limits::CACHED_BODY_BYTES_MAX;
        for at in 0..20 {
            first.insert(&at.to_string(), kept(at, 1000, body), 100, &total);
        }
        assert!(total.load(Ordering::Relaxed) <= limits::CACHE_BYTES_MAX);
        assert!(first.get("19", 20).is_some() && first.get("0", 20).is_none());
        let left = first.by_key.len();
        second.insert("x", kept(20, 1000, body), 100, &total);
        assert!(second.get("x", 20).is_none(), "the others' responses stay");
        assert_eq!(first.by_key.len(), left);
    }

    #[test]
    fn a_response_that_never_fits_leaves_the_others() {
        let (mut responses, total) = (Responses::default(), AtomicUsize::new(0));
        responses.insert("a", kept(0, 100, 1), 10, &total);
        responses.insert("b", kept(1, 100, limits::CACHE_BYTES_MAX), 10, &total);
        responses.insert("c", kept(1, 100, 1), 0, &total);
        let found = ["a", "b", "c"].map(|key| responses.get(key, 2).is_some());
        assert_eq!(found, [true, false, false]);
    }

    #[test]
    fn keys_that_are_replaced_do_not_pile_up() {
        let (mut responses, total) = (Responses::default(), AtomicUsize::new(0));
        responses.insert("long", kept(0, i64::MAX, 1), 10, &total);
        for at in 1..1000 {
            responses.insert("short", kept(at, 1, 1), 10, &total);
        }
        assert!(responses.order.len() < 100, "{}", responses.order.len());
    }
}
