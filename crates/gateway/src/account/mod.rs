//! What is remembered of a request: one [`Record`], opened at its first byte, closed at its last.
//!
//! Life of a request: beside all of it; every stage leaves one fact here. A closed record becomes
//! counters, and a line of the access log where that is on.
//!
//! Architecture invariant: a worker writes only its own counters, without locks or atomics; they
//! are copied out by message when someone scrapes.

mod access_log;
mod counters;
mod exposition;

use std::rc::Rc;

use model::{Blame, Fault, MethodSet};

pub(crate) use access_log::{AccessLines, AccessLogger};
pub(crate) use counters::{ApiCounters, Tally, WorkerFigures, bump};

/// Where an operation counts.
pub(crate) type OperationHandle = Rc<counters::OperationCounters>;
pub(crate) use exposition::expose;

use crate::worker_api::WorkerApi;

/// One request, from its first byte to its last.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// When its head was complete, on the worker's clock.
    pub(crate) started_us: u64,
    pub(crate) api: Option<Rc<WorkerApi>>,
    /// Index in the API's operations.
    pub(crate) operation: Option<usize>,
    /// What was answered; 499 when the caller left before.
    pub(crate) status: u16,
    /// WSO2's code, where the gateway answered by itself.
    pub(crate) code: Option<u32>,
    pub(crate) blame: Option<Blame>,
    /// With 405: what the path offers.
    pub(crate) allow: MethodSet,
    /// Time from the start to the backend's response head, in microseconds.
    pub(crate) upstream_us: Option<u64>,
    /// Bytes of the response's head and body that the caller's connection took.
    pub(crate) sent: u64,
    /// The answer broke off after its head.
    pub(crate) truncated: bool,
    settled: bool,
}

/// The status that stands in records for a caller that left before its answer (nginx's).
pub(crate) const CLIENT_LEFT: u16 = 499;

impl Record {
    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    pub(crate) fn open(started_us: u64) -> Self {
        Self { started_us, ..Self::default() }
    }

    /// Stands in for one that is closed already.
    pub(crate) fn settled() -> Self {
        Self { settled: true, ..Self::default() }
    }

    /// Notes why the gateway answers by itself.
    pub(crate) fn fault(&mut self, fault: &Fault, status: u16, code: u32) {
        self.status = if *fault == Fault::ClientLeft { CLIENT_LEFT } else { status };
        self.code = Some(code);
        self.blame = Some(fault.blame());
    }
}

impl Record {
    /// What ties the lines of one request together in the logs: worker and start, unique in a process.
    pub(crate) fn id(&self, worker: &crate::worker::Worker) -> String {
        format!("{:x}-{:x}", worker.number, worker.unix_us(self.started_us))
    }
}
