//! Uploads that do not flow, and clients that hold too much.

use base::limits::{EARLY_UPLOADS_PER_CLIENT_MAX, GATHERED_BODY_BYTES_MAX};
use harness::{Client, Gateway, Upstream, api};

const GET: &str = "GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n";
/// A time limit that a test waits for; long enough for a busy machine to execute the lines before.
const SOON_MS: u32 = 1_500;

fn post(fields: &str, length: u64) -> String {
    format!("POST /a/x HTTP/1.1\r\nHost: me\r\n{fields}Content-Length: {length}\r\n\r\n")
}

fn in_use(gateway: &Gateway) -> u64 {
    gateway.metric("penstock_upstream_connections", "state=\"in_use\"")
}

#[test]
fn a_short_body_is_gathered_before_an_upstream_connection_is_opened() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let mut clients: Vec<Client> =
        (0..EARLY_UPLOADS_PER_CLIENT_MAX + 1).map(|_| gateway.connect()).collect();
    let length = GATHERED_BODY_BYTES_MAX;
    // Only so many go on without their body.
    for client in &mut clients {
        client.send(post("", length)).send("x");
    }
    let begun: Vec<_> = clients[1..].iter().map(|_| upstream.accept()).collect();
    assert!(upstream.has_no_connection());
    assert_eq!(in_use(&gateway), EARLY_UPLOADS_PER_CLIENT_MAX as u64);
    // The last one goes on when its body is there, and the others when theirs are.
    let rest = "y".repeat(usize::try_from(length).unwrap() - 1);
    for client in &mut clients {
        client.send(&rest);
    }
    let last = upstream.accept();
    for mut connection in begun.into_iter().chain([last]) {
        assert_eq!(connection.request().body.len() as u64, length);
        connection.ok("done");
    }
    for client in &mut clients {
        assert_eq!(client.read().text(), "done");
    }
}

#[test]
fn an_upload_without_a_byte_goes_on_after_a_moment_so_that_the_response_may_come_first() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send(post("", 5));
    let mut connection = upstream.accept();
    connection.request_head();
    connection.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!(client.read().text(), "no");
}

/// A simulation found it recorded as 499.
#[test]
fn a_response_that_came_before_its_upload_stalled_is_complete() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| settings.gateway.stall_ms = SOON_MS)
        .start();
    let mut client = gateway.connect();
    client.send(post("", 100_000)).send("the beginning");
    let mut connection = upstream.accept();
    connection.request_head();
    connection.ok("early");
    assert_eq!(client.read().text(), "early");
    gateway.wait_for_metric("penstock_requests_total", "status=\"200\"", 1);
    assert_eq!(gateway.metric("penstock_requests_total", "status=\"499\""), 0);
}

#[test]
fn clients_that_wait_for_a_100_are_limited_too_and_get_it() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let mut clients: Vec<Client> =
        (0..EARLY_UPLOADS_PER_CLIENT_MAX + 1).map(|_| gateway.connect()).collect();
    for client in &mut clients {
        client.send(post("Expect: 100-continue\r\n", 5));
        assert_eq!(client.read().status, 100);
    }
    let mut begun: Vec<_> = clients[1..].iter().map(|_| upstream.accept()).collect();
    assert!(upstream.has_no_connection(), "one has its 100, and holds no connection");
    for client in &mut clients {
        client.send("hello");
    }
    begun.push(upstream.accept());
    for connection in &mut begun {
        assert_eq!(connection.request().text(), "hello");
        connection.ok("done");
    }
    for client in &mut clients {
        assert_eq!(client.read().text(), "done");
    }
}

#[test]
fn a_client_above_its_connections_gets_503() {
    let upstream = Upstream::fixed("answered");
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| settings.gateway.client_connections_max = 2)
        .start();
    let mut kept = [gateway.connect(), gateway.connect()];
    for client in &mut kept {
        assert_eq!(client.send(GET).read().status, 200);
    }
    assert_eq!(gateway.connect().read().status_and_code(), "503 503");
    let refused = "penstock_connections_refused_total";
    assert_eq!(gateway.metric(refused, "limit=\"client_connections_max\""), 1);
    assert_eq!(gateway.metric(refused, ""), 1);
    drop(kept);
    gateway.wait_for_metric("penstock_connections", "", 0);
    assert_eq!(gateway.connect().send(GET).read().status, 200);
}

#[test]
fn a_trusted_proxy_has_many_clients_and_no_limit_of_one() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .trusting_loopback_clients()
        .settings(|settings| {
            settings.gateway.client_connections_max = 1;
            settings.gateway.client_requests_max = 1;
        })
        .start();
    let mut clients = [gateway.connect(), gateway.connect()];
    for client in &mut clients {
        client.send(GET);
    }
    let connections = [upstream.accept(), upstream.accept()];
    for mut connection in connections {
        connection.request();
        connection.ok("both");
    }
    for client in &mut clients {
        assert_eq!(client.read().text(), "both");
    }
}

#[test]
fn requests_above_a_share_wait_for_a_place_and_are_then_denied() {
    for (is_client, denied) in [(true, "429 429"), (false, "503 503")] {
        let upstream = Upstream::manual();
        let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
            .settings(|settings| {
                let gateway = &mut settings.gateway;
                gateway.connect_ms = SOON_MS;
                if is_client {
                    gateway.client_requests_max = 1;
                } else {
                    gateway.api_requests_max = 1;
                }
            })
            .start();
        let (mut first, mut second) = (gateway.connect(), gateway.connect());
        first.send(GET);
        let mut connection = upstream.accept();
        connection.request();
        second.send(GET);
        assert_eq!(second.read().status_and_code(), denied);
        // One that waits gets its place when the first ends.
        second.send(GET);
        connection.ok("one");
        assert_eq!(first.read().text(), "one");
        connection.request();
        connection.ok("two");
        assert_eq!(second.read().text(), "two");
    }
}

#[test]
fn the_slowest_client_gives_way_to_one_that_waits() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| {
            settings.gateway.api_requests_max = 2;
            // Nothing depends on it.
            settings.gateway.connect_ms = 600_000;
        })
        .start();
    let mut trickling = gateway.connect();
    trickling
        .send("POST /a/x HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    let mut slow = upstream.accept();
    slow.request_head();
    // The upstream is slow, not the client.
    let mut waiting = gateway.connect();
    waiting.send(GET);
    let mut patient = upstream.accept();
    patient.request();
    let mut third = gateway.connect();
    third.send(GET);
    assert_eq!(trickling.read().status, 408);
    let mut connection = upstream.accept();
    connection.request();
    connection.ok("third");
    assert_eq!(third.read().text(), "third");
    patient.ok("patient");
    assert_eq!(waiting.read().text(), "patient");
}

#[test]
fn a_grpc_stream_may_trickle_and_no_other_upload() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| {
            settings.gateway.stall_ms = SOON_MS;
            settings.gateway.min_rate = 1_000_000;
        })
        .start();
    let chunked = "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n";
    let mut grpc = gateway.connect();
    grpc.send(format!(
        "POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Type: application/grpc+proto\r\n{chunked}"
    ));
    let mut stream = upstream.accept();
    stream.request_head();
    let mut other = gateway.connect();
    other.send(format!("POST /a/x HTTP/1.1\r\nHost: me\r\n{chunked}"));
    let mut trickled = upstream.accept();
    trickled.request_head();
    while !other.has_response() {
        other.try_send("1\r\nx\r\n");
        grpc.send("1\r\nx\r\n");
        assert!(!grpc.has_response());
        // A trickle and no flood: the upstream does not read, and must not become the one that stalls.
        assert_eq!(gateway.metric("penstock_held_body_bytes", ""), 0);
    }
    assert_eq!(other.read().status, 408);
    grpc.send("0\r\n\r\n");
    stream.ok("done");
    assert_eq!(grpc.read().text(), "done");
}

#[test]
fn an_upload_that_trickles_is_408_although_it_moves() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| {
            settings.gateway.stall_ms = SOON_MS;
            settings.gateway.min_rate = 1_000_000;
        })
        .start();
    let mut client = gateway.connect();
    client.send(post("", 32 << 20)).send("begun");
    let mut connection = upstream.accept();
    connection.request_head();
    // One byte at a time, which extends no deadline.
    while !client.has_response() {
        client.try_send("x");
    }
    assert_eq!(client.read().status, 408);
}
