//! The echo backend as seen by a client, byte for byte.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use penstock_echo::{Echo, Options};
use tungstenite::Message;

const MIB: usize = 1024 * 1024;

#[test]
fn the_body_is_echoed_with_its_content_type_only() {
    check(
        "POST /any/path?x=1 HTTP/1.1\r\nHost: e\r\nContent-Type: text/x; a=b\r\nX-Other: y\r\n\
         Content-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-type: text/x; a=b\r\ncontent-length: 5\r\n\
         connection: keep-alive\r\n\r\nhello",
    );
}

#[test]
fn any_method_gets_200() {
    for method in ["GET", "DELETE", "OPTIONS", "PATCH", "PURGE"] {
        check(&format!("{method} / HTTP/1.1\r\nHost: e\r\n\r\n"), EMPTY);
    }
}

#[test]
fn a_chunked_body_is_echoed_with_a_length() {
    check(
        "POST / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nX-Trailer: z\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\nhello",
    );
}

#[test]
fn head_gets_the_length_without_a_body() {
    check(
        "HEAD / HTTP/1.1\r\nHost: e\r\nContent-Length: 5\r\n\r\nhello\
         GET / HTTP/1.1\r\nHost: e\r\n\r\n",
        &format!("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\n{EMPTY}"),
    );
}

#[test]
fn http_1_0_is_kept_alive_only_on_request() {
    check("GET / HTTP/1.0\r\n\r\n", CLOSING);
    check("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", EMPTY);
}

#[test]
fn requests_after_connection_close_are_ignored() {
    check(
        "GET / HTTP/1.1\r\nHost: e\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: e\r\n\r\n",
        CLOSING,
    );
}

#[test]
fn pipelined_requests_get_responses_in_order() {
    let (mut requests, mut responses) = (String::new(), String::new());
    for body in ["one", "two", "", "four"] {
        let length = body.len();
        requests += &format!("PUT / HTTP/1.1\r\nHost: e\r\nContent-Length: {length}\r\n\r\n{body}");
        responses += &format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: keep-alive\r\n\r\n{body}"
        );
    }
    check(&requests, &responses);
}

#[test]
fn a_thousand_pipelined_requests_of_both_framings_are_echoed() {
    let chunked =
        "POST / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
    let length = "POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 2\r\n\r\nab";
    let response = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: keep-alive\r\n\r\nab";
    check(&format!("{chunked}{length}").repeat(500), &response.repeat(1_000));
}

#[test]
fn expect_100_continue_is_supported() {
    let echo = start(0);
    let mut client = connect(echo.addr());
    client
        .write_all(
            b"POST / HTTP/1.1\r\nHost: e\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
        )
        .unwrap();
    let mut interim = [0; 25];
    client.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"hi").unwrap();
    assert_eq!(
        rest(client),
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: keep-alive\r\n\r\nhi"
    );
}

#[test]
fn a_mebibyte_is_echoed_and_one_byte_more_is_413() {
    let request = |bytes: usize| {
        format!(
            "POST / HTTP/1.1\r\nHost: e\r\nContent-Length: {bytes}\r\n\r\n{}",
            "x".repeat(bytes)
        )
    };
    let response = response_to(0, request(MIB).as_bytes());
    assert!(response.starts_with("HTTP/1.1 200 OK\r\ncontent-length: 1048576\r\n"));
    assert!(response.ends_with(&"x".repeat(MIB)));
    let rejected = "HTTP/1.1 413 body too large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    check(&format!("POST / HTTP/1.1\r\nHost: e\r\nContent-Length: {}\r\n\r\n", MIB + 1), rejected);
    let chunk = format!("{MIB:x}\r\n{}\r\n1\r\nx\r\n0\r\n\r\n", "x".repeat(MIB));
    check(
        &format!("POST / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}"),
        rejected,
    );
}

#[test]
fn malformed_requests_are_rejected_and_closed() {
    let response =
        response_to(0, b"GET / HTTP/1.1\r\nHost : e\r\n\r\nGET / HTTP/1.1\r\nHost: e\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    assert_eq!(response.matches("HTTP/1.1").count(), 1, "{response}");
}

#[test]
fn delays_do_not_block_other_connections() {
    let echo = start(30);
    let request = b"POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
    let clients: Vec<_> = (0..50)
        .map(|_| {
            let mut client = connect(echo.addr());
            client.write_all(request).unwrap();
            client
        })
        .collect();
    for client in clients {
        assert!(rest(client).ends_with("\r\n\r\nhi"));
    }
    assert_eq!(echo.requests(), 50);
}

#[test]
fn the_count_can_be_requested_and_is_not_counted() {
    let requests = "PUT / HTTP/1.1\r\nHost: e\r\n\r\n".repeat(3)
        + &"GET /.penstock/requests HTTP/1.1\r\nHost: e\r\n\r\n".repeat(2)
        + "POST /.penstock/requests HTTP/1.1\r\nHost: e\r\nContent-Length: 2\r\n\r\nhi";
    let of = |body: &str| {
        let length = body.len();
        format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: keep-alive\r\n\r\n{body}"
        )
    };
    check(&requests, &["", "", "", "3", "3", "hi"].map(of).concat());
}

#[test]
fn tokens_are_introspected_and_that_is_not_counted() {
    let echo = start(0);
    let mut client = connect(echo.addr());
    let request = "POST /.penstock/introspect HTTP/1.1\r\nHost: e\r\nConnection: close\r\n\
        Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 7\r\n\r\ntoken=a";
    client.write_all(request.as_bytes()).unwrap();
    assert_eq!(
        rest(client),
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 33\r\n\
         connection: close\r\n\r\n{\"active\":true,\"client_id\":\"lab\"}"
    );
    assert_eq!(echo.requests(), 0);
}

#[test]
fn websocket_messages_are_returned_and_counted() {
    let echo = start(0);
    let url = format!("ws://{}/chat", echo.addr());
    let (mut socket, response) = tungstenite::client(url, connect(echo.addr())).unwrap();
    assert_eq!(response.status(), 101);
    for message in ["hello".into(), Message::binary(vec![7; 200_000]), Message::text("")] {
        socket.send(message.clone()).unwrap();
        assert_eq!(socket.read().unwrap(), message);
    }
    socket.send(Message::Ping(b"are you there".to_vec().into())).unwrap();
    assert_eq!(socket.read().unwrap(), Message::Pong(b"are you there".to_vec().into()));
    assert_eq!(echo.requests(), 3);
    socket.close(None).unwrap();
    assert_eq!(socket.read().unwrap(), Message::Close(None));
    let closed = socket.read().unwrap_err();
    assert!(matches!(closed, tungstenite::Error::ConnectionClosed), "{closed}");
}

#[test]
fn an_incomplete_websocket_handshake_is_400() {
    let rejected = "HTTP/1.1 400 invalid WebSocket handshake\r\ncontent-length: 0\r\n\
        connection: close\r\n\r\n";
    let upgrade = "GET / HTTP/1.1\r\nHost: e\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
    check(&format!("{upgrade}\r\n"), rejected);
    check(&format!("{upgrade}Sec-WebSocket-Key: x\r\n\r\n"), rejected);
    check(&format!("{upgrade}Sec-WebSocket-Version: 13\r\n\r\n"), rejected);
}

#[test]
fn only_served_requests_are_counted() {
    let echo = start(0);
    let response = |bytes: &[u8]| {
        let mut client = connect(echo.addr());
        client.write_all(bytes).unwrap();
        rest(client)
    };
    response(b"GET / HTTP/1.1\r\nHost: e\r\n\r\nGET / HTTP/1.1\r\nHost: e\r\n\r\n");
    response(b"nonsense\r\n\r\n");
    assert_eq!(echo.requests(), 2);
}

#[test]
fn several_workers_share_one_port() {
    let echo = Echo::start(Options { workers: Some(3), ..options(0) }).unwrap();
    for _ in 0..20 {
        let mut client = connect(echo.addr());
        client.write_all(b"GET / HTTP/1.1\r\nHost: e\r\n\r\n").unwrap();
        assert_eq!(rest(client), EMPTY);
    }
    assert_eq!(echo.requests(), 20);
}

#[test]
fn a_port_in_use_is_not_shared() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for workers in [1, 2] {
        let listen = taken.local_addr().unwrap();
        let error =
            Echo::start(Options { listen, workers: Some(workers), ..options(0) }).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse, "{workers} workers");
    }
    let echo = Echo::start(Options { workers: Some(2), ..options(0) }).unwrap();
    let error =
        Echo::start(Options { listen: echo.addr(), workers: Some(2), ..options(0) }).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

#[test]
fn stopping_closes_connections_and_releases_the_port() {
    let echo = start(0);
    let addr = echo.addr();
    let mut client = connect(addr);
    client.write_all(b"GET / HTTP/1.1\r\nHost: e\r\n\r\n").unwrap();
    // A response shows that the connection has been accepted.
    client.read_exact(&mut [0; EMPTY.len()]).unwrap();
    echo.stop();
    assert_eq!(rest(client), "");
    Echo::start(Options { listen: addr, ..options(0) }).unwrap();
}

#[test]
fn values_out_of_range_are_rejected() {
    for (workers, delay_ms) in [(Some(0), 0), (Some(100_000), 0), (Some(1), u64::MAX)] {
        let error = Echo::start(Options { workers, delay_ms, ..options(0) }).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
}

const EMPTY: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n";
const CLOSING: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Sends `request` as a whole and split in two, closes the client's side, and expects exactly `response`.
#[track_caller]
fn check(request: &str, response: &str) {
    assert_eq!(response_to(0, request.as_bytes()), response);
    let echo = start(0);
    let mut client = connect(echo.addr());
    let (left, right) = request.as_bytes().split_at(request.len() / 2);
    client.write_all(left).unwrap();
    // The first part may have been rejected already.
    let _ = client.write_all(right);
    assert_eq!(rest(client), response);
}

fn response_to(delay_ms: u64, request: &[u8]) -> String {
    let echo = start(delay_ms);
    let mut client = connect(echo.addr());
    client.write_all(request).unwrap();
    rest(client)
}

fn start(delay_ms: u64) -> Echo {
    Echo::start(options(delay_ms)).unwrap()
}

fn options(delay_ms: u64) -> Options {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Options { listen, delay_ms, tls: None, workers: Some(1) }
}

fn connect(addr: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(addr).unwrap();
    client.set_nodelay(true).unwrap();
    // A hanging connection fails the test instead of blocking it.
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    client
}

/// Closes the writing side and reads until the peer closes.
fn rest(mut client: TcpStream) -> String {
    // The peer may have closed already.
    let _ = client.shutdown(Shutdown::Write);
    let mut response = Vec::new();
    client.read_to_end(&mut response).unwrap();
    String::from_utf8(response).unwrap()
}
