//! HTTP/2 connections: preface, idle timeout, drain.

use h2::Reason;
use harness::frames::{
    END_HEADERS, END_STREAM, FrameClient, HEADERS, RST_STREAM, WINDOW_UPDATE, frame, header_block,
};
use harness::{CannedResponse, Client, Gateway, Upstream, api, wait_until};
use model::Http2Listeners;

use crate::client::Http2Client;

const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty SETTINGS frame. Source: RFC 9113 section 6.5.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

#[test]
fn the_preface_is_recognised_however_it_is_split() {
    let upstream = Upstream::fixed("one");
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    for at in [1, 3, 14, 18, 23] {
        let mut client = gateway.connect();
        let (first, second) = PREFACE.split_at(at);
        client.send(first);
        // A response from elsewhere: the first piece had time to be read.
        assert_eq!(gateway.fetch("GET /a/b", "").status, 200);
        client.send(second).send(SETTINGS);
        assert_eq!(client.read_exactly(9)[3], 4, "cut at {at}: a SETTINGS frame is the response");
    }
}

#[test]
fn a_partial_preface_is_http_1_1() {
    let upstream = Upstream::fixed("one");
    let gateway = Gateway::of(api("/a").open("GET /*, POST /*").to(&upstream)).start();
    let check = |sent: &str, status: u16| {
        let mut client = gateway.connect();
        client.try_send(sent);
        assert_eq!(client.read().status, status, "{sent:?}");
    };
    check("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", 505);
    check("PRI /a HTTP/1.1\r\nHost: me\r\n\r\n", 405);
    check("POST /a/b HTTP/1.1\r\nHost: me\r\nContent-Length: 0\r\n\r\n", 200);
}

#[test]
fn the_preface_is_rejected_after_a_request_and_over_tls_without_alpn() {
    let upstream = Upstream::fixed("one");
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = gateway.connect();
    assert_eq!(client.fetch("GET /a/b", "").status, 200);
    assert_eq!(client.try_send(PREFACE).read().status, 505);
    assert_eq!(gateway.connect_tls().try_send(PREFACE).read().status, 505);
}

#[test]
fn http2_can_be_switched_off_per_listener() {
    let upstream = Upstream::fixed("in");
    for (http, https) in [(false, false), (true, false), (false, true)] {
        let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream))
            .settings(|settings| settings.gateway.http2 = Http2Listeners { http, https })
            .start();
        let mut clear = gateway.connect();
        clear.try_send(PREFACE.as_bytes());
        if http {
            clear.send(SETTINGS);
            assert_eq!(clear.read_exactly(9)[3], 4);
        } else {
            assert_eq!(clear.read().status, 505);
        }
        let config = gateway.identity().client(&["h2", "http/1.1"]);
        let mut secure = Client::connect_tls(gateway.https(), config, "localhost");
        if https {
            secure.send(PREFACE).send(SETTINGS);
            assert_eq!(secure.read_exactly(9)[3], 4);
        } else {
            assert_eq!(secure.fetch("GET /a/b", "").text(), "in");
        }
    }
}

#[test]
fn a_connection_without_the_preface_is_closed() {
    let upstream = Upstream::refusing();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream))
        .settings(|settings| settings.gateway.head_ms = 1)
        .start();
    let config = gateway.identity().client(&["h2"]);
    for sent in ["", "PRI * ", "GET / HTTP/1.1\r\n\r\n"] {
        let mut client =
            Client::connect_tls(gateway.https(), std::sync::Arc::clone(&config), "localhost");
        client.try_send(sent);
        client.read_until_close();
        assert_eq!(client.alpn().as_deref(), Some("h2"));
    }
}

#[test]
fn an_idle_connection_gets_goaway() {
    let upstream = Upstream::fixed("one");
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream))
        .settings(|settings| settings.gateway.idle_ms = 1)
        .start();
    let client = Http2Client::connect(&gateway);
    assert_eq!(client.ended(), None, "a clean end");
    gateway.wait_for_metric("penstock_connections", "", 0);
}

#[test]
fn a_drain_finishes_open_streams_and_accepts_no_new_ones() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream))
        .settings(|settings| settings.gateway.idle_ms = base::limits::CONFIGURED_MS_MAX)
        .start();
    let (idle, busy) = (Http2Client::connect(&gateway), Http2Client::connect_tls(&gateway));
    assert_eq!(idle.fetch("GET /nowhere", &[]).status, 404);
    let mut stream = busy.open("POST /a/b", &[]);
    let mut connection = upstream.accept();
    connection.request_head();
    let draining = std::thread::spawn(move || gateway.drain());
    assert_eq!(idle.ended(), None, "an idle connection ends at once, cleanly");
    let rejected = loop {
        match busy.start(busy.request("GET /nowhere", &[]), true) {
            Ok(late) => match late.try_status() {
                Ok(status) => assert_eq!(status, 404, "before GOAWAY, requests are served"),
                Err(error) => break error,
            },
            Err(error) => break error,
        }
    };
    assert_eq!(rejected.reason(), Some(Reason::NO_ERROR));
    stream.send("late").end();
    assert_eq!(connection.read_exactly(14), b"4\r\nlate\r\n0\r\n\r\n");
    connection.ok("done");
    assert_eq!(stream.response().text(), "done");
    assert!(draining.join().unwrap(), "no connection was cut");
    assert_eq!(busy.ended(), None);
}

#[test]
fn a_drain_waits_for_a_client_that_has_not_read_its_responses() {
    const STREAMS: u32 = 100;
    // More in all than sockets take.
    let upstream = Upstream::responding(|_| CannedResponse::ok(&"x".repeat(1 << 20)));
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut idle = FrameClient::connect(gateway.http());
    let window = i32::MAX as u32;
    let mut slow = FrameClient::with_settings(gateway.http(), &[(4, window)]);
    slow.send(&frame(WINDOW_UPDATE, 0, 0, &(window - 65_535).to_be_bytes()));
    let streams = || (1..).step_by(2).take(STREAMS as usize);
    for stream in streams() {
        slow.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &header_block("GET", "/a/x")));
    }
    wait_until(|| upstream.requests().len() >= STREAMS as usize);
    // Some responses are sent, and the others wait for the socket: those are given up.
    for stream in streams() {
        slow.send(&frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    gateway.wait_for_metric("penstock_requests_total", "api=\"a\"", STREAMS.into());
    let draining = std::thread::spawn(move || gateway.drain());
    assert_eq!(idle.last_code(), Some(0), "it does not close, and is closed");
    assert_eq!(slow.last_code(), Some(0), "GOAWAY is the last of what it can read");
    assert!(draining.join().unwrap(), "no connection was cut");
}
