//! State that mediators keep between messages: responses of `cache`, counts of `throttle`. The host owns it, as long as
//! the program; its workers share it. Everything in it has a limit.

mod responses;
mod windows;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::program::Program;

pub(crate) use responses::{Kept, Responses};
pub(crate) use windows::{Rate, Windows};

/// The state of a program's mediators.
#[derive(Debug, Default)]
pub struct Memory {
    /// By the number of the `cache`.
    caches: Vec<Mutex<Responses>>,
    /// Bytes of all caches together.
    cached_bytes: AtomicUsize,
    /// By the number of the `throttle`.
    throttles: Vec<Mutex<Windows>>,
    /// Requests in progress, by the number of the `id`.
    groups: Vec<Arc<AtomicUsize>>,
}

impl Memory {
    /// Empty, with places for the mediators of `program`.
    #[must_use]
    pub fn new(program: &Program) -> Self {
        fn all<T: Default>(count: usize) -> Vec<T> {
            std::iter::repeat_with(T::default).take(count).collect()
        }
        Self {
            caches: all(program.caches.len()),
            cached_bytes: AtomicUsize::new(0),
            throttles: all(program.throttles),
            groups: all(program.throttle_groups.len()),
        }
    }

    pub(crate) fn cache(&self, number: usize) -> Option<(MutexGuard<'_, Responses>, &AtomicUsize)> {
        Some((lock(self.caches.get(number)?), &self.cached_bytes))
    }

    pub(crate) fn throttle(&self, number: usize) -> Option<MutexGuard<'_, Windows>> {
        self.throttles.get(number).map(lock)
    }

    /// A place among at most `max` requests of the group.
    pub(crate) fn enter(&self, group: usize, max: usize) -> Option<Place> {
        let group = self.groups.get(group)?;
        let add = |places: usize| (places < max).then_some(places + 1);
        group.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Place(Arc::clone(group)))
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place among the requests in progress; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
