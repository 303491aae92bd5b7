//! Load balancing, failover and suspension of endpoints.

use harness::{ApiBuilder, CannedResponse, Client, Gateway, Upstream, api};

const GET: &str = "GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n";
/// Longer than any test: a suspended endpoint stays suspended.
const FOR_EVER_MS: u32 = 3_600_000;

/// The statuses and codes, or bodies, of `count` requests on one connection.
#[track_caller]
fn check(api: ApiBuilder, method: &str, count: usize, expect: &str) -> Gateway {
    let gateway = Gateway::of(api.open("* /*")).start();
    let mut client = gateway.connect();
    let mut got = Vec::new();
    for _ in 0..count {
        let response = client.fetch(&format!("{method} /a/x"), "");
        got.push(if response.status == 200 { response.text() } else { response.status_and_code() });
    }
    assert_eq!(got.join(", "), expect);
    gateway
}

#[test]
fn round_robin_uses_each_endpoint_in_turn() {
    let all = ["one", "two", "three"].map(Upstream::fixed);
    check(api("/a").round_robin(&[&all[0], &all[1], &all[2]]), "GET", 4, "one, two, three, one");
}

#[test]
fn round_robin_tries_the_next_endpoint_when_a_connection_is_refused() {
    let (refusing, good) = (Upstream::refusing(), Upstream::fixed("good"));
    for method in ["GET", "POST"] {
        let api = api("/a").round_robin(&[&refusing, &good]);
        check(api, method, 3, "good, good, good");
    }
}

#[test]
fn failover_uses_the_first_working_endpoint() {
    let all = ["one", "two"].map(Upstream::fixed);
    check(api("/a").failover(&[&all[0], &all[1]]), "GET", 3, "one, one, one");
    let (refusing, good) = (Upstream::refusing(), Upstream::fixed("good"));
    check(api("/a").failover(&[&refusing, &good]), "POST", 3, "good, good, good");
}

#[test]
fn a_refused_connection_is_101503() {
    check(api("/a").to(&Upstream::refusing()), "GET", 2, "500 101503, 500 101503");
    check(api("/a").to(&Upstream::refusing()), "POST", 1, "500 101503");
}

#[test]
fn a_suspended_endpoint_gets_no_request_and_is_303001() {
    let gateway = check(
        api("/a").to(&Upstream::refusing()).suspend_after(2, FOR_EVER_MS),
        "GET",
        3,
        "500 101503, 500 303001, 500 303001",
    );
    assert_eq!(gateway.metric("penstock_endpoints_suspended", ""), 1);
}

#[test]
fn a_set_with_all_endpoints_suspended_is_303000() {
    let (one, two) = (Upstream::refusing(), Upstream::refusing());
    for set in [api("/a").round_robin(&[&one, &two]), api("/a").failover(&[&one, &two])] {
        let gateway = Gateway::of(set.suspend_after(1, FOR_EVER_MS).open("* /*")).start();
        let mut client = gateway.connect();
        assert_eq!(client.send(GET).read().status_and_code(), "500 101503");
        assert_eq!(client.send(GET).read().status_and_code(), "500 303000");
        assert_eq!(gateway.metric("penstock_endpoints_suspended", ""), 2);
    }
}

#[test]
fn a_suspended_endpoint_of_a_set_is_skipped() {
    let (silent, good) = (Upstream::manual(), Upstream::fixed("good"));
    let gateway = Gateway::of(
        api("/a").failover(&[&silent, &good]).suspend_after(1, FOR_EVER_MS).open("* /*"),
    )
    .start();
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 2\r\n\r\nhi");
    let mut connection = silent.accept();
    connection.request();
    connection.close();
    assert_eq!(client.read().status_and_code(), "500 101505");
    assert_eq!(client.send(GET).read().text(), "good");
    assert!(silent.has_no_connection());
}

#[test]
fn a_status_never_suspends() {
    let upstream = Upstream::responding(|_| {
        CannedResponse::bytes("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
    });
    check(api("/a").to(&upstream).suspend_after(1, FOR_EVER_MS), "GET", 3, "503, 503, 503");
}

#[test]
fn an_endpoint_that_recovers_is_probed_and_used_again() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").to(&upstream).suspend_after(1, 1).open("* /*")).start();
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 2\r\n\r\nhi");
    let mut connection = upstream.accept();
    connection.request();
    connection.close();
    assert_eq!(client.read().status_and_code(), "500 101505");
    // The worker reads the clock a few times a second.
    let mut probe = Probe::of(&gateway);
    let mut connection = probe.until_accepted(&upstream);
    connection.request();
    connection.ok("recovered");
    assert_eq!(probe.client.read().text(), "recovered");
    assert_eq!(gateway.metric("penstock_endpoints_suspended", ""), 0);
}

/// Sends requests until the endpoint is no longer suspended.
struct Probe {
    client: Client,
}

impl Probe {
    fn of(gateway: &Gateway) -> Self {
        Self { client: gateway.connect() }
    }

    fn until_accepted(&mut self, upstream: &Upstream) -> harness::UpstreamConnection {
        loop {
            self.client.send(GET);
            match upstream.accept_or(|| self.client.has_response()) {
                Some(connection) => return connection,
                None => assert_eq!(self.client.read().status_and_code(), "500 303001"),
            }
        }
    }
}

#[test]
fn an_upstream_that_does_not_respond_in_time_is_101504() {
    let upstream = Upstream::manual();
    for (http, expect) in [(false, "500 101504"), (true, "504 101504")] {
        let mut gateway = Gateway::of(api("/a").to(&upstream).response_head_ms(50).open("* /*"));
        if http {
            gateway = gateway.http_statuses();
        }
        let gateway = gateway.start();
        let mut client = gateway.connect();
        client.send(GET);
        let mut connection = upstream.accept();
        connection.request();
        assert_eq!(client.read().status_and_code(), expect);
        connection.expect_close();
        assert!(upstream.has_no_connection(), "the request is not retried");
    }
}

#[test]
fn a_response_that_stalls_ends_the_connection() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").to(&upstream).open("* /*"))
        .settings(|settings| settings.gateway.stall_ms = 50)
        .start();
    let mut client = gateway.connect();
    client.send(GET);
    let mut connection = upstream.accept();
    connection.request();
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    assert!(client.read_until_close().ends_with("\r\n\r\nhalf"));
    connection.expect_close();
    gateway.wait_for_metric("penstock_faults_total", "blame=\"upstream\"", 1);
}

#[test]
fn an_upstream_that_never_completes_its_handshake_is_101508() {
    let identity = harness::Identity::of(&["localhost"]);
    let upstream = Upstream::manual_tls(&identity);
    let gateway = Gateway::of(api("/a").to(&upstream).open("* /*"))
        .trusting(&identity)
        .settings(|settings| settings.gateway.connect_ms = 50)
        .start();
    // The kernel accepts the connection; nothing completes the handshake.
    assert_eq!(gateway.fetch("GET /a/x", "").status_and_code(), "500 101508");
}
