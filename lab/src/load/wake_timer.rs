//! Wakes users with microsecond precision: one kernel timer for all users of a thread.
//!
//! The runtime's own timer has a resolution of one millisecond, which is longer than many requests. Here a
//! heap holds the wake-up times and a timerfd is set to the earliest one; its expiry is reported by the same
//! poll as socket readiness.
//!
//! Architecture invariant: no user is woken early, except by [`WakeTimer::wake_all`].

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{self, AtomicBool};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base::SystemClock;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub(crate) struct WakeTimer {
    clock: SystemClock,
    timer: AsyncFd<KernelTimer>,
    waiting: Mutex<BinaryHeap<Sleeper>>,
    all_woken: AtomicBool,
}

impl WakeTimer {
    /// Must be called in the runtime that will wait on it.
    ///
    /// # Errors
    /// The system has no timer or file descriptor left.
    pub(crate) fn new(clock: SystemClock) -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = KernelTimer(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?);
        Ok(Self {
            clock,
            timer: watched(timer)?,
            waiting: Mutex::new(BinaryHeap::new()),
            all_woken: AtomicBool::new(false),
        })
    }

    /// Returns at `at_us`, or when all users are woken; immediately if the time has passed.
    pub(crate) async fn sleep_until(&self, at_us: u64) {
        let mut asleep = false;
        std::future::poll_fn(|cx| self.poll_sleep(cx, at_us, &mut asleep)).await;
    }

    /// Wakes the calling task at `at_us`; now if the time has passed.
    pub(crate) fn wake_at(&self, cx: &mut Context<'_>, at_us: u64) {
        if self.poll_sleep(cx, at_us, &mut false).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    fn poll_sleep(&self, cx: &mut Context<'_>, at_us: u64, asleep: &mut bool) -> Poll<()> {
        let now_us = self.clock.now_us();
        if now_us >= at_us || self.all_woken.load(atomic::Ordering::Relaxed) {
            return Poll::Ready(());
        }
        // A task always uses the same waker, so one entry in the heap is enough.
        if !*asleep {
            *asleep = true;
            let mut waiting = self.waiting();
            let first = waiting.peek().is_none_or(|first| at_us < first.at_us);
            waiting.push(Sleeper { at_us, waker: cx.waker().clone() });
            if first {
                self.timer.get_ref().set(at_us.saturating_sub(now_us));
            }
        }
        Poll::Pending
    }

    /// Wakes all users; from then on, sleeping returns immediately.
    pub(crate) fn wake_all(&self) {
        self.all_woken.store(true, atomic::Ordering::Relaxed);
        self.waiting().drain().for_each(|sleeper| sleeper.waker.wake());
    }

    /// Wakes users at their times. Returns only on an error of the poll.
    pub(crate) async fn run(&self) -> io::Result<()> {
        loop {
            let mut ready = self.timer.readable().await?;
            // The expiry need not be read: setting the timer again clears it.
            ready.clear_ready();
            self.wake_due();
        }
    }

    fn wake_due(&self) {
        let now_us = self.clock.now_us();
        let mut waiting = self.waiting();
        while let Some(first) = waiting.peek() {
            if first.at_us > now_us {
                self.timer.get_ref().set(first.at_us.saturating_sub(now_us));
                return;
            }
            if let Some(first) = waiting.pop() {
                first.waker.wake();
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BinaryHeap<Sleeper>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(
    deprecated,
    reason = "the replacement is `unsafe` and requires that the descriptor stays open and unchanged, which \
     `KernelTimer` guarantees by owning it"
)]
fn watched(timer: KernelTimer) -> io::Result<AsyncFd<KernelTimer>> {
    AsyncFd::with_interest(timer, Interest::READABLE)
}

struct KernelTimer(TimerFd);

impl KernelTimer {
    /// 0 would disarm the timer, so the minimum is one microsecond.
    fn set(&self, after_us: u64) {
        let after = TimeSpec::from_duration(Duration::from_micros(after_us.max(1)));
        let set = self.0.set(Expiration::OneShot(after), TimerSetTimeFlags::empty());
        debug_assert!(set.is_ok(), "any time span is valid");
    }
}

impl AsRawFd for KernelTimer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// A waiting user. The earliest time compares as the greatest, since the heap pops the greatest first.
struct Sleeper {
    at_us: u64,
    waker: Waker,
}

impl Ord for Sleeper {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at_us.cmp(&self.at_us)
    }
}

impl PartialOrd for Sleeper {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Sleeper {
    fn eq(&self, other: &Self) -> bool {
        self.at_us == other.at_us
    }
}

impl Eq for Sleeper {}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn users_are_not_woken_early() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let clock = SystemClock::new();
            let wake_timer = WakeTimer::new(clock.clone()).unwrap();
            let sleep = async |at_us: u64| {
                wake_timer.sleep_until(at_us).await;
                assert!(clock.now_us() >= at_us);
            };
            tokio::select! {
                _ = wake_timer.run() => panic!("the timer stopped"),
                _ = async { tokio::join!(sleep(9_000), sleep(3_000), sleep(3_001), sleep(0)) } => {}
            }
        });
    }

    #[test]
    fn the_earliest_wakes_first() {
        let sleeper = |at_us| Sleeper { at_us, waker: Waker::noop().clone() };
        let mut waiting: BinaryHeap<_> = [5, 1, 9, 3].map(sleeper).into_iter().collect();
        let order: Vec<_> = std::iter::from_fn(|| waiting.pop()).map(|first| first.at_us).collect();
        assert_eq!(order, [1, 3, 5, 9]);
    }

    #[test]
    fn wake_all_wakes_every_user() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let wake_timer = WakeTimer::new(SystemClock::new()).unwrap();
            tokio::join!(
                wake_timer.sleep_until(u64::MAX),
                wake_timer.sleep_until(u64::MAX - 1),
                async {
                    wake_timer.wake_all();
                }
            );
            wake_timer.sleep_until(u64::MAX).await;
        });
    }
}
