//! Objects that a worker keeps for reuse. The last one released is lent first, because it is still in the CPU's cache,
//! so the oldest ones are unused: they are freed after a while, and a burst of clients leaves no memory behind.

use std::cell::{Cell, RefCell};

#[derive(Debug)]
pub(crate) struct Spares<T> {
    kept: RefCell<Vec<T>>,
    /// The fewest that were kept at any time since the last [`Spares::trim`]: so many were not needed.
    unneeded: Cell<usize>,
}

impl<T> Default for Spares<T> {
    fn default() -> Self {
        Self { kept: RefCell::default(), unneeded: Cell::new(0) }
    }
}

impl<T> Spares<T> {
    pub(crate) fn lend(&self) -> Option<T> {
        let mut kept = self.kept.borrow_mut();
        let lent = kept.pop();
        self.unneeded.set(self.unneeded.get().min(kept.len()));
        lent
    }

    /// Keeps `spare`, unless there are `most` already.
    pub(crate) fn keep(&self, spare: T, most: usize) {
        let mut kept = self.kept.borrow_mut();
        if kept.len() < most {
            kept.push(spare);
        }
    }

    /// Frees half of those that were not needed since the last call.
    pub(crate) fn trim(&self) {
        let mut kept = self.kept.borrow_mut();
        let unneeded = self.unneeded.replace(kept.len());
        if unneeded > 0 {
            let freed = unneeded.min(kept.len()).div_ceil(2);
            drop(kept.drain(..freed));
            let room = kept.len().saturating_mul(2);
            kept.shrink_to(room);
            self.unneeded.set(kept.len());
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.kept.borrow().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_needs_is_freed_and_the_oldest_first() {
        let spares = Spares::default();
        (0..8).for_each(|number| spares.keep(number, 8));
        spares.trim();
        assert_eq!(spares.len(), 8, "they were needed until now");
        let lent = [spares.lend(), spares.lend()];
        lent.into_iter().flatten().for_each(|number| spares.keep(number, 8));
        spares.trim();
        assert_eq!(spares.len(), 5, "half of six");
        assert_eq!(spares.lend(), Some(6), "the last one released");
        (0..4).for_each(|_| spares.trim());
        assert_eq!(spares.len(), 0);
    }

    #[test]
    fn no_more_are_kept_than_allowed() {
        let spares = Spares::default();
        (0..8).for_each(|number| spares.keep(number, 3));
        assert_eq!(spares.len(), 3);
    }
}
