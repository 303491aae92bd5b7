//! The responses of a `cache`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

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
    pub(super) fn bytes(&self, key: &str) -> usize {
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
    /// Bytes of all responses.
    bytes: usize,
    /// Where the next sweep goes on in `order`.
    swept: usize,
}

impl Responses {
    pub(crate) fn get(&self, key: &str, now_ms: i64) -> Option<Arc<Kept>> {
        self.by_key.get(key).filter(|kept| now_ms < kept.until_ms).cloned()
    }

    /// Size of all responses, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a response, if it may be one of `count_max`.
    pub(crate) fn insert(&mut self, key: &str, kept: Kept, count_max: usize) {
        let now_ms = kept.since_ms;
        self.remove(key);
        // A response that does not fit into an empty cache must not evict others.
        if count_max == 0 || kept.bytes(key) > limits::CACHE_BYTES_MAX {
            return;
        }
        while self.oldest_is_over(now_ms) || self.by_key.len() >= count_max {
            if self.pop().is_none() {
                break;
            }
        }
        if self.order.len() > 2 * self.by_key.len() + SPARE_MIN {
            // Keys that were replaced are in it more than once.
            let by_key = &self.by_key;
            self.order.retain(|(key, since_ms)| is_current(by_key, key, *since_ms));
        }
        self.bytes = self.bytes.saturating_add(kept.bytes(key));
        self.order.push_back((key.into(), now_ms));
        self.by_key.insert(key.into(), Arc::new(kept));
    }

    /// Whether there was one.
    pub(crate) fn drop_oldest(&mut self) -> bool {
        std::iter::from_fn(|| self.pop()).any(|was_current| was_current)
    }

    /// Removes the first entry of the queue, with its response if it still has one, which is returned. `None`: the
    /// queue is empty.
    fn pop(&mut self) -> Option<bool> {
        let (oldest, since_ms) = self.order.pop_front()?;
        let is_current = is_current(&self.by_key, &oldest, since_ms);
        if is_current {
            self.remove(&oldest);
        }
        Some(is_current)
    }

    /// Looks at `most` of the responses, and drops those whose time is over.
    pub(crate) fn sweep(&mut self, now_ms: i64, most: usize) {
        for _ in 0..most.min(self.order.len()) {
            let at = self.swept;
            self.swept = if at < self.order.len() { at + 1 } else { 0 };
            let Some((key, since_ms)) = self.order.get(at) else { continue };
            let found = self.by_key.get(key).filter(|kept| kept.since_ms == *since_ms);
            if found.is_some_and(|kept| kept.until_ms <= now_ms) {
                let key = key.clone();
                self.remove(&key);
            }
        }
        // Their entries are left in the queue.
        if self.order.len() > 2 * self.by_key.len() + SPARE_MIN {
            let by_key = &self.by_key;
            self.order.retain(|(key, since_ms)| is_current(by_key, key, *since_ms));
            self.order.shrink_to_fit();
            self.by_key.shrink_to_fit();
        }
    }

    /// Whether the oldest entry has expired.
    fn oldest_is_over(&self, now_ms: i64) -> bool {
        let Some((oldest, _)) = self.order.front() else { return false };
        self.by_key.get(oldest).is_none_or(|kept| kept.until_ms <= now_ms)
    }

    fn remove(&mut self, key: &str) {
        if let Some(kept) = self.by_key.remove(key) {
            self.bytes = self.bytes.saturating_sub(kept.bytes(key));
        }
    }
}

/// Whether an entry of the queue is that of a response, and not of one before it with the same key.
fn is_current(by_key: &HashMap<Box<str>, Arc<Kept>>, key: &str, since_ms: i64) -> bool {
    by_key.get(key).is_some_and(|kept| kept.since_ms == since_ms)
}

#[cfg(test)]
mod tests {
    use super::{Kept, Responses};
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
        let mut responses = Responses::default();
        responses.insert("a", kept(0, 100, 1), 10);
        assert!(responses.get("a", 99).is_some());
        assert!(responses.get("a", 100).is_none());
        responses.insert("b", kept(100, 100, 1), 10);
        assert_eq!(responses.by_key.len(), 1);
    }

    #[test]
    fn the_oldest_response_leaves_for_a_new_one() {
        let mut responses = Responses::default();
        for (at, key) in ["a", "b", "a", "c"].into_iter().enumerate() {
            responses.insert(key, kept(at as i64, 100, 1), 2);
        }
        let found = ["a", "b", "c"].map(|key| responses.get(key, 5).is_some());
        assert_eq!(found, [true, false, true], "`a` was replaced after `b`");
    }

    #[test]
    fn keys_that_are_replaced_do_not_pile_up() {
        let mut responses = Responses::default();
        responses.insert("long", kept(0, i64::MAX, 1), 10);
        for at in 1..1000 {
            responses.insert("short", kept(at, 1, 1), 10);
        }
        assert!(responses.order.len() < 100, "{}", responses.order.len());
    }
}
