//! Clients that send or read a few bytes now and then, so that no wait for them ever ends.

use std::time::Instant;

use harness::frames::{
    DATA, END_HEADERS, END_STREAM, FrameClient, HEADERS, RST_STREAM, WINDOW_UPDATE, frame,
    header_block,
};
use harness::{CannedResponse, Files, PATIENCE};

use crate::target::{MIB, Target, responding};

/// Every trickle is slower.
const KEYS: &str = "stall_ms = 1500\nmin_rate = 1000000\n";

/// Reads at half of `min_rate`, but in bursts, so that the gateway can send again at once after each.
struct Bursts {
    bytes: u64,
    begun: Instant,
    taken: u64,
}

impl Bursts {
    fn of(bytes: u64) -> Self {
        Self { bytes, begun: Instant::now(), taken: 0 }
    }

    /// Whether the next one may be read.
    fn is_due(&mut self) -> bool {
        let may_be_taken = self.begun.elapsed().as_secs_f64() * 500_000.0;
        let is_due = (self.taken + self.bytes) as f64 <= may_be_taken;
        self.taken += if is_due { self.bytes } else { 0 };
        is_due
    }
}

/// Repeats `turn` until it returns true. Others are served meanwhile, so that a turn takes some time.
#[track_caller]
fn until(target: &mut Target, mut turn: impl FnMut(&Target) -> bool) {
    let begun = Instant::now();
    while !turn(target) {
        assert!(begun.elapsed() < PATIENCE, "the trickle goes on");
        target.serves_others();
    }
}

#[test]
fn a_chunked_upload_that_trickles_ends_with_408() {
    let mut target = Target::with(KEYS);
    let mut attacker = target.connect();
    attacker.send("POST /b/y HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\n");
    until(&mut target, |_| {
        attacker.try_send("1\r\nx\r\n");
        attacker.has_response()
    });
    assert_eq!(attacker.read().status, 408);
    target.serves_others_within(8 * MIB);
}

#[test]
fn an_http2_upload_of_unknown_length_that_trickles_ends_with_a_response() {
    let mut target = Target::with(KEYS);
    let mut attacker = FrameClient::connect(target.http);
    attacker.send(&frame(HEADERS, END_HEADERS, 1, &header_block("POST", "/b/y")));
    until(&mut target, |_| {
        attacker.try_send(&frame(DATA, 0, 1, b"x"));
        let mut frames = std::iter::from_fn(|| attacker.has_bytes().then(|| attacker.read()));
        frames.any(|frame| frame.is_none_or(|(kind, _)| kind == HEADERS))
    });
    target.serves_others_within(8 * MIB);
}

#[test]
fn an_upload_that_trickles_after_its_response_ends_with_its_connection() {
    let response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nin\r\n";
    let hostile = harness::Upstream::manual();
    let files = Files::new().gateway(KEYS);
    let files = files.api("c.yaml", &crate::target::description("/c", &hostile.url()));
    let mut target = Target::of(files, harness::Upstream::fixed("in"));
    let mut attacker = target.connect();
    attacker.send("POST /c/y HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    let mut connection = hostile.accept();
    connection.request_head();
    connection.send(response);
    assert_eq!(attacker.read_head().status, 200);
    until(&mut target, |target| {
        attacker.try_send("1\r\nx\r\n");
        target.metric("penstock_connections") == 1
    });
    target.serves_others_within(8 * MIB);
}

#[test]
fn a_response_that_is_read_at_a_trickle_ends_with_its_connection() {
    const LEN: usize = 32 << 20;
    let body = "x".repeat(LEN);
    let upstream = responding(move |_| CannedResponse::ok(&body));
    let mut target = Target::of(Files::new().gateway(KEYS), upstream);
    let mut attacker = target.connect();
    attacker.send("GET /a/y HTTP/1.1\r\nHost: me\r\n\r\n");
    assert_eq!(attacker.read_head().status, 200);
    let mut read = 0;
    until(&mut target, |target| {
        attacker.skip(10);
        read += 10;
        target.metric("penstock_connections") == 1
    });
    let rest = attacker.read_until_close().len();
    assert!(read + rest < LEN, "{read} + {rest} bytes");
    target.serves_others_within(16 * MIB);
}

#[test]
fn a_response_that_is_read_in_slow_bursts_ends_with_its_connection() {
    const LEN: usize = 32 << 20;
    let body = "x".repeat(LEN);
    let upstream = responding(move |_| CannedResponse::ok(&body));
    // A burst frees so much of a socket's buffer that the gateway writes again.
    let files = Files::new().gateway("stall_ms = 4000\nmin_rate = 1000000\n");
    let mut target = Target::of(files, upstream);
    let mut attacker = target.connect();
    attacker.send("GET /a/y HTTP/1.1\r\nHost: me\r\n\r\n");
    assert_eq!(attacker.read_head().status, 200);
    let mut bursts = Bursts::of(1_500_000);
    until(&mut target, |target| {
        if bursts.is_due() {
            attacker.skip(bursts.bytes);
        }
        target.metric("penstock_connections") == 1
    });
    let rest = attacker.read_until_close().len() as u64;
    assert!(bursts.taken + rest < LEN as u64, "{} + {rest} bytes", bursts.taken);
    target.serves_others_within(16 * MIB);
}

/// After each burst the gateway waits for its upstream for a moment.
#[test]
fn an_http2_response_whose_window_opens_in_slow_bursts_ends_with_its_stream() {
    const WINDOW: usize = 65_535;
    /// Bytes of the upstream's response that do not fit into the window.
    const LEFT: usize = 34_465;
    let hostile = harness::Upstream::manual();
    let files = Files::new().gateway(KEYS);
    let files = files.api("c.yaml", &crate::target::description("/c", &hostile.url()));
    let mut target = Target::of(files, harness::Upstream::fixed("in"));
    let mut attacker = FrameClient::connect(target.http);
    attacker.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &header_block("GET", "/c/y")));
    let mut connection = hostile.accept();
    connection.request_head();
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
    connection.send("x".repeat(WINDOW + LEFT));
    let mut is_cut = !takes(&mut attacker, WINDOW);
    let mut bursts = Bursts::of(WINDOW as u64);
    until(&mut target, |_| {
        if bursts.is_due() && !is_cut {
            for stream in [0, 1] {
                let window = u32::try_from(WINDOW).unwrap().to_be_bytes();
                attacker.send(&frame(WINDOW_UPDATE, 0, stream, &window));
            }
            is_cut = !takes(&mut attacker, LEFT);
            if !is_cut {
                connection.send("x".repeat(WINDOW));
                is_cut = !takes(&mut attacker, WINDOW - LEFT);
            }
        }
        is_cut
    });
    target.serves_others_within(8 * MIB);
}

/// Reads so many bytes of a response. False: its stream, or the connection, ends first.
fn takes(client: &mut FrameClient, mut bytes: usize) -> bool {
    while bytes > 0 {
        match client.read() {
            Some((DATA, payload)) => bytes -= payload.len(),
            Some((RST_STREAM, _)) | None => return false,
            Some(_) => {}
        }
    }
    true
}
