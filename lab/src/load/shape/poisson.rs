//! Random arrivals (open loop): a Poisson process, as of many independent clients. The average rate is that of even
//! arrivals, but some requests come close together, so queues form at rates that even arrivals would pass.
//!
//! Time is divided into windows. The arrivals of a window follow from the seed and the window's number alone, so they
//! are the same for any number of threads and agents, and rounding errors do not accumulate. A Poisson process has no
//! memory, so starting anew in each window does not change it.

use super::users::whole;
use super::{IdleUser, NextStart, Part, Scheduler, Timeline};
use crate::random::{SplitMix64, below, mix};

/// Average number of arrivals in a window.
const PER_WINDOW: f64 = 64.0;

pub(super) struct Poisson {
    begin_us: u64,
    /// Average time between two arrivals.
    interval_us: f64,
    seed: u64,
    part: Part,
    /// The current window, and its arrivals that are this part's, the last one first.
    window: u64,
    due: Vec<f64>,
}

impl Poisson {
    pub(super) fn new(timeline: Timeline, part: Part, rate_per_s: f64, seed: u64) -> Self {
        let interval_us = 1_000_000.0 / rate_per_s;
        let mut first = Self {
            begin_us: timeline.begin_us,
            interval_us,
            seed,
            part,
            window: 0,
            due: Vec::new(),
        };
        first.draw();
        first
    }

    /// Draws the arrivals of the current window.
    fn draw(&mut self) {
        let mut numbers = SplitMix64(mix(self.seed) ^ mix(self.window));
        // Which part is first differs by window, so that each gets its share even if a window has fewer arrivals
        // than there are parts.
        let of = self.part.of as u64;
        let mut turn = below(numbers.next(), u128::from(of));
        let mut after = 0.0;
        loop {
            // 53 random bits, 0 to 1 exclusive of 0.
            let share = ((numbers.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            after -= share.ln();
            if after >= PER_WINDOW {
                break;
            }
            if turn == self.part.index as u64 {
                self.due.push((self.window as f64).mul_add(PER_WINDOW, after) * self.interval_us);
            }
            turn = (turn + 1) % of;
        }
        self.due.reverse();
    }
}

impl Scheduler for Poisson {
    fn next(&mut self, _: IdleUser) -> NextStart {
        loop {
            if let Some(after_us) = self.due.pop() {
                return NextStart::Due(self.begin_us.saturating_add(whole(after_us)));
            }
            // With many parts, a window may have no arrival for this one.
            self.window += 1;
            self.draw();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::COURSE;
    use super::*;

    const FREE: IdleUser = IdleUser { user: 0, made: 0, since_us: 0 };

    fn times(part: Part, count: usize, seed: u64) -> Vec<u64> {
        let mut arrivals = Poisson::new(COURSE, part, 1_000.0, seed);
        let due = || match arrivals.next(FREE) {
            NextStart::Due(at_us) => at_us,
            other @ (NextStart::Now | NextStart::At(_)) => panic!("{other:?}"),
        };
        std::iter::repeat_with(due).take(count).collect()
    }

    #[test]
    fn intervals_are_exponential_with_the_wanted_mean() {
        let times = times(Part::WHOLE, 100_001, 1);
        assert!(times.is_sorted() && times.first() >= Some(&COURSE.begin_us));
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((990.0..1_010.0).contains(&mean), "{mean}");
        // A share of exp(-n) of the intervals is longer than n times the mean.
        for n in [0.5_f64, 1.0, 2.0, 4.0] {
            let longer = gaps.iter().filter(|gap| **gap > n * 1_000.0).count() as f64;
            let share = longer / gaps.len() as f64;
            assert!((share - (-n).exp()).abs() < 0.01, "{n}: {share}");
        }
    }

    #[test]
    fn parts_interleave() {
        let whole = times(Part::WHOLE, 3_000, 7);
        let mut parts: Vec<u64> =
            (0..3).flat_map(|index| times(Part { index, of: 3 }, 1_500, 7)).collect();
        parts.sort_unstable();
        assert_eq!(parts[..3_000], whole);
    }

    #[test]
    fn arrivals_depend_on_the_seed_only() {
        assert_eq!(times(Part::WHOLE, 500, 3), times(Part::WHOLE, 500, 3));
        assert_ne!(times(Part::WHOLE, 500, 3), times(Part::WHOLE, 500, 4));
        // With more parts than arrivals, every part still gets some.
        assert_eq!(times(Part { index: 150, of: 200 }, 1, 3).len(), 1);
    }
}
