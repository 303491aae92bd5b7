//! What the stages of one exchange share: the worker, the request, and what is recorded of them.

use model::{Fault, FaultStatus};

use crate::account::Record;
use crate::cross_origin;
use crate::fault;
use crate::message::Request;
use crate::response::Response;
use crate::worker::{Counted, Worker};

/// One exchange, until its last byte. Meanwhile it counts as in progress.
pub(crate) struct Exchange<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) request: &'a Request,
    pub(crate) record: Record,
    _busy: Counted<'a>,
}

impl<'a> Exchange<'a> {
    pub(crate) fn open(worker: &'a Worker, request: &'a Request) -> Self {
        let record = Record::open(worker.number, &worker.resources);
        Self { worker, request, record, _busy: worker.busy() }
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
        let mut own = fault::response(fault, record.allow, statuses);
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
        if let Some(api) = &record.api {
            cross_origin::mediate(self.request, &api.routes, &mut response.head.edits);
        }
        Some(response)
    }

    /// Closes the record: updates the counters and writes to the access log if that is on.
    pub(crate) fn settle(self) {
        self.worker.settle(self.record, self.request);
    }
}
