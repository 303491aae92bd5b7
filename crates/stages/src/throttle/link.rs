//! What the workers of a gateway know of the other gateways: which counters are to be reconciled, the time that windows
//! go by, and whether limits apply at the moment. Atomic numbers and a queue without a lock; nobody waits.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use model::WhenDown;

use super::counter::Counter;

/// Shared by the workers and the reconciliation.
#[derive(Debug)]
pub struct Link {
    /// Each counter is in it once at most, so that `QUOTA_KEYS_MAX` limits it.
    queue: Sender<Arc<Counter>>,
    mode: AtomicU8,
    when_down: WhenDown,
    /// What Redis' clock is ahead of this machine's.
    ahead_ms: AtomicI64,
    /// Of the hashes of users and addresses.
    seed: [u64; 2],
}

/// How limits are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As they are.
    Limited,
    /// Requests are counted, and all are admitted.
    Open,
    /// A request that has a limit is refused.
    Closed,
}

impl Link {
    /// `secret` is what all gateways that share counts know, and clients do not.
    #[must_use]
    pub fn new(when_down: WhenDown, secret: &[u8]) -> (Arc<Self>, Receiver<Arc<Counter>>) {
        let (queue, receiver) = channel();
        let half = |number: u64| {
            let mut hasher = DefaultHasher::new();
            (number, secret).hash(&mut hasher);
            hasher.finish()
        };
        let link = Self {
            queue,
            mode: AtomicU8::new(0),
            when_down,
            ahead_ms: AtomicI64::new(0),
            seed: [half(0), half(1)],
        };
        link.set_connected(false);
        (Arc::new(link), receiver)
    }

    /// Says whether Redis answers.
    pub(super) fn set_connected(&self, connected: bool) {
        let mode = match (connected, self.when_down) {
            (true, _) | (false, WhenDown::Local) => Mode::Limited,
            (false, WhenDown::Open) => Mode::Open,
            (false, WhenDown::Closed) => Mode::Closed,
        };
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    pub(super) fn set_ahead(&self, ms: i64) {
        self.ahead_ms.store(ms, Ordering::Relaxed);
    }

    pub(super) fn send(&self, counter: Arc<Counter>) {
        // Fails if nothing is reconciled any more.
        let _ = self.queue.send(counter);
    }

    pub(super) fn seed(&self) -> [u64; 2] {
        self.seed
    }

    /// `now_ms` of this machine's clock, on Redis' clock.
    pub(super) fn time_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_add_signed(self.ahead_ms.load(Ordering::Relaxed))
    }

    pub(super) fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Relaxed) {
            1 => Mode::Open,
            2 => Mode::Closed,
            _ => Mode::Limited,
        }
    }
}
