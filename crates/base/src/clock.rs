//! Time as an argument. The only module of the workspace that reads the operating system's clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Seconds since the Unix epoch, for lifetimes set elsewhere (`exp`, certificates).
    pub unix_s: u64,
    /// Microseconds on a monotonic clock, for waits and latencies.
    pub mono_us: u64,
}

impl Now {
    /// Microseconds from `earlier` to this reading; zero if `earlier` is later.
    #[must_use]
    pub fn since_us(self, earlier: Self) -> u64 {
        self.mono_us.saturating_sub(earlier.mono_us)
    }
}

/// A source of time. Tests use a clock that they set themselves.
pub trait Clock {
    /// Reads both clocks.
    fn now(&self) -> Now;
}

/// The operating system's clocks. `mono_us` counts from the creation of the value; clones share that origin.
#[derive(Clone, Debug)]
pub struct SystemClock {
    origin: Instant,
    origin_unix_us: u64,
}

impl SystemClock {
    /// A clock that starts at zero microseconds.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now(), origin_unix_us: unix_us() }
    }

    /// `now().mono_us` alone: one clock read instead of two.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// As [`SystemClock::now_us`], in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Microseconds since the Unix epoch when `mono_us` was zero. For time stamps of records; not for
    /// lifetimes, since the wall clock may have been set meanwhile.
    #[must_use]
    pub fn origin_unix_us(&self) -> u64 {
        self.origin_unix_us
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        Now { unix_s: unix_us() / 1_000_000, mono_us: self.now_us() }
    }
}

/// The processor time that this thread has used, in microseconds. For limits on work whose steps cannot be counted.
#[must_use]
pub fn thread_cpu_us() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (seconds, ns) = (u64::try_from(used.tv_sec), u64::try_from(used.tv_nsec));
    let us = seconds.unwrap_or_default().saturating_mul(1_000_000);
    us.saturating_add(ns.unwrap_or_default() / 1_000)
}

/// Zero if the clock is before 1970.
fn unix_us() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
