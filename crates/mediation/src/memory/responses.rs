//! The responses of a `cache`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::{Format, limits};

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

/// The responses of one `cache`, by what identifies their requests. The oldest leave first.
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
        total.fetch_add(kept.bytes(key), Ordering::Relaxed);
        self.order.push_back((key.into(), now_ms));
        self.by_key.insert(key.into(), Arc::new(kept));
    }

    /// Whether the oldest entry is one that nobody gets any more.
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
