//! The line for an endpoint's connections. It takes thousands of requests to have one, so they come as
//! streams.

use base::limits::{H2_STREAMS_MAX, UPSTREAM_CONNECTIONS_MAX, UPSTREAM_WAITERS_MAX};
use harness::{Gateway, Upstream, Visit, api};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::caller::{Caller, Exchange};

const FOR_EVER_MS: u32 = 3_600_000;

/// A gateway whose only endpoint has given all its connections away, and who has them.
struct Taken {
    gateway: Gateway,
    upstream: Upstream,
    callers: Vec<Caller>,
    exchanges: Vec<Exchange>,
    visits: Vec<Visit>,
}

impl Taken {
    fn new(connect_ms: u32) -> Self {
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
        let upstream = Upstream::by_hand();
        let gateway = Gateway::of(
            api("/a").open("GET /*, POST /*").to(&upstream).suspend_after(1, FOR_EVER_MS),
        )
        .settings(|settings| settings.gateway.connect_ms = connect_ms)
        .start();
        let (callers, exchanges, visits) = Default::default();
        let mut taken = Self { gateway, upstream, callers, exchanges, visits };
        for _ in 0..UPSTREAM_CONNECTIONS_MAX {
            taken.ask();
            let mut visit = taken.upstream.accept();
            visit.request();
            taken.visits.push(visit);
        }
        taken
    }

    /// One more request, on a connection that has a stream left.
    fn ask(&mut self) {
        if self.exchanges.len().is_multiple_of(H2_STREAMS_MAX as usize) {
            self.callers.push(Caller::connect(&self.gateway));
        }
        let caller = self.callers.last().unwrap();
        self.exchanges.push(caller.start(caller.request("GET /a/x", &[]), true).unwrap());
    }

    /// The endpoint counts as well, and serves.
    fn check_not_suspended(mut self, waiting: bool) {
        assert_eq!(self.gateway.metric("penstock_endpoints_suspended", ""), 0);
        self.visits[0].ok("first");
        assert_eq!(self.exchanges.remove(0).answer().text(), "first");
        let next = if waiting {
            self.exchanges.remove(UPSTREAM_CONNECTIONS_MAX - 1)
        } else {
            self.callers[0].start(self.callers[0].request("GET /a/x", &[]), true).unwrap()
        };
        self.visits[0].request();
        self.visits[0].ok("next");
        assert_eq!(next.answer().text(), "next");
    }
}

#[test]
fn a_full_line_is_303001_and_suspends_nobody() {
    let mut taken = Taken::new(base::limits::RESPONSE_HEAD_MS_MAX / 2);
    for _ in 0..UPSTREAM_WAITERS_MAX {
        taken.ask();
    }
    taken.gateway.wait_for_metric(
        "penstock_upstream_connections",
        "state=\"waited_for\"",
        UPSTREAM_WAITERS_MAX as u64,
    );
    assert_eq!(taken.gateway.ask("POST /a/x", "").verdict(), "500 303001");
    taken.check_not_suspended(true);
}

#[test]
fn time_spent_in_the_line_is_101508_and_suspends_nobody() {
    let taken = Taken::new(base::limits::CONNECT_MS_MAX);
    assert_eq!(taken.gateway.ask("POST /a/x", "").verdict(), "500 101508");
    taken.check_not_suspended(false);
}
