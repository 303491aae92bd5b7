//! One user: a connection, and one request after the other on it, until the time is over.
//!
//! Closed loop: the end of one request is the start of the next, so the clock is read once per
//! request. Connecting, where needed, is part of the request that needs it.
//!
//! In the ordinary case a request costs one write and one read system call and no allocation. There
//! is no timer per request either: [`Slot`] says since when a request is waiting, and the thread's
//! sweep ends what waits too long.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base::{Clock, SystemClock, limits};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::stream::Stream;

use crate::load::connect::Connector;
use crate::load::request::Prepared;
use crate::load::response::{Outcome, Reader, Reading};
use crate::load::statistics::{Span, Tally, Traffic};

/// What all users of a measurement share.
pub(crate) struct Plan {
    pub(crate) clock: SystemClock,
    pub(crate) connector: Connector,
    pub(crate) prepared: Prepared,
    pub(crate) expect: Option<Vec<u8>>,
    pub(crate) timeout: Duration,
    pub(crate) window: Window,
    pub(crate) threads: usize,
}

impl Plan {
    pub(crate) fn now_us(&self) -> u64 {
        self.clock.now().mono_us
    }
}

/// The measured time, on the plan's clock.
pub(crate) struct Window {
    pub(crate) from_us: u64,
    until_us: AtomicU64,
}

impl Window {
    pub(crate) fn new(from_us: u64, until_us: u64) -> Self {
        Self { from_us, until_us: AtomicU64::new(until_us) }
    }

    pub(crate) fn until_us(&self) -> u64 {
        self.until_us.load(Ordering::Relaxed)
    }

    /// Ends the measured time now, if it hasn't ended.
    pub(crate) fn end_at(&self, now_us: u64) {
        self.until_us.fetch_min(now_us, Ordering::Relaxed);
    }

    /// Whether a request that started then counts.
    fn measures(&self, start_us: u64) -> bool {
        start_us >= self.from_us && start_us < self.until_us()
    }
}

/// What the users of one thread share.
pub(crate) struct Lane {
    tally: Mutex<Tally>,
    /// The next token's turn. The lanes' turns interleave: lane 1 of 3 has 1, 4, 7, ...
    turn: AtomicUsize,
}

impl Lane {
    pub(crate) fn new(index: usize) -> Self {
        Self { tally: Mutex::new(Tally::new()), turn: AtomicUsize::new(index) }
    }

    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        // A tally is whole between any two of its statements, so a panic elsewhere can't spoil it.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Only the lane's own thread asks, so there is nobody to race with.
    fn next_turn(&self, threads: usize) -> usize {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(threads), Ordering::Relaxed);
        turn
    }
}

/// Where a user and its thread's sweep meet.
pub(crate) struct Slot {
    /// Start of the request under way; [`IDLE`] when there is none to be timed here.
    waiting_since_us: AtomicU64,
    expired: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

const IDLE: u64 = u64::MAX;

impl Slot {
    pub(crate) fn new() -> Self {
        Self {
            waiting_since_us: AtomicU64::new(IDLE),
            expired: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    /// Wakes the user when its request has waited since before `deadline_us`.
    pub(crate) fn expire(&self, deadline_us: u64) {
        let since_us = self.waiting_since_us.load(Ordering::Relaxed);
        if since_us == IDLE || since_us > deadline_us {
            return;
        }
        self.expired.store(true, Ordering::Relaxed);
        if let Some(waker) = self.waker().as_ref() {
            waker.wake_by_ref();
        }
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, start_us: u64) {
        self.expired.store(false, Ordering::Relaxed);
        self.waiting_since_us.store(start_us, Ordering::Relaxed);
    }

    fn end(&self) {
        self.waiting_since_us.store(IDLE, Ordering::Relaxed);
    }
}

pub(crate) struct User {
    plan: Arc<Plan>,
    lane: Arc<Lane>,
    slot: Arc<Slot>,
    stream: Option<Stream>,
    reader: Reader,
}

/// How an exchange ended, and what it moved.
struct Ended {
    outcome: Outcome,
    keep: bool,
    bytes: Traffic,
}

impl Ended {
    const fn failed(outcome: Outcome, bytes: Traffic) -> Self {
        Self { outcome, keep: false, bytes }
    }
}

impl User {
    pub(crate) fn new(plan: Arc<Plan>, lane: Arc<Lane>, slot: Arc<Slot>) -> Self {
        let reader = Reader::new(plan.prepared.method, plan.expect.as_deref());
        Self { plan, lane, slot, stream: None, reader }
    }

    /// Waits for `delay` (the ramp), then sends until the measured time is over.
    pub(crate) async fn run(mut self, delay: Duration) {
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        std::future::poll_fn(|cx| {
            *self.slot.waker() = Some(cx.waker().clone());
            Poll::Ready(())
        })
        .await;
        let mut start_us = self.plan.now_us();
        while start_us < self.plan.window.until_us() {
            let ended = self.request(start_us).await;
            let span = Span { start_us, end_us: self.plan.now_us() };
            let measured = self.plan.window.measures(start_us);
            self.lane.tally().record(measured, span, ended.outcome, ended.bytes);
            start_us = span.end_us;
            if !ended.keep {
                self.stream = None;
            }
            if ended.outcome == Outcome::Connect {
                tokio::time::sleep(Duration::from_millis(limits::LOAD_RECONNECT_MS)).await;
                start_us = self.plan.now_us();
            }
        }
    }

    async fn request(&mut self, start_us: u64) -> Ended {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => match tokio::time::timeout(self.plan.timeout, self.plan.connector.open()).await
            {
                Ok(Ok(stream)) => stream,
                Ok(Err(_)) => return Ended::failed(Outcome::Connect, Traffic::default()),
                Err(_) => return Ended::failed(Outcome::Timeout, Traffic::default()),
            },
        };
        self.reader.restart();
        let turn = self.lane.next_turn(self.plan.threads);
        let length = self.plan.prepared.len(turn);
        let mut exchange = Exchange {
            prepared: &self.plan.prepared,
            slot: &self.slot,
            stream: &mut stream,
            reader: &mut self.reader,
            turn,
            length,
            written: 0,
            flushed: false,
            broken: false,
        };
        self.slot.begin(start_us);
        let ended = std::future::poll_fn(|cx| exchange.poll(cx)).await;
        self.slot.end();
        self.stream = Some(stream);
        ended
    }
}

/// One request on one connection.
struct Exchange<'a> {
    prepared: &'a Prepared,
    slot: &'a Slot,
    stream: &'a mut Stream,
    reader: &'a mut Reader,
    turn: usize,
    length: usize,
    written: usize,
    flushed: bool,
    /// Writing failed; there may be an answer that says why.
    broken: bool,
}

/// What one read may bring, in bytes. One buffer for all connections of a thread: what is read is
/// looked at before the next read, so it never has to stay.
const SCRATCH_BYTES: usize = limits::BODY_BUFFER_BYTES as usize;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; SCRATCH_BYTES]);
}

impl Exchange<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        if self.slot.expired.load(Ordering::Relaxed) {
            return Poll::Ready(self.failed(Outcome::Timeout));
        }
        // While the request can't be written further, an early answer may already be there.
        if !self.flushed && !self.broken {
            self.broken = matches!(self.poll_write(cx), Poll::Ready(Err(_)));
        }
        loop {
            let reading = match self.poll_read(cx) {
                Poll::Ready(reading) => reading,
                Poll::Pending => return Poll::Pending,
            };
            if let Reading::Over { outcome, keep } = reading {
                // A connection with half a request on it is of no more use.
                let keep = keep && self.flushed;
                return Poll::Ready(Ended { outcome, keep, bytes: self.bytes() });
            }
        }
    }

    /// Ready when all is written, or nothing more can be.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.length {
            let rest = self.prepared.rest(self.turn, self.written);
            match Pin::new(&mut *self.stream).poll_write_vectored(cx, &rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        match Pin::new(&mut *self.stream).poll_flush(cx) {
            Poll::Ready(result) => {
                self.flushed = result.is_ok();
                Poll::Ready(result)
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Reading> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            match Pin::new(&mut *self.stream).poll_read(cx, &mut buffer) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => Poll::Ready(self.ended()),
                Poll::Ready(Ok(())) => Poll::Ready(self.reader.feed(buffer.filled())),
                Poll::Ready(Err(_)) => Poll::Ready(self.ended()),
            }
        })
    }

    /// The connection is over. If writing had failed before, that is what is told.
    fn ended(&mut self) -> Reading {
        let reading = self.reader.end();
        if let Reading::Over { outcome: Outcome::Closed, keep } = reading
            && self.broken
        {
            return Reading::Over { outcome: Outcome::Write, keep };
        }
        reading
    }

    fn failed(&self, outcome: Outcome) -> Ended {
        Ended::failed(outcome, self.bytes())
    }

    fn bytes(&self) -> Traffic {
        Traffic { sent: self.written as u64, received: self.reader.received() }
    }
}
