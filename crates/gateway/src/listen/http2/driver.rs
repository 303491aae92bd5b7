//! The loop of a connection: reads, runs streams, writes.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use base::limits::DRAIN_MS_MAX;
use tokio::io::AsyncWrite;
use wire::h2::{Event, Reason, SLOTS};
use wire::http1::Rejection;
use wire::stream::Stream;

use super::stream::{Opened, incomplete, parse_head};
use super::wakes::{Parts, READ, TIME, WRITE, Wakes};
use super::{OpenStream, Shared};
use crate::account::bump;
use crate::body::buffer::Buffer;
use crate::body::{Lend, poll_read};
use crate::listen::linger::linger;
use crate::listen::{rejected, request_from};
use crate::tasks::http2::Tasks;

/// Rounds and reads before other connections get their turn.
const TURN: usize = 16;

/// One connection, and the futures of its streams, made by `serve`.
pub(super) struct Driver<F, S> {
    shared: Rc<Shared>,
    serve: S,
    tasks: Tasks<F>,
    wakes: Arc<Wakes>,
    /// One for each slot that was ever used.
    wakers: Vec<Waker>,
    read_waker: Waker,
    write_waker: Waker,
    time_waker: Waker,
    io: Io,
    /// The first stream to be polled in the next round.
    turn: usize,
}

/// The socket, and its known state.
struct Io {
    stream: Stream,
    /// Received, and not yet processed.
    buffer: Buffer,
    /// The peer is gone, or nothing more may be read.
    ended: bool,
    /// The socket accepts no more.
    blocked: bool,
    /// Bytes may be left inside of `stream`.
    unflushed: bool,
}

impl<F, S> Driver<F, S>
where
    F: Future<Output = ()> + 'static,
    S: Fn(Opened) -> F,
{
    pub(super) fn new(shared: Rc<Shared>, stream: Stream, buffer: Buffer, serve: S) -> Self {
        let wakes = Arc::new(Wakes::default());
        let tasks = Tasks::new(&shared.worker().http2_tasks);
        let io = Io { stream, buffer, ended: false, blocked: false, unflushed: false };
        [READ, WRITE, TIME].into_iter().for_each(|part| shared.marks.add(part));
        Self {
            read_waker: wakes.waker(READ),
            write_waker: wakes.waker(WRITE),
            time_waker: wakes.waker(TIME),
            shared,
            serve,
            tasks,
            wakes,
            wakers: Vec::new(),
            io,
            turn: 0,
        }
    }

    /// Serves the connection until it ends.
    pub(super) async fn run(mut self) {
        poll_fn(|cx| self.poll(cx)).await;
        self.lose();
        if !self.io.ended {
            let Io { stream, buffer, .. } = &mut self.io;
            linger(self.shared.worker(), stream, buffer, &self.shared.watch).await;
        }
        let buffer = std::mem::take(&mut self.io.buffer);
        self.shared.worker().resources.buffers.release(buffer);
        // The rest of the output is lost.
        self.shared.engine.borrow_mut().written(usize::MAX);
        self.shared.release_output();
    }

    /// Ready when the connection is to be closed.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.wakes.belong_to(cx.waker());
        for _ in 0..TURN {
            let mut parts = self.shared.marks.take().union(self.wakes.take());
            if parts.is_empty() {
                return Poll::Pending;
            }
            if parts.has(TIME) && self.poll_time().is_ready() {
                return Poll::Ready(());
            }
            if parts.has(READ) {
                let may_have_more = self.poll_input();
                parts = parts.union(self.shared.marks.take());
                if may_have_more {
                    self.shared.marks.add(READ);
                }
            }
            self.poll_streams(parts);
            if parts.has(WRITE) {
                self.io.blocked = false;
            }
            self.poll_output();
            if self.is_over() {
                return Poll::Ready(());
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether nothing is left to do. Every stream notices when the client is gone, and ends.
    fn is_over(&self) -> bool {
        let engine = self.shared.engine.borrow();
        let is_sent = engine.output().is_empty() && !self.io.unflushed;
        self.tasks.is_empty()
            && if engine.has_failed() {
                is_sent || self.io.ended
            } else {
                is_sent && engine.has_left()
            }
    }

    /// Ready if the time is up: the client does not read finished responses, did not send its preface, or did not close
    /// after GOAWAY; or if it is one of the slowest, and others need the connection's place.
    fn poll_time(&mut self) -> Poll<()> {
        let shared = &self.shared;
        if shared.worker().draining.get() && !shared.leaving.get() {
            shared.leave();
        }
        if !shared.watch.poll_expired(&Context::from_waker(&self.time_waker)) {
            return Poll::Pending;
        }
        let engine = shared.engine.borrow();
        // While streams are open, no other deadline applies.
        let gives_way = shared.streams.get() > 0;
        if gives_way
            || shared.leaving.get()
            || !engine.is_established()
            || !engine.output().is_empty()
        {
            return Poll::Ready(());
        }
        drop(engine);
        shared.leave();
        Poll::Pending
    }

    /// Reads and processes the client's data. Returns whether the socket may hold more, and has no waker.
    fn poll_input(&mut self) -> bool {
        self.shared.engine.borrow_mut().refill(self.shared.worker().resources.coarse_us());
        self.process();
        for _ in 0..TURN {
            if self.io.ended {
                return false;
            }
            let (is_overfull, lend) = {
                let engine = self.shared.engine.borrow();
                let buffers = &self.shared.worker().resources.buffers;
                let is_body = engine.is_receiving_payload();
                (
                    engine.is_overfull(),
                    if is_body { Lend::Body(buffers) } else { Lend::Head(buffers) },
                )
            };
            if is_overfull {
                // Continues when something was written.
                return false;
            }
            let buffer = &mut self.io.buffer;
            if !buffer.is_absent() && !buffer.make_room() {
                self.gone();
                return false;
            }
            let cx = &mut Context::from_waker(&self.read_waker);
            match poll_read(cx, &mut self.io.stream, buffer, lend) {
                Poll::Pending => return false,
                Poll::Ready(Ok(count)) if count > 0 => self.process(),
                Poll::Ready(_) => {
                    self.gone();
                    return false;
                }
            }
        }
        true
    }

    /// Processes the bytes in the buffer.
    fn process(&mut self) {
        self.shared.lend_output();
        let was_established = self.shared.engine.borrow().is_established();
        loop {
            let step = self.shared.engine.borrow_mut().receive(self.io.buffer.filled());
            let step = match step {
                Ok(step) => step,
                Err(reason) => return self.failed(reason),
            };
            let is_done = step.used == 0 && step.event.is_none();
            if let Some(event) = step.event
                && let Err(reason) = self.apply(event)
            {
                return self.failed(reason);
            }
            if is_done {
                break;
            }
            self.io.buffer.consume(step.used);
        }
        if !was_established && self.shared.engine.borrow().is_established() && self.tasks.is_empty()
        {
            self.shared.start_idle();
        }
    }

    /// # Errors
    /// The client used up its budget.
    fn apply(&mut self, event: Event) -> Result<(), Reason> {
        let shared = Rc::clone(&self.shared);
        let slot = match event {
            Event::Request { slot, head, is_head_method, is_all } => {
                let Some(stream) = OpenStream::new(&shared, slot) else {
                    bump(&shared.worker().tally.http2_refused);
                    let mut engine = shared.engine.borrow_mut();
                    // The connection does not keep the memory of the head.
                    engine.swap_head(&mut Vec::new());
                    return engine.refuse(slot);
                };
                self.open(stream, head, is_head_method, is_all);
                slot
            }
            Event::Data { slot, at } => {
                let payload = self.io.buffer.filled().get(at).unwrap_or_default();
                if let Some(inbox) = shared.inboxes.borrow_mut().get(slot) {
                    inbox.add(payload, &shared.worker().resources.buffers);
                }
                slot
            }
            Event::End { slot } => {
                if let Some(inbox) = shared.inboxes.borrow_mut().get(slot) {
                    inbox.ended = true;
                }
                slot
            }
            Event::Trailers { slot, lines } => {
                if let Some(inbox) = shared.inboxes.borrow_mut().get(slot) {
                    (inbox.ended, inbox.trailers) = (true, lines);
                }
                slot
            }
            Event::Reset { slot } => slot,
            Event::Window => {
                shared.unblock();
                return Ok(());
            }
        };
        shared.marks.add(slot);
        Ok(())
    }

    /// Starts to serve a new stream.
    fn open(
        &mut self,
        stream: OpenStream,
        head: Result<(), Rejection>,
        is_head_method: bool,
        is_all: bool,
    ) {
        let (shared, slot) = (&self.shared, stream.slot);
        let of = (&shared.peer, shared.secure);
        let read = request_from(shared.worker(), of, |request| {
            request.bytes.clear();
            shared.engine.borrow_mut().swap_head(&mut request.bytes);
            head.and_then(|()| parse_head(request))
        });
        let (request, parsed) = match read.and_then(|request| request.ok_or_else(incomplete)) {
            Ok(request) => (request, Ok(())),
            Err(fault) => (Box::new(rejected(of)), Err(fault)),
        };
        shared.inboxes.borrow_mut().open(slot, is_all);
        while self.wakers.len() <= slot {
            self.wakers.push(self.wakes.waker(self.wakers.len()));
        }
        self.tasks.add(slot, (self.serve)(Opened { stream, request, parsed, is_head_method }));
    }

    /// Runs the futures of the streams in `parts`, in turn.
    fn poll_streams(&mut self, parts: Parts) {
        let mut first = None;
        for slot in parts.slots_from(self.turn) {
            if let Some(waker) = self.wakers.get(slot) {
                first.get_or_insert(slot);
                self.tasks.poll(slot, &mut Context::from_waker(waker));
            }
        }
        // Streams that wait for the output get the next room in turn. Otherwise streams are served in order of arrival.
        self.turn = match first {
            _ if self.shared.blocked.get().is_empty() => 0,
            Some(first) => (first + 1) % SLOTS,
            None => self.turn,
        };
        self.shared.engine.borrow_mut().served();
    }

    /// Writes the pending output, as far as the socket accepts it.
    fn poll_output(&mut self) {
        if self.io.blocked || self.io.ended {
            return;
        }
        let (was_full, was_overfull, unsent) = {
            let engine = self.shared.engine.borrow();
            (engine.is_full(), engine.is_overfull(), engine.output().len())
        };
        match self.io.poll_write(&mut Context::from_waker(&self.write_waker), &self.shared) {
            Poll::Ready(Ok(())) if self.tasks.is_empty() => self.shared.release_output(),
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => return self.gone(),
            Poll::Pending => self.io.blocked = true,
        }
        let engine = self.shared.engine.borrow();
        if was_full && !engine.is_full() {
            self.shared.unblock();
        }
        if was_overfull && !engine.is_overfull() {
            self.shared.marks.add(READ);
        }
        // Until the preface is there, its own deadline stays.
        let has_moved = engine.output().len() < unsent && engine.is_established();
        drop(engine);
        if has_moved && self.tasks.is_empty() {
            self.shared.start_idle();
        }
    }

    /// The client broke the protocol: GOAWAY is sent, and all streams end.
    fn failed(&mut self, reason: Reason) {
        let worker = self.shared.worker();
        if reason == Reason::EnhanceYourCalm {
            bump(&worker.tally.http2_floods);
            let client = self.shared.peer.address;
            tracing::warn!(%client, "HTTP/2 connection closed: too many control frames or resets");
        }
        self.shared.leaving.set(true);
        self.end_streams();
        self.shared.watch.set(worker.resources.deadline_us(DRAIN_MS_MAX));
        self.drop_input();
    }

    /// The client is gone.
    fn gone(&mut self) {
        self.io.ended = true;
        self.lose();
    }

    /// Nothing more is received or sent, and all streams end.
    fn lose(&mut self) {
        self.shared.leaving.set(true);
        self.shared.engine.borrow_mut().abandon();
        self.end_streams();
        self.drop_input();
    }

    fn end_streams(&self) {
        (0..self.wakers.len()).for_each(|slot| self.shared.marks.add(slot));
    }

    fn drop_input(&mut self) {
        self.io.buffer.clear();
    }
}

impl Io {
    /// Ready when everything is written and flushed.
    fn poll_write(&mut self, cx: &mut Context<'_>, shared: &Shared) -> Poll<io::Result<()>> {
        let mut engine = shared.engine.borrow_mut();
        while !engine.output().is_empty() {
            self.unflushed = true;
            match std::task::ready!(Pin::new(&mut self.stream).poll_write(cx, engine.output()))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => engine.written(count),
            }
        }
        if self.unflushed {
            std::task::ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}
