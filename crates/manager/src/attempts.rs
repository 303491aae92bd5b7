//! Failed attempts to authenticate, which slow down the next ones.
//!
//! A table of fixed size, indexed by a hash with a secret key: however many names an attacker invents, no memory is
//! taken and no entry is evicted. Two accounts that share an entry only share their delay. Users have one half of the
//! table, clients and unknown names the other.
//!
//! Instances of a control plane share failures by the store, which has a row for each entry: an attempt reads it, a
//! failure writes it, and a success only if there was one. Attempts under way, and where users signed in, are known to
//! their instance alone.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use store::Failures;

use crate::limits;
use crate::manager::Manager;
use crate::reply::Refusal;

/// Whose attempts are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who<'a> {
    /// A user, from one address.
    Account(&'a str, IpAddr),
    /// A user, from anywhere.
    User(&'a str),
    /// Users, from one address.
    Address(IpAddr),
    /// A client, from one address. Not from anywhere: a secret cannot be guessed, and anyone who knows the id of a
    /// client could slow it.
    Client(&'a str, IpAddr),
    /// Names that neither a user nor a client has, from one address.
    Unknown(IpAddr),
    /// The device codes of clients without a secret that are asked for from one address.
    Devices(IpAddr),
}

pub(crate) struct Attempts {
    /// The key of the hash that gives the position of an entry: the same on all instances.
    key: Box<dyn Fn() -> [u8; 32] + Send + Sync>,
    entries: Mutex<Vec<Entry>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    failures: u32,
    /// Time of the last failure.
    last_s: u32,
    /// Time since which failures have to be forgotten.
    since_s: u32,
    /// Time of the last success.
    success_s: u32,
    /// Whether the store has failures, too.
    is_stored: bool,
}

/// The addresses of one household or company: those of an IPv6 subnet count as one.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

impl Attempts {
    /// `key`: the secret that all instances share at present.
    pub(crate) fn new(key: impl Fn() -> [u8; 32] + Send + Sync + 'static) -> Self {
        let entries = Mutex::new(vec![Entry::default(); 2 * limits::FAILURE_ENTRIES]);
        Self { key: Box::new(key), entries }
    }

    /// Merges the stored attempts of other instances, and of this one before its start.
    fn learn(&self, stored: &[(u32, Failures)], now_s: u64) {
        for (place, stored) in stored {
            self.at(*place, |entry| {
                let Entry { failures, since_s, last_s, .. } = Entry::of(*stored);
                let known = Entry { failures, since_s, last_s, is_stored: true, ..*entry };
                let is_more = known.level(now_s) > entry.level(now_s);
                *entry = if is_more { known } else { Entry { is_stored: true, ..*entry } };
            });
        }
    }

    /// The seconds to wait before the next attempt at `now_s`; zero if it may be made.
    pub(crate) fn wait_s(&self, who: &[Who<'_>], now_s: u64) -> u64 {
        let known = who.iter().any(|who| self.with(*who, |entry| entry.is_known(*who, now_s)));
        let is_by_others = |who: &Who<'_>| matches!(who, Who::User(_) | Who::Unknown(_));
        let counted = who.iter().filter(|who| !(known && is_by_others(who)));
        let waits = counted.map(|who| self.with(*who, |entry| entry.wait_s(*who, now_s)));
        waits.max().unwrap_or(0)
    }

    /// Counts an attempt as failed, before its outcome is known: attempts at the same time are counted too.
    pub(crate) fn begun(&self, who: &[Who<'_>], now_s: u64) {
        for who in who {
            self.with(*who, |entry| entry.begun(now_s));
        }
    }

    /// The attempt that began last succeeded. An account of one's own does not hide guesses for others: of the failures
    /// of an address, only that of this attempt is forgotten. Returns the places that the store has to forget.
    fn succeeded(&self, who: &[Who<'_>], now_s: u64) -> Vec<u32> {
        let mut stored = Vec::new();
        for who in who {
            let is_forgotten = self.with(*who, |entry| {
                let is_stored = entry.is_stored;
                match who {
                    Who::Account(..) => {
                        *entry = Entry { success_s: seconds(now_s), ..Entry::default() };
                    }
                    Who::User(_) | Who::Client(..) => *entry = Entry::default(),
                    Who::Address(_) | Who::Unknown(_) | Who::Devices(_) => {
                        entry.failures = entry.failures.saturating_sub(1);
                    }
                }
                is_stored && matches!(who, Who::Account(..) | Who::User(_) | Who::Client(..))
            });
            stored.extend(is_forgotten.then(|| self.place(*who)));
        }
        stored
    }

    /// The attempt that began last was not made.
    pub(crate) fn withdrawn(&self, who: &[Who<'_>]) {
        for who in who {
            self.with(*who, |entry| entry.failures = entry.failures.saturating_sub(1));
        }
    }

    fn with<T>(&self, who: Who<'_>, act: impl FnOnce(&mut Entry) -> T) -> T {
        self.at(self.place(who), act)
    }

    /// Where the entry is.
    fn place(&self, who: Who<'_>) -> u32 {
        let text = match who {
            Who::Account(name, address) => format!("account {address} {name}"),
            Who::User(name) => format!("user {name}"),
            Who::Address(address) => format!("address {address}"),
            Who::Client(id, address) => format!("client {address} {id}"),
            Who::Unknown(address) => format!("unknown {address}"),
            Who::Devices(address) => format!("devices {address}"),
        };
        let [first, second, third, fourth, ..] = jose::hmac_sha256(&(self.key)(), text.as_bytes());
        let most = u32::try_from(limits::FAILURE_ENTRIES).unwrap_or(u32::MAX);
        let place = u32::from_le_bytes([first, second, third, fourth]) % most;
        // Anybody can fail as many clients as there are entries: they share none with a user.
        match who {
            Who::Account(..) | Who::User(_) | Who::Address(_) => place,
            Who::Client(..) | Who::Unknown(_) | Who::Devices(_) => place.saturating_add(most),
        }
    }

    fn at<T>(&self, place: u32, act: impl FnOnce(&mut Entry) -> T) -> T {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        match entries.get_mut(place as usize) {
            Some(entry) => act(entry),
            None => act(&mut Entry::default()),
        }
    }
}

impl Manager {
    /// Counts an attempt as failed, unless it is too early for one.
    pub(crate) async fn begin(&self, who: &[Who<'_>]) -> Result<(), Refusal> {
        let (attempts, now_s) = (&self.attempts, self.now_s());
        if attempts.wait_s(who, now_s) == 0 {
            let places: Vec<_> = who.iter().map(|who| attempts.place(*who)).collect();
            attempts.learn(&self.store.failures(&places).await?, now_s);
        }
        self.begin_here(who)
    }

    /// The same, with the attempts known to this instance alone.
    pub(crate) fn begin_here(&self, who: &[Who<'_>]) -> Result<(), Refusal> {
        let now_s = self.now_s();
        match self.attempts.wait_s(who, now_s) {
            0 => {
                self.attempts.begun(who, now_s);
                Ok(())
            }
            wait_s => Err(Refusal::Slowed { wait_s }),
        }
    }

    /// The attempt that began last failed: other instances are to know.
    pub(crate) async fn failed(&self, who: &[Who<'_>]) {
        let now_s = self.now_s();
        for place in who.iter().map(|who| self.attempts.place(*who)) {
            let change = |stored| Entry::of(stored).after_another(now_s);
            if let Err(error) = self.store.change_failures(place, change).await {
                tracing::error!(%error, "a failed attempt counts in this instance only");
                return;
            }
            self.attempts.at(place, |entry| entry.is_stored = true);
        }
    }

    /// The attempt that began last succeeded.
    pub(crate) async fn succeeded(&self, who: &[Who<'_>]) {
        let stored = self.attempts.succeeded(who, self.now_s());
        if let Err(error) = self.store.forget_failures(&stored).await {
            tracing::error!(%error, "other instances still slow a user who has signed in");
        }
    }
}

impl Entry {
    fn of(stored: Failures) -> Self {
        let [since_s, last_s] = [stored.since_s, stored.last_s].map(seconds);
        Self { failures: stored.count, since_s, last_s, ..Self::default() }
    }

    fn after_another(mut self, now_s: u64) -> Failures {
        self.begun(now_s);
        let Self { failures, since_s, last_s, .. } = self;
        Failures { count: failures, since_s: since_s.into(), last_s: last_s.into() }
    }

    /// Whether the user signed in from this address recently: others cannot lock them out.
    fn is_known(self, who: Who<'_>, now_s: u64) -> bool {
        let age_s = now_s.saturating_sub(u64::from(self.success_s));
        matches!(who, Who::Account(..)) && self.success_s > 0 && age_s < limits::KNOWN_ADDRESS_S
    }

    /// The failures that are not forgotten.
    fn level(self, now_s: u64) -> u32 {
        let forgotten = now_s.saturating_sub(u64::from(self.since_s)) / limits::FAILURE_S;
        self.failures.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }

    fn begun(&mut self, now_s: u64) {
        let level = self.level(now_s);
        let age_s = now_s.saturating_sub(u64::from(self.since_s));
        // The rest of a period counts: failures are forgotten also if there is one in every period.
        let since_s = if level == 0 { now_s } else { now_s - age_s % limits::FAILURE_S };
        self.since_s = seconds(since_s);
        self.last_s = seconds(now_s);
        self.failures = level.saturating_add(1);
    }

    fn wait_s(self, who: Who<'_>, now_s: u64) -> u64 {
        let free = match who {
            Who::Account(..) | Who::Client(..) => limits::ACCOUNT_FAILURES_MAX,
            Who::User(_) => limits::USER_FAILURES_MAX,
            Who::Address(_) | Who::Unknown(_) => limits::ADDRESS_FAILURES_MAX,
            Who::Devices(_) => limits::ADDRESS_DEVICES_MAX,
        };
        let Some(above) = self.level(now_s).checked_sub(free) else { return 0 };
        let pause_s = (1_u64 << above.min(16)).min(limits::SLOWED_S_MAX);
        pause_s.saturating_sub(now_s.saturating_sub(u64::from(self.last_s)))
    }
}

fn seconds(now_s: u64) -> u32 {
    u32::try_from(now_s).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const NOW_S: u64 = 1_790_000_000;
    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const ANN: &[Who<'_>] = &[Who::Account("ann", HERE)];

    fn attempts() -> Attempts {
        Attempts::new(|| [1; 32])
    }

    fn fail(attempts: &Attempts, who: &[Who<'_>], times: u32, now_s: u64) {
        for _ in 0..times {
            attempts.begun(who, now_s);
        }
    }

    #[test]
    fn attempts_are_slowed_after_too_many_failures_and_the_pause_doubles() {
        let attempts = attempts();
        let mut waits = Vec::new();
        for _ in 0..limits::ACCOUNT_FAILURES_MAX + 3 {
            waits.push(attempts.wait_s(ANN, NOW_S));
            attempts.begun(ANN, NOW_S);
        }
        assert_eq!(waits[9..], [0, 1, 2, 4]);
        fail(&attempts, ANN, 100, NOW_S);
        assert_eq!(attempts.wait_s(ANN, NOW_S), limits::SLOWED_S_MAX);
        assert_eq!(attempts.wait_s(ANN, NOW_S + limits::SLOWED_S_MAX), 0);
    }

    #[test]
    fn a_success_and_time_clear_the_failures() {
        let attempts = attempts();
        fail(&attempts, ANN, 11, NOW_S);
        let later_s = NOW_S + 11 * limits::FAILURE_S;
        attempts.begun(ANN, later_s);
        assert_eq!(attempts.wait_s(ANN, later_s), 0, "forgotten");
        fail(&attempts, ANN, 20, later_s);
        assert_ne!(attempts.wait_s(ANN, later_s), 0);
        attempts.succeeded(ANN, later_s);
        assert_eq!(attempts.wait_s(ANN, later_s), 0);
    }

    #[test]
    fn failures_are_forgotten_one_by_one_also_while_others_follow() {
        for (seconds, most) in [(limits::FAILURE_S, 1_000), (limits::FAILURE_S - 1, 30)] {
            let attempts = attempts();
            fail(&attempts, ANN, limits::ACCOUNT_FAILURES_MAX - 1, NOW_S);
            for count in 1..=most {
                let now_s = NOW_S + count * seconds;
                assert_eq!(attempts.wait_s(ANN, now_s), 0, "{count} at {seconds} s");
                attempts.begun(ANN, now_s);
            }
        }
    }

    #[test]
    fn others_cannot_lock_a_user_out_at_an_address_where_they_signed_in() {
        let attempts = attempts();
        let from = |last: u8| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
        let ann = |address| [Who::Account("ann", address), Who::User("ann")];
        attempts.begun(&ann(from(1)), NOW_S);
        attempts.succeeded(&ann(from(1)), NOW_S);
        for guess in 0..=limits::USER_FAILURES_MAX {
            attempts.begun(&ann(from(2 + u8::try_from(guess).unwrap_or(0))), NOW_S);
        }
        assert_ne!(attempts.wait_s(&ann(from(250)), NOW_S), 0);
        assert_eq!(attempts.wait_s(&ann(from(1)), NOW_S), 0);
        let forgotten_s = NOW_S + limits::KNOWN_ADDRESS_S;
        fail(&attempts, &[Who::User("ann")], 200, forgotten_s);
        assert_ne!(attempts.wait_s(&ann(from(1)), forgotten_s), 0);
    }

    #[test]
    fn clients_and_unknown_names_share_no_entry_with_users() {
        let attempts = attempts();
        let most = u32::try_from(limits::FAILURE_ENTRIES).unwrap_or(0);
        for number in 0..1_000 {
            let name = number.to_string();
            for user in [Who::Account(&name, HERE), Who::User(&name), Who::Address(HERE)] {
                assert!(attempts.place(user) < most);
            }
            for other in [Who::Client(&name, HERE), Who::Unknown(HERE), Who::Devices(HERE)] {
                assert!((most..2 * most).contains(&attempts.place(other)));
            }
        }
        fail(&attempts, &[Who::Client("ann", HERE), Who::Unknown(HERE)], 1_000, NOW_S);
        assert_ne!(attempts.wait_s(&[Who::Client("ann", HERE)], NOW_S), 0);
        assert_ne!(attempts.wait_s(&[Who::Unknown(HERE)], NOW_S), 0);
        let ann = [Who::Account("ann", HERE), Who::User("ann"), Who::Address(HERE)];
        assert_eq!(attempts.wait_s(&ann, NOW_S), 0);
    }

    #[test]
    fn failures_of_another_instance_slow_attempts_here_until_a_success() {
        let (here, stored) =
            (attempts(), |count| Failures { count, since_s: NOW_S, last_s: NOW_S });
        let place = here.place(Who::Account("ann", HERE));
        assert_eq!(place, attempts().place(Who::Account("ann", HERE)), "instances agree");
        assert_ne!(place, Attempts::new(|| [2; 32]).place(Who::Account("ann", HERE)));
        here.learn(&[(place, stored(limits::ACCOUNT_FAILURES_MAX - 1))], NOW_S);
        assert_eq!(here.wait_s(ANN, NOW_S), 0);
        here.begun(ANN, NOW_S);
        assert_ne!(here.wait_s(ANN, NOW_S), 0);
        here.learn(&[(place, stored(1))], NOW_S);
        assert_ne!(here.wait_s(ANN, NOW_S), 0, "an attempt under way is not in the store");
        assert_eq!(here.succeeded(ANN, NOW_S), [place]);
        assert_eq!(here.wait_s(ANN, NOW_S), 0);
        here.begun(ANN, NOW_S);
        assert!(here.succeeded(ANN, NOW_S).is_empty(), "a success alone writes nothing");
        here.learn(&[(place, stored(100))], NOW_S + 100 * limits::FAILURE_S);
        assert_eq!(here.wait_s(ANN, NOW_S + 100 * limits::FAILURE_S), 0, "it was long ago");
    }

    #[test]
    fn an_ipv6_subnet_and_a_mapped_ipv4_address_are_one() {
        for (one, other, same) in [
            ("2001:db8::1", "2001:db8::ffff:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("::ffff:192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
        ] {
            let parse = |text: &str| network(text.parse().unwrap_or(HERE));
            assert_eq!(parse(one) == parse(other), same, "{one} {other}");
        }
    }
}
