//! Constant arrivals (open loop): request n is due n intervals after the start, independent of the target.
//!
//! Any idle user takes the next request. While all connections are busy, due requests queue; they are sent as
//! soon as a connection is free, and their latency counts from their due time.
//!
//! Due times are computed from n rather than from the previous request, so rounding errors do not accumulate.

use super::users::whole;
use super::{IdleUser, NextStart, Part, Scheduler, Timeline};

pub(super) struct Arrivals {
    begin_us: u64,
    interval_us: f64,
    turns: ArrivalNumbers,
}

impl Arrivals {
    pub(super) fn new(timeline: Timeline, part: Part, rate_per_s: f64) -> Self {
        Self {
            begin_us: timeline.begin_us,
            interval_us: 1_000_000.0 / rate_per_s,
            turns: ArrivalNumbers::new(part),
        }
    }
}

impl Scheduler for Arrivals {
    fn next(&mut self, _: IdleUser) -> NextStart {
        let after_us = whole(self.turns.next() as f64 * self.interval_us);
        NextStart::Due(self.begin_us.saturating_add(after_us))
    }
}

/// The indices of one part's requests: every `of`-th of all requests.
pub(super) struct ArrivalNumbers {
    next: u64,
    step: u64,
}

impl ArrivalNumbers {
    pub(super) fn new(part: Part) -> Self {
        Self { next: part.index as u64, step: part.of as u64 }
    }

    pub(super) fn next(&mut self) -> u64 {
        let turn = self.next;
        self.next = turn.saturating_add(self.step);
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::COURSE;
    use super::*;

    const FREE: IdleUser = IdleUser { user: 0, made: 0, since_us: 0 };

    #[test]
    fn requests_are_due_at_even_intervals() {
        assert_eq!(due(Part::WHOLE, 1_000.0, 4), [2_000_000, 2_001_000, 2_002_000, 2_003_000]);
        assert_eq!(due(Part::WHOLE, 3.0, 4), [2_000_000, 2_333_333, 2_666_667, 3_000_000]);
    }

    #[test]
    fn parts_interleave() {
        for of in [2, 3, 5] {
            let mut all: Vec<u64> =
                (0..of).flat_map(|index| due(Part { index, of }, 777.0, 30)).collect();
            all.sort_unstable();
            assert_eq!(all, due(Part::WHOLE, 777.0, 30 * of), "{of} parts");
        }
    }

    #[test]
    fn a_day_of_odd_intervals_does_not_drift() {
        let mut arrivals = Arrivals::new(COURSE, Part { index: 0, of: 7_000 }, 7.0);
        let mut last = NextStart::Now;
        for _ in 0..=86 {
            last = arrivals.next(FREE);
        }
        assert_eq!(last, NextStart::Due(2_000_000 + 86_000 * 1_000_000));
    }

    #[test]
    fn due_times_do_not_depend_on_the_user() {
        let mut arrivals = Arrivals::new(COURSE, Part::WHOLE, 1_000.0);
        arrivals.next(FREE);
        let late = IdleUser { user: 3, made: 9, since_us: 99_000_000 };
        assert_eq!(arrivals.next(late), NextStart::Due(2_001_000));
    }

    fn due(part: Part, rate_per_s: f64, count: usize) -> Vec<u64> {
        let mut arrivals = Arrivals::new(COURSE, part, rate_per_s);
        let due = |_| match arrivals.next(FREE) {
            NextStart::Due(us) => us,
            other @ (NextStart::Now | NextStart::At(_)) => panic!("{other:?}"),
        };
        (0..count).map(due).collect()
    }
}
