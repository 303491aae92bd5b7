//! Ports for the programs of a run, and ephemeral ports in use by outgoing connections, including those in TIME_WAIT.
//! Source: proc(5).
//!
//! The kernel reuses a port for a different destination, so ports run out per destination. On loopback, both
//! ends of a connection are listed; only the connecting end uses an ephemeral port.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;

use crate::random::below;

/// The connection table is read again when the number of sockets has grown by this factor (in eighths), or
/// after this many calls.
const GROWTH_EIGHTHS: u64 = 9;
const COUNT_EVERY: u32 = 16;

/// The lowest port that is chosen for a program; most registered ports are below.
const LOWEST: u16 = 10_000;
/// Ports that are tried before an ephemeral one is taken.
const TRIES: usize = 100;
/// With fewer ports to choose from, an ephemeral one is taken at once.
const CHOICE_MIN: u16 = 1_000;

/// An unused port of 127.0.0.1, and its listener, which keeps it until it is dropped. If possible, the port is not an
/// ephemeral one: the kernel could give that to another connection before the program it is meant for listens.
///
/// # Errors
/// No port is free.
pub fn free_port() -> Result<(u16, TcpListener), String> {
    let bind = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let count = available().start().saturating_sub(LOWEST);
    let other = || {
        let offset = below(RandomState::new().hash_one(count), u128::from(count));
        bind(LOWEST.saturating_add(u16::try_from(offset).unwrap_or(0))).ok()
    };
    let tries = if count < CHOICE_MIN { 0 } else { TRIES };
    (0..tries)
        .find_map(|_| other())
        .map_or_else(|| bind(0), Ok)
        .and_then(|listener| Ok((listener.local_addr()?.port(), listener)))
        .map_err(|error| format!("no free port: {error}"))
}

/// Counts ports, reading the connection table only occasionally.
#[derive(Debug, Default)]
pub(crate) struct PortCounter {
    sockets: u64,
    countdown: u32,
    most: u64,
}

impl PortCounter {
    /// Ports in use towards the destination with the most, as of the last count.
    pub(crate) fn count(&mut self) -> u64 {
        let sockets = sockets();
        if self.countdown == 0 || sockets * 8 > self.sockets * GROWTH_EIGHTHS {
            (self.sockets, self.countdown) = (sockets, COUNT_EVERY);
            self.most = in_use(&available());
        }
        self.countdown -= 1;
        self.most
    }
}

/// The ephemeral port range.
pub(crate) fn available() -> RangeInclusive<u16> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = text.split_ascii_whitespace().filter_map(|word| word.parse::<u16>().ok());
    let ends = ends.next().zip(ends.next());
    // An empty range if unknown.
    ends.map_or(RangeInclusive::new(1, 0), |(first, last)| first..=last)
}

fn in_use(available: &RangeInclusive<u16>) -> u64 {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|t| File::open(t).ok());
    tables.map(|table| most(BufReader::new(table), available)).max().unwrap_or(0)
}

/// The largest number of ports towards one destination in a kernel table.
fn most(table: impl BufRead, available: &RangeInclusive<u16>) -> u64 {
    let mut towards: HashMap<(u128, u128, u16), u64> = HashMap::new();
    for line in table.lines().map_while(Result::ok) {
        let mut words = line.split_ascii_whitespace().skip(1);
        let ends = words.next().and_then(end).zip(words.next().and_then(end));
        if let Some(((from, port), (to, to_port))) = ends
            && to_port != 0
            && available.contains(&port)
        {
            *towards.entry((from, to, to_port)).or_default() += 1;
        }
    }
    towards.into_values().max().unwrap_or(0)
}

/// Parses `0100007F:1F90`: address and port. The header line has none.
fn end(text: &str) -> Option<(u128, u16)> {
    let (address, port) = text.split_once(':')?;
    Some((u128::from_str_radix(address, 16).ok()?, u16::from_str_radix(port, 16).ok()?))
}

/// The number of TCP sockets.
fn sockets() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:")).unwrap_or_default();
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let of = |name: &str| {
        let pair = words.chunks_exact(2).find(|pair| pair.first() == Some(&name));
        pair.and_then(|pair| pair.get(1)?.parse::<u64>().ok()).unwrap_or(0)
    };
    of("inuse") + of("tw")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn the_port_of_a_program_is_no_ephemeral_one() {
        let (port, listener) = free_port().unwrap();
        assert_eq!(listener.local_addr().unwrap().port(), port);
        let ephemeral = available();
        let has_choice = *ephemeral.start() >= LOWEST + CHOICE_MIN;
        assert_eq!(!ephemeral.contains(&port), has_choice, "{port} of {ephemeral:?}");
    }

    #[test]
    fn ports_are_counted_per_destination() {
        const TABLE: &str = "  sl  local_address rem_address   st\n\
            0: 0100007F:9C40 00000000:0000 0A 00000000:00000000\n\
            1: 0100007F:9C41 0100007F:9C40 01 00000000:00000000\n\
            2: 0100007F:9C42 0100007F:9C40 06 00000000:00000000\n\
            3: 0100007F:9C40 0100007F:9C41 01 00000000:00000000\n\
            4: 0100007F:9C41 0200007F:9C40 01 00000000:00000000\n\
            5: 0100007F:0050 0100007F:9C44 01 00000000:00000000\n";
        assert_eq!(most(TABLE.as_bytes(), &(0x9C40..=0x9CFF)), 2);
        assert_eq!(most(TABLE.as_bytes(), &(0x9C42..=0x9CFF)), 1);
        assert_eq!(most(&b""[..], &(1..=9)), 0);
    }

    #[test]
    fn loopback_connections_count_once() {
        const CONNECTIONS: usize = 40;
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let ends: Vec<_> = (0..CONNECTIONS)
            .map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap()))
            .collect();
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        // Other tests may open connections, but not to this listener.
        let port = format!(":{:04X} ", address.port());
        let ours: Vec<&str> = table.lines().filter(|line| line.contains(&port)).collect();
        assert_eq!(ours.len(), 2 * CONNECTIONS + 1);
        assert_eq!(most(ours.join("\n").as_bytes(), &available()), CONNECTIONS as u64);
        assert!(PortCounter::default().count() >= CONNECTIONS as u64);
        drop(ends);
    }
}
