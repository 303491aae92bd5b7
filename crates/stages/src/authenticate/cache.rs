//! Verified tokens, kept until they expire, their issuer changes or the room is needed.
//!
//! Found by a keyed hash of their last bytes, which are a signature's and so evenly spread, then
//! compared whole. When the room is used up, the oldest one that wasn't used since the last round
//! goes ("second chance").

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::mem::size_of;
use std::rc::Rc;
use std::sync::Arc;

use base::{Entropy, Now, limits};
use model::{Caller, Issuer};

use crate::hash::fold;

/// One worker's verified tokens.
pub struct TokenCache {
    bytes_max: usize,
    bytes: usize,
    seeds: [u64; 5],
    /// Index in `entries` by key.
    places: HashMap<u64, usize, BuildHasherDefault<AsItIs>>,
    entries: Vec<Option<Entry>>,
    /// Indices of the vacant ones.
    vacant: Vec<usize>,
    /// The next entry to be asked for its room.
    hand: usize,
    hits: u64,
    misses: u64,
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
    /// As it was when the token was verified.
    issuer: Arc<Issuer>,
    /// On the clock of `Now::mono_us`.
    fresh_until_us: u64,
    /// Used since the hand last came by.
    used: bool,
}

/// Bytes at the end of a token that its key is made of. No signature is shorter, in base64url.
const TAIL_BYTES: usize = 32;

/// What an entry takes beside the token's and the caller's text: its place in two tables, which may
/// be half empty after growing, the caller, and what an allocator adds to each of a few pieces.
const ENTRY_BYTES: usize =
    2 * (size_of::<Option<Entry>>() + 2 * size_of::<usize>()) + size_of::<Caller>() + 8 * 16;

impl TokenCache {
    /// An empty cache that will hold at most `bytes_max` bytes, tokens, callers and its own tables
    /// counted (`limits::TOKEN_CACHE_BYTES_MAX`).
    #[must_use]
    pub fn new(bytes_max: usize, entropy: &dyn Entropy) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            seeds: std::array::from_fn(|_| entropy.u64()),
            places: HashMap::default(),
            entries: Vec::new(),
            vacant: Vec::new(),
            hand: 0,
            hits: 0,
            misses: 0,
        }
    }

    /// Tokens held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes counted towards `bytes_max`.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Tokens found since the beginning.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Tokens not found, or found out of date, since the beginning.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// The token's key; `None` for one too short to be signed.
    pub(super) fn key(&self, token: &[u8]) -> Option<u64> {
        let tail = token.last_chunk::<TAIL_BYTES>()?;
        let [first, second, third, fourth, last] = self.seeds;
        let words = tail.as_chunks::<8>().0;
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let mut next = || words.next().unwrap_or_default();
        let left = fold(next() ^ first, next() ^ second);
        let right = fold(next() ^ third, next() ^ fourth);
        Some(fold(left ^ right, last ^ token.len() as u64))
    }

    /// Whose `token` is, if that still holds for `issuers` as they are now. What doesn't hold goes.
    pub(super) fn find(
        &mut self,
        key: u64,
        token: &[u8],
        issuers: &[Arc<Issuer>],
        now: Now,
    ) -> Option<Rc<Caller>> {
        let Some(place) = self.place(key, token) else {
            self.misses += 1;
            return None;
        };
        let entry = self.entries.get_mut(place)?.as_mut()?;
        if entry.fresh_until_us <= now.mono_us || !entry.is_of(issuers) {
            self.misses += 1;
            self.remove(key);
            return None;
        }
        entry.used = true;
        self.hits += 1;
        Some(Rc::clone(&entry.caller))
    }

    fn place(&self, key: u64, token: &[u8]) -> Option<usize> {
        let place = *self.places.get(&key)?;
        let entry = self.entries.get(place)?.as_ref()?;
        (*entry.token == *token).then_some(place)
    }

    /// Keeps a token that `issuer` verified. One with the same key makes room for it.
    pub(super) fn insert(
        &mut self,
        key: u64,
        token: &[u8],
        caller: &Rc<Caller>,
        issuer: &Arc<Issuer>,
        now: Now,
    ) {
        self.remove(key);
        let entry = Entry {
            key,
            token: token.into(),
            caller: Rc::clone(caller),
            issuer: Arc::clone(issuer),
            fresh_until_us: now.mono_us.saturating_add(limits::TOKEN_CACHE_S_MAX * 1_000_000),
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
        let place = self.vacant.pop().unwrap_or(self.entries.len());
        match self.entries.get_mut(place) {
            Some(vacant) => *vacant = Some(entry),
            None => self.entries.push(Some(entry)),
        }
        self.places.insert(key, place);
    }

    /// Looks at one entry: takes its room, or the mark that saved it this time.
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
        let Some(place) = self.places.remove(&key) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(place).and_then(Option::take) {
            self.bytes -= entry.bytes();
            self.vacant.push(place);
        }
    }
}

impl Entry {
    /// Whether the issuer that verified it still stands at its place, with the same keys and rules.
    fn is_of(&self, issuers: &[Arc<Issuer>]) -> bool {
        issuers.get(self.caller.issuer).is_some_and(|issuer| {
            Arc::ptr_eq(issuer, &self.issuer)
                || issuer.revision == self.issuer.revision
                    && issuer.name == self.issuer.name
                    && issuer.iss == self.issuer.iss
        })
    }

    fn bytes(&self) -> usize {
        let Caller {
            subject,
            client_id,
            scopes,
            key_type: _,
            issuer: _,
            token_id,
            audiences,
            expires_s: _,
            not_before_s: _,
        } = &*self.caller;
        let texts = [subject, client_id, token_id].into_iter().flatten().map(String::len);
        let listed =
            scopes.iter().chain(audiences).map(|text| text.len() + size_of::<String>() + 16);
        ENTRY_BYTES + self.token.len() + texts.sum::<usize>() + listed.sum::<usize>()
    }
}

/// Keys are hashes already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
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
