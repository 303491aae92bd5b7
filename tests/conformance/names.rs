//! Host names of endpoints: looked up once for all workers, again when they change.

use std::net::SocketAddr;

use gateway::{Bounds, Content, Upstreams};
use harness::{ApiBuilder, Gateway, NameServer, Upstream, api, wait_until};
use wire::tls::ClientTls;

/// Endpoints named `up.test`, on the port of `upstream`.
fn named(upstream: &Upstream) -> ApiBuilder {
    let port = upstream.address().port();
    api("/a").open("* /*").to(upstream).rules(move |set| {
        for endpoint in &mut set.endpoints {
            endpoint.host = "up.test".to_owned();
            endpoint.authority = format!("up.test:{port}");
        }
    })
}

fn start(api: ApiBuilder, server: &NameServer, workers: usize) -> Gateway {
    let servers = vec![server.address()];
    let gateway = Gateway::of(api).settings(|settings| {
        settings.gateway.nameservers = servers;
        settings.gateway.workers = Some(workers);
    });
    gateway.start()
}

/// Two upstreams on one port of two addresses of loopback.
fn two_addresses() -> [Upstream; 2] {
    loop {
        let first = Upstream::fixed("one");
        let second = SocketAddr::from(([127, 0, 0, 2], first.address().port()));
        // Another test may have the port.
        if std::net::TcpListener::bind(second).is_ok() {
            return [first, Upstream::fixed_at(second, "two")];
        }
    }
}

#[test]
fn all_addresses_of_a_name_are_used_in_turn() {
    let upstreams = two_addresses();
    let server = NameServer::start(60);
    server.set("up.test", &[[127, 0, 0, 1], [127, 0, 0, 2]]);
    let gateway = start(named(&upstreams[0]), &server, 1);
    let mut client = gateway.connect();
    let mut counts = [0; 2];
    for _ in 0..10 {
        counts[usize::from(client.fetch("GET /a/x", "").text() == "two")] += 1;
    }
    assert_eq!(counts, [5, 5]);
    assert_eq!([upstreams[0].connections(), upstreams[1].connections()], [1, 1]);
}

#[test]
fn a_name_is_looked_up_once_for_all_workers() {
    let upstream = Upstream::fixed("fine");
    let server = NameServer::start(60);
    server.set("up.test", &[[127, 0, 0, 1]]);
    let gateway = start(named(&upstream), &server, 4);
    for _ in 0..40 {
        assert_eq!(gateway.fetch("GET /a/x", "").text(), "fine");
    }
    assert_eq!(server.queries(), 2, "A and AAAA");
}

#[test]
fn a_change_of_the_addresses_is_followed_by_pooled_connections() {
    let upstreams = two_addresses();
    let server = NameServer::start(1);
    server.set("up.test", &[[127, 0, 0, 1]]);
    let gateway = start(named(&upstreams[0]), &server, 1);
    let mut client = gateway.connect();
    assert_eq!(client.fetch("GET /a/x", "").text(), "one");
    server.set("up.test", &[[127, 0, 0, 2]]);
    wait_until(|| client.fetch("GET /a/x", "").text() != "one");
    assert_eq!(client.fetch("GET /a/x", "").text(), "two");
}

#[test]
fn the_last_addresses_are_used_while_no_name_server_answers() {
    let upstream = Upstream::fixed("fine");
    let server = NameServer::start(0);
    server.set("up.test", &[[127, 0, 0, 1]]);
    let gateway = start(named(&upstream), &server, 1);
    let mut client = gateway.connect();
    assert_eq!(client.fetch("GET /a/x", "").text(), "fine");
    server.set("up.test", &[]);
    let before = server.queries();
    // Twice, so that one lookup was complete.
    while server.queries() < before + 4 {
        assert_eq!(client.fetch("GET /a/x", "").text(), "fine");
    }
}

#[test]
fn a_name_without_addresses_is_101503_until_it_has_one() {
    let upstream = Upstream::fixed("fine");
    let server = NameServer::start(60);
    let gateway = start(named(&upstream), &server, 1);
    let mut client = gateway.connect();
    assert_eq!(client.fetch("GET /a/x", "").status_and_code(), "500 101503");
    server.set("up.test", &[[127, 0, 0, 1]]);
    wait_until(|| client.fetch("GET /a/x", "").status_and_code() != "500 101503");
    assert_eq!(client.fetch("GET /a/x", "").text(), "fine");
}

#[test]
fn documents_are_fetched_by_the_same_names_and_on_kept_connections() {
    let (server, upstream) = (NameServer::start(60), Upstream::fixed("keys"));
    server.set("keys.test", &[[127, 0, 0, 1]]);
    let mut settings = harness::settings();
    settings.gateway.nameservers = vec![server.address()];
    let upstreams = Upstreams::start(&settings).unwrap();
    let url = format!("http://keys.test:{}/", upstream.address().port());
    let bounds = Bounds { bytes_max: 100, total_ms: 60_000 };
    let mut queries = 0;
    for number in 0..3 {
        let fetched =
            upstreams.fetch(&url, Content::default(), &ClientTls::insecure(), bounds).unwrap();
        assert_eq!((fetched.status, fetched.body.as_slice()), (200, &b"keys"[..]));
        queries = if number == 0 { server.queries() } else { queries };
    }
    assert_eq!((upstream.connections(), server.queries()), (1, queries));
}
