//! One count in one window, as one atomic number that all workers write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::limits::QUOTA_MAX;

use super::link::Link;

/// Bits of the count; the others are the lowest bits of the window's number.
const COUNT_BITS: u32 = 44;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
const WINDOW_MASK: u64 = u64::MAX >> COUNT_BITS;

const _: () = assert!(QUOTA_MAX == COUNT_MASK, "a limit must fit into the count");

/// The amount used in a window. Windows are multiples of the period since the Unix epoch, as in WSO2's traffic manager.
#[derive(Debug)]
pub struct Counter {
    word: AtomicU64,
    period_ms: u64,
    /// Identifies the counter, in all gateways.
    name: u64,
    /// The link to other gateways.
    link: Option<Arc<Link>>,
    /// The amount that other gateways have counted, in the form of `word`. Only the reconciliation writes it.
    others: AtomicU64,
    /// Whether the counter is in the queue of the reconciliation.
    queued: AtomicBool,
}

/// A count in the window of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    window: u64,
    count: u64,
}

impl Counter {
    pub(crate) fn new(name: u64, period_ms: u64, link: Option<&Arc<Link>>, now_ms: u64) -> Self {
        let period_ms = period_ms.max(1);
        let empty = State { window: (now_ms / period_ms) & WINDOW_MASK, count: 0 }.word();
        Self {
            word: AtomicU64::new(empty),
            period_ms,
            name,
            link: link.cloned(),
            others: AtomicU64::new(empty),
            queued: AtomicBool::new(false),
        }
    }

    /// Adds 1 unless `limit` is reached, and returns the count then.
    ///
    /// # Errors
    /// If the limit is reached.
    pub(crate) fn take(self: &Arc<Self>, limit: u64, now_ms: u64) -> Result<u64, ()> {
        let next = |word| {
            let State { window, count } = self.at(word, now_ms);
            (count < limit).then(|| State { window, count: count + 1 }.word())
        };
        let before = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let before = before.map_err(|_| ())?;
        self.queue();
        Ok(self.at(before, now_ms).count + 1)
    }

    /// Undoes the addition of 1 at `now_ms`.
    pub(crate) fn release(&self, now_ms: u64) {
        let next = |word| {
            let State { window, count } = self.at(word, now_ms);
            Some(State { window, count: count.saturating_sub(1) }.word())
        };
        let _ = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// Adds the amount that an exchange has used.
    pub fn add(self: &Arc<Self>, amount: u64, now_ms: u64) {
        let next = |word| {
            let State { window, count } = self.at(word, now_ms);
            Some(State { window, count: count.saturating_add(amount).min(COUNT_MASK) }.word())
        };
        let _ = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        self.queue();
    }

    /// Adds the counter to the queue of the reconciliation, if there is one.
    fn queue(self: &Arc<Self>) {
        let Some(link) = &self.link else { return };
        // The flag is always written, never only read: if the reconciliation takes the counter from the queue later, it
        // sees the count; if it took it before, it has set the flag to false.
        if !self.queued.swap(true, Ordering::AcqRel) {
            link.send(Arc::clone(self));
        }
    }

    /// Marks the counter as taken from the queue. To be called before it is read.
    pub(super) fn dequeue(&self) {
        self.queued.swap(false, Ordering::AcqRel);
    }

    /// Adds the counter to the queue again, unless it is there.
    pub(super) fn requeue(self: &Arc<Self>) {
        self.queue();
    }

    /// The amount that this gateway has counted in the window of `now_ms`.
    pub(super) fn own(&self, now_ms: u64) -> Own {
        let State { window, count } = self.at(self.word.load(Ordering::Relaxed), now_ms);
        let others = State::of(self.others.load(Ordering::Relaxed));
        let others = if others.window == window { others.count } else { 0 };
        Own {
            name: self.name,
            period_ms: self.period_ms,
            window,
            count: count.saturating_sub(others),
        }
    }

    /// Raises the count of other gateways in `window` to `count`. It never falls: if Redis has lost data, the other
    /// gateways will report their counts again.
    pub(super) fn learn(&self, window: u64, count: u64) {
        let known = State::of(self.others.load(Ordering::Relaxed));
        let known = if known.window == window { known.count } else { 0 };
        let Some(new) = count.min(COUNT_MASK).checked_sub(known).filter(|new| *new > 0) else {
            return;
        };
        let next = |word| {
            let State { window: current, count } = State::of(word);
            let count = count.saturating_add(new).min(COUNT_MASK);
            (current == window).then(|| State { window, count }.word())
        };
        if self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok() {
            self.others.store(State { window, count: known + new }.word(), Ordering::Relaxed);
        }
    }

    pub(crate) fn used(&self, now_ms: u64) -> u64 {
        self.at(self.word.load(Ordering::Relaxed), now_ms).count
    }

    /// End of the counter's window.
    pub(crate) fn until_ms(&self, now_ms: u64) -> u64 {
        let State { window, .. } = self.at(self.word.load(Ordering::Relaxed), now_ms);
        let now = now_ms / self.period_ms;
        let ahead = window.wrapping_sub(now) & WINDOW_MASK;
        now.saturating_add(ahead).saturating_add(1).saturating_mul(self.period_ms)
    }

    /// Whether the window of `now_ms` has no count.
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        self.used(now_ms) == 0
    }

    /// The state at `now_ms`. An earlier window is over. A later window is kept: the clock was set back, which must not
    /// begin a window again.
    fn at(&self, word: u64, now_ms: u64) -> State {
        let now = (now_ms / self.period_ms) & WINDOW_MASK;
        let state = State::of(word);
        let later = now.wrapping_sub(state.window) & WINDOW_MASK;
        let is_over = later != 0 && later <= WINDOW_MASK / 2;
        if is_over { State { window: now, count: 0 } } else { state }
    }
}

/// The amount that a gateway has counted in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) name: u64,
    pub(super) period_ms: u64,
    /// The lowest bits of the window's number.
    pub(super) window: u64,
    pub(super) count: u64,
}

impl State {
    fn of(word: u64) -> Self {
        Self { window: word >> COUNT_BITS, count: word & COUNT_MASK }
    }

    fn word(self) -> u64 {
        self.window << COUNT_BITS | self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_multiples_of_the_period_since_the_epoch() {
        // 2 in each second.
        check(&[900, 950, 999, 1_000, 1_001, 1_002], "ok ok 1000 ok ok 2000");
        check(&[5_500, 9_700], "ok ok");
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_begin_a_window_again() {
        check(&[7_000, 7_001, 3_000, 6_999, 8_000], "ok ok 8000 8000 ok");
        check(&[7_000, 3_000, 3_001], "ok ok 8000");
    }

    #[test]
    fn what_is_released_can_be_taken_again_and_additions_saturate() {
        let counter = alone(0);
        assert_eq!((counter.take(1, 0), counter.take(1, 0)), (Ok(1), Err(())));
        counter.release(0);
        assert_eq!(counter.take(1, 0), Ok(1));
        counter.add(u64::MAX, 0);
        assert_eq!(counter.used(0), QUOTA_MAX);
        assert!(counter.is_over(1_000) && !counter.is_over(999));
        counter.release(1_000);
        assert_eq!(counter.used(1_000), 0);
    }

    #[test]
    fn threads_together_take_exactly_the_limit() {
        const LIMIT: u64 = 10_000;
        let counter = alone(0);
        let taken: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| (0..LIMIT).filter(|_| counter.take(LIMIT, 5).is_ok()).count())
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().map_or(0, |n| n as u64)).sum()
        });
        assert_eq!(taken, LIMIT);
    }

    #[test]
    fn the_counts_of_others_are_added_once_and_are_not_its_own() {
        let counter = alone(0);
        assert_eq!(counter.take(9, 0), Ok(1));
        counter.learn(0, 4);
        counter.learn(0, 4);
        counter.learn(0, 3);
        assert_eq!((counter.used(0), counter.own(0).count), (5, 1));
        counter.learn(0, 6);
        assert_eq!((counter.take(9, 0), counter.own(0).count), (Ok(8), 2));
        assert_eq!(counter.take(9, 1_000), Ok(1), "a new window");
        counter.learn(0, 9);
        assert_eq!((counter.used(1_000), counter.own(1_000).count), (1, 1), "of the old window");
        counter.learn(1, 9);
        assert_eq!((counter.take(9, 1_000), counter.own(1_000).count), (Err(()), 1));
    }

    fn alone(now_ms: u64) -> Arc<Counter> {
        Arc::new(Counter::new(7, 1_000, None, now_ms))
    }

    /// Checks a limit of 2 per second. `expect` has `ok`, or the time to try again.
    #[track_caller]
    fn check(times_ms: &[u64], expect: &str) {
        let counter = alone(times_ms.first().copied().unwrap_or_default());
        let found = times_ms.iter().map(|now_ms| match counter.take(2, *now_ms) {
            Ok(_) => "ok".to_owned(),
            Err(()) => counter.until_ms(*now_ms).to_string(),
        });
        assert_eq!(found.collect::<Vec<_>>().join(" "), expect);
    }
}
