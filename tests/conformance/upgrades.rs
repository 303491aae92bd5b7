//! Upgrades: WebSocket after a requested 101, other protocols where the API lists them, h2c never.

use harness::{Client, Gateway, Issuer, Upstream, UpstreamConnection, api};

fn fetch(client: &mut Client, protocol: &str, more: &str) {
    client.send(format!(
        "GET /a/socket HTTP/1.1\r\nHost: me\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{more}\r\n"
    ));
}

const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                         Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";

/// Bytes pass both ways until each side has closed.
fn check_tunnel(client: &mut Client, connection: &mut UpstreamConnection) {
    client.send([0x81, 0x00, 0xff]);
    assert_eq!(connection.read_exactly(3), [0x81, 0x00, 0xff]);
    connection.send("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(client.read_exactly(18), b"GET / HTTP/1.1\r\n\r\n");
    client.send("bye").half_close();
    assert_eq!(connection.read_until_close(), "bye");
    connection.send("last").half_close();
    assert_eq!(client.read_until_close(), "last");
}

#[test]
fn websocket_is_tunnelled_after_authentication() {
    let (issuer, upstream) = (Issuer::new("resident"), Upstream::manual());
    let gateway = Gateway::of(api("/a").secured("GET /*").to(&upstream)).issuer(&issuer).start();
    let mut stranger = gateway.connect();
    fetch(&mut stranger, "websocket", "");
    assert_eq!(stranger.read().status_and_code(), "401 900902");
    let mut client = gateway.connect();
    fetch(&mut client, "websocket", &format!("Authorization: {}\r\n", issuer.token().bearer()));
    let mut connection = upstream.accept();
    let request = connection.request();
    let seen = ["connection", "upgrade", "sec-websocket-key", "authorization"]
        .map(|name| request.header(name).unwrap_or("none").to_owned());
    assert_eq!(seen, ["Upgrade", "websocket", "dGhlIHNhbXBsZSBub25jZQ==", "none"]);
    connection.send(SWITCHING);
    let response = client.read();
    assert_eq!((response.status, response.header("sec-websocket-accept")), (101, Some("x")));
    assert_eq!(
        (response.header("upgrade"), response.header("connection")),
        (Some("websocket"), Some("Upgrade"))
    );
    check_tunnel(&mut client, &mut connection);
    gateway.wait_for_metric("penstock_requests_total", "status=\"101\"", 1);
}

/// Some clients announce an empty body with every request.
#[test]
fn websocket_is_tunnelled_for_a_request_with_an_empty_body() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = gateway.connect();
    fetch(&mut client, "websocket", "Content-Length: 0\r\n");
    let mut connection = upstream.accept();
    assert_eq!(connection.request().header("upgrade"), Some("websocket"));
    connection.send(SWITCHING);
    assert_eq!(client.read().status, 101);
    check_tunnel(&mut client, &mut connection);
    connection.expect_end();
}

#[test]
fn bytes_sent_with_the_101_or_right_after_the_request_are_not_lost() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = gateway.connect();
    fetch(&mut client, "WebSocket", "");
    client.send("early");
    let mut connection = upstream.accept();
    connection.request();
    connection.send(format!("{SWITCHING}first"));
    assert_eq!(client.read().status, 101);
    assert_eq!(client.read_exactly(5), b"first");
    assert_eq!(connection.read_exactly(5), b"early");
    check_tunnel(&mut client, &mut connection);
}

#[test]
fn a_tunnel_ends_when_one_side_is_gone() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = gateway.connect();
    fetch(&mut client, "websocket", "");
    let mut connection = upstream.accept();
    connection.request();
    connection.send(SWITCHING);
    assert_eq!(client.read().status, 101);
    client.reset();
    connection.expect_close();
}

#[test]
fn an_upstream_may_decline_the_upgrade() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = gateway.connect();
    fetch(&mut client, "websocket", "");
    let mut connection = upstream.accept();
    connection.request();
    connection.send("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!(client.read().text(), "no");
    fetch(&mut client, "websocket", "");
    connection.request();
}

#[test]
fn an_unrequested_101_or_one_to_another_protocol_is_a_protocol_violation() {
    let upstream = Upstream::manual();
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
        let mut connection = upstream.accept();
        connection.request();
        connection.send(SWITCHING);
        assert_eq!(client.read().status_and_code(), "500 101506", "{request}");
        connection.expect_close();
    }
    let mut client = gateway.connect();
    fetch(&mut client, "websocket", "");
    let mut connection = upstream.accept();
    connection.request();
    connection.send(SWITCHING.replace("websocket", "chat"));
    assert_eq!(client.read().status_and_code(), "500 101506");
    connection.expect_close();
}

#[test]
fn an_upgrade_request_with_a_body_is_an_ordinary_request() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    for (framing, body) in [
        ("Content-Length: 2\r\n", "hi"),
        ("Transfer-Encoding: chunked\r\n", "2\r\nhi\r\n0\r\n\r\n"),
    ] {
        let mut client = gateway.connect();
        fetch(&mut client, "websocket", framing);
        client.send(body);
        let mut connection = upstream.accept();
        let request = connection.request();
        let passed = ["upgrade", "connection"].map(|name| request.header(name));
        assert_eq!(passed, [None, None], "{framing:?}");
        connection.send(SWITCHING);
        assert_eq!(client.read().status_and_code(), "500 101506", "{framing:?}");
        connection.expect_close();
    }
}

/// The `Upgrade` field that the upstream receives.
#[track_caller]
fn check_forwarded(listed: &[&str], protocol: &str, expect: Option<&str>) {
    let upstream = Upstream::fixed("declined");
    let api = api("/a").open("GET /*").to(&upstream).with(|api| {
        api.upgrades = listed.iter().map(|&name| name.to_owned()).collect();
    });
    let gateway = Gateway::of(api).start();
    let mut client = gateway.connect();
    fetch(&mut client, protocol, "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n");
    assert_eq!(client.read().text(), "declined");
    assert_eq!(upstream.requests()[0].header("upgrade"), expect, "{protocol}");
}

#[test]
fn other_upgrades_are_stripped_unless_the_api_lists_them() {
    check_forwarded(&[], "chat/2", None);
    check_forwarded(&["chat/2"], "chat/2", Some("chat/2"));
    check_forwarded(&["chat/2"], "other", None);
    check_forwarded(&[], "websocket, chat/2", None);
}

#[test]
fn an_upgrade_to_h2c_is_never_forwarded() {
    check_forwarded(&[], "h2c", None);
    check_forwarded(&["h2c"], "h2c", None);
}
