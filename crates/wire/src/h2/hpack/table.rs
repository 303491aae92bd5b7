//! The static and the dynamic table. Source: RFC 7541 section 2.3 and appendix A.

use std::collections::VecDeque;

/// The static table; index 1 is first.
#[rustfmt::skip]
pub(in crate::h2) const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];

/// Size of an entry in addition to its bytes. Source: RFC 7541 section 4.1.
pub(in crate::h2) const ENTRY_BYTES: usize = 32;

/// The fields that a peer has added, newest first. Their bytes are in one vector.
#[derive(Debug)]
pub(super) struct DynamicTable {
    /// Names and values, oldest first. The front may still hold those of evicted entries.
    bytes: Vec<u8>,
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// The size of all entries, each with `ENTRY_BYTES`.
    size: usize,
    size_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    name_len: usize,
    value_len: usize,
}

impl Entry {
    fn len(self) -> usize {
        self.name_len + self.value_len
    }
}

impl DynamicTable {
    pub(super) fn new(size_max: usize) -> Self {
        Self { bytes: Vec::new(), entries: VecDeque::new(), size: 0, size_max }
    }

    /// The entry at `index`, 0 being the newest.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let place = self.entries.len().checked_sub(1)?.checked_sub(index)?;
        let entry = self.entries.get(place)?;
        let bytes = self.bytes.get(entry.start..)?.get(..entry.len())?;
        bytes.split_at_checked(entry.name_len)
    }

    /// Adds an entry; an entry above the maximum empties the table. Source: RFC 7541 section 4.4.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let len = name.len().saturating_add(value.len());
        let size = len.saturating_add(ENTRY_BYTES);
        self.evict(self.size_max.saturating_sub(size));
        if size > self.size_max {
            return;
        }
        if self.bytes.len().saturating_add(len) > 2 * self.size_max {
            self.compact();
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.entries.push_back(Entry { start, name_len: name.len(), value_len: value.len() });
        self.size += size;
    }

    pub(super) fn resize(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict(size_max);
    }

    /// Evicts the oldest entries until the size is at most `size_max`.
    fn evict(&mut self, size_max: usize) {
        while self.size > size_max
            && let Some(entry) = self.entries.pop_front()
        {
            self.size = self.size.saturating_sub(entry.len() + ENTRY_BYTES);
        }
        if self.entries.is_empty() {
            self.size = 0;
            self.bytes.clear();
        }
    }

    /// Drops the bytes of evicted entries.
    fn compact(&mut self) {
        let unused = self.entries.front().map_or(self.bytes.len(), |oldest| oldest.start);
        self.bytes.drain(..unused);
        for entry in &mut self.entries {
            entry.start = entry.start.saturating_sub(unused);
        }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Bytes in memory.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn held(&self) -> usize {
        self.bytes.len()
    }
}
