//! Lookup of an API by host and path: a table of base paths for each host, for each wildcard, and for APIs
//! of any host.

use std::collections::HashMap;

use super::template;
use crate::hash::LoadedKeysState;

/// Index of an API in the list that the tables were filled from.
pub(super) type ApiIndex = u32;

#[derive(Debug, Default)]
pub(super) struct Hosts {
    exact: HashMap<Box<[u8]>, Prefixes, LoadedKeysState>,
    /// Base paths by the part after `*`: `.example.org`.
    wildcard: HashMap<Box<[u8]>, Prefixes, LoadedKeysState>,
    /// Length of the longest key of `wildcard`.
    wildcard_len_max: usize,
    any: Prefixes,
}

/// Base paths of one host.
#[derive(Debug, Default)]
struct Prefixes {
    table: HashMap<Box<[u8]>, ApiIndex, LoadedKeysState>,
    /// Bit `n` is set if a key has `n` segments; the last bit, if one has as many or more.
    depths: u64,
    /// Length of the longest key.
    len_max: usize,
}

/// Length of the longest host name. Source: RFC 1035 section 2.3.4.
const HOST_BYTES_MAX: usize = 255;

impl Hosts {
    /// If two APIs claim the same host and path, the first is used.
    pub(super) fn insert(&mut self, hosts: &[String], prefix: &str, api: ApiIndex) {
        let key = template::canonical(prefix.as_bytes());
        if hosts.is_empty() {
            self.any.insert(&key, api);
        }
        for host in hosts {
            self.named(&host.to_ascii_lowercase()).insert(&key, api);
        }
    }

    fn named(&mut self, host: &str) -> &mut Prefixes {
        let host = host.trim_matches(['[', ']']);
        match host.strip_prefix('*') {
            Some(suffix) => {
                self.wildcard_len_max = self.wildcard_len_max.max(suffix.len());
                self.wildcard.entry(suffix.as_bytes().into()).or_default()
            }
            None => self.exact.entry(host.as_bytes().into()).or_default(),
        }
    }

    /// The API for `path`, which is [`template::canonical`], and the length of its base path. Tables are searched
    /// in this order: the host's own, wildcards from the longest to the shortest, any host.
    pub(super) fn find(&self, host: &[u8], path: &[u8]) -> Option<(ApiIndex, usize)> {
        self.find_named(host, path).or_else(|| self.any.find(path))
    }

    fn find_named(&self, authority: &[u8], path: &[u8]) -> Option<(ApiIndex, usize)> {
        if self.exact.is_empty() && self.wildcard.is_empty() {
            return None;
        }
        let mut buffer = [0; HOST_BYTES_MAX];
        let host = name(authority);
        let lower = buffer.get_mut(..host.len())?;
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        let lower: &[u8] = lower;
        let exact = self.exact.get(lower).and_then(|prefixes| prefixes.find(path));
        exact.or_else(|| self.find_wildcard(lower, path))
    }

    fn find_wildcard(&self, host: &[u8], path: &[u8]) -> Option<(ApiIndex, usize)> {
        let first = host.len().saturating_sub(self.wildcard_len_max).max(1);
        (first..host.len())
            .filter_map(|at| host.get(at..).filter(|suffix| suffix.starts_with(b".")))
            .find_map(|suffix| self.wildcard.get(suffix)?.find(path))
    }
}

/// The host without port, trailing dot and, for an IPv6 address, brackets.
fn name(authority: &[u8]) -> &[u8] {
    if let Some(address) = authority.strip_prefix(b"[") {
        return address.split(|byte| *byte == b']').next().unwrap_or_default();
    }
    let host = authority.split(|byte| *byte == b':').next().unwrap_or_default();
    host.strip_suffix(b".").unwrap_or(host)
}

impl Prefixes {
    fn insert(&mut self, prefix: &[u8], api: ApiIndex) {
        self.table.entry(prefix.into()).or_insert(api);
        self.depths |= depth_bit(prefix.iter().filter(|byte| **byte == b'/').count());
        self.len_max = self.len_max.max(prefix.len());
    }

    /// The longest key that is a prefix of `path` and ends at the end of a segment: one lookup for each depth
    /// that some key has.
    fn find(&self, path: &[u8]) -> Option<(ApiIndex, usize)> {
        let mut best = None;
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for (depth, end) in ends.chain([path.len()]).enumerate() {
            if end > self.len_max || self.depths < depth_bit(depth) {
                break;
            }
            if self.depths & depth_bit(depth) != 0 {
                best = self.at(path, end).or(best);
            }
        }
        best
    }

    fn at(&self, path: &[u8], end: usize) -> Option<(ApiIndex, usize)> {
        self.table.get(path.get(..end)?).map(|api| (*api, end))
    }
}

fn depth_bit(depth: usize) -> u64 {
    1 << depth.min(u64::BITS as usize - 1)
}
