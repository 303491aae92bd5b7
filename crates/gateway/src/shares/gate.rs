//! Gates: counts with a limit, at which requests wait in turn. The places of clients, of APIs and of the worker are
//! gates, and so are the connections to an endpoint.

use std::cell::Cell;
use std::rc::Rc;

use base::limits::{UPSTREAM_CONNECTIONS_MAX, UPSTREAM_IDLE_MAX, UPSTREAM_WAITERS_MAX};
use model::ConnectionLimits;
use tokio::sync::Notify;

use crate::body::request_body::{RequestBody, Unwanted, while_wanted};

/// A count with a limit. Callers that find it full may wait in turn.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    passed: Cell<usize>,
    waiting: Cell<usize>,
    /// The limit when one last passed.
    limit: Cell<usize>,
    left: Notify,
    /// Every `oldest_of`-th place goes to the request that has waited longest, the others to the newest. 0: first in,
    /// first out.
    oldest_of: usize,
    woken: Cell<usize>,
}

/// One in a gate's count, until dropped.
#[derive(Debug)]
pub(crate) struct Pass(Rc<Gate>);

impl Pass {
    /// Another place for a concurrent part of the exchange, even above the limit.
    pub(crate) fn again(&self) -> Self {
        self.0.pass()
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let left = self.0.passed.get().saturating_sub(1);
        self.0.passed.set(left);
        if self.0.waiting.get() > 0 && left < self.0.limit.get() {
            self.0.wake();
        }
    }
}

/// A waiting request. Dropped if it is no longer wanted.
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

impl Gate {
    /// One at which the newest passes first, but one time of `oldest_of` the oldest.
    pub(crate) fn newest_first(oldest_of: usize) -> Self {
        Self { oldest_of, ..Self::default() }
    }

    /// Passes, unless `limit` have passed or others wait. See [`Self::limit_to`].
    pub(crate) fn try_pass(self: &Rc<Self>, limit: usize) -> Option<Pass> {
        self.limit_to(limit);
        (self.passed.get() < limit && self.waiting.get() == 0).then(|| self.pass())
    }

    /// Changes the limit. A higher one than before lets some of those pass that wait.
    pub(crate) fn limit_to(&self, limit: usize) {
        if limit > self.limit.replace(limit) {
            let room = limit.saturating_sub(self.passed.get());
            (0..room.min(self.waiting.get())).for_each(|_| self.wake());
        }
    }

    fn wake(&self) {
        let woken = self.woken.get().wrapping_add(1);
        self.woken.set(woken);
        if self.oldest_of == 0 || woken.is_multiple_of(self.oldest_of) {
            self.left.notify_one();
        } else {
            self.left.notify_last();
        }
    }

    /// Requests that have passed.
    pub(crate) fn passed(&self) -> usize {
        self.passed.get()
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.get()
    }

    /// The limit when one last passed.
    pub(crate) fn limit(&self) -> usize {
        self.limit.get()
    }

    /// Passes when fewer than the limit have passed. The wait ends when the watch of `body` expires, or its sender
    /// leaves.
    ///
    /// # Errors
    /// The reason for which the wait ended.
    pub(crate) async fn wait<B: RequestBody>(
        self: &Rc<Self>,
        body: &mut B,
    ) -> Result<Pass, Unwanted> {
        let _waiting = Waiting::new(&self.waiting);
        loop {
            while_wanted(body, self.left.notified()).await?;
            if self.passed.get() < self.limit.get() {
                return Ok(self.pass());
            }
        }
    }

    /// Passes, even above the limit.
    pub(crate) fn pass(self: &Rc<Self>) -> Pass {
        self.passed.set(self.passed.get() + 1);
        Pass(Rc::clone(self))
    }
}

/// A gate with fixed limits: for the connections to an endpoint, or to all.
#[derive(Debug)]
pub(crate) struct ConnectionGate {
    gate: Rc<Gate>,
    in_use_max: usize,
    waiting_max: usize,
}

/// Why a request got no connection.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Too many requests wait.
    Full,
    Unwanted(Unwanted),
}

impl Default for ConnectionGate {
    fn default() -> Self {
        Self::new(UPSTREAM_CONNECTIONS_MAX, UPSTREAM_WAITERS_MAX)
    }
}

impl ConnectionGate {
    pub(crate) fn new(in_use_max: usize, waiting_max: usize) -> Self {
        Self { gate: Rc::default(), in_use_max, waiting_max }
    }

    pub(crate) fn try_pass(&self) -> Option<Pass> {
        self.gate.try_pass(self.in_use_max)
    }

    /// [`Gate::wait`], unless too many wait already.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) async fn wait<B: RequestBody>(&self, body: &mut B) -> Result<Pass, Refusal> {
        if self.gate.waiting() >= self.waiting_max {
            return Err(Refusal::Full);
        }
        self.gate.wait(body).await.map_err(Refusal::Unwanted)
    }

    pub(crate) fn in_use(&self) -> usize {
        self.gate.passed()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.gate.waiting()
    }
}

/// A worker's share of the limits of an endpoint set on its connections to one endpoint.
#[derive(Debug)]
pub(crate) struct SetLimits {
    /// `None`: only the pool's own limits apply.
    pub(crate) gate: Option<ConnectionGate>,
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
            gate: is_limited.then(|| ConnectionGate::new(in_use_max, waiting_max)),
            idle_max: share(limits.idle_max, UPSTREAM_IDLE_MAX),
            wait_ms: limits.wait_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use base::SystemClock;

    use super::*;
    use crate::body::Held;
    use crate::message::resources::Resources;
    use crate::own_requests::own_body::OwnBody;

    #[test]
    fn nobody_overtakes_a_request_that_waits_for_a_connection() {
        let resources = Resources::new(SystemClock::new(), 0);
        let gate = ConnectionGate::new(1, 2);
        let first = gate.try_pass().unwrap();
        let (mut second, mut third) =
            (OwnBody::new(Held::default(), &resources), OwnBody::new(Held::default(), &resources));
        let (mut second, mut third) = (pin!(gate.wait(&mut second)), pin!(gate.wait(&mut third)));
        assert!(poll(second.as_mut()).is_none() && poll(third.as_mut()).is_none());
        drop(first);
        assert!(gate.try_pass().is_none(), "the second has not run yet");
        assert!(poll(third.as_mut()).is_none());
        let passed = poll(second.as_mut()).expect("its turn");
        assert!(gate.try_pass().is_none() && poll(third.as_mut()).is_none());
        drop(passed);
        assert!(gate.try_pass().is_none(), "the third has not run yet");
        assert!(poll(third.as_mut()).is_some() && gate.waiting() == 0);
        assert!(gate.try_pass().is_some());
    }

    #[test]
    fn the_newest_passes_first_but_the_oldest_every_fourth_time() {
        let resources = Resources::new(SystemClock::new(), 0);
        let gate = Rc::new(Gate::newest_first(4));
        let mut passed = gate.try_pass(1).expect("it is empty");
        let mut bodies: Vec<_> =
            (0..6).map(|_| OwnBody::new(Held::default(), &resources)).collect();
        let mut waiting: Vec<_> =
            bodies.iter_mut().map(|body| Box::pin(gate.wait(body))).map(Some).collect();
        assert!(next(&mut waiting).is_none());
        let mut order = Vec::new();
        for _ in 0..6 {
            drop(passed);
            let (number, pass) = next(&mut waiting).expect("one passes");
            order.push(number);
            passed = pass;
        }
        assert_eq!(order, [5, 4, 3, 0, 2, 1]);
    }

    /// The one that passes, and its number.
    fn next<F>(waiting: &mut [Option<Pin<Box<F>>>]) -> Option<(usize, Pass)>
    where
        F: Future<Output = Result<Pass, Unwanted>>,
    {
        let cx = &mut Context::from_waker(Waker::noop());
        for (number, slot) in waiting.iter_mut().enumerate() {
            if let Some(Poll::Ready(passed)) = slot.as_mut().map(|wait| wait.as_mut().poll(cx)) {
                *slot = None;
                return Some((number, passed.unwrap()));
            }
        }
        None
    }

    fn poll(wait: Pin<&mut impl Future<Output = Result<Pass, Refusal>>>) -> Option<Pass> {
        match wait.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(passed) => Some(passed.unwrap()),
            Poll::Pending => None,
        }
    }

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
