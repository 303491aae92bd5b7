//! Other protocols: WebSocket after a 101 that was asked for, others where the API lists them,
//! HTTP/2 by upgrade never.

use harness::{Client, Gateway, Issuer, Upstream, Visit, api};

fn ask(client: &mut Client, protocol: &str, more: &str) {
    client.send(format!(
        "GET /a/socket HTTP/1.1\r\nHost: me\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{more}\r\n"
    ));
}

const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                         Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";

/// Bytes pass both ways, until each side has said that it ends.
fn check_tunnel(client: &mut Client, visit: &mut Visit) {
    client.send([0x81, 0x00, 0xff]);
    assert_eq!(visit.read_exactly(3), [0x81, 0x00, 0xff]);
    visit.send("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(client.read_exactly(18), b"GET / HTTP/1.1\r\n\r\n");
    client.send("bye").half_close();
    assert_eq!(visit.read_until_close(), "bye");
    visit.send("last").half_close();
    assert_eq!(client.read_until_close(), "last");
}

#[test]
fn websocket_is_tunnelled_after_authentication() {
    let (issuer, upstream) = (Issuer::new("resident"), Upstream::by_hand());
    let gateway = Gateway::of(api("/a").secured("GET /*").to(&upstream)).issuer(&issuer).start();
    let mut stranger = gateway.connect();
    ask(&mut stranger, "websocket", "");
    assert_eq!(stranger.read().verdict(), "401 900902");
    let mut client = gateway.connect();
    ask(&mut client, "websocket", &format!("Authorization: {}\r\n", issuer.token().bearer()));
    let mut visit = upstream.accept();
    let request = visit.request();
    let seen = ["connection", "upgrade", "sec-websocket-key", "authorization"]
        .map(|name| request.header(name).unwrap_or("none").to_owned());
    assert_eq!(seen, ["Upgrade", "websocket", "dGhlIHNhbXBsZSBub25jZQ==", "none"]);
    visit.send(SWITCHING);
    let answer = client.read();
    assert_eq!((answer.status, answer.header("sec-websocket-accept")), (101, Some("x")));
    assert_eq!(
        (answer.header("upgrade"), answer.header("connection")),
        (Some("websocket"), Some("Upgrade"))
    );
    check_tunnel(&mut client, &mut visit);
    gateway.wait_for_metric("penstock_requests_total", "status=\"101\"", 1);
}

#[test]
fn bytes_that_came_with_the_101_or_right_behind_the_request_are_not_lost() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = gateway.connect();
    ask(&mut client, "WebSocket", "");
    client.send("early");
    let mut visit = upstream.accept();
    visit.request();
    visit.send(format!("{SWITCHING}first"));
    assert_eq!(client.read().status, 101);
    assert_eq!(client.read_exactly(5), b"first");
    assert_eq!(visit.read_exactly(5), b"early");
    check_tunnel(&mut client, &mut visit);
}

#[test]
fn a_tunnel_ends_for_one_side_when_the_other_is_gone() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = gateway.connect();
    ask(&mut client, "websocket", "");
    let mut visit = upstream.accept();
    visit.request();
    visit.send(SWITCHING);
    assert_eq!(client.read().status, 101);
    client.reset();
    visit.expect_close();
}

#[test]
fn a_backend_may_decline_and_answer_as_usual() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = gateway.connect();
    ask(&mut client, "websocket", "");
    let mut visit = upstream.accept();
    visit.request();
    visit.send("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!(client.read().text(), "no");
    ask(&mut client, "websocket", "");
    visit.request();
}

#[test]
fn a_101_that_nobody_asked_for_or_to_another_protocol_is_a_protocol_violation() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let requests = [
        "GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n",
        "POST /a/x HTTP/1.1\r\nHost: me\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n",
        "GET /a/x HTTP/1.1\r\nHost: me\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        "GET /a/x HTTP/1.1\r\nHost: me\r\nUpgrade: websocket\r\n\r\n",
    ];
    for request in requests {
        let mut client = gateway.connect();
        client.send(request);
        let mut visit = upstream.accept();
        visit.request();
        visit.send(SWITCHING);
        assert_eq!(client.read().verdict(), "500 101506", "{request}");
        visit.expect_close();
    }
    let mut client = gateway.connect();
    ask(&mut client, "websocket", "");
    let mut visit = upstream.accept();
    visit.request();
    visit.send(SWITCHING.replace("websocket", "chat"));
    assert_eq!(client.read().verdict(), "500 101506");
    visit.expect_close();
}

#[test]
fn a_handshake_that_declares_a_body_is_an_ordinary_request() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    for (framing, body) in [
        ("Content-Length: 2\r\n", "hi"),
        ("Content-Length: 0\r\n", ""),
        ("Transfer-Encoding: chunked\r\n", "2\r\nhi\r\n0\r\n\r\n"),
    ] {
        let mut client = gateway.connect();
        ask(&mut client, "websocket", framing);
        client.send(body);
        let mut visit = upstream.accept();
        let request = visit.request();
        let passed = ["upgrade", "connection"].map(|name| request.header(name));
        assert_eq!(passed, [None, None], "{framing:?}");
        visit.send(SWITCHING);
        assert_eq!(client.read().verdict(), "500 101506", "{framing:?}");
        visit.expect_close();
    }
}

/// What of `Upgrade` reaches the backend.
#[track_caller]
fn check_passed(listed: &[&str], protocol: &str, expect: Option<&str>) {
    let upstream = Upstream::saying("declined");
    let api = api("/a").open("GET /*").to(&upstream).with(|api| {
        api.upgrades = listed.iter().map(|&name| name.to_owned()).collect();
    });
    let gateway = Gateway::of(api).start();
    let mut client = gateway.connect();
    ask(&mut client, protocol, "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n");
    assert_eq!(client.read().text(), "declined");
    assert_eq!(upstream.requests()[0].header("upgrade"), expect, "{protocol}");
}

#[test]
fn other_upgrades_are_stripped_unless_the_api_lists_them() {
    check_passed(&[], "chat/2", None);
    check_passed(&["chat/2"], "chat/2", Some("chat/2"));
    check_passed(&["chat/2"], "other", None);
    check_passed(&[], "websocket, chat/2", None);
}

#[test]
fn http_2_by_upgrade_is_never_passed_on() {
    check_passed(&[], "h2c", None);
    check_passed(&["h2c"], "h2c", None);
}
