//! Bodies and trailers, both ways at once.

use std::sync::Arc;

use bytes::Bytes;
use harness::{CannedResponse, Gateway, Upstream, api};

use crate::client::{Http2Client, Stream, next, send_all, wait};

#[test]
fn trailers_pass_both_ways_as_grpc_needs() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/pkg.Service").open("POST /*").to(&upstream)).start();
    let client = Http2Client::connect(&gateway);
    let fields = [("te", "trailers"), ("content-type", "application/grpc")];
    let mut stream = client.open("POST /pkg.Service/Method", &fields);
    stream.send("\0\0\0\0\u{2}hi").end_with("x-checksum", "abc");
    let mut connection = upstream.accept();
    let request = connection.request();
    assert_eq!(request.header("te"), Some("trailers"));
    assert_eq!(request.header("content-type"), Some("application/grpc"));
    assert_eq!(request.header("transfer-encoding"), Some("chunked"));
    assert_eq!(
        (request.text().as_str(), request.trailers.as_str()),
        ("\0\0\0\0\u{2}hi", "x-checksum: abc\r\n")
    );
    connection.send(
        "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTrailer: grpc-status\r\n\
         Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n\
         0\r\ngrpc-status: 0\r\ngrpc-message: fine\r\nContent-Length: 9\r\n\r\n",
    );
    let response = stream.response();
    assert_eq!((response.status, response.text()), (200, "hello".to_owned()));
    assert_eq!(response.trailer("grpc-status"), Some("0"));
    assert_eq!(response.trailer("grpc-message"), Some("fine"));
    assert_eq!(response.trailer("content-length"), None, "framing is no trailer");
}

#[test]
fn a_response_of_trailers_only_passes() {
    let upstream = Upstream::responding(|request| {
        CannedResponse::bytes(match request.target() {
            "/in-head" => "HTTP/1.1 200 OK\r\ngrpc-status: 12\r\nContent-Length: 0\r\n\r\n",
            _ => {
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\ngrpc-status: 12\r\n\r\n"
            }
        })
    });
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let client = Http2Client::connect(&gateway);
    let response = client.fetch_with_body("POST /a/in-head", &[("te", "trailers")], "call");
    assert_eq!((response.field("grpc-status"), response.body.len()), (Some("12"), 0));
    let response = client.fetch_with_body("POST /a/behind", &[("te", "trailers")], "call");
    assert_eq!((response.trailer("grpc-status"), response.body.len()), (Some("12"), 0));
}

#[test]
fn both_sides_stream_at_once() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut stream = Http2Client::connect(&gateway).open("POST /a/chat", &[("te", "trailers")]);
    let mut connection = upstream.accept();
    connection.request_head();
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    stream.send("one");
    assert_eq!(connection.read_exactly(8), b"3\r\none\r\n");
    let Stream { mut up, response } = stream;
    let mut down = wait(response).unwrap().into_body();
    for round in 0..10 {
        let said = format!("said{round}");
        connection.send(format!("5\r\n{said}\r\n"));
        assert_eq!(wait(next(&mut down)).unwrap().unwrap(), said);
        up.send_data(Bytes::from(format!("back{round}")), false).unwrap();
        assert_eq!(connection.read_exactly(10), format!("5\r\nback{round}\r\n").as_bytes());
    }
    up.send_data(Bytes::new(), true).unwrap();
    assert_eq!(connection.read_exactly(5), b"0\r\n\r\n");
    connection.send("0\r\ngrpc-status: 0\r\n\r\n");
    assert!(wait(next(&mut down)).is_none());
    let trailers = wait(down.trailers()).unwrap().unwrap();
    assert_eq!(trailers.get("grpc-status").unwrap(), "0");
}

#[test]
fn bodies_larger_than_every_window_pass_both_ways() {
    const BYTES: usize = 8 << 20;
    let upstream = Upstream::responding(|request| {
        let mut response =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.body.len())
                .into_bytes();
        response.extend_from_slice(&request.body);
        CannedResponse::bytes(response)
    });
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let body: Bytes = (0..=250).cycle().take(BYTES).collect();
    let check = |client: Http2Client| {
        let mut stream = client.open("POST /a/b", &[]);
        wait(send_all(&mut stream.up, body.clone()));
        stream.end();
        let response = stream.response();
        assert_eq!(response.field("content-length"), Some(BYTES.to_string().as_str()));
        assert!(response.body == body, "the body comes back as it was sent");
    };
    check(Http2Client::connect(&gateway));
    check(Http2Client::connect_tls(&gateway));
}

#[test]
fn a_client_that_does_not_read_blocks_its_upstream_and_no_other_stream() {
    const PIECE: usize = 1 << 20;
    const PIECES: usize = 64;
    let slow = Upstream::manual();
    let quick = Upstream::echo();
    let gateway = Gateway::of(api("/slow").open("GET /*").to(&slow))
        .api(api("/quick").open("POST /*").to(&quick))
        .start();
    let client = Http2Client::connect(&gateway);
    let unread = client.start(client.request("GET /slow/x", &[]), true).unwrap();
    let mut connection = slow.accept();
    connection.request();
    let total = PIECE * PIECES;
    connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {total}\r\n\r\n"));
    let sent = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let sending = std::thread::spawn(move || {
        for _ in 0..PIECES {
            connection.send(vec![b'x'; PIECE]);
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        connection
    });
    let response = unread.head();
    for _ in 0..100 {
        assert_eq!(client.fetch_with_body("POST /quick/x", &[], "still here").text(), "still here");
    }
    let held = sent.load(std::sync::atomic::Ordering::Relaxed);
    assert!(held < PIECES, "the client does not read, so the upstream cannot have sent all");
    assert_eq!(response.rest().body.len(), total);
    drop(sending.join().unwrap());
}

#[test]
fn responses_above_the_send_buffer_wait_for_the_socket() {
    const STREAMS: usize = 24;
    const LENGTH: usize = 1 << 20;
    let upstream = Upstream::responding(|_| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
        CannedResponse::bytes([head.as_bytes(), &vec![b'x'; LENGTH]].concat())
    });
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let client =
        Http2Client::connect_with_windows(&gateway, u32::try_from(2 * STREAMS * LENGTH).unwrap());
    let streams: Vec<_> = (0..STREAMS)
        .map(|_| client.start(client.request("GET /a/b", &[]), true).unwrap())
        .collect();
    for stream in streams {
        assert_eq!(stream.response().body.len(), LENGTH);
    }
}

#[test]
fn many_streams_share_a_connection() {
    const STREAMS: usize = 100;
    let upstream = Upstream::responding(|request| {
        CannedResponse::ok(&format!("{} {}", request.target(), request.text()))
    });
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let client = Http2Client::connect_tls(&gateway);
    let mut streams: Vec<_> =
        (0..STREAMS).map(|index| client.open(&format!("POST /a/{index}"), &[])).collect();
    for (index, stream) in streams.iter_mut().enumerate().rev() {
        stream.send(&format!("body {index}")).end();
    }
    for (index, stream) in streams.into_iter().enumerate() {
        assert_eq!(stream.response().text(), format!("/{index} body {index}"));
    }
    gateway.wait_for_metric("penstock_requests_total", "status=\"200\"", STREAMS as u64);
}
