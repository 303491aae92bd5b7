//! Numbers that depend on a seed alone (splitmix64).

use base::Entropy;

#[derive(Clone, Debug)]
pub(super) struct Random(u64);

/// The same bytes at each call.
impl Entropy for Random {
    fn fill(&self, bytes: &mut [u8]) {
        let mut random = self.clone();
        bytes.fill_with(|| random.next().to_le_bytes()[0]);
    }
}

impl Random {
    /// The numbers of one `purpose`: other purposes can use more or fewer without changing these.
    pub(super) fn new(seed: u64, purpose: u64) -> Self {
        let mut random = Self(seed ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
        random.next();
        random
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `end - 1`; `end` must not be zero.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// `first` to `last`, both included.
    pub(super) fn between(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last - first + 1)
    }

    pub(super) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A duration up to `most` microseconds, often none.
    pub(super) fn pause_us(&mut self, most: usize) -> u64 {
        if self.percent(50) { 0 } else { self.below(most) as u64 }
    }

    /// A size: often small, sometimes up to `most`.
    pub(super) fn size(&mut self, most: usize) -> usize {
        let most = self.pick(&[0, 1, 20, 300, most.min(5_000), most]).min(most);
        self.between(0, most)
    }
}
