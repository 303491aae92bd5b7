//! A name server whose answers the test sets.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// A name server on its own UDP port.
#[derive(Debug)]
pub struct NameServer {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    serving: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Zone {
    names: HashMap<String, Vec<Ipv4Addr>>,
    ttl_s: u32,
    queries: usize,
    ending: bool,
}

impl NameServer {
    /// A server that knows no name yet. Answers are valid for `ttl_s` seconds.
    #[must_use]
    pub fn start(ttl_s: u32) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let zone = Arc::new(Mutex::new(Zone { ttl_s, ..Zone::default() }));
        let served = Arc::clone(&zone);
        let serving = thread::spawn(move || {
            let mut query = [0; 512];
            while let Ok((count, from)) = socket.recv_from(&mut query) {
                let mut zone = served.lock().unwrap();
                if zone.ending {
                    return;
                }
                zone.queries += 1;
                let _ = socket.send_to(&zone.answer(&query[..count]), from);
            }
        });
        Self { address, zone, serving: Some(serving) }
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the addresses of a name; none: it does not exist.
    pub fn set(&self, name: &str, addresses: &[[u8; 4]]) {
        let addresses = addresses.iter().map(|&address| Ipv4Addr::from(address)).collect();
        self.zone.lock().unwrap().names.insert(name.to_owned(), addresses);
    }

    /// Queries received so far.
    #[must_use]
    pub fn queries(&self) -> usize {
        self.zone.lock().unwrap().queries
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.zone.lock().unwrap().ending = true;
        let waker = UdpSocket::bind((IpAddr::from([127, 0, 0, 1]), 0)).unwrap();
        let _ = waker.send_to(&[0], self.address);
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

impl Zone {
    /// The response to one question (RFC 1035 section 4.1). Only A records exist.
    fn answer(&self, query: &[u8]) -> Vec<u8> {
        const HEADER: usize = 12;
        const A: u16 = 1;
        let (mut labels, mut at) = (Vec::new(), HEADER);
        while query[at] > 0 {
            let end = at + 1 + usize::from(query[at]);
            labels.push(String::from_utf8_lossy(&query[at + 1..end]).to_lowercase());
            at = end;
        }
        let question = &query[HEADER..at + 5];
        let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
        let known = self.names.get(&labels.join("."));
        let addresses = known.filter(|_| kind == A).map(Vec::as_slice).unwrap_or_default();
        // No error, or NXDOMAIN.
        let code = if known.is_some_and(|known| !known.is_empty()) { 0 } else { 3 };
        let mut out = query[..2].to_vec();
        out.extend([0x81, 0x80 | code, 0, 1]);
        out.extend(u16::try_from(addresses.len()).unwrap().to_be_bytes());
        out.extend([0; 4]);
        out.extend(question);
        for address in addresses {
            // A pointer to the name in the question; type A, class IN.
            out.extend([0xc0, 12, 0, 1, 0, 1]);
            out.extend(self.ttl_s.to_be_bytes());
            out.extend([0, 4]);
            out.extend(address.octets());
        }
        out
    }
}
