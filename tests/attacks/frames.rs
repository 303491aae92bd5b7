//! HTTP/2 frames that cost work and carry nothing, and streams that hold their input.

use harness::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, FLOW_CONTROL_ERROR,
    FrameClient, GOAWAY, HEADERS, PING, PRIORITY, REFUSED_STREAM, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, frame, header_block,
};
use harness::{CannedResponse, Files};

use crate::target::{MIB, Target, responding};

#[test]
fn a_flood_of_any_control_frame_ends_its_connection_and_no_other() {
    let mut target = Target::new();
    let floods = [
        ("PING", frame(PING, 0, 0, &[7; 8])),
        ("PING ACK that answers nothing", frame(PING, ACK, 0, &[7; 8])),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[])),
        ("SETTINGS ACK", frame(SETTINGS, ACK, 0, &[])),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes())),
        ("WINDOW_UPDATE of a stream", frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes())),
        ("PRIORITY", frame(PRIORITY, 0, 5, &[0, 0, 0, 0, 1])),
        ("unknown", frame(0xee, 0, 0, &[])),
    ];
    for (count, (name, flood)) in (1..).zip(floods) {
        let mut attacker = FrameClient::connect(target.http);
        attacker.send(&frame(HEADERS, END_HEADERS, 1, &header_block("POST", "/b/y")));
        // The gateway may close before everything is sent.
        attacker.try_send(&flood.repeat(5_000));
        assert_eq!(attacker.last_code(), Some(ENHANCE_YOUR_CALM), "{name}");
        target.wait_for_metric("penstock_http2_floods_total", count);
        target.serves_others_within(8 * MIB);
    }
}

#[test]
fn empty_data_frames_end_their_connection() {
    let mut target = Target::new();
    let mut attacker = FrameClient::connect(target.http);
    attacker.send(&frame(HEADERS, END_HEADERS, 1, &header_block("POST", "/b/y")));
    attacker.try_send(&frame(DATA, 0, 1, &[]).repeat(5_000));
    assert_eq!(attacker.last_code(), Some(ENHANCE_YOUR_CALM));
    target.serves_others_within(8 * MIB);
}

/// Ignored payload uses up the window that the stream had.
#[test]
fn payload_for_a_stream_that_the_gateway_has_reset_ends_its_connection() {
    let mut target = Target::new();
    let mut attacker = FrameClient::connect(target.http);
    attacker.send(&frame(HEADERS, END_HEADERS, 1, &header_block("POST", "/b/y")));
    // No increment is an error of the stream.
    attacker.send(&frame(WINDOW_UPDATE, 0, 1, &[0; 4]));
    attacker.read_until(|kind| kind == RST_STREAM);
    let sent = (0..10_000).take_while(|_| attacker.try_send(&frame(DATA, 0, 1, &[7; 16_384])));
    assert!(sent.count() < 10_000, "the gateway takes no more of it");
    assert_eq!(attacker.last_code(), Some(FLOW_CONTROL_ERROR));
    target.serves_others_within(8 * MIB);
}

#[test]
fn ends_of_a_stream_that_the_gateway_has_reset_are_a_flood() {
    let mut target = Target::new();
    let mut attacker = FrameClient::connect(target.http);
    attacker.send(&frame(HEADERS, END_HEADERS, 1, &header_block("POST", "/b/y")));
    attacker.send(&frame(WINDOW_UPDATE, 0, 1, &[0; 4]));
    attacker.read_until(|kind| kind == RST_STREAM);
    attacker.try_send(&frame(DATA, END_STREAM, 1, &[]).repeat(5_000));
    assert_eq!(attacker.last_code(), Some(ENHANCE_YOUR_CALM));
    target.serves_others_within(8 * MIB);
}

#[test]
fn floods_on_one_connection_after_another_stop_nothing() {
    let mut target = Target::new();
    for _ in 0..50 {
        let mut attacker = FrameClient::connect(target.http);
        attacker.try_send(&frame(PING, ACK, 0, &[7; 8]).repeat(5_000));
        assert_eq!(attacker.last_code(), Some(ENHANCE_YOUR_CALM));
    }
    target.serves_others_within(16 * MIB);
}

#[test]
fn streams_that_are_reset_at_once_end_their_connection() {
    let mut target = Target::new();
    let mut attacker = FrameClient::connect(target.http);
    let block = header_block("GET", "/b/y");
    let mut sent = 0_u32;
    while sent < 20_000 {
        let stream = 2 * sent + 1;
        let open = frame(HEADERS, END_HEADERS | END_STREAM, stream, &block);
        let reset = frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
        if !attacker.try_send(&[open, reset].concat()) {
            break;
        }
        sent += 1;
    }
    assert_eq!(attacker.last_code(), Some(ENHANCE_YOUR_CALM));
    target.serves_others_within(16 * MIB);
    let requests = target.silent.count("GET /y ");
    assert!(requests < 2_000, "{requests} of {sent} requests reached the upstream");
}

/// "Made you reset": the client sends a frame that the gateway must answer with a reset, and opens the next stream.
#[test]
fn streams_that_the_gateway_is_made_to_reset_end_their_connection() {
    let mut target = Target::new();
    let update = |increment: u32| (WINDOW_UPDATE, increment.to_be_bytes().to_vec());
    for (provocation, (kind, payload)) in [
        ("no increment", update(0)),
        ("a window that overflows", update(0x7fff_ffff)),
        ("DATA after the end", (DATA, vec![b'x'])),
        ("PRIORITY of four bytes", (PRIORITY, vec![0; 4])),
    ] {
        let before = target.silent.count("GET /y ");
        let mut attacker = FrameClient::connect(target.http);
        let block = header_block("GET", "/b/y");
        let mut sent = 0_u32;
        while sent < 20_000 {
            let stream = 2 * sent + 1;
            let open = frame(HEADERS, END_HEADERS | END_STREAM, stream, &block);
            if !attacker.try_send(&[open, frame(kind, 0, stream, &payload)].concat()) {
                break;
            }
            sent += 1;
        }
        assert_eq!(attacker.last_code(), Some(ENHANCE_YOUR_CALM), "{provocation}");
        target.serves_others_within(16 * MIB);
        let requests = target.silent.count("GET /y ") - before;
        assert!(requests < 2_000, "{provocation}: {requests} of {sent} reached the upstream");
    }
}

#[test]
fn a_header_block_without_end_ends_its_connection() {
    let mut target = Target::new();
    for fragment in [&[][..], &[0; 1_000], &[0x40; 16_000]] {
        let mut attacker = FrameClient::connect(target.http);
        attacker.send(&frame(HEADERS, END_STREAM, 1, &header_block("GET", "/b/y")));
        for _ in 0..20_000 {
            if !attacker.try_send(&frame(CONTINUATION, 0, 1, fragment)) {
                break;
            }
        }
        assert_eq!(attacker.last_code(), Some(ENHANCE_YOUR_CALM));
        target.serves_others_within(16 * MIB);
    }
}

#[test]
fn streams_with_closed_windows_hold_little() {
    let body = "x".repeat(1_000_000);
    let upstream = responding(move |_| CannedResponse::ok(&body));
    let mut target = Target::of(Files::new(), upstream);
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let mut attackers = Vec::new();
    for _ in 0..4 {
        let mut attacker = FrameClient::with_settings(target.http, &[(INITIAL_WINDOW_SIZE, 0)]);
        for stream in 0..100 {
            let block = header_block("GET", "/a/y");
            attacker.send(&frame(HEADERS, END_HEADERS | END_STREAM, 2 * stream + 1, &block));
        }
        attackers.push(attacker);
    }
    // All of them get their response heads.
    for attacker in &mut attackers {
        let mut heads = 0;
        while heads < 100 {
            let (kind, _) = attacker.read().expect("the connection stays open");
            assert!(kind != GOAWAY && kind != DATA, "frame {kind}");
            heads += usize::from(kind == HEADERS);
        }
    }
    target.serves_others_within(64 * MIB);
}

/// The limit of a worker on the streams of one client is the larger of the two.
#[test]
fn streams_of_one_client_are_limited_over_all_its_connections() {
    const LIMIT: u64 = 200;
    let limits = format!("client_connections_max = {LIMIT}\nclient_requests_max = 100\n");
    let mut target = Target::with(&limits);
    let mut attackers = Vec::new();
    for _ in 0..20 {
        let mut attacker = FrameClient::connect(target.http);
        for stream in 0..100 {
            let block = header_block("POST", "/b/y");
            attacker.send(&frame(HEADERS, END_HEADERS, 2 * stream + 1, &block));
        }
        attackers.push(attacker);
    }
    target.wait_for_metric("penstock_http2_refused_streams_total", 2_000 - LIMIT);
    target.serves_others_within(16 * MIB);
    let mut last = attackers.pop().unwrap();
    let (_, refused) = last.read_until(|kind| kind == RST_STREAM);
    assert_eq!(refused, REFUSED_STREAM.to_be_bytes());
    drop(attackers);
    // The other client's, and this one: the streams of the others are gone.
    target.wait_for_metric("penstock_connections", 2);
    let block = header_block("GET", "/a/x");
    last.send(&frame(HEADERS, END_HEADERS | END_STREAM, 201, &block));
    last.read_until(|kind| kind == HEADERS);
}

#[test]
fn uploads_whose_bodies_never_come_leave_connections_for_others() {
    let mut target = Target::new();
    let mut attackers = Vec::new();
    for _ in 0..80 {
        let mut attacker = FrameClient::connect(target.http);
        for stream in 0..128 {
            let block = header_block("POST", "/b/y");
            attacker.send(&frame(HEADERS, END_HEADERS, 2 * stream + 1, &block));
        }
        attackers.push(attacker);
    }
    for _ in 0..20 {
        target.serves_others();
    }
    target.serves_others_within(48 * MIB);
}
