//! Retries, time limits of a try, balancing by load, limits on connections, circuit breakers, mutual TLS.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::limits::HEALTH_CHECKS_MAX;
use harness::{ApiBuilder, CannedResponse, Gateway, Identity, Upstream, api, wait_until};
use model::{CircuitBreaker, ConnectionLimits, HealthCheck, Suspension};
use wire::tls::EndpointTls;

const GET: &str = "GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n";
const POST: &str = "POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 2\r\n\r\nhi";
/// Longer than any test.
const FOR_EVER_MS: u32 = 3_600_000;

fn gateway(api: ApiBuilder) -> Gateway {
    Gateway::of(api.open("* /*")).start()
}

fn busy() -> CannedResponse {
    CannedResponse::bytes("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")
}

#[test]
fn a_request_that_is_safe_to_repeat_is_retried_when_its_try_takes_too_long() {
    let upstream = Upstream::manual();
    let gateway = gateway(api("/a").to(&upstream).rules(|set| set.try_ms = Some(50)));
    let mut client = gateway.connect();
    client.send(GET);
    let mut first = upstream.accept();
    first.request();
    let mut second = upstream.accept();
    second.request();
    second.ok("in time");
    assert_eq!(client.read().text(), "in time");
    first.expect_close();
    assert_eq!(gateway.metric("penstock_retries_total", ""), 1);

    client.send(POST);
    second.request();
    assert_eq!(client.read().status_and_code(), "500 101504");
    assert!(upstream.has_no_connection());
}

#[test]
fn a_status_is_retried_if_the_set_lists_it_and_the_request_is_safe_to_repeat() {
    let responding = || {
        let upstream = Upstream::manual();
        let gateway = gateway(api("/a").to(&upstream).rules(|set| set.retry.statuses = vec![503]));
        (upstream, gateway)
    };
    let (upstream, gateway) = responding();
    let mut client = gateway.connect();
    client.send(GET);
    let mut connection = upstream.accept();
    connection.request();
    connection.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    let mut fresh = upstream.accept();
    fresh.request();
    fresh.ok("better");
    assert_eq!(client.read().text(), "better");

    let (upstream, gateway) = responding();
    let mut client = gateway.connect();
    client.send(POST);
    let mut connection = upstream.accept();
    connection.request();
    connection.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read().status, 503);
    assert_eq!(gateway.metric("penstock_retries_total", ""), 0);
}

#[test]
fn a_request_is_retried_as_often_as_its_set_allows() {
    for count in [0, 1, 3] {
        let upstream = Upstream::responding(|_| busy());
        let gateway = gateway(api("/a").to(&upstream).rules(|set| {
            set.retry.statuses = vec![503];
            (set.retry.count, set.retry.pause_ms) = (count, 1);
        }));
        assert_eq!(gateway.fetch("GET /a/x", "").text(), "busy", "the last response");
        assert_eq!(upstream.requests().len(), 1 + count as usize);
    }
}

#[test]
fn retries_end_when_their_budget_is_spent() {
    let upstream = Upstream::responding(|_| busy());
    let gateway = gateway(api("/a").to(&upstream).rules(|set| {
        set.retry.statuses = vec![503];
        set.retry.budget_percent = 0;
    }));
    assert_eq!(gateway.fetch("GET /a/x", "").text(), "busy");
    assert_eq!(upstream.requests().len(), 1);
    assert_eq!(gateway.metric("penstock_retries_denied_total", ""), 1);
}

#[test]
fn a_retry_prefers_an_endpoint_that_was_not_tried() {
    let (first, second) = (Upstream::responding(|_| busy()), Upstream::fixed("second"));
    let gateway =
        gateway(api("/a").failover(&[&first, &second]).rules(|set| set.retry.statuses = vec![503]));
    assert_eq!(gateway.fetch("GET /a/x", "").text(), "second");
}

#[test]
fn an_endpoint_with_fewer_requests_in_progress_is_used() {
    let (held, free) = (Upstream::manual(), Upstream::fixed("free"));
    let gateway = gateway(api("/a").least_requests(&[&held, &free]));
    let mut waiting = gateway.connect();
    let mut connection = loop {
        waiting.send(GET);
        match held.accept_or(|| waiting.has_response()) {
            Some(connection) => break connection,
            None => assert_eq!(waiting.read().text(), "free"),
        }
    };
    connection.request();
    for _ in 0..20 {
        assert_eq!(gateway.fetch("GET /a/x", "").text(), "free");
    }
    connection.ok("held");
    assert_eq!(waiting.read().text(), "held");
}

#[test]
fn a_set_limits_its_connections_and_the_requests_that_wait() {
    let upstream = Upstream::manual();
    let limits = |waiting_max, wait_ms| ConnectionLimits {
        in_use_max: Some(1),
        waiting_max: Some(waiting_max),
        idle_max: None,
        wait_ms,
    };
    let gateway = Gateway::of(
        api("/a").to(&upstream).rules(|set| set.connections = limits(1, None)).open("* /*"),
    )
    .api(api("/b").to(&upstream).rules(|set| set.connections = limits(1, Some(50))).open("* /*"))
    .start();
    let (mut first, mut second) = (gateway.connect(), gateway.connect());
    first.send(GET);
    let mut connection = upstream.accept();
    connection.request();
    second.send(GET);
    gateway.wait_for_metric("penstock_upstream_connections", "state=\"waited_for\"", 1);
    assert_eq!(gateway.fetch("GET /a/x", "").status_and_code(), "500 303001", "too many wait");
    connection.ok("first");
    assert_eq!(first.read().text(), "first");
    connection.request();
    connection.ok("second");
    assert_eq!(second.read().text(), "second");

    first.send("GET /b/x HTTP/1.1\r\nHost: me\r\n\r\n");
    connection.request();
    assert_eq!(gateway.fetch("GET /b/x", "").status_and_code(), "500 303001", "waits too long");
    connection.ok("first");
    assert_eq!(first.read().text(), "first");
}

#[test]
fn idle_connections_beyond_the_limit_of_the_set_are_closed() {
    let upstream = Upstream::manual();
    let gateway = gateway(api("/a").to(&upstream).rules(|set| set.connections.idle_max = Some(0)));
    let mut client = gateway.connect();
    client.send(GET);
    let mut connection = upstream.accept();
    connection.request();
    connection.ok("only");
    assert_eq!(client.read().text(), "only");
    connection.expect_close();
}

#[test]
fn a_circuit_breaker_counts_the_statuses_that_it_lists() {
    let upstream = Upstream::responding(|_| busy());
    let gateway = gateway(api("/a").to(&upstream).rules(|set| {
        set.suspension = Suspension::Ratio(CircuitBreaker {
            requests_min: 2,
            window_ms: FOR_EVER_MS,
            failure_ratio: 0.5,
            reset_ms: FOR_EVER_MS,
            statuses: vec![503],
        });
    }));
    let mut client = gateway.connect();
    for expect in ["503", "503", "500 303001", "500 303001"] {
        assert_eq!(client.send(GET).read().status_and_code(), expect);
    }
    assert_eq!(gateway.metric("penstock_endpoints_suspended", ""), 1);
}

#[test]
fn a_status_that_opens_the_breaker_is_the_response_and_not_retried() {
    let upstream = Upstream::responding(|_| busy());
    let gateway = gateway(api("/a").to(&upstream).rules(|set| {
        set.retry.statuses = vec![503];
        set.suspension = Suspension::Ratio(CircuitBreaker {
            requests_min: 1,
            window_ms: FOR_EVER_MS,
            failure_ratio: 0.5,
            reset_ms: FOR_EVER_MS,
            statuses: vec![503],
        });
    }));
    let mut client = gateway.connect();
    let response = client.send(GET).read();
    assert_eq!((response.status, response.text().as_str()), (503, "busy"));
    assert_eq!(client.send(GET).read().status_and_code(), "500 303001");
    assert_eq!(upstream.requests().len(), 1);
}

/// Every connection may be served by another worker.
#[test]
fn a_failure_that_one_worker_finds_counts_for_all() {
    let upstream = Upstream::refusing();
    let api = api("/a").to(&upstream).suspend_after(1, FOR_EVER_MS).open("* /*");
    let gateway = Gateway::of(api).settings(|settings| settings.gateway.workers = Some(4)).start();
    assert_eq!(gateway.fetch("GET /a/x", "").status_and_code(), "500 101503");
    for _ in 0..40 {
        assert_eq!(gateway.fetch("GET /a/x", "").status_and_code(), "500 303001");
    }
    assert_eq!(gateway.metric("penstock_endpoints_suspended", ""), 1);
}

#[test]
fn an_upstream_that_requires_a_client_certificate_gets_that_of_its_host() {
    let (server, ours, other) =
        (Identity::of(&["localhost"]), Identity::of(&["us"]), Identity::of(&["other"]));
    let ok = |_: &harness::Request| CannedResponse::ok("welcome");
    let upstream = Upstream::responding_mutual_tls(&server, &ours, ok);
    let fetch = |hosts: &str, identity: &Identity| {
        let pair = (identity.cert_pem.clone().into_bytes(), identity.key_pem.clone().into_bytes());
        let endpoint = EndpointTls {
            hosts: vec![hosts.to_owned()],
            identity: Some(pair),
            ca_pems: vec![server.cert_pem.clone().into_bytes()],
        };
        let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
            .trusting(&server)
            .endpoint_tls(endpoint)
            .start();
        gateway.fetch("POST /a/x", "")
    };
    assert_eq!(fetch("localhost", &ours).text(), "welcome");
    assert!(fetch("localhost", &other).status_and_code().starts_with("500 1015"));
    assert!(fetch("elsewhere", &ours).status_and_code().starts_with("500 1015"));
}

#[test]
fn health_checks_take_an_endpoint_out_of_its_set_and_bring_it_back() {
    let healthy = Arc::new(AtomicBool::new(true));
    let is_healthy = Arc::clone(&healthy);
    let first = Upstream::responding(move |request| match request.line() {
        "GET /up HTTP/1.1" if is_healthy.load(Ordering::Acquire) => CannedResponse::ok("up"),
        "GET /up HTTP/1.1" => busy(),
        _ => CannedResponse::ok("first"),
    });
    let second = Upstream::fixed("second");
    let gateway = gateway(api("/a").failover(&[&first, &second]).rules(|set| {
        set.health_check = Some(HealthCheck {
            path: "/up".to_owned(),
            interval_ms: 1,
            timeout_ms: 60_000,
            unhealthy_after: 2,
            healthy_after: 2,
        });
    }));
    let mut client = gateway.connect();
    assert_eq!(client.fetch("GET /a/x", "").text(), "first");
    healthy.store(false, Ordering::Release);
    wait_until(|| client.fetch("GET /a/x", "").text() != "first");
    assert_eq!(gateway.metric("penstock_endpoints_suspended", ""), 1);
    assert!(gateway.metric("penstock_health_checks_total", "outcome=\"failed\"") >= 2);
    healthy.store(true, Ordering::Release);
    wait_until(|| client.fetch("GET /a/x", "").text() != "second");
    assert_eq!(gateway.metric("penstock_endpoints_suspended", ""), 0);
}

#[test]
fn an_endpoint_between_two_checks_keeps_no_other_from_being_checked() {
    let upstream = Upstream::fixed("up");
    let endpoints = [&upstream; HEALTH_CHECKS_MAX + 1];
    let gateway = gateway(api("/a").failover(&endpoints).rules(|set| {
        set.health_check = Some(HealthCheck {
            path: "/up".to_owned(),
            interval_ms: FOR_EVER_MS,
            timeout_ms: 60_000,
            unhealthy_after: 1,
            healthy_after: 1,
        });
    }));
    assert_eq!(gateway.fetch("GET /a/x", "").text(), "up");
    let passed = endpoints.len() as u64;
    gateway.wait_for_metric("penstock_health_checks_total", "outcome=\"passed\"", passed);
}
