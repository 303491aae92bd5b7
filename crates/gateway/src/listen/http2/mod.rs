//! HTTP/2 connections of clients. One task serves a connection and all of its streams, each with a future of its own.
//!
//! The protocol is `wire::h2`; the loop here moves its bytes, and runs the futures of those streams for which something
//! has happened. The data that they send is written together, in one write. A failure of a future, even a panic, ends
//! only its stream.
//!
//! Architecture invariant: only this module knows that a request came over HTTP/2; its head was validated as HTTP/1.1
//! before any stage sees it.

mod client;
mod driver;
mod inbox;
mod stream;
mod wakes;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use base::limits::DRAIN_MS_MAX;
use wire::h2::Connection;
use wire::stream::Stream;

use super::OpenConnection;
use crate::body::buffer::Buffer;
use crate::message::{Peer, Serves};
use crate::tasks::watch::Watch;
use crate::worker::{OpenPlaces, Worker};

use driver::Driver;
use inbox::Inboxes;
use wakes::{Marks, Parts};

/// Serves a connection until it ends. `read`: bytes already read from `stream`.
pub(super) async fn serve(open: OpenConnection, stream: Stream, read: Buffer, peer: Rc<Peer>) {
    let worker = &*open.0;
    let watch = worker.resources.watches.add();
    watch.belong_to_client(peer.network());
    let head_ms = worker.compiled().live.head_ms;
    watch.set(worker.resources.deadline_us(head_ms));
    let memory = worker.resources.buffers.text();
    let engine = Connection::with_output(memory, peer.serves == Serves::Apis);
    let shared = Rc::new(Shared {
        open,
        peer,
        secure: stream.is_secure(),
        watch,
        engine: RefCell::new(engine),
        inboxes: RefCell::default(),
        streams: Cell::new(0),
        head_bytes: Cell::new(0),
        marks: Marks::default(),
        blocked: Cell::default(),
        leaving: Cell::new(false),
    });
    Driver::new(shared, stream, read, stream::serve).run().await;
}

/// State shared by the streams of a connection.
struct Shared {
    open: OpenConnection,
    peer: Rc<Peer>,
    secure: bool,
    /// Set while no stream is open; each stream has a watch of its own.
    watch: Rc<Watch>,
    engine: RefCell<Connection>,
    inboxes: RefCell<Inboxes>,
    /// Streams that are being served.
    streams: Cell<usize>,
    /// Bytes of their heads.
    head_bytes: Cell<usize>,
    /// Streams to be polled next.
    marks: Marks,
    /// Streams that wait until more can be sent.
    blocked: Cell<Parts>,
    /// The connection is to end.
    leaving: Cell<bool>,
}

impl Shared {
    fn worker(&self) -> &Worker {
        &self.open.0
    }

    /// The stream in `slot` is polled when more can be sent.
    fn block(&self, slot: usize) {
        let mut blocked = self.blocked.get();
        blocked.add(slot);
        self.blocked.set(blocked);
    }

    fn unblock(&self) {
        self.marks.add_all(self.blocked.take());
    }

    /// Lends memory for output while no stream is served; streams keep it.
    fn lend_output(&self) {
        let mut engine = self.engine.borrow_mut();
        if self.streams.get() == 0 && engine.output().is_empty() {
            let buffers = &self.worker().resources.buffers;
            buffers.release_text(engine.swap_output(buffers.text()));
        }
    }

    /// Releases the memory of written output.
    fn release_output(&self) {
        let text = self.engine.borrow_mut().swap_output(Vec::new());
        self.worker().resources.buffers.release_text(text);
    }

    /// Sets the deadline for the next stream, or for the end of the connection.
    fn start_idle(&self) {
        let worker = self.worker();
        let compiled = worker.compiled();
        // While responses are on their way, the end waits for a client that reads them.
        let sends = |engine: &Connection| !engine.output().is_empty() && !engine.has_failed();
        let limit_ms = if !self.leaving.get() {
            compiled.live.idle_ms
        } else if self.engine.try_borrow().is_ok_and(|engine| sends(&engine)) {
            compiled.live.stall_ms
        } else {
            DRAIN_MS_MAX
        };
        self.watch.set(worker.resources.deadline_us(limit_ms));
        // The connection is one of those that give way when there are too many.
        self.watch.client_is_slow(true, worker.resources.coarse_us());
    }

    /// Sends GOAWAY. Open streams are still served, and those that the client opened before it received GOAWAY.
    fn leave(&self) {
        self.leaving.set(true);
        self.lend_output();
        self.engine.borrow_mut().leave();
        if self.streams.get() == 0 {
            self.start_idle();
        }
    }
}

/// A stream that is being served. The connection is idle when the last one is dropped.
struct OpenStream {
    connection: Rc<Shared>,
    slot: usize,
    /// Bytes of the stream's head.
    head_bytes: usize,
    _places: OpenPlaces,
}

impl OpenStream {
    /// `None`: there are too many streams, or their heads are too large.
    fn new(connection: &Rc<Shared>, slot: usize) -> Option<Self> {
        let (worker, head_bytes) = (connection.worker(), connection.engine.borrow().head_bytes());
        let places = worker.open_stream(&connection.peer)?;
        if !worker.count_head(&connection.peer, &connection.head_bytes, head_bytes) {
            return None;
        }
        connection.streams.set(connection.streams.get() + 1);
        connection.watch.set(u64::MAX);
        connection.watch.client_is_slow(false, 0);
        Some(Self { connection: Rc::clone(connection), slot, head_bytes, _places: places })
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let connection = &self.connection;
        if let Ok(mut inboxes) = connection.inboxes.try_borrow_mut() {
            inboxes.close(self.slot, &connection.worker().resources.buffers);
        }
        let worker = connection.worker();
        worker.forget_head(&connection.peer, &connection.head_bytes, self.head_bytes);
        let left = connection.streams.get().saturating_sub(1);
        connection.streams.set(left);
        if left == 0 {
            connection.start_idle();
        }
    }
}
