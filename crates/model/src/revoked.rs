//! Tokens that were revoked before they expired.

use std::collections::BTreeMap;
use std::sync::Arc;

/// So many parts that a change copies little.
const SHARDS: usize = 256;

/// The revoked access tokens of an issuer, by SHA-256: of the `jti` of a JWT, or of an opaque token.
#[derive(Clone, Default)]
pub struct Revoked {
    /// By the first byte of the hash; each has the time at which the token has expired, in seconds since the Unix epoch.
    shards: Vec<Arc<BTreeMap<[u8; 32], u64>>>,
    len: usize,
}

/// Hashes are not printed.
impl std::fmt::Debug for Revoked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Revoked").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Revoked {
    #[must_use]
    pub fn has(&self, hash: &[u8; 32]) -> bool {
        self.shards.get(usize::from(hash[0])).is_some_and(|shard| shard.contains_key(hash))
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Hashes, and when the tokens have expired.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8; 32], u64)> {
        self.shards.iter().flat_map(|shard| shard.iter()).map(|(hash, until_s)| (hash, *until_s))
    }

    /// Adds a token. False: it is there already.
    pub fn add(&mut self, hash: [u8; 32], until_s: u64) -> bool {
        self.shards.resize_with(SHARDS, Arc::default);
        let Some(shard) = self.shards.get_mut(usize::from(hash[0])) else { return false };
        if shard.contains_key(&hash) {
            return false;
        }
        Arc::make_mut(shard).insert(hash, until_s);
        self.len = self.len.saturating_add(1);
        true
    }

    /// Removes what has expired by `now_s`. Returns whether there was something.
    pub fn sweep(&mut self, now_s: u64) -> bool {
        let before = self.len;
        for shard in &mut self.shards {
            if shard.values().any(|until_s| *until_s <= now_s) {
                let before = shard.len();
                let left = Arc::make_mut(shard);
                left.retain(|_, until_s| *until_s > now_s);
                self.len = self.len.saturating_sub(before.saturating_sub(left.len()));
            }
        }
        self.len != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_what_the_original_loses() {
        let hash = |number: u8| [number; 32];
        let mut revoked = Revoked::default();
        assert!(!revoked.has(&hash(1)) && revoked.is_empty());
        assert!(revoked.add(hash(1), 10) && revoked.add(hash(2), 20) && !revoked.add(hash(2), 30));
        let copy = revoked.clone();
        assert!(!revoked.sweep(9) && revoked.sweep(10));
        assert_eq!((revoked.has(&hash(1)), revoked.has(&hash(2)), revoked.len()), (false, true, 1));
        assert_eq!((copy.has(&hash(1)), copy.has(&hash(2)), copy.len()), (true, true, 2));
        assert_eq!(revoked.iter().collect::<Vec<_>>(), [(&hash(2), 20)]);
    }
}
