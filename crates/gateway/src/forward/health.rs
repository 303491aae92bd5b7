//! The health of an endpoint, shared by all workers: numbers that any of them writes, without a lock.
//!
//! ACTIVE --failures--> SUSPENDED --timeout--> one probe --> ACTIVE, or SUSPENDED for longer. A failure is a refused,
//! broken or timed-out exchange; a status only if a circuit breaker lists it, and a SOAP fault only if the message's
//! properties request it.
//!
//! Workers write it when an exchange fails; successes they count themselves and add a few times a second
//! ([`Successes`]). Every number is a hint of its own, so that no order between them matters.

use std::cell::Cell;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use model::{HealthCheck, Suspension, SuspensionTime};

use super::window::{Failure, Window, bit, half_window_us};

#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Consecutive ones.
    failures: AtomicU32,
    /// End of the suspension; zero: active.
    suspended_until_us: AtomicU64,
    /// Duration of the last suspension; zero after a success.
    suspended_ms: AtomicU32,
    /// A probe is in progress: no other request is sent until it ends, or until this time.
    probing_until_us: AtomicU64,
    /// When the last suspension ended.
    active_since_us: AtomicU64,
    /// Health checks in a row that passed or failed.
    checks_passed: AtomicU32,
    checks_failed: AtomicU32,
    window: Window,
}

/// The end of a suspension that only health checks end.
const UNTIL_CHECKED: u64 = u64::MAX;

/// The state of an endpoint after health checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    Healthy,
    Unhealthy,
}

/// Whether a request may be sent to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Open,
    /// It decides whether the suspension ends. No other request is sent meanwhile.
    Probe,
    Suspended,
}

/// Longest wait for the outcome of a probe before the next one, in microseconds.
const PROBE_US: u64 = 10_000_000;

impl Health {
    pub(crate) fn is_open(&self, now_us: u64) -> bool {
        self.suspended_until_us.load(Relaxed) <= now_us
            && self.probing_until_us.load(Relaxed) <= now_us
    }

    /// Like `is_open`; the first request after a suspension becomes its probe.
    pub(crate) fn admit(&self, now_us: u64) -> Admission {
        let until_us = self.suspended_until_us.load(Relaxed);
        if until_us == 0 {
            return Admission::Open;
        }
        let probing_us = self.probing_until_us.load(Relaxed);
        if until_us > now_us || probing_us > now_us {
            return Admission::Suspended;
        }
        let end_us = now_us.saturating_add(PROBE_US);
        match self.probing_until_us.compare_exchange(probing_us, end_us, Relaxed, Relaxed) {
            Ok(_) => Admission::Probe,
            Err(_) => Admission::Suspended,
        }
    }

    /// Allows the next probe, in case this one ended without an outcome.
    pub(crate) fn end_probe(&self) {
        self.probing_until_us.store(0, Relaxed);
    }

    /// Records a response. Returns whether that ended a suspension. Before its time is over, a suspension is not ended
    /// by responses to requests that were sent before it.
    pub(crate) fn succeeded(&self, now_us: u64) -> bool {
        if self.failures.load(Relaxed) > 0 {
            self.failures.store(0, Relaxed);
        }
        match self.suspended_until_us.load(Relaxed) {
            0 => false,
            // Until a later time, or until checked.
            until_us if until_us > now_us => false,
            _ => self.activate(now_us),
        }
    }

    /// Ends a suspension. Returns whether there was one.
    fn activate(&self, now_us: u64) -> bool {
        self.suspended_ms.store(0, Relaxed);
        self.active_since_us.store(now_us.max(1), Relaxed);
        self.end_probe();
        self.suspended_until_us.swap(0, Relaxed) > 0
    }

    /// For how long it has been active again after a suspension; `None`: it never was suspended.
    pub(crate) fn active_us(&self, now_us: u64) -> Option<u64> {
        let since_us = self.active_since_us.load(Relaxed);
        (since_us > 0).then(|| now_us.saturating_sub(since_us))
    }

    /// Records the outcome of a health check. Returns the change of state that follows.
    pub(crate) fn checked(
        &self,
        passed: bool,
        check: &HealthCheck,
        now_us: u64,
    ) -> Option<Checked> {
        let is_down = self.suspended_until_us.load(Relaxed) == UNTIL_CHECKED;
        let (count, other) = if passed {
            (&self.checks_passed, &self.checks_failed)
        } else {
            (&self.checks_failed, &self.checks_passed)
        };
        other.store(0, Relaxed);
        let in_a_row = count.fetch_add(1, Relaxed).saturating_add(1);
        if passed && is_down && in_a_row >= check.healthy_after {
            self.activate(now_us);
            return Some(Checked::Healthy);
        }
        if !passed && !is_down && in_a_row >= check.unhealthy_after {
            self.suspended_until_us.store(UNTIL_CHECKED, Relaxed);
            return Some(Checked::Unhealthy);
        }
        None
    }

    /// Adds successes to the window.
    fn add_successes(&self, count: u32, operations: u64, half_us: u64, now_us: u64) {
        self.window.succeeded(count, operations, half_us, now_us);
    }

    /// The operations of which exchanges succeeded lately and none broke, as a set of bits.
    pub(crate) fn served(&self, half_us: u64, now_us: u64) -> u64 {
        self.window.served(half_us, now_us)
    }

    /// Records a failure. `may`: enough endpoints of the set would be left. `elsewhere`: the operations that another
    /// endpoint of the set serves. Returns the duration of the suspension that it starts, in milliseconds.
    pub(crate) fn failed(
        &self,
        rule: &Suspension,
        failure: Failure,
        (may, elsewhere): (bool, u64),
        now_us: u64,
    ) -> Option<u32> {
        self.end_probe();
        let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        if let Some(half_us) = half_window_us(rule) {
            self.window.failed(failure, half_us, now_us);
        }
        let until_us = self.suspended_until_us.load(Relaxed);
        if until_us == UNTIL_CHECKED {
            return None;
        }
        // After a mark it was not.
        let was_suspended = until_us > 0 && self.suspended_ms.load(Relaxed) > 0;
        match rule {
            Suspension::Outliers if !may => {
                // It is used although it fails, like a single endpoint.
                self.suspended_until_us.store(0, Relaxed);
                None
            }
            Suspension::Outliers => {
                let due = was_suspended || self.window.is_outlier(elsewhere);
                due.then(|| self.suspend(&SuspensionTime::default(), now_us)).flatten()
            }
            Suspension::Consecutive { failures: 0, .. } => None,
            Suspension::Consecutive { failures: most, lasts, mark_ms, .. } => {
                let is_final = failure == Failure::Final;
                if was_suspended || is_final || failures >= *most {
                    return self.suspend(lasts, now_us);
                }
                let end_us = now_us.saturating_add(u64::from(*mark_ms) * 1_000);
                if *mark_ms > 0 && until_us <= now_us {
                    self.suspended_until_us.store(end_us, Relaxed);
                }
                None
            }
            Suspension::Ratio(breaker) => {
                let lasts = SuspensionTime {
                    initial_ms: Some(breaker.reset_ms),
                    factor: 1.0,
                    max_ms: breaker.reset_ms,
                };
                let due = was_suspended || self.window.exceeds(breaker);
                due.then(|| self.suspend(&lasts, now_us)).flatten()
            }
        }
    }

    /// Suspends it, for longer than the last time. Returns the duration in milliseconds; `None` if it is suspended
    /// already, perhaps by another worker at the same time.
    fn suspend(&self, lasts: &SuspensionTime, now_us: u64) -> Option<u32> {
        let until_us = self.suspended_until_us.load(Relaxed);
        if until_us > now_us {
            return None;
        }
        let duration_ms = match self.suspended_ms.load(Relaxed) {
            0 => lasts.initial_ms,
            // Zero is before the first one.
            last => (lasts.factor >= 0.0).then(|| longer(last, lasts.factor).max(1)),
        };
        let duration_ms = duration_ms.map_or(SUSPENSION_MS, |ms| ms.min(lasts.max_ms));
        let end_us = now_us.saturating_add(u64::from(duration_ms) * 1_000).max(1);
        self.suspended_until_us.compare_exchange(until_us, end_us, Relaxed, Relaxed).ok()?;
        self.suspended_ms.store(duration_ms, Relaxed);
        self.window.clear();
        Some(duration_ms)
    }
}

/// The duration of a suspension whose rule sets none, in milliseconds. The rule's maximum does not apply, as in
/// Synapse's `EndpointContext`.
const SUSPENSION_MS: u32 = 30_000;

/// `last_ms` times `factor`, at most `u32::MAX`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped before the cast"
)]
pub(super) fn longer(last_ms: u32, factor: f64) -> u32 {
    (f64::from(last_ms) * factor).clamp(0.0, f64::from(u32::MAX)) as u32
}

/// One worker's successes with an endpoint that are not yet in the shared window.
#[derive(Debug, Default)]
pub(crate) struct Successes {
    count: Cell<u32>,
    operations: Cell<u64>,
    last_us: Cell<u64>,
    added_us: Cell<u64>,
}

/// Shortest time between two additions of successes to the shared window, in microseconds.
const ADD_US: u64 = 250_000;

impl Successes {
    pub(crate) fn add(&self, health: &Health, operation: usize, half_us: u64, now_us: u64) {
        if now_us.saturating_sub(self.added_us.get()) >= ADD_US {
            self.flush(health, half_us, now_us);
        }
        self.count.set(self.count.get().saturating_add(1));
        self.operations.set(self.operations.get() | bit(operation));
        self.last_us.set(now_us);
    }

    /// Adds them to the window now, unless they are too old to be in it.
    pub(crate) fn flush(&self, health: &Health, half_us: u64, now_us: u64) {
        self.added_us.set(now_us);
        let (count, operations) = (self.count.replace(0), self.operations.replace(0));
        if count > 0 && now_us.saturating_sub(self.last_us.get()) < half_us {
            health.add_successes(count, operations, half_us, now_us);
        }
    }
}
