//! `Expect: 100-continue`: the gateway sends 100 itself once the request is admitted.

use harness::{Gateway, Issuer, Upstream, api};

const HEAD: &str =
    "POST /a/x HTTP/1.1\r\nHost: me\r\nExpect: 100-continue\r\nContent-Length: 5\r\n";

#[test]
fn an_admitted_request_gets_100_and_then_its_response() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send(format!("{HEAD}\r\n"));
    assert_eq!(client.read().head, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    let mut connection = upstream.accept();
    let request = connection.request();
    assert_eq!((request.header("expect"), request.text().as_str()), (None, "hello"));
    connection.ok("done");
    assert_eq!(client.read().text(), "done");
}

#[test]
fn a_denied_request_gets_its_denial_and_no_100() {
    let upstream = Upstream::manual();
    let issuer = Issuer::new("resident");
    let gateway = Gateway::of(api("/a").secured("POST /*").to(&upstream)).issuer(&issuer).start();
    let mut client = gateway.connect();
    client.send(format!("{HEAD}\r\n"));
    assert_eq!(client.read().status_and_code(), "401 900902");
    client.expect_close();
    let mut client = gateway.connect();
    client.send(format!("{HEAD}Authorization: {}\r\n\r\n", issuer.token().bearer()));
    assert_eq!(client.read().status, 100);
}

#[test]
fn a_body_sent_with_the_head_needs_no_100() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut client = gateway.connect();
    assert_eq!(client.send(format!("{HEAD}\r\nhello")).read().text(), "hello");
    client.send(format!("{HEAD}\r\n"));
    assert_eq!(client.read().status, 100);
    assert_eq!(client.send("again").read().text(), "again");
}

#[test]
fn a_100_from_the_upstream_is_not_forwarded() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 5\r\n\r\nhello");
    let mut connection = upstream.accept();
    connection.request();
    connection.send("HTTP/1.1 100 Continue\r\n\r\n");
    connection.ok("done");
    assert_eq!(client.read().text(), "done");
}

#[test]
fn expect_is_ignored_on_http_1_0() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send(format!("{HEAD}\r\n").replace("HTTP/1.1", "HTTP/1.0")).send("hello");
    let response = client.read();
    assert_eq!((response.status, response.text().as_str()), (200, "hello"));
}

#[test]
fn an_unreachable_upstream_gives_a_final_response_without_100() {
    let upstream = Upstream::refusing();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send(format!("{HEAD}\r\n"));
    assert_eq!(client.read().status_and_code(), "500 101503");
}
