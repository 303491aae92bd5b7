//! Clients that send many control frames for a reason. Floods without one are in tests/attacks/frames.rs.

use harness::frames::{
    DATA, END_HEADERS, END_STREAM, FrameClient, GOAWAY, HEADERS, PADDED, PING, WINDOW_UPDATE,
    frame, header_block,
};
use harness::{CannedResponse, Gateway, Upstream, api};

#[test]
fn control_frames_that_payload_earns_are_no_flood() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut client = FrameClient::connect(gateway.http());
    client.send(&frame(HEADERS, END_HEADERS, 1, &header_block("POST", "/a/x")));
    // As gRPC clients do: a ping for each message, here 3,000 of them, each answered before the next.
    for round in 0..3_000_u32 {
        let ping = frame(PING, 0, 0, &u64::from(round).to_be_bytes());
        client.send(&[frame(DATA, 0, 1, b"m"), ping].concat());
        loop {
            let (kind, _) = client.read().expect("the connection stays open");
            assert_ne!(kind, GOAWAY);
            if kind == PING {
                break;
            }
        }
    }
    client.send(&frame(DATA, END_STREAM, 1, &[]));
    let mut echoed = 0;
    while echoed < 3_000 {
        let (kind, payload) = client.read().expect("the response");
        echoed += if kind == DATA { payload.len() } else { 0 };
    }
}

/// Padding hides the length of a message, and is not an empty frame.
#[test]
fn padded_messages_are_no_flood() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut client = FrameClient::connect(gateway.http());
    client.send(&frame(HEADERS, END_HEADERS, 1, &header_block("POST", "/a/x")));
    // A byte of payload, and two of padding.
    let message = frame(DATA, PADDED, 1, b"\x02m\0\0");
    for _ in 0..30 {
        client.send(&message.repeat(100));
    }
    client.send(&frame(DATA, END_STREAM, 1, &[]));
    let mut echoed = 0;
    while echoed < 3_000 {
        let (kind, payload) = client.read().expect("the response");
        assert_ne!(kind, GOAWAY);
        echoed += if kind == DATA { payload.len() } else { 0 };
    }
}

#[test]
fn a_client_that_updates_its_windows_for_every_4_kib_is_no_flood() {
    const BYTES: usize = 8 << 20;
    let upstream = Upstream::responding(|_| CannedResponse::ok(&"x".repeat(BYTES)));
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = FrameClient::connect(gateway.http());
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &header_block("GET", "/a/x")));
    let (mut received, mut updated) = (0, 0);
    while received < BYTES {
        let (kind, payload) = client.read().expect("the connection stays open");
        assert_ne!(kind, GOAWAY);
        received += if kind == DATA { payload.len() } else { 0 };
        while received - updated >= 4_096 {
            updated += 4_096;
            let increment = 4_096_u32.to_be_bytes();
            let updates =
                [frame(WINDOW_UPDATE, 0, 0, &increment), frame(WINDOW_UPDATE, 0, 1, &increment)];
            client.send(&updates.concat());
        }
    }
}
