//! The state of one worker. A worker is a thread: nothing here is shared or locked.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use base::{Clock, Now, SystemClock, SystemEntropy, limits};
use stages::TokenCache;
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;
use wire::http1::ResponseHead;

use crate::account::{AccessLines, Record, Tally, WorkerFigures, bump};
use crate::buffer::Buffers;
use crate::compiled::Compiled;
use crate::forward::Pools;
use crate::request::Request;
use crate::watch::Watches;
use crate::worker_api::WorkerApis;

/// A request or tunnel in progress, which a shutdown waits for. Ends when dropped.
pub(crate) struct Busy<'w>(&'w Cell<usize>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Spare objects. The last one released is lent first, because it is still in the CPU's cache. Boxed, so
/// that a connection's future holds and moves a pointer.
#[allow(clippy::vec_box, reason = "the boxes are what is lent")]
type Spares<T> = Vec<Box<T>>;

pub(crate) struct Worker {
    pub(crate) number: usize,
    clock: SystemClock,
    /// The time of the last sweep: precise enough for deadlines and token lifetimes.
    coarse: Cell<Now>,
    pub(crate) buffers: Buffers,
    requests: RefCell<Spares<Request>>,
    response_heads: RefCell<Spares<ResponseHead>>,
    pub(crate) watches: Watches,
    compiled: RefCell<Rc<Compiled>>,
    pub(crate) apis: WorkerApis,
    pub(crate) pools: Pools,
    pub(crate) tokens: RefCell<TokenCache>,
    pub(crate) tally: Tally,
    pub(crate) access: AccessLines,
    pub(crate) connections: Cell<usize>,
    /// Requests and tunnels in progress.
    pub(crate) busy: Cell<usize>,
    /// Set on SIGTERM: responses have `Connection: close`.
    pub(crate) draining: Cell<bool>,
    /// Notified when the last connection ends while draining.
    pub(crate) emptied: Notify,
    /// Receives the names of issuers that lack the `kid` of a token.
    unknown_kids: Sender<String>,
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        clock: SystemClock,
        compiled: Compiled,
        access: AccessLines,
        unknown_kids: Sender<String>,
    ) -> Self {
        let coarse = Cell::new(clock.now());
        Self {
            number,
            clock,
            coarse,
            buffers: Buffers::default(),
            requests: RefCell::default(),
            response_heads: RefCell::default(),
            watches: Watches::default(),
            compiled: RefCell::new(Rc::new(compiled)),
            apis: WorkerApis::default(),
            pools: Pools::default(),
            tokens: RefCell::new(TokenCache::new(limits::TOKEN_CACHE_BYTES_MAX, &SystemEntropy)),
            tally: Tally::default(),
            access,
            connections: Cell::new(0),
            busy: Cell::new(0),
            draining: Cell::new(false),
            emptied: Notify::new(),
            unknown_kids,
        }
    }

    /// Counts a request as in progress until the guard is dropped.
    pub(crate) fn busy(&self) -> Busy<'_> {
        self.busy.set(self.busy.get() + 1);
        Busy(&self.busy)
    }

    /// Microseconds on the worker's clock, now.
    pub(crate) fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// The time of the last sweep, without a system call.
    pub(crate) fn coarse_us(&self) -> u64 {
        self.coarse.get().mono_us
    }

    /// Both clocks at the last sweep.
    pub(crate) fn coarse(&self) -> Now {
        self.coarse.get()
    }

    /// The current revision. A request keeps the one it started with.
    pub(crate) fn compiled(&self) -> Rc<Compiled> {
        Rc::clone(&self.compiled.borrow())
    }

    /// Replaces the current revision, and drops the state of APIs that are gone. Requests in progress keep
    /// theirs.
    pub(crate) fn apply(&self, compiled: Compiled) {
        let routes = Arc::clone(&compiled.routes);
        *self.compiled.borrow_mut() = Rc::new(compiled);
        let mut known = vec![false; routes.slots()];
        for api in routes.apis() {
            if let Some(known) = known.get_mut(api.slot as usize) {
                *known = true;
            }
        }
        self.apis.retain(|api| known.get(api.routes.slot as usize).is_some_and(|known| *known));
    }

    /// A request to fill in, from the spares if there is one.
    pub(crate) fn request(&self) -> Box<Request> {
        self.requests.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn release_request(&self, mut request: Box<Request>) {
        let mut requests = self.requests.borrow_mut();
        if requests.len() < limits::SPARE_HEADS_MAX
            && request.bytes.capacity() <= limits::HEAD_BUFFER_BYTES as usize
        {
            request.bytes.clear();
            requests.push(request);
        }
    }

    /// A response head to fill in, from the spares if there is one.
    pub(crate) fn response_head(&self) -> Box<ResponseHead> {
        self.response_heads.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn release_response_head(&self, head: Box<ResponseHead>) {
        let mut heads = self.response_heads.borrow_mut();
        if heads.len() < limits::SPARE_HEADS_MAX {
            heads.push(head);
        }
    }

    /// Runs every `limits::SWEEP_MS`: reads the clock, expires deadlines, closes idle connections.
    pub(crate) fn sweep(&self) {
        let now = self.clock.now();
        self.coarse.set(now);
        self.watches.sweep(now.mono_us);
        self.pools.sweep(now.mono_us);
        self.access.flush(&self.tally);
    }

    /// Closes a record: updates the counters and writes to the access log if that is on.
    pub(crate) fn close(&self, record: Record, request: &Request) {
        if record.is_settled() {
            return;
        }
        let us = self.now_us().saturating_sub(record.started_us);
        match &record.api {
            Some(api) => api.count(record.operation, record.status, us, record.sent),
            None => self.tally.unrouted(record.status),
        }
        if let Some(blame) = record.blame {
            self.tally.blame(blame);
        }
        if self.access.is_on() {
            self.access.write(self, &record, request, us);
        }
    }

    /// Requests that an issuer's keys be fetched again.
    pub(crate) fn report_unknown_kid(&self, issuer: &str) {
        // If the queue is full, requests are pending already; if it is closed, the process is ending.
        let _ = self.unknown_kids.try_send(issuer.to_owned());
    }

    /// A snapshot of all counters, for a scrape.
    pub(crate) fn figures(&self) -> WorkerFigures {
        let now_us = self.now_us();
        let (tally, tokens) = (&self.tally, self.tokens.borrow());
        let mut figures = WorkerFigures {
            worker: self.number,
            connections: self.connections.get() as u64,
            accepted: tally.accepted.get(),
            rejected_connections: tally.rejected_connections.get(),
            handshakes_failed: tally.handshakes_failed.get(),
            unrouted: tally.unrouted.borrow().clone(),
            faults: [
                ("client", tally.faults_client.get()),
                ("upstream", tally.faults_upstream.get()),
                ("gateway", tally.faults_gateway.get()),
            ],
            retries: tally.retries.get(),
            tunnels: tally.tunnels.get(),
            log_lines_lost: tally.log_lines_lost.get(),
            token_hits: tokens.hits(),
            token_misses: tokens.misses(),
            tokens: tokens.len() as u64,
            token_bytes: tokens.bytes() as u64,
            revision: self.compiled.borrow().routes.revision(),
            apis: Vec::new(),
            upstreams: Vec::new(),
        };
        self.apis.each(|worker_api| {
            let api = &worker_api.routes.api;
            let suspended = worker_api.suspended(now_us);
            figures.apis.push(worker_api.counters.figures(&api.name, &api.version, suspended));
        });
        self.pools
            .each(|host, port, pool| figures.upstreams.push((format!("{host}:{port}"), pool)));
        figures
    }

    /// Counts a request that is sent a second time.
    pub(crate) fn count_retry(&self) {
        bump(&self.tally.retries);
    }

    /// Converts `us` on the worker's clock to microseconds since the Unix epoch.
    pub(crate) fn unix_us(&self, us: u64) -> u64 {
        self.clock.origin_unix_us().saturating_add(us)
    }
}
