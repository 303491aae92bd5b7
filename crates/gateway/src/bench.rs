//! For `benches`: a worker's accounting, without a socket.

use std::rc::Rc;
use std::sync::Arc;

use base::{SystemClock, SystemEntropy, limits};
use model::{FaultStatus, Snapshot};
use stages::{ApiRoutes, Routes};
use tokio::sync::mpsc::channel;
use wire::tls::ClientTls;

use crate::account::{AccessLines, Record};
use crate::artefacts::Integration;
use crate::compiled::{Compiled, Live};
use crate::descriptors::Descriptors;
use crate::forward::Shared;
use crate::heavy::HeavyPool;
use crate::message::Request;
use crate::quotas::Quotas;
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
        let live = Arc::new(Live {
            cors: None,
            fault_status: FaultStatus::Wso2,
            connect_ms: limits::CONNECT_MS_MAX,
            head_ms: limits::HEAD_MS_MAX,
            idle_ms: limits::IDLE_CLIENT_MS_MAX,
            stall_ms: limits::STALL_MS_MAX,
            connections_max: limits::CLIENT_CONNECTIONS_MAX,
            client_connections_max: limits::CLIENT_CONNECTIONS_DEFAULT,
            client_requests_max: limits::CLIENT_REQUESTS_DEFAULT,
            api_requests_max: limits::API_REQUESTS_DEFAULT,
            min_rate: limits::MIN_RATE_DEFAULT,
            held_body_bytes_max: limits::HELD_BODY_BYTES_DEFAULT,
            held_bytes_max: limits::HELD_BYTES_DEFAULT,
            drain_s: limits::DRAIN_S_DEFAULT,
            trusted_proxies: Vec::new(),
            client_tls: ClientTls::insecure(),
            backend_jwt: None,
        });
        let integration = Integration::compile(&Snapshot::default(), None, None);
        let quotas = Quotas::compile(&Snapshot::default(), &routes, None);
        let heavy = HeavyPool::start(0).expect("no thread is needed");
        let worker = Worker::new(
            SystemClock::default(),
            Parts {
                number: 0,
                compiled: Compiled { routes, integration, policies: Arc::default(), quotas, live },
                access: AccessLines::default(),
                key_sets: channel(1).0,
                descriptors: Descriptors::of_process(1),
                upstreams: Shared::new(1, &SystemEntropy),
                heavy,
                meters: Arc::default(),
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
        self.worker.settle(record, &self.request);
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
