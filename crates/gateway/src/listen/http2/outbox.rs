//! What the streams of one connection have handed over and its socket has not taken: how much it may
//! be, and when it is gone.
//!
//! The h2 crate queues frames without limit but each stream's own, and a reset overtakes what its
//! stream has queued. So the sum is kept here, and whoever resets a stream can wait for its turn.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

use base::limits::H2_CONNECTION_SEND_BYTES;

/// Frames on their way to one caller.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Bytes handed over since the socket last took all there was.
    held: Cell<usize>,
    /// How often it did.
    rounds: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

/// A moment that [`Outbox::poll_sent`] waits behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(Option<u64>);

impl Outbox {
    /// Ready when another piece may be handed over.
    pub(super) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        if self.held.get() < H2_CONNECTION_SEND_BYTES {
            return Poll::Ready(());
        }
        self.wait(cx);
        Poll::Pending
    }

    /// `count` bytes were handed over.
    pub(super) fn add(&self, count: usize) {
        self.held.set(self.held.get().saturating_add(count));
    }

    /// The socket has taken all.
    pub(super) fn emptied(&self) {
        self.held.set(0);
        self.rounds.set(self.rounds.get().wrapping_add(1));
        for waker in self.waiting.borrow_mut().drain(..) {
            waker.wake();
        }
    }

    /// Now: everything handed over so far.
    pub(super) fn mark(&self) -> Mark {
        Mark((self.held.get() > 0).then(|| self.rounds.get()))
    }

    /// Ready when the socket has taken all that was handed over before `mark`.
    pub(super) fn poll_sent(&self, cx: &Context<'_>, mark: Mark) -> Poll<()> {
        if mark.0 != Some(self.rounds.get()) {
            return Poll::Ready(());
        }
        self.wait(cx);
        Poll::Pending
    }

    fn wait(&self, cx: &Context<'_>) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    struct Task;

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_full_outbox_takes_no_more_until_the_socket_has_taken_all() {
        let (outbox, cx) = (Outbox::default(), Context::from_waker(Waker::noop()));
        outbox.add(H2_CONNECTION_SEND_BYTES - 1);
        assert!(outbox.poll_room(&cx).is_ready());
        outbox.add(1);
        assert!(outbox.poll_room(&cx).is_pending());
        outbox.emptied();
        assert!(outbox.poll_room(&cx).is_ready());
    }

    #[test]
    fn a_mark_is_passed_when_the_socket_has_taken_what_stood_before_it() {
        let (outbox, cx) = (Outbox::default(), Context::from_waker(Waker::noop()));
        assert!(outbox.poll_sent(&cx, outbox.mark()).is_ready(), "nothing stands before it");
        outbox.add(1);
        let mark = outbox.mark();
        assert!(outbox.poll_sent(&cx, mark).is_pending());
        outbox.emptied();
        outbox.add(1);
        assert!(outbox.poll_sent(&cx, mark).is_ready(), "what came later is not waited for");
    }

    #[test]
    fn one_task_waits_once_however_often_it_looks() {
        // The idle waker of the standard library is not known to wake itself.
        let waker = Waker::from(Arc::new(Task));
        let (outbox, cx) = (Outbox::default(), Context::from_waker(&waker));
        outbox.add(H2_CONNECTION_SEND_BYTES);
        for _ in 0..3 {
            assert!(outbox.poll_room(&cx).is_pending());
        }
        assert_eq!(outbox.waiting.borrow().len(), 1);
    }
}
