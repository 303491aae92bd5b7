//! WebSocket over HTTP/2: tunnels by extended CONNECT. Source: RFC 8441.

use std::future::poll_fn;

use bytes::Bytes;
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use harness::frames::{FrameClient, SETTINGS};
use harness::{Gateway, Issuer, Request, Upstream, UpstreamConnection, api};
use http::HeaderMap;
use model::AccessLog;
use serde_json::Value;

use crate::client::{Http2Client, Stream, next, send_all, wait};

/// Opens a stream by an extended CONNECT.
fn connect(client: &Http2Client, path: &str, protocol: &'static str, token: &str) -> Stream {
    let mut fields = vec![("sec-websocket-version", "13"), ("sec-websocket-protocol", "chat")];
    if !token.is_empty() {
        fields.push(("authorization", token));
    }
    let mut request = client.request(&format!("CONNECT {path}"), &fields);
    request.extensions_mut().insert(Protocol::from_static(protocol));
    client.start(request, false).unwrap()
}

/// A gateway with an open API, and one of its clients.
fn start(upstream: &Upstream) -> (Gateway, Http2Client) {
    let gateway = Gateway::of(api("/a").open("* /*").to(upstream)).start();
    let client = Http2Client::connect(&gateway);
    (gateway, client)
}

/// The response that accepts a handshake.
fn switching(request: &Request) -> String {
    let key = request.header("sec-websocket-key").expect("the gateway adds a key");
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: chat\r\n\r\n",
        wire::websocket::accept(key.as_bytes())
    )
}

/// The client's end of a tunnel.
struct Tunnel {
    up: SendStream<Bytes>,
    down: RecvStream,
    fields: HeaderMap,
}

impl Tunnel {
    fn of(stream: Stream) -> Self {
        let (parts, down) = wait(stream.response).unwrap().into_parts();
        assert_eq!(parts.status.as_u16(), 200);
        Self { up: stream.up, down, fields: parts.headers }
    }

    /// A tunnel to `/socket`, and the upstream's end.
    fn open(client: &Http2Client, upstream: &Upstream) -> (Self, UpstreamConnection) {
        let stream = connect(client, "/a/socket", "websocket", "");
        let mut connection = upstream.accept();
        let request = connection.request();
        connection.send(switching(&request));
        (Self::of(stream), connection)
    }

    fn send(&mut self, piece: &'static [u8]) {
        self.up.send_data(Bytes::from_static(piece), false).unwrap();
    }

    fn end(&mut self) {
        self.up.send_data(Bytes::new(), true).unwrap();
    }

    #[track_caller]
    fn expect(&mut self, bytes: &[u8]) {
        let mut got = Vec::new();
        while got.len() < bytes.len() {
            got.extend_from_slice(&wait(next(&mut self.down)).expect("more bytes").unwrap());
        }
        assert_eq!(got, bytes);
    }

    #[track_caller]
    fn expect_end(&mut self) {
        while let Some(piece) = wait(next(&mut self.down)) {
            assert_eq!(piece.unwrap(), "", "an empty frame may carry END_STREAM");
        }
    }

    #[track_caller]
    fn expect_reset(&mut self) {
        let reset = wait(poll_fn(|cx| self.up.poll_reset(cx)));
        assert_eq!(reset.unwrap(), Reason::CANCEL);
    }
}

#[test]
fn websocket_is_tunnelled_after_authentication() {
    let (issuer, upstream) = (Issuer::new("resident"), Upstream::manual());
    let gateway = Gateway::of(api("/a").secured("GET /*").to(&upstream)).issuer(&issuer).start();
    let client = Http2Client::connect_tls(&gateway);
    let stranger = connect(&client, "/a/socket", "websocket", "").response();
    assert_eq!(stranger.status, 401);
    assert!(stranger.text().contains("900902"), "{}", stranger.text());
    let mut stream = connect(&client, "/a/socket?x=1", "websocket", &issuer.token().bearer());
    stream.send("early");
    let mut connection = upstream.accept();
    let request = connection.request();
    assert_eq!(request.line(), "GET /socket?x=1 HTTP/1.1");
    let seen = ["connection", "upgrade", "sec-websocket-version", "sec-websocket-protocol"]
        .map(|name| request.header(name).unwrap_or("none"));
    assert_eq!(seen, ["Upgrade", "websocket", "13", "chat"]);
    assert_eq!((request.header("authorization"), request.text().as_str()), (None, ""));
    assert_eq!(request.header("transfer-encoding"), None);
    connection.send(switching(&request) + "first");
    let mut tunnel = Tunnel::of(stream);
    let passed = ["sec-websocket-protocol", "sec-websocket-accept", "upgrade", "connection"]
        .map(|name| tunnel.fields.get(name).map(|value| value.to_str().unwrap()));
    assert_eq!(passed, [Some("chat"), None, None, None]);
    tunnel.expect(b"first");
    assert_eq!(connection.read_exactly(5), b"early");
    for round in 0..10_u8 {
        tunnel.up.send_data(Bytes::from(vec![round; 300]), false).unwrap();
        assert_eq!(connection.read_exactly(300), [round; 300]);
        connection.send([round; 400]);
        tunnel.expect(&[round; 400]);
    }
    tunnel.end();
    assert_eq!(connection.read_until_close(), "");
    connection.half_close();
    tunnel.expect_end();
    gateway.wait_for_metric("penstock_requests_total", "status=\"101\"", 1);
    assert_eq!(gateway.metric("penstock_tunnels_total", ""), 1);
}

#[test]
fn every_handshake_has_a_key_of_its_own() {
    let upstream = Upstream::manual();
    let (_gateway, client) = start(&upstream);
    let mut open = Vec::new();
    let mut keys = Vec::new();
    for _ in 0..3 {
        let (stream, mut connection) =
            (connect(&client, "/a/socket", "websocket", ""), upstream.accept());
        keys.push(connection.request().header("sec-websocket-key").unwrap().to_owned());
        open.push((stream, connection));
    }
    assert!(keys.iter().all(|key| key.len() == 24), "16 bytes in base64: {keys:?}");
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 3, "{keys:?}");
}

#[test]
fn each_side_may_end_first() {
    let upstream = Upstream::manual();
    let (gateway, client) = start(&upstream);
    let (mut tunnel, mut connection) = Tunnel::open(&client, &upstream);
    tunnel.send(b"bye");
    tunnel.end();
    assert_eq!(connection.read_until_close(), "bye");
    connection.send("last").half_close();
    tunnel.expect(b"last");
    tunnel.expect_end();
    let (mut tunnel, mut connection) = Tunnel::open(&client, &upstream);
    connection.send("bye").half_close();
    tunnel.expect(b"bye");
    tunnel.expect_end();
    tunnel.send(b"last");
    tunnel.end();
    assert_eq!(connection.read_until_close(), "last");
    gateway.wait_for_metric("penstock_requests_total", "status=\"101\"", 2);
}

#[test]
fn a_reset_of_one_side_ends_the_other_and_no_other_stream() {
    let upstream = Upstream::manual();
    let (gateway, client) = start(&upstream);
    let (mut kept, mut other) = Tunnel::open(&client, &upstream);
    let (mut tunnel, mut connection) = Tunnel::open(&client, &upstream);
    tunnel.up.send_reset(Reason::CANCEL);
    connection.expect_close();
    let (mut tunnel, connection) = Tunnel::open(&client, &upstream);
    connection.reset();
    tunnel.expect_reset();
    gateway.wait_for_metric("penstock_requests_total", "status=\"101\"", 2);
    kept.send(b"up");
    assert_eq!(other.read_exactly(2), b"up");
    client.abort();
    other.expect_close();
}

#[test]
fn a_handshake_that_is_not_accepted_opens_no_tunnel() {
    let upstream = Upstream::manual();
    let (_gateway, client) = start(&upstream);
    assert_eq!(connect(&client, "/nowhere", "websocket", "").response().status, 404);
    let other = connect(&client, "/a/socket", "connect-udp", "").response();
    assert_eq!(other.status, 501, "{}", other.text());
    let wrong = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
    for response in [
        format!("{wrong}\r\n"),
        format!("{wrong}Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"),
        // To the client, any 2xx would be a tunnel.
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno".to_owned(),
    ] {
        let stream = connect(&client, "/a/socket", "websocket", "");
        let mut connection = upstream.accept();
        connection.request();
        connection.send(&response);
        let refused = stream.response();
        assert_eq!(refused.status, 500, "{response}");
        assert!(refused.text().contains("101506"), "{response}: {}", refused.text());
    }
}

/// Bytes that the client sent meanwhile are not a request to the upstream.
#[test]
fn an_upstream_may_decline_and_gets_nothing_of_the_tunnel() {
    let upstream = Upstream::manual();
    let (_gateway, client) = start(&upstream);
    let mut stream = connect(&client, "/a/socket", "websocket", "");
    stream.send("GET /smuggled HTTP/1.1\r\nHost: me\r\n\r\n");
    // The 404 is behind those bytes.
    assert_eq!(client.fetch("GET /nowhere", &[]).status, 404);
    let mut connection = upstream.accept();
    connection.request();
    connection.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    stream.end();
    let response = stream.response();
    assert_eq!((response.status, response.text().as_str()), (403, "no"));
    let stream = client.start(client.request("GET /a/next", &[]), true).unwrap();
    assert_eq!(connection.request().line(), "GET /next HTTP/1.1", "on the same connection");
    connection.ok("in");
    assert_eq!(stream.response().text(), "in");
}

#[test]
fn flow_control_stops_each_direction_and_no_other_stream() {
    const BYTES: usize = 32 << 20;
    let (slow, quick) = (Upstream::manual(), Upstream::echo());
    let gateway = Gateway::of(api("/a").open("GET /*").to(&slow))
        .api(api("/quick").open("POST /*").to(&quick))
        .start();
    let client = Http2Client::connect(&gateway);
    let (Tunnel { mut up, mut down, .. }, mut connection) = Tunnel::open(&client, &slow);
    let (mut from_upstream, mut to_client) = (BYTES, 0);
    let sending = std::thread::spawn(move || {
        while from_upstream > 0 {
            connection.send(vec![b'd'; 1 << 20]);
            from_upstream -= 1 << 20;
        }
        connection
    });
    let uploading = std::thread::spawn(move || {
        wait(send_all(&mut up, Bytes::from(vec![b'u'; BYTES])));
        up
    });
    for _ in 0..50 {
        let response = client.fetch_with_body("POST /quick/x", &[], "still here");
        assert_eq!(response.text(), "still here");
    }
    assert!(!sending.is_finished() && !uploading.is_finished(), "nobody reads");
    while to_client < BYTES {
        to_client += wait(next(&mut down)).expect("more bytes").unwrap().len();
    }
    let mut connection = sending.join().unwrap();
    connection.skip(BYTES as u64);
    let mut up = uploading.join().unwrap();
    up.send_data(Bytes::new(), true).unwrap();
    assert_eq!(connection.read_until_close(), "");
}

#[test]
fn a_drain_waits_for_the_end_of_a_tunnel() {
    let upstream = Upstream::manual();
    let (gateway, client) = start(&upstream);
    let idle = Http2Client::connect(&gateway);
    assert_eq!(idle.fetch("GET /nowhere", &[]).status, 404);
    let (mut tunnel, mut connection) = Tunnel::open(&client, &upstream);
    let draining = std::thread::spawn(move || gateway.drain());
    assert_eq!(idle.ended(), None, "the drain has begun");
    tunnel.send(b"up");
    assert_eq!(connection.read_exactly(2), b"up");
    connection.send("down").half_close();
    tunnel.expect(b"down");
    tunnel.end();
    assert!(draining.join().unwrap(), "no connection was cut");
    assert_eq!(client.ended(), None);
}

/// The tests for HTTP/1.1 are in tests/conformance/access_log.rs and quotas.rs.
#[test]
fn the_bytes_of_a_tunnel_are_logged_and_count_towards_quotas_while_it_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    let upstream = Upstream::manual();
    let limited = api("/a").open("GET /*").to(&upstream).with(|api| api.plan = Some("K".into()));
    let gateway = Gateway::of(limited)
        .plans("[[plan]]\nname = \"K\"\nlimits = [{ kilobytes = 1, per = \"1y\" }]\n")
        .settings(|settings| settings.access_log = AccessLog::File(file.clone()))
        .start();
    let client = Http2Client::connect(&gateway);
    let (mut tunnel, mut connection) = Tunnel::open(&client, &upstream);
    tunnel.send(&[b'u'; 2_000]);
    connection.read_exactly(2_000);
    // The gateway counts the moved bytes before it reads more.
    connection.send([b'd'; 3_000]);
    tunnel.expect(&[b'd'; 3_000]);
    assert_eq!(client.fetch("GET /a/x", &[]).status, 429);
    tunnel.end();
    connection.half_close();
    tunnel.expect_end();
    drop(client);
    assert!(gateway.drain());
    let lines = std::fs::read_to_string(&file).unwrap();
    let logged = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let line = logged.into_iter().find(|line| line["status"] == 101).expect("the tunnel's line");
    assert_eq!(
        (line["method"].as_str(), line["received_bytes"].as_u64()),
        (Some("GET"), Some(2_000))
    );
    let sent = line["sent_bytes"].as_u64().unwrap();
    assert!((3_001..3_500).contains(&sent), "head included: {sent}");
}

#[test]
fn only_listeners_of_apis_announce_tunnels() {
    let upstream = Upstream::refusing();
    let apis = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let services = Gateway::mediating("<sequence name=\"main\"/>").start();
    for (gateway, announces) in [(apis, true), (services, false)] {
        let mut client = FrameClient::connect(gateway.http());
        let (_, settings) = client.read_until(|kind| kind == SETTINGS);
        // SETTINGS_ENABLE_CONNECT_PROTOCOL.
        let found = settings.chunks(6).any(|setting| setting == [0, 8, 0, 0, 0, 1]);
        assert_eq!(found, announces);
    }
}
