//! Flow control in both directions, and the frames that are sent.

use base::limits;

use super::*;

fn head(length: Option<u64>) -> Vec<u8> {
    let mut head = Vec::new();
    head_block(&mut head, 200, [].into_iter(), length).unwrap();
    head
}

#[test]
fn a_client_may_send_as_much_as_was_consumed() {
    let window = limits::H2_STREAM_WINDOW_BYTES as usize;
    let mut server = Server::new();
    server.receive(&request(1, END_HEADERS)).events();
    let full = frame(DATA, 0, 1, &[0; 16_384]);
    for _ in 0..window / 16_384 {
        server.receive(&full);
    }
    assert_eq!((server.sent().as_str(), server.failure), ("", None));
    server.events();
    server.engine.consumed(0, window / 4 - 1);
    assert_eq!(server.sent(), "", "too little for an update");
    server.engine.consumed(0, 1);
    assert_eq!(server.sent(), format!("WINDOW 1 {}", window / 4));
    server.engine.consumed(0, window);
    let rest = window - window / 4;
    assert_eq!(
        server.sent(),
        format!("WINDOW 1 {rest}; WINDOW 0 {window}"),
        "no more than was received"
    );
    for _ in 0..window / 16_384 {
        server.receive(&full);
    }
    assert_eq!(server.sent(), "");
    server.events();
    server.receive(&frame(DATA, 0, 1, &[0]));
    assert_eq!((server.events().as_str(), server.sent().as_str()), ("0: reset", "RST 1 3"));
}

#[test]
fn the_window_of_a_short_body_is_not_updated() {
    let mut server = Server::new();
    let fields = [METHOD, SCHEME, HOST, PATH, ("content-length", "100000")];
    server.receive(&frame(HEADERS, END_HEADERS, 1, &block(&fields)));
    for _ in 0..6 {
        server.receive(&frame(DATA, 0, 1, &[0; 16_384]));
        server.engine.consumed(0, 16_384);
    }
    assert_eq!(server.sent(), "");
}

#[test]
fn unread_payload_of_all_streams_is_limited_by_the_connections_window() {
    let (window, all) = (limits::H2_STREAM_WINDOW_BYTES, limits::H2_CONNECTION_WINDOW_BYTES);
    let mut server = Server::new();
    for stream in [1, 3, 5, 7, 9] {
        server.receive(&request(stream, END_HEADERS));
    }
    for stream in [1, 3, 5, 7] {
        for _ in 0..window / 16_384 {
            server.receive(&frame(DATA, 0, stream, &[0; 16_384]));
        }
    }
    assert_eq!((server.failure, all), (None, 4 * window));
    server.receive(&frame(DATA, 0, 9, &[0]));
    assert_eq!(server.failure, Some(Reason::FlowControlError));
}

/// The window of streams that are reset or closed, and of padding, is returned.
#[test]
fn what_nobody_reads_is_returned_to_the_connection() {
    let mut server = Server::new();
    for round in 0..1_000_u32 {
        let stream = 2 * round + 1;
        server.receive(&request(stream, END_HEADERS)).receive(&frame(DATA, 0, stream, &[0; 3_000]));
        server.receive(&frame(DATA, PADDED, stream, &[255; 257]));
        server.engine.served();
        server.engine.reset(0, Reason::Cancel);
        server.receive(&frame(DATA, 0, stream, &[0; 3_000]));
        server.engine.close(0);
        server.receive(&frame(DATA, 0, stream, &[0; 3_000]));
        assert_eq!(server.failure, None, "{round}");
        server.events();
        server.sent();
    }
}

/// Payload that may have been on its way when the gateway reset the stream is ignored, but no more than that.
#[test]
fn late_payload_is_limited_by_what_was_left_of_the_window() {
    let whole = |stream: u32| {
        let window = limits::H2_STREAM_WINDOW_BYTES as usize;
        frame(DATA, 0, stream, &[0; 16_384]).repeat(window / 16_384)
    };
    let prepare: [fn(&mut Connection); 2] =
        [|engine| engine.reset(0, Reason::Cancel), |engine| engine.close(0)];
    for prepare in prepare {
        let mut server = Server::new();
        server.receive(&request(1, END_HEADERS)).receive(&frame(DATA, 0, 1, &[0; 16_384]));
        prepare(&mut server.engine);
        server.receive(&whole(1)[frame(DATA, 0, 1, &[0; 16_384]).len()..]);
        assert_eq!(server.failure, None);
        server.receive(&frame(DATA, 0, 1, &[0]));
        assert_eq!(server.failure, Some(Reason::FlowControlError));
    }
    // A stream that never had a handler.
    let mut server = Server::new();
    server.receive(&frame(HEADERS, END_HEADERS, 1, &block(&[("X", "1")]))).receive(&whole(1));
    assert_eq!((server.events().as_str(), server.failure), ("", None));
    server.receive(&frame(DATA, 0, 1, &[0]));
    assert_eq!(server.failure, Some(Reason::FlowControlError));
}

#[test]
fn payload_for_streams_after_the_final_goaway_is_limited() {
    let mut server = Server::new();
    server.receive(&request(1, END_HEADERS)).events();
    server.engine.leave();
    server.receive(&frame(PING, ACK, 0, b"penstock")).receive(&request(3, END_HEADERS));
    for _ in 0..limits::H2_CONTROL_FRAMES_MAX {
        server.receive(&frame(DATA, 0, 3, &[0]));
    }
    assert_eq!(server.failure, Some(Reason::EnhanceYourCalm));
}

/// The window is updated in steps, long before it is exhausted, so that a client whose payload is consumed never waits.
#[test]
fn the_windows_of_a_long_upload_are_never_used_up() {
    let mut server = Server::new();
    server.receive(&request(1, END_HEADERS)).events();
    let window = i64::from(limits::H2_STREAM_WINDOW_BYTES);
    let mut left = [i64::from(limits::H2_CONNECTION_WINDOW_BYTES), window];
    let (mut updates, mut least) = (0, window);
    const PIECES: i64 = 6_400;
    for _ in 0..PIECES {
        server.receive(&frame(DATA, 0, 1, &[0; 16_384])).events();
        server.engine.consumed(0, 16_384);
        left = left.map(|left| left - 16_384);
        for update in server.sent().split("; ").filter(|sent| !sent.is_empty()) {
            let [_, stream, bytes] = update.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{update}")
            };
            left[stream.parse::<usize>().unwrap()] += bytes.parse::<i64>().unwrap();
            updates += 1;
        }
        least = least.min(left[0]).min(left[1]);
    }
    assert_eq!(server.failure, None);
    assert!(least >= window / 2, "{least} bytes of a window were left");
    assert!(updates <= PIECES / 3, "{updates} updates for {PIECES} frames");
}

#[test]
fn a_body_that_contradicts_its_length_resets_its_stream() {
    let check = |frames: &[Vec<u8>], expect: &str| {
        let fields = [METHOD, SCHEME, HOST, PATH, ("content-length", "5")];
        let mut server = Server::new();
        server.receive(&frame(HEADERS, END_HEADERS, 1, &block(&fields))).events();
        server.receive(&frames.concat());
        assert_eq!((server.events().as_str(), server.failure), (expect, None));
    };
    check(&[frame(DATA, END_STREAM, 1, b"12345")], "0: 12345; 0: end");
    check(
        &[frame(DATA, 0, 1, b"123"), frame(DATA, 0, 1, b"45"), frame(DATA, END_STREAM, 1, b"")],
        "0: 123; 0: 45; 0: end",
    );
    check(&[frame(DATA, END_STREAM, 1, b"1234")], "0: reset");
    check(&[frame(DATA, 0, 1, b"123"), frame(DATA, END_STREAM, 1, b"")], "0: 123; 0: reset");
    check(&[frame(DATA, 0, 1, b"123456")], "0: reset");
    check(&[frame(DATA, 0, 1, b"12345"), frame(DATA, END_STREAM, 1, b"6")], "0: 12345; 0: reset");
    check(&[frame(DATA, 0, 1, b"123"), frame(HEADERS, WHOLE, 1, &block(&[]))], "0: 123; 0: reset");
}

#[test]
fn a_response_is_sent_as_far_as_the_windows_allow() {
    let mut server = Server::new();
    server.receive(&[request(1, WHOLE), request(3, WHOLE)].concat()).events();
    server.engine.send_head(0, &head(None), false);
    server.engine.send_head(1, &head(None), false);
    let data = vec![0; 100_000];
    let sent: Vec<usize> = (0..5).map(|_| server.engine.send_data(0, &data)).collect();
    assert_eq!(sent, [16_384, 16_384, 16_384, 16_383, 0]);
    assert_eq!(server.engine.send_data(1, &data), 0, "the connection's window is full too");
    assert_eq!(
        server.sent(),
        "HEADERS 1; HEADERS 3; DATA 1 16384; DATA 1 16384; DATA 1 16384; DATA 1 16383"
    );
    server.receive(&frame(WINDOW_UPDATE, 0, 0, &10_u32.to_be_bytes()));
    assert_eq!((server.engine.send_data(0, &data), server.engine.send_data(1, &data)), (0, 10));
    server.receive(&frame(WINDOW_UPDATE, 0, 0, &10_u32.to_be_bytes()));
    server.receive(&frame(WINDOW_UPDATE, 0, 1, &3_u32.to_be_bytes()));
    assert_eq!(
        (server.engine.send_data(0, &data), server.events().as_str()),
        (3, "window; window; window")
    );
    // The initial window of all streams grows, and shrinks below zero.
    let initial = |bytes: u32| frame(SETTINGS, 0, 0, &[&[0, 4][..], &bytes.to_be_bytes()].concat());
    server.receive(&initial(65_540)).receive(&frame(WINDOW_UPDATE, 0, 0, &100_u32.to_be_bytes()));
    assert_eq!(server.engine.send_data(0, &data), 5);
    server.receive(&initial(0));
    assert_eq!(server.engine.room(0), 0);
    server.receive(&frame(WINDOW_UPDATE, 0, 1, &65_540_u32.to_be_bytes()));
    assert_eq!(server.engine.room(0), 0, "it owes as many");
    server.receive(&frame(WINDOW_UPDATE, 0, 1, &4_u32.to_be_bytes()));
    assert_eq!((server.engine.room(0), server.failure), (4, None));
}

#[test]
fn windows_have_an_upper_limit() {
    let update = |stream: u32, bytes: u32| frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
    let check = |frames: &[Vec<u8>], sent: &str, failure: Option<Reason>| {
        let mut server = Server::new();
        server.receive(&request(1, WHOLE)).receive(&frames.concat());
        assert_eq!((server.sent().as_str(), server.failure), (sent, failure));
    };
    const MOST: u32 = (1 << 31) - 1;
    check(&[update(0, MOST - 65_535), update(1, MOST - 65_535)], "", None);
    check(&[update(1, MOST)], "RST 1 3", None);
    check(&[update(1, 0)], "RST 1 1", None);
    check(&[update(0, MOST)], "GOAWAY 1 3", Some(Reason::FlowControlError));
    check(&[update(0, 0)], "GOAWAY 1 1", Some(Reason::ProtocolError));
    let initial = frame(SETTINGS, 0, 0, &[&[0, 4][..], &MOST.to_be_bytes()].concat());
    check(&[update(1, 1), initial], "GOAWAY 1 3", Some(Reason::FlowControlError));
}

#[test]
fn the_output_is_limited() {
    let mut server = Server::new();
    server.receive(&request(1, WHOLE)).events();
    for stream in [0, 1] {
        server.receive(&frame(WINDOW_UPDATE, 0, stream, &(1_u32 << 30).to_be_bytes()));
    }
    server.engine.send_head(0, &head(None), false);
    let data = vec![0; 100_000];
    let total: usize = (0..100).map(|_| server.engine.send_data(0, &data)).sum();
    assert!(server.engine.is_full() && !server.engine.is_overfull());
    let limit = limits::H2_CONNECTION_SEND_BYTES;
    assert!((limit - 200..=limit).contains(&total), "{total}");
    // The window stays so if the client reads only as fast as more is sent.
    let mut held = 0;
    for _ in 0..10_000 {
        server.engine.written(1_000);
        server.engine.send_data(0, &data);
        held = held.max(server.engine.output().len());
    }
    assert!(held <= limit + 9, "{held}");
}

#[test]
fn the_last_frame_of_a_body_ends_it() {
    let respond = |act: &dyn Fn(&mut Connection)| {
        let mut server = Server::new();
        server.receive(&[request(1, WHOLE), request(3, WHOLE)].concat()).events();
        server.engine.send_head(0, &head(Some(3)), false);
        act(&mut server.engine);
        server.sent()
    };
    let sent = respond(&|engine| {
        engine.send_data(0, b"abc");
        engine.finish(0);
        engine.finish(0);
    });
    assert_eq!(sent, "HEADERS 1; DATA 1 3 end");
    let sent = respond(&|engine| {
        engine.send_data(0, b"abc");
        engine.send_head(1, &head(Some(0)), true);
        engine.finish(0);
    });
    assert_eq!(sent, "HEADERS 1; DATA 1 3; HEADERS 3 end; DATA 1 0 end", "it is not the last one");
    let sent = respond(&|engine| {
        engine.send_data(0, b"abc");
        let count = engine.output().len();
        engine.written(count - 1);
        engine.finish(0);
        engine.written(1);
    });
    assert_eq!(sent, "DATA 1 0 end", "it was written already");
    let sent = respond(&|engine| {
        engine.send_data(0, b"abc");
        let mut block = Vec::new();
        trailer_block(&mut block, b"grpc-status: 0\r\n").unwrap();
        engine.send_trailers(0, &block);
        engine.finish(0);
        engine.close(0);
    });
    assert_eq!(sent, "HEADERS 1; DATA 1 3; HEADERS 1 end");
    assert_eq!(respond(&|engine| engine.finish(0)), "HEADERS 1; DATA 1 0 end");
}

#[test]
fn what_a_handler_leaves_incomplete_is_reset() {
    let check = |flags: u8, act: &dyn Fn(&mut Connection), expect: &str| {
        let mut server = Server::new();
        server.receive(&request(1, flags)).events();
        act(&mut server.engine);
        server.engine.close(0);
        assert_eq!(server.sent(), expect);
        assert!(server.engine.is_reset(0), "the slot is free");
    };
    check(WHOLE, &|_| {}, "RST 1 8");
    check(END_HEADERS, &|_| {}, "RST 1 8");
    check(WHOLE, &|engine| engine.send_head(0, &head(Some(3)), false), "HEADERS 1; RST 1 8");
    check(WHOLE, &|engine| engine.send_head(0, &head(Some(0)), true), "HEADERS 1 end");
    check(
        END_HEADERS,
        &|engine| engine.send_head(0, &head(Some(0)), true),
        "HEADERS 1 end; RST 1 0",
    );
    check(WHOLE, &|engine| engine.reset(0, Reason::InternalError), "RST 1 2");
}

#[test]
fn a_large_head_is_sent_in_several_frames() {
    let mut server = Server::new();
    server.receive(&request(1, WHOLE)).events();
    let value = [b'v'; 20_000];
    let mut block = Vec::new();
    head_block(&mut block, 200, [(&b"x-large"[..], &value[..])].into_iter(), None).unwrap();
    server.engine.send_head(0, &block, true);
    assert_eq!(server.sent(), "HEADERS 1 end; CONTINUATION 1");
}

/// Source: RFC 7541 section 4.2.
#[test]
fn the_first_block_declares_that_there_is_no_dynamic_table() {
    let mut server = Server::new();
    server.receive(&[request(1, END_HEADERS), request(3, WHOLE)].concat()).events();
    server.engine.send_continue(0);
    server.engine.send_head(1, &head(None), true);
    let output = server.engine.output();
    assert_eq!(output[9..15], [0x20, 0x08, 3, b'1', b'0', b'0']);
    assert_eq!(output[15 + 9..], [0x88]);
    server.engine.send_head(0, &head(None), true);
    assert_eq!(server.sent(), "HEADERS 1; HEADERS 3 end; HEADERS 1 end");
}
