//! Overload: how many requests a worker has at its upstreams at a time.
//!
//! A worker without idle time gets nothing done sooner by sending more requests to upstreams. It gets slower, and so do
//! they: each request then needs memory and sockets, at both ends, that have left the CPU's caches. So while the worker is
//! busy, fewer requests are sent at a time and the others wait in turn; as soon as it is idle for a while, because it waits
//! for upstreams, more are sent again.

use std::cell::Cell;
use std::rc::Rc;

use base::limits::{BUSY_PERCENT, REQUESTS_MAX, REQUESTS_WHEN_BUSY};

use crate::share::Gate;

/// A worker's requests that wait for the head of their response, and their present limit.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) gate: Rc<Gate>,
    limit: Cell<usize>,
    /// The time of the last sweep, and how long the worker had been busy until then.
    at_us: Cell<u64>,
    busy_us: Cell<u64>,
}

impl Default for Load {
    fn default() -> Self {
        let (limit, zero) = (Cell::new(REQUESTS_MAX), || Cell::new(0));
        Self { gate: Rc::default(), limit, at_us: zero(), busy_us: zero() }
    }
}

impl Load {
    pub(crate) fn limit(&self) -> usize {
        self.limit.get()
    }

    /// Adapts the limit. `busy_us`: time that the worker has been busy since it started.
    pub(crate) fn sweep(&self, now_us: u64, busy_us: u64) {
        let waited_us = now_us.saturating_sub(self.at_us.replace(now_us));
        let busy_us = busy_us.saturating_sub(self.busy_us.replace(busy_us));
        let is_busy = busy_us.saturating_mul(100) >= waited_us.saturating_mul(BUSY_PERCENT);
        let (passed, waiting) = (self.gate.passed(), self.gate.waiting());
        let limit = adapted(self.limit.get(), passed, waiting, is_busy);
        self.limit.set(limit);
        self.gate.open(limit);
    }
}

/// The limit after a sweep in which `passed` requests were at upstreams, and `waiting` ones waited for them.
fn adapted(limit: usize, passed: usize, waiting: usize, is_busy: bool) -> usize {
    let next = match (is_busy, waiting) {
        (true, _) => limit.min(passed) / 4 * 3,
        (false, 0) => limit.saturating_mul(2),
        (false, _) => limit / 4 * 5,
    };
    next.clamp(REQUESTS_WHEN_BUSY, REQUESTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits after each of `sweeps`: requests at upstreams, requests that wait, whether the worker is busy.
    #[track_caller]
    fn check(limit: usize, sweeps: &[(usize, usize, bool)], expect: &[usize]) {
        let mut limit = limit;
        let limits = sweeps.iter().map(|&(passed, waiting, is_busy)| {
            limit = adapted(limit, passed, waiting, is_busy);
            limit
        });
        assert_eq!(limits.collect::<Vec<_>>(), expect);
    }

    #[test]
    fn a_busy_worker_has_fewer_requests_at_upstreams_and_an_idle_one_more() {
        let busy = [(5_000, 0, true), (3_750, 1_250, true), (2_811, 2_189, true)];
        check(REQUESTS_MAX, &busy, &[3_750, 2_811, 2_106]);
        check(REQUESTS_MAX, &[(100, 0, true)], &[REQUESTS_WHEN_BUSY]);
        check(REQUESTS_WHEN_BUSY, &[(1_024, 4_000, true)], &[REQUESTS_WHEN_BUSY]);
        // The upstream became slow: the worker waits for it.
        check(1_600, &[(1_600, 4_000, false), (2_000, 3_900, false)], &[2_000, 2_500]);
        check(2_500, &[(300, 0, false), (300, 0, false)], &[5_000, 10_000]);
        check(REQUESTS_MAX, &[(9_000, 0, false)], &[REQUESTS_MAX]);
    }

    #[test]
    fn a_worker_is_busy_by_the_share_of_time_that_it_was() {
        let load = Load::default();
        load.sweep(1_000_000, 100_000);
        assert_eq!(load.limit(), REQUESTS_MAX);
        load.sweep(2_000_000, 100_000 + 10_000 * BUSY_PERCENT - 1);
        assert_eq!(load.limit(), REQUESTS_MAX);
        load.sweep(3_000_000, 100_000 + 20_000 * BUSY_PERCENT);
        assert_eq!(load.limit(), REQUESTS_WHEN_BUSY);
    }
}
