//! Ramps: users that increase over the measured time. The warm-up runs at the initial level. A ramp of the rate is a
//! single stage ([`super::stages`]).
//!
//! The figures of a ramp are averages over all levels; the interval log (`--hlog`) shows the course over
//! time.

use super::users::{begin_us, whole};
use super::{IdleUser, NextStart, Scheduler, Think, Timeline};

/// `from` users start like closed users; the others join at even intervals over the measured time.
pub(super) struct RampUsers {
    timeline: Timeline,
    from: usize,
    think: Think,
    seed: u64,
}

impl RampUsers {
    pub(super) fn new(timeline: Timeline, from: usize, think: Think, seed: u64) -> Self {
        Self { timeline, from, think, seed }
    }

    /// A user joins in the middle of its interval, so that the average number of users is exact.
    fn join_us(&self, user: usize) -> u64 {
        let joining = self.timeline.users.saturating_sub(self.from).max(1) as f64;
        let place = user.saturating_sub(self.from) as f64 + 0.5;
        let measured_us = self.timeline.until_us.saturating_sub(self.timeline.from_us) as f64;
        self.timeline.from_us.saturating_add(whole(measured_us * place / joining))
    }
}

impl Scheduler for RampUsers {
    fn next(&mut self, free: IdleUser) -> NextStart {
        if free.made > 0 {
            return self.think.turn(free, self.seed);
        }
        if free.user < self.from {
            return NextStart::At(begin_us(&self.timeline, free.user, self.from));
        }
        NextStart::At(self.join_us(free.user))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Part;
    use super::super::stages::{StagedArrivals, Stages};
    use super::super::tests::COURSE;
    use super::*;

    #[test]
    fn initial_users_start_in_the_warm_up_and_others_in_the_measured_time() {
        check_users(2, "2000000 4500000 14500000 19500000");
        check_users(4, "2000000 3250000 4500000 5750000");
        check_users(1, "2000000 13666667 17000000 20333333");
    }

    #[test]
    fn an_increasing_rate_gives_the_integral_of_the_rate() {
        // Warm-up: 10 s at 100/s. Measured: 10 s from 100/s to 300/s, 2,000 requests on average.
        check_rate(100.0, 300.0, 1_000, 2_000);
    }

    #[test]
    fn a_decreasing_rate_gives_the_integral_of_the_rate() {
        check_rate(300.0, 100.0, 3_000, 2_000);
    }

    #[test]
    fn a_constant_ramp_is_a_constant_rate() {
        check_rate(100.0, 100.0, 1_000, 1_000);
        assert_eq!(due(100.0, 100.0, Part::WHOLE)[1_500], COURSE.begin_us + 15_000_000);
    }

    #[test]
    fn parts_interleave() {
        let mut parts: Vec<u64> =
            (0..3).flat_map(|index| due(100.0, 300.0, Part { index, of: 3 })).collect();
        parts.sort_unstable();
        assert_eq!(parts, due(100.0, 300.0, Part::WHOLE));
    }

    #[track_caller]
    fn check_users(from: usize, expect: &str) {
        let mut ramp = RampUsers::new(COURSE, from, Think::None, 0);
        let begins = (0..4).map(|user| match ramp.next(IdleUser { user, made: 0, since_us: 0 }) {
            NextStart::At(us) => us.to_string(),
            other @ (NextStart::Now | NextStart::Due(_)) => format!("{other:?}"),
        });
        assert_eq!(begins.collect::<Vec<_>>().join(" "), expect);
        assert_eq!(ramp.next(IdleUser { user: 3, made: 1, since_us: 7 }), NextStart::Now);
    }

    #[track_caller]
    fn check_rate(from: f64, to: f64, warm_up: usize, measured: usize) {
        let due = due(from, to, Part::WHOLE);
        assert!(due.is_sorted());
        assert_eq!(due.iter().filter(|us| **us < COURSE.from_us).count(), warm_up);
        assert_eq!(due.iter().filter(|us| **us >= COURSE.from_us).count(), measured);
    }

    /// All requests due before the end.
    fn due(from: f64, to: f64, part: Part) -> Vec<u64> {
        let stages = Stages::ramp((from, to), Duration::from_secs(10));
        let mut ramp = StagedArrivals::new(COURSE, part, stages);
        let next = |_| match ramp.next(IdleUser { user: 0, made: 0, since_us: 0 }) {
            NextStart::Due(us) => us,
            other @ (NextStart::Now | NextStart::At(_)) => panic!("{other:?}"),
        };
        (0..).map(next).take_while(|us| *us < COURSE.until_us).collect()
    }
}
