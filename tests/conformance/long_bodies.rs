//! Bodies long enough to be spliced from socket to socket.

use harness::{CannedResponse, Client, Gateway, Upstream, UpstreamConnection, api};

const LONG: usize = 300_000;
/// More than all buffers in between hold.
const MUCH: usize = 32 * 1024 * 1024;

fn gateway(upstream: &Upstream) -> Gateway {
    Gateway::of(api("/a").open("* /*").to(upstream)).start()
}

/// Bytes that depend on their position.
fn body(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| b'a' + u8::try_from((at / 7 + at / 4096) % 26).unwrap()).collect()
}

fn post(bytes: usize) -> String {
    format!("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: {bytes}\r\n\r\n")
}

/// A client that has sent the head of a long request, and the upstream connection that has received it.
fn begin(gateway: &Gateway, upstream: &Upstream, bytes: usize) -> (Client, UpstreamConnection) {
    let mut client = gateway.connect();
    client.send(post(bytes));
    let mut connection = upstream.accept();
    connection.request_head();
    (client, connection)
}

/// A long body passes both ways, in pieces of these sizes in turn, each seen before the next is sent.
#[track_caller]
fn check(pieces: &[usize]) {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let (mut client, mut connection) = begin(&gateway, &upstream, LONG);
    each_piece(pieces, |piece| {
        client.send(piece);
        assert!(connection.read_exactly(piece.len()) == piece, "up, in pieces of {pieces:?}");
    });
    connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LONG}\r\n\r\n"));
    assert_eq!(client.read_head().status, 200);
    each_piece(pieces, |piece| {
        connection.send(piece);
        assert!(client.read_exactly(piece.len()) == piece, "down, in pieces of {pieces:?}");
    });
    client.send("GET /a/next HTTP/1.1\r\nHost: me\r\n\r\n");
    assert!(connection.request_head().starts_with("GET /next "), "both connections were kept");
    connection.ok("next");
    assert_eq!(client.read().text(), "next");
}

fn each_piece(pieces: &[usize], mut pass: impl FnMut(&[u8])) {
    let body = body(LONG);
    let (mut rest, mut sizes) = (body.as_slice(), pieces.iter().cycle());
    while let Some(size) = sizes.next().filter(|_| !rest.is_empty()) {
        let (piece, behind) = rest.split_at(rest.len().min(*size));
        pass(piece);
        rest = behind;
    }
}

#[test]
fn a_long_body_arrives_in_order_in_pieces_of_any_size() {
    check(&[LONG]);
    check(&[100_000]);
    check(&[50_000, 100, 50_000]);
    check(&[4_096, 4_095]);
    check(&[700]);
}

#[test]
fn a_request_after_a_long_body_is_parsed() {
    let upstream = Upstream::echo();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    let mut both = post(LONG).into_bytes();
    both.extend(body(LONG));
    both.extend(b"POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 4\r\n\r\nnext");
    client.send(both);
    assert!(client.read().text().into_bytes() == body(LONG));
    assert_eq!(client.read().text(), "next");
}

#[test]
fn the_rest_of_a_broken_upload_reaches_no_other_exchange() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let (mut client, mut connection) = begin(&gateway, &upstream, MUCH);
    std::thread::scope(|threads| {
        threads.spawn(|| client.try_send(vec![b'!'; MUCH]));
        connection.read_exactly(LONG);
        // The gateway holds bytes that this upstream will not read.
        connection.reset();
    });
    let (mut client, mut connection) = begin(&gateway, &upstream, LONG);
    client.send(body(LONG));
    assert!(connection.read_exactly(LONG) == body(LONG));
    connection.ok("whole");
    assert_eq!(client.read().text(), "whole");
}

#[test]
fn the_rest_of_an_abandoned_download_reaches_no_other_exchange() {
    let upstream = Upstream::responding(|request| {
        let bytes = if request.target() == "/much" { vec![b'!'; MUCH] } else { body(LONG) };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len());
        CannedResponse::bytes([head.into_bytes(), bytes].concat())
    });
    let gateway = gateway(&upstream);
    let mut leaving = gateway.connect();
    leaving.send("GET /a/much HTTP/1.1\r\nHost: me\r\n\r\n");
    leaving.read_head();
    leaving.skip(LONG as u64);
    leaving.reset();
    for _ in 0..3 {
        let response = gateway.connect().fetch("GET /a/long", "");
        assert!(response.text().into_bytes() == body(LONG));
    }
}

#[test]
fn a_truncated_long_response_is_detectable() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n");
    let mut connection = upstream.accept();
    connection.request_head();
    connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\n")).send(body(LONG));
    assert_eq!(client.read_head().status, 200);
    assert!(client.read_exactly(LONG) == body(LONG));
    connection.close();
    client.expect_close();
}

#[test]
fn a_long_body_is_sent_after_100_continue() {
    let upstream = Upstream::echo();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    let head = post(LONG).replacen("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1);
    client.send(head);
    assert_eq!(client.read_head().status, 100);
    client.send(body(LONG));
    assert!(client.read().text().into_bytes() == body(LONG));
}
