//! HTTP/2 from callers: one connection, many streams, each answered by a task of its own.
//!
//! The tasks own requests and answers; the loop here moves their frames, opens and closes. Whatever
//! happens in one task, a panic included, ends that stream alone: its halves reset it when dropped.
//!
//! Architecture invariant: nothing but [`client`] and [`stream`] knows that a request came this way;
//! its head was validated as HTTP/1.1 bytes before any stage saw it.

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
use crate::forward::within;
use crate::request::Peer;
use crate::watch::Watch;
use crate::worker::Worker;

/// Serves a connection until one side ends it. `read`: bytes of `stream` that told the protocol.
pub(super) async fn serve(open: OpenConnection, stream: Stream, read: Bytes, peer: Rc<Peer>) {
    let worker = &*open.0;
    let watch = worker.watches.add();
    let head_ms = worker.compiled().live.head_ms;
    watch.set(worker.coarse_us() + u64::from(head_ms) * 1_000);
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
    shared.rest();
    loop {
        match poll_fn(|cx| shared.poll_event(cx, &mut connection)).await {
            Event::Accepted(accepted) => {
                let answering = stream::serve(OpenStream::new(&shared), *accepted);
                tokio::task::spawn_local(answering);
            }
            Event::Leave => {
                shared.leave(&mut connection);
            }
            // Frames of finished answers that nobody read for so long, or a farewell without reply.
            Event::TimeUp if shared.leaving.get() || !connection.is_idle() => return,
            Event::TimeUp => shared.leave(&mut connection),
            Event::Ended => return,
        }
    }
}

/// What the streams of a connection have in common.
struct Shared {
    open: OpenConnection,
    peer: Rc<Peer>,
    secure: bool,
    /// Runs while no stream is being answered; each stream has one of its own.
    watch: Rc<Watch>,
    streams: Cell<usize>,
    outbox: Outbox,
    /// The caller was told to open no more streams.
    leaving: Cell<bool>,
}

/// What a connection does next.
enum Event {
    Accepted(Box<Accepted>),
    /// The worker drains.
    Leave,
    TimeUp,
    Ended,
}

impl Shared {
    fn worker(&self) -> &Worker {
        &self.open.0
    }

    /// Moves frames, of all streams, until there is something to do.
    fn poll_event(&self, cx: &mut Context<'_>, connection: &mut Connection) -> Poll<Event> {
        if let Poll::Ready(next) = pin!(connection.accept()).poll(cx) {
            return Poll::Ready(match next {
                Some(Ok(accepted)) => Event::Accepted(Box::new(accepted)),
                // The streams were told; there is no one else to tell.
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

    /// Says goodbye: streams that are open are served, and those on their way here.
    fn leave(&self, connection: &mut Connection) {
        self.leaving.set(true);
        connection.graceful_shutdown();
        if self.streams.get() == 0 {
            self.rest();
        }
    }

    /// Starts the wait for the next stream, or for the end.
    fn rest(&self) {
        let worker = self.worker();
        let idle_ms = worker.compiled().live.idle_ms;
        let patience_ms = if self.leaving.get() { DRAIN_MS_MAX } else { idle_ms };
        self.watch.set(worker.coarse_us() + u64::from(patience_ms) * 1_000);
    }
}

/// One stream that is being answered. The connection counts as open until the last one is done.
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
            self.0.rest();
        }
    }
}
