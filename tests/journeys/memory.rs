//! Memory that clients cost, and its release.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use base::limits::H2_STREAMS_MAX;
use harness::frames::{
    DATA, END_HEADERS, END_STREAM, FrameClient, HEADERS, SETTINGS, WINDOW_UPDATE, frame,
    header_block,
};
use harness::{Client, Files, PATIENCE, Process, Upstream, UpstreamConnection};
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
    wait_for_memory(&process, before + before / 2);
}

/// Waits until no more than `most` bytes are in use.
#[track_caller]
fn wait_for_memory(process: &Process, most: u64) {
    let address = process.address("http");
    let begun = Instant::now();
    loop {
        let now = process.memory_bytes("VmRSS");
        if now <= most {
            return;
        }
        let (now, most) = (now / MIB, most / MIB);
        assert!(begun.elapsed() < PATIENCE, "{now} MiB are left of a burst, not {most}");
        // The allocator returns memory to the system when it is used.
        assert_eq!(Client::connect(address).fetch("GET /none", "").status, 404);
    }
}

const ENDPOINTS: usize = 3;
/// All streams together are fewer than half of those that 20,000 open files allow: one client may have no more.
const CONNECTIONS_TO_EACH: usize = 10;
const STREAMS: usize = ENDPOINTS * CONNECTIONS_TO_EACH * H2_STREAMS_MAX as usize;
/// 10,000 streams may cost 64 MiB.
const STREAM_BYTES_MAX: u64 = 64 * MIB / 10_000;
const BODY: usize = 1_000;

/// A connection of streams whose windows are closed, with the upstream's side of each.
struct Stuck {
    client: FrameClient,
    upstreams: Vec<UpstreamConnection>,
}

impl Stuck {
    fn new(address: SocketAddr, path: &str, upstream: &Upstream) -> Self {
        const INITIAL_WINDOW_SIZE: u16 = 4;
        let mut client = FrameClient::with_settings(address, &[(INITIAL_WINDOW_SIZE, 0)]);
        for stream in (1..).step_by(2).take(H2_STREAMS_MAX as usize) {
            let block = header_block("GET", path);
            client.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
        }
        let mut upstreams: Vec<_> = (0..H2_STREAMS_MAX).map(|_| upstream.accept()).collect();
        for connection in &mut upstreams {
            connection.request();
            connection.ok(&"x".repeat(BODY));
        }
        let mut heads = 0;
        while heads < H2_STREAMS_MAX {
            let (kind, _) = client.read().expect("a response's head");
            assert_ne!(kind, DATA);
            heads += u32::from(kind == HEADERS);
        }
        Self { client, upstreams }
    }

    fn open_windows(mut self) {
        let settings = [&[0, 4][..], &65_535_u32.to_be_bytes()].concat();
        self.client.send(&frame(SETTINGS, 0, 0, &settings));
        self.client.send(&frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 20).to_be_bytes()));
        let mut received = 0;
        while received < H2_STREAMS_MAX as usize * BODY {
            let (kind, payload) = self.client.read().expect("the rest of the responses");
            received += if kind == DATA { payload.len() } else { 0 };
        }
        drop(self.upstreams);
    }
}

#[test]
fn thousands_of_streams_without_a_window_cost_little_and_leave_nothing_behind() {
    raise_open_files();
    let upstreams: Vec<_> = (0..ENDPOINTS).map(|_| Upstream::manual()).collect();
    let mut files = Files::new().gateway("client_requests_max = 16384");
    for (number, upstream) in upstreams.iter().enumerate() {
        let api = format!(
            "openapi: 3.0.3\ninfo: {{title: A{number}, version: '1'}}\nx-wso2-basePath: /{number}\n\
             servers: [{{url: '{}'}}]\nsecurity: []\npaths:\n  /*:\n    get: {{responses: {{}}}}\n",
            upstream.url()
        );
        files = files.api(&format!("{number}.yaml"), &api);
    }
    let process = Process::gateway(&files);
    let address = process.address("http");
    for (number, upstream) in upstreams.iter().enumerate() {
        Stuck::new(address, &format!("/{number}/x"), upstream).open_windows();
    }
    let before = process.memory_bytes("VmRSS");
    let mut stuck = Vec::new();
    for (number, upstream) in upstreams.iter().enumerate() {
        let path = format!("/{number}/x");
        stuck.extend((0..CONNECTIONS_TO_EACH).map(|_| Stuck::new(address, &path, upstream)));
    }
    let growth = process.memory_bytes("VmRSS").saturating_sub(before);
    let each = growth / STREAMS as u64;
    assert!(each <= STREAM_BYTES_MAX, "{each} bytes for each stream");
    stuck.into_iter().for_each(Stuck::open_windows);
    wait_for_memory(&process, before + before / 2);
}
