//! One worker's counters: plain numbers that no other thread writes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use base::limits::GONE_COUNTERS_MS;
use model::{AuthFailure, Blame};

/// Upper bounds of the latency buckets, in microseconds: 100 us to 60 s, each about 2.2 times the last.
pub(super) const LATENCY_EDGES_US: [u64; 18] = [
    100, 200, 400, 800, 1_600, 3_200, 6_400, 12_500, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 60_000_000,
];

/// `GONE_COUNTERS_MS` in microseconds.
pub(crate) const GONE_COUNTERS_US: u64 = GONE_COUNTERS_MS as u64 * 1_000;

/// A latency histogram: one count per bucket. The last bucket has no upper bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    pub(crate) buckets: [u64; LATENCY_EDGES_US.len() + 1],
    pub(crate) sum_us: u64,
}

impl Histogram {
    fn add(&mut self, us: u64) {
        let bucket = LATENCY_EDGES_US.partition_point(|edge| *edge < us);
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
        self.sum_us = self.sum_us.saturating_add(us);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine += theirs;
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }

    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// Counts of one status of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatusCount {
    pub(crate) status: u16,
    pub(crate) count: u64,
}

/// One API's counters. Created at its first request, and kept when the API is edited.
#[derive(Debug, Default)]
pub(crate) struct ApiCounters {
    latency: RefCell<Histogram>,
    /// By method and template, in the order of first use.
    operations: RefCell<Vec<Rc<OperationCounters>>>,
    sent: Cell<u64>,
    /// By reason, in the order of first use.
    auth_failures: RefCell<Vec<AuthFailureCount>>,
}

/// How often credentials were rejected for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AuthFailureCount {
    pub(crate) reason: AuthFailure,
    pub(crate) count: u64,
}

/// One operation's counters.
#[derive(Debug)]
pub(crate) struct OperationCounters {
    pub(crate) method: &'static str,
    pub(crate) template: Arc<str>,
    statuses: RefCell<Vec<StatusCount>>,
    /// Since when the API has no such operation, on the worker's clock; 0: it has.
    gone_since_us: Cell<u64>,
}

impl OperationCounters {
    fn add(&self, status: u16) {
        let mut statuses = self.statuses.borrow_mut();
        match statuses.iter_mut().find(|known| known.status == status) {
            Some(known) => known.count += 1,
            None => statuses.push(StatusCount { status, count: 1 }),
        }
    }
}

impl ApiCounters {
    /// The counters of `method` and `template`, created at first use. An empty method counts requests
    /// that matched no operation.
    pub(crate) fn operation(&self, method: &'static str, template: &str) -> Rc<OperationCounters> {
        let mut operations = self.operations.borrow_mut();
        let known =
            operations.iter().find(|known| known.method == method && *known.template == *template);
        if let Some(known) = known {
            return Rc::clone(known);
        }
        let created = Rc::new(OperationCounters {
            method,
            template: template.into(),
            statuses: RefCell::default(),
            gone_since_us: Cell::new(0),
        });
        operations.push(Rc::clone(&created));
        created
    }

    /// The number of its counters: its own, and those of its operations.
    pub(crate) fn len(&self) -> usize {
        self.operations.borrow().len().saturating_add(1)
    }

    /// Counts one finished request.
    pub(crate) fn add(&self, operation: &OperationCounters, status: u16, us: u64, sent: u64) {
        self.latency.borrow_mut().add(us);
        self.sent.set(self.sent.get().saturating_add(sent));
        operation.add(status);
    }

    /// Drops the counters of operations that are gone for `GONE_COUNTERS_MS`. `exists`: whether the API has this method
    /// and template.
    pub(crate) fn forget_gone(&self, now_us: u64, exists: impl Fn(&OperationCounters) -> bool) {
        self.operations.borrow_mut().retain(|known| {
            // Counters in use have a second owner.
            let is_gone =
                Rc::strong_count(known) == 1 && !known.method.is_empty() && !exists(known);
            let since_us = match known.gone_since_us.get() {
                _ if !is_gone => 0,
                0 => now_us,
                since_us => since_us,
            };
            known.gone_since_us.set(since_us);
            since_us == 0 || now_us.saturating_sub(since_us) < GONE_COUNTERS_US
        });
    }

    /// Counts one rejected credential.
    pub(crate) fn auth_failed(&self, reason: AuthFailure) {
        let mut failures = self.auth_failures.borrow_mut();
        match failures.iter_mut().find(|known| known.reason == reason) {
            Some(known) => known.count += 1,
            None => failures.push(AuthFailureCount { reason, count: 1 }),
        }
    }
}

/// Responses of issuers about opaque tokens.
#[derive(Debug, Default)]
pub(crate) struct IntrospectionCounts {
    pub(crate) active: Cell<u64>,
    pub(crate) inactive: Cell<u64>,
    pub(crate) failed: Cell<u64>,
}

impl IntrospectionCounts {
    pub(crate) fn figures(&self) -> [(&'static str, u64); 3] {
        let Self { active, inactive, failed } = self;
        [("active", active), ("inactive", inactive), ("failed", failed)]
            .map(|(outcome, count)| (outcome, count.get()))
    }
}

/// A worker's counters that belong to no API.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) accepted: Cell<u64>,
    pub(crate) rejected_connections: RejectedConnections,
    pub(crate) handshakes_failed: Cell<u64>,
    /// Requests that matched no API, by status.
    pub(crate) unrouted: RefCell<Vec<StatusCount>>,
    pub(crate) faults_client: Cell<u64>,
    pub(crate) faults_upstream: Cell<u64>,
    pub(crate) faults_gateway: Cell<u64>,
    pub(crate) retries: crate::forward::RetryCounts,
    pub(crate) tunnels: Cell<u64>,
    pub(crate) http2_floods: Cell<u64>,
    /// Streams above the limit.
    pub(crate) http2_refused: Cell<u64>,
    pub(crate) heavy_work: Cell<u64>,
    pub(crate) introspections: IntrospectionCounts,
    pub(crate) log_lines_lost: Cell<u64>,
    /// Responses without the field that a limit counts by.
    pub(crate) unreported: Cell<u64>,
}

/// Connections that were rejected, by the limit that they exceeded.
#[derive(Debug, Default)]
pub(crate) struct RejectedConnections {
    pub(crate) connections_max: Cell<u64>,
    pub(crate) client_connections_max: Cell<u64>,
    /// The limit that follows from the descriptors of the process.
    pub(crate) descriptors: Cell<u64>,
}

impl RejectedConnections {
    pub(crate) fn figures(&self) -> [(&'static str, u64); 3] {
        [
            ("connections_max", self.connections_max.get()),
            ("client_connections_max", self.client_connections_max.get()),
            ("descriptors", self.descriptors.get()),
        ]
    }
}

pub(crate) fn bump(cell: &Cell<u64>) {
    cell.set(cell.get().wrapping_add(1));
}

impl Tally {
    pub(crate) fn blame(&self, blame: Blame) {
        bump(match blame {
            Blame::Client => &self.faults_client,
            Blame::Upstream => &self.faults_upstream,
            Blame::Gateway => &self.faults_gateway,
        });
    }

    pub(crate) fn unrouted(&self, status: u16) {
        let mut unrouted = self.unrouted.borrow_mut();
        match unrouted.iter_mut().find(|known| known.status == status) {
            Some(known) => known.count += 1,
            None => unrouted.push(StatusCount { status, count: 1 }),
        }
    }
}

/// A snapshot of one API's counters, for a scrape.
#[derive(Clone, Debug)]
pub(crate) struct ApiFigures {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) latency: Histogram,
    pub(crate) sent: u64,
    pub(crate) auth_failures: Vec<AuthFailureCount>,
    pub(crate) operations: Vec<OperationFigures>,
    pub(crate) suspended: u64,
}

/// A snapshot of one operation's counters.
#[derive(Clone, Debug)]
pub(crate) struct OperationFigures {
    pub(crate) method: &'static str,
    pub(crate) template: Arc<str>,
    pub(crate) statuses: Vec<StatusCount>,
}

impl ApiCounters {
    pub(crate) fn figures(&self, name: &str, version: &str, suspended: u64) -> ApiFigures {
        let operations = self.operations.borrow();
        ApiFigures {
            name: name.to_owned(),
            version: version.to_owned(),
            latency: self.latency.borrow().clone(),
            sent: self.sent.get(),
            auth_failures: self.auth_failures.borrow().clone(),
            suspended,
            operations: operations
                .iter()
                .map(|known| OperationFigures {
                    method: known.method,
                    template: Arc::clone(&known.template),
                    statuses: known.statuses.borrow().clone(),
                })
                .collect(),
        }
    }
}

/// A snapshot of all counters of one worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerFigures {
    pub(crate) worker: usize,
    pub(crate) connections: u64,
    pub(crate) accepted: u64,
    pub(crate) rejected_connections: [(&'static str, u64); 3],
    pub(crate) handshakes_failed: u64,
    pub(crate) unrouted: Vec<StatusCount>,
    pub(crate) faults: [(&'static str, u64); 3],
    pub(crate) retries: u64,
    pub(crate) retries_denied: u64,
    /// Health checks of all workers: passed and failed.
    pub(crate) health_checks: [u64; 2],
    /// Local ports of all workers.
    pub(crate) local_ports: crate::forward::PortFigures,
    pub(crate) tunnels: u64,
    pub(crate) http2_floods: u64,
    pub(crate) http2_refused: u64,
    pub(crate) heavy_work: u64,
    pub(crate) introspections: [(&'static str, u64); 3],
    pub(crate) held_bytes: u64,
    pub(crate) log_lines_lost: u64,
    pub(crate) unreported: u64,
    pub(crate) token_hits: u64,
    pub(crate) token_misses: u64,
    pub(crate) tokens: u64,
    pub(crate) token_bytes: u64,
    pub(crate) revision: u64,
    pub(crate) apis: Vec<ApiFigures>,
    pub(crate) upstreams: Vec<(String, crate::forward::PoolFigures)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_counted_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let mut histogram = Histogram::default();
        for us in [0, 100, 101, 60_000_000, 60_000_001] {
            histogram.add(us);
        }
        assert_eq!((histogram.buckets[0], histogram.buckets[1]), (2, 1));
        assert_eq!((histogram.buckets[17], histogram.buckets[18]), (1, 1));
        assert_eq!(histogram.count(), 5);
    }

    #[test]
    fn an_operation_keeps_its_counts_when_an_edit_changes_its_index() {
        let counters = ApiCounters::default();
        counters.add(&counters.operation("GET", "/a"), 200, 10, 1);
        counters.add(&counters.operation("GET", "/b"), 200, 10, 1);
        counters.add(&counters.operation("GET", "/a"), 200, 10, 1);
        let figures = counters.figures("n", "v", 0);
        let counts: Vec<_> = figures.operations.iter().map(|o| o.statuses[0].count).collect();
        assert_eq!(counts, [2, 1]);
    }

    #[test]
    fn counters_of_a_removed_operation_leave_after_a_while() {
        let counters = ApiCounters::default();
        counters.add(&counters.operation("GET", "/gone"), 200, 10, 1);
        counters.add(&counters.operation("GET", "/kept"), 200, 10, 1);
        counters.add(&counters.operation("", ""), 404, 10, 1);
        let templates = || {
            let figures = counters.figures("n", "v", 0);
            figures.operations.iter().map(|o| o.template.to_string()).collect::<Vec<_>>()
        };
        let forget = |now_us| counters.forget_gone(now_us, |known| &*known.template == "/kept");
        forget(1);
        forget(GONE_COUNTERS_US);
        assert_eq!(templates(), ["/gone", "/kept", ""], "not long enough");
        forget(1 + GONE_COUNTERS_US);
        assert_eq!(templates(), ["/kept", ""]);
    }
}
