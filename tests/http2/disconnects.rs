//! Streams that end early: resets, stalls and truncations.

use std::future::poll_fn;

use bytes::Bytes;
use h2::Reason;
use harness::{CannedResponse, Gateway, Upstream, api};

use crate::client::{Http2Client, Stream, next, wait};

#[test]
fn a_reset_before_the_response_closes_the_upstreams_connection() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let client = Http2Client::connect(&gateway);
    let check = |mut stream: Stream, left: u64| {
        let mut connection = upstream.accept();
        connection.request_head();
        stream.up.send_reset(Reason::CANCEL);
        connection.expect_close();
        gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", left);
    };
    check(client.start(client.request("GET /a/b", &[]), true).unwrap(), 1);
    check(client.open("POST /a/b", &[]), 2);
}

#[test]
fn a_reset_in_the_middle_of_the_response_closes_the_upstreams_connection() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let client = Http2Client::connect(&gateway);
    let mut stream = client.start(client.request("GET /a/b", &[]), true).unwrap();
    let mut connection = upstream.accept();
    connection.request();
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf ");
    let Stream { up, response } = &mut stream;
    let body = wait(response).unwrap().into_body();
    up.send_reset(Reason::CANCEL);
    connection.expect_close();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
    drop(body);
}

#[test]
fn a_broken_client_connection_closes_its_upstream_connections() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let client = Http2Client::connect(&gateway);
    let stream = client.start(client.request("GET /a/b", &[]), true).unwrap();
    let mut connection = upstream.accept();
    connection.request();
    client.abort();
    connection.expect_close();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
    drop(stream);
}

#[test]
fn a_reset_leaves_the_other_streams_alone() {
    let (upstream, silent) = (Upstream::echo(), Upstream::manual());
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream))
        .api(api("/silent").open("POST /*").to(&silent))
        .start();
    let client = Http2Client::connect(&gateway);
    let mut kept = client.open("POST /a/b", &[]);
    kept.send("one ");
    for _ in 0..20 {
        client.open("POST /silent/b", &[]).up.send_reset(Reason::CANCEL);
        assert_eq!(client.fetch_with_body("POST /a/b", &[], "between").text(), "between");
    }
    kept.send("two").end();
    assert_eq!(kept.response().text(), "one two");
}

#[test]
fn a_truncated_response_resets_its_stream() {
    for cut in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf ",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf ",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf \r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf \r\nzz\r\n",
    ] {
        let upstream = Upstream::responding(move |_| CannedResponse::bytes(cut).then_close());
        let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
        let client = Http2Client::connect(&gateway);
        let stream = client.start(client.request("GET /a/b", &[]), true).unwrap();
        assert_eq!(stream.failure(), Some(Reason::INTERNAL_ERROR), "{cut:?}");
        assert_eq!(client.fetch("GET /nowhere", &[]).status, 404, "the connection stays open");
    }
}

#[test]
fn a_broken_first_chunk_gives_the_fault_as_over_http_1_1() {
    for (cut, code) in [
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "101506"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nno trailer\r\n\r\n", "101506"),
    ] {
        let upstream = Upstream::responding(move |_| CannedResponse::bytes(cut).then_close());
        let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
        let response = Http2Client::connect(&gateway).fetch("GET /a/b", &[]);
        assert_eq!(response.status, 500, "{cut:?}");
        assert!(response.text().contains(code), "{cut:?}: {}", response.text());
        assert_eq!(gateway.fetch("GET /a/b", "").status_and_code(), format!("500 {code}"));
    }
}

#[test]
fn the_bytes_before_a_truncation_are_delivered() {
    const LENGTH: usize = 256 * 1024;
    for said in [5, LENGTH - 1] {
        let upstream = Upstream::responding(move |_| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
            CannedResponse::bytes([head.as_bytes(), &vec![b'x'; said]].concat()).then_close()
        });
        let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
        let client = Http2Client::connect(&gateway);
        for _ in 0..20 {
            let stream = client.start(client.request("GET /a/b", &[]), true).unwrap();
            let mut response = stream.head();
            let mut got = 0;
            let failure = loop {
                match wait(next(&mut response.down)).expect("the response to go on") {
                    Ok(piece) => got += piece.len(),
                    Err(error) => break error.reason(),
                }
            };
            assert_eq!((response.status, got), (200, said));
            assert_eq!(failure, Some(Reason::INTERNAL_ERROR));
        }
    }
}

#[test]
fn a_response_that_ends_with_the_connection_is_whole() {
    let upstream = Upstream::responding(|_| {
        CannedResponse::bytes("HTTP/1.1 200 OK\r\n\r\nall of it").then_close()
    });
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    assert_eq!(Http2Client::connect(&gateway).fetch("GET /a/b", &[]).text(), "all of it");
}

#[test]
fn an_early_response_is_read_whole() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let client = Http2Client::connect(&gateway);
    let mut stream = client.open("POST /a/b", &[]);
    stream.send("the beginning");
    let mut connection = upstream.accept();
    connection.request_head();
    assert_eq!(connection.read_exactly(18), b"d\r\nthe beginning\r\n");
    connection.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 8\r\n\r\ntoo much");
    let response = {
        let Stream { up, response } = stream;
        let response = wait(response).unwrap();
        let reset = wait(async {
            let mut up = up;
            poll_fn(|cx| up.poll_reset(cx)).await
        });
        assert_eq!(reset.unwrap(), Reason::NO_ERROR, "the rest of the body is not needed");
        response
    };
    assert_eq!(response.status().as_u16(), 413);
    let mut body = response.into_body();
    let piece = wait(next(&mut body)).unwrap().unwrap();
    assert_eq!(piece, "too much");
    connection.expect_close();
}

#[test]
fn a_body_that_contradicts_its_length_is_rejected() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let client = Http2Client::connect(&gateway);
    let mut stream = client.open("POST /a/b", &[("content-length", "5")]);
    let mut connection = upstream.accept();
    connection.request_head();
    stream.up.send_data(Bytes::from_static(b"abc"), true).unwrap();
    assert_eq!(stream.failure(), Some(Reason::PROTOCOL_ERROR));
    // Parts of the body may be on their way; its end never is.
    let got = connection.read_until_close();
    assert!(got.len() < 5, "{got:?}");
}

#[test]
fn trailers_above_the_limit_are_rejected() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut stream = Http2Client::connect(&gateway).open("POST /a/b", &[]);
    let mut connection = upstream.accept();
    connection.request_head();
    let large = "x".repeat(base::limits::TRAILER_BYTES_MAX as usize);
    let trailers = [("x-large".parse().unwrap(), large.parse().unwrap())];
    stream.up.send_trailers(trailers.into_iter().collect()).unwrap();
    assert_eq!(stream.response().status, 431);
    connection.expect_close();
}

#[test]
fn a_client_whose_body_stalls_gets_408() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream))
        .settings(|settings| settings.gateway.stall_ms = 1)
        .start();
    let client = Http2Client::connect(&gateway);
    let stream = client.open("POST /a/b", &[]);
    let mut connection = upstream.accept();
    connection.request_head();
    assert_eq!(stream.response().status, 408);
    connection.expect_close();
}

#[test]
fn a_client_that_stops_reading_is_cut_off() {
    const LENGTH: usize = 1 << 20;
    let upstream = Upstream::responding(|_| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
        CannedResponse::bytes([head.as_bytes(), &[b'x'; LENGTH]].concat())
    });
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream))
        .settings(|settings| settings.gateway.stall_ms = 500)
        .start();
    let client = Http2Client::connect(&gateway);
    let stream = client.start(client.request("GET /a/b", &[]), true).unwrap();
    let Stream { mut up, response } = stream;
    let unread = wait(response).unwrap();
    let reset = wait(poll_fn(|cx| up.poll_reset(cx)));
    assert_eq!(reset.unwrap(), Reason::CANCEL);
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
    drop(unread);
}

#[test]
fn a_failure_after_the_body_was_sent_reaches_its_error_handler() {
    let upstream = Upstream::responding(|_| CannedResponse::bytes("").then_close());
    let endpoint =
        format!("<endpoint><address uri=\"http://{}/\"/></endpoint>", upstream.address());
    for target in [
        endpoint.clone(),
        format!(
            "<inSequence><property name=\"a\" value=\"b\"/><send>{endpoint}</send></inSequence>"
        ),
        format!("<inSequence><call>{endpoint}</call><log/><respond/></inSequence>"),
    ] {
        let gateway = Gateway::mediating(&format!(
            "<proxy name=\"it\"><target>{target}<faultSequence><payloadFactory media-type=\"text\"><format>$1</format>\
             <args><arg expression=\"$ctx:ERROR_CODE\"/></args></payloadFactory><respond/></faultSequence></target></proxy>"
        ))
        .start();
        let client = Http2Client::connect(&gateway);
        for fields in [&[("content-length", "2")][..], &[]] {
            let response = client.fetch_with_body("POST /services/it", fields, "hi");
            assert_eq!((response.status, response.text()), (200, "101505".to_owned()), "{target}");
        }
    }
}
