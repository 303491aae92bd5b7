//! Shares of a worker: how many requests a client, an API or all of them together may have in progress, and how many
//! uploads that have not begun. Where requests wait for a place, those whose clients are the slowest give way.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::sync::Notify;

use crate::forward::{RequestBody, Unwanted, while_wanted};
use crate::watch::Watches;

/// What one client, one API, or the whole worker holds.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// Requests that were forwarded, until the end of their response. Each holds an upstream connection.
    pub(crate) requests: Rc<Gate>,
    /// Requests that were forwarded without a byte of their body, until the head of their response.
    pub(crate) early_uploads: Rc<Gate>,
}

/// A count with a limit. Those that find it full may wait in turn.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    passed: Cell<usize>,
    waiting: Cell<usize>,
    /// The limit when one last passed.
    limit: Cell<usize>,
    left: Notify,
}

/// One in a gate's count, until dropped.
#[derive(Debug)]
pub(crate) struct Pass(Rc<Gate>);

impl Drop for Pass {
    fn drop(&mut self) {
        let left = self.0.passed.get().saturating_sub(1);
        self.0.passed.set(left);
        if self.0.waiting.get() > 0 && left < self.0.limit.get() {
            self.0.left.notify_one();
        }
    }
}

/// A request that waits at a gate. Dropped if it is no longer wanted.
struct Waiting<'a>(&'a Cell<usize>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl Gate {
    /// Passes, unless `limit` have passed or others wait. A higher limit than before lets some of those pass.
    pub(crate) fn try_pass(self: &Rc<Self>, limit: usize) -> Option<Pass> {
        if limit > self.limit.replace(limit) {
            let room = limit.saturating_sub(self.passed.get());
            (0..room.min(self.waiting.get())).for_each(|_| self.left.notify_one());
        }
        (self.passed.get() < limit && self.waiting.get() == 0).then(|| self.pass())
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.get()
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
        self.waiting.set(self.waiting.get() + 1);
        let _waiting = Waiting(&self.waiting);
        loop {
            while_wanted(body, self.left.notified()).await?;
            if self.passed.get() < self.limit.get() {
                return Ok(self.pass());
            }
        }
    }

    fn pass(self: &Rc<Self>) -> Pass {
        self.passed.set(self.passed.get() + 1);
        Pass(Rc::clone(self))
    }
}

/// Whose requests give way to one that waits at a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// It waits for its own client's.
    Nobody,
    /// The API's in this slot.
    Api(u32),
    Anybody,
}

/// The gates of a worker at which requests wait.
#[derive(Debug, Default)]
pub(crate) struct Crowds(RefCell<Vec<(Rc<Gate>, Whose)>>);

impl Crowds {
    /// [`Gate::wait`]; meanwhile the slowest requests give way.
    ///
    /// # Errors
    /// As [`Gate::wait`].
    pub(crate) async fn wait<B: RequestBody>(
        &self,
        gate: &Rc<Gate>,
        whose: Whose,
        body: &mut B,
    ) -> Result<Pass, Unwanted> {
        if whose != Whose::Nobody {
            self.add(gate, whose);
        }
        gate.wait(body).await
    }

    fn add(&self, gate: &Rc<Gate>, whose: Whose) {
        let mut crowds = self.0.borrow_mut();
        if !crowds.iter().any(|(known, _)| Rc::ptr_eq(known, gate)) {
            crowds.push((Rc::clone(gate), whose));
        }
    }

    /// Ends as many of the slowest requests as wait at each gate, if their clients are slow.
    pub(crate) fn sweep(&self, watches: &Watches, now_us: u64) {
        self.0.borrow_mut().retain(|(gate, whose)| {
            let waiting = gate.waiting();
            if waiting > 0 {
                watches.give_way(waiting, now_us, |api| match whose {
                    Whose::Nobody => false,
                    Whose::Api(slot) => api == Some(*slot),
                    Whose::Anybody => api.is_some(),
                });
            }
            waiting > 0
        });
    }
}
