//! Data that the streams of one connection have queued and its socket has not accepted: limits it, and
//! notifies when it is sent.
//!
//! The h2 crate limits queued frames only per stream, and a reset discards what its stream has queued.
//! Therefore the sum is kept here, and a stream can wait until its frames are sent before it is reset.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

use base::limits::H2_CONNECTION_SEND_BYTES;

/// Frames queued for one client.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Bytes queued since the socket last accepted everything.
    held: Cell<usize>,
    /// The number of times it did.
    rounds: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

/// A position in the queue, for [`Outbox::poll_sent`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(Option<u64>);

impl Outbox {
    /// Ready when more may be queued.
    pub(super) fn poll_capacity(&self, cx: &Context<'_>) -> Poll<()> {
        if self.held.get() < H2_CONNECTION_SEND_BYTES {
            return Poll::Ready(());
        }
        self.wait(cx);
        Poll::Pending
    }

    /// Records that `count` bytes were queued.
    pub(super) fn add(&self, count: usize) {
        self.held.set(self.held.get().saturating_add(count));
    }

    /// Records that the socket has accepted everything.
    pub(super) fn emptied(&self) {
        self.held.set(0);
        self.rounds.set(self.rounds.get().wrapping_add(1));
        for waker in self.waiting.borrow_mut().drain(..) {
            waker.wake();
        }
    }

    /// The position after everything queued so far.
    pub(super) fn mark(&self) -> Mark {
        Mark((self.held.get() > 0).then(|| self.rounds.get()))
    }

    /// Ready when the socket has accepted everything before `mark`.
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
    fn a_full_outbox_is_blocked_until_the_socket_has_accepted_everything() {
        let (outbox, cx) = (Outbox::default(), Context::from_waker(Waker::noop()));
        outbox.add(H2_CONNECTION_SEND_BYTES - 1);
        assert!(outbox.poll_capacity(&cx).is_ready());
        outbox.add(1);
        assert!(outbox.poll_capacity(&cx).is_pending());
        outbox.emptied();
        assert!(outbox.poll_capacity(&cx).is_ready());
    }

    #[test]
    fn a_mark_is_ready_when_everything_before_it_is_sent() {
        let (outbox, cx) = (Outbox::default(), Context::from_waker(Waker::noop()));
        assert!(outbox.poll_sent(&cx, outbox.mark()).is_ready(), "nothing is queued");
        outbox.add(1);
        let mark = outbox.mark();
        assert!(outbox.poll_sent(&cx, mark).is_pending());
        outbox.emptied();
        outbox.add(1);
        assert!(outbox.poll_sent(&cx, mark).is_ready(), "later data is not waited for");
    }

    #[test]
    fn a_task_is_registered_once() {
        // `Waker::noop` does not report that it would wake itself.
        let waker = Waker::from(Arc::new(Task));
        let (outbox, cx) = (Outbox::default(), Context::from_waker(&waker));
        outbox.add(H2_CONNECTION_SEND_BYTES);
        for _ in 0..3 {
            assert!(outbox.poll_capacity(&cx).is_pending());
        }
        assert_eq!(outbox.waiting.borrow().len(), 1);
    }
}
