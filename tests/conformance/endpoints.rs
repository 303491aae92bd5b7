//! Which endpoint answers, when one is left alone, and what the caller is told when none does.

use harness::{Answer, ApiBuilder, Client, Gateway, Upstream, api};

const GET: &str = "GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n";
/// Longer than any test: what is suspended stays so.
const FOR_EVER_MS: u32 = 3_600_000;

/// The verdicts or bodies of `count` requests on one connection.
#[track_caller]
fn check(api: ApiBuilder, method: &str, count: usize, expect: &str) -> Gateway {
    let gateway = Gateway::of(api.open("* /*")).start();
    let mut client = gateway.connect();
    let mut got = Vec::new();
    for _ in 0..count {
        let answer = client.ask(&format!("{method} /a/x"), "");
        got.push(if answer.status == 200 { answer.text() } else { answer.verdict() });
    }
    assert_eq!(got.join(", "), expect);
    gateway
}

#[test]
fn round_robin_asks_each_in_turn() {
    let all = ["one", "two", "three"].map(Upstream::saying);
    check(api("/a").round_robin(&[&all[0], &all[1], &all[2]]), "GET", 4, "one, two, three, one");
}

#[test]
fn round_robin_goes_on_to_the_next_where_a_connection_is_refused() {
    let (refusing, good) = (Upstream::refusing(), Upstream::saying("good"));
    for method in ["GET", "POST"] {
        let api = api("/a").round_robin(&[&refusing, &good]);
        check(api, method, 3, "good, good, good");
    }
}

#[test]
fn failover_stays_with_the_first_that_works() {
    let all = ["one", "two"].map(Upstream::saying);
    check(api("/a").failover(&[&all[0], &all[1]]), "GET", 3, "one, one, one");
    let (refusing, good) = (Upstream::refusing(), Upstream::saying("good"));
    check(api("/a").failover(&[&refusing, &good]), "POST", 3, "good, good, good");
}

#[test]
fn a_refused_connection_is_101503() {
    check(api("/a").to(&Upstream::refusing()), "GET", 2, "500 101503, 500 101503");
    check(api("/a").to(&Upstream::refusing()), "POST", 1, "500 101503");
}

#[test]
fn a_suspended_endpoint_is_left_alone_and_told_as_303001() {
    let gateway = check(
        api("/a").to(&Upstream::refusing()).suspend_after(2, FOR_EVER_MS),
        "GET",
        3,
        "500 101503, 500 303001, 500 303001",
    );
    assert_eq!(gateway.metric("penstock_endpoints_suspended", ""), 1);
}

#[test]
fn a_set_whose_endpoints_are_all_suspended_is_told_as_303000() {
    let (one, two) = (Upstream::refusing(), Upstream::refusing());
    for set in [api("/a").round_robin(&[&one, &two]), api("/a").failover(&[&one, &two])] {
        let gateway = Gateway::of(set.suspend_after(1, FOR_EVER_MS).open("* /*")).start();
        let mut client = gateway.connect();
        assert_eq!(client.send(GET).read().verdict(), "500 101503");
        assert_eq!(client.send(GET).read().verdict(), "500 303000");
        assert_eq!(gateway.metric("penstock_endpoints_suspended", ""), 2);
    }
}

#[test]
fn a_suspended_endpoint_of_a_set_is_left_out() {
    let (silent, good) = (Upstream::by_hand(), Upstream::saying("good"));
    let gateway = Gateway::of(
        api("/a").failover(&[&silent, &good]).suspend_after(1, FOR_EVER_MS).open("* /*"),
    )
    .start();
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 2\r\n\r\nhi");
    let mut visit = silent.accept();
    visit.request();
    visit.close();
    assert_eq!(client.read().verdict(), "500 101505");
    assert_eq!(client.send(GET).read().text(), "good");
    assert!(silent.is_left_alone());
}

#[test]
fn a_status_never_suspends() {
    let upstream =
        Upstream::answering(|_| Answer::bytes("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"));
    check(api("/a").to(&upstream).suspend_after(1, FOR_EVER_MS), "GET", 3, "503, 503, 503");
}

#[test]
fn an_endpoint_that_recovers_is_probed_and_used_again() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").to(&upstream).suspend_after(1, 1).open("* /*")).start();
    let mut client = gateway.connect();
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 2\r\n\r\nhi");
    let mut visit = upstream.accept();
    visit.request();
    visit.close();
    assert_eq!(client.read().verdict(), "500 101505");
    // The worker looks at the clock a few times a second.
    let mut probe = Probe::of(&gateway);
    let mut visit = probe.until_accepted(&upstream);
    visit.request();
    visit.ok("recovered");
    assert_eq!(probe.client.read().text(), "recovered");
    assert_eq!(gateway.metric("penstock_endpoints_suspended", ""), 0);
}

/// Asks until the endpoint is no longer left alone.
struct Probe {
    client: Client,
}

impl Probe {
    fn of(gateway: &Gateway) -> Self {
        Self { client: gateway.connect() }
    }

    fn until_accepted(&mut self, upstream: &Upstream) -> harness::Visit {
        loop {
            self.client.send(GET);
            match upstream.accept_or(|| self.client.has_answer()) {
                Some(visit) => return visit,
                None => assert_eq!(self.client.read().verdict(), "500 303001"),
            }
        }
    }
}

#[test]
fn a_backend_that_does_not_answer_in_time_is_101504() {
    let upstream = Upstream::by_hand();
    for (http, expect) in [(false, "500 101504"), (true, "504 101504")] {
        let mut gateway = Gateway::of(api("/a").to(&upstream).response_head_ms(50).open("* /*"));
        if http {
            gateway = gateway.http_statuses();
        }
        let gateway = gateway.start();
        let mut client = gateway.connect();
        client.send(GET);
        let mut visit = upstream.accept();
        visit.request();
        assert_eq!(client.read().verdict(), expect);
        visit.expect_close();
        assert!(upstream.is_left_alone(), "what may have been done is not asked for again");
    }
}

#[test]
fn an_answer_that_stalls_ends_the_connection() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").to(&upstream).open("* /*"))
        .settings(|settings| settings.gateway.stall_ms = 50)
        .start();
    let mut client = gateway.connect();
    client.send(GET);
    let mut visit = upstream.accept();
    visit.request();
    visit.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    assert!(client.read_until_close().ends_with("\r\n\r\nhalf"));
    visit.expect_close();
    gateway.wait_for_metric("penstock_faults_total", "blame=\"upstream\"", 1);
}

#[test]
fn a_backend_that_never_completes_its_handshake_is_101508() {
    let identity = harness::Identity::of(&["localhost"]);
    let upstream = Upstream::by_hand_tls(&identity);
    let gateway = Gateway::of(api("/a").to(&upstream).open("* /*"))
        .trusting(&identity)
        .settings(|settings| settings.gateway.connect_ms = 50)
        .start();
    // Nobody accepts; the kernel does, and then there is silence.
    assert_eq!(gateway.ask("GET /a/x", "").verdict(), "500 101508");
}
