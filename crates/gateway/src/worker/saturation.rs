//! Saturation: a worker that never sleeps gains nothing from more requests at once.
//!
//! Life of a request: throttle -> admit (**turn**) -> mediate. Each request that waits for an upstream's response costs
//! a connection, memory and cache misses; with ten times as many as keep the worker busy, each costs half as much CPU
//! time again. While a worker is saturated, fewer are forwarded at once, and the others wait for their turn, over
//! HTTP/1.1 before they are read; when it sleeps again, more. Mostly the newest one is next: its connection was used
//! last, so its memory is still in the cache, and its client has not given up. The parts of messages that mediation
//! splits wait in the same way, before they are built.
//!
//! Mediation asks it, too, whether to let other tasks go first before it sends a message.

use std::cell::Cell;
use std::rc::Rc;

use base::limits::{
    OLDEST_TURN_OF, SATURATED_DEMAND_MIN, SATURATED_PARTS_MIN, SATURATED_REQUESTS_MIN,
    SATURATED_SLEEPS_MAX, TURN_MS_MAX, UNSATURATED_SLEEPS_MIN,
};
use model::{Denial, Fault};

use crate::body::request_body::{RequestBody, Unwanted};
use crate::message::resources::Resources;
use crate::shares::gate::{Gate, Pass};
use crate::tasks;

/// How many requests of a worker, or parts of messages, may wait for a response head at once.
#[derive(Debug)]
pub(crate) struct Saturation {
    turns: Rc<Gate>,
    /// The least that the limit is.
    least: usize,
    limit: Cell<usize>,
    /// Turns since the last observation.
    taken: Cell<usize>,
    /// Whether a request found no turn left since then, and waits without a place in the queue.
    is_short: Cell<bool>,
    sleeps: Cell<u64>,
    /// The worker hardly ever sleeps.
    is_saturated: Cell<bool>,
    observed_us: Cell<u64>,
}

impl Default for Saturation {
    fn default() -> Self {
        Self {
            turns: Rc::new(Gate::newest_first(OLDEST_TURN_OF)),
            least: SATURATED_REQUESTS_MIN,
            limit: Cell::new(usize::MAX),
            taken: Cell::new(0),
            is_short: Cell::new(false),
            sleeps: Cell::new(0),
            is_saturated: Cell::new(false),
            observed_us: Cell::new(0),
        }
    }
}

impl Saturation {
    /// The saturation for parts of messages.
    pub(crate) fn of_parts() -> Self {
        Self { least: SATURATED_PARTS_MIN, ..Self::default() }
    }

    /// A turn, until dropped: the request may be forwarded.
    ///
    /// # Errors
    /// [`Denial::Overloaded`] after `TURN_MS_MAX`; or the client left.
    pub(crate) async fn turn<B: RequestBody>(
        &self,
        resources: &Resources,
        body: &mut B,
    ) -> Result<Pass, Box<Fault>> {
        let pass = match self.turns.try_pass(self.limit.get()) {
            Some(pass) => pass,
            // Boxed, so that the rare case does not enlarge every future.
            None => Box::pin(self.wait(resources, body)).await?,
        };
        self.taken.set(self.taken.get() + 1);
        Ok(pass)
    }

    async fn wait<B: RequestBody>(
        &self,
        resources: &Resources,
        body: &mut B,
    ) -> Result<Pass, Box<Fault>> {
        body.watch().set(resources.deadline_us(TURN_MS_MAX));
        self.turns.wait(body).await.map_err(|unwanted| match unwanted {
            Unwanted::TimeUp => Fault::Denied(Denial::Overloaded).into(),
            Unwanted::Left(fault) => fault,
        })
    }

    /// A turn, even above the limit, until dropped.
    pub(crate) fn turn_at_once(&self) -> Pass {
        self.taken.set(self.taken.get() + 1);
        self.turns.pass()
    }

    /// How many turns are left of the limit, or of `most`.
    pub(crate) fn left(&self, most: usize) -> usize {
        let left = self.limit.get().min(most).saturating_sub(self.turns.passed());
        self.is_short.set(self.is_short.get() || left == 0);
        left
    }

    /// Whether a request that came now would wait for its turn.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.turns.passed() >= self.limit.get() || self.turns.waiting() > 0
    }

    /// The turns that are in use.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        self.turns.passed()
    }

    /// Behaves as if so many turns were enough.
    #[cfg(test)]
    pub(crate) fn limit_to(&self, turns: usize) {
        self.limit.set(turns);
        self.is_saturated.set(true);
    }

    /// To be awaited before a message is sent that took work, such as mediation: while the worker is saturated, the
    /// tasks that are ready go first, so that the messages of many are sent one right after the other. Each that comes
    /// late finds its receiver asleep, and has to wake it.
    pub(crate) async fn before_sending(&self) {
        if self.is_saturated.get() {
            tasks::step_aside().await;
        }
    }

    /// Adapts the limit. `sleeps`: how often the worker has slept since its start, because it had nothing to do.
    pub(crate) fn observe(&self, sleeps: u64, now_us: u64) {
        let elapsed_us = now_us.saturating_sub(self.observed_us.replace(now_us));
        let slept = sleeps.saturating_sub(self.sleeps.replace(sleeps));
        let taken = self.taken.replace(0);
        let Some(rate) = slept.saturating_mul(1_000_000).checked_div(elapsed_us) else { return };
        let limit = self.limit.get();
        let demand = self.turns.passed().saturating_add(self.turns.waiting());
        // If few turns are taken, the worker is idle, or busy with other work, such as long bodies: no request has to
        // wait.
        let is_short = self.is_short.replace(false);
        let is_demanded = demand >= SATURATED_DEMAND_MIN || is_short;
        let has_many = taken >= SATURATED_REQUESTS_MIN;
        if !has_many || rate >= UNSATURATED_SLEEPS_MIN {
            self.is_saturated.set(false);
        } else if rate <= SATURATED_SLEEPS_MAX {
            self.is_saturated.set(true);
        }
        if !has_many || !is_demanded || rate >= UNSATURATED_SLEEPS_MIN {
            self.limit.set(limit.saturating_mul(2));
        } else if rate <= SATURATED_SLEEPS_MAX {
            let fewer = limit.min(self.turns.passed()) / 4 * 3;
            self.limit.set(fewer.max(self.least).min(limit));
        }
        self.turns.limit_to(self.limit.get());
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use base::SystemClock;

    use super::*;
    use crate::body::Held;
    use crate::own_requests::own_body::OwnBody;

    const MANY: usize = 1_024;
    /// Sleeps of a worker that is not saturated.
    const SLEPT: u64 = UNSATURATED_SLEEPS_MIN;

    /// `count` requests that were forwarded.
    fn forward(saturation: &Saturation, count: usize) -> Vec<Pass> {
        let turn = || saturation.turns.try_pass(saturation.limit.get());
        (0..count).map(|_| turn().expect("there is room")).collect()
    }

    /// Observes a second in which the worker slept so often and took `taken` turns. Returns the limit.
    fn second(saturation: &Saturation, slept: u64, taken: usize) -> usize {
        saturation.taken.set(taken);
        let now_us = saturation.observed_us.get() + 1_000_000;
        saturation.observe(saturation.sleeps.get() + slept, now_us);
        saturation.limit.get()
    }

    #[test]
    fn a_saturated_worker_forwards_fewer_at_once_but_never_too_few() {
        let saturation = Saturation::default();
        assert_eq!(second(&saturation, 1_000, MANY), usize::MAX);
        let forwarded = forward(&saturation, MANY);
        let limits = [0, 8, 64, 1].map(|slept| second(&saturation, slept, MANY));
        assert_eq!(limits, [768, 576, 432, 324]);
        (0..8).for_each(|_| _ = second(&saturation, 0, MANY));
        assert_eq!(saturation.limit.get(), SATURATED_REQUESTS_MIN);
        drop(forwarded);
    }

    #[test]
    fn while_a_worker_is_saturated_messages_that_took_work_are_sent_after_the_tasks_that_are_ready()
    {
        let saturation = Saturation::default();
        let polls = || {
            let mut sending = pin!(saturation.before_sending());
            let mut context = Context::from_waker(Waker::noop());
            (1..9).find(|_| sending.as_mut().poll(&mut context).is_ready())
        };
        assert_eq!(polls(), Some(1));
        let observed = [(0, MANY), (SLEPT, MANY), (0, MANY), (SLEPT / 2, MANY), (0, 1)];
        let after = observed.map(|(slept, taken)| {
            second(&saturation, slept, taken);
            polls()
        });
        assert_eq!(
            after,
            [2, 1, 2, 2, 1].map(Some),
            "with few requests, there is nothing to wait for"
        );
    }

    #[test]
    fn a_worker_that_sleeps_or_is_busy_with_other_things_forwards_more_at_once() {
        let saturation = Saturation::default();
        let forwarded = forward(&saturation, MANY);
        second(&saturation, 0, MANY);
        assert_eq!(second(&saturation, 100, MANY), 768, "neither idle nor saturated");
        assert_eq!(second(&saturation, 128, MANY), 1_536);
        assert_eq!(second(&saturation, 0, 10), 3_072, "hardly a turn was taken");
        drop(forwarded);
    }

    #[test]
    fn nobody_waits_while_few_requests_are_in_progress() {
        let saturation = Saturation::default();
        let forwarded = forward(&saturation, SATURATED_DEMAND_MIN - 1);
        assert_eq!(second(&saturation, 0, MANY), usize::MAX);
        let one_more = forward(&saturation, 1);
        assert_eq!(second(&saturation, 0, MANY), SATURATED_DEMAND_MIN / 4 * 3);
        drop((forwarded, one_more));
        assert_eq!(second(&saturation, 0, MANY), SATURATED_DEMAND_MIN / 2 * 3, "they are gone");
    }

    #[test]
    fn parts_that_find_no_turn_left_are_demand() {
        let saturation = Saturation::of_parts();
        saturation.limit_to(SATURATED_DEMAND_MIN);
        let sent: Vec<Pass> = (0..100).map(|_| saturation.turn_at_once()).collect();
        assert_eq!((saturation.left(MANY), saturation.left(120)), (SATURATED_DEMAND_MIN - 100, 20));
        assert_eq!(second(&saturation, 0, MANY), SATURATED_DEMAND_MIN * 2, "some were left");
        saturation.limit_to(MANY);
        assert_eq!(saturation.left(100), 0);
        assert_eq!(second(&saturation, 0, MANY), SATURATED_PARTS_MIN);
        assert_eq!(saturation.left(100), 0);
        assert_eq!(second(&saturation, 0, MANY), SATURATED_PARTS_MIN, "the least");
        let more = saturation.turn_at_once();
        assert_eq!((saturation.left(100), saturation.turns.passed()), (0, 101), "above the limit");
        drop((sent, more));
        assert_eq!(saturation.left(MANY), SATURATED_PARTS_MIN);
    }

    #[test]
    fn requests_wait_for_their_turn_however_many_there_are() {
        let resources = Resources::new(SystemClock::new(), 0);
        let saturation = Saturation::default();
        let mut forwarded = forward(&saturation, SATURATED_REQUESTS_MIN);
        saturation.limit_to(SATURATED_REQUESTS_MIN);
        let mut bodies: Vec<_> =
            (0..MANY).map(|_| OwnBody::new(Held::default(), &resources)).collect();
        let mut waiting: Vec<_> =
            bodies.iter_mut().map(|body| Box::pin(saturation.turn(&resources, body))).collect();
        let cx = &mut Context::from_waker(Waker::noop());
        for turn in &mut waiting {
            assert!(turn.as_mut().poll(cx).is_pending());
        }
        forwarded.pop();
        let passed: Vec<_> = waiting
            .iter_mut()
            .filter_map(|turn| match turn.as_mut().poll(cx) {
                Poll::Ready(passed) => Some(passed.expect("its turn")),
                Poll::Pending => None,
            })
            .collect();
        assert_eq!(passed.len(), 1);
    }
}
