//! Accounting: one [`Record`] per request, from the complete head to the last byte of the response.
//!
//! Life of a request: every stage adds to the record. When it is closed, the counters are updated, and a
//! line is written to the access log if that is enabled.
//!
//! Architecture invariant: a worker writes only its own counters, without locks or atomics. For a scrape,
//! each worker is sent a message and returns a snapshot.

mod access_log;
mod counters;
mod exposition;

use std::rc::Rc;

use model::{AuthFailure, Blame, Fault, MethodSet};

pub(crate) use access_log::{AccessLines, AccessLogger};
pub(crate) use counters::{ApiCounters, Tally, WorkerFigures, bump};

pub(crate) use exposition::expose;

/// One operation's counters, shared with its API's.
pub(crate) type OperationHandle = Rc<counters::OperationCounters>;

use crate::worker_api::WorkerApi;

/// What is recorded of one request.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// When its head was complete, on the worker's clock.
    pub(crate) started_us: u64,
    pub(crate) api: Option<Rc<WorkerApi>>,
    /// Index in the API's operations.
    pub(crate) operation: Option<usize>,
    /// Status of the response; 499 if the client closed before it began.
    pub(crate) status: u16,
    /// WSO2's error code, if the gateway generated the response.
    pub(crate) code: Option<u32>,
    pub(crate) blame: Option<Blame>,
    /// Why the credential was rejected, if it was.
    pub(crate) auth_failure: Option<AuthFailure>,
    /// With 405: the methods that the path has.
    pub(crate) allow: MethodSet,
    /// Time from the start to the upstream's response head, in microseconds.
    pub(crate) upstream_us: Option<u64>,
    /// Bytes of the response, head included, written to the client's connection.
    pub(crate) sent: u64,
    /// The response ended after its head and before its end.
    pub(crate) truncated: bool,
    settled: bool,
}

/// Recorded status of a client that closed before its response began (as in nginx).
pub(crate) const CLIENT_LEFT: u16 = 499;

impl Record {
    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    pub(crate) fn open(started_us: u64) -> Self {
        Self { started_us, ..Self::default() }
    }

    /// A record that is closed already.
    pub(crate) fn settled() -> Self {
        Self { settled: true, ..Self::default() }
    }

    /// Records the fault that the gateway responds to.
    pub(crate) fn fault(&mut self, fault: &Fault, status: u16, code: u32) {
        self.status = if *fault == Fault::ClientLeft { CLIENT_LEFT } else { status };
        self.code = Some(code);
        self.blame = Some(fault.blame());
    }

    /// The request's id in the logs: worker and start time, unique in a process.
    pub(crate) fn id(&self, worker: &crate::worker::Worker) -> String {
        format!("{:x}-{:x}", worker.number, worker.unix_us(self.started_us))
    }
}
