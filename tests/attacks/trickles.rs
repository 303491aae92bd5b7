//! Clients that send or read a few bytes now and then, so that no wait for them ever ends.

use std::time::Instant;

use harness::frames::{DATA, END_HEADERS, FrameClient, HEADERS, frame, header_block};
use harness::{CannedResponse, Files, PATIENCE};

use crate::target::{MIB, Target, responding};

/// Every trickle is slower.
const KEYS: &str = "stall_ms = 1500\nmin_rate = 1000000\n";

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
