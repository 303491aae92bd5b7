//! A fast multiplicative hash for tables, which is not cryptographic; and `SipHash`, which is a keyed one.

use std::hash::{BuildHasherDefault, Hasher};

/// Folds both halves of the product of two words.
pub(crate) fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    #[expect(clippy::cast_possible_truncation, reason = "the halves of the product are wanted")]
    let (low, high) = (product as u64, (product >> 64) as u64);
    low ^ high
}

/// Combines two words into one that depends on all bits of both. It must not change, because the names of counts that
/// gateways share depend on it.
pub(crate) fn mix(left: u64, right: u64) -> u64 {
    fold(left ^ MIX, right ^ SPREAD)
}

/// A hasher for tables whose keys are fixed at load. It needs no seed, because clients cannot insert colliding keys.
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

/// SipHash-1-3 with 128 bits of output. Without the key, the input cannot be found, not even by trying candidates.
///
/// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", with the output of 128 bits of its authors' code.
pub(crate) fn siphash(key: [u64; 2], bytes: &[u8]) -> [u8; 16] {
    let mut sip = Sip::new(key);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        sip.add(u64::from_le_bytes(*word), 1);
    }
    let last = tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    sip.add(last | (bytes.len() as u64) << 56, 1);
    sip.finish(3)
}

struct Sip([u64; 4]);

impl Sip {
    fn new([first, second]: [u64; 2]) -> Self {
        Self([
            first ^ 0x736f_6d65_7073_6575,
            second ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            first ^ 0x6c79_6765_6e65_7261,
            second ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline]
    fn add(&mut self, word: u64, rounds: u32) {
        self.0[3] ^= word;
        (0..rounds).for_each(|_| self.round());
        self.0[0] ^= word;
    }

    #[inline]
    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.0 = [a, b, c, d];
    }

    fn finish(mut self, rounds: u32) -> [u8; 16] {
        let mut half = |change: fn(&mut [u64; 4])| {
            change(&mut self.0);
            (0..rounds).for_each(|_| self.round());
            self.0.iter().fold(0, |all, word| all ^ word)
        };
        let low = half(|state| state[2] ^= 0xee);
        let high = half(|state| state[1] ^= 0xdd);
        (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first two vectors of the authors' code, which are of SipHash-2-4.
    #[test]
    fn siphash_is_as_its_authors_say() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let hash = |last: u64| {
            let mut sip = Sip::new(key);
            sip.add(last, 2);
            sip.finish(4)
        };
        let vectors: [(u64, u128); 2] = [
            (0, 0x9302_55c7_1472_f66d_e6a8_25ba_047f_81a3),
            (1 << 56, 0x45fc_229b_1159_7634_44af_996b_d8c1_87da),
        ];
        for (last, expect) in vectors {
            assert_eq!(u128::from_le_bytes(hash(last)), expect, "{last}");
        }
        assert_ne!(siphash(key, b"1234567"), siphash(key, b"1234567\0"));
        assert_ne!(siphash(key, b"12345678"), siphash([0, 1], b"12345678"));
    }
}
