//! Pseudorandom numbers from a seed: the same on every machine. Source: SplitMix64 (Steele, Lea and Flood,
//! "Fast Splittable Pseudorandom Number Generators", 2014).

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of pseudorandom numbers.
pub(crate) struct SplitMix64(pub(crate) u64);

impl SplitMix64 {
    pub(crate) fn next(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(GAMMA);
        number
    }
}

/// The number that follows `state`: 64 random bits for each value.
pub(crate) fn mix(state: u64) -> u64 {
    let mut bits = state.wrapping_add(GAMMA);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Scales a random number to `0..count`.
pub(crate) fn below(number: u64, count: u128) -> u64 {
    u64::try_from((u128::from(number) * count) >> 64).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_matches_the_reference_implementation() {
        let mut numbers = SplitMix64(1_234_567);
        let found = [(); 3].map(|()| numbers.next());
        let expect =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(found, expect);
    }

    #[test]
    fn scaling_covers_the_whole_range() {
        assert_eq!([below(0, 10), below(u64::MAX, 10), below(1 << 63, 10)], [0, 9, 5]);
    }
}
