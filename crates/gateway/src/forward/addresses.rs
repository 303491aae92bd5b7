//! The addresses of an endpoint, used in turn, each with its idle connections.

use std::net::IpAddr;

use base::limits::{
    ADDRESS_AVOIDED_MS_MAX, ADDRESS_AVOIDED_MS_MIN, IDLE_UPSTREAM_MS_MAX, NAME_ADDRESSES_MAX,
    UPSTREAM_AGE_MS_MAX,
};

/// `S`: a connection.
#[derive(Debug)]
pub(crate) struct Addresses<S> {
    known: Vec<Known<S>>,
    /// Position at which the next turn begins.
    next: usize,
}

#[derive(Debug)]
struct Known<S> {
    ip: IpAddr,
    /// The most recently used one is last and is used first, so that surplus connections expire.
    idle: Vec<Idle<S>>,
    /// Until then, other addresses are preferred, because a connection to this one failed.
    avoided_until_us: u64,
    avoided_ms: u32,
}

#[derive(Debug)]
struct Idle<S> {
    connection: S,
    opened_us: u64,
    since_us: u64,
}

/// A connection of the pool, its address and when it was opened.
pub(crate) type Pooled<S> = (S, IpAddr, u64);

impl<S> Addresses<S> {
    /// No addresses yet. `first`: the turn begins with this one, modulo their number.
    pub(crate) fn new(first: u64) -> Self {
        Self { known: Vec::new(), next: usize::try_from(first).unwrap_or(0) }
    }

    /// Replaces the addresses. Idle connections to those that are gone are closed.
    pub(crate) fn set(&mut self, ips: &[IpAddr]) {
        let is_same = self.known.iter().map(|known| known.ip).eq(ips.iter().copied());
        if is_same {
            return;
        }
        let mut before = std::mem::take(&mut self.known);
        let ips = ips.iter().take(NAME_ADDRESSES_MAX);
        let known = ips.map(|&ip| match before.iter().position(|known| known.ip == ip) {
            Some(position) => before.swap_remove(position),
            None => Known { ip, idle: Vec::new(), avoided_until_us: 0, avoided_ms: 0 },
        });
        self.known = known.collect();
    }

    /// The positions at which a request looks for a connection, in order: the next address in turn, then the others,
    /// then those that are avoided.
    fn turn(&mut self, now_us: u64) -> impl Iterator<Item = usize> + use<'_, S> {
        let count = self.known.len();
        let first = self.next.checked_rem(count).unwrap_or(0);
        self.next = first.wrapping_add(1);
        let known = &self.known;
        let is_avoided =
            move |at: &usize| known.get(*at).is_some_and(|one| one.avoided_until_us > now_us);
        let all = move || (first..count).chain(0..first);
        all().filter(move |at| !is_avoided(at)).chain(all().filter(is_avoided))
    }

    /// Begins a turn: an idle connection to its first address that `is_open`, or else the addresses to connect to, in
    /// order.
    pub(crate) fn take(
        &mut self,
        may_reuse: bool,
        now_us: u64,
        mut is_open: impl FnMut(&mut S) -> bool,
    ) -> Result<Pooled<S>, Vec<IpAddr>> {
        if may_reuse {
            let first = match self.known.len() {
                0 | 1 => 0,
                _ => self.turn(now_us).next().unwrap_or(0),
            };
            if let Some(known) = self.known.get_mut(first) {
                while let Some(mut idle) = known.idle.pop() {
                    if is_open(&mut idle.connection) {
                        return Ok((idle.connection, known.ip, idle.opened_us));
                    }
                }
            }
            self.next = first;
        }
        let order: Vec<usize> = self.turn(now_us).collect();
        Err(order.into_iter().filter_map(|at| Some(self.known.get(at)?.ip)).collect())
    }

    /// Keeps a connection for later requests, unless it is too old, its address is gone, or there are `idle_max`.
    /// Returns one that is not kept.
    pub(crate) fn release(&mut self, pooled: Pooled<S>, idle_max: usize, now_us: u64) -> Option<S> {
        let (connection, ip, opened_us) = pooled;
        if self.idle() >= idle_max || is_older(opened_us, UPSTREAM_AGE_MS_MAX, now_us) {
            return Some(connection);
        }
        let Some(known) = self.known.iter_mut().find(|known| known.ip == ip) else {
            return Some(connection);
        };
        known.idle.push(Idle { connection, opened_us, since_us: now_us });
        None
    }

    /// Records a failed connection: other addresses are preferred for a while.
    pub(crate) fn failed(&mut self, ip: IpAddr, now_us: u64) {
        let Some(known) = self.known.iter_mut().find(|known| known.ip == ip) else { return };
        if known.avoided_until_us > now_us {
            return;
        }
        let longer = known.avoided_ms.saturating_mul(2);
        known.avoided_ms = longer.clamp(ADDRESS_AVOIDED_MS_MIN, ADDRESS_AVOIDED_MS_MAX);
        known.avoided_until_us = now_us.saturating_add(u64::from(known.avoided_ms) * 1_000);
    }

    /// Records a new connection.
    pub(crate) fn connected(&mut self, ip: IpAddr) {
        if let Some(known) = self.known.iter_mut().find(|known| known.ip == ip) {
            (known.avoided_until_us, known.avoided_ms) = (0, 0);
        }
    }

    /// The number of idle connections.
    pub(crate) fn idle(&self) -> usize {
        self.known.iter().map(|known| known.idle.len()).sum()
    }

    /// Since when each idle connection is idle.
    pub(crate) fn idle_since(&self) -> impl Iterator<Item = u64> {
        self.known.iter().flat_map(|known| &known.idle).map(|idle| idle.since_us)
    }

    /// Closes up to `left` connections that have been idle since `oldest_us` or longer, and subtracts their number.
    pub(crate) fn close_since(&mut self, oldest_us: u64, left: &mut usize) {
        for known in &mut self.known {
            known.idle.retain(|idle| {
                let closes = *left > 0 && idle.since_us <= oldest_us;
                *left -= usize::from(closes);
                !closes
            });
        }
    }

    /// Closes connections that were idle for too long, or are too old.
    pub(crate) fn sweep(&mut self, now_us: u64) {
        for known in &mut self.known {
            known.idle.retain(|idle| {
                !is_older(idle.since_us, IDLE_UPSTREAM_MS_MAX, now_us)
                    && !is_older(idle.opened_us, UPSTREAM_AGE_MS_MAX, now_us)
            });
        }
    }
}

fn is_older(since_us: u64, ms: u32, now_us: u64) -> bool {
    now_us.saturating_sub(since_us) > u64::from(ms) * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    fn numbered(ips: &[u8]) -> Addresses<u32> {
        let mut addresses = Addresses::new(0);
        addresses.set(&ips.iter().map(|number| ip(*number)).collect::<Vec<_>>());
        addresses
    }

    fn open(_: &mut u32) -> bool {
        true
    }

    /// The last bytes of the addresses to connect to.
    fn order(addresses: &mut Addresses<u32>, now_us: u64) -> Vec<u8> {
        let order = addresses.take(true, now_us, open).unwrap_err();
        order.iter().map(|ip| ip.to_string().rsplit_once('.').unwrap().1.parse().unwrap()).collect()
    }

    #[test]
    fn addresses_are_used_in_turn_and_the_others_after_the_first() {
        let mut addresses = numbered(&[1, 2, 3]);
        let orders = [(); 4].map(|()| order(&mut addresses, 0));
        assert_eq!(orders, [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]]);
        assert!(order(&mut numbered(&[]), 0).is_empty());
    }

    #[test]
    fn idle_connections_are_used_in_the_turn_of_their_addresses() {
        let mut addresses = numbered(&[1, 2]);
        for (connection, number) in [(10, 1), (11, 1), (20, 2)] {
            addresses.release((connection, ip(number), 0), 9, 0);
        }
        let mut taken = || addresses.take(true, 0, open).map(|(connection, _, _)| connection);
        assert_eq!([taken(), taken(), taken()], [Ok(11), Ok(20), Ok(10)]);
        assert_eq!(taken(), Err(vec![ip(2), ip(1)]));
        let mut addresses = numbered(&[1]);
        addresses.release((10, ip(1), 0), 9, 0);
        assert_eq!(addresses.take(false, 0, open), Err(vec![ip(1)]), "a retry uses a new one");
    }

    #[test]
    fn closed_connections_are_passed_over() {
        let mut addresses = numbered(&[1]);
        for connection in [10, 11, 12] {
            addresses.release((connection, ip(1), 5), 9, 5);
        }
        assert_eq!(addresses.take(true, 5, |found| *found == 10), Ok((10, ip(1), 5)));
        assert_eq!(addresses.idle(), 0);
    }

    #[test]
    fn an_address_that_failed_comes_last_for_a_while() {
        let mut addresses = numbered(&[1, 2, 3]);
        addresses.failed(ip(1), 0);
        assert_eq!(order(&mut addresses, 0), [2, 3, 1]);
        addresses.next = 0;
        assert_eq!(order(&mut addresses, 999_999), [2, 3, 1]);
        addresses.next = 0;
        assert_eq!(order(&mut addresses, 1_000_000), [1, 2, 3]);
        addresses.failed(ip(1), 1_000_000);
        addresses.next = 0;
        assert_eq!(order(&mut addresses, 2_999_999), [2, 3, 1], "twice as long");
        addresses.connected(ip(1));
        addresses.next = 0;
        assert_eq!(order(&mut addresses, 2_999_999), [1, 2, 3]);
    }

    #[test]
    fn connections_to_addresses_that_are_gone_are_closed() {
        let mut addresses = numbered(&[1, 2]);
        addresses.release((10, ip(1), 0), 9, 0);
        addresses.release((20, ip(2), 0), 9, 0);
        addresses.set(&[ip(2), ip(3)]);
        assert_eq!(addresses.idle(), 1);
        addresses.release((11, ip(1), 0), 9, 0);
        assert_eq!(addresses.idle(), 1, "it was in use when its address went away");
    }

    #[test]
    fn connections_have_a_greatest_age_and_idle_time() {
        let age_us = u64::from(UPSTREAM_AGE_MS_MAX) * 1_000;
        let mut addresses = numbered(&[1]);
        addresses.release((10, ip(1), 0), 9, age_us + 1);
        assert_eq!(addresses.idle(), 0, "too old");
        addresses.release((11, ip(1), 0), 9, age_us);
        addresses.release((12, ip(1), age_us), 9, age_us);
        addresses.sweep(age_us + 1);
        assert_eq!(addresses.idle(), 1, "one became too old");
        addresses.sweep(age_us + u64::from(IDLE_UPSTREAM_MS_MAX) * 1_000 + 1);
        assert_eq!(addresses.idle(), 0, "the other was idle for too long");
    }

    #[test]
    fn the_connections_that_are_idle_for_the_longest_time_are_closed() {
        let mut addresses = numbered(&[1, 2]);
        for (connection, number, since_us) in [(10, 1, 5), (20, 2, 6), (11, 1, 7), (21, 2, 6)] {
            addresses.release((connection, ip(number), 0), 9, since_us);
        }
        let mut left = 2;
        addresses.close_since(6, &mut left);
        let mut since_us: Vec<u64> = addresses.idle_since().collect();
        since_us.sort_unstable();
        assert_eq!((since_us, left), (vec![6, 7], 0));
    }

    #[test]
    fn idle_connections_are_limited() {
        let mut addresses = numbered(&[1, 2]);
        for (connection, number) in [(10, 1), (20, 2), (21, 2)] {
            addresses.release((connection, ip(number), 0), 2, 0);
        }
        assert_eq!(addresses.idle(), 2);
    }
}
