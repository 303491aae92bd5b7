//! How connections begin and end.

use h2::Reason;
use harness::{Client, Gateway, Upstream, api};

use crate::caller::Caller;

const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty SETTINGS frame. Source: RFC 9113 section 6.5.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

#[test]
fn the_protocol_is_told_however_the_preface_is_cut() {
    let upstream = Upstream::saying("one");
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    for at in [1, 3, 14, 18, 23] {
        let mut client = gateway.connect();
        let (first, second) = PREFACE.split_at(at);
        client.send(first);
        // An answer from elsewhere: the first piece had time to be read.
        assert_eq!(gateway.ask("GET /a/b", "").status, 200);
        client.send(second).send(SETTINGS);
        assert_eq!(client.read_exactly(9)[3], 4, "cut at {at}: a SETTINGS frame answers");
    }
}

#[test]
fn what_only_begins_as_the_preface_is_http_1_1() {
    let upstream = Upstream::saying("one");
    let gateway = Gateway::of(api("/a").open("GET /*, POST /*").to(&upstream)).start();
    let check = |sent: &str, status: u16| {
        let mut client = gateway.connect();
        client.offer(sent);
        assert_eq!(client.read().status, status, "{sent:?}");
    };
    check("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", 505);
    check("PRI /a HTTP/1.1\r\nHost: me\r\n\r\n", 405);
    check("POST /a/b HTTP/1.1\r\nHost: me\r\nContent-Length: 0\r\n\r\n", 200);
}

#[test]
fn the_preface_is_no_request_after_another_and_none_over_tls_without_alpn() {
    let upstream = Upstream::saying("one");
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = gateway.connect();
    assert_eq!(client.ask("GET /a/b", "").status, 200);
    assert_eq!(client.offer(PREFACE).read().status, 505);
    assert_eq!(gateway.connect_tls().offer(PREFACE).read().status, 505);
}

#[test]
fn a_connection_without_the_preface_is_closed() {
    let upstream = Upstream::refusing();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream))
        .settings(|settings| settings.gateway.head_ms = 1)
        .start();
    let config = gateway.identity().client(&["h2"]);
    for begun in ["", "PRI * ", "GET / HTTP/1.1\r\n\r\n"] {
        let mut client =
            Client::connect_tls(gateway.https(), std::sync::Arc::clone(&config), "localhost");
        client.offer(begun);
        client.read_until_close();
        assert_eq!(client.alpn().as_deref(), Some("h2"));
    }
}

#[test]
fn a_connection_that_idles_is_told_goodbye() {
    let upstream = Upstream::saying("one");
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream))
        .settings(|settings| settings.gateway.idle_ms = 1)
        .start();
    let caller = Caller::connect(&gateway);
    assert_eq!(caller.ended(), None, "a clean end");
    gateway.wait_for_metric("penstock_connections", "", 0);
}

#[test]
fn a_drain_finishes_what_is_open_and_takes_nothing_new() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream))
        .settings(|settings| settings.gateway.idle_ms = base::limits::CONFIGURED_MS_MAX)
        .start();
    let (idle, busy) = (Caller::connect(&gateway), Caller::connect_tls(&gateway));
    assert_eq!(idle.ask("GET /nowhere", &[]).status, 404);
    let mut exchange = busy.open("POST /a/b", &[]);
    let mut visit = upstream.accept();
    visit.request_head();
    let draining = std::thread::spawn(move || gateway.drain());
    assert_eq!(idle.ended(), None, "an idle connection ends at once, cleanly");
    let refused = loop {
        match busy.start(busy.request("GET /nowhere", &[]), true) {
            Ok(late) => match late.try_status() {
                Ok(status) => assert_eq!(status, 404, "before the farewell all is as ever"),
                Err(error) => break error,
            },
            Err(error) => break error,
        }
    };
    assert_eq!(refused.reason(), Some(Reason::NO_ERROR));
    exchange.send("late").end();
    assert_eq!(visit.read_exactly(14), b"4\r\nlate\r\n0\r\n\r\n");
    visit.ok("done");
    assert_eq!(exchange.answer().text(), "done");
    assert!(draining.join().unwrap(), "nothing had to be cut");
    assert_eq!(busy.ended(), None);
}
