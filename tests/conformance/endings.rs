//! Exchanges that end otherwise than by both sides finishing in turn.

use harness::{Gateway, Upstream, api};

const GET: &str = "GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n";
/// More than all buffers on the way hold together.
const MUCH: usize = 32 * 1024 * 1024;
/// A limit that is waited for, and far from what a busy machine takes between two lines of a test.
const SOON_MS: u32 = 1_500;

fn gateway(upstream: &Upstream) -> Gateway {
    Gateway::of(api("/a").open("* /*").to(upstream)).start()
}

/// A head that announces `MUCH` bytes.
fn large_post() -> String {
    format!("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: {MUCH}\r\n\r\n")
}

#[test]
fn an_early_answer_arrives_though_the_backend_stopped_reading() {
    let upstream = Upstream::by_hand();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(large_post()).send("the first bytes");
    let mut visit = upstream.accept();
    visit.request_head();
    visit.read_exactly("the first bytes".len());
    visit.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nlarge");
    visit.close();
    // The gateway takes no more than it drains; the answer is there all the same.
    client.offer(vec![b'x'; 100 * 1024]);
    let answer = client.read();
    assert_eq!((answer.status, answer.text().as_str()), (413, "large"));
    assert_eq!(answer.header("connection"), Some("close"));
    client.expect_close();
}

#[test]
fn an_early_answer_arrives_while_the_upload_goes_on() {
    let upstream = Upstream::by_hand();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 8\r\n\r\nhalf");
    let mut visit = upstream.accept();
    visit.request_head();
    visit.ok("early");
    assert_eq!(client.read().text(), "early");
    // The caller goes on; nothing of it becomes a request of its own.
    client.offer("more").half_close();
    client.expect_close();
}

#[test]
fn both_bodies_stream_at_once() {
    let upstream = Upstream::by_hand();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut visit = upstream.accept();
    visit.request_head();
    visit.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(client.read_head().status, 200);
    for _ in 0..3 {
        client.send("4\r\nping\r\n");
        assert_eq!(visit.read_exactly(9), b"4\r\nping\r\n");
        visit.send("4\r\npong\r\n");
        assert_eq!(client.read_exactly(9), b"4\r\npong\r\n");
    }
    client.send("0\r\n\r\n");
    assert_eq!(visit.read_exactly(5), b"0\r\n\r\n");
    visit.send("0\r\n\r\n");
    assert_eq!(client.read_exactly(5), b"0\r\n\r\n");
    client.send(GET);
    visit.request();
    visit.ok("again");
    assert_eq!(client.read().text(), "again");
}

#[test]
fn a_caller_that_closed_its_side_still_gets_its_answer() {
    let upstream = Upstream::by_hand();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(GET).half_close();
    let mut visit = upstream.accept();
    visit.request();
    visit.ok("still");
    assert_eq!(client.read().text(), "still");
    client.expect_close();
}

#[test]
fn a_caller_that_closed_its_side_gets_all_its_pipelined_answers() {
    let upstream = Upstream::saying("answered");
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(GET.repeat(3)).half_close();
    for _ in 0..3 {
        assert_eq!(client.read().text(), "answered");
    }
    client.expect_close();
}

#[test]
fn a_caller_that_leaves_closes_its_backend_and_is_recorded_as_499() {
    let upstream = Upstream::by_hand();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(GET);
    let mut visit = upstream.accept();
    visit.request();
    client.reset();
    visit.expect_close();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
    gateway.wait_for_metric("penstock_connections", "", 0);
}

#[test]
fn a_caller_that_closes_while_its_backend_is_silent_is_taken_to_have_left() {
    let upstream = Upstream::by_hand();
    let gateway = gateway(&upstream);
    for request in [GET, "POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 2\r\n\r\nhi"] {
        let mut client = gateway.connect();
        client.send(request);
        let mut visit = upstream.accept();
        visit.request();
        drop(client);
        visit.expect_close();
    }
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 2);
    gateway.wait_for_metric("penstock_connections", "", 0);
    assert_eq!(gateway.metric("penstock_faults_total", "blame=\"upstream\""), 0);
}

#[test]
fn a_caller_that_leaves_within_an_answer_closes_its_backend() {
    let upstream = Upstream::by_hand();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send(GET);
    let mut visit = upstream.accept();
    visit.request();
    visit.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\nsome"));
    client.read_head();
    client.reset();
    visit.offer(vec![b'x'; MUCH]);
    visit.expect_close();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
}

#[test]
fn a_caller_that_leaves_within_its_request_closes_its_backend() {
    let upstream = Upstream::by_hand();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 8\r\n\r\nhalf");
    let mut visit = upstream.accept();
    visit.request_head();
    assert_eq!(visit.read_exactly(4), b"half");
    client.reset();
    visit.expect_close();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
}

#[test]
fn a_slow_head_is_408_and_the_end() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| settings.gateway.head_ms = SOON_MS)
        .start();
    for begun in ["GET /a/x HT", "GET /a/x HTTP/1.1\r\nHost: me\r\nX-Slow:"] {
        let mut client = gateway.connect();
        let answer = client.send(begun).read();
        assert_eq!((answer.status, answer.header("connection")), (408, Some("close")), "{begun}");
        client.expect_close();
    }
    assert!(upstream.is_left_alone());
}

#[test]
fn a_connection_without_a_request_is_closed_in_silence() {
    let upstream = Upstream::saying("answered");
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
fn a_request_body_that_stalls_is_408_and_the_end() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| settings.gateway.stall_ms = SOON_MS)
        .start();
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 8\r\n\r\nhalf");
    let mut visit = upstream.accept();
    visit.request_head();
    assert_eq!(visit.read_exactly(4), b"half");
    assert_eq!(client.read().status, 408);
    client.expect_close();
    visit.expect_close();
}

#[test]
fn a_caller_that_reads_nothing_is_cut_off_after_the_stall_limit() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| settings.gateway.stall_ms = SOON_MS)
        .start();
    let mut client = gateway.connect();
    client.send(GET);
    let mut visit = upstream.accept();
    visit.request();
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\n").into_bytes();
    answer.resize(answer.len() + MUCH, b'x');
    visit.offer(answer);
    visit.expect_close();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
    assert!(client.read_until_close().len() < MUCH);
}

#[test]
fn a_connection_too_many_is_told_503() {
    let upstream = Upstream::saying("answered");
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| settings.gateway.connections_max = 2)
        .start();
    let mut kept = [gateway.connect(), gateway.connect()];
    for client in &mut kept {
        assert_eq!(client.send(GET).read().status, 200);
    }
    let mut client = gateway.connect();
    assert_eq!(client.read().verdict(), "503 503");
    client.expect_close();
    assert_eq!(gateway.metric("penstock_connections_refused_total", ""), 1);
    let [first, mut second] = kept;
    drop(first);
    gateway.wait_for_metric("penstock_connections", "", 1);
    assert_eq!(gateway.connect().send(GET).read().status, 200, "there is a place again");
    assert_eq!(second.send(GET).read().status, 200);
}
