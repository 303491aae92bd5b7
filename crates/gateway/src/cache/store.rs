//! A worker's stored responses: a limited number of bytes, the oldest leave first.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::{self, Arc};

use base::limits::{
    RESPONSE_CACHE_BYTES_MAX, RESPONSE_CACHE_SWEPT_MAX, RESPONSE_CACHE_VARIANTS_MAX,
};
use bytes::Bytes;
use stages::ApiRoutes;

use super::rules::{self, Freshness};
use crate::message::Request;

/// The key of a stored response: API, endpoint set, host, target.
pub(crate) type Key = Rc<[u8]>;

/// A field that a response varies with, and its values.
pub(crate) type Varied = (Box<[u8]>, Vec<Box<[u8]>>);

/// A stored response.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) key: Key,
    /// An edited API does not find it any more, and it does not keep the API of the past in memory.
    pub(crate) routes: sync::Weak<ApiRoutes>,
    /// The fields in `Vary`, each with the values that the request had.
    pub(crate) varies: Vec<Varied>,
    /// Field lines, each with its CRLF, without `Age`.
    pub(crate) lines: Box<[u8]>,
    pub(crate) etag: Option<Box<[u8]>>,
    pub(crate) body: Bytes,
    pub(crate) freshness: Freshness,
    /// When it arrived, on the worker's clock.
    pub(crate) arrived_us: u64,
}

impl Stored {
    /// Memory, in bytes, roughly.
    pub(crate) fn size(&self) -> usize {
        const OVERHEAD: usize = 512;
        let varies = self.varies.iter().map(|(name, values)| {
            name.len() + values.iter().map(|value| value.len() + 32).sum::<usize>() + 64
        });
        OVERHEAD
            .saturating_add(self.key.len())
            .saturating_add(self.lines.len())
            .saturating_add(self.body.len())
            .saturating_add(varies.sum())
    }

    /// The response's age at `now_us`, in seconds. Source: RFC 9111 section 4.2.3.
    pub(crate) fn age_s(&self, now_us: u64) -> u64 {
        let resident_s = now_us.saturating_sub(self.arrived_us) / 1_000_000;
        self.freshness.age_s.saturating_add(resident_s)
    }

    pub(crate) fn is_fresh(&self, now_us: u64) -> bool {
        self.age_s(now_us) < self.freshness.lifetime_s
    }

    /// Whether it is one of this API, in this revision.
    fn is_of(&self, routes: &Arc<ApiRoutes>) -> bool {
        std::ptr::eq(self.routes.as_ptr(), Arc::as_ptr(routes))
    }

    /// Whether it can still be of use: as it is, or validated.
    fn is_useful(&self, now_us: u64) -> bool {
        self.routes.strong_count() > 0 && (self.is_fresh(now_us) || self.etag.is_some())
    }

    fn fits(&self, request: &Request) -> bool {
        self.varies.iter().all(|(name, values)| {
            let now = rules::request_values(request, name);
            now.eq(values.iter().map(|value| &**value))
        })
    }
}

/// The stored responses.
#[derive(Debug, Default)]
pub(crate) struct ResponseCache {
    by_key: RefCell<HashMap<Key, Vec<Rc<Stored>>>>,
    /// The oldest is first. Some are no longer in the map.
    order: RefCell<VecDeque<Weak<Stored>>>,
    /// Responses in the map.
    count: Cell<usize>,
    /// Their bytes, and those of responses that are being recorded.
    used: Cell<usize>,
    /// How often responses were invalidated.
    invalidations: Cell<u64>,
    /// Where the next sweep goes on in `order`.
    swept: Cell<usize>,
}

impl ResponseCache {
    pub(crate) fn find(
        &self,
        key: &[u8],
        routes: &Arc<ApiRoutes>,
        request: &Request,
    ) -> Option<Rc<Stored>> {
        let by_key = self.by_key.borrow();
        let mut variants = by_key.get(key)?.iter();
        // The most recent one comes first. Source: RFC 9111 section 4.
        let fits = |known: &&Rc<Stored>| known.is_of(routes) && known.fits(request);
        variants.rfind(fits).cloned()
    }

    /// Stores a response whose size is reserved, in the place of one for the same requests.
    pub(crate) fn insert(&self, stored: Stored) {
        let stored = Rc::new(stored);
        let mut by_key = self.by_key.borrow_mut();
        let variants = by_key.entry(Rc::clone(&stored.key)).or_default();
        let is_other = |known: &Rc<Stored>| known.varies != stored.varies;
        variants.retain(|known| {
            let stays = known.routes.ptr_eq(&stored.routes) && is_other(known);
            if !stays {
                self.left(known);
            }
            stays
        });
        if variants.len() >= RESPONSE_CACHE_VARIANTS_MAX {
            self.left(&variants.remove(0));
        }
        self.count.set(self.count.get().saturating_add(1));
        let mut order = self.order.borrow_mut();
        if order.len() > self.count.get().saturating_mul(2) {
            order.retain(|known| known.strong_count() > 0);
        }
        order.push_back(Rc::downgrade(&stored));
        variants.push(stored);
    }

    /// A response is no longer in the map.
    fn left(&self, stored: &Stored) {
        self.count.set(self.count.get().saturating_sub(1));
        self.release(stored.size());
    }

    /// Removes the responses stored for `key`. Responses that are being fetched are not stored.
    pub(crate) fn invalidate(&self, key: &[u8]) {
        self.invalidations.set(self.invalidations.get().wrapping_add(1));
        let removed = self.by_key.borrow_mut().remove(key);
        removed.unwrap_or_default().iter().for_each(|stored| self.left(stored));
    }

    /// Asserts that the bytes reserved equal the bytes stored.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let by_key = self.by_key.borrow();
        let stored = by_key.values().flatten();
        assert_eq!(stored.clone().count(), self.count.get(), "stored responses");
        assert_eq!(stored.map(|one| one.size()).sum::<usize>(), self.used.get(), "their bytes");
    }

    pub(crate) fn invalidations(&self) -> u64 {
        self.invalidations.get()
    }

    /// Takes `bytes`; the oldest responses make room. Whether there is some.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        while self.used.get().saturating_add(bytes) > RESPONSE_CACHE_BYTES_MAX {
            let Some(oldest) = self.order.borrow_mut().pop_front() else { return false };
            if let Some(oldest) = oldest.upgrade() {
                self.remove(&oldest);
            }
        }
        self.used.set(self.used.get().saturating_add(bytes));
        true
    }

    fn remove(&self, stored: &Rc<Stored>) {
        let mut by_key = self.by_key.borrow_mut();
        let Some(variants) = by_key.get_mut(&stored.key) else { return };
        // Not one that was replaced while a request still uses it.
        if let Some(at) = variants.iter().position(|known| Rc::ptr_eq(known, stored)) {
            self.left(&variants.remove(at));
        }
        if variants.is_empty() {
            by_key.remove(&stored.key);
        }
    }

    /// Removes responses that are no longer useful. Looks at `RESPONSE_CACHE_SWEPT_MAX` of them.
    pub(crate) fn sweep(&self, now_us: u64) {
        let order = self.order.borrow();
        for _ in 0..order.len().min(RESPONSE_CACHE_SWEPT_MAX) {
            let at = self.swept.get();
            self.swept.set(if at < order.len() { at + 1 } else { 0 });
            let stored = order.get(at).and_then(Weak::upgrade);
            if let Some(stored) = stored.filter(|stored| !stored.is_useful(now_us)) {
                self.remove(&stored);
            }
        }
        drop(order);
        if self.count.get() == 0 {
            self.order.borrow_mut().clear();
        }
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.used.set(self.used.get().saturating_sub(bytes));
    }
}
