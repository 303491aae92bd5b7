//! Closed users: a constant number of users, as in WSO2's published runs (a JMeter thread group without
//! timers).
//!
//! They start evenly spread over the first half of the warm-up (all at once without a warm-up), so that the
//! second half and the measured time run with all of them.

use super::{IdleUser, NextStart, Scheduler, Think, Timeline};

pub(super) struct Users {
    timeline: Timeline,
    think: Think,
    seed: u64,
}

impl Users {
    pub(super) fn new(timeline: Timeline, think: Think, seed: u64) -> Self {
        Self { timeline, think, seed }
    }
}

impl Scheduler for Users {
    fn next(&mut self, free: IdleUser) -> NextStart {
        if free.made == 0 {
            return NextStart::At(begin_us(&self.timeline, free.user, self.timeline.users));
        }
        self.think.turn(free, self.seed)
    }
}

/// Start time of user `user`: evenly spread over the first half of the warm-up.
pub(super) fn begin_us(timeline: &Timeline, user: usize, users: usize) -> u64 {
    let ramp_us = timeline.from_us.saturating_sub(timeline.begin_us) / 2;
    let share = user as f64 / users.max(1) as f64;
    timeline.begin_us.saturating_add(whole(ramp_us as f64 * share))
}

/// Rounds to whole microseconds; negative values become 0.
pub(super) fn whole(us: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, as intended for times beyond the end"
    )]
    let whole = us.round() as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::super::tests::COURSE;
    use super::*;

    #[test]
    fn users_start_evenly_over_the_first_half_of_the_warm_up() {
        check(COURSE, "2000000 3250000 4500000 5750000");
    }

    #[test]
    fn without_a_warm_up_users_start_at_once() {
        check(Timeline { from_us: COURSE.begin_us, ..COURSE }, "2000000 2000000 2000000 2000000");
    }

    #[test]
    fn the_next_request_starts_when_the_last_one_ends() {
        let mut users = Users::new(COURSE, Think::None, 0);
        for made in [1, 2, 1_000] {
            assert_eq!(users.next(IdleUser { user: 1, made, since_us: 9 }), NextStart::Now);
        }
    }

    #[track_caller]
    fn check(timeline: Timeline, expect: &str) {
        let mut users = Users::new(timeline, Think::None, 0);
        let begins = (0..4).map(|user| match users.next(IdleUser { user, made: 0, since_us: 0 }) {
            NextStart::At(us) => us.to_string(),
            other @ (NextStart::Now | NextStart::Due(_)) => format!("{other:?}"),
        });
        assert_eq!(begins.collect::<Vec<_>>().join(" "), expect);
    }
}
