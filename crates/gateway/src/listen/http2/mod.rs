//! HTTP/2 connections of clients. Each stream is served by a task of its own.
//!
//! The tasks own requests and responses; the loop here drives the connection. A failure of a task, even a
//! panic, ends only its stream, which is reset when dropped.
//!
//! Architecture invariant: only this module knows that a request came over HTTP/2; its head was validated
//! as HTTP/1.1 before any stage sees it.

mod client;
mod outbox;
mod stream;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use base::limits::DRAIN_MS_MAX;
use bytes::Bytes;
use wire::h2::{Accepted, Connection};
use wire::stream::Stream;

use outbox::Outbox;

use super::OpenConnection;
use crate::message::Peer;
use crate::watch::{Watch, within};
use crate::worker::Worker;

/// Serves a connection until it ends. `read`: bytes already read from `stream`.
pub(super) async fn serve(open: OpenConnection, stream: Stream, read: Bytes, peer: Rc<Peer>) {
    let worker = &*open.0;
    let watch = worker.resources.watches.add();
    let head_ms = worker.compiled().live.head_ms;
    watch.set(worker.resources.deadline_us(head_ms));
    let secure = stream.is_secure();
    let Some(Ok(mut connection)) = within(&watch, Connection::handshake(stream, read)).await else {
        return;
    };
    let shared = Rc::new(Shared {
        open,
        peer,
        secure,
        watch,
        streams: Cell::new(0),
        outbox: Outbox::default(),
        leaving: Cell::new(false),
    });
    shared.start_idle();
    loop {
        match poll_fn(|cx| shared.poll_event(cx, &mut connection)).await {
            Event::Accepted(accepted) => {
                let serving = stream::serve(OpenStream::new(&shared), *accepted);
                tokio::task::spawn_local(serving);
            }
            Event::Leave => {
                shared.leave(&mut connection);
            }
            // The client does not read finished responses, or did not close after GOAWAY.
            Event::TimeUp if shared.leaving.get() || !connection.is_idle() => return,
            Event::TimeUp => shared.leave(&mut connection),
            Event::Ended => return,
        }
    }
}

/// State shared by the streams of a connection.
struct Shared {
    open: OpenConnection,
    peer: Rc<Peer>,
    secure: bool,
    /// Set while no stream is open; each stream has a watch of its own.
    watch: Rc<Watch>,
    streams: Cell<usize>,
    outbox: Outbox,
    /// GOAWAY was sent: the client opens no more streams.
    leaving: Cell<bool>,
}

/// An event of a connection.
enum Event {
    Accepted(Box<Accepted>),
    /// The worker is draining.
    Leave,
    TimeUp,
    Ended,
}

impl Shared {
    fn worker(&self) -> &Worker {
        &self.open.0
    }

    /// Moves the frames of all streams until there is an event.
    fn poll_event(&self, cx: &mut Context<'_>, connection: &mut Connection) -> Poll<Event> {
        if let Poll::Ready(next) = pin!(connection.accept()).poll(cx) {
            return Poll::Ready(match next {
                Some(Ok(accepted)) => Event::Accepted(Box::new(accepted)),
                // The streams get the error, too.
                Some(Err(_)) | None => Event::Ended,
            });
        }
        if !connection.is_blocked() {
            self.outbox.emptied();
        }
        if self.worker().draining.get() && !self.leaving.get() {
            return Poll::Ready(Event::Leave);
        }
        if self.watch.poll_expired(cx) {
            return Poll::Ready(Event::TimeUp);
        }
        Poll::Pending
    }

    /// Sends GOAWAY. Open streams are still served, and those that the client opened before it received GOAWAY.
    fn leave(&self, connection: &mut Connection) {
        self.leaving.set(true);
        connection.graceful_shutdown();
        if self.streams.get() == 0 {
            self.start_idle();
        }
    }

    /// Sets the deadline for the next stream, or for the end of the connection.
    fn start_idle(&self) {
        let worker = self.worker();
        let idle_ms = worker.compiled().live.idle_ms;
        let limit_ms = if self.leaving.get() { DRAIN_MS_MAX } else { idle_ms };
        self.watch.set(worker.resources.deadline_us(limit_ms));
    }
}

/// An open stream. The connection is idle when the last one is dropped.
struct OpenStream(Rc<Shared>);

impl OpenStream {
    fn new(shared: &Rc<Shared>) -> Self {
        shared.streams.set(shared.streams.get() + 1);
        shared.watch.set(u64::MAX);
        Self(Rc::clone(shared))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let left = self.0.streams.get().saturating_sub(1);
        self.0.streams.set(left);
        if left == 0 {
            self.0.start_idle();
        }
    }
}
