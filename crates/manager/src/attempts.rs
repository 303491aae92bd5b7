//! Failed attempts to authenticate, which slow down the next ones.
//!
//! A table of fixed size, indexed by a hash with a secret key: however many names an attacker invents, no memory is
//! taken and no entry is evicted. Two accounts that share an entry only share their delay.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use crate::limits;

/// Whose attempts are counted.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Who<'a> {
    /// A user or a client, from one address.
    Account(&'a str, IpAddr),
    /// A user, from anywhere. Not a client: its secret cannot be guessed, and anyone who knows its id could slow it.
    User(&'a str),
    Address(IpAddr),
}

pub(crate) struct Attempts {
    hasher: RandomState,
    entries: Mutex<Vec<Entry>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    failures: u32,
    last_s: u32,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        let entries = Mutex::new(vec![Entry::default(); limits::FAILURE_ENTRIES]);
        Self { hasher: RandomState::new(), entries }
    }

    /// The seconds to wait before the next attempt at `now_s`; zero if it may be made.
    pub(crate) fn wait_s(&self, who: Who<'_>, now_s: u64) -> u64 {
        self.with(who, |entry| entry.wait_s(who, now_s))
    }

    pub(crate) fn failed(&self, who: Who<'_>, now_s: u64) {
        self.with(who, |entry| {
            entry.failures = entry.level(now_s).saturating_add(1);
            entry.last_s = u32::try_from(now_s).unwrap_or(u32::MAX);
        });
    }

    pub(crate) fn succeeded(&self, who: Who<'_>) {
        self.with(who, |entry| *entry = Entry::default());
    }

    fn with<T>(&self, who: Who<'_>, act: impl FnOnce(&mut Entry) -> T) -> T {
        let hash = usize::try_from(self.hasher.hash_one(who) % limits::FAILURE_ENTRIES as u64);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        match entries.get_mut(hash.unwrap_or(0)) {
            Some(entry) => act(entry),
            None => act(&mut Entry::default()),
        }
    }
}

impl Entry {
    fn age_s(self, now_s: u64) -> u64 {
        now_s.saturating_sub(u64::from(self.last_s))
    }

    /// The failures that are not forgotten.
    fn level(self, now_s: u64) -> u32 {
        let forgotten = self.age_s(now_s) / limits::FAILURE_S;
        self.failures.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }

    fn wait_s(self, who: Who<'_>, now_s: u64) -> u64 {
        let free = match who {
            Who::Account(..) => limits::ACCOUNT_FAILURES_MAX,
            Who::User(_) => limits::USER_FAILURES_MAX,
            Who::Address(_) => limits::ADDRESS_FAILURES_MAX,
        };
        let Some(above) = self.level(now_s).checked_sub(free) else { return 0 };
        let pause_s = (1_u64 << above.min(16)).min(limits::SLOWED_S_MAX);
        pause_s.saturating_sub(self.age_s(now_s))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const NOW_S: u64 = 1_790_000_000;
    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const ANN: Who<'_> = Who::Account("ann", HERE);

    #[test]
    fn attempts_are_slowed_after_too_many_failures_and_the_pause_doubles() {
        let attempts = Attempts::new();
        let mut waits = Vec::new();
        for _ in 0..limits::ACCOUNT_FAILURES_MAX + 3 {
            waits.push(attempts.wait_s(ANN, NOW_S));
            attempts.failed(ANN, NOW_S);
        }
        assert_eq!(waits[9..], [0, 1, 2, 4]);
        for _ in 0..100 {
            attempts.failed(ANN, NOW_S);
        }
        assert_eq!(attempts.wait_s(ANN, NOW_S), limits::SLOWED_S_MAX);
        assert_eq!(attempts.wait_s(ANN, NOW_S + limits::SLOWED_S_MAX), 0);
    }

    #[test]
    fn a_success_and_time_clear_the_failures() {
        let attempts = Attempts::new();
        for _ in 0..11 {
            attempts.failed(ANN, NOW_S);
        }
        let later_s = NOW_S + 11 * limits::FAILURE_S;
        attempts.failed(ANN, later_s);
        assert_eq!(attempts.wait_s(ANN, later_s), 0, "forgotten");
        for _ in 0..20 {
            attempts.failed(ANN, later_s);
        }
        assert_ne!(attempts.wait_s(ANN, later_s), 0);
        attempts.succeeded(ANN);
        assert_eq!(attempts.wait_s(ANN, later_s), 0);
    }

    #[test]
    fn a_failure_now_and_then_does_not_add_up() {
        let attempts = Attempts::new();
        for minute in 0..1_000 {
            let now_s = NOW_S + minute * limits::FAILURE_S;
            assert_eq!(attempts.wait_s(ANN, now_s), 0);
            attempts.failed(ANN, now_s);
        }
    }
}
