//! The gateway's data plane without sockets or waiting: codec, flow, forward and pipeline run against simulated clients
//! and upstreams, over connections in memory, with a clock that the simulation sets.
//!
//! A seed decides everything: the requests of clients and the responses of upstreams, how long bytes travel, where
//! reads and writes are cut, which connections break, which task runs next. Invariants for every seed:
//!
//! - an upstream gets the client's request unchanged, once (idempotent requests at most twice), or the client gets an
//!   error;
//! - no client or upstream gets bytes of another exchange: each byte shows to which one it belongs;
//! - a complete response is one that the upstream completed; a client that does nothing wrong gets a response, and is
//!   never blamed;
//! - nothing leaks: buffers, deadlines, connections and counters return to their initial state.
//!
//! A failure prints its seed and everything that happened. `PENSTOCK_SEED=N cargo test -p penstock-gateway --lib
//! simulation::seeds` runs that seed again. TLS and splicing are not simulated.

mod client;
mod executor;
mod http2;
mod issuer;
mod ledger;
mod message;
mod network;
mod random;
mod seeds;
mod services;
mod sharing;
mod state;
mod steady;
mod upstream;
mod world;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::pin::Pin;

use base::{Clock, Now, SystemClock};
use wire::stream::Stream;

use network::Network;
use random::Random;
pub(crate) use services::api;
use state::Weather;

thread_local! {
    /// The network of the simulation that runs on this thread.
    static NETWORK: RefCell<Option<Network>> = const { RefCell::new(None) };
    /// Attempts to connect for which there were no descriptors; `None`: there are enough.
    static LACKED: Cell<Option<usize>> = const { Cell::new(None) };
    /// Tasks of the gateway that are to run.
    static SPAWNED: RefCell<Vec<Task>> = const { RefCell::new(Vec::new()) };
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Whether a simulation runs on this thread.
pub(crate) fn is_running() -> bool {
    NETWORK.with_borrow(Option::is_some)
}

/// Runs `task` in the simulation.
pub(crate) fn spawn(task: impl Future<Output = ()> + 'static) {
    SPAWNED.with_borrow_mut(|spawned| spawned.push(Box::pin(task)));
}

/// Sleeps in simulated time. Returns false, at once, outside a simulation.
pub(crate) async fn sleep(ms: u64) -> bool {
    let Some(network) = NETWORK.with_borrow(Clone::clone) else { return false };
    network.sleep(ms * 1_000).await;
    true
}

/// A connection to an upstream on `port`; `None` outside a simulation.
pub(crate) async fn connect(port: u16) -> Option<io::Result<Stream>> {
    let network = NETWORK.with_borrow(Clone::clone)?;
    if let Some(attempts) = LACKED.get() {
        LACKED.set(Some(attempts + 1));
        return Some(Err(nix::errno::Errno::EMFILE.into()));
    }
    Some(network.connect(port).await.map(|end| Stream::Simulated(Box::new(end))))
}

/// A network in which no connection to an upstream is ever accepted, and its time.
pub(crate) struct Silence {
    network: Network,
    /// The upstreams' ends of connections.
    far: RefCell<Vec<network::End>>,
}

impl Silence {
    pub(crate) fn new() -> Self {
        let weather = Weather {
            latency_us: 1,
            capacity: 1,
            cut: 0,
            again: 0,
            breaks: 0,
            refused: 0,
            unanswered: 100,
        };
        let network = Network::new(weather, Random::new(0, 0), false);
        NETWORK.set(Some(network.clone()));
        Self { network, far: RefCell::default() }
    }

    pub(crate) fn clock(&self) -> TestClock {
        TestClock::Simulated(self.network.clone())
    }

    pub(crate) fn advance(&self, ms: u64) {
        self.network.advance(self.network.now_us() + ms * 1_000);
    }

    /// A connection that exists.
    pub(crate) fn stream(&self) -> Stream {
        let (near, far) = self.network.accept();
        self.far.borrow_mut().push(far);
        Stream::Simulated(Box::new(near))
    }

    /// Connections fail for lack of descriptors. Returns how many have, since the last call.
    pub(crate) fn lack_descriptors(&self) -> usize {
        LACKED.replace(Some(0)).unwrap_or(0)
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        LACKED.set(None);
        NETWORK.set(None);
    }
}

/// When a simulation starts, in seconds since the Unix epoch.
const STARTED_UNIX_S: u64 = 1_800_000_000;

/// How long the gateway has been running then, in microseconds.
const UP_US: u64 = 3_600_000_000;

/// The system's clock, or that of a simulation.
#[derive(Clone, Debug)]
pub(crate) enum TestClock {
    System(SystemClock),
    Simulated(Network),
}

impl From<SystemClock> for TestClock {
    fn from(clock: SystemClock) -> Self {
        Self::System(clock)
    }
}

impl TestClock {
    pub(crate) fn now_us(&self) -> u64 {
        match self {
            Self::System(clock) => clock.now_us(),
            Self::Simulated(network) => UP_US + network.now_us(),
        }
    }

    pub(crate) fn origin_unix_us(&self) -> u64 {
        match self {
            Self::System(clock) => clock.origin_unix_us(),
            Self::Simulated(_) => STARTED_UNIX_S * 1_000_000,
        }
    }
}

impl Clock for TestClock {
    fn now(&self) -> Now {
        match self {
            Self::System(clock) => clock.now(),
            Self::Simulated(network) => {
                let mono_us = UP_US + network.now_us();
                Now { unix_s: STARTED_UNIX_S + mono_us / 1_000_000, mono_us }
            }
        }
    }
}
