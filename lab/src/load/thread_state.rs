//! What the users of a measurement share: the plan, the measured time, and per thread a state.
//!
//! Architecture invariant: nothing that is written per request is shared between threads.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use base::SystemClock;

use crate::load::connect::Connector;
use crate::load::request::Prepared;
use crate::load::shape::{IdleUser, NextStart, Part, Scheduler, Shape, Timeline};
use crate::load::statistics::{Interval, Sample, Tally};
use crate::recording::jtl;

/// What all users of a measurement share.
pub(crate) struct Plan {
    pub(crate) clock: SystemClock,
    pub(crate) connector: Connector,
    pub(crate) prepared: Prepared,
    pub(crate) expect: Option<Vec<u8>>,
    pub(crate) timeout: Duration,
    pub(crate) shape: Shape,
    pub(crate) timeline: Timeline,
    pub(crate) window: Window,
    /// Which part of the measurement this process is.
    pub(crate) part: Part,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
    /// Users that have begun; for a JTL.
    pub(crate) begun: AtomicUsize,
}

impl Plan {
    pub(crate) fn now_us(&self) -> u64 {
        self.clock.now_us()
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

    /// Ends the measured time then, if it doesn't end before.
    pub(crate) fn end_at(&self, at_us: u64) {
        self.until_us.fetch_min(at_us, Ordering::Relaxed);
    }

    /// Whether a request whose latency counts from then counts.
    pub(crate) fn measures(&self, from_us: u64) -> bool {
        from_us >= self.from_us && from_us < self.until_us()
    }
}

/// What the users of one thread share.
pub(crate) struct ThreadState {
    records: Mutex<Records>,
    scheduler: Mutex<Box<dyn Scheduler>>,
    /// The clock's zero on the Unix clock.
    origin_us: u64,
    /// The next token's turn. The states' turns interleave: state 1 of 3 has 1, 4, 7, ...
    turn: AtomicUsize,
    step: usize,
    /// Whether somebody wants to know of each sample's details.
    pub(crate) detailed: bool,
}

/// Where requests are written down.
struct Records {
    tally: Tally,
    jtl: Option<jtl::Chunks>,
}

impl ThreadState {
    /// `index`: of the process's threads. `intervals`: somebody is going to take them.
    pub(crate) fn new(
        plan: &Plan,
        index: usize,
        intervals: bool,
        jtl: Option<jtl::Chunks>,
    ) -> Self {
        let part = plan.thread_part(index);
        Self {
            detailed: jtl.is_some(),
            records: Mutex::new(Records {
                tally: Tally::new(plan.shape.is_open(), intervals),
                jtl,
            }),
            scheduler: Mutex::new(plan.shape.scheduler(plan.timeline, part, plan.seed)),
            origin_us: plan.clock.origin_unix_us(),
            turn: AtomicUsize::new(part.index),
            step: part.of,
        }
    }

    /// Writes a finished request down. `measured`: its latency counts from within the measured time.
    pub(crate) fn record(&self, measured: bool, sample: &Sample) {
        let mut records = self.records();
        records.tally.record(measured, sample, self.origin_us);
        if let Some(jtl) = &mut records.jtl {
            jtl.push(*sample);
        }
    }

    /// Writes down how late the thread was just now.
    pub(crate) fn record_lag(&self, lag_us: u64) {
        self.records().tally.lag.record(lag_us);
    }

    /// Requests that finished so far, and those of them that failed.
    pub(crate) fn finished(&self) -> (u64, u64) {
        let records = self.records();
        (records.tally.all, records.tally.all_errors)
    }

    pub(crate) fn take_interval(&self, empty: Interval) -> Option<Interval> {
        self.records().tally.take_interval(empty)
    }

    /// All that was counted; the rest of the samples goes to the JTL's writer.
    pub(crate) fn close(&self) -> Tally {
        let mut records = self.records();
        records.jtl.take();
        records.tally.clone()
    }

    pub(crate) fn next(&self, free: IdleUser) -> NextStart {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner).next(free)
    }

    /// Only the state's own thread asks, so there is nobody to race with.
    pub(crate) fn next_token(&self) -> usize {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(self.step), Ordering::Relaxed);
        turn
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        // It is whole between any two of its statements, so a panic elsewhere can't spoil it.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a user and its thread's sweep meet.
pub(crate) struct TimeoutSlot {
    /// Start of the request under way; [`IDLE`] when there is none to be timed here.
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

    pub(crate) fn is_expired(&self) -> bool {
        self.expired.load(Ordering::Relaxed)
    }

    /// Who is woken when a request waits too long.
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
