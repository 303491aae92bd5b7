//! State shared by the users of a measurement: the plan, the measured window, and per-thread state.
//!
//! Architecture invariant: nothing that is written per request is shared between threads.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use base::SystemClock;
use tokio::sync::Notify;

use crate::limits;
use crate::load::Protocol;
use crate::load::connect::Connector;
use crate::load::request::Prepared;
use crate::load::scenario::{Compiled, Session};
use crate::load::shape::{IdleUser, NextStart, Part, Scheduler, Shape, Timeline};
use crate::load::statistics::{Interval, Sample, Tally};
use crate::load::websocket::Handshake;
use crate::recording::hlog::TimedInterval;
use crate::recording::jtl;

thread_local! {
    /// The read buffer of all connections of a thread: bytes are processed before the next read.
    pub(crate) static READ_BUFFER: RefCell<Vec<u8>> =
        RefCell::new(vec![0; limits::BODY_BUFFER_BYTES as usize]);
}

/// Shared by all users of a measurement.
pub(crate) struct Plan {
    pub(crate) clock: SystemClock,
    pub(crate) connector: Connector,
    pub(crate) protocol: Protocol,
    pub(crate) prepared: Arc<Prepared>,
    /// Sent instead of `prepared`.
    pub(crate) scenario: Option<Arc<Compiled>>,
    /// Opens a WebSocket before the first message of a connection.
    pub(crate) websocket: Option<(Handshake, Prepared)>,
    pub(crate) is_grpc: bool,
    pub(crate) expect: Option<Vec<u8>>,
    pub(crate) timeout: Duration,
    pub(crate) shape: Shape,
    pub(crate) timeline: Timeline,
    pub(crate) window: Window,
    /// The share of the measurement that this process handles.
    pub(crate) part: Part,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
    /// Measured requests, if their number ends the measurement.
    pub(crate) requests: Option<u64>,
    pub(crate) connection_per_request: bool,
    /// Threads with users that have not ended.
    pub(crate) running: AtomicUsize,
    /// All users have ended before the measured time.
    pub(crate) finished: Notify,
    /// Users that have started; recorded in a JTL.
    pub(crate) begun: AtomicUsize,
    /// Called with each second of the measured time, counted from its start.
    pub(crate) on_second: Option<Box<dyn Fn(TimedInterval) + Send + Sync>>,
}

impl Plan {
    pub(crate) fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// The way of user `index` through the scenario, if there is one.
    pub(crate) fn session(&self, index: usize) -> Option<Session> {
        self.scenario.as_ref().map(|scenario| Session::new(scenario, index, &self.prepared))
    }

    /// The users of a thread have ended. If their number of requests ends the measurement, the last one ends the
    /// measured time.
    pub(crate) fn thread_ended(&self) {
        if self.running.fetch_sub(1, Ordering::Relaxed) == 1 && self.requests.is_some() {
            self.window.end_at(self.now_us());
            self.finished.notify_one();
        }
    }

    /// Thread `index` of this process among all threads of the measurement.
    pub(crate) fn thread_part(&self, index: usize) -> Part {
        Part { index: self.part.index * self.threads + index, of: self.part.of * self.threads }
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

    /// Ends the measured time at `at_us`, unless it ends earlier.
    pub(crate) fn end_at(&self, at_us: u64) {
        self.until_us.fetch_min(at_us, Ordering::Relaxed);
    }

    /// Whether a request whose latency counts from `from_us` is measured.
    pub(crate) fn measures(&self, from_us: u64) -> bool {
        from_us >= self.from_us && from_us < self.until_us()
    }
}

/// Shared by the users of one thread.
pub(crate) struct ThreadState {
    records: Mutex<Records>,
    scheduler: Mutex<Box<dyn Scheduler>>,
    /// The Unix time at the clock's zero.
    origin_us: u64,
    /// Index of the next token. Threads interleave: thread 1 of 3 uses tokens 1, 4, 7, ...
    turn: AtomicUsize,
    /// Index of the next row of data, as with tokens.
    row: AtomicUsize,
    step: usize,
    /// Measured requests that the thread may still start.
    left: AtomicU64,
    pub(crate) seed: u64,
    /// Whether samples need details such as the time of the first byte.
    pub(crate) detailed: bool,
}

/// Counters, and the samples for a JTL.
struct Records {
    tally: Tally,
    jtl: Option<jtl::Chunks>,
}

impl ThreadState {
    /// `index`: the thread's index within the process.
    pub(crate) fn new(plan: &Plan, index: usize, jtl: Option<jtl::Chunks>) -> Self {
        let part = plan.thread_part(index);
        Self {
            detailed: jtl.is_some(),
            records: Mutex::new(Records { tally: Tally::new(plan.shape.is_open(), true), jtl }),
            scheduler: Mutex::new(plan.shape.scheduler(plan.timeline, part, plan.seed)),
            origin_us: plan.clock.origin_unix_us(),
            turn: AtomicUsize::new(part.index),
            row: AtomicUsize::new(part.index),
            step: part.of,
            seed: plan.seed,
            left: AtomicU64::new(plan.requests.map_or(u64::MAX, |all| part.share(all))),
        }
    }

    /// Records a finished request. `measured`: whether its latency counts from within the measured time.
    pub(crate) fn record(&self, measured: bool, sample: &Sample) {
        let mut records = self.records();
        records.tally.record(measured, sample, self.origin_us);
        if let Some(jtl) = &mut records.jtl {
            jtl.push(*sample);
        }
    }

    /// Records the thread's current scheduling lag.
    pub(crate) fn record_lag(&self, lag_us: u64) {
        self.records().tally.lag.record(lag_us);
    }

    /// Finished requests so far, and those of them that failed.
    pub(crate) fn finished(&self) -> (u64, u64) {
        let records = self.records();
        (records.tally.all, records.tally.all_errors)
    }

    pub(crate) fn take_interval(&self, empty: Interval) -> Option<Interval> {
        self.records().tally.take_interval(empty)
    }

    /// Returns all counts; hands the remaining samples to the JTL writer.
    pub(crate) fn close(&self) -> Tally {
        let mut records = self.records();
        records.jtl.take();
        records.tally.clone()
    }

    pub(crate) fn next(&self, free: IdleUser) -> NextStart {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner).next(free)
    }

    /// Whether a measured request may start. Called by one thread only.
    pub(crate) fn claim(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        left > 0
    }

    pub(crate) fn next_token(&self) -> usize {
        self.advance(&self.turn)
    }

    pub(crate) fn next_row(&self) -> usize {
        self.advance(&self.row)
    }

    /// Called by one thread only, so load and store cannot race.
    fn advance(&self, turn: &AtomicUsize) -> usize {
        let now = turn.load(Ordering::Relaxed);
        turn.store(now.wrapping_add(self.step), Ordering::Relaxed);
        now
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        // The records are consistent between statements, so a panic elsewhere cannot corrupt them.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the thread's sweep time out a user's request.
pub(crate) struct TimeoutSlot {
    /// Start of the request in flight; [`IDLE`] if there is none.
    waiting_since_us: AtomicU64,
    expired: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

const IDLE: u64 = u64::MAX;

impl TimeoutSlot {
    pub(crate) fn new() -> Self {
        Self {
            waiting_since_us: AtomicU64::new(IDLE),
            expired: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    /// Wakes the user if its request started at `deadline_us` or earlier.
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

    pub(crate) fn is_expired(&self) -> bool {
        self.expired.load(Ordering::Relaxed)
    }

    /// Sets the waker of the user.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        *self.waker() = Some(waker.clone());
    }

    pub(crate) fn begin(&self, start_us: u64) {
        self.expired.store(false, Ordering::Relaxed);
        self.waiting_since_us.store(start_us, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.waiting_since_us.store(IDLE, Ordering::Relaxed);
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
