//! `Expect: 100-continue`: the gateway answers it by itself, once the request is admitted.

use harness::{Gateway, Issuer, Upstream, api};

const HEAD: &str =
    "POST /a/x HTTP/1.1\r\nHost: me\r\nExpect: 100-continue\r\nContent-Length: 5\r\n";

#[test]
fn an_admitted_request_gets_100_and_then_its_answer() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send(format!("{HEAD}\r\n"));
    assert_eq!(client.read().head, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    let mut visit = upstream.accept();
    let request = visit.request();
    assert_eq!((request.header("expect"), request.text().as_str()), (None, "hello"));
    visit.ok("done");
    assert_eq!(client.read().text(), "done");
}

#[test]
fn a_denied_request_gets_its_denial_and_no_100() {
    let upstream = Upstream::by_hand();
    let issuer = Issuer::new("resident");
    let gateway = Gateway::of(api("/a").secured("POST /*").to(&upstream)).issuer(&issuer).start();
    let mut client = gateway.connect();
    client.send(format!("{HEAD}\r\n"));
    assert_eq!(client.read().verdict(), "401 900902");
    client.expect_close();
    let mut client = gateway.connect();
    client.send(format!("{HEAD}Authorization: {}\r\n\r\n", issuer.token().bearer()));
    assert_eq!(client.read().status, 100);
}

#[test]
fn a_body_that_came_at_once_needs_no_100() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut client = gateway.connect();
    assert_eq!(client.send(format!("{HEAD}\r\nhello")).read().text(), "hello");
    client.send(format!("{HEAD}\r\n"));
    assert_eq!(client.read().status, 100);
    assert_eq!(client.send("again").read().text(), "again");
}

#[test]
fn a_backends_own_100_is_not_passed_on() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 5\r\n\r\nhello");
    let mut visit = upstream.accept();
    visit.request();
    visit.send("HTTP/1.1 100 Continue\r\n\r\n");
    visit.ok("done");
    assert_eq!(client.read().text(), "done");
}

#[test]
fn http_1_0_expects_nothing() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send(format!("{HEAD}\r\n").replace("HTTP/1.1", "HTTP/1.0")).send("hello");
    let answer = client.read();
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
}

#[test]
fn when_the_backend_cannot_be_reached_the_answer_is_final_and_no_100() {
    let upstream = Upstream::refusing();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send(format!("{HEAD}\r\n"));
    assert_eq!(client.read().verdict(), "500 101503");
}
