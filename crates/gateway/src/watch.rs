//! Deadlines without timers: each connection stores its deadline, and the worker checks all of them every
//! `limits::SWEEP_MS`. Setting a deadline is a store to memory.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// One connection's deadline. `u64::MAX`: none.
#[derive(Debug)]
pub(crate) struct Watch {
    deadline_us: Cell<u64>,
    expired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Watch {
    /// Sets the deadline, and clears `expired`.
    pub(crate) fn set(&self, deadline_us: u64) {
        self.deadline_us.set(deadline_us);
        self.expired.set(false);
    }

    /// Moves the deadline to `latest_us` if it is later.
    pub(crate) fn bring_forward(&self, latest_us: u64) {
        self.deadline_us.set(self.deadline_us.get().min(latest_us));
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.expired.get()
    }

    /// Whether the deadline has passed; if not, registers the task to be woken when it does.
    pub(crate) fn poll_expired(&self, cx: &Context<'_>) -> bool {
        if self.expired.get() {
            return true;
        }
        let mut waker = self.waker.borrow_mut();
        match waker.as_ref() {
            Some(known) if known.will_wake(cx.waker()) => {}
            Some(_) | None => *waker = Some(cx.waker().clone()),
        }
        false
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }
}

/// The output of `future`, or `None` if the watch expires first.
pub(crate) async fn within<F: Future>(watch: &Watch, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if watch.poll_expired(cx) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// All of a worker's deadlines.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    all: RefCell<Vec<Rc<Watch>>>,
}

impl Watches {
    /// A new watch without deadline. It is swept until its owner drops it.
    pub(crate) fn add(&self) -> Rc<Watch> {
        let watch = Rc::new(Watch {
            deadline_us: Cell::new(u64::MAX),
            expired: Cell::new(false),
            waker: RefCell::new(None),
        });
        self.all.borrow_mut().push(Rc::clone(&watch));
        watch
    }

    /// Wakes all tasks, because something other than the time changed.
    pub(crate) fn wake_all(&self) {
        self.all.borrow().iter().for_each(|watch| watch.wake());
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.all.borrow().len()
    }

    /// Wakes the tasks whose deadline has passed at `now_us`, and removes watches without owner.
    pub(crate) fn sweep(&self, now_us: u64) {
        self.all.borrow_mut().retain(|watch| {
            if watch.deadline_us.get() <= now_us && !watch.expired.replace(true) {
                watch.wake();
            }
            Rc::strong_count(watch) > 1
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passed_deadline_expires_and_setting_a_new_one_clears_it() {
        let watches = Watches::default();
        let (early, late) = (watches.add(), watches.add());
        early.set(100);
        late.set(200);
        watches.sweep(150);
        let cx = Context::from_waker(Waker::noop());
        assert!(early.poll_expired(&cx) && !late.poll_expired(&cx));
        early.set(300);
        assert!(!early.poll_expired(&cx));
    }

    #[test]
    fn a_watch_without_owner_is_removed() {
        let watches = Watches::default();
        drop(watches.add());
        let _kept = watches.add();
        watches.sweep(0);
        assert_eq!(watches.len(), 1);
    }
}
