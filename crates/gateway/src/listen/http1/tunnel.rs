//! Tunnels, after a requested 101: bytes are copied in both directions until both sides end or are idle.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use base::limits::TUNNEL_IDLE_MS_MAX;
use tokio::io::AsyncWrite;
use wire::http1::{Known, write};
use wire::stream::Stream;

use super::Connection;
use crate::buffer::{Buffer, Buffers};
use crate::flow::{Lend, poll_read};
use crate::forward::UpstreamBody;
use crate::message::{Framing, Head, Request};

/// Turns the client's connection into a tunnel, after the upstream's 101. See [`crate::client::Client::tunnel`].
pub(super) async fn run(
    connection: &mut Connection<'_>,
    request: &Request,
    head: &Head,
    upstream: &mut UpstreamBody,
    moved: &dyn Fn(u64, u64),
) {
    let buffers = &connection.worker.resources.buffers;
    let mut text = buffers.text();
    head.write(&mut text, Framing::None);
    let protocol =
        request.head.find(Known::Upgrade).map_or(&b""[..], |field| field.value.of(&request.bytes));
    text.extend_from_slice(b"Connection: Upgrade\r\n");
    write::field(&mut text, b"Upgrade", protocol);
    write::end(&mut text);
    let upstream = &mut *upstream.connection;
    let mut down =
        Direction { text, ..Direction::new(std::mem::take(&mut upstream.reader.buffer)) };
    let mut up = Direction::new(std::mem::take(&mut connection.reader.buffer));
    connection.wait_at_most(TUNNEL_IDLE_MS_MAX);
    poll_fn(|cx| {
        let (client, upstream) = (&mut connection.stream, &mut upstream.stream);
        let before = (up.moved, down.moved);
        let ups = up.poll_run(cx, client, upstream, buffers);
        let downs = down.poll_run(cx, upstream, client, buffers);
        if (up.moved, down.moved) != before {
            moved(up.moved, down.moved);
            connection.watch.set(connection.worker.resources.deadline_us(TUNNEL_IDLE_MS_MAX));
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
        buffers.release(direction.buffer);
        buffers.release_text(direction.text);
    }
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
