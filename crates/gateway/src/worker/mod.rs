//! The state of one worker. A worker is a thread: nothing here is shared or locked.
//!
//! A [`Worker`] has the revision that it serves ([`compiled`]), its state of each API ([`api`]), and the state of the
//! steps of an exchange: tokens, challenges, sessions, questions to issuers, turns. The steps are above it and take it
//! as an argument.

pub(crate) mod api;
pub(crate) mod ask;
pub(crate) mod backend_jwt;
mod backend_tokens;
mod challenges;
pub(crate) mod compiled;
pub(crate) mod descriptors;
pub(crate) mod heavy;
mod saturation;
pub(crate) mod sessions;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use base::limits::{H2_CONNECTION_HEADS_BYTES_MAX, H2_HEADS_BYTES_MAX};
use base::{Entropy as _, SystemEntropy, limits};
use stages::TokenCache;
use stages::authenticate::Proofs;
use stages::throttle::{Meters, WorkerMeters};
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;

use crate::account::{AccessLines, Record, Tally, WorkerFigures, bump};
use crate::artefacts::Integration;
use crate::artefacts::origins::Origins;
use crate::body::held::{HeldBytes, Holding};
use crate::cache::ResponseCache;
use crate::forward::{Address, Pools, Shared};
use crate::message::forwarded_certificates::{CertificateField, ForwardedCertificates};
use crate::message::resources::{Resources, WorkerClock};
use crate::message::{Peer, Request, Serves};
use crate::shares::clients::Clients;
use crate::shares::gate::Pass;
use crate::shares::give_way;
use crate::shares::own_connections::OwnConnections;
use crate::shares::share::{Crowds, Share};
use crate::tasks::http2::TaskPool;
use api::WorkerApis;
use ask::Questions;
use backend_jwt::BackendJwts;
use backend_tokens::BackendTokens;
use challenges::Challenges;
use compiled::{Compiled, Live};
use descriptors::Descriptors;
use heavy::HeavyPool;
use saturation::Saturation;
use sessions::{Renewals, SignIns};

/// One more in a count, until it is dropped.
pub(crate) struct Counted<'w>(&'w Cell<usize>);

impl<'w> Counted<'w> {
    fn new(count: &'w Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// A worker is full when fewer than one in so many of its connections are left.
const FULL_SHARE: usize = 16;

/// A stream's places among those of its client and of the worker.
pub(crate) type OpenPlaces = (Option<Pass>, Pass);

pub(crate) struct Worker {
    this: Weak<Self>,
    pub(crate) number: usize,
    pub(crate) resources: Resources,
    compiled: RefCell<Rc<Compiled>>,
    pub(crate) apis: WorkerApis,
    /// The services of integration.
    pub(crate) services: WorkerApis,
    pub(crate) origins: Origins,
    pub(crate) pools: Pools,
    pub(crate) held: HeldBytes,
    pub(crate) responses: ResponseCache,
    pub(crate) heavy: HeavyPool,
    /// Turns of messages that runs of mediation send beside their client's.
    pub(crate) parts: Saturation,
    pub(crate) tokens: RefCell<TokenCache>,
    pub(crate) backend_jwts: BackendJwts,
    pub(crate) forwarded_certificates: ForwardedCertificates,
    pub(crate) backend_tokens: BackendTokens,
    pub(crate) challenges: Challenges,
    pub(crate) meters: RefCell<WorkerMeters>,
    pub(crate) proofs: Arc<Proofs>,
    pub(crate) sign_ins: SignIns,
    pub(crate) tally: Tally,
    pub(crate) access: AccessLines,
    pub(crate) connections: Cell<usize>,
    /// Requests and tunnels in progress.
    pub(crate) busy: Cell<usize>,
    /// The share of all clients together.
    pub(crate) share: Share,
    pub(crate) saturation: Saturation,
    pub(crate) descriptors: Descriptors,
    pub(crate) clients: Clients,
    pub(crate) crowds: Crowds,
    /// Set on SIGTERM: responses have `Connection: close`.
    pub(crate) draining: Cell<bool>,
    /// Notified when the last connection, or the last run without one, ends while draining.
    pub(crate) emptied: Notify,
    pub(crate) questions: Questions,
    /// Number of the last run of mediation: random at first, then counted up.
    run_id: Cell<u128>,
    /// Memory for the futures of HTTP/2 streams.
    pub(crate) http2_tasks: TaskPool,
}

/// Inputs of a worker.
pub(crate) struct Parts {
    pub(crate) number: usize,
    pub(crate) compiled: Compiled,
    pub(crate) access: AccessLines,
    pub(crate) key_sets: Sender<String>,
    pub(crate) descriptors: Descriptors,
    pub(crate) upstreams: Arc<Shared>,
    pub(crate) heavy: HeavyPool,
    /// In which trusted proxies send the certificates of their clients.
    pub(crate) certificate_field: Option<Arc<CertificateField>>,
    pub(crate) meters: Arc<Meters>,
    /// The proofs that the process has seen.
    pub(crate) proofs: Arc<Proofs>,
    /// The renewals of the process.
    pub(crate) renewals: Arc<Renewals>,
}

impl Worker {
    pub(crate) fn new(clock: impl Into<WorkerClock>, parts: Parts) -> Rc<Self> {
        let Parts {
            number,
            compiled,
            access,
            key_sets,
            descriptors,
            upstreams,
            heavy,
            certificate_field,
            meters,
            proofs,
            renewals,
        } = parts;
        let mut tokens = TokenCache::new(limits::TOKEN_CACHE_BYTES_MAX, &SystemEntropy);
        tokens.keep_claims(compiled.quotas.plans.claims());
        Rc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            number,
            resources: Resources::new(clock, descriptors.pipes_max),
            descriptors,
            compiled: RefCell::new(Rc::new(compiled)),
            apis: WorkerApis::default(),
            services: WorkerApis::new(Serves::Integration),
            origins: Origins::default(),
            pools: Pools::new(upstreams, descriptors.pools()),
            held: HeldBytes::default(),
            responses: ResponseCache::default(),
            heavy,
            parts: Saturation::of_parts(),
            backend_jwts: BackendJwts::default(),
            forwarded_certificates: ForwardedCertificates::new(certificate_field),
            backend_tokens: BackendTokens::default(),
            challenges: Challenges::default(),
            tokens: RefCell::new(tokens),
            meters: RefCell::new(WorkerMeters::new(meters)),
            proofs,
            sign_ins: SignIns::new(renewals),
            tally: Tally::default(),
            access,
            connections: Cell::new(0),
            busy: Cell::new(0),
            share: Share::default(),
            saturation: Saturation::default(),
            clients: Clients::default(),
            crowds: Crowds::default(),
            draining: Cell::new(false),
            emptied: Notify::new(),
            questions: Questions::new(key_sets),
            run_id: Cell::new(u128::from(SystemEntropy.u64()) << 64),
            http2_tasks: TaskPool::default(),
        })
    }

    /// Itself, for tasks that outlive their connection.
    pub(crate) fn this(&self) -> Rc<Self> {
        self.this.upgrade().expect("it is only made inside an Rc")
    }

    /// The limits of one exchange of `peer` on held bytes.
    pub(crate) fn holding(&self, live: &Live, peer: &Peer) -> Holding {
        let limits = [live.held_body_bytes_max, live.held_bytes_max];
        self.held.holding(peer.share().map(|share| &share.held), limits, live.connect_ms)
    }

    /// A number that no other run has.
    pub(crate) fn next_run_id(&self) -> u128 {
        let id = self.run_id.get().wrapping_add(1);
        self.run_id.set(id);
        id
    }

    /// Counts a request or tunnel as in progress, which a shutdown waits for, until the guard is dropped.
    pub(crate) fn busy(&self) -> Counted<'_> {
        Counted::new(&self.busy)
    }

    /// Whether nothing is left to wait for in a shutdown.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections.get() == 0 && self.busy.get() == 0
    }

    /// Notifies a shutdown that waits for the last connection, and for runs that go on without their client.
    pub(crate) fn notice_the_end(&self) {
        if self.draining.get() && self.is_empty() {
            self.emptied.notify_one();
        }
    }

    /// The current revision. A request keeps the one it started with.
    pub(crate) fn compiled(&self) -> Rc<Compiled> {
        Rc::clone(&self.compiled.borrow())
    }

    /// Whether these are the artefacts of the current revision.
    pub(crate) fn serves(&self, integration: &Integration) -> bool {
        !self.compiled.borrow().integration.differs(integration)
    }

    /// Replaces the current revision, and replaces the state of APIs that are edited or gone. Requests in progress keep
    /// theirs.
    pub(crate) fn apply(&self, compiled: Compiled) {
        let compiled = Rc::new(compiled);
        self.tokens.borrow_mut().keep_claims(compiled.quotas.plans.claims());
        let previous = self.compiled.replace(Rc::clone(&compiled));
        let now_us = self.resources.coarse_us();
        if !compiled.routes.has_apis_of(&previous.routes) {
            self.apis.update(&compiled.routes, &self.pools, now_us);
        }
        if compiled.integration.differs(&previous.integration) {
            self.origins.clear();
            self.services.update(&compiled.integration.routes, &self.pools, now_us);
        }
    }

    /// Runs every `limits::SWEEP_MS`: reads the clock, expires deadlines, closes idle connections.
    pub(crate) fn sweep(&self) {
        let now_us = self.resources.sweep();
        self.make_room(now_us);
        self.crowds.sweep(&self.resources.watches, now_us);
        self.make_room_for_bodies(now_us);
        self.pools.sweep(now_us);
        self.apis.sweep(now_us);
        self.services.sweep(now_us);
        let now_ms = self.quota_ms(now_us);
        self.meters.borrow_mut().sweep(now_ms);
        self.responses.sweep(now_us);
        // The workers share it.
        if self.number == 0 {
            let unix_ms = self.resources.unix_us(now_us) / 1_000;
            let memory = &self.compiled.borrow().integration.memory;
            memory.sweep(i64::try_from(unix_ms).unwrap_or(i64::MAX));
        }
        self.access.flush(&self.tally);
    }

    /// Maximum number of client connections: the configured one, or as many as the descriptors allow.
    fn connections_max(&self) -> usize {
        self.compiled.borrow().live.connections_max.min(self.descriptors.connections_max)
    }

    /// Counts a stream of `peer` as open, until the passes are dropped. A client may have as many streams as
    /// connections, or as requests in progress if it may have more of those, but no more than are left, and so may all
    /// of them together. `None`: there are as many.
    pub(crate) fn open_stream(&self, peer: &Peer) -> Option<OpenPlaces> {
        let all = self.connections_max().max(self.descriptors.requests_max);
        let client = match peer.share() {
            Some(share) => {
                let live = &self.compiled.borrow().live;
                let most = live.client_connections_max.max(live.client_requests_max);
                let left = all.saturating_sub(self.share.streams.passed());
                Some(share.streams.try_pass(most.min(left))?)
            }
            None => None,
        };
        Some((client, self.share.streams.try_pass(all)?))
    }

    /// Counts the head of a stream of `peer`, whose connection has heads of `own` bytes, until [`Self::forget_head`].
    /// False: it would be too much for the connection, for its client or for all.
    pub(crate) fn count_head(&self, peer: &Peer, own: &Cell<usize>, bytes: usize) -> bool {
        let add = |count: &Cell<usize>| count.get().saturating_add(bytes);
        let (all, of_connection) = (add(&self.share.head_bytes), add(own));
        let client = peer.share().map(|share| &share.head_bytes);
        let of_client = client.map_or(0, add);
        let left = H2_HEADS_BYTES_MAX.checked_sub(all);
        let fits = left.is_some_and(|left| of_client <= left);
        if !fits || of_connection > H2_CONNECTION_HEADS_BYTES_MAX {
            return false;
        }
        self.share.head_bytes.set(all);
        own.set(of_connection);
        if let Some(client) = client {
            client.set(of_client);
        }
        true
    }

    /// A head of so many bytes is no longer needed.
    pub(crate) fn forget_head(&self, peer: &Peer, own: &Cell<usize>, bytes: usize) {
        let client = peer.share().map(|share| &share.head_bytes);
        for count in [Some(&self.share.head_bytes), Some(own), client].into_iter().flatten() {
            count.set(count.get().saturating_sub(bytes));
        }
    }

    /// Whether it rejects new connections, or will soon.
    pub(crate) fn is_full(&self) -> bool {
        self.connections.get() >= self.many_connections()
    }

    /// So many connections that the slowest are closed.
    fn many_connections(&self) -> usize {
        let most = self.connections_max();
        most.saturating_sub(most / FULL_SHARE)
    }

    /// Closes the connections whose clients are the slowest, idle ones included, if there are too many.
    fn make_room(&self, now_us: u64) {
        let surplus = self.connections.get().saturating_sub(self.many_connections());
        if surplus > 0 {
            self.resources.watches.close_slowest(surplus, now_us);
        }
    }

    /// Lets the slowest held bodies give way to those that wait for room.
    fn make_room_for_bodies(&self, now_us: u64) {
        if self.held.waiting() > 0 {
            let most = self.compiled.borrow().live.held_bytes_max;
            let free = most.saturating_sub(self.held.used());
            let used = |client| self.clients.held(client);
            give_way::to_bodies(&self.resources.watches.running(), used, free, now_us);
            self.held.wake();
        }
    }

    /// `us` on the worker's clock as the time that the windows of limits go by, in milliseconds since the Unix epoch.
    pub(crate) fn quota_ms(&self, us: u64) -> u64 {
        self.meters.borrow().time_ms(self.resources.unix_us(us) / 1_000)
    }

    /// Closes a record: updates the counters and writes to the access log if that is on. One without a status is of an
    /// exchange that was cut off before its response.
    pub(crate) fn settle(&self, record: &Record, request: &Request) {
        if record.status == 0 {
            return;
        }
        let now_us = self.resources.now_us();
        let us = now_us.saturating_sub(record.started_us);
        let now_ms = self.quota_ms(now_us);
        record.quota.settle(record.received.saturating_add(record.sent), now_ms);
        match &record.api {
            Some(api) => {
                // The latency of a tunnel is the time until it began.
                let latency_us = record.upstream_us.filter(|_| record.status == 101).unwrap_or(us);
                api.count(record.operation, record.status, latency_us, record.sent);
            }
            None => self.tally.unrouted(record.status),
        }
        if let Some(blame) = record.blame {
            self.tally.blame(blame);
        }
        if self.access.is_on() {
            self.access.write(&self.tally, record, request, us);
        }
    }

    /// A copy of all counters, for a scrape. Counters of APIs and upstreams are copied in turns, between which requests
    /// are served.
    pub(crate) async fn figures(&self) -> WorkerFigures {
        let mut figures = self.totals();
        for apis in [&self.apis, &self.services] {
            let mut next = Some(0);
            while let Some(from) = next {
                next = self.copy_some(apis, from, &mut figures);
                tokio::task::yield_now().await;
            }
        }
        let mut last = None;
        loop {
            last = self.pools.visit(last.as_ref(), |Address { host, port, .. }, pool| {
                figures.upstreams.push((format!("{host}:{port}"), pool));
            });
            if last.is_none() {
                return figures;
            }
            tokio::task::yield_now().await;
        }
    }

    /// One turn of a scrape, from position `from` on. Returns the next position, if there are more.
    pub(crate) fn copy_some(
        &self,
        apis: &WorkerApis,
        from: usize,
        figures: &mut WorkerFigures,
    ) -> Option<usize> {
        let now_us = self.resources.now_us();
        apis.visit(from, |account, suspended| {
            let api = &account.routes.api;
            let suspended = suspended(now_us);
            figures.apis.push(account.counters.figures(&api.name, &api.version, suspended));
        })
    }

    /// The counters that belong to no API and no upstream.
    fn totals(&self) -> WorkerFigures {
        let (tally, tokens) = (&self.tally, self.tokens.borrow());
        WorkerFigures {
            worker: self.number,
            connections: self.connections.get() as u64,
            accepted: tally.accepted.get(),
            rejected_connections: tally.rejected_connections.figures(),
            handshakes_failed: tally.handshakes_failed.get(),
            unrouted: tally.unrouted.borrow().clone(),
            faults: [
                ("client", tally.faults_client.get()),
                ("upstream", tally.faults_upstream.get()),
                ("gateway", tally.faults_gateway.get()),
            ],
            retries: tally.retries.sent.get(),
            retries_denied: tally.retries.denied.get(),
            health_checks: self.pools.shared().checks(),
            local_ports: self.pools.shared().ports.figures(),
            tunnels: tally.tunnels.get(),
            http2_floods: tally.http2_floods.get(),
            http2_refused: tally.http2_refused.get(),
            heavy_work: tally.heavy_work.get(),
            held_bytes: self.held.used() as u64,
            log_lines_lost: tally.log_lines_lost.get(),
            unreported: tally.unreported.get(),
            token_hits: tokens.hits(),
            token_misses: tokens.misses(),
            tokens: tokens.len() as u64,
            token_bytes: tokens.bytes() as u64,
            introspections: tally.introspections.figures(),
            revision: self.compiled.borrow().routes.revision(),
            apis: Vec::new(),
            upstreams: Vec::new(),
        }
    }

    pub(crate) fn own_connections(&self) -> &OwnConnections {
        &self.pools.shared().own
    }

    pub(crate) fn count_tunnel(&self) {
        bump(&self.tally.tunnels);
    }
}

/// Logs exchanges that a shutdown cuts off, too.
impl Drop for Worker {
    fn drop(&mut self) {
        self.access.flush(&self.tally);
    }
}
