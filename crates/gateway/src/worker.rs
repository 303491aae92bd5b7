//! The state of one worker. A worker is a thread: nothing here is shared or locked.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use base::{SystemClock, SystemEntropy, limits};
use stages::TokenCache;
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;

use crate::account::{AccessLines, Record, Tally, WorkerFigures, bump};
use crate::ask::{Question, Questions};
use crate::compiled::Compiled;
use crate::forward::Pools;
use crate::listen::TaskPool;
use crate::message::Request;
use crate::resources::Resources;
use crate::response::{Body, Response};
use crate::worker_api::WorkerApis;

/// A request or tunnel in progress, which a shutdown waits for. Ends when dropped.
pub(crate) struct Busy<'w>(&'w Cell<usize>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) resources: Resources,
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
    pub(crate) questions: Questions,
    /// Memory for the futures of HTTP/2 streams.
    pub(crate) http2_tasks: TaskPool,
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        clock: SystemClock,
        compiled: Compiled,
        access: AccessLines,
        questions: Sender<Question>,
    ) -> Self {
        Self {
            number,
            resources: Resources::new(clock),
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
            questions: Questions::new(questions),
            http2_tasks: TaskPool::default(),
        }
    }

    /// Counts a request as in progress until the guard is dropped.
    pub(crate) fn busy(&self) -> Busy<'_> {
        self.busy.set(self.busy.get() + 1);
        Busy(&self.busy)
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
        self.apis.retain(|api| known.get(api.routes().slot as usize).is_some_and(|known| *known));
    }

    /// An empty response of the gateway's own.
    pub(crate) fn own_response(&self, status: u16) -> Response {
        let mut head = self.resources.head();
        head.edits.set_status(status);
        self.resources.append_date(&mut head.edits);
        Response { head, body: Body::Empty }
    }

    /// Runs every `limits::SWEEP_MS`: reads the clock, expires deadlines, closes idle connections.
    pub(crate) fn sweep(&self) {
        let now_us = self.resources.sweep();
        self.pools.sweep(now_us);
        self.access.flush(&self.tally);
    }

    /// Closes a record: updates the counters and writes to the access log if that is on.
    pub(crate) fn settle(&self, record: Record, request: &Request) {
        let us = self.resources.now_us().saturating_sub(record.started_us);
        match &record.api {
            Some(api) => api.count(record.operation, record.status, us, record.sent),
            None => self.tally.unrouted(record.status),
        }
        if let Some(blame) = record.blame {
            self.tally.blame(blame);
        }
        if self.access.is_on() {
            self.access.write(&self.tally, &record, request, us);
        }
    }

    /// A snapshot of all counters, for a scrape.
    pub(crate) fn figures(&self) -> WorkerFigures {
        let now_us = self.resources.now_us();
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
            http2_floods: tally.http2_floods.get(),
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
            let (api, account) = (&worker_api.routes().api, &worker_api.account);
            let suspended = worker_api.suspended(now_us);
            figures.apis.push(account.counters.figures(&api.name, &api.version, suspended));
        });
        self.pools
            .each(|host, port, pool| figures.upstreams.push((format!("{host}:{port}"), pool)));
        figures
    }

    pub(crate) fn count_tunnel(&self) {
        bump(&self.tally.tunnels);
    }
}
