//! The metrics of the reconciliation.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Written by the reconciliation, read by scrapes.
#[derive(Debug, Default)]
pub struct Figures {
    /// `up`, or the behaviour while Redis is unavailable. Empty before the first attempt.
    state: Mutex<&'static str>,
    exchanges: AtomicU64,
    failures: AtomicU64,
    reports: AtomicU64,
    round_us: AtomicU64,
}

impl Figures {
    pub(crate) fn set_state(&self, state: &'static str) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    pub(crate) fn exchanged(&self, reports: usize) {
        self.exchanges.fetch_add(1, Ordering::Relaxed);
        self.reports.fetch_add(reports as u64, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn round(&self, us: u64) {
        self.round_us.store(us, Ordering::Relaxed);
    }

    /// The metrics in Prometheus' text format.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut text = String::from(
            "# HELP penstock_quota_sharing How limits are counted: up (shared by way of Redis), or as `when_down` \
             says.\n# TYPE penstock_quota_sharing gauge\n",
        );
        let current = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for state in ["up", "local", "open", "closed"] {
            let is_it = u8::from(state == current);
            let _ = writeln!(text, "penstock_quota_sharing{{state=\"{state}\"}} {is_it}");
        }
        let mut counter = |name: &str, help: &str, value: &AtomicU64| {
            let value = value.load(Ordering::Relaxed);
            let _ = writeln!(
                text,
                "# HELP penstock_quota_{name} {help}\n# TYPE penstock_quota_{name} counter\n\
                 penstock_quota_{name} {value}"
            );
        };
        counter("exchanges_total", "Replies of Redis.", &self.exchanges);
        counter("failures_total", "Failed connections and requests to Redis.", &self.failures);
        counter("reports_total", "Counts that were reported to Redis.", &self.reports);
        let seconds = self.round_us.load(Ordering::Relaxed) as f64 / 1e6;
        let _ = writeln!(
            text,
            "# HELP penstock_quota_round_seconds Duration of the last round, in which all changed counts were \
             reported.\n# TYPE penstock_quota_round_seconds gauge\npenstock_quota_round_seconds {seconds}"
        );
        text
    }
}
