//! One simulation: from a seed to the invariants at the end.

use std::rc::Rc;
use std::sync::Arc;

use base::SystemEntropy;
use base::limits::{HELD_BYTES_DEFAULT, IDLE_UPSTREAM_MS_MAX, SWEEP_MS};
use model::{FaultStatus, Settings};
use stages::authenticate::Proofs;
use tokio::sync::mpsc::{Receiver, channel};
use wire::stream::Stream;
use wire::tls::ClientTls;

use super::client::{Client, Ledger};
use super::executor::{Executor, Role};
use super::issuer::{self, KeyFetcher, Server, Token};
use super::ledger::Exchange;
use super::network::Network;
use super::random::Random;
use super::services::{self, Service};
use super::sharing::Wants;
use super::state::Weather;
use super::upstream::Upstream;
use super::{NETWORK, SPAWNED, TestClock, http2};
use crate::account::AccessLines;
use crate::forward::Shared;
use crate::listen::{OpenConnection, serve_stream};
use crate::message::{Peer, Serves};
use crate::worker::api::WorkerApis;
use crate::worker::compiled::{Compiled, Live};
use crate::worker::descriptors::Descriptors;
use crate::worker::heavy::HeavyPool;
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
    services: &'static [Service],
    issuer: Server,
    key_fetcher: Rc<KeyFetcher>,
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

    pub(super) fn serves(&self, service: Service) -> bool {
        self.services.contains(&service)
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
        let (worker, client, api) = (few(&mut random), few(&mut random), few(&mut random));
        let mut of_services = Random::new(seed, 7);
        let services = Service::of_world(&mut of_services);
        let is_short = crowded && of_services.percent(30);
        let held_bytes = if is_short { 4_000 } else { HELD_BYTES_DEFAULT };
        let live = Limits { client, api, held_bytes }.live();
        let compiled = services::compiled(live.clone(), false);
        let upstreams = Shared::new(1, &Random::new(seed, 4));
        let (worker, asked) = start_worker(&network, compiled, worker, Arc::clone(&upstreams));
        let clock = TestClock::Simulated(network.clone());
        let key_fetcher = Rc::new(KeyFetcher::new(clock, upstreams));
        let mut turns = Random::new(seed, 6);
        if crowded && turns.percent(50) {
            worker.saturation.limit_to(turns.between(1, 3));
        }
        let executor = Executor::default();
        executor
            .spawn(Role::KeyFetcher, Rc::clone(&key_fetcher).run(Rc::clone(&worker), asked, live));
        Self {
            seed,
            services,
            key_fetcher,
            issuer: Server { network: network.clone(), asked: Rc::default(), seed, calm },
            calm,
            crowded,
            large,
            network,
            executor,
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
        // Several have to ask for the same.
        let more = if self.services == [Service::Cached] { 3 } else { 0 };
        for number in 0..self.random.between(1, 5) + more {
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
        let serves = Random::new(self.seed, 90 + number).pick(self.services).serves();
        let mut requests = Vec::new();
        for _ in 0..random.between(1, 4) {
            let mut ledger = self.ledger.borrow_mut();
            let id = ledger.len();
            let mut exchange = Exchange::plan(id, &mut random, self.calm, self.large);
            self.choose_service(&mut exchange, serves);
            if http2 {
                http2::adapt(&mut exchange);
            }
            ledger.push(exchange);
            requests.push(id);
            // A denied upload ends its connection.
            let is_last = self.calm && ledger[id].may_be_denied();
            if ledger[id].http10 || is_last {
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
        let (connection, clients) = (OpenConnection::new(&worker), Rc::clone(&worker));
        let host = if random.percent(70) { 1 } else { 2 };
        self.executor.spawn(Role::Gateway, async move {
            network.sleep(start_us).await;
            let mut peer = Peer::new(([192, 0, 2, host], 1_024).into(), false, &[]);
            peer.connection = clients.clients.connect(peer.address, 100);
            peer.serves = serves;
            let peer = Rc::new(peer);
            let stream = Stream::Simulated(Box::new(theirs));
            serve_stream(connection, stream, peer, true).await;
        });
        let network = self.network.clone();
        self.executor.spawn(Role::Client, async move {
            network.sleep(start_us).await;
            client.run(ours).await;
        });
    }

    /// Chooses the request's service, of the services on the listener that it came to.
    fn choose_service(&self, exchange: &mut Exchange, serves: Serves) {
        let mut random = Random::new(self.seed, 200 + exchange.id as u64);
        let here: Vec<_> = self.services.iter().filter(|of| of.serves() == serves).collect();
        if self.services.len() > 3 || here.len() < 3 {
            exchange.service = **random.pick(&here.iter().collect::<Vec<_>>());
        }
        exchange.token = Token::plan(exchange.service, self.seed, &mut random);
        if exchange.service == Service::Cached {
            // A drain closes connections that are idle for long.
            exchange.wants = Some(Wants::plan(&mut random, !self.drains()));
            if random.percent(60) {
                exchange.becomes_get();
            }
        }
    }

    /// Runs tasks in random order; when all of them wait, the time moves on.
    fn run_until(&mut self, done: impl Fn(&Executor) -> bool) {
        loop {
            for task in SPAWNED.take() {
                self.executor.spawn(Role::Gateway, task);
            }
            while let Some((port, end)) = self.network.next_upstream() {
                if port == issuer::PORT {
                    self.executor.spawn(Role::Upstream, self.issuer.clone().serve(end));
                    continue;
                }
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
                self.key_fetcher.sweep();
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
        if self.serves(Service::Held) {
            // One that pauses before a retry keeps its turn.
            return;
        }
        let mut upstream = 0;
        self.worker.pools.each(|_, _, pool| upstream += pool.in_use + pool.waiting);
        let turns = self.worker.saturation.in_use();
        assert!(turns as u64 <= upstream, "{turns} turns, {upstream} requests wait for upstreams");
    }

    fn check(&self) {
        let ledger = self.ledger.borrow();
        ledger.iter().for_each(|exchange| exchange.check(&ledger, self.calm));
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
        let sent: usize = self.ledger.borrow().iter().map(|it| it.attempts.len()).sum();
        let asked = self.issuer.asked();
        worker.pools.each(|_, port, pool| {
            assert_eq!((pool.in_use, pool.waiting), (0, 0), "connections to port {port}");
            assert!(
                pool.idle <= (sent + asked) as u64,
                "idle connections to port {port}: {pool:?}"
            );
        });
        assert_eq!(worker.busy.get(), 0, "requests in progress");
        assert_eq!(worker.connections.get(), 0, "connections");
        // An exchange that is abandoned while it waits frees its buffers instead of releasing them.
        let is_abandoned = |it: &Exchange| it.service.mediates() && (it.cut || it.fault.is_some());
        if !self.ledger.borrow().iter().any(is_abandoned) && !self.issuer.was_silent() {
            assert_eq!(worker.resources.buffers.lent(), 0, "buffers");
        }
        assert_eq!(worker.held.used(), 0, "bytes of held bodies");
        assert_eq!(worker.saturation.in_use(), 0, "turns");
        assert_eq!(worker.clients.len(), 0, "clients");
        let apis = [&worker.apis, &worker.services].map(WorkerApis::are_free);
        assert!(worker.share.is_free() && apis == [true, true], "places");
        worker.responses.check();
        // Idle connections are closed in time, so that their upstreams end.
        let idle_us = u64::from(IDLE_UPSTREAM_MS_MAX) * 1_000;
        let (network, until_us) =
            (self.network.clone(), self.network.now_us() + idle_us + 2 * SWEEP_US);
        self.run_until(|executor| {
            executor.running(Role::Upstream) == 0 && network.now_us() >= until_us
        });
        worker.pools.each(|_, port, pool| assert_eq!(pool.idle, 0, "idle connections to {port}"));
        assert_eq!(worker.resources.watches.len(), 0, "deadlines");
        self.key_fetcher.check_released();
    }
}

/// A worker in a network, and the receiver of its requests for key sets.
pub(super) fn start_worker(
    network: &Network,
    compiled: Compiled,
    requests_max: usize,
    upstreams: Arc<Shared>,
) -> (Rc<Worker>, Receiver<String>) {
    let (key_sets, asked) = channel(8);
    let parts = Parts {
        certificate_field: None,
        number: 0,
        compiled,
        access: AccessLines::default(),
        key_sets,
        descriptors: Descriptors {
            connections_max: 100,
            requests_max,
            upstreams_max: requests_max,
            pipes_max: 0,
        },
        upstreams,
        heavy: HeavyPool::start(0).expect("no thread is needed"),
        meters: Arc::default(),
        proofs: Arc::new(Proofs::new(&SystemEntropy)),
        renewals: Arc::default(),
    };
    (Worker::new(TestClock::Simulated(network.clone()), parts), asked)
}

impl Drop for World {
    fn drop(&mut self) {
        SPAWNED.take();
        NETWORK.set(None);
    }
}

/// Maximum numbers of requests in progress, and of bytes in held bodies.
struct Limits {
    client: usize,
    api: usize,
    held_bytes: usize,
}

impl Limits {
    fn live(&self) -> Live {
        Live {
            fault_status: FaultStatus::Http,
            connect_ms: 1_000,
            head_ms: 10_000,
            idle_ms: 20_000,
            stall_ms: 5_000,
            connections_max: 100,
            client_connections_max: 100,
            client_requests_max: self.client,
            api_requests_max: self.api,
            held_bytes_max: self.held_bytes,
            drain_s: 10,
            ..Live::new(&Settings::default(), ClientTls::insecure())
        }
    }
}
