//! The link between a gateway's workers and the reconciliation with other gateways: the counters to reconcile, the time
//! for windows, and whether limits apply at the moment. It consists of atomic numbers and a lock-free queue, so workers
//! never wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use model::WhenDown;

use super::counter::Counter;
use super::meters::Client;
use crate::plans::number_of;

/// Shared by the workers and the reconciliation.
#[derive(Debug)]
pub struct Link {
    /// The counters to reconcile, each at most once, so that `QUOTA_KEYS_MAX` limits their number.
    queue: Sender<Arc<Counter>>,
    mode: AtomicU8,
    when_down: WhenDown,
    /// The time by which Redis' clock is ahead of this machine's.
    ahead_ms: AtomicI64,
    /// Part of the names of the counts of users and addresses.
    secret: [u8; 32],
}

/// How limits are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Limits apply as configured.
    Limited,
    /// Requests are counted, and all are admitted.
    Open,
    /// A request to which a limit applies is rejected.
    Closed,
}

impl Link {
    /// `secret` is known to all gateways that share counts, but not to clients.
    #[must_use]
    pub fn new(when_down: WhenDown, secret: &[u8]) -> (Arc<Self>, Receiver<Arc<Counter>>) {
        let (queue, receiver) = channel();
        let link = Self {
            queue,
            mode: AtomicU8::new(0),
            when_down,
            ahead_ms: AtomicI64::new(0),
            secret: jose::sha256(secret),
        };
        link.set_connected(false);
        (Arc::new(link), receiver)
    }

    /// Records whether Redis responds.
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
        // Fails if the reconciliation has ended.
        let _ = self.queue.send(counter);
    }

    /// The name of the count of `client` under a limit, the same in every gateway and version. The client cannot be
    /// identified from it without the secret.
    pub(super) fn name(&self, of_limit: u64, client: Client<'_>) -> u64 {
        let mut parts = self.secret.to_vec();
        parts.extend_from_slice(&of_limit.to_le_bytes());
        match client {
            Client::User(issuer, subject) => {
                parts.extend_from_slice(&(issuer.len() as u64).to_le_bytes());
                parts.extend_from_slice(issuer.as_bytes());
                parts.extend_from_slice(subject.as_bytes());
            }
            Client::Network(network) => parts.extend_from_slice(&network.to_be_bytes()),
            Client::Values(hash) => parts.extend_from_slice(&hash),
        }
        number_of(&parts)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_the_same_names_in_every_version() {
        let (link, _queue) = Link::new(WhenDown::Local, b"secret");
        assert_eq!(link.name(7, Client::User("iss", "ann")), 0xdc07_5cf7_c62a_7fb3);
        assert_eq!(link.name(7, Client::Network(0x7f00_0001)), 0xe167_2081_aea4_ddce);
        let (other, _queue) = Link::new(WhenDown::Local, b"other");
        let user = Client::User("iss", "ann");
        assert_ne!(other.name(7, user), link.name(7, user));
        assert_ne!(link.name(8, user), link.name(7, user));
        assert_ne!(link.name(7, Client::User("is", "sann")), link.name(7, user));
    }
}
