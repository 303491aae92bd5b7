//! Which parts of a connection have something to do: one bit for each stream, and for reading, writing and the time.
//!
//! A waker sets its bit and wakes the connection's task, which then polls only the parts whose bits are set.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};

use wire::h2::SLOTS;

/// The parts that are no streams.
pub(super) const READ: usize = SLOTS;
pub(super) const WRITE: usize = SLOTS + 1;
pub(super) const TIME: usize = SLOTS + 2;

const WORDS: usize = (TIME + 1).div_ceil(64);

/// A set of parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts([u64; WORDS]);

impl Parts {
    pub(super) fn add(&mut self, part: usize) {
        if let Some(word) = self.0.get_mut(part / 64) {
            *word |= 1 << (part % 64);
        }
    }

    pub(super) fn has(&self, part: usize) -> bool {
        self.0.get(part / 64).is_some_and(|word| word >> (part % 64) & 1 == 1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    pub(super) fn union(mut self, other: Self) -> Self {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
        self
    }

    /// The streams in it, in turn: those from `first` on, then the others.
    pub(super) fn slots_from(self, first: usize) -> impl Iterator<Item = usize> {
        let slots = move || {
            self.0
                .into_iter()
                .enumerate()
                .flat_map(|(index, word)| Ones(word).map(move |bit| index * 64 + bit))
        };
        let after = slots().filter(move |slot| (first..SLOTS).contains(slot));
        after.chain(slots().filter(move |slot| *slot < first))
    }
}

/// The positions of the bits of a word.
struct Ones(u64);

impl Iterator for Ones {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (bit < 64).then_some(bit as usize)
    }
}

/// Parts that were marked by the connection's own task.
#[derive(Debug, Default)]
pub(super) struct Marks(Cell<Parts>);

impl Marks {
    pub(super) fn add(&self, part: usize) {
        let mut parts = self.0.get();
        parts.add(part);
        self.0.set(parts);
    }

    pub(super) fn add_all(&self, parts: Parts) {
        self.0.set(self.0.get().union(parts));
    }

    pub(super) fn take(&self) -> Parts {
        self.0.take()
    }
}

/// Parts that were woken from outside.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    words: [AtomicU64; WORDS],
    /// The connection's task, once it has run.
    task: OnceLock<Waker>,
}

impl Wakes {
    /// Every wake-up wakes `task`, which is the same in each call.
    pub(super) fn belong_to(&self, task: &Waker) {
        self.task.get_or_init(|| task.clone());
    }

    /// A waker for `part`.
    pub(super) fn waker(self: &Arc<Self>, part: usize) -> Waker {
        Waker::from(Arc::new(PartWaker { part, wakes: Arc::clone(self) }))
    }

    pub(super) fn take(&self) -> Parts {
        let mut parts = Parts::default();
        for (part, word) in parts.0.iter_mut().zip(&self.words) {
            if word.load(Ordering::Relaxed) != 0 {
                *part = word.swap(0, Ordering::Acquire);
            }
        }
        parts
    }
}

struct PartWaker {
    part: usize,
    wakes: Arc<Wakes>,
}

impl Wake for PartWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(word) = self.wakes.words.get(self.part / 64) {
            word.fetch_or(1 << (self.part % 64), Ordering::Release);
        }
        if let Some(task) = self.wakes.task.get() {
            task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_take_turns() {
        let mut parts = Parts::default();
        [3, 64, 130, READ, TIME].into_iter().for_each(|part| parts.add(part));
        let from = |first| parts.slots_from(first).collect::<Vec<_>>();
        assert_eq!(from(0), [3, 64, 130]);
        assert_eq!(from(4), [64, 130, 3]);
        assert_eq!(from(131), [3, 64, 130]);
        assert!(parts.has(READ) && parts.has(TIME) && !parts.has(WRITE));
    }

    #[test]
    fn a_wake_up_is_taken_once() {
        let wakes = Arc::new(Wakes::default());
        wakes.waker(70).wake();
        wakes.belong_to(Waker::noop());
        wakes.waker(SLOTS - 1).wake_by_ref();
        let taken = wakes.take();
        assert!(taken.has(70) && taken.has(SLOTS - 1));
        assert!(wakes.take().is_empty());
    }
}
