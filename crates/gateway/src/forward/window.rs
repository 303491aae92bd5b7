//! Recent outcomes of the exchanges with an endpoint, as far as its suspension depends on them: counts of the last one
//! or two halves of a window, which all workers write without a lock.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use model::{CircuitBreaker, Fault, Suspension};

/// How an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There was no connection: evidence about the endpoint, for every operation.
    Unreachable,
    /// The connection broke, or no valid response came in time: perhaps only for this operation.
    Broken { operation: usize },
    /// One that suspends the endpoint at once, by its rule.
    Final,
}

impl Failure {
    pub(crate) fn of(fault: &Fault, operation: usize) -> Self {
        if matches!(fault, Fault::Unreachable { .. } | Fault::ConnectTimeout { .. }) {
            Self::Unreachable
        } else {
            Self::Broken { operation }
        }
    }
}

/// A set of operations, by their numbers. Numbers with the same last six bits count as one.
pub(super) fn bit(operation: usize) -> u64 {
    1 << (operation % 64)
}

/// Length of half a window of outlier detection, in microseconds.
const OUTLIER_HALF_US: u64 = 2_000_000;

/// Length of half a rule's window; `None`: it needs none.
pub(super) fn half_window_us(rule: &Suspension) -> Option<u64> {
    match rule {
        Suspension::Outliers => Some(OUTLIER_HALF_US),
        Suspension::Consecutive { .. } => None,
        Suspension::Ratio(breaker) => Some((u64::from(breaker.window_ms) * 500).max(1)),
    }
}

/// Outcomes in the last one or two halves of a window.
#[derive(Debug, Default)]
pub(super) struct Window {
    begun_us: AtomicU64,
    current: Counts,
    last: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    succeeded: AtomicU32,
    unreachable: AtomicU32,
    broken: AtomicU32,
    /// The operations of which exchanges succeeded, and of which they broke.
    succeeded_on: AtomicU64,
    broken_on: AtomicU64,
}

impl Counts {
    fn all(&self) -> [&AtomicU32; 3] {
        [&self.succeeded, &self.unreachable, &self.broken]
    }

    fn operations(&self) -> [&AtomicU64; 2] {
        [&self.succeeded_on, &self.broken_on]
    }

    /// Moves them to `last`; if not `kept`, both are empty then.
    fn shift(&self, last: &Self, kept: bool) {
        for (current, last) in self.all().into_iter().zip(last.all()) {
            let count = current.swap(0, Relaxed);
            last.store(if kept { count } else { 0 }, Relaxed);
        }
        for (current, last) in self.operations().into_iter().zip(last.operations()) {
            let set = current.swap(0, Relaxed);
            last.store(if kept { set } else { 0 }, Relaxed);
        }
    }
}

/// Least number of failed connections that make an outlier, if they are at least half of all exchanges.
const UNREACHABLE_MIN: u64 = 3;
/// Least number of broken exchanges that make an outlier, if they are at least nine in ten.
const BROKEN_MIN: u64 = 10;
/// Least number of operations with broken exchanges that make an outlier, if fewer operations succeed and no other
/// endpoint serves one of the broken ones: a client that sends many requests to one broken operation cannot suspend the
/// endpoint for others.
const BROKEN_OPERATIONS_MIN: u32 = 2;

impl Window {
    /// The counts of the current half, after moving on if its time is over.
    fn current(&self, half_us: u64, now_us: u64) -> &Counts {
        let begun_us = self.begun_us.load(Relaxed);
        let age_us = now_us.saturating_sub(begun_us);
        let moves = age_us >= half_us
            && self.begun_us.compare_exchange(begun_us, now_us, Relaxed, Relaxed).is_ok();
        if moves {
            self.current.shift(&self.last, age_us < 2 * half_us);
        }
        &self.current
    }

    pub(super) fn succeeded(&self, count: u32, operations: u64, half_us: u64, now_us: u64) {
        let counts = self.current(half_us, now_us);
        counts.succeeded.fetch_add(count, Relaxed);
        counts.succeeded_on.fetch_or(operations, Relaxed);
    }

    pub(super) fn failed(&self, failure: Failure, half_us: u64, now_us: u64) {
        let counts = self.current(half_us, now_us);
        match failure {
            Failure::Unreachable => &counts.unreachable,
            Failure::Broken { operation } => {
                counts.broken_on.fetch_or(bit(operation), Relaxed);
                &counts.broken
            }
            Failure::Final => &counts.broken,
        }
        .fetch_add(1, Relaxed);
    }

    /// Successes, failed connections and broken exchanges.
    fn sums(&self) -> [u64; 3] {
        let mut sums = [0; 3];
        for (sum, (current, last)) in
            sums.iter_mut().zip(self.current.all().into_iter().zip(self.last.all()))
        {
            *sum = u64::from(current.load(Relaxed)) + u64::from(last.load(Relaxed));
        }
        sums
    }

    /// The operations of which exchanges succeeded, and of which they broke.
    fn operations(&self) -> [u64; 2] {
        let mut sets = [0; 2];
        let halves = self.current.operations().into_iter().zip(self.last.operations());
        for (set, (current, last)) in sets.iter_mut().zip(halves) {
            *set = current.load(Relaxed) | last.load(Relaxed);
        }
        sets
    }

    /// The operations of which exchanges succeeded lately and none broke, as a set of bits.
    pub(super) fn served(&self, half_us: u64, now_us: u64) -> u64 {
        self.current(half_us, now_us);
        let [succeeded_on, broken_on] = self.operations();
        succeeded_on & !broken_on
    }

    /// Whether the counts make the endpoint an outlier. `elsewhere`: the operations that another endpoint of the set
    /// serves. One that breaks here alone is as much evidence as several are.
    pub(super) fn is_outlier(&self, elsewhere: u64) -> bool {
        let [succeeded, unreachable, broken] = self.sums();
        let all = succeeded + unreachable + broken;
        let [succeeded_on, broken_on] = self.operations();
        let breaking = broken_on.count_ones();
        let is_of_endpoint = breaking >= BROKEN_OPERATIONS_MIN
            && breaking > succeeded_on.count_ones()
            || broken_on & !succeeded_on & elsewhere != 0;
        unreachable >= UNREACHABLE_MIN && 2 * unreachable >= all
            || is_of_endpoint && broken >= BROKEN_MIN && 10 * broken >= 9 * all
    }

    #[allow(clippy::cast_precision_loss, reason = "fewer than 2^53 exchanges in a window")]
    pub(super) fn exceeds(&self, breaker: &CircuitBreaker) -> bool {
        let [succeeded, unreachable, broken] = self.sums();
        let (failed, all) = (unreachable + broken, succeeded + unreachable + broken);
        all >= u64::from(breaker.requests_min.max(1))
            && failed as f64 > breaker.failure_ratio * all as f64
    }

    pub(super) fn clear(&self) {
        self.current.shift(&self.last, false);
    }
}
