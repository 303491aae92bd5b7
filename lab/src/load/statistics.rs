//! Counting while a measurement runs, and the figures that come of it.
//!
//! Each generator thread has one [`Tally`]; they are merged at the end. Nothing here knows a socket.

use std::collections::BTreeMap;

use base::limits;
use hdrhistogram::Histogram;

use crate::load::response::Outcome;

/// Significant decimal digits of a recorded latency: 3, so that a percentile is at most 0.1 % off.
const DIGITS: u8 = 3;

/// One request's beginning and end, in microseconds of the measurement's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start_us: u64,
    pub(crate) end_us: u64,
}

/// What one thread has counted.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Every finished request, the warm-up's included.
    pub(crate) all: u64,
    /// Those of `all` that failed.
    pub(crate) all_errors: u64,
    pub(crate) measured: Measured,
}

/// Requests that started in the measured time.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) errors_by_kind: BTreeMap<Outcome, u64>,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    latencies_us: Histogram<u64>,
    sum_us: u128,
    sum_of_squares_us: u128,
    min_us: u64,
    max_us: u64,
}

/// Latencies in milliseconds. Mean, deviation, minimum and maximum are exact; percentiles are the
/// highest value that the histogram does not tell apart from the true one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    pub mean_ms: f64,
    pub sd_ms: f64,
    pub min_ms: f64,
    pub p50_ms: f64,
    pub p75_ms: f64,
    pub p90_ms: f64,
    pub p95_ms: f64,
    pub p98_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self { all: 0, all_errors: 0, measured: Measured::new() }
    }

    /// Counts a finished request. `measured`: it started within the measured time.
    pub(crate) fn record(&mut self, measured: bool, span: Span, outcome: Outcome, bytes: Traffic) {
        self.all += 1;
        self.all_errors += u64::from(outcome.is_error());
        if measured {
            self.measured.record(span.end_us.saturating_sub(span.start_us), outcome, bytes);
        }
    }

    /// Adds what another thread counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.all += other.all;
        self.all_errors += other.all_errors;
        self.measured.merge(&other.measured);
    }
}

/// Bytes of one request and its answer, heads included, without TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Measured {
    fn new() -> Self {
        let highest_us = limits::LOAD_TIMEOUT_S_MAX * 1_000_000;
        Self {
            requests: 0,
            errors: 0,
            errors_by_kind: BTreeMap::new(),
            received_bytes: 0,
            sent_bytes: 0,
            latencies_us: Histogram::new_with_max(highest_us, DIGITS)
                .expect("the limit is above 2 and 3 digits are allowed"),
            sum_us: 0,
            sum_of_squares_us: 0,
            min_us: u64::MAX,
            max_us: 0,
        }
    }

    fn record(&mut self, latency_us: u64, outcome: Outcome, bytes: Traffic) {
        self.requests += 1;
        self.received_bytes += bytes.received;
        self.sent_bytes += bytes.sent;
        if outcome.is_error() {
            self.errors += 1;
            *self.errors_by_kind.entry(outcome).or_default() += 1;
        }
        self.latencies_us.saturating_record(latency_us);
        self.sum_us += u128::from(latency_us);
        self.sum_of_squares_us += u128::from(latency_us) * u128::from(latency_us);
        self.min_us = self.min_us.min(latency_us);
        self.max_us = self.max_us.max(latency_us);
    }

    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        for (&kind, &count) in &other.errors_by_kind {
            *self.errors_by_kind.entry(kind).or_default() += count;
        }
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.latencies_us.add(&other.latencies_us).expect("all tallies have the same bounds");
        self.sum_us += other.sum_us;
        self.sum_of_squares_us += other.sum_of_squares_us;
        self.min_us = self.min_us.min(other.min_us);
        self.max_us = self.max_us.max(other.max_us);
    }

    /// All zero when nothing was measured.
    pub(crate) fn latency(&self) -> Latency {
        if self.requests == 0 {
            return Latency::default();
        }
        let count = self.requests as f64;
        let mean_us = self.sum_us as f64 / count;
        let variance = (self.sum_of_squares_us as f64 / count - mean_us * mean_us).max(0.0);
        let quantile = |share| {
            let value_us = self.latencies_us.value_at_quantile(share);
            ms(value_us.min(self.max_us) as f64)
        };
        Latency {
            mean_ms: ms(mean_us),
            sd_ms: ms(variance.sqrt()),
            min_ms: ms(self.min_us as f64),
            p50_ms: quantile(0.50),
            p75_ms: quantile(0.75),
            p90_ms: quantile(0.90),
            p95_ms: quantile(0.95),
            p98_ms: quantile(0.98),
            p99_ms: quantile(0.99),
            p999_ms: quantile(0.999),
            max_ms: ms(self.max_us as f64),
        }
    }
}

fn ms(us: f64) -> f64 {
    us / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_are_exact_and_percentiles_within_a_thousandth() {
        let latency = tally(1..=1_000).measured.latency();
        assert_eq!((latency.min_ms, latency.mean_ms, latency.max_ms), (0.001, 0.5005, 1.0));
        assert!((latency.sd_ms - 0.288_675).abs() < 1e-6, "{}", latency.sd_ms);
        near(latency.p50_ms, 0.500);
        near(latency.p75_ms, 0.750);
        near(latency.p90_ms, 0.900);
        near(latency.p95_ms, 0.950);
        near(latency.p98_ms, 0.980);
        near(latency.p99_ms, 0.990);
        near(latency.p999_ms, 0.999);
    }

    #[test]
    fn merged_threads_give_what_one_thread_would_have() {
        let mut merged = tally(1..=400);
        merged.merge(&tally(401..=1_000));
        assert_eq!(merged.measured.latency(), tally(1..=1_000).measured.latency());
        assert_eq!((merged.all, merged.measured.requests), (1_000, 1_000));
    }

    #[test]
    fn the_warm_up_counts_as_sent_but_not_as_measured() {
        let mut tally = Tally::new();
        let bytes = Traffic { sent: 10, received: 20 };
        tally.record(false, Span { start_us: 0, end_us: 5 }, Outcome::Timeout, bytes);
        tally.record(true, Span { start_us: 5, end_us: 9 }, Outcome::Status(503), bytes);
        tally.record(true, Span { start_us: 9, end_us: 12 }, Outcome::Good, bytes);
        assert_eq!((tally.all, tally.all_errors), (3, 2));
        assert_eq!((tally.measured.requests, tally.measured.errors), (2, 1));
        assert_eq!(tally.measured.errors_by_kind, BTreeMap::from([(Outcome::Status(503), 1)]));
        assert_eq!((tally.measured.sent_bytes, tally.measured.received_bytes), (20, 40));
    }

    #[test]
    fn nothing_measured_is_zero_not_a_division() {
        assert_eq!(Tally::new().measured.latency(), Latency::default());
    }

    #[test]
    fn a_latency_beyond_the_longest_wait_is_kept_as_the_maximum() {
        let latency = tally(5_000_000_000..=5_000_000_000).measured.latency();
        assert_eq!(latency.max_ms, 5_000_000.0);
        assert!(latency.p50_ms >= 600_000.0);
    }

    fn tally(latencies_us: impl Iterator<Item = u64>) -> Tally {
        let mut tally = Tally::new();
        for end_us in latencies_us {
            let span = Span { start_us: 0, end_us };
            tally.record(true, span, Outcome::Good, Traffic::default());
        }
        tally
    }

    #[track_caller]
    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() <= 0.001, "{found} is not near {expected}");
    }
}
