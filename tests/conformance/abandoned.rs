//! Upstreams that hang: their connections are reset, so that they hold no local port, and requests to them are shed.

use harness::{CannedResponse, Client, Gateway, Issuer, Upstream, api};
use model::{HealthCheck, Scheme};

const GET: &str = "GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n";
/// A time limit that a test waits for.
const SOON_MS: u32 = 50;

fn request(gateway: &Gateway) -> Client {
    let mut client = gateway.connect();
    client.send(GET);
    client
}

#[test]
fn a_request_without_a_response_in_time_resets_its_connection() {
    let upstream = Upstream::manual();
    let slow = api("/a").open("GET /*").to(&upstream).response_head_ms(SOON_MS);
    let gateway = Gateway::of(slow).start();
    let mut client = request(&gateway);
    let mut connection = upstream.accept();
    connection.request();
    assert_eq!(client.read().status_and_code(), "500 101504");
    connection.expect_reset();
}

#[test]
fn a_client_that_leaves_resets_the_connection_to_its_upstream() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let client = request(&gateway);
    let mut connection = upstream.accept();
    connection.request();
    client.reset();
    connection.expect_reset();

    let client = request(&gateway);
    let mut connection = upstream.accept();
    connection.request();
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    client.reset();
    connection.expect_reset();
}

#[test]
fn a_handshake_that_takes_too_long_resets_its_connection() {
    let upstream = Upstream::manual();
    let secure = |set: &mut model::Upstream| {
        set.endpoints.iter_mut().for_each(|endpoint| endpoint.scheme = Scheme::Https);
        set.retry.count = 0;
    };
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream).rules(secure))
        .settings(|settings| settings.gateway.connect_ms = SOON_MS)
        .start();
    let mut client = request(&gateway);
    let mut connection = upstream.accept();
    assert_eq!(client.read().status_and_code(), "500 101508");
    connection.expect_reset();
}

#[test]
fn a_health_check_that_takes_too_long_resets_its_connection() {
    let (good, upstream) = (Upstream::fixed("good"), Upstream::manual());
    let checked = api("/a").open("GET /*").failover(&[&good, &upstream]).rules(|set| {
        set.health_check = Some(HealthCheck {
            path: "/up".to_owned(),
            interval_ms: 3_600_000,
            timeout_ms: SOON_MS,
            unhealthy_after: 9,
            healthy_after: 1,
        });
    });
    let gateway = Gateway::of(checked).start();
    // The checks begin when the API is used.
    assert_eq!(gateway.fetch("GET /a/x", "").text(), "good");
    let mut connection = upstream.accept();
    assert_eq!(connection.request().line(), "GET /up HTTP/1.1");
    connection.expect_reset();
}

/// An upstream that announces the end of the connection, and does not close it.
#[test]
fn a_connection_that_its_upstream_announced_to_close_is_reset() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = request(&gateway);
    let mut connection = upstream.accept();
    connection.request();
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    assert_eq!(client.read().text(), "ok");
    connection.expect_reset();
}

#[test]
fn a_connection_that_its_upstream_closes_first_ends_in_order() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = request(&gateway);
    let mut connection = upstream.accept();
    connection.request();
    connection.send("HTTP/1.1 200 OK\r\n\r\nto the end").half_close();
    assert_eq!(client.read().text(), "to the end");
    connection.expect_end();
}

#[test]
fn an_endpoint_that_hangs_is_shed_at_its_limit_and_others_are_served() {
    let (hanging, good) = (Upstream::manual(), Upstream::fixed("good"));
    let gateway = Gateway::of(api("/a").open("GET /*").to(&hanging))
        .api(api("/b").open("GET /*").failover(&[&hanging, &good]))
        .http_statuses()
        .settings(|settings| settings.gateway.endpoint_waiting_max = 2)
        .start();
    let mut waiting = [request(&gateway), request(&gateway)];
    let mut connections = [hanging.accept(), hanging.accept()];
    connections.iter_mut().for_each(|connection| assert_eq!(connection.request().target(), "/x"));
    let endpoint = format!("endpoint=\"{}\"", hanging.address());
    assert_eq!(gateway.metric("penstock_upstream_requests_waiting", &endpoint), 2);
    let shed = request(&gateway).read();
    assert_eq!(shed.status_and_code(), "503 303001");
    assert_eq!(gateway.fetch("GET /b/x", "").text(), "good", "the next endpoint of a set");
    assert_eq!(gateway.metric("penstock_upstream_requests_shed_total", &endpoint), 2);
    assert_eq!(gateway.metric("penstock_endpoints_suspended", ""), 0);
    // A response that streams does not count as waiting.
    for (connection, client) in connections.iter_mut().zip(&mut waiting) {
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha");
        assert_eq!(client.read_head().status, 200);
    }
    let mut next = request(&gateway);
    let mut connection = hanging.accept();
    connection.request();
    connection.ok("next");
    assert_eq!(next.read().text(), "next");
}

#[test]
fn connections_come_from_the_source_addresses() {
    let (upstream, checked) = (Upstream::manual(), Upstream::manual());
    let good = Upstream::fixed("good");
    let other = api("/b").open("GET /*").failover(&[&good, &checked]).rules(|set| {
        set.health_check = Some(HealthCheck {
            path: "/up".to_owned(),
            interval_ms: 3_600_000,
            timeout_ms: 60_000,
            unhealthy_after: 1,
            healthy_after: 1,
        });
    });
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream))
        .api(other)
        .settings(|settings| {
            let sources = ["127.0.0.7", "127.0.0.8"];
            settings.gateway.source_addresses = sources.map(|ip| ip.parse().unwrap()).to_vec();
        })
        .start();
    let clients = [request(&gateway), request(&gateway)];
    let connections = [upstream.accept(), upstream.accept()];
    let mut sources = connections.map(|connection| connection.peer().ip().to_string());
    sources.sort();
    assert_eq!(sources, ["127.0.0.7", "127.0.0.8"], "each has half of the connections");
    assert_eq!(gateway.fetch("GET /b/x", "").text(), "good");
    let check = checked.accept().peer().ip().to_string();
    assert!(sources.contains(&check), "health checks, too: {check}");
    assert!(gateway.metric("penstock_local_ports_limit", "") > 1_000);
    drop(clients);
}

#[test]
fn questions_about_tokens_come_from_the_source_addresses() {
    let (server, upstream) = (Upstream::manual(), Upstream::fixed("in"));
    let issuer = Issuer::new("resident").introspected_by(&server);
    let gateway = Gateway::of(api("/a").secured("GET /*").to(&upstream))
        .issuer(&issuer)
        .settings(|settings| {
            settings.gateway.source_addresses = vec!["127.0.0.7".parse().unwrap()];
        })
        .start();
    let mut client = gateway.connect();
    client.send("GET /a/x HTTP/1.1\r\nHost: me\r\nAuthorization: Bearer opaque\r\n\r\n");
    assert_eq!(server.accept().peer().ip().to_string(), "127.0.0.7");
}

/// The endpoint's heads are valid, and none of its bodies is complete.
#[test]
fn an_endpoint_that_cuts_off_its_responses_is_suspended() {
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf";
    let cutting = Upstream::responding(move |_| CannedResponse::bytes(cut).then_close());
    let good = Upstream::fixed("good");
    let gateway = Gateway::of(api("/a").open("GET /*").round_robin(&[&cutting, &good])).start();
    let mut is_cut = Vec::new();
    for _ in 0..40 {
        let mut client = request(&gateway);
        let head = client.read_head();
        is_cut.push(head.header("content-length") == Some("9"));
        if is_cut.last() == Some(&true) {
            assert_eq!(client.read_until_close(), "half");
        }
    }
    assert_eq!(gateway.metric("penstock_endpoints_suspended", ""), 1, "{is_cut:?}");
    let ten = vec![true; 10];
    let cuts: Vec<bool> = is_cut.iter().copied().filter(|cut| *cut).collect();
    assert_eq!(cuts, ten, "it gets no more requests: {is_cut:?}");
}
