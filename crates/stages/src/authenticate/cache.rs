//! Verified tokens, kept until they expire or the room is needed.

use base::Entropy;

/// One worker's verified tokens.
#[derive(Debug)]
pub struct TokenCache {}

impl TokenCache {
    /// An empty cache that will hold at most `bytes_max` bytes, tokens, callers and its own tables
    /// counted (`limits::TOKEN_CACHE_BYTES_MAX`).
    #[must_use]
    pub fn new(bytes_max: usize, entropy: &dyn Entropy) -> Self {
        let _ = (bytes_max, entropy);
        Self {}
    }

    /// Tokens held.
    #[must_use]
    pub fn len(&self) -> usize {
        0
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes counted towards `bytes_max`.
    #[must_use]
    pub fn bytes(&self) -> usize {
        0
    }

    /// Tokens found since the beginning.
    #[must_use]
    pub fn hits(&self) -> u64 {
        0
    }

    /// Tokens not found, or found stale, since the beginning.
    #[must_use]
    pub fn misses(&self) -> u64 {
        0
    }
}
