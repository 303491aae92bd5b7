//! For `benches`: a worker's accounting, without a socket.

use std::rc::Rc;
use std::sync::Arc;

use base::{SystemClock, SystemEntropy};
use model::{Settings, Snapshot};
use stages::authenticate::Proofs;
use stages::{ApiRoutes, Routes};
use tokio::sync::mpsc::channel;
use wire::tls::ClientTls;

use crate::account::{AccessLines, Record, WorkerFigures};
use crate::artefacts::Integration;
use crate::forward::Shared;
use crate::message::Request;
use crate::quota::quotas::Quotas;
use crate::worker::compiled::{Compiled, Live};
use crate::worker::descriptors::Descriptors;
use crate::worker::heavy::HeavyPool;
use crate::worker::{Parts, Worker};

/// The accounting of one worker.
pub struct Account {
    worker: Rc<Worker>,
    request: Request,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").finish_non_exhaustive()
    }
}

impl Account {
    /// For a worker that serves `routes`, without access log.
    #[must_use]
    pub fn of(routes: Arc<Routes>) -> Self {
        let live = Arc::new(Live::new(&Settings::default(), ClientTls::insecure()));
        let integration = Integration::compile(&Snapshot::default(), &live.rules, None);
        let quotas = Quotas::compile(&Snapshot::default(), &routes, &integration, None);
        let heavy = HeavyPool::start(0).expect("no thread is needed");
        let worker = Worker::new(
            SystemClock::default(),
            Parts {
                certificate_field: None,
                number: 0,
                compiled: Compiled {
                    routes,
                    integration,
                    policies: Arc::default(),
                    quotas,
                    trusts: Arc::default(),
                    live,
                },
                access: AccessLines::default(),
                key_sets: channel(1).0,
                descriptors: Descriptors::of_process(1),
                upstreams: Shared::new(1, &SystemEntropy),
                heavy,
                meters: Arc::default(),
                proofs: Arc::new(Proofs::new(&SystemEntropy)),
                renewals: Arc::default(),
            },
        );
        Self { worker, request: Request::default() }
    }

    /// Opens the record of a request, and reads the clock.
    #[must_use]
    pub fn open(&self) -> OpenRecord {
        OpenRecord(Record::open(self.worker.number, &self.worker.resources))
    }

    /// Records the route, as `pipeline::exchange` does.
    pub fn found(&self, opened: &mut OpenRecord, api: &Arc<ApiRoutes>, operation: usize) {
        let local = self.worker.apis.get(api, &self.worker.pools);
        opened.0.api = Some(Rc::clone(&local.account));
        opened.0.operation = Some(operation);
    }

    /// Closes the record: reads the clock, and updates the counters.
    pub fn close(&self, opened: OpenRecord, status: u16, sent: u64) {
        let OpenRecord(mut record) = opened;
        record.upstream_us = Some(self.worker.resources.now_us().saturating_sub(record.started_us));
        record.status = status;
        record.sent = sent;
        self.worker.settle(&record, &self.request);
    }

    /// One turn of a scrape, from position `from` on. Returns the next position, if there are more, and the number of
    /// APIs that it copied.
    #[must_use]
    pub fn scrape(&self, from: usize) -> (Option<usize>, usize) {
        let mut figures = WorkerFigures::default();
        let next = self.worker.copy_some(&self.worker.apis, from, &mut figures);
        (next, figures.apis.len())
    }

    /// The number of closed records of this API.
    #[must_use]
    pub fn closed(&self, api: &Arc<ApiRoutes>) -> u64 {
        let local = self.worker.apis.get(api, &self.worker.pools);
        let figures = local.account.counters.figures("", "", 0);
        figures.latency.count()
    }
}

/// The record of a request in progress.
#[derive(Debug)]
pub struct OpenRecord(Record);
