//! Shares of a worker held by each client: connections, requests in progress, uploads that have not begun.
//!
//! A client is an IPv4 address or a /64 of IPv6, as networks are assigned to single users. Trusted proxies have many
//! clients, and are not limited here. A client is known while it has a connection, so that the table has at most as
//! many entries as there are connections.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

use super::share::Share;

/// A worker's clients.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    by_network: Rc<RefCell<HashMap<u128, Rc<Client>>>>,
}

#[derive(Debug, Default)]
struct Client {
    connections: Cell<usize>,
    share: Share,
}

/// One connection of a client, in its count until dropped.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    network: u128,
    client: Rc<Client>,
    clients: Rc<RefCell<HashMap<u128, Rc<Client>>>>,
}

impl Clients {
    /// Counts a connection from `address`. `None`: its client has `connections_max` already.
    pub(crate) fn connect(
        &self,
        address: IpAddr,
        connections_max: usize,
    ) -> Option<ClientConnection> {
        let network = network(address);
        let mut by_network = self.by_network.borrow_mut();
        let client = by_network.entry(network).or_default();
        let connections = client.connections.get();
        if connections >= connections_max {
            return None;
        }
        client.connections.set(connections + 1);
        let (client, clients) = (Rc::clone(client), Rc::clone(&self.by_network));
        Some(ClientConnection { network, client, clients })
    }

    /// Bytes that a client holds.
    pub(crate) fn held(&self, network: u128) -> usize {
        let by_network = self.by_network.borrow();
        by_network.get(&network).map_or(0, |client| client.share.held.used())
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_network.borrow().len()
    }
}

impl ClientConnection {
    /// The client's share, over all its connections.
    pub(crate) fn share(&self) -> &Share {
        &self.client.share
    }

    /// The client's address, or the /64 of one of IPv6.
    pub(crate) fn network(&self) -> u128 {
        self.network
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        let left = self.client.connections.get().saturating_sub(1);
        self.client.connections.set(left);
        if left == 0 {
            self.clients.borrow_mut().remove(&self.network);
        }
    }
}

/// The address, or the /64 of one of IPv6.
pub(crate) fn network(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits() >> 64 << 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_a_64_of_ipv6() {
        for (one, other, same) in [
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
        ] {
            assert_eq!(network(address(one)) == network(address(other)), same, "{one} {other}");
        }
    }

    #[test]
    fn a_client_is_limited_apart_from_others_and_forgotten_with_its_last_connection() {
        let clients = Clients::default();
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        let kept = [clients.connect(one, 2), clients.connect(one, 2)];
        assert!(kept.iter().all(Option::is_some));
        assert!(clients.connect(one, 2).is_none(), "its limit is reached");
        assert!(clients.connect(other, 2).is_some(), "another client has its own");
        assert_eq!(clients.len(), 1, "the other one is gone");
        drop(kept);
        assert_eq!(clients.len(), 0);
    }
}
