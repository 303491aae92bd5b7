//! A fast multiplicative hash for tables. Not cryptographic.

use std::hash::{BuildHasherDefault, Hasher};

/// Folds both halves of the product of two words.
pub(crate) fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    #[expect(clippy::cast_possible_truncation, reason = "the halves of the product are wanted")]
    let (low, high) = (product as u64, (product >> 64) as u64);
    low ^ high
}

/// Combines two words into one that depends on all bits of both. Gateways name the counts that they share by it, so it
/// stays as it is.
pub(crate) fn mix(left: u64, right: u64) -> u64 {
    fold(left ^ MIX, right ^ SPREAD)
}

/// For tables whose keys are fixed at load. It needs no seed: no client can insert colliding keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadedKeys(u64);

pub(crate) type LoadedKeysState = BuildHasherDefault<LoadedKeys>;

/// Digits of pi: odd words with evenly distributed bits.
const MIX: u64 = 0x243f_6a88_85a3_08d3;
const SPREAD: u64 = 0x1319_8a2e_0370_7345;

impl Hasher for LoadedKeys {
    fn write(&mut self, bytes: &[u8]) {
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !tail.is_empty() {
            let last = tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.write_u64(last);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word ^ MIX, SPREAD);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
