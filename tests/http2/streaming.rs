//! Bodies and trailers, both ways at once.

use std::sync::Arc;

use bytes::Bytes;
use harness::{Answer, Gateway, Upstream, api};

use crate::caller::{Caller, Exchange, next, send_all, wait};

#[test]
fn trailers_pass_both_ways_as_in_a_call_of_grpc() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/pkg.Service").open("POST /*").to(&upstream)).start();
    let caller = Caller::connect(&gateway);
    let fields = [("te", "trailers"), ("content-type", "application/grpc")];
    let mut exchange = caller.open("POST /pkg.Service/Method", &fields);
    exchange.send("\0\0\0\0\u{2}hi").end_with("x-checksum", "abc");
    let mut visit = upstream.accept();
    let request = visit.request();
    assert_eq!(request.header("te"), Some("trailers"));
    assert_eq!(request.header("content-type"), Some("application/grpc"));
    assert_eq!(request.header("transfer-encoding"), Some("chunked"));
    assert_eq!(
        (request.text().as_str(), request.trailers.as_str()),
        ("\0\0\0\0\u{2}hi", "x-checksum: abc\r\n")
    );
    visit.send(
        "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTrailer: grpc-status\r\n\
         Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n\
         0\r\ngrpc-status: 0\r\ngrpc-message: fine\r\nContent-Length: 9\r\n\r\n",
    );
    let answer = exchange.answer();
    assert_eq!((answer.status, answer.text()), (200, "hello".to_owned()));
    assert_eq!(answer.trailer("grpc-status"), Some("0"));
    assert_eq!(answer.trailer("grpc-message"), Some("fine"));
    assert_eq!(answer.trailer("content-length"), None, "framing is no trailer");
}

#[test]
fn an_answer_of_trailers_only_passes() {
    let upstream = Upstream::answering(|request| {
        Answer::bytes(match request.target() {
            "/in-head" => "HTTP/1.1 200 OK\r\ngrpc-status: 12\r\nContent-Length: 0\r\n\r\n",
            _ => {
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\ngrpc-status: 12\r\n\r\n"
            }
        })
    });
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let caller = Caller::connect(&gateway);
    let answer = caller.ask_with("POST /a/in-head", &[("te", "trailers")], "call");
    assert_eq!((answer.field("grpc-status"), answer.body.len()), (Some("12"), 0));
    let answer = caller.ask_with("POST /a/behind", &[("te", "trailers")], "call");
    assert_eq!((answer.trailer("grpc-status"), answer.body.len()), (Some("12"), 0));
}

#[test]
fn both_sides_stream_at_once() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut exchange = Caller::connect(&gateway).open("POST /a/chat", &[("te", "trailers")]);
    let mut visit = upstream.accept();
    visit.request_head();
    visit.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    exchange.send("one");
    assert_eq!(visit.read_exactly(8), b"3\r\none\r\n");
    let Exchange { mut up, response } = exchange;
    let mut down = wait(response).unwrap().into_body();
    for round in 0..10 {
        let said = format!("said{round}");
        visit.send(format!("5\r\n{said}\r\n"));
        assert_eq!(wait(next(&mut down)).unwrap().unwrap(), said);
        up.send_data(Bytes::from(format!("back{round}")), false).unwrap();
        assert_eq!(visit.read_exactly(10), format!("5\r\nback{round}\r\n").as_bytes());
    }
    up.send_data(Bytes::new(), true).unwrap();
    assert_eq!(visit.read_exactly(5), b"0\r\n\r\n");
    visit.send("0\r\ngrpc-status: 0\r\n\r\n");
    assert!(wait(next(&mut down)).is_none());
    let trailers = wait(down.trailers()).unwrap().unwrap();
    assert_eq!(trailers.get("grpc-status").unwrap(), "0");
}

#[test]
fn bodies_larger_than_every_window_pass_both_ways() {
    const BYTES: usize = 8 << 20;
    let upstream = Upstream::answering(|request| {
        let mut answer =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.body.len())
                .into_bytes();
        answer.extend_from_slice(&request.body);
        Answer::bytes(answer)
    });
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let body: Bytes = (0..=250).cycle().take(BYTES).collect();
    let check = |caller: Caller| {
        let mut exchange = caller.open("POST /a/b", &[]);
        wait(send_all(&mut exchange.up, body.clone()));
        exchange.end();
        let answer = exchange.answer();
        assert_eq!(answer.field("content-length"), Some(BYTES.to_string().as_str()));
        assert!(answer.body == body, "the body comes back as it was sent");
    };
    check(Caller::connect(&gateway));
    check(Caller::connect_tls(&gateway));
}

#[test]
fn a_caller_that_does_not_read_holds_the_backend_up_and_no_other_stream() {
    const PIECE: usize = 1 << 20;
    const PIECES: usize = 64;
    let slow = Upstream::by_hand();
    let quick = Upstream::echo();
    let gateway = Gateway::of(api("/slow").open("GET /*").to(&slow))
        .api(api("/quick").open("POST /*").to(&quick))
        .start();
    let caller = Caller::connect(&gateway);
    let unread = caller.start(caller.request("GET /slow/x", &[]), true).unwrap();
    let mut visit = slow.accept();
    visit.request();
    let total = PIECE * PIECES;
    visit.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {total}\r\n\r\n"));
    let sent = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let sending = std::thread::spawn(move || {
        for _ in 0..PIECES {
            visit.send(vec![b'x'; PIECE]);
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        visit
    });
    let begun = unread.begun();
    for _ in 0..100 {
        assert_eq!(caller.ask_with("POST /quick/x", &[], "still here").text(), "still here");
    }
    let held = sent.load(std::sync::atomic::Ordering::Relaxed);
    assert!(held < PIECES, "nobody reads, so the backend cannot have sent all");
    assert_eq!(begun.rest().body.len(), total);
    drop(sending.join().unwrap());
}

#[test]
fn answers_beyond_what_a_connection_may_hold_wait_for_the_socket_and_arrive_whole() {
    const STREAMS: usize = 24;
    const LENGTH: usize = 1 << 20;
    let upstream = Upstream::answering(|_| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
        Answer::bytes([head.as_bytes(), &vec![b'x'; LENGTH]].concat())
    });
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let caller =
        Caller::connect_with_windows(&gateway, u32::try_from(2 * STREAMS * LENGTH).unwrap());
    let exchanges: Vec<_> = (0..STREAMS)
        .map(|_| caller.start(caller.request("GET /a/b", &[]), true).unwrap())
        .collect();
    for exchange in exchanges {
        assert_eq!(exchange.answer().body.len(), LENGTH);
    }
}

#[test]
fn many_streams_share_a_connection() {
    const STREAMS: usize = 100;
    let upstream = Upstream::answering(|request| {
        Answer::ok(&format!("{} {}", request.target(), request.text()))
    });
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let caller = Caller::connect_tls(&gateway);
    let mut exchanges: Vec<_> =
        (0..STREAMS).map(|stream| caller.open(&format!("POST /a/{stream}"), &[])).collect();
    for (stream, exchange) in exchanges.iter_mut().enumerate().rev() {
        exchange.send(&format!("body {stream}")).end();
    }
    for (stream, exchange) in exchanges.into_iter().enumerate() {
        assert_eq!(exchange.answer().text(), format!("/{stream} body {stream}"));
    }
    gateway.wait_for_metric("penstock_requests_total", "status=\"200\"", STREAMS as u64);
}
