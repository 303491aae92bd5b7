//! One request over HTTP/1.1: from its head to the last byte of its answer.

use std::future::poll_fn;

use model::Fault;
use wire::http1::{Version, write};

use super::http1::{After, Connection};
use crate::account::Record;
use crate::call::Call;
use crate::cross_origin;
use crate::flow::{Empty, OutFraming, Outflow};
use crate::pipeline::{self, Reply};
use crate::respond::{self, Local};

impl Connection<'_> {
    /// Answers the request whose head stands in `call`.
    pub(super) async fn serve_one(&mut self, call: Call) -> After {
        let worker = self.worker;
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
                self.log_fault(&fault, &record);
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
    pub(super) async fn refuse(&mut self, call: Call, fault: &Fault) -> After {
        let mut record = Record::open(self.worker.now_us());
        let statuses = self.worker.compiled().live.fault_status;
        let told = respond::tell(fault, record.allow, statuses);
        record.fault(fault, told.local.status, told.code);
        let nobody = Call::default();
        self.write_local(&nobody, &told.local, false, &mut record).await;
        self.worker.close(record, &nobody);
        self.worker.give_back_call(call);
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
        if !self.write_local(call, &local, keep, record).await {
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
    async fn write_local(
        &mut self,
        call: &Call,
        local: &Local,
        keep: bool,
        record: &mut Record,
    ) -> bool {
        let mut text = self.worker.buffers.text();
        write::status_line(&mut text, local.status, write::reason(local.status).as_bytes());
        text.extend_from_slice(&local.lines);
        if let Some(content_type) = local.content_type {
            write::field(&mut text, b"Content-Type", content_type.as_bytes());
        }
        if local.status != 204 {
            write::field_number(&mut text, b"Content-Length", local.body.len() as u64);
        }
        if let Some(api) = record.api.as_ref().filter(|_| record.code.is_some()) {
            cross_origin::append(call, &api.routes, &mut text);
        }
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
        self.worker.buffers.give_back_text(flow.into_text());
        written
    }

    /// Notes a fault that is not the caller's in the process's log. No path, header or token.
    pub(super) fn log_fault(&self, fault: &Fault, record: &Record) {
        let api = record.api.as_ref().map_or("", |api| api.routes.api.name.as_str());
        match fault.blame() {
            model::Blame::Upstream => {
                tracing::warn!(
                    api,
                    code = record.code,
                    request = record.id(self.worker),
                    "{fault}"
                );
            }
            model::Blame::Gateway => {
                tracing::error!(
                    api,
                    code = record.code,
                    request = record.id(self.worker),
                    "{fault}"
                );
            }
            model::Blame::Caller => {}
        }
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
