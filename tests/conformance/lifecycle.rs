//! Changes of the snapshot, the admin port, and draining.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use base::limits::ADMIN_CONNECTIONS_MAX;
use harness::{CannedResponse, Gateway, Upstream, api};

const GET: &str = "GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n";

#[test]
fn no_request_fails_while_its_api_changes() {
    let (one, two) = (Upstream::fixed("one"), Upstream::fixed("two"));
    let gateway = Gateway::of(api("/a").open("GET /*").to(&one))
        .settings(|settings| settings.gateway.workers = Some(2))
        .start();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = gateway.connect();
                    let mut seen = [0_u32; 2];
                    while !done.load(Ordering::Relaxed) {
                        let response = client.send(GET).read();
                        match response.text().as_str() {
                            "one" => seen[0] += 1,
                            "two" => seen[1] += 1,
                            other => panic!("{} {other}", response.status),
                        }
                    }
                    seen
                })
            })
            .collect();
        for round in 0..200 {
            let upstream = if round % 2 == 0 { &two } else { &one };
            // Other APIs are added and removed.
            let neighbour = api(&format!("/n{round}")).open("GET /*").to(upstream);
            gateway.apply(vec![api("/a").open("GET /*").to(upstream), neighbour]);
            let expect = if round % 2 == 0 { "two" } else { "one" };
            assert_eq!(gateway.fetch("GET /a/x", "").text(), expect, "live when `apply` returns");
        }
        done.store(true, Ordering::Relaxed);
        let seen: Vec<[u32; 2]> = clients.into_iter().map(|one| one.join().unwrap()).collect();
        assert!(seen.iter().all(|[one, two]| one + two > 0), "{seen:?}");
    });
}

#[test]
fn an_exchange_sees_one_revision() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = gateway.connect();
    client.send(GET);
    let mut connection = upstream.accept();
    connection.request();
    gateway.apply(Vec::new());
    connection.ok("begun before");
    assert_eq!(client.read().text(), "begun before");
    assert_eq!(client.send(GET).read().status_and_code(), "404 404");
}

#[test]
fn an_edited_api_keeps_its_counters_and_its_connections() {
    let upstream = Upstream::fixed("in");
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = gateway.connect();
    for _ in 0..3 {
        assert_eq!(client.send(GET).read().status, 200);
        gateway.apply(vec![api("/a").open("GET /*, POST /*").to(&upstream)]);
    }
    assert_eq!(gateway.metric("penstock_requests_total", "status=\"200\""), 3);
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn the_admin_port_serves_health_metrics_and_diagnostics() {
    let upstream = Upstream::fixed("in");
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    assert_eq!(gateway.fetch("GET /a/x", "").status, 200);
    for (path, status, text) in
        [("/healthz", 200, "ok\n"), ("/readyz", 200, "ready\n"), ("/diagnostics", 200, "[]")]
    {
        let page = gateway.page(path);
        assert_eq!((page.status, page.text().as_str()), (status, text), "{path}");
    }
    let unknown = gateway.page("/else");
    assert_eq!(unknown.status, 404);
    assert!(unknown.text().contains("/healthz /readyz /metrics /diagnostics"));
    let labels = "api=\"a\",version=\"1.0\",method=\"GET\",operation=\"/*\",status=\"200\"";
    assert_eq!(gateway.metric("penstock_requests_total", labels), 1);
    assert_eq!(gateway.metric("penstock_request_seconds_count", "api=\"a\""), 1);
    assert_eq!(gateway.metric("penstock_build_info", "version=\"test\""), 1);
}

#[test]
fn slow_clients_of_the_admin_port_give_way_to_new_ones() {
    let gateway = Gateway::of(api("/a").open("GET /*").to(&Upstream::fixed("in"))).start();
    let slow = || {
        let mut client = harness::Client::connect(gateway.admin());
        client.send("GET /healthz HTTP/1.1\r\n");
        client
    };
    let mut slow: Vec<_> = (0..ADMIN_CONNECTIONS_MAX).map(|_| slow()).collect();
    assert_eq!(gateway.page("/readyz").status, 200);
    slow.remove(0).expect_close();
    for client in &mut slow {
        assert_eq!(client.send("Host: me\r\n\r\n").read().status, 200, "the others are open");
    }
}

#[test]
fn a_drain_fails_readiness_first_then_idle_connections_close_and_new_ones_get_a_response() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream))
        // A connection that closes only then closes too late for this test.
        .settings(|settings| settings.gateway.drain_s = 3_600)
        .start();
    let (address, admin) = (gateway.http(), gateway.admin());
    // One idle connection, one with an open exchange.
    let mut idle = gateway.connect();
    idle.send(GET);
    let mut connection = upstream.accept();
    connection.request();
    connection.ok("before");
    assert_eq!(idle.read().text(), "before");
    let mut busy = gateway.connect();
    busy.send(GET);
    connection.request();
    thread::scope(|scope| {
        let draining = scope.spawn(|| gateway.drain());
        let ready = || harness::Client::connect(admin).fetch("GET /readyz", "").status;
        while ready() == 200 {
            thread::yield_now();
        }
        // The listener accepts connections until load balancers have noticed.
        let mut late = harness::Client::connect(address);
        connection.ok("under way");
        assert_eq!(busy.read().text(), "under way");
        // Connections are kept until the listeners close; then each gets one more response.
        loop {
            late.send(GET);
            connection.request();
            connection.ok("one more");
            let response = late.read();
            assert_eq!(response.text(), "one more");
            if response.header("connection") == Some("close") {
                break;
            }
        }
        late.expect_close();
        // It sends no more requests.
        idle.expect_close();
        drop(busy);
        assert!(draining.join().unwrap(), "no connection was cut");
    });
}

#[test]
fn a_drain_serves_connections_waiting_in_the_backlog() {
    let upstream = Upstream::fixed("in");
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream))
        .settings(|settings| settings.admin.listen = None)
        .start();
    let mut clients: Vec<_> = (0..50).map(|_| gateway.connect()).collect();
    for client in &mut clients {
        client.send(GET);
    }
    let drained = thread::spawn(move || gateway.drain());
    for mut client in clients {
        let response = client.read();
        assert_eq!(response.text(), "in");
        if response.header("connection") == Some("close") {
            client.expect_close();
        }
    }
    assert!(drained.join().unwrap());
}

#[test]
fn exchanges_open_after_drain_s_are_cut() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream))
        .settings(|settings| {
            settings.gateway.drain_s = 0;
            settings.admin.listen = None;
        })
        .start();
    let mut client = gateway.connect();
    client.send(GET);
    let mut connection = upstream.accept();
    connection.request();
    assert!(!gateway.drain(), "a connection was cut");
    client.expect_close();
    connection.expect_close();
}

#[test]
fn several_workers_share_one_address() {
    let upstream = Upstream::responding(|request| CannedResponse::ok(request.target()));
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream))
        .settings(|settings| settings.gateway.workers = Some(4))
        .start();
    for number in 0..40 {
        assert_eq!(gateway.fetch(&format!("GET /a/{number}"), "").text(), format!("/{number}"));
    }
    assert_eq!(gateway.metric("penstock_requests_total", "status=\"200\""), 40);
}
