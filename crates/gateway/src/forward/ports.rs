//! Local ports of the connections to upstreams, and the addresses that these connections come from.
//!
//! A connection takes one port of its source address towards its destination. When more than half of the range are
//! taken, `connect(2)` searches for milliseconds, during which its thread serves no requests. The open connections to
//! one destination therefore take at most `LOCAL_PORTS_PERCENT_MAX` of the range from each source address.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::limits::{LOCAL_PORTS_PERCENT_MAX, LOCAL_PORTS_PERCENT_WARNED};

/// The local ports in use. Shared by all workers; locked when a connection is opened or closed.
#[derive(Clone, Debug)]
pub(crate) struct LocalPorts(Arc<Mutex<State>>);

/// The port of one connection, until dropped.
#[derive(Debug)]
pub(crate) struct LocalPort {
    all: LocalPorts,
    route: Route,
}

/// Source address, `None` if the kernel chooses it, and destination.
type Route = (Option<IpAddr>, SocketAddr);

/// The use of local ports, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortFigures {
    /// Ports that the connections from one source address to one destination may take.
    pub(crate) most: u64,
    /// The largest number that such connections take.
    pub(crate) used: u64,
}

#[derive(Debug)]
struct State {
    /// Ports in the kernel's range.
    range: usize,
    sources: Vec<IpAddr>,
    used: HashMap<Route, Used>,
}

#[derive(Debug, Default)]
struct Used {
    ports: usize,
    is_warned: bool,
}

/// The usual range of the kernel, until [`LocalPorts::set_range`]. Source: ip(7).
const RANGE_DEFAULT: usize = 60_999 - 32_768 + 1;

impl Default for LocalPorts {
    fn default() -> Self {
        Self::new(RANGE_DEFAULT)
    }
}

/// Checks that connections can come from each of `sources`.
///
/// # Errors
/// The first address that this machine does not have, and the kernel's error.
pub(crate) fn check_sources(sources: &[IpAddr]) -> Result<(), (IpAddr, io::Error)> {
    sources.iter().try_for_each(|source| {
        TcpListener::bind((*source, 0)).map(drop).map_err(|error| (*source, error))
    })
}

impl LocalPorts {
    fn new(range: usize) -> Self {
        let state = State { range, sources: Vec::new(), used: HashMap::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of ports that the kernel gives to connections.
    pub(crate) fn set_range(&self, ports: usize) {
        self.lock().range = ports;
    }

    /// New connections come from these addresses; without any, from the one that the kernel chooses.
    pub(crate) fn set_sources(&self, sources: &[IpAddr]) {
        self.lock().sources = sources.to_vec();
    }

    /// Takes a port for a connection to `to`.
    ///
    /// # Errors
    /// `AddrNotAvailable` if the connections to it take too many.
    pub(crate) fn take(&self, to: SocketAddr) -> io::Result<LocalPort> {
        let mut state = self.lock();
        let (most, warned_at) = (state.most(), state.share(LOCAL_PORTS_PERCENT_WARNED));
        let route = (state.source(to), to);
        let used = state.used.entry(route).or_default();
        if used.ports >= most {
            let problem = format!(
                "{most} open connections to {to} take {LOCAL_PORTS_PERCENT_MAX} % of the local ports; \
                 add `source_addresses` to [gateway]"
            );
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, problem));
        }
        used.ports += 1;
        if used.ports >= warned_at && !std::mem::replace(&mut used.is_warned, true) {
            let (ports, destination) = (used.ports, to);
            tracing::warn!(
                ports,
                most,
                %destination,
                "local ports to one destination run short; add `source_addresses` to [gateway]"
            );
        }
        drop(state);
        Ok(LocalPort { all: self.clone(), route })
    }

    pub(crate) fn figures(&self) -> PortFigures {
        let state = self.lock();
        let used = state.used.values().map(|used| used.ports).max().unwrap_or(0);
        PortFigures { most: state.most() as u64, used: used as u64 }
    }
}

impl State {
    fn share(&self, percent: usize) -> usize {
        (self.range.saturating_mul(percent) / 100).max(1)
    }

    fn most(&self) -> usize {
        self.share(LOCAL_PORTS_PERCENT_MAX)
    }

    /// The source address of the next connection to `to`: the destination's own if it is one of them, or else the one
    /// with the fewest connections there. Loopback addresses reach each other only.
    fn source(&self, to: SocketAddr) -> Option<IpAddr> {
        let ip = to.ip();
        let reaches = |source: &&IpAddr| {
            source.is_ipv4() == ip.is_ipv4() && source.is_loopback() == ip.is_loopback()
        };
        let used =
            |source: &&IpAddr| self.used.get(&(Some(**source), to)).map_or(0, |used| used.ports);
        let own = self.sources.iter().find(|source| **source == ip);
        own.or_else(|| self.sources.iter().filter(reaches).min_by_key(used)).copied()
    }
}

impl LocalPort {
    /// The address that the connection comes from; `None`: the kernel chooses it.
    pub(crate) fn source(&self) -> Option<IpAddr> {
        self.route.0
    }
}

impl Drop for LocalPort {
    fn drop(&mut self) {
        let mut state = self.all.lock();
        let calm_at = state.share(LOCAL_PORTS_PERCENT_WARNED) / 2;
        let Some(used) = state.used.get_mut(&self.route) else { return };
        used.ports = used.ports.saturating_sub(1);
        used.is_warned &= used.ports > calm_at;
        if used.ports == 0 {
            state.used.remove(&self.route);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn connections_to_one_destination_take_half_of_the_range() {
        let ports = LocalPorts::new(4);
        let (one, other) = (to("192.0.2.1:80"), to("192.0.2.1:81"));
        let held = [ports.take(one).unwrap(), ports.take(one).unwrap()];
        let full = ports.take(one).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::AddrNotAvailable);
        assert_eq!(ports.figures(), PortFigures { most: 2, used: 2 });
        assert!(ports.take(other).is_ok(), "another destination has ports of its own");
        drop(held);
        assert_eq!(ports.figures().used, 0);
        assert!(ports.take(one).is_ok() && ports.lock().used.is_empty());
    }

    #[test]
    fn each_source_address_has_ports_of_its_own_and_the_least_used_is_next() {
        let ports = LocalPorts::new(4);
        ports.set_sources(&ips(&["10.0.0.1", "10.0.0.2", "fd00::1"]));
        let there = to("192.0.2.1:80");
        let mut held: Vec<_> = (0..4).map(|_| ports.take(there).unwrap()).collect();
        let from: Vec<_> = held.iter().filter_map(LocalPort::source).collect();
        assert_eq!(from, ips(&["10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.2"]));
        assert!(ports.take(there).is_err());
        held.remove(1);
        assert_eq!(ports.take(there).unwrap().source(), Some(ips(&["10.0.0.2"])[0]));
    }

    #[test]
    fn a_source_address_reaches_its_family_and_loopback_only_loopback() {
        let ports = LocalPorts::new(100);
        ports.set_sources(&ips(&["10.0.0.1", "10.0.0.2", "127.0.0.9"]));
        for (there, expect) in [
            ("192.0.2.1:80", Some("10.0.0.1")),
            ("10.0.0.2:80", Some("10.0.0.2")),
            ("127.0.0.1:80", Some("127.0.0.9")),
            ("[fd00::2]:80", None),
            ("[::1]:80", None),
        ] {
            let source = ports.take(to(there)).unwrap().source();
            assert_eq!(source, expect.map(|ip| ip.parse().unwrap()), "{there}");
        }
    }

    #[test]
    fn an_address_of_another_machine_is_no_source() {
        assert!(check_sources(&ips(&["127.0.0.9", "127.0.0.1"])).is_ok());
        let (source, error) = check_sources(&ips(&["127.0.0.1", "192.0.2.1"])).unwrap_err();
        assert_eq!(
            (source.to_string().as_str(), error.kind()),
            ("192.0.2.1", io::ErrorKind::AddrNotAvailable)
        );
    }

    #[test]
    fn a_warning_is_repeated_only_after_the_ports_were_released() {
        let ports = LocalPorts::new(10);
        let there = to("192.0.2.1:80");
        let is_warned = || ports.lock().used.get(&(None, there)).is_some_and(|used| used.is_warned);
        let mut held: Vec<_> = (0..3).map(|_| ports.take(there).unwrap()).collect();
        assert!(!is_warned());
        held.push(ports.take(there).unwrap());
        assert!(is_warned());
        held.pop();
        assert!(is_warned(), "not again at once");
        held.truncate(2);
        assert!(!is_warned());
    }
}
