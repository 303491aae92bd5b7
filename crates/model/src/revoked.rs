//! Tokens that were revoked before they expired, one by one or with their client.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of shards, so large that a change copies little.
const SHARDS: usize = 256;

/// The extent of a revocation: of one token, or of a client's tokens. Times are in seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Tokens issued up to this time are revoked; [`u64::MAX`] for a single token.
    pub issued_s: u64,
    /// The time by which all revoked tokens have expired.
    pub until_s: u64,
}

/// The revoked access tokens of an issuer, by the SHA-256 of the `jti` of a JWT, of an opaque token, or of a client ID.
#[derive(Clone, Default)]
pub struct Revoked {
    /// Shards by the first byte of the hash.
    shards: Vec<Arc<BTreeMap<[u8; 32], Extent>>>,
    len: usize,
}

/// Hashes are not printed.
impl std::fmt::Debug for Revoked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Revoked").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Revoked {
    /// Whether a token issued at `issued_s` is revoked, where `hash` is that of the token or of its client.
    #[must_use]
    pub fn has(&self, hash: &[u8; 32], issued_s: u64) -> bool {
        self.find(hash).is_some_and(|extent| issued_s <= extent.issued_s)
    }

    fn find(&self, hash: &[u8; 32]) -> Option<&Extent> {
        self.shards.get(usize::from(hash[0]))?.get(hash)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8; 32], Extent)> {
        self.shards.iter().flat_map(|shard| shard.iter()).map(|(hash, extent)| (hash, *extent))
    }

    /// Adds a token or a client. Returns false if tokens issued up to that time are already revoked.
    pub fn add(&mut self, hash: [u8; 32], extent: Extent) -> bool {
        if self.has(&hash, extent.issued_s) {
            return false;
        }
        self.shards.resize_with(SHARDS, Arc::default);
        let Some(shard) = self.shards.get_mut(usize::from(hash[0])) else { return false };
        if Arc::make_mut(shard).insert(hash, extent).is_none() {
            self.len = self.len.saturating_add(1);
        }
        true
    }

    /// Removes entries that have expired by `now_s`. Returns whether any were removed.
    pub fn sweep(&mut self, now_s: u64) -> bool {
        let before = self.len;
        for shard in &mut self.shards {
            if shard.values().any(|extent| extent.until_s <= now_s) {
                let before = shard.len();
                let left = Arc::make_mut(shard);
                left.retain(|_, extent| extent.until_s > now_s);
                self.len = self.len.saturating_sub(before.saturating_sub(left.len()));
            }
        }
        self.len != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(until_s: u64) -> Extent {
        Extent { issued_s: u64::MAX, until_s }
    }

    #[test]
    fn a_copy_keeps_what_the_original_loses() {
        let hash = |number: u8| [number; 32];
        let mut revoked = Revoked::default();
        assert!(!revoked.has(&hash(1), 0) && revoked.is_empty());
        assert!(revoked.add(hash(1), token(10)) && revoked.add(hash(2), token(20)));
        assert!(!revoked.add(hash(2), token(30)));
        let copy = revoked.clone();
        assert!(!revoked.sweep(9) && revoked.sweep(10));
        let found = |revoked: &Revoked| [1, 2].map(|number| revoked.has(&hash(number), 5));
        assert_eq!((found(&revoked), revoked.len()), ([false, true], 1));
        assert_eq!((found(&copy), copy.len()), ([true, true], 2));
        assert_eq!(revoked.iter().collect::<Vec<_>>(), [(&hash(2), token(20))]);
    }

    #[test]
    fn a_client_that_came_back_is_revoked_again_only_by_a_later_removal() {
        let (mut revoked, client) = (Revoked::default(), [1; 32]);
        let issued_up_to = |issued_s| Extent { issued_s, until_s: issued_s + 100 };
        let found = |revoked: &Revoked| [10, 11, 20, 21].map(|s| revoked.has(&client, s));
        assert!(revoked.add(client, issued_up_to(10)));
        assert_eq!(found(&revoked), [true, false, false, false]);
        assert!(revoked.add(client, issued_up_to(20)));
        assert_eq!((found(&revoked), revoked.len()), ([true, true, true, false], 1));
        assert!(!revoked.add(client, issued_up_to(10)), "it comes again after a restart");
        assert!(!revoked.sweep(119) && revoked.sweep(120) && revoked.is_empty());
    }
}
