//! Opaque tokens that no issuer recently reported as active, so that a client that repeats one causes few requests to
//! the issuer.

use base::{Entropy, Now, limits};

use crate::hash::fold;

/// The rejected tokens of one worker. A keyed hash of the whole token selects its place; a newer token replaces an
/// older one there.
pub(super) struct Refused {
    seeds: [u64; 2],
    /// A token's hash, and the end of its rejection, on the clock of `Now::mono_us`.
    places: Vec<(u64, u64)>,
}

impl Refused {
    pub(super) fn new(entropy: &dyn Entropy) -> Self {
        Self { seeds: std::array::from_fn(|_| entropy.u64()), places: Vec::new() }
    }

    pub(super) fn add(&mut self, token: &[u8], now: Now) {
        // Only workers that need it have the table.
        self.places.resize(limits::INACTIVE_TOKENS_MAX, (0, 0));
        let hash = self.hash(token);
        let until_us = now.mono_us.saturating_add(limits::INACTIVE_TOKEN_S * 1_000_000);
        if let Some(place) = self.places.get_mut(place(hash)) {
            *place = (hash, until_us);
        }
    }

    pub(super) fn has(&self, token: &[u8], now: Now) -> bool {
        let hash = self.hash(token);
        self.places
            .get(place(hash))
            .is_some_and(|(of, until_us)| *of == hash && now.mono_us < *until_us)
    }

    fn hash(&self, token: &[u8]) -> u64 {
        let [first, second] = self.seeds;
        let mix = |hash, word| fold(hash ^ word ^ first, second);
        let (words, tail) = token.as_chunks::<8>();
        let hash = words
            .iter()
            .fold(token.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
        mix(hash, tail.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)))
    }
}

fn place(hash: u64) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
    let low = hash as usize;
    low % limits::INACTIVE_TOKENS_MAX
}
