//! All that one worker owns. It is a thread; nothing here is shared, nothing is locked.

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

/// Something under way that a shutdown should wait for.
pub(crate) struct Busy<'w>(&'w Cell<usize>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// What is lent again and again, the last given back first: that one is still in the cache. Boxed, so
/// that a connection's future holds and moves a pointer.
#[allow(clippy::vec_box, reason = "the boxes are what is lent")]
type Lent<T> = Vec<Box<T>>;

/// One worker.
pub(crate) struct Worker {
    pub(crate) number: usize,
    clock: SystemClock,
    /// The clock as the last sweep read it: good enough for deadlines and lifetimes.
    coarse: Cell<Now>,
    pub(crate) buffers: Buffers,
    requests: RefCell<Lent<Request>>,
    response_heads: RefCell<Lent<ResponseHead>>,
    pub(crate) watches: Watches,
    compiled: RefCell<Rc<Compiled>>,
    pub(crate) apis: WorkerApis,
    pub(crate) pools: Pools,
    pub(crate) tokens: RefCell<TokenCache>,
    pub(crate) tally: Tally,
    pub(crate) access: AccessLines,
    pub(crate) connections: Cell<usize>,
    /// Requests and tunnels under way.
    pub(crate) busy: Cell<usize>,
    /// SIGTERM came: answers say `Connection: close`.
    pub(crate) draining: Cell<bool>,
    /// The last connection ended while draining.
    pub(crate) emptied: Notify,
    /// Issuers, by name, whose keys lack a `kid` that a token asked for.
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

    /// Counts a request as under way for as long as the answer lives.
    pub(crate) fn busy(&self) -> Busy<'_> {
        self.busy.set(self.busy.get() + 1);
        Busy(&self.busy)
    }

    /// Microseconds on the worker's clock, now.
    pub(crate) fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// The same, at most one sweep old, and free.
    pub(crate) fn coarse_us(&self) -> u64 {
        self.coarse.get().mono_us
    }

    /// Both clocks, at most one sweep old.
    pub(crate) fn coarse(&self) -> Now {
        self.coarse.get()
    }

    /// What is served now. A request keeps what it got from its first byte to its last.
    pub(crate) fn compiled(&self) -> Rc<Compiled> {
        Rc::clone(&self.compiled.borrow())
    }

    /// Swaps what is served. Requests under way finish with what they began with.
    pub(crate) fn apply(&self, compiled: Compiled) {
        let routes = Arc::clone(&compiled.routes);
        *self.compiled.borrow_mut() = Rc::new(compiled);
        let mut known = vec![false; routes.slots()];
        for api in routes.apis() {
            if let Some(known) = known.get_mut(api.slot as usize) {
                *known = true;
            }
        }
        self.apis.retain(|local| known.get(local.routes.slot as usize).is_some_and(|known| *known));
    }

    /// A call to fill in. Its memory served earlier ones.
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

    /// A response head to fill in. Its memory served earlier ones.
    pub(crate) fn response_head(&self) -> Box<ResponseHead> {
        self.response_heads.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn release_response_head(&self, head: Box<ResponseHead>) {
        let mut heads = self.response_heads.borrow_mut();
        if heads.len() < limits::SPARE_HEADS_MAX {
            heads.push(head);
        }
    }

    /// Every `limits::SWEEP_MS`: reads the clock, ends waits whose time is up, closes what idled.
    pub(crate) fn sweep(&self) {
        let now = self.clock.now();
        self.coarse.set(now);
        self.watches.sweep(now.mono_us);
        self.pools.sweep(now.mono_us);
        self.access.flush(&self.tally);
    }

    /// Closes a record: counters, and the access log where it is on.
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

    /// Asks for an issuer's keys to be fetched again.
    pub(crate) fn report_unknown_kid(&self, issuer: &str) {
        // A full queue has asked often enough; a closed one belongs to a process that ends.
        let _ = self.unknown_kids.try_send(issuer.to_owned());
    }

    /// Copies all figures for a scrape.
    pub(crate) fn figures(&self) -> WorkerFigures {
        let now_us = self.now_us();
        let (tally, tokens) = (&self.tally, self.tokens.borrow());
        let mut figures = WorkerFigures {
            worker: self.number,
            connections: self.connections.get() as u64,
            accepted: tally.accepted.get(),
            refused_connections: tally.refused_connections.get(),
            handshakes_failed: tally.handshakes_failed.get(),
            unrouted: tally.unrouted.borrow().clone(),
            faults: [
                ("caller", tally.faults_caller.get()),
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
        self.apis.each(|local| {
            let api = &local.routes.api;
            let suspended = local.suspended(now_us);
            figures.apis.push(local.counters.figures(&api.name, &api.version, suspended));
        });
        self.pools
            .each(|host, port, pool| figures.upstreams.push((format!("{host}:{port}"), pool)));
        figures
    }

    /// Counts one more attempt for the same request.
    pub(crate) fn count_retry(&self) {
        bump(&self.tally.retries);
    }

    /// Microseconds since the Unix epoch at `us` on the worker's clock, for time stamps.
    pub(crate) fn unix_us(&self, us: u64) -> u64 {
        self.clock.origin_unix_us().saturating_add(us)
    }
}
