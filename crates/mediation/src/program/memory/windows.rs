//! The counts of a `throttle`.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::limits;

/// How many requests of a client are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) count: u64,
    /// From the client's first request on.
    pub(crate) unit_ms: i64,
    /// Once the count is used up, instead of the rest of the unit; 0: none.
    pub(crate) prohibit_ms: i64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    until_ms: i64,
    left: u64,
}

/// The windows of the clients of one `throttle`.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    by_client: HashMap<IpAddr, Window>,
    /// Window shared by the clients beyond the limit of separate ones.
    others: Option<Window>,
    /// No window of `by_client` ends before this time.
    first_end_ms: i64,
}

impl Windows {
    /// Counts a request; whether it is accepted.
    pub(crate) fn admit(&mut self, client: IpAddr, rate: Rate, now_ms: i64) -> bool {
        let client = network(client);
        let is_known = self.by_client.contains_key(&client);
        if !is_known && self.by_client.len() >= limits::THROTTLE_CLIENTS_MAX {
            self.purge(now_ms);
        }
        if !is_known && self.by_client.len() >= limits::THROTTLE_CLIENTS_MAX {
            return rate.admit(&mut self.others, now_ms);
        }
        let mut window = self.by_client.get(&client).copied();
        let is_accepted = rate.admit(&mut window, now_ms);
        if let Some(window) = window {
            self.first_end_ms = self.first_end_ms.min(window.until_ms);
            self.by_client.insert(client, window);
        }
        is_accepted
    }

    /// Removes the windows that are over, if any can be.
    fn purge(&mut self, now_ms: i64) {
        if now_ms < self.first_end_ms {
            return;
        }
        self.by_client.retain(|_, window| now_ms < window.until_ms);
        let ends = self.by_client.values().map(|window| window.until_ms);
        self.first_end_ms = ends.min().unwrap_or(i64::MAX);
    }
}

impl Rate {
    fn admit(self, window: &mut Option<Window>, now_ms: i64) -> bool {
        let new = Window { until_ms: now_ms.saturating_add(self.unit_ms), left: self.count };
        let window = match window {
            Some(window) if now_ms < window.until_ms => window,
            Some(_) | None => window.insert(new),
        };
        let is_accepted = window.left > 0;
        if window.left == 1 && self.prohibit_ms > 0 {
            window.until_ms = now_ms.saturating_add(self.prohibit_ms);
        }
        window.left = window.left.saturating_sub(1);
        is_accepted
    }
}

/// A client is an address of IPv4, or the /64 of one of IPv6: who has one of its addresses has all of them.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        client @ IpAddr::V4(_) => client,
    }
}

#[cfg(test)]
mod tests {
    use super::{Rate, Windows};
    use crate::limits;

    const CLIENT: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// Requests at `times_ms`, and whether they are accepted.
    #[track_caller]
    fn check(rate: Rate, times_ms: &[i64], expect: &str) {
        let mut windows = Windows::default();
        let admit = |&now_ms: &i64| if windows.admit(CLIENT, rate, now_ms) { "yes" } else { "no" };
        assert_eq!(times_ms.iter().map(admit).collect::<Vec<_>>().join(" "), expect);
    }

    #[test]
    fn a_window_begins_with_the_first_request() {
        let rate = Rate { count: 2, unit_ms: 1000, prohibit_ms: 0 };
        check(rate, &[500, 600, 700, 1499, 1500, 1501, 1502], "yes yes no no yes yes no");
    }

    #[test]
    fn a_prohibited_client_waits_for_the_whole_time() {
        let rate = Rate { count: 2, unit_ms: 1000, prohibit_ms: 5000 };
        check(rate, &[0, 10, 20, 1500, 5009, 5010], "yes yes no no no yes");
        check(rate, &[0, 1000, 2000], "yes yes yes");
    }

    #[test]
    fn clients_of_one_ipv6_network_are_one() {
        let (mut windows, rate) =
            (Windows::default(), Rate { count: 1, unit_ms: 1000, prohibit_ms: 0 });
        let admitted =
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "::ffff:10.0.0.1", "10.0.0.1"]
                .map(|client| windows.admit(client.parse().unwrap(), rate, 0));
        assert_eq!(admitted, [true, false, true, true, false]);
    }

    #[test]
    fn clients_beyond_the_limit_share_a_window() {
        let (mut windows, rate) =
            (Windows::default(), Rate { count: 1, unit_ms: 1000, prohibit_ms: 0 });
        let client =
            |number: usize| std::net::IpAddr::from(u32::try_from(number).unwrap().to_be_bytes());
        for number in 0..limits::THROTTLE_CLIENTS_MAX {
            assert!(windows.admit(client(number), rate, 0));
        }
        let beyond = |at| client(limits::THROTTLE_CLIENTS_MAX + at);
        assert!(windows.admit(beyond(0), rate, 1));
        assert!(!windows.admit(beyond(1), rate, 2));
        assert!(windows.admit(beyond(1), rate, 1002), "the windows of the others are over");
    }

    #[test]
    fn windows_are_purged_once_the_first_of_them_is_over() {
        let (mut windows, rate) =
            (Windows::default(), Rate { count: 1, unit_ms: 1000, prohibit_ms: 0 });
        assert!(windows.admit(CLIENT, rate, 0));
        let other = "10.0.0.1".parse().unwrap();
        assert!(windows.admit(other, rate, 500));
        windows.purge(999);
        assert_eq!((windows.by_client.len(), windows.first_end_ms), (2, 1000));
        windows.purge(1000);
        assert_eq!((windows.by_client.len(), windows.first_end_ms), (1, 1500));
        windows.purge(1500);
        assert_eq!((windows.by_client.len(), windows.first_end_ms), (0, i64::MAX));
    }
}
