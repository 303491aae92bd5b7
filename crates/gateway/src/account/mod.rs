//! Accounting: one [`Record`] per request, from the complete head to the last byte of the response.
//!
//! Life of a request: every stage adds to the record. When it is closed, the counters are updated, and a
//! line is written to the access log if that is enabled.
//!
//! Architecture invariant: a worker writes only its own counters, without locks or atomics. For a scrape,
//! each worker is sent a message and returns a snapshot.

mod access_log;
mod api;
mod counters;
mod exposition;

use std::rc::Rc;

use model::{AuthFailure, Blame, Fault, MethodSet, Security};

use crate::message::resources::Resources;
use crate::quota::quotas::Quota;
use crate::shares::share::Places;

pub(crate) use access_log::{AccessLines, AccessLogger};
pub(crate) use api::ApiAccount;
pub(crate) use counters::{ApiCounters, GONE_COUNTERS_US, Tally, WorkerFigures, bump};

pub(crate) use exposition::expose;

/// The record of one request, for metrics and logs.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// When its head was complete, on the worker's clock.
    pub(crate) started_us: u64,
    /// The same in microseconds since the Unix epoch.
    started_unix_us: u64,
    /// The worker's number.
    worker: usize,
    pub(crate) api: Option<Rc<ApiAccount>>,
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
    /// With 401: the credentials that the operation accepts.
    pub(crate) challenge: Challenge,
    /// The limits that apply to it.
    pub(crate) quota: Quota,
    /// Time from the start to the upstream's response head, in microseconds.
    pub(crate) upstream_us: Option<u64>,
    /// Bytes of the request's body, without framing, that the upstream connection accepted.
    pub(crate) received: u64,
    /// Bytes of the response, head included, written to the client's connection.
    pub(crate) sent: u64,
    /// The response ended after its head and before its end.
    pub(crate) truncated: bool,
    /// The request's places in the shares of its client, its API and the worker, if it was forwarded.
    pub(crate) places: Places,
}

/// Recorded status of a client that closed before its response began (as in nginx).
const CLIENT_LEFT: u16 = 499;

/// The kinds of credentials that an operation accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Challenge {
    #[default]
    Token,
    ApiKey,
    Both,
}

impl Challenge {
    pub(crate) fn of(security: &Security) -> Self {
        match security {
            Security::Required(accepts) if !accepts.api_keys.is_empty() => {
                if accepts.token.is_some() { Self::Both } else { Self::ApiKey }
            }
            Security::Required(_) | Security::Open => Self::Token,
        }
    }
}

impl Record {
    pub(crate) fn open(worker: usize, resources: &Resources) -> Self {
        let started_us = resources.now_us();
        let started_unix_us = resources.unix_us(started_us);
        Self { started_us, started_unix_us, worker, ..Self::default() }
    }

    /// Records the fault that the gateway responds to.
    pub(crate) fn fault(&mut self, fault: &Fault, status: u16, code: u32) {
        self.status = if *fault == Fault::ClientLeft { CLIENT_LEFT } else { status };
        self.code = Some(code);
        self.blame = Some(fault.blame());
    }

    /// Records that the response ended before its end.
    pub(crate) fn cut_off(&mut self, fault: &Fault) {
        self.truncated = true;
        self.blame = Some(fault.blame());
        if *fault == Fault::ClientLeft {
            self.status = CLIENT_LEFT;
        }
    }

    /// Logs a fault that the client did not cause, without path, header field or token.
    pub(crate) fn log(&self, fault: &Fault) {
        let api = self.api.as_ref().map_or("", |api| api.routes.api.name.as_str());
        match fault.blame() {
            Blame::Upstream => {
                tracing::warn!(api, code = self.code, request = self.id(), "{fault}");
            }
            Blame::Gateway => {
                tracing::error!(api, code = self.code, request = self.id(), "{fault}");
            }
            Blame::Client => {}
        }
    }

    /// The request's id in the logs: worker and start time, unique in a process.
    pub(crate) fn id(&self) -> String {
        format!("{:x}-{:x}", self.worker, self.started_unix_us)
    }
}
