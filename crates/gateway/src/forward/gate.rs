//! Limits on the connections in use and on the requests that wait for one.

use std::cell::Cell;
use std::rc::Rc;

use base::limits::{UPSTREAM_CONNECTIONS_MAX, UPSTREAM_IDLE_MAX, UPSTREAM_WAITERS_MAX};
use model::ConnectionLimits;
use tokio::sync::Notify;

use super::body::{RequestBody, Unwanted, while_wanted};

/// Admits a limited number of requests; a limited number of others waits.
#[derive(Debug)]
pub(crate) struct Gate {
    in_use_max: usize,
    waiting_max: usize,
    in_use: Cell<usize>,
    waiting: Cell<usize>,
    returned: Notify,
}

/// Why a request was not admitted.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Too many requests wait.
    Full,
    Unwanted(Unwanted),
}

/// An admitted request, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pass(Rc<Gate>);

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.in_use.set(self.0.in_use.get().saturating_sub(1));
        if self.0.waiting.get() > 0 {
            self.0.returned.notify_one();
        }
    }
}

/// A waiting request. Dropped if the client closes meanwhile.
pub(crate) struct Waiting<'a>(&'a Cell<usize>);

impl<'a> Waiting<'a> {
    pub(crate) fn new(waiting: &'a Cell<usize>) -> Self {
        waiting.set(waiting.get() + 1);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new(UPSTREAM_CONNECTIONS_MAX, UPSTREAM_WAITERS_MAX)
    }
}

impl Gate {
    fn new(in_use_max: usize, waiting_max: usize) -> Self {
        let (in_use, waiting) = (Cell::new(0), Cell::new(0));
        Self { in_use_max, waiting_max, in_use, waiting, returned: Notify::new() }
    }

    /// Admits a request at once, or after another is released. The wait ends when the watch of `body` expires, or its
    /// sender leaves.
    pub(crate) async fn pass(
        self: &Rc<Self>,
        body: &mut impl RequestBody,
    ) -> Result<Pass, Refusal> {
        // Whoever waits already is first.
        let mut is_new = true;
        while self.in_use.get() >= self.in_use_max || is_new && self.waiting.get() > 0 {
            is_new = false;
            if self.waiting.get() >= self.waiting_max {
                return Err(Refusal::Full);
            }
            let waiting = Waiting::new(&self.waiting);
            let turn = while_wanted(body, self.returned.notified()).await;
            drop(waiting);
            turn.map_err(Refusal::Unwanted)?;
        }
        Ok(self.enter())
    }

    pub(crate) fn enter(self: &Rc<Self>) -> Pass {
        self.in_use.set(self.in_use.get() + 1);
        Pass(Rc::clone(self))
    }

    pub(crate) fn in_use(&self) -> usize {
        self.in_use.get()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.get()
    }
}

/// A worker's share of the limits of an endpoint set on its connections to one endpoint.
#[derive(Debug)]
pub(crate) struct SetLimits {
    /// `None`: only the pool's own limits apply.
    pub(crate) gate: Option<Rc<Gate>>,
    pub(crate) idle_max: usize,
    /// Longest wait for a connection in use by another request, in milliseconds.
    pub(crate) wait_ms: Option<u32>,
}

impl SetLimits {
    pub(crate) fn new(limits: &ConnectionLimits, workers: u32) -> Self {
        let share = |limit: Option<u32>, most: usize| {
            let share = limit.map(|limit| limit.div_ceil(workers));
            share
                .and_then(|share| usize::try_from(share).ok())
                .map_or(most, |share| share.min(most))
        };
        let in_use_max = share(limits.in_use_max, UPSTREAM_CONNECTIONS_MAX);
        let waiting_max = share(limits.waiting_max, UPSTREAM_WAITERS_MAX);
        let is_limited = limits.in_use_max.or(limits.waiting_max).is_some();
        Self {
            gate: is_limited.then(|| Rc::new(Gate::new(in_use_max, waiting_max))),
            idle_max: share(limits.idle_max, UPSTREAM_IDLE_MAX),
            wait_ms: limits.wait_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_the_limits_of_a_set() {
        let shares = |in_use_max, waiting_max, idle_max, workers| {
            let limits = ConnectionLimits { in_use_max, waiting_max, idle_max, wait_ms: None };
            let limits = SetLimits::new(&limits, workers);
            let gate = limits.gate.map(|gate| (gate.in_use_max, gate.waiting_max));
            (gate, limits.idle_max)
        };
        assert_eq!(shares(None, None, Some(5), 2), (None, 3));
        assert_eq!(shares(Some(3), Some(0), None, 2), (Some((2, 0)), UPSTREAM_IDLE_MAX));
        assert_eq!(shares(Some(1), None, Some(0), 64), (Some((1, UPSTREAM_WAITERS_MAX)), 0));
        let most = (UPSTREAM_CONNECTIONS_MAX, 1);
        assert_eq!(shares(Some(u32::MAX), Some(1), None, 1), (Some(most), UPSTREAM_IDLE_MAX));
    }
}
