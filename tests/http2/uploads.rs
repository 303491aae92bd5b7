//! Uploads that do not flow.

use std::io::{Read, Write};
use std::net::TcpStream;

use base::limits::{EARLY_UPLOADS_PER_CLIENT_MAX, GATHERED_BODY_BYTES_MAX, H2_STREAMS_MAX};
use harness::frames::header_block;
use harness::frames::{DATA, END_HEADERS, END_STREAM, FrameClient, HEADERS, WINDOW_UPDATE, frame};
use harness::{Gateway, PATIENCE, Upstream, api};

use crate::client::Http2Client;

const CONNECTIONS: usize = 80;
/// Longer than any test.
const FOR_EVER_MS: u32 = 3_600_000;

/// A connection with as many POST heads as allowed, whose bodies never come; the gateway has read all of them.
fn heads_without_bodies(gateway: &Gateway) -> TcpStream {
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&[len[1], len[2], len[3], kind, flags][..], &stream.to_be_bytes(), payload].concat()
    };
    let mut tcp = TcpStream::connect(gateway.http()).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let block = [&[0x83, 0x86, 0x44, 4][..], b"/a/x", &[0x41, 2], b"me"].concat();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    for stream in 0..H2_STREAMS_MAX {
        bytes.extend(frame(1, 4, 2 * stream + 1, &block));
    }
    bytes.extend(frame(6, 0, 0, &[7; 8]));
    tcp.write_all(&bytes).unwrap();
    loop {
        let mut header = [0; 9];
        tcp.read_exact(&mut header).unwrap();
        let len = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        tcp.read_exact(&mut vec![0; len as usize]).unwrap();
        let (kind, flags) = (header[3], header[4]);
        if kind == 6 && flags == 1 {
            return tcp;
        }
    }
}

#[test]
fn ten_thousand_heads_without_bodies_starve_nobody() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let held: Vec<_> = (0..CONNECTIONS).map(|_| heads_without_bodies(&gateway)).collect();
    let early: Vec<_> = (0..EARLY_UPLOADS_PER_CLIENT_MAX).map(|_| upstream.accept()).collect();
    let mut others = [gateway.connect(), gateway.connect()];
    others[0].send("GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n");
    others[1].send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 5\r\n\r\nhello");
    // Nothing else takes a connection, and a body that flows needs no place among those that do not.
    let mut answered = [upstream.accept(), upstream.accept()];
    for connection in &mut answered {
        connection.request();
        connection.ok("served");
    }
    for client in &mut others {
        assert_eq!(client.read().text(), "served");
    }
    assert!(upstream.has_no_connection());
    drop((held, early));
}

/// The block of a POST with `length` as its Content-Length.
fn post(path: &str, length: usize) -> Vec<u8> {
    let length = length.to_string();
    let field = [&[0x0f, 0x0d, u8::try_from(length.len()).unwrap()], length.as_bytes()].concat();
    [header_block("POST", path), field].concat()
}

#[test]
fn short_bodies_that_do_not_end_leave_room_for_other_streams() {
    let length = usize::try_from(GATHERED_BODY_BYTES_MAX).unwrap();
    let (upstream, other) = (Upstream::manual(), Upstream::echo());
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .api(api("/b").open("* /*").to(&other))
        .settings(|settings| settings.gateway.stall_ms = FOR_EVER_MS)
        .start();
    // From now on, requests of this client wait until their bodies flow.
    let held = heads_without_bodies(&gateway);
    let early: Vec<_> = (0..EARLY_UPLOADS_PER_CLIENT_MAX).map(|_| upstream.accept()).collect();
    let mut client = FrameClient::connect(gateway.http());
    let most_of_it = vec![b'x'; length - 1];
    for stream in (1..).step_by(2).take(H2_STREAMS_MAX as usize - 1) {
        client.send(&frame(HEADERS, END_HEADERS, stream, &post("/a/x", length)));
        client.send(&frame(DATA, 0, stream, &most_of_it));
    }
    // The first update is the connection's initial window. Here nothing is left of it.
    let mut updates = 0;
    while updates < 2 {
        let (kind, _) = client.read().expect("room for other streams");
        updates += usize::from(kind == WINDOW_UPDATE);
    }
    let stream = 2 * H2_STREAMS_MAX + 1;
    client.send(&frame(HEADERS, END_HEADERS, stream, &post("/b/x", 4 * length)));
    for part in 0..4 {
        let flags = if part == 3 { END_STREAM } else { 0 };
        client.send(&frame(DATA, flags, stream, &vec![b'y'; length]));
    }
    let mut echoed = 0;
    while echoed < 4 * length {
        let (kind, payload) = client.read().expect("the response");
        echoed += if kind == DATA { payload.len() } else { 0 };
    }
    drop((held, early));
}

#[test]
fn a_grpc_request_is_forwarded_at_once_within_the_same_limit() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let client = Http2Client::connect(&gateway);
    let open = || client.open("POST /a/x", &[("content-type", "application/grpc")]);
    let streams: Vec<_> = (0..EARLY_UPLOADS_PER_CLIENT_MAX).map(|_| open()).collect();
    let mut connections: Vec<_> = streams.iter().map(|_| upstream.accept()).collect();
    let mut late = open();
    // Read after the head before it.
    assert_eq!(client.fetch("GET /none", &[]).status, 404);
    assert!(upstream.has_no_connection(), "above the limit it waits for its body");
    late.send("message").end();
    connections.push(upstream.accept());
    let mut last = connections.pop().unwrap();
    assert_eq!(last.request().text(), "message");
    last.ok("done");
    assert_eq!(late.response().text(), "done");
}
