//! An exchange: the state and the building blocks that its steps share.
//!
//! [`Exchange`] is the worker, the request, and the record of one exchange. The client is behind the trait
//! [`client::Client`], for every protocol; the [`response`] is an upstream's or the gateway's own, such as that to a
//! [`fault`].

pub(crate) mod client;
pub(crate) mod cross_origin;
pub(crate) mod fault;
pub(crate) mod held_request;
pub(crate) mod response;
pub(crate) mod route;

use std::cell::Cell;

use model::{Fault, FaultStatus};
use stages::PlanTable;
use wire::http1::write;

use crate::account::{Record, bump};
use crate::message::{HeadEdits, Request};
use crate::worker::sessions::Renewing;
use crate::worker::{Counted, Worker};
use response::Response;

/// One exchange, until its last byte. Meanwhile it counts as in progress.
pub(crate) struct Exchange<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) request: &'a Request,
    pub(crate) record: Record,
    /// Field lines that the response gets besides: cookies, where to sign in, and a nonce.
    pub(crate) lines: Vec<u8>,
    /// The browser's session, if that is renewed meanwhile.
    pub(crate) renewing: Option<Box<Renewing>>,
    /// Bytes that the exchange's tunnel has moved up and down, if it became one.
    tunnelled: Cell<(u64, u64)>,
    is_settled: bool,
    _busy: Counted<'a>,
}

impl<'a> Exchange<'a> {
    pub(crate) fn open(worker: &'a Worker, request: &'a Request) -> Self {
        let record = Record::open(worker.number, &worker.resources);
        let (lines, tunnelled) = (Vec::new(), Cell::default());
        Self {
            worker,
            request,
            record,
            lines,
            renewing: None,
            tunnelled,
            is_settled: false,
            _busy: worker.busy(),
        }
    }

    /// Records that the head of the upstream's response is there.
    pub(crate) fn upstream_responded(&mut self) {
        let now_us = self.worker.resources.now_us();
        self.record.upstream_us = Some(now_us.saturating_sub(self.record.started_us));
    }

    /// Records and logs a fault. Returns the response to it, unless a response has begun or the client is gone.
    #[cold]
    pub(crate) fn fault(&mut self, fault: &Fault, statuses: FaultStatus) -> Option<Response> {
        let record = &mut self.record;
        if record.sent > 0 {
            record.cut_off(fault);
            record.log(fault);
            return None;
        }
        let mut own = fault::response(fault, (record.allow, record.challenge), statuses);
        if let Some(time) = record.quota.next_access() {
            own.next_access(&time);
        }
        record.fault(fault, own.status, own.code);
        record.log(fault);
        if *fault == Fault::ClientLeft {
            return None;
        }
        let mut response = self.worker.own_response(0);
        own.write(&mut response, fault::format(self.request));
        self.add_lines(&mut response.head.edits);
        if let Some(api) = &self.record.api {
            cross_origin::mediate(self.request, &api.routes, &mut response.head.edits);
        }
        Some(response)
    }

    /// The response tells the client to use this nonce for its DPoP proofs.
    pub(crate) fn give_nonce(&mut self, nonce: &str) {
        write::field(&mut self.lines, b"DPoP-Nonce", nonce.as_bytes());
    }

    /// Gives a response its lines, if there are any. They are for one client, so no cache may store the response.
    pub(crate) fn add_lines(&self, edits: &mut HeadEdits) {
        if self.lines.is_empty() {
            return;
        }
        for name in ["cache-control", "expires", "cdn-cache-control", "surrogate-control"] {
            edits.remove(name.as_bytes());
        }
        edits.append(b"Cache-Control", b"no-store");
        edits.lines_mut().extend_from_slice(&self.lines);
    }

    /// Counts the figures that the upstream reports in its response, for limits on them.
    pub(crate) fn report(&self, responded: &Result<Response, Box<Fault>>, plans: &PlanTable) {
        let Record { quota, upstream_us, .. } = &self.record;
        if let (true, Some(_), Ok(response)) = (quota.counts_later(), upstream_us, responded) {
            let now_ms = self.worker.quota_ms(self.worker.resources.coarse_us());
            if quota.report(&response.head, plans, now_ms) > 0 {
                bump(&self.worker.tally.unreported);
            }
        }
    }

    /// Records the bytes that the tunnel has moved so far. Quotas of bytes do not wait for its end.
    pub(crate) fn tunnelled(&self, up: u64, down: u64) {
        self.tunnelled.set((up, down));
        let now_ms = self.worker.quota_ms(self.worker.resources.coarse_us());
        self.record.quota.settle(up.saturating_add(down), now_ms);
    }

    /// The last byte is out: the record is closed.
    pub(crate) fn settle(&mut self) {
        let record = &mut self.record;
        if record.status == 101 {
            (record.received, record.sent) = self.tunnelled.get();
        }
        self.worker.settle(record, self.request);
        if record.quota.counts_later() {
            self.worker.meters.borrow_mut().release(record.quota.take_later());
        }
        self.is_settled = true;
    }
}

/// One that is cut off is settled, too: its future may be dropped at any await.
impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.record.truncated = true;
            self.settle();
        }
    }
}
