//! One request over HTTP/1.1: from its head to the last byte of its answer.

use std::future::poll_fn;
use std::rc::Rc;

use model::Fault;
use wire::http1::{Version, write};

use super::http1::{After, Connection};
use super::response::{log_fault, write_own};
use crate::account::Record;
use crate::flow::{Empty, OutFraming, Outflow};
use crate::pipeline::{self, Response};
use crate::request::Request;
use crate::respond::{self, OwnResponse};

impl Connection<'_> {
    /// Answers the request whose head stands in `call`.
    pub(super) async fn serve_one(&mut self, request: Box<Request>) -> After {
        let worker = self.worker;
        let _busy = worker.busy();
        let compiled = worker.compiled();
        let mut record = Record::open(worker.now_us());
        let after = match pipeline::exchange(worker, &compiled, &request, self, &mut record).await {
            Ok(Response::Upstream(answer)) => {
                drop(compiled);
                self.deliver(&request, answer, &mut record).await
            }
            Ok(Response::Own(local)) => {
                record.status = local.status;
                self.answer(&request, local, &mut record).await
            }
            Err(fault) => {
                let own = respond::fault_response(&fault, record.allow, compiled.live.fault_status);
                drop(compiled);
                record.fault(&fault, own.response.status, own.code);
                log_fault(worker, &fault, &record);
                if fault == Fault::ClientLeft {
                    After::Close
                } else {
                    self.answer(&request, own.response, &mut record).await
                }
            }
        };
        worker.close(record, &request);
        worker.release_request(request);
        after
    }

    /// Answers bytes that are no acceptable request. What they meant is unknown, so the connection
    /// ends.
    pub(super) async fn refuse(&mut self, fault: &Fault) -> After {
        let mut record = Record::open(self.worker.now_us());
        let statuses = self.worker.compiled().live.fault_status;
        let own = respond::fault_response(fault, record.allow, statuses);
        record.fault(fault, own.response.status, own.code);
        let nobody = Request { peer: Rc::clone(self.peer()), ..Request::default() };
        self.send_own(&nobody, &own.response, false, &mut record).await;
        self.worker.close(record, &nobody);
        After::Linger
    }

    /// Writes one of the gateway's own answers.
    pub(super) async fn answer(
        &mut self,
        request: &Request,
        local: OwnResponse,
        record: &mut Record,
    ) -> After {
        let drained = self.body_is_done() || self.skip_body();
        let keep = drained
            && request.head.keep_alive()
            && !self.half_closed
            && !self.worker.draining.get()
            && local.status != 408;
        if !self.send_own(request, &local, keep, record).await {
            return After::Close;
        }
        match (keep, drained) {
            (true, _) => After::Keep,
            (false, true) if self.reader.buffer.is_empty() => After::Close,
            (false, _) => After::Linger,
        }
    }

    /// Skips a body that is all there already. One that still has to come is not waited for.
    fn skip_body(&mut self) -> bool {
        self.reader.skip_held()
    }

    /// True: the caller's connection took all of it.
    async fn send_own(
        &mut self,
        request: &Request,
        local: &OwnResponse,
        keep: bool,
        record: &mut Record,
    ) -> bool {
        let mut text = self.worker.buffers.text();
        text.extend_from_slice(self.take_interim(false));
        write_own(&mut text, request, local, record);
        connection_field(&mut text, request, keep);
        write::end(&mut text);
        if request.head.method() != base::Method::Head {
            text.extend_from_slice(&local.body);
        }
        let mut flow = Outflow::new(text, OutFraming::Plain);
        let stall_ms = self.worker.compiled().live.stall_ms;
        self.wait_at_most(stall_ms);
        let written = poll_fn(|cx| {
            let run = flow.poll_run(cx, &mut Empty, &mut self.stream);
            if run.is_pending() && self.watch.poll_expired(cx) {
                return std::task::Poll::Ready(false);
            }
            run.map(|result| result.is_ok())
        })
        .await;
        record.sent = flow.written;
        flow.release(&self.worker.buffers);
        written
    }
}

/// `Connection`, where it says something that the version does not.
pub(super) fn connection_field(out: &mut Vec<u8>, request: &Request, keep: bool) {
    match (keep, request.head.version()) {
        (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
        (true, Version::Http10) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (true, Version::Http11) => {}
    }
}
