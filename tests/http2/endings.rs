//! What is cut short, by whom, and who learns of it.

use std::future::poll_fn;

use bytes::Bytes;
use h2::Reason;
use harness::{Answer, Gateway, Upstream, api};

use crate::caller::{Caller, Exchange, next, wait};

#[test]
fn a_reset_before_the_answer_closes_the_backends_connection() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let caller = Caller::connect(&gateway);
    let check = |mut exchange: Exchange, left: u64| {
        let mut visit = upstream.accept();
        visit.request_head();
        exchange.up.send_reset(Reason::CANCEL);
        visit.expect_close();
        gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", left);
    };
    check(caller.start(caller.request("GET /a/b", &[]), true).unwrap(), 1);
    check(caller.open("POST /a/b", &[]), 2);
}

#[test]
fn a_reset_in_the_middle_of_the_answer_closes_the_backends_connection() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let caller = Caller::connect(&gateway);
    let mut exchange = caller.start(caller.request("GET /a/b", &[]), true).unwrap();
    let mut visit = upstream.accept();
    visit.request();
    visit.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf ");
    let Exchange { up, response } = &mut exchange;
    let body = wait(response).unwrap().into_body();
    up.send_reset(Reason::CANCEL);
    visit.expect_close();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
    drop(body);
}

#[test]
fn a_caller_whose_connection_breaks_closes_the_backends() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let caller = Caller::connect(&gateway);
    let exchange = caller.start(caller.request("GET /a/b", &[]), true).unwrap();
    let mut visit = upstream.accept();
    visit.request();
    caller.abort();
    visit.expect_close();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
    drop(exchange);
}

#[test]
fn a_reset_leaves_the_other_streams_alone() {
    let (upstream, silent) = (Upstream::echo(), Upstream::by_hand());
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream))
        .api(api("/silent").open("POST /*").to(&silent))
        .start();
    let caller = Caller::connect(&gateway);
    let mut kept = caller.open("POST /a/b", &[]);
    kept.send("one ");
    for _ in 0..20 {
        caller.open("POST /silent/b", &[]).up.send_reset(Reason::CANCEL);
        assert_eq!(caller.ask_with("POST /a/b", &[], "between").text(), "between");
    }
    kept.send("two").end();
    assert_eq!(kept.answer().text(), "one two");
}

#[test]
fn an_answer_that_breaks_off_is_never_taken_for_a_whole_one() {
    for cut in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf ",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf ",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf \r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf \r\nzz\r\n",
    ] {
        let upstream = Upstream::answering(move |_| Answer::bytes(cut).then_close());
        let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
        let caller = Caller::connect(&gateway);
        let exchange = caller.start(caller.request("GET /a/b", &[]), true).unwrap();
        assert_eq!(exchange.failure(), Some(Reason::INTERNAL_ERROR), "{cut:?}");
        assert_eq!(caller.ask("GET /nowhere", &[]).status, 404, "the connection lives on");
    }
}

#[test]
fn what_came_before_an_answer_broke_off_arrives() {
    const LENGTH: usize = 256 * 1024;
    for said in [5, LENGTH - 1] {
        let upstream = Upstream::answering(move |_| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
            Answer::bytes([head.as_bytes(), &vec![b'x'; said]].concat()).then_close()
        });
        let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
        let caller = Caller::connect(&gateway);
        for _ in 0..20 {
            let exchange = caller.start(caller.request("GET /a/b", &[]), true).unwrap();
            let mut begun = exchange.begun();
            let mut got = 0;
            let failure = loop {
                match wait(next(&mut begun.down)).expect("no end") {
                    Ok(piece) => got += piece.len(),
                    Err(error) => break error.reason(),
                }
            };
            assert_eq!((begun.status, got), (200, said));
            assert_eq!(failure, Some(Reason::INTERNAL_ERROR));
        }
    }
}

#[test]
fn an_answer_that_ends_with_the_connection_is_whole() {
    let upstream =
        Upstream::answering(|_| Answer::bytes("HTTP/1.1 200 OK\r\n\r\nall of it").then_close());
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    assert_eq!(Caller::connect(&gateway).ask("GET /a/b", &[]).text(), "all of it");
}

#[test]
fn an_answer_that_does_not_wait_for_the_body_is_read_whole() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let caller = Caller::connect(&gateway);
    let mut exchange = caller.open("POST /a/b", &[]);
    exchange.send("the beginning");
    let mut visit = upstream.accept();
    visit.request_head();
    assert_eq!(visit.read_exactly(18), b"d\r\nthe beginning\r\n");
    visit.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 8\r\n\r\ntoo much");
    let begun = {
        let Exchange { up, response } = exchange;
        let response = wait(response).unwrap();
        let reset = wait(async {
            let mut up = up;
            poll_fn(|cx| up.poll_reset(cx)).await
        });
        assert_eq!(reset.unwrap(), Reason::NO_ERROR, "the rest of the body is not wanted");
        response
    };
    assert_eq!(begun.status().as_u16(), 413);
    let mut body = begun.into_body();
    let piece = wait(next(&mut body)).unwrap().unwrap();
    assert_eq!(piece, "too much");
    visit.expect_close();
}

#[test]
fn a_body_that_contradicts_its_length_is_refused() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let caller = Caller::connect(&gateway);
    let mut exchange = caller.open("POST /a/b", &[("content-length", "5")]);
    let mut visit = upstream.accept();
    visit.request_head();
    exchange.up.send_data(Bytes::from_static(b"abc"), true).unwrap();
    assert_eq!(exchange.failure(), Some(Reason::PROTOCOL_ERROR));
    // What came of the body may be on its way; its end never is.
    let got = visit.read_until_close();
    assert!(got.len() < 5, "{got:?}");
}

#[test]
fn trailers_beyond_the_limit_are_refused() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut exchange = Caller::connect(&gateway).open("POST /a/b", &[]);
    let mut visit = upstream.accept();
    visit.request_head();
    let large = "x".repeat(base::limits::TRAILER_BYTES_MAX as usize);
    let trailers = [("x-large".parse().unwrap(), large.parse().unwrap())];
    exchange.up.send_trailers(trailers.into_iter().collect()).unwrap();
    assert_eq!(exchange.answer().status, 431);
    visit.expect_close();
}

#[test]
fn a_caller_that_stalls_in_its_body_is_told_so() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream))
        .settings(|settings| settings.gateway.stall_ms = 1)
        .start();
    let caller = Caller::connect(&gateway);
    let exchange = caller.open("POST /a/b", &[]);
    let mut visit = upstream.accept();
    visit.request_head();
    assert_eq!(exchange.answer().status, 408);
    visit.expect_close();
}

#[test]
fn a_caller_that_stalls_in_its_answer_is_cut_off() {
    const LENGTH: usize = 1 << 20;
    let upstream = Upstream::answering(|_| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
        Answer::bytes([head.as_bytes(), &[b'x'; LENGTH]].concat())
    });
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream))
        .settings(|settings| settings.gateway.stall_ms = 500)
        .start();
    let caller = Caller::connect(&gateway);
    let exchange = caller.start(caller.request("GET /a/b", &[]), true).unwrap();
    let Exchange { mut up, response } = exchange;
    let unread = wait(response).unwrap();
    let reset = wait(poll_fn(|cx| up.poll_reset(cx)));
    assert_eq!(reset.unwrap(), Reason::CANCEL);
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
    drop(unread);
}
