//! A user's next request, from the scheduler's decision to its start: the same for every protocol.
//!
//! With a number of requests instead of a time, a request is claimed when it is scheduled. So a user without one ends
//! at once, and the measured time with the last response, instead of with the start of a request that is not sent.
//!
//! Architecture invariant: no clock, no socket.

use crate::load::shape::{IdleUser, NextStart, Think};
use crate::load::thread_state::{ThreadState, Window};

/// A request that is scheduled, and may have to wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextRequest {
    next: NextStart,
    /// When its user became idle.
    idle_us: u64,
    is_claimed: bool,
}

/// The start of a request, and of its latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScheduledStart {
    pub(super) from_us: u64,
    pub(super) start_us: u64,
    /// The request was due before the user was idle.
    pub(super) queued: bool,
    /// It has waited for longer than the timeout, and is not sent.
    pub(super) is_overdue: bool,
}

/// Action of a user with a next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It asks again at this time.
    Wait(u64),
    Start(ScheduledStart),
    /// The measured time is over, or all requests are claimed.
    End,
}

impl NextRequest {
    /// Asks the scheduler. `think`: the pause, if it is not that of the load shape. `None`: all requests are claimed.
    pub(super) fn schedule(
        free: IdleUser,
        think: Option<Think>,
        state: &ThreadState,
        window: &Window,
    ) -> Option<Self> {
        let next = match (state.next(free), think) {
            (NextStart::Now | NextStart::At(_), Some(think)) => think.turn(free, state.seed),
            (next, _) => next,
        };
        let request = Self { next, idle_us: free.since_us, is_claimed: false };
        request.claimed(request.latest_us(free.since_us), state, window)
    }

    /// Starts at `now_us`, if it is time. `timeout_us`: the longest wait of a request that is due.
    pub(super) fn decide(
        self,
        now_us: u64,
        timeout_us: u64,
        state: &ThreadState,
        window: &Window,
    ) -> Decision {
        let until_us = window.until_us();
        let at_us = self.latest_us(0);
        if at_us > now_us && now_us < until_us {
            return Decision::Wait(at_us.min(until_us));
        }
        let is_due = matches!(self.next, NextStart::Due(_));
        let from_us = if is_due { at_us } else { now_us };
        if from_us >= until_us || self.claimed(from_us, state, window).is_none() {
            return Decision::End;
        }
        Decision::Start(ScheduledStart {
            from_us,
            start_us: now_us,
            queued: is_due && at_us < self.idle_us,
            is_overdue: timeout_us < now_us.saturating_sub(from_us),
        })
    }

    /// Claims it, if it counts from `from_us` and that is measured.
    fn claimed(self, from_us: u64, state: &ThreadState, window: &Window) -> Option<Self> {
        let is_claimed = self.is_claimed || window.measures(from_us);
        (is_claimed == self.is_claimed || state.claim()).then_some(Self { is_claimed, ..self })
    }

    /// When its latency begins to count, as far as is known at `now_us`.
    fn latest_us(self, now_us: u64) -> u64 {
        match self.next {
            NextStart::Now => now_us,
            NextStart::At(at_us) => at_us.max(now_us),
            NextStart::Due(at_us) => at_us,
        }
    }
}
