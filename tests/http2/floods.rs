//! Frames that cost work and carry nothing.

use std::io::Write;

use harness::{CannedResponse, Gateway, Upstream, api};

use crate::raw::{GOAWAY, PING, connect, frame, last_code, read};

const ENHANCE_YOUR_CALM: u32 = 11;

#[test]
fn a_flood_of_any_control_frame_ends_its_connection_and_no_other() {
    let upstream = Upstream::fixed("in");
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let floods = [
        ("PING", frame(PING, 0, 0, &[7; 8])),
        ("PING ACK that answers nothing", frame(PING, 1, 0, &[7; 8])),
        ("SETTINGS", frame(4, 0, 0, &[])),
        ("WINDOW_UPDATE", frame(8, 0, 0, &1_u32.to_be_bytes())),
        ("PRIORITY", frame(2, 0, 5, &[0, 0, 0, 0, 1])),
        ("unknown", frame(0xee, 0, 0, &[])),
    ];
    for (count, (name, flood)) in (1..).zip(floods) {
        let mut tcp = connect(&gateway);
        // The gateway may close before everything is sent.
        let _ = tcp.write_all(&flood.repeat(5_000));
        assert_eq!(last_code(&mut tcp), Some(ENHANCE_YOUR_CALM), "{name}");
        gateway.wait_for_metric("penstock_http2_floods_total", "", count);
        assert_eq!(gateway.fetch("GET /a/x", "").text(), "in");
    }
}

#[test]
fn control_frames_that_payload_earns_are_no_flood() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut tcp = connect(&gateway);
    let mut block = vec![0x83, 0x86, 0x44, 4];
    block.extend_from_slice(b"/a/x");
    block.extend_from_slice(&[0x41, 2]);
    block.extend_from_slice(b"me");
    tcp.write_all(&frame(1, 4, 1, &block)).unwrap();
    // As gRPC clients do: a ping for each message, here 3,000 of them, each answered before the next.
    for round in 0..3_000_u32 {
        let message = [frame(0, 0, 1, b"m"), frame(PING, 0, 0, &u64::from(round).to_be_bytes())];
        tcp.write_all(&message.concat()).unwrap();
        loop {
            let (kind, _) = read(&mut tcp).expect("the connection stays open");
            assert_ne!(kind, GOAWAY);
            if kind == PING {
                break;
            }
        }
    }
    tcp.write_all(&frame(0, 1, 1, &[])).unwrap();
    let mut echoed = 0;
    while echoed < 3_000 {
        let (kind, payload) = read(&mut tcp).expect("the response");
        echoed += if kind == 0 { payload.len() } else { 0 };
    }
}

/// Padding hides the length of a message, and is no empty frame.
#[test]
fn padded_messages_are_no_flood() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut tcp = connect(&gateway);
    let block = [&[0x83, 0x86, 0x44, 4][..], b"/a/x", &[0x41, 2], b"me"].concat();
    tcp.write_all(&frame(1, 4, 1, &block)).unwrap();
    // A byte of payload, and two of padding.
    let message = frame(0, 8, 1, b"\x02m\0\0");
    for _ in 0..30 {
        tcp.write_all(&message.repeat(100)).unwrap();
    }
    tcp.write_all(&frame(0, 1, 1, &[])).unwrap();
    let mut echoed = 0;
    while echoed < 3_000 {
        let (kind, payload) = read(&mut tcp).expect("the response");
        assert_ne!(kind, GOAWAY);
        echoed += if kind == 0 { payload.len() } else { 0 };
    }
}

#[test]
fn a_client_that_updates_its_windows_for_every_4_kib_is_no_flood() {
    const BYTES: usize = 8 << 20;
    let upstream = Upstream::responding(|_| CannedResponse::ok(&"x".repeat(BYTES)));
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut tcp = connect(&gateway);
    let block = [&[0x82, 0x86, 0x44, 4][..], b"/a/x", &[0x41, 2], b"me"].concat();
    tcp.write_all(&frame(1, 5, 1, &block)).unwrap();
    let (mut received, mut updated) = (0, 0);
    while received < BYTES {
        let (kind, payload) = read(&mut tcp).expect("the connection stays open");
        assert_ne!(kind, GOAWAY);
        received += if kind == 0 { payload.len() } else { 0 };
        while received - updated >= 4_096 {
            updated += 4_096;
            let increment = 4_096_u32.to_be_bytes();
            let updates = [frame(8, 0, 0, &increment), frame(8, 0, 1, &increment)];
            tcp.write_all(&updates.concat()).unwrap();
        }
    }
}
