//! Decides whether a request is tried again, and when.

use std::cell::Cell;

use base::limits::RETRY_RESERVE;
use model::Retry;

use super::balance::{Balancer, Tried};
use super::health::longer;
use super::pool::Freshness;

/// Counts of retries, for the metrics.
#[derive(Debug, Default)]
pub(crate) struct RetryCounts {
    pub(crate) sent: Cell<u64>,
    /// Retries that exceeded the budget.
    pub(crate) denied: Cell<u64>,
}

impl RetryCounts {
    pub(super) fn add(count: &Cell<u64>) {
        count.set(count.get().wrapping_add(1));
    }
}

/// The tries of one request.
pub(crate) struct Tries<'a> {
    pub(crate) balancer: &'a Balancer,
    /// The number of the operation.
    pub(crate) operation: usize,
    begun_us: u64,
    pub(crate) tried: Tried,
    pub(crate) freshness: Freshness,
    retries: u32,
    /// Set from the first retry on.
    retrying: Option<Retrying<'a>>,
}

/// How a try failed, as far as it matters for the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailedTry {
    /// The upstream closed a reused connection without sending anything.
    pub(crate) stale: bool,
    /// No byte of the request was written, and none of its body was read.
    pub(crate) nothing_sent: bool,
    /// The endpoint has too many requests: another one may take it, but it is not tried there again.
    pub(crate) is_shed: bool,
    /// Another try could succeed, and does no harm.
    pub(crate) repeatable: bool,
}

/// The step after a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The outcome of the try is the request's.
    Stop,
    /// The same, because there were too many retries.
    Denied,
    /// The request is tried on another endpoint.
    Choose,
    /// The request is sent again after a pause.
    Retry { pause_ms: u32 },
}

impl<'a> Tries<'a> {
    pub(crate) fn new(balancer: &'a Balancer, operation: usize, begun_us: u64) -> Self {
        balancer.budget.request();
        let (tried, freshness) = (Tried::default(), Freshness::Any);
        Self { balancer, operation, begun_us, tried, freshness, retries: 0, retrying: None }
    }

    /// After a failed try on the endpoint at `position`.
    pub(crate) fn after_failure(
        &mut self,
        failed: FailedTry,
        position: usize,
        now_us: u64,
    ) -> Next {
        if !failed.repeatable {
            return Next::Stop;
        }
        if !failed.stale {
            self.tried.add(position);
            if failed.nothing_sent && self.balancer.has_another(now_us, self.tried) {
                return Next::Choose;
            }
        }
        if failed.is_shed {
            return Next::Stop;
        }
        self.retry(failed.stale, now_us)
    }

    /// After a response whose status is to be retried. If no endpoint is left, perhaps because of this response, the
    /// client gets it.
    pub(crate) fn after_status(&mut self, position: usize, now_us: u64) -> Next {
        self.tried.add(position);
        let is_left = self.balancer.has_another(now_us, Tried::default());
        if is_left { self.retry(false, now_us) } else { Next::Stop }
    }

    /// `free`: it only replaces a connection that was closed while idle, so no limit but one applies.
    fn retry(&mut self, free: bool, now_us: u64) -> Next {
        let rule = &self.balancer.retry;
        let count = if free { rule.count.max(1) } else { rule.count };
        let pause_ms = if free { 0 } else { pause_ms(rule, self.retries) };
        let spent_us = now_us.saturating_sub(self.begun_us) + u64::from(pause_ms) * 1_000;
        let is_late = spent_us >= u64::from(self.balancer.response_head_ms) * 1_000;
        if self.retries >= count || is_late {
            return Next::Stop;
        }
        if !free && !self.balancer.budget.take(now_us) {
            return Next::Denied;
        }
        if !free && self.retrying.is_none() {
            match self.balancer.budget.enter() {
                Some(retrying) => self.retrying = Some(retrying),
                None => return Next::Denied,
            }
        }
        self.retries += 1;
        self.freshness = Freshness::Fresh;
        if !self.balancer.has_another(now_us, self.tried) {
            self.tried = Tried::default();
        }
        Next::Retry { pause_ms }
    }
}

/// The pause before the retry after `retries` others.
fn pause_ms(rule: &Retry, retries: u32) -> u32 {
    let longest = rule.pause_ms_max;
    let pause =
        (0..retries).fold(rule.pause_ms, |pause, _| longer(pause, rule.factor).min(longest));
    pause.min(longest)
}

/// The retries that a worker may still send to an endpoint set: a share of its requests, one a second, and a reserve.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    /// The budget that each request adds, in hundredths of a retry.
    percent: u32,
    hundredths: Cell<u32>,
    refilled_us: Cell<u64>,
    /// Requests that are being retried, and their largest number.
    retrying: Cell<u32>,
    retrying_max: u32,
}

const ONE_RETRY: u32 = 100;
const FULL: u32 = RETRY_RESERVE * ONE_RETRY;
const SECOND_US: u64 = 1_000_000;

/// A request that is being retried, until it is dropped.
pub(crate) struct Retrying<'a>(&'a Cell<u32>);

impl Drop for Retrying<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl RetryBudget {
    /// `workers`: how many share the limit on concurrent retries.
    pub(crate) fn new(rule: &Retry, workers: u32) -> Self {
        let retrying_max = rule.concurrent_max.map_or(u32::MAX, |most| most.div_ceil(workers));
        Self {
            percent: rule.budget_percent,
            hundredths: Cell::new(FULL),
            refilled_us: Cell::new(0),
            retrying: Cell::new(0),
            retrying_max,
        }
    }

    fn request(&self) {
        self.hundredths.set((self.hundredths.get() + self.percent).min(FULL));
    }

    fn take(&self, now_us: u64) -> bool {
        if self.percent == 0 {
            return false;
        }
        let seconds = now_us.saturating_sub(self.refilled_us.get()) / SECOND_US;
        if seconds > 0 {
            self.refilled_us.set(now_us);
            let refill = u32::try_from(seconds).unwrap_or(u32::MAX).saturating_mul(ONE_RETRY);
            self.hundredths.set(self.hundredths.get().saturating_add(refill).min(FULL));
        }
        let left = self.hundredths.get().checked_sub(ONE_RETRY);
        left.inspect(|left| self.hundredths.set(*left)).is_some()
    }

    fn enter(&self) -> Option<Retrying<'_>> {
        let retrying = self.retrying.get();
        (retrying < self.retrying_max).then(|| {
            self.retrying.set(retrying + 1);
            Retrying(&self.retrying)
        })
    }
}

#[cfg(test)]
mod tests {
    use model::{Upstream, UpstreamKind};

    use super::*;
    use crate::forward::pool::Pools;

    #[track_caller]
    fn check_pauses(rule: &Retry, expect: [u32; 4]) {
        assert_eq!([0, 1, 2, 3].map(|retries| pause_ms(rule, retries)), expect);
    }

    #[test]
    fn pauses_grow_up_to_the_longest() {
        check_pauses(&Retry::default(), [0, 0, 0, 0]);
        let rule = Retry { pause_ms: 100, factor: 2.0, ..Retry::default() };
        check_pauses(&rule, [100, 200, 400, 800]);
        check_pauses(&Retry { pause_ms_max: 300, ..rule.clone() }, [100, 200, 300, 300]);
        check_pauses(&Retry { pause_ms_max: 50, ..rule }, [50, 50, 50, 50]);
    }

    /// The step after a failed try of a request that may be repeated.
    fn after_failure(rule: Retry, stale: bool) -> Next {
        let endpoints = vec![crate::forward::balance::tests::endpoint(0)];
        let upstream = Upstream { retry: rule, ..Upstream::new(UpstreamKind::Single, endpoints) };
        let balancer = Balancer::new(&upstream, None, &Pools::default());
        let failed = FailedTry { stale, nothing_sent: false, is_shed: false, repeatable: true };
        Tries::new(&balancer, 0, 0).after_failure(failed, 0, 0)
    }

    #[test]
    fn a_connection_that_was_closed_while_idle_is_replaced_whatever_the_limits() {
        let at_once = Next::Retry { pause_ms: 0 };
        let none = Retry { count: 0, pause_ms: 9, ..Retry::default() };
        assert_eq!(
            [true, false].map(|stale| after_failure(none.clone(), stale)),
            [at_once, Next::Stop]
        );
        let denied = Retry { budget_percent: 0, concurrent_max: Some(0), ..Retry::default() };
        let next = [true, false].map(|stale| after_failure(denied.clone(), stale));
        assert_eq!(next, [at_once, Next::Denied]);
        let busy = Retry { concurrent_max: Some(0), ..Retry::default() };
        assert_eq!(after_failure(busy, false), Next::Denied);
        assert_eq!(after_failure(Retry::default(), false), at_once);
    }

    /// `r`: a request; `?`: a retry, allowed (`y`) or not (`n`); `+`: a second.
    #[track_caller]
    fn check_budget(percent: u32, script: &str, expect: &str) {
        let rule = Retry { budget_percent: percent, ..Retry::default() };
        let budget = RetryBudget::new(&rule, 1);
        let mut now_us = 0;
        let mut found = String::new();
        for step in script.chars() {
            match step {
                'r' => budget.request(),
                '?' => found.push(if budget.take(now_us) { 'y' } else { 'n' }),
                _ => now_us += SECOND_US,
            }
        }
        assert_eq!(found, expect);
    }

    #[test]
    fn retries_are_a_share_of_the_requests_besides_a_reserve() {
        check_budget(20, "???????????", "yyyyyyyyyyn");
        check_budget(20, "??????????rrrrr??rrrrr?", "yyyyyyyyyyyny");
        check_budget(0, "r?+?", "nn");
    }

    #[test]
    fn one_retry_a_second_is_always_allowed() {
        check_budget(1, "??????????+??++???", "yyyyyyyyyyynyyn");
    }

    #[test]
    fn workers_share_the_limit_on_concurrent_retries() {
        let rule = Retry { concurrent_max: Some(3), ..Retry::default() };
        let budget = RetryBudget::new(&rule, 2);
        let (one, two) = (budget.enter(), budget.enter());
        assert!(one.is_some() && two.is_some() && budget.enter().is_none());
        drop(one);
        assert!(budget.enter().is_some());
        let none = Retry { concurrent_max: Some(0), ..Retry::default() };
        assert!(RetryBudget::new(&none, 2).enter().is_none());
    }
}
