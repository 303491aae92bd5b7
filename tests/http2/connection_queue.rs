//! The queue for connections to an endpoint. Filling it takes thousands of requests, so they are sent as streams.

use base::limits::{H2_STREAMS_MAX, REQUESTS_MAX, UPSTREAM_CONNECTIONS_MAX, UPSTREAM_WAITERS_MAX};
use harness::{Gateway, Upstream, UpstreamConnection, api};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::client::{Http2Client, Stream};

const FOR_EVER_MS: u32 = 3_600_000;

/// A gateway that has used all connections to its only endpoint.
struct Exhausted {
    gateway: Gateway,
    upstream: Upstream,
    clients: Vec<Http2Client>,
    streams: Vec<Stream>,
    connections: Vec<UpstreamConnection>,
}

impl Exhausted {
    fn new(connect_ms: u32) -> Self {
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
        let upstream = Upstream::manual();
        let gateway = Gateway::of(
            api("/a").open("GET /*, POST /*").to(&upstream).suspend_after(1, FOR_EVER_MS),
        )
        .settings(|settings| {
            settings.gateway.connect_ms = connect_ms;
            settings.gateway.api_requests_max = REQUESTS_MAX;
            settings.gateway.endpoint_waiting_max = REQUESTS_MAX;
        })
        .trusting_loopback_clients()
        .start();
        let (clients, streams, connections) = Default::default();
        let mut exhausted = Self { gateway, upstream, clients, streams, connections };
        for _ in 0..UPSTREAM_CONNECTIONS_MAX {
            exhausted.fetch();
            let mut connection = exhausted.upstream.accept();
            connection.request();
            exhausted.connections.push(connection);
        }
        exhausted
    }

    /// Sends one more request, on a connection with a free stream.
    fn fetch(&mut self) {
        if self.streams.len().is_multiple_of(H2_STREAMS_MAX as usize) {
            self.clients.push(Http2Client::connect(&self.gateway));
        }
        let client = self.clients.last().unwrap();
        self.streams.push(client.start(client.request("GET /a/x", &[]), true).unwrap());
    }

    fn wait_for_waiters(&self, waiters: usize) {
        let state = "state=\"waited_for\"";
        self.gateway.wait_for_metric("penstock_upstream_connections", state, waiters as u64);
    }

    /// The endpoint is not suspended and serves.
    fn check_not_suspended(mut self, waiting: bool) {
        assert_eq!(self.gateway.metric("penstock_endpoints_suspended", ""), 0);
        self.connections[0].ok("first");
        assert_eq!(self.streams.remove(0).response().text(), "first");
        let next = if waiting {
            self.streams.remove(UPSTREAM_CONNECTIONS_MAX - 1)
        } else {
            self.clients[0].start(self.clients[0].request("GET /a/x", &[]), true).unwrap()
        };
        self.connections[0].request();
        self.connections[0].ok("next");
        assert_eq!(next.response().text(), "next");
    }
}

#[test]
fn a_full_queue_is_303001_and_suspends_no_endpoint() {
    let mut exhausted = Exhausted::new(base::limits::RESPONSE_HEAD_MS_MAX / 2);
    // The first to wait is alone, since requests on several connections arrive in any order.
    exhausted.fetch();
    exhausted.wait_for_waiters(1);
    for _ in 1..UPSTREAM_WAITERS_MAX {
        exhausted.fetch();
    }
    exhausted.wait_for_waiters(UPSTREAM_WAITERS_MAX);
    assert_eq!(exhausted.gateway.fetch("POST /a/x", "").status_and_code(), "500 303001");
    exhausted.check_not_suspended(true);
}

#[test]
fn a_timeout_in_the_queue_is_101508_and_suspends_no_endpoint() {
    let exhausted = Exhausted::new(base::limits::CONNECT_MS_MAX);
    assert_eq!(exhausted.gateway.fetch("POST /a/x", "").status_and_code(), "500 101508");
    exhausted.check_not_suspended(false);
}
