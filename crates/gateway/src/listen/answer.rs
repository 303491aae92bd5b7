//! One request over HTTP/1.1: from its head to the last byte of its answer.

use std::future::poll_fn;
use std::rc::Rc;

use model::Fault;
use wire::http1::{Version, write};

use super::http1::{After, Connection};
use super::reply::{log_fault, write_local};
use crate::account::Record;
use crate::call::Call;
use crate::flow::{Empty, OutFraming, Outflow};
use crate::pipeline::{self, Reply};
use crate::respond::{self, Local};

impl Connection<'_> {
    /// Answers the request whose head stands in `call`.
    pub(super) async fn serve_one(&mut self, call: Box<Call>) -> After {
        let worker = self.worker;
        let _busy = worker.busy();
        let compiled = worker.compiled();
        let mut record = Record::open(worker.now_us());
        let after = match pipeline::answer(worker, &compiled, &call, self, &mut record).await {
            Ok(Reply::Upstream(answer)) => {
                drop(compiled);
                self.deliver(&call, answer, &mut record).await
            }
            Ok(Reply::Local(local)) => {
                record.status = local.status;
                self.answer(&call, local, &mut record).await
            }
            Err(fault) => {
                let told = respond::tell(&fault, record.allow, compiled.live.fault_status);
                drop(compiled);
                record.fault(&fault, told.local.status, told.code);
                log_fault(worker, &fault, &record);
                if fault == Fault::ClientLeft {
                    After::Close
                } else {
                    self.answer(&call, told.local, &mut record).await
                }
            }
        };
        worker.close(record, &call);
        worker.give_back_call(call);
        after
    }

    /// Answers bytes that are no acceptable request. What they meant is unknown, so the connection
    /// ends.
    pub(super) async fn refuse(&mut self, fault: &Fault) -> After {
        let mut record = Record::open(self.worker.now_us());
        let statuses = self.worker.compiled().live.fault_status;
        let told = respond::tell(fault, record.allow, statuses);
        record.fault(fault, told.local.status, told.code);
        let nobody = Call { peer: Rc::clone(self.peer()), ..Call::default() };
        self.send_local(&nobody, &told.local, false, &mut record).await;
        self.worker.close(record, &nobody);
        After::Linger
    }

    /// Writes one of the gateway's own answers.
    pub(super) async fn answer(&mut self, call: &Call, local: Local, record: &mut Record) -> After {
        let drained = self.body_is_done() || self.skip_body();
        let keep = drained
            && call.head.keep_alive()
            && !self.half_closed
            && !self.worker.draining.get()
            && local.status != 408;
        if !self.send_local(call, &local, keep, record).await {
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
    async fn send_local(
        &mut self,
        call: &Call,
        local: &Local,
        keep: bool,
        record: &mut Record,
    ) -> bool {
        let mut text = self.worker.buffers.text();
        text.extend_from_slice(self.take_interim(false));
        write_local(&mut text, call, local, record);
        connection_field(&mut text, call, keep);
        write::end(&mut text);
        if call.head.method() != base::Method::Head {
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
        flow.give_back(&self.worker.buffers);
        written
    }
}

/// `Connection`, where it says something that the version does not.
pub(super) fn connection_field(out: &mut Vec<u8>, call: &Call, keep: bool) {
    match (keep, call.head.version()) {
        (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
        (true, Version::Http10) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (true, Version::Http11) => {}
    }
}
