//! What clients cost in memory, and that it is given back.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use harness::{Client, Files, PATIENCE, Process};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

const MIB: u64 = 1024 * 1024;
const CONNECTIONS: usize = 9_000;
/// A client that has sent a part of a head costs its connection, and no buffer: half of the 26 KiB that it did.
const SLOW_HEAD_BYTES_MAX: u64 = 13 * 1024;

fn files() -> Files {
    let api = "openapi: 3.0.3\ninfo: {title: A, version: '1'}\nx-wso2-basePath: /a\n\
         servers: [{url: 'http://127.0.0.1:9'}]\nsecurity: []\n\
         paths:\n  /*:\n    get: {responses: {}}\n";
    Files::new().api("a.yaml", api)
}

/// Each connection takes a descriptor of this process, too.
fn raise_open_files() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    assert!(most > CONNECTIONS as u64 + 1_000, "the test needs {CONNECTIONS} descriptors");
}

#[test]
fn thousands_of_slow_heads_cost_little_and_leave_nothing_behind() {
    raise_open_files();
    let files = files();
    let process = Process::gateway(&files);
    let address = process.address("http");
    for _ in 0..10 {
        assert_eq!(Client::connect(address).fetch("GET /none", "").status, 404);
    }
    let before = process.memory_bytes("VmRSS");
    let mut clients: Vec<TcpStream> = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let mut tcp = TcpStream::connect(address).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.write_all(b"GET /none HTTP/1.1\r\nHost: me\r\nX-Slow: ").unwrap();
        clients.push(tcp);
    }
    // Accepted in order, so that this one is the last.
    assert_eq!(Client::connect(address).fetch("GET /none", "").status, 404);
    let growth = process.memory_bytes("VmRSS").saturating_sub(before);
    let each = growth / CONNECTIONS as u64;
    assert!(each <= SLOW_HEAD_BYTES_MAX, "{each} bytes for each slow head");
    for tcp in &mut clients {
        tcp.write_all(b"no\r\nConnection: close\r\n\r\n").unwrap();
    }
    for tcp in &mut clients {
        let mut response = Vec::new();
        tcp.read_to_end(&mut response).unwrap();
        assert!(response.starts_with(b"HTTP/1.1 404 "));
    }
    drop(clients);
    let (begun, most) = (Instant::now(), before + before / 2);
    loop {
        let now = process.memory_bytes("VmRSS");
        if now <= most {
            return;
        }
        let (now, before) = (now / MIB, before / MIB);
        assert!(begun.elapsed() < PATIENCE, "{now} MiB are left of a burst, {before} before it");
        std::thread::yield_now();
    }
}
