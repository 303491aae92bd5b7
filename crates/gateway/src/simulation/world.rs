//! One simulation: from a seed to what must be true in the end.

use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use base::Method;
use base::limits::{
    HELD_BODY_BYTES_DEFAULT, HELD_BYTES_DEFAULT, IDLE_UPSTREAM_MS_MAX, MIN_RATE_DEFAULT, SWEEP_MS,
};
use model::{
    Api, ApiState, Endpoint, FaultStatus, LoadedApi, Operation, Scheme, Security, Snapshot,
    Upstream as EndpointSet, UpstreamKind,
};
use stages::Routes;
use tokio::sync::mpsc::channel;
use wire::stream::Stream;
use wire::tls::ClientTls;

use super::client::{Client, Ledger};
use super::executor::{Executor, Role};
use super::http2;
use super::ledger::Exchange;
use super::network::Network;
use super::random::Random;
use super::state::Weather;
use super::upstream::Upstream;
use super::{NETWORK, TestClock};
use crate::account::AccessLines;
use crate::artefacts::Integration;
use crate::compiled::{Compiled, Live};
use crate::descriptors::Descriptors;
use crate::forward::Shared;
use crate::heavy::HeavyPool;
use crate::listen::{OpenConnection, serve_stream};
use crate::message::Peer;
use crate::quotas::Quotas;
use crate::worker::{Parts, Worker};

/// A simulation that lasts longer does not end, in microseconds.
const LONGEST_US: u64 = 600_000_000;
const SWEEP_US: u64 = SWEEP_MS as u64 * 1_000;

/// The events of a failed simulation.
pub(super) struct World {
    seed: u64,
    /// Nothing goes wrong.
    calm: bool,
    /// Few requests may be in progress at once.
    crowded: bool,
    /// Size of the largest bodies.
    large: usize,
    network: Network,
    executor: Executor,
    random: Random,
    worker: Rc<Worker>,
    ledger: Ledger,
    next_sweep_us: u64,
    /// When the gateway is told to drain.
    drains_us: u64,
}

impl World {
    pub(super) fn is_calm(&self) -> bool {
        self.calm
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.crowded
    }

    pub(super) fn has_large_bodies(&self) -> bool {
        self.large > 3_000
    }

    pub(super) fn drains(&self) -> bool {
        self.drains_us < u64::MAX
    }

    pub(super) fn new(seed: u64, traced: bool) -> Self {
        let mut random = Random::new(seed, 1);
        let calm = random.percent(20);
        let large = if random.percent(4) { 200_000 } else { 3_000 };
        let few = random.pick(&[300, 3_000, 16_384]);
        let weather = Weather {
            latency_us: random.pick(&[1, 1_000, 20_000]),
            capacity: if large > 3_000 { 100_000 } else { few },
            cut: random.pick(&[0, 20, 80]),
            again: random.pick(&[0, 10, 30]),
            breaks: if calm { 0 } else { random.pick(&[0, 5, 30]) },
            refused: if calm { 0 } else { random.pick(&[0, 10, 50]) },
            unanswered: if calm { 0 } else { random.pick(&[0, 0, 5]) },
        };
        let drains = !calm && random.percent(15);
        let drains_us = if drains { random.below(2_000_000) as u64 } else { u64::MAX };
        let crowded = !calm && random.percent(20);
        let network = Network::new(weather, Random::new(seed, 2), traced);
        network.log(|| format!("seed {seed}, calm: {calm}, crowded: {crowded}, {weather:?}"));
        NETWORK.set(Some(network.clone()));
        let few = |random: &mut Random| {
            if crowded && random.percent(60) { random.between(1, 3) } else { 100 }
        };
        let limits =
            Limits { worker: few(&mut random), client: few(&mut random), api: few(&mut random) };
        let descriptors =
            Descriptors { connections_max: 100, requests_max: limits.worker, pipes_max: 0 };
        let clock = TestClock::Simulated(network.clone());
        let worker = Worker::new(
            clock,
            Parts {
                number: 0,
                compiled: compiled(&limits),
                access: AccessLines::default(),
                key_sets: channel(1).0,
                descriptors,
                upstreams: Shared::new(1, &Random::new(seed, 4)),
                heavy: HeavyPool::start(0).expect("no thread is needed"),
                meters: Arc::default(),
            },
        );
        let mut turns = Random::new(seed, 6);
        if crowded && turns.percent(50) {
            worker.saturation.limit_to(turns.between(1, 3));
        }
        Self {
            seed,
            calm,
            crowded,
            large,
            network,
            executor: Executor::default(),
            random,
            worker,
            ledger: Rc::default(),
            next_sweep_us: SWEEP_US,
            drains_us,
        }
    }

    pub(super) fn take_trace(&self) -> Vec<String> {
        self.network.take_trace()
    }

    /// Runs it to its end, and checks everything. Returns the number of exchanges.
    pub(super) fn run(&mut self) -> usize {
        for number in 0..self.random.between(1, 5) {
            self.add_client(number as u64);
        }
        self.run_until(|executor| {
            executor.running(Role::Client) + executor.running(Role::Gateway) == 0
        });
        self.check();
        self.check_released();
        self.ledger.borrow().len()
    }

    /// A client that connects some time from now.
    fn add_client(&mut self, number: u64) {
        let mut random = Random::new(self.seed, 10 + number);
        let http2 = Random::new(self.seed, 50 + number).percent(20);
        let mut requests = Vec::new();
        for _ in 0..random.between(1, 4) {
            let mut ledger = self.ledger.borrow_mut();
            let id = ledger.len();
            let mut exchange = Exchange::plan(id, &mut random, self.calm, self.large);
            if http2 {
                http2::adapt(&mut exchange);
            }
            ledger.push(exchange);
            requests.push(id);
            if ledger[id].http10 {
                break;
            }
        }
        let leaves = !self.calm && random.percent(10);
        let client = Client {
            network: self.network.clone(),
            ledger: Rc::clone(&self.ledger),
            requests,
            pipelines: random.percent(25),
            http2,
            leaves_us: leaves.then(|| random.below(2_000_000) as u64),
            random: random.clone(),
        };
        let (ours, theirs) = self.network.accept();
        let (network, worker) = (self.network.clone(), Rc::clone(&self.worker));
        let start_us = random.pause_us(1_000_000);
        let connection = OpenConnection::new(&worker);
        self.executor.spawn(Role::Gateway, async move {
            network.sleep(start_us).await;
            let peer = Rc::new(Peer::new(([192, 0, 2, 1], 1_024).into(), false, &[]));
            let stream = Stream::Simulated(Box::new(theirs));
            serve_stream(connection, stream, peer, true).await;
        });
        let network = self.network.clone();
        self.executor.spawn(Role::Client, async move {
            network.sleep(start_us).await;
            client.run(ours).await;
        });
    }

    /// Runs tasks in random order; when all of them wait, the time moves on.
    fn run_until(&mut self, done: impl Fn(&Executor) -> bool) {
        loop {
            while let Some((port, end)) = self.network.next_upstream() {
                let upstream = Upstream {
                    network: self.network.clone(),
                    ledger: Rc::clone(&self.ledger),
                    seed: self.seed,
                    calm: self.calm,
                    large: self.large,
                };
                self.executor.spawn(Role::Upstream, upstream.serve(port, end));
            }
            if self.executor.step(&mut self.random) {
                continue;
            }
            self.check_turns();
            if done(&self.executor) {
                return;
            }
            let next_us = self.network.next_event_us().unwrap_or(u64::MAX);
            let next_us = next_us.min(self.next_sweep_us).min(self.drains_us);
            assert!(next_us < LONGEST_US, "it does not end");
            self.network.advance(next_us);
            if next_us == self.next_sweep_us {
                self.worker.sweep();
                self.next_sweep_us += SWEEP_US;
            }
            if next_us == self.drains_us {
                self.network.log(|| "the gateway drains".to_owned());
                self.drains_us = u64::MAX;
                self.worker.draining.set(true);
                self.worker.resources.watches.wake_all();
            }
        }
    }

    /// When everything waits, only requests that wait for upstreams have turns: others would stop these.
    fn check_turns(&self) {
        let mut upstream = 0;
        self.worker.pools.each(|_, _, pool| upstream += pool.in_use + pool.waiting);
        let turns = self.worker.saturation.in_use();
        assert!(turns as u64 <= upstream, "{turns} turns, {upstream} requests wait for upstreams");
    }

    fn check(&self) {
        let ledger = self.ledger.borrow();
        ledger.iter().for_each(|exchange| exchange.check(self.calm));
        let at_fault = ledger.iter().filter(|exchange| exchange.is_clients_fault()).count() as u64;
        let blamed = self.worker.tally.faults_client.get();
        // In a crowd, slow clients give way.
        assert!(
            self.crowded || blamed <= at_fault,
            "{blamed} clients blamed, {at_fault} at fault: {ledger:#?}"
        );
    }

    /// Everything that was lent or counted is back.
    fn check_released(&mut self) {
        let worker = Rc::clone(&self.worker);
        let exchanges = self.ledger.borrow().len();
        worker.pools.each(|_, port, pool| {
            assert_eq!((pool.in_use, pool.waiting), (0, 0), "connections to port {port}");
            assert!(pool.idle <= exchanges as u64, "idle connections to port {port}: {pool:?}");
        });
        assert_eq!(worker.busy.get(), 0, "requests in progress");
        assert_eq!(worker.connections.get(), 0, "connections");
        assert_eq!(worker.resources.buffers.lent(), 0, "buffers");
        // Idle connections are closed in time, so that their upstreams end.
        let idle_us = u64::from(IDLE_UPSTREAM_MS_MAX) * 1_000;
        let (network, until_us) =
            (self.network.clone(), self.network.now_us() + idle_us + 2 * SWEEP_US);
        self.run_until(|executor| {
            executor.running(Role::Upstream) == 0 && network.now_us() >= until_us
        });
        worker.pools.each(|_, port, pool| assert_eq!(pool.idle, 0, "idle connections to {port}"));
        assert_eq!(worker.resources.watches.len(), 0, "deadlines");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        NETWORK.set(None);
    }
}

/// Maximum numbers of requests in progress.
struct Limits {
    worker: usize,
    client: usize,
    api: usize,
}

/// Three APIs: one endpoint, two in turn, and a second one as replacement.
fn compiled(limits: &Limits) -> Compiled {
    static ROUTES: OnceLock<Arc<Routes>> = OnceLock::new();
    let routes = ROUTES.get_or_init(|| {
        let apis = [
            api("/one", UpstreamKind::Single, &[9_001]),
            api("/turn", UpstreamKind::RoundRobin, &[9_001, 9_002]),
            api("/next", UpstreamKind::Failover, &[9_003, 9_002]),
        ];
        let apis = apis.map(|api| LoadedApi { api: Arc::new(api), state: ApiState::Serving });
        let snapshot = Snapshot { revision: 1, apis: apis.to_vec(), ..Snapshot::default() };
        Arc::new(Routes::compile(&snapshot, None))
    });
    let live = Live {
        cors: None,
        fault_status: FaultStatus::Http,
        connect_ms: 1_000,
        head_ms: 10_000,
        idle_ms: 20_000,
        stall_ms: 5_000,
        connections_max: 100,
        client_connections_max: 100,
        client_requests_max: limits.client,
        api_requests_max: limits.api,
        min_rate: MIN_RATE_DEFAULT,
        held_body_bytes_max: HELD_BODY_BYTES_DEFAULT,
        held_bytes_max: HELD_BYTES_DEFAULT,
        drain_s: 10,
        trusted_proxies: Vec::new(),
        client_tls: ClientTls::insecure(),
        backend_jwt: None,
    };
    let integration = Integration::compile(&Snapshot::default(), None, None);
    let (routes, policies) = (Arc::clone(routes), Arc::default());
    let quotas = Quotas::compile(&Snapshot::default(), &routes, None);
    Compiled { routes, integration, policies, quotas, live: Arc::new(live) }
}

pub(crate) fn api(base_path: &str, kind: UpstreamKind, ports: &[u16]) -> Api {
    let endpoint = |port: &u16| Endpoint {
        scheme: Scheme::Http,
        host: "127.0.0.1".to_owned(),
        port: *port,
        path: String::new(),
        authority: format!("127.0.0.1:{port}"),
    };
    let operation = |method| Operation {
        method,
        template: "/*".to_owned(),
        security: Security::Open,
        production: None,
        sandbox: None,
        plan: None,
        policies: None,
        response_cache: None,
    };
    let methods = [Method::Get, Method::Head, Method::Post, Method::Put, Method::Delete];
    Api {
        operations: methods.into_iter().map(operation).collect(),
        upstreams: vec![EndpointSet {
            response_head_ms: 8_000,
            ..EndpointSet::new(kind, ports.iter().map(endpoint).collect())
        }],
        production: Some(0),
        ..Api::new(base_path.to_owned(), "1".to_owned(), base_path.to_owned())
    }
}
