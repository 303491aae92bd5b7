//! Exchanges that end early: disconnects, stalls and limits.

use harness::{Gateway, Upstream, api};

const GET: &str = "GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n";
/// More than all buffers in between hold.
const MUCH: usize = 32 * 1024 * 1024;
/// A time limit that a test waits for; long enough for a busy machine to execute the lines before.
const SOON_MS: u32 = 1_500;

fn gateway(upstream: &Upstream) -> Gateway {
    Gateway::of(api("/a").open("* /*").to(upstream)).start()
}

/// A head that announces `MUCH` bytes.
fn large_post() -> String {
    format!("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: {MUCH}\r\n\r\n")
}

#[test]
fn an_early_response_arrives_although_the_upstream_stopped_reading() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(large_post()).send("the first bytes");
    let mut connection = upstream.accept();
    connection.request_head();
    connection.read_exactly("the first bytes".len());
    connection.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nlarge");
    connection.close();
    // The gateway reads no more than it drains; the response still arrives.
    client.try_send(vec![b'x'; 100 * 1024]);
    let response = client.read();
    assert_eq!((response.status, response.text().as_str()), (413, "large"));
    assert_eq!(response.header("connection"), Some("close"));
    client.expect_close();
}

#[test]
fn an_early_response_arrives_while_the_upload_goes_on() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 8\r\n\r\nhalf");
    let mut connection = upstream.accept();
    connection.request_head();
    connection.ok("early");
    assert_eq!(client.read().text(), "early");
    // The client continues; its bytes do not become a request.
    client.try_send("more").half_close();
    client.expect_close();
}

#[test]
fn a_complete_response_whose_upload_stalls_is_nobodys_fault() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| settings.gateway.stall_ms = SOON_MS)
        .start();
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 8\r\n\r\nhalf");
    let mut connection = upstream.accept();
    connection.request_head();
    connection.ok("early");
    assert_eq!(client.read().text(), "early");
    client.expect_close();
    connection.read_until_close();
    gateway.wait_for_metric("penstock_requests_total", "status=\"200\"", 1);
    assert_eq!(gateway.metric("penstock_faults_total", ""), 0);
}

#[test]
fn both_bodies_stream_at_once() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut connection = upstream.accept();
    connection.request_head();
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(client.read_head().status, 200);
    for _ in 0..3 {
        client.send("4\r\nping\r\n");
        assert_eq!(connection.read_exactly(9), b"4\r\nping\r\n");
        connection.send("4\r\npong\r\n");
        assert_eq!(client.read_exactly(9), b"4\r\npong\r\n");
    }
    client.send("0\r\n\r\n");
    assert_eq!(connection.read_exactly(5), b"0\r\n\r\n");
    connection.send("0\r\n\r\n");
    assert_eq!(client.read_exactly(5), b"0\r\n\r\n");
    client.send(GET);
    connection.request();
    connection.ok("again");
    assert_eq!(client.read().text(), "again");
}

#[test]
fn a_half_closed_client_still_gets_its_response() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(GET).half_close();
    let mut connection = upstream.accept();
    connection.request();
    connection.ok("still");
    assert_eq!(client.read().text(), "still");
    client.expect_close();
}

#[test]
fn a_half_closed_client_gets_all_its_pipelined_responses() {
    let upstream = Upstream::fixed("answered");
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(GET.repeat(3)).half_close();
    for _ in 0..3 {
        assert_eq!(client.read().text(), "answered");
    }
    client.expect_close();
}

#[test]
fn a_client_that_leaves_closes_its_upstream_and_is_recorded_as_499() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(GET);
    let mut connection = upstream.accept();
    connection.request();
    client.reset();
    connection.expect_close();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
    gateway.wait_for_metric("penstock_connections", "", 0);
}

#[test]
fn a_client_that_closes_while_its_upstream_is_silent_counts_as_gone() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    for request in [GET, "POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 2\r\n\r\nhi"] {
        let mut client = gateway.connect();
        client.send(request);
        let mut connection = upstream.accept();
        connection.request();
        drop(client);
        connection.expect_close();
    }
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 2);
    gateway.wait_for_metric("penstock_connections", "", 0);
    assert_eq!(gateway.metric("penstock_faults_total", "blame=\"upstream\""), 0);
}

#[test]
fn a_client_that_leaves_during_a_response_closes_its_upstream() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(GET);
    let mut connection = upstream.accept();
    connection.request();
    connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\nsome"));
    client.read_head();
    client.reset();
    connection.try_send(vec![b'x'; MUCH]);
    connection.expect_close();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
}

#[test]
fn a_client_that_leaves_during_its_request_closes_its_upstream() {
    let upstream = Upstream::manual();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 8\r\n\r\nhalf");
    let mut connection = upstream.accept();
    connection.request_head();
    assert_eq!(connection.read_exactly(4), b"half");
    client.reset();
    connection.expect_close();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
}

#[test]
fn a_slow_head_is_408_and_closes() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| settings.gateway.head_ms = SOON_MS)
        .start();
    for begun in ["GET /a/x HT", "GET /a/x HTTP/1.1\r\nHost: me\r\nX-Slow:"] {
        let mut client = gateway.connect();
        let response = client.send(begun).read();
        assert_eq!(
            (response.status, response.header("connection")),
            (408, Some("close")),
            "{begun}"
        );
        client.expect_close();
    }
    assert!(upstream.has_no_connection());
}

#[test]
fn a_connection_without_a_request_is_closed_without_a_response() {
    let upstream = Upstream::fixed("answered");
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| {
            settings.gateway.head_ms = SOON_MS;
            settings.gateway.idle_ms = SOON_MS;
        })
        .start();
    gateway.connect().expect_close();
    let mut client = gateway.connect();
    assert_eq!(client.send(GET).read().status, 200);
    client.expect_close();
}

#[test]
fn a_stalled_request_body_is_408_and_closes() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| settings.gateway.stall_ms = SOON_MS)
        .start();
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 8\r\n\r\nhalf");
    let mut connection = upstream.accept();
    connection.request_head();
    assert_eq!(connection.read_exactly(4), b"half");
    assert_eq!(client.read().status, 408);
    client.expect_close();
    connection.expect_close();
}

#[test]
fn a_client_that_is_cut_off_while_it_sends_can_read_what_came() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 100000\r\n\r\nsome");
    let mut connection = upstream.accept();
    connection.request_head();
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf ").half_close();
    assert!(client.read_until_close().ends_with("half "));
    assert!(!client.was_truncated(), "no reset, which could take away what is unread");
    for _ in 0..100 {
        client.send([b'x'; 500]);
    }
}

#[test]
fn a_client_that_reads_nothing_is_cut_off_after_the_stall_limit() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| settings.gateway.stall_ms = SOON_MS)
        .start();
    let mut client = gateway.connect();
    client.send(GET);
    let mut connection = upstream.accept();
    connection.request();
    let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\n").into_bytes();
    response.resize(response.len() + MUCH, b'x');
    connection.try_send(response);
    connection.expect_close();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
    assert!(client.read_until_close().len() < MUCH);
}

#[test]
fn a_connection_above_the_limit_gets_503() {
    let upstream = Upstream::fixed("answered");
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| settings.gateway.connections_max = 2)
        .start();
    let mut kept = [gateway.connect(), gateway.connect()];
    for client in &mut kept {
        assert_eq!(client.send(GET).read().status, 200);
    }
    let mut client = gateway.connect();
    assert_eq!(client.read().status_and_code(), "503 503");
    client.expect_close();
    assert_eq!(gateway.metric("penstock_connections_refused_total", ""), 1);
    let [first, mut second] = kept;
    drop(first);
    gateway.wait_for_metric("penstock_connections", "", 1);
    assert_eq!(gateway.connect().send(GET).read().status, 200, "a connection is accepted again");
    assert_eq!(second.send(GET).read().status, 200);
}

#[test]
fn an_event_stream_may_be_silent_for_as_long_as_its_api_allows() {
    let (short, long) = (Upstream::manual(), Upstream::manual());
    let gateway =
        Gateway::of(api("/a").open("GET /*").to(&short).with(|api| api.stall_ms = Some(50)))
            .api(api("/b").open("GET /*").to(&long).with(|api| api.stall_ms = Some(3_600_000)))
            .settings(|settings| settings.gateway.stall_ms = SOON_MS)
            .start();
    let events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                  Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n";
    let open = |upstream: &Upstream, base: &str| {
        let mut client = gateway.connect();
        client.send(format!("GET {base}/x HTTP/1.1\r\nHost: me\r\n\r\n"));
        let mut connection = upstream.accept();
        connection.request();
        connection.send(events);
        assert_eq!(client.read_head().status, 200);
        (client, connection)
    };
    let (mut patient, mut quiet) = open(&long, "/b");
    for _ in 0..SOON_MS / 50 {
        let (mut client, mut connection) = open(&short, "/a");
        assert_eq!(client.read_until_close(), "9\r\ndata: 1\n\n\r\n");
        connection.expect_reset();
    }
    quiet.send("9\r\ndata: 2\n\n\r\n0\r\n\r\n");
    let both = b"9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n";
    assert_eq!(patient.read_exactly(both.len()), both);
}
