//! Tunnels, after a requested 101: bytes are copied in both directions until both sides end or are idle.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use base::limits::TUNNEL_IDLE_MS_MAX;
use model::Fault;
use tokio::io::AsyncWrite;
use wire::http1::{Known, KnownSet, write};
use wire::stream::Stream;

use super::http1::{After, Connection};
use super::response::log_fault;
use crate::account::{Record, bump};
use crate::buffer::{Buffer, Buffers};
use crate::flow::{Lend, poll_read};
use crate::forward::UpstreamResponse;
use crate::request::Request;
use crate::respond;

/// Turns the client's connection into a tunnel, if the upstream switched to the requested protocol. Any
/// other 101 is a protocol violation.
pub(super) async fn run(
    connection: &mut Connection<'_>,
    request: &Request,
    mut response: UpstreamResponse,
    record: &mut Record,
) -> After {
    if !response.upgrade || !is_agreed(request, &response) {
        return reject(connection, request, &response, record).await;
    }
    let worker = connection.worker;
    bump(&worker.tally.tunnels);
    // Closed now, so that the tunnel does not keep a revision alive.
    worker.close(std::mem::replace(record, Record::settled()), request);
    let mut text = worker.buffers.text();
    let bytes = response.reader.buffer.filled();
    write::status_line(&mut text, 101, b"Switching Protocols");
    write::fields(&mut text, bytes, response.head.fields(), KnownSet::EMPTY);
    let protocol =
        request.head.find(Known::Upgrade).map_or(&b""[..], |field| field.value.of(&request.bytes));
    text.extend_from_slice(b"Connection: Upgrade\r\n");
    write::field(&mut text, b"Upgrade", protocol);
    write::end(&mut text);
    let head_len = response.head.len();
    response.reader.buffer.consume(head_len);
    let mut down =
        Direction { text, ..Direction::new(std::mem::take(&mut response.reader.buffer)) };
    let mut up = Direction::new(std::mem::take(&mut connection.reader.buffer));
    let idle_us = u64::from(TUNNEL_IDLE_MS_MAX) * 1_000;
    connection.watch.set(worker.coarse_us() + idle_us);
    poll_fn(|cx| {
        let (client, upstream) = (&mut connection.stream, &mut response.lease.stream);
        let moved = (up.moved, down.moved);
        let ups = up.poll_run(cx, client, upstream, &worker.buffers);
        let downs = down.poll_run(cx, upstream, client, &worker.buffers);
        if (up.moved, down.moved) != moved {
            connection.watch.set(worker.coarse_us() + idle_us);
        }
        match (ups, downs) {
            (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => Poll::Ready(()),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(()),
            _ if connection.watch.poll_expired(cx) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
    for direction in [up, down] {
        worker.buffers.release(direction.buffer);
        worker.buffers.release_text(direction.text);
    }
    worker.release_response_head(response.head);
    After::Close
}

fn is_agreed(request: &Request, response: &UpstreamResponse) -> bool {
    let requested = request.head.find(Known::Upgrade).map(|field| field.value.of(&request.bytes));
    let given = response.head.find(Known::Upgrade);
    let given = given.map(|field| field.value.of(response.reader.buffer.filled()));
    requested.zip(given).is_some_and(|(requested, given)| requested.eq_ignore_ascii_case(given))
}

async fn reject(
    connection: &mut Connection<'_>,
    request: &Request,
    response: &UpstreamResponse,
    record: &mut Record,
) -> After {
    let authority = response.authority.to_string();
    let fault = Fault::ProtocolViolation { authority, reason: "unrequested 101" };
    let statuses = connection.worker.compiled().live.fault_status;
    let own = respond::fault_response(&fault, record.allow, statuses);
    record.fault(&fault, own.response.status, own.code);
    log_fault(connection.worker, &fault, record);
    connection.respond(request, own.response, record).await
}

/// One direction of a tunnel.
struct Direction {
    /// Sent first: the 101.
    text: Vec<u8>,
    sent: usize,
    buffer: Buffer,
    /// The reading side has ended.
    ended: bool,
    /// The writing side was shut down.
    shut: bool,
    moved: u64,
}

impl Direction {
    fn new(buffer: Buffer) -> Self {
        Self { text: Vec::new(), sent: 0, buffer, ended: false, shut: false, moved: 0 }
    }

    /// Ready when `from` has ended and `to` was shut down.
    fn poll_run(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Stream,
        to: &mut Stream,
        buffers: &Buffers,
    ) -> Poll<io::Result<()>> {
        loop {
            let text = self.text.get(self.sent..).unwrap_or_default();
            let of_text = !text.is_empty();
            let bytes = if of_text { text } else { self.buffer.filled() };
            if !bytes.is_empty() {
                match Pin::new(&mut *to).poll_write(cx, bytes)? {
                    Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(count) => {
                        self.moved = self.moved.saturating_add(count as u64);
                        if of_text { self.sent += count } else { self.buffer.consume(count) }
                    }
                    Poll::Pending => return Poll::Pending,
                }
            } else if self.ended {
                if !self.shut {
                    std::task::ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    self.shut = true;
                }
                return Poll::Ready(Ok(()));
            } else {
                let _ = Pin::new(&mut *to).poll_flush(cx)?;
                let lend = Lend::Head(buffers);
                self.ended = std::task::ready!(poll_read(cx, from, &mut self.buffer, lend))? == 0;
            }
        }
    }
}
