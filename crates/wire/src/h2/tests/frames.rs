//! Frames: errors of a stream, errors of the connection, and floods.

use base::limits;
use proptest::prelude::*;

use super::*;
use crate::h2::properties;

/// Receives `frames` on a connection on which stream 1 is open, 3 is complete but has no response, 5 was reset by its
/// client, and 7 has ended. `expect`: the events, `; ` and the frames that were sent.
#[track_caller]
fn check(frames: &[Vec<u8>], expect: &str) {
    let (sent, failure) = outcome(frames, usize::MAX);
    assert_eq!((sent.as_str(), failure), (expect, None));
    assert_eq!(outcome(frames, 1).0, expect, "byte by byte");
}

#[track_caller]
fn check_fails(frames: &[Vec<u8>], reason: Reason) {
    for size in [usize::MAX, 1] {
        let (sent, failure) = outcome(frames, size);
        assert_eq!(failure, Some(reason), "{sent}");
        assert!(sent.ends_with(&format!("GOAWAY 7 {}", reason as u32)), "{sent}");
    }
}

fn outcome(frames: &[Vec<u8>], size: usize) -> (String, Option<Reason>) {
    let mut server = Server::new();
    server.receive(&[request(1, END_HEADERS), request(3, WHOLE), request(5, WHOLE)].concat());
    server.receive(&frame(RST_STREAM, 0, 5, &8_u32.to_be_bytes()));
    server.receive(&request(7, WHOLE));
    server.engine.served();
    let mut head = Vec::new();
    head_block(&mut head, 204, [].into_iter(), None).unwrap();
    server.engine.send_head(3, &head, true);
    server.engine.close(3);
    server.sent();
    server.events();
    for piece in frames.concat().chunks(size) {
        if server.failure.is_none() {
            server.receive(piece);
        }
    }
    let (events, sent) = (server.events(), server.sent());
    (format!("{events} -> {sent}"), server.failure)
}

#[test]
fn payload_is_passed_on_without_padding() {
    let padded = frame(DATA, PADDED | END_STREAM, 1, b"\x03one\0\0\0");
    let (events, failure) = outcome(&[frame(DATA, 0, 1, b"zero"), padded.clone()], usize::MAX);
    assert_eq!((events.as_str(), failure), ("0: zero; 0: one; 0: end -> ", None));
    let (events, _) = outcome(&[padded], 1);
    assert_eq!(events, "0: o; 0: n; 0: e; 0: end -> ");
    check(&[frame(DATA, 0, 1, b""), frame(DATA, END_STREAM, 1, b"")], "0: end -> ");
    check(&[frame(DATA, PADDED | END_STREAM, 1, b"\x02\0\0")], "0: end -> ");
    check_fails(&[frame(DATA, PADDED, 1, b"\x03\0\0")], Reason::ProtocolError);
    check_fails(&[frame(DATA, PADDED, 1, b"")], Reason::ProtocolError);
    check_fails(&[frame(HEADERS, PADDED | WHOLE, 9, b"\x05\0")], Reason::ProtocolError);
    let mut head = block(&[METHOD, SCHEME, HOST, PATH]);
    head.splice(0..0, [2, 0, 0, 0, 0, 16]);
    head.extend_from_slice(&[0, 0]);
    let head = frame(HEADERS, PADDED | WITH_PRIORITY | WHOLE, 9, &head);
    check(&[head], "3: GET /p HTTP/1.1|host: a.test||. -> ");
}

#[test]
fn what_contradicts_a_streams_state_ends_the_stream_or_the_connection() {
    check(&[frame(DATA, 0, 3, b"x")], "1: reset -> RST 3 5");
    check(&[request(3, WHOLE)], "1: reset -> RST 3 5");
    check(&[request(1, END_HEADERS)], "0: reset -> RST 1 1");
    check(&[request(1, WHOLE)], "0: reset -> RST 1 1");
    check_fails(&[frame(DATA, 0, 5, b"x")], Reason::StreamClosed);
    check_fails(&[request(5, WHOLE)], Reason::StreamClosed);
    check_fails(&[frame(DATA, 0, 7, b"x")], Reason::StreamClosed);
    check_fails(&[request(7, WHOLE)], Reason::StreamClosed);
    check_fails(&[frame(DATA, 0, 9, b"x")], Reason::ProtocolError);
    check_fails(&[frame(RST_STREAM, 0, 9, &[0; 4])], Reason::ProtocolError);
    check_fails(&[frame(WINDOW_UPDATE, 0, 9, &[0, 0, 0, 1])], Reason::ProtocolError);
    for kind in [DATA, HEADERS, PRIORITY, RST_STREAM, CONTINUATION] {
        check_fails(&[frame(kind, END_HEADERS, 0, &[0; 5])], Reason::ProtocolError);
    }
    for kind in [SETTINGS, PING, GOAWAY] {
        check_fails(&[frame(kind, 0, 1, &[0; 8])], Reason::ProtocolError);
    }
    check_fails(&[frame(PUSH_PROMISE, END_HEADERS, 1, &[0; 8])], Reason::ProtocolError);
    check(&[frame(WINDOW_UPDATE, 0, 7, &[0, 0, 0, 1]), frame(RST_STREAM, 0, 7, &[0; 4])], " -> ");
    check(
        &[frame(PRIORITY, 0, 9, &[0, 0, 0, 1, 7]), frame(PRIORITY, 0, 7, &[0, 0, 0, 1, 7])],
        " -> ",
    );
}

/// A number that is even, or below an earlier one.
#[test]
fn a_stream_has_the_next_odd_number() {
    let head = |stream: u32| [request(11, WHOLE), request(stream, WHOLE)].concat();
    for stream in [2, 10, 12, 9] {
        let mut server = Server::new();
        server.receive(&head(stream));
        assert_eq!(server.failure, Some(Reason::ProtocolError), "{stream}");
    }
}

#[test]
fn a_frame_has_the_size_of_its_type() {
    check_fails(&[frame(PING, 0, 0, &[0; 7])], Reason::FrameSizeError);
    check_fails(&[frame(RST_STREAM, 0, 1, &[0; 3])], Reason::FrameSizeError);
    check_fails(&[frame(WINDOW_UPDATE, 0, 1, &[0; 5])], Reason::FrameSizeError);
    check_fails(&[frame(SETTINGS, 0, 0, &[0; 5])], Reason::FrameSizeError);
    check_fails(&[frame(SETTINGS, ACK, 0, &[0; 6])], Reason::FrameSizeError);
    check_fails(&[frame(GOAWAY, 0, 0, &[0; 7])], Reason::FrameSizeError);
    check_fails(&[frame(HEADERS, WITH_PRIORITY | WHOLE, 9, &[0; 4])], Reason::FrameSizeError);
    check_fails(&[frame(DATA, 0, 1, &[0; 16_385])], Reason::FrameSizeError);
    check_fails(&[frame(0xee, 0, 1, &[0; 16_385])], Reason::FrameSizeError);
    check(&[frame(PRIORITY, 0, 1, &[0; 4])], "0: reset -> RST 1 6");
}

#[test]
fn settings_are_checked_and_acknowledged() {
    let setting = |id: u16, value: u32| {
        frame(SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
    };
    check(
        &[setting(1, 0), setting(3, 1), setting(6, 1), setting(0xee, 7)],
        " -> SETTINGS ACK; SETTINGS ACK; SETTINGS ACK; SETTINGS ACK",
    );
    check(&[setting(4, 0), frame(SETTINGS, ACK, 0, &[])], "window -> SETTINGS ACK");
    check(
        &[setting(5, 1 << 14), setting(5, (1 << 24) - 1), setting(2, 1)],
        " -> SETTINGS ACK; SETTINGS ACK; SETTINGS ACK",
    );
    check_fails(&[setting(2, 2)], Reason::ProtocolError);
    check_fails(&[setting(4, 1 << 31)], Reason::FlowControlError);
    check_fails(&[setting(5, (1 << 14) - 1)], Reason::ProtocolError);
    check_fails(&[setting(5, 1 << 24)], Reason::ProtocolError);
}

#[test]
fn a_connection_starts_with_the_preface_and_settings() {
    let ping = frame(PING, 0, 0, &[0; 8]);
    for (bytes, reason) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), Some(Reason::ProtocolError)),
        ([PREFACE, &ping].concat(), Some(Reason::ProtocolError)),
        ([PREFACE, &frame(SETTINGS, ACK, 0, &[])].concat(), Some(Reason::ProtocolError)),
        ([PREFACE, &frame(SETTINGS, 0, 0, &[])].concat(), None),
    ] {
        let mut server = Server {
            engine: Connection::new(),
            unread: Vec::new(),
            events: Vec::new(),
            failure: None,
        };
        assert_eq!(server.sent(), "SETTINGS; WINDOW 0 983041");
        assert!(!server.engine.is_established());
        server.receive(&bytes);
        assert_eq!(server.failure, reason);
        assert_eq!(server.engine.is_established(), reason.is_none());
    }
}

#[test]
fn a_head_may_continue_in_further_frames_without_others_between() {
    let block = block(&[METHOD, SCHEME, HOST, PATH]);
    let (first, rest) = block.split_at(5);
    let (second, third) = rest.split_at(7);
    let head = frame(HEADERS, END_STREAM, 9, first);
    let frames = [
        head.clone(),
        frame(CONTINUATION, 0, 9, second),
        frame(CONTINUATION, END_HEADERS, 9, third),
    ];
    check(&frames, "3: GET /p HTTP/1.1|host: a.test||. -> ");
    for between in [
        frame(PING, 0, 0, &[0; 8]),
        frame(DATA, 0, 1, b"x"),
        frame(CONTINUATION, 0, 1, b"x"),
        frame(0xee, 0, 0, b""),
    ] {
        let mut server = Server::new();
        server.receive(&request(1, END_HEADERS)).receive(&head).receive(&between);
        assert_eq!(server.failure, Some(Reason::ProtocolError));
    }
    check_fails(&[frame(CONTINUATION, END_HEADERS, 7, &[])], Reason::ProtocolError);
    let mut endless = Server::new();
    endless.receive(&head);
    for _ in 0..9 {
        endless.receive(&frame(CONTINUATION, 0, 9, &[0; 16_384]));
    }
    assert_eq!(endless.failure, Some(Reason::EnhanceYourCalm));
}

#[test]
fn a_block_that_cannot_be_decoded_ends_the_connection() {
    let mut server = Server::new();
    server.receive(&frame(HEADERS, WHOLE, 1, &[0xbe]));
    assert_eq!(server.failure, Some(Reason::CompressionError));
    assert_eq!(server.sent(), "GOAWAY 1 9");
}

#[test]
fn a_stream_that_depends_on_itself_is_reset() {
    check(&[frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 7])], "0: reset -> RST 1 1");
    let head = [&[0, 0, 0, 9, 16][..], &block(&[METHOD, SCHEME, HOST, PATH])].concat();
    check(&[frame(HEADERS, WITH_PRIORITY | WHOLE, 9, &head)], " -> RST 9 1");
}

#[test]
fn pings_are_answered_and_the_last_one_ends_the_connection() {
    check(&[frame(PING, 0, 0, b"12345678"), frame(PING, ACK, 0, b"12345678")], " -> PING ACK");
    let mut server = Server::new();
    server.receive(&request(1, WHOLE)).events();
    server.engine.leave();
    assert_eq!(server.sent(), "GOAWAY 2147483647 0; PING");
    server.receive(&request(3, WHOLE)).receive(&frame(PING, ACK, 0, b"penstock"));
    assert_eq!(server.sent(), "GOAWAY 3 0");
    server.events();
    server.receive(&request(5, END_HEADERS)).receive(&frame(DATA, END_STREAM, 5, b"x"));
    assert_eq!((server.events().as_str(), server.failure), ("", None), "it came too late");
    assert!(!server.engine.has_left());
    server.engine.close(0);
    server.engine.close(1);
    assert!(server.engine.has_left());
}

#[test]
fn streams_above_the_limit_are_refused() {
    let mut server = Server::new();
    for stream in (1..).step_by(2).take(limits::H2_STREAMS_MAX as usize) {
        server.receive(&request(stream, WHOLE));
    }
    assert_eq!(server.sent(), "");
    server.receive(&request(1_001, END_HEADERS)).receive(&frame(DATA, END_STREAM, 1_001, b"x"));
    assert_eq!((server.sent().as_str(), server.failure), ("RST 1001 7", None));
    for stream in (1_003..).step_by(2).take(limits::H2_ERROR_RESETS_MAX as usize) {
        server.receive(&request(stream, WHOLE));
    }
    assert_eq!(server.failure, Some(Reason::EnhanceYourCalm));
}

#[test]
fn a_client_that_only_opens_and_resets_streams_is_disconnected() {
    let open_and_reset = |stream: u32| {
        [request(stream, WHOLE), frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
    };
    let mut server = Server::new();
    for stream in (1..).step_by(2).take(limits::H2_PENDING_RESETS_MAX) {
        server.receive(&open_and_reset(stream));
    }
    assert_eq!(server.failure, None);
    server.receive(&open_and_reset(1_001));
    assert_eq!(server.failure, Some(Reason::EnhanceYourCalm));
    // If requests are served in between, each reset costs as much as a control frame.
    let mut server = Server::new();
    for stream in (1..).step_by(2).take(limits::H2_CONTROL_FRAMES_MAX as usize - 2) {
        server.receive(&open_and_reset(stream));
        assert_eq!(server.failure, None);
        server.engine.served();
        server.engine.close(0);
    }
    server.receive(&open_and_reset(10_001));
    assert_eq!(server.failure, Some(Reason::EnhanceYourCalm));
}

#[test]
fn errors_that_reset_streams_are_limited() {
    let mut server = Server::new();
    for stream in (1..).step_by(2).take(limits::H2_ERROR_RESETS_MAX as usize + 1) {
        assert_eq!(server.failure, None);
        server.receive(&frame(HEADERS, WHOLE, stream, &block(&[("X", "1")])));
    }
    assert_eq!(server.failure, Some(Reason::EnhanceYourCalm));
    // A long connection may make as many errors in total.
    let mut server = Server::new();
    for (second, stream) in
        (1..).step_by(2).take(4 * limits::H2_ERROR_RESETS_MAX as usize).enumerate()
    {
        server.engine.refill(second as u64 * 1_000_000);
        server.receive(&frame(HEADERS, WHOLE, stream, &block(&[("X", "1")])));
        assert_eq!(server.failure, None);
    }
}

/// Checks that a client may send `flood` only as often as its budget allows: while stream 1 is open, after it was
/// reset, and after its handler has ended.
#[test]
fn frames_that_carry_nothing_are_limited() {
    let check_after = |prepare: fn(&mut Connection), name: &str, flood: &[u8], is_flood: bool| {
        let mut server = Server::new();
        server.receive(&request(1, END_HEADERS)).events();
        prepare(&mut server.engine);
        for _ in 0..limits::H2_CONTROL_FRAMES_MAX {
            server.receive(flood);
            server.engine.consumed(0, 300);
            server.events();
            server.sent();
        }
        assert_eq!(
            server.failure == Some(Reason::EnhanceYourCalm),
            is_flood,
            "{name} {:?}",
            server.failure
        );
    };
    let check = |name: &str, flood: &[u8], is_flood| check_after(|_| {}, name, flood, is_flood);
    check("PING", &frame(PING, 0, 0, &[0; 8]), true);
    check("SETTINGS", &frame(SETTINGS, 0, 0, &[]), true);
    check("WINDOW_UPDATE", &frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), true);
    check("PRIORITY", &frame(PRIORITY, 0, 3, &[0; 5]), true);
    check("RST_STREAM", &frame(RST_STREAM, 0, 1, &[0; 4]), true);
    check("GOAWAY", &frame(GOAWAY, 0, 0, &[0; 8]), true);
    check("unknown", &frame(0xee, 0, 0, &[]), true);
    check("empty DATA", &frame(DATA, 0, 1, &[]), true);
    check("DATA with padding only", &frame(DATA, PADDED, 1, &[1, 0]), true);
    check("DATA with a byte", &frame(DATA, 0, 1, &[0]), false);
    check("DATA with a byte and padding", &frame(DATA, PADDED, 1, &[255; 257]), false);
    let earned = [frame(DATA, 0, 1, &[0]), frame(PING, 0, 0, &[0; 8])].concat();
    check("PING with a byte", &earned, false);
    let prepare: [fn(&mut Connection); 2] =
        [|engine| engine.reset(0, Reason::Cancel), |engine| engine.close(0)];
    for prepare in prepare {
        check_after(prepare, "PING with a byte for nobody", &earned, true);
        check_after(prepare, "late ends", &frame(DATA, END_STREAM, 1, &[]), true);
        check_after(prepare, "late DATA", &frame(DATA, 0, 1, &[0]), false);
        check_after(prepare, "late HEADERS", &request(1, WHOLE), true);
    }
}

#[test]
fn refused_streams_may_be_sent_again_but_not_for_ever() {
    let mut server = Server::new();
    let mut streams = (1..).step_by(2);
    let mut refuse = |server: &mut Server| {
        server.receive(&request(streams.next().unwrap(), WHOLE)).events();
        server.engine.refuse(0)
    };
    assert_eq!(refuse(&mut server), Ok(()));
    assert_eq!(server.sent(), "RST 1 7");
    let refused = (0_u32..).find(|_| refuse(&mut server).is_err());
    // The first SETTINGS, the first frame, and the frame that is one too many don't count.
    assert_eq!(refused, Some(limits::H2_CONTROL_FRAMES_MAX - 3));
    assert!(server.engine.has_failed());
}

#[test]
fn nothing_is_received_after_an_error() {
    let mut server = Server::new();
    server.receive(&request(1, WHOLE)).receive(&frame(PING, 0, 0, &[0; 7]));
    server.events();
    assert!(server.engine.is_reset(0) && server.engine.has_failed());
    server.failure = None;
    server.receive(&request(3, WHOLE));
    assert_eq!((server.events().as_str(), server.failure), ("", None));
    assert_eq!(server.unread, b"");
}

/// A frame: mostly of a known type, with a payload that it might have.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let head = prop_oneof![
        Just(block(&[METHOD, SCHEME, HOST, PATH])),
        Just(block(&[CONNECT, WEBSOCKET, SCHEME, HOST, PATH])),
        Just(vec![0x82, 0x86, 0x84, 0x41, 1, b'a']),
        Just(vec![0x82, 0x86, 0x84, 0x41, 1, b'a', 0x40, 1, b'x', 1, b'y', 0xbe]),
        prop::collection::vec(any::<u8>(), 0..20),
    ];
    let payload = prop_oneof![
        head,
        prop::collection::vec(any::<u8>(), 0..20),
        Just(vec![0; 4]),
        Just(vec![1; 8])
    ];
    let flags = prop_oneof![Just(0), Just(WHOLE), Just(END_HEADERS), Just(END_STREAM), any::<u8>()];
    (0..11_u8, flags, 0..8_u32, payload)
        .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload))
}

proptest! {
    #[test]
    fn the_result_does_not_depend_on_the_split(
        frames in prop::collection::vec(any_frame(), 0..30),
    ) {
        let bytes = [frame(SETTINGS, 0, 0, &[]), frames.concat()].concat();
        properties::connection(&bytes);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        properties::connection(&bytes);
    }
}

#[test]
fn late_payload_of_a_reset_stream_is_ignored_after_many_other_streams() {
    let mut server = Server::new();
    server.receive(&request(1, END_HEADERS));
    let slot = 0;
    server.engine.close(slot);
    for stream in (3..).step_by(2).take(2 * limits::H2_RESET_STREAMS_MAX) {
        server.receive(&request(stream, WHOLE));
        let mut head = Vec::new();
        head_block(&mut head, 200, std::iter::empty(), None).unwrap();
        server.engine.send_head(slot, &head, true);
        server.engine.close(slot);
    }
    server.receive(&frame(DATA, 0, 1, b"late"));
    assert_eq!(server.failure, None);
}
