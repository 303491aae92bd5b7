//! Verified tokens, and opaque tokens that their issuer reported as active, cached until they expire, their issuer
//! changes or they are evicted.
//!
//! A token is found by a keyed hash of its last bytes, which are evenly distributed because they are random or part of
//! the signature; then the whole token is compared. Eviction is by second chance: the oldest entry that was not used
//! since the last round is removed.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::mem::size_of;
use std::rc::Rc;
use std::sync::Arc;

use base::{Entropy, Now};
use model::{Caller, Issuer, KeptClaims, Permitted};

use super::refused::Refused;
use crate::hash::{fold, siphash};

/// One worker's verified tokens.
pub struct TokenCache {
    bytes_max: usize,
    bytes: usize,
    seeds: [u64; 5],
    tag_key: [u64; 2],
    /// Index in `entries` by key.
    index_by_key: HashMap<u64, usize, BuildHasherDefault<IdentityHasher>>,
    entries: Vec<Option<Entry>>,
    /// Indices of vacant entries.
    vacant: Vec<usize>,
    /// Index of the next candidate for eviction.
    hand: usize,
    hits: u64,
    misses: u64,
    pub(super) refused: Refused,
    /// Names of the claims that are kept for new tokens.
    pub(super) claims: Arc<[String]>,
}

/// Credentials are never printed.
impl fmt::Debug for TokenCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCache").field("len", &self.len()).finish_non_exhaustive()
    }
}

struct Entry {
    key: u64,
    token: Box<[u8]>,
    caller: Rc<Caller>,
    /// The issuer that verified the token; `None` for a key of an application.
    issuer: Option<Arc<Issuer>>,
    /// The identifier by which the issuer revokes the token.
    id: Option<TokenId>,
    /// End of the cached validity, on the clock of `Now::mono_us`.
    fresh_until_us: u64,
    /// Whether the entry was used since the last round of eviction.
    used: bool,
}

/// SHA-256 of the `jti` of a JWT, or of an opaque token.
pub(super) type TokenId = [u8; 32];

/// Number of bytes at the end of a token that are hashed. No signature in base64url is shorter; opaque tokens may be.
const TAIL_BYTES: usize = 32;

/// Size of an entry without the text of token and caller: its share of two tables, which may be half
/// empty after growing, the caller, and the overhead of the allocations.
const ENTRY_BYTES: usize =
    2 * (size_of::<Option<Entry>>() + 2 * size_of::<usize>()) + size_of::<Caller>() + 8 * 16;

impl TokenCache {
    /// An empty cache of at most `bytes_max` bytes (`limits::TOKEN_CACHE_BYTES_MAX`), counting tokens,
    /// callers and its own tables.
    #[must_use]
    pub fn new(bytes_max: usize, entropy: &dyn Entropy) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            seeds: std::array::from_fn(|_| entropy.u64()),
            tag_key: std::array::from_fn(|_| entropy.u64()),
            index_by_key: HashMap::default(),
            entries: Vec::new(),
            vacant: Vec::new(),
            hand: 0,
            hits: 0,
            misses: 0,
            refused: Refused::new(entropy),
            claims: Arc::default(),
        }
    }

    /// Sets the claims that are kept for tokens verified from now on.
    pub fn keep_claims(&mut self, names: &Arc<[String]>) {
        self.claims = Arc::clone(names);
    }

    /// Number of cached tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index_by_key.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index_by_key.is_empty()
    }

    /// Bytes in use, of `bytes_max`.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of successful lookups.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Number of lookups that found nothing, or an outdated entry.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses
    }

    pub(super) fn key(&self, token: &[u8]) -> u64 {
        let mut padded = [0; TAIL_BYTES];
        let tail = token.last_chunk::<TAIL_BYTES>().unwrap_or_else(|| {
            padded.iter_mut().zip(token).for_each(|(to, byte)| *to = *byte);
            &padded
        });
        let [first, second, third, fourth, last] = self.seeds;
        let words = tail.as_chunks::<8>().0;
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let mut next = || words.next().unwrap_or_default();
        let left = fold(next() ^ first, next() ^ second);
        let right = fold(next() ^ third, next() ^ fourth);
        fold(left ^ right, last ^ token.len() as u64)
    }

    /// A keyed hash that identifies a credential together with `context`, so that the credential itself need not be
    /// kept. Without the key, finding another credential with the same tag is infeasible.
    pub(super) fn tag(&self, credential: &[u8], context: u64) -> [u8; 16] {
        let [first, second] = self.tag_key;
        siphash([first, second ^ context], credential)
    }

    /// The caller of a cached `token`. An entry that is outdated, or whose issuer changed, is removed.
    pub(super) fn find(
        &mut self,
        key: u64,
        token: &[u8],
        issuers: &[Arc<Issuer>],
        now: Now,
    ) -> Option<Rc<Caller>> {
        let Some(index) = self.index(key, token) else {
            self.misses += 1;
            return None;
        };
        let entry = self.entries.get_mut(index)?.as_mut()?;
        if entry.fresh_until_us <= now.mono_us || !entry.is_verified_by(issuers) {
            self.misses += 1;
            self.remove(key);
            return None;
        }
        entry.used = true;
        self.hits += 1;
        Some(Rc::clone(&entry.caller))
    }

    fn index(&self, key: u64, token: &[u8]) -> Option<usize> {
        let index = *self.index_by_key.get(&key)?;
        let entry = self.entries.get(index)?.as_ref()?;
        are_equal(&entry.token, token).then_some(index)
    }

    /// Caches a token for up to `fresh_s` seconds. `by` is the issuer that verified it, and the identifier by which the
    /// issuer revokes it. Replaces an entry with the same key.
    pub(super) fn insert(
        &mut self,
        token: &[u8],
        caller: &Rc<Caller>,
        by: Option<(&Arc<Issuer>, Option<TokenId>)>,
        fresh_s: u64,
        now: Now,
    ) {
        let key = self.key(token);
        self.remove(key);
        let entry = Entry {
            key,
            token: token.into(),
            caller: Rc::clone(caller),
            issuer: by.map(|(issuer, _)| Arc::clone(issuer)),
            id: by.and_then(|(_, id)| id),
            fresh_until_us: now.mono_us.saturating_add(fresh_s.saturating_mul(1_000_000)),
            used: false,
        };
        let bytes = entry.bytes();
        if bytes > self.bytes_max {
            return;
        }
        while self.bytes > self.bytes_max - bytes {
            self.advance();
        }
        self.bytes += bytes;
        let index = self.vacant.pop().unwrap_or(self.entries.len());
        match self.entries.get_mut(index) {
            Some(vacant) => *vacant = Some(entry),
            None => self.entries.push(Some(entry)),
        }
        self.index_by_key.insert(key, index);
    }

    /// Examines one entry: evicts it, or clears its `used` flag if set.
    fn advance(&mut self) {
        let Some(entry) = self.entries.get_mut(self.hand) else {
            self.hand = 0;
            return;
        };
        self.hand += 1;
        if let Some(entry) = entry
            && !std::mem::take(&mut entry.used)
        {
            let key = entry.key;
            self.remove(key);
        }
    }

    pub(super) fn remove(&mut self, key: u64) {
        let Some(index) = self.index_by_key.remove(&key) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(index).and_then(Option::take) {
            self.bytes -= entry.bytes();
            self.vacant.push(index);
        }
    }
}

/// Whether two credentials are the same. The end of a long credential, by which it was found, is random or part of a
/// signature. A short credential may be chosen by a person, so the time of its comparison does not depend on the place
/// of the difference.
fn are_equal(one: &[u8], other: &[u8]) -> bool {
    const SHORT_BYTES: usize = 4 * TAIL_BYTES;
    let length = one.len();
    if length != other.len() || length > SHORT_BYTES {
        return one == other;
    }
    let ends = |text: &[u8]| Some((*text.first_chunk::<TAIL_BYTES>()?, *text.last_chunk()?));
    match ends(one).zip(ends(other)) {
        // The usual length: the two ends cover the whole credential.
        Some((one, other)) if length <= 2 * TAIL_BYTES => {
            difference(&one.0, &other.0) | difference(&one.1, &other.1) == 0
        }
        _ => one.iter().zip(other).fold(0, |bits, (one, other)| bits | (one ^ other)) == 0,
    }
}

/// Returns 0 if both are the same.
fn difference(one: &[u8; TAIL_BYTES], other: &[u8; TAIL_BYTES]) -> u64 {
    let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
    let words = one.as_chunks().0.iter().zip(other.as_chunks().0);
    words.fold(0, |bits, (one, other)| bits | (word(one) ^ word(other)))
}

impl Entry {
    /// Whether `issuers` has the verifying issuer at the same index, with the same keys and rules, and the issuer has
    /// not revoked the token or all tokens of its client. An application's key has no issuer.
    fn is_verified_by(&mut self, issuers: &[Arc<Issuer>]) -> bool {
        let Some(number) = self.caller.issuer else { return true };
        let Some(issuer) = issuers.get(number) else { return false };
        self.issuer.as_ref().is_some_and(|known| Arc::ptr_eq(known, issuer))
            || self.is_verified_by_changed(issuer)
    }

    /// As [`Self::is_verified_by`] for an issuer that was published again. The new one is stored, so that the next
    /// lookup only compares a pointer.
    #[cold]
    fn is_verified_by_changed(&mut self, issuer: &Arc<Issuer>) -> bool {
        let same = self.issuer.as_ref().is_some_and(|known| {
            issuer.revision == known.revision
                && issuer.name == known.name
                && issuer.iss == known.iss
        });
        let valid = same && !super::is_revoked(issuer, &self.caller, self.id.as_ref());
        if valid {
            self.issuer = Some(Arc::clone(issuer));
        }
        valid
    }

    fn bytes(&self) -> usize {
        let Caller {
            subject,
            client_id,
            scopes,
            key_type: _,
            subscriptions,
            application_key: _,
            issuer: _,
            kind: _,
            token_type: _,
            permitted,
            claims,
            token_id,
            audiences,
            expires_s: _,
            not_before_s: _,
            issued_s: _,
            confirmation: _,
        } = &*self.caller;
        let texts = [subject, client_id, token_id].into_iter().flatten().map(String::len);
        let listed =
            scopes.iter().chain(audiences).map(|text| text.len() + size_of::<String>() + 16);
        let subscribed = subscriptions.as_ref().map_or(0, |of| of.bytes());
        let claims = claims.as_ref().map_or(0, |of| claims_bytes(of));
        let permitted = permitted.as_ref().map_or(0, |of| permitted_bytes(of));
        ENTRY_BYTES
            + subscribed
            + permitted
            + claims
            + self.token.len()
            + texts.sum::<usize>()
            + listed.sum::<usize>()
    }
}

fn claims_bytes(claims: &KeptClaims) -> usize {
    let texts = claims.texts.iter().flatten().map(String::len).sum::<usize>();
    size_of::<KeptClaims>() + texts + claims.texts.len() * (size_of::<Option<String>>() + 16)
}

fn permitted_bytes(permitted: &Permitted) -> usize {
    let addresses = permitted.addresses.as_ref().map_or(0, |of| size_of_val(of.as_slice()));
    let referers = permitted.referers.iter().map(|text| text.len() + size_of::<String>() + 16);
    size_of::<Permitted>() + addresses + referers.sum::<usize>()
}

/// The keys are hashes already.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |word, byte| word << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_equal_if_every_byte_is() {
        for length in 0..=4 * TAIL_BYTES + 2 {
            let one = vec![b'a'; length];
            assert!(are_equal(&one, &one.clone()), "{length}");
            assert!(!are_equal(&one, &vec![b'a'; length + 1]), "{length}");
            for index in 0..length {
                for bit in 0..8 {
                    let mut other = one.clone();
                    other[index] ^= 1 << bit;
                    assert!(!are_equal(&one, &other), "{length} {index} {bit}");
                }
            }
        }
    }
}
