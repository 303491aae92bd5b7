//! Counters of a running measurement, and the figures computed from them.
//!
//! Each generator thread has its own [`Tally`]; they are merged at the end. Nothing here uses sockets.

use std::collections::BTreeMap;

use crate::limits;
use hdrhistogram::Histogram;
use serde::Deserialize;

use crate::load::published_stats::{Milliseconds, PublishedStats};
use crate::load::response::Outcome;

/// Significant decimal digits of a recorded latency: a percentile is at most 0.1 % off.
const DIGITS: u8 = 3;

/// One finished request. Times are microseconds of the measurement's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Start of the latency: the due time in an open loop, the start in a closed one.
    pub(crate) from_us: u64,
    /// Start of the request, including connecting.
    pub(crate) start_us: u64,
    pub(crate) end_us: u64,
    pub(crate) outcome: Outcome,
    pub(crate) bytes: Traffic,
    /// Open loop: no connection was free at the due time.
    pub(crate) queued: bool,
    pub(crate) detail: Detail,
}

/// Details of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Detail {
    /// Status of the response; 0 without a response.
    pub(crate) status: u16,
    /// Time to connect in microseconds; 0 for a reused connection.
    pub(crate) connect_us: u64,
    /// Time of the response's first byte; 0 if not recorded.
    pub(crate) first_byte_us: u64,
    /// Index of the request in its scenario.
    pub(crate) request: Option<usize>,
    /// Messages in the response of a gRPC call.
    pub(crate) messages: u64,
    pub(crate) user: usize,
    /// Users that had started.
    pub(crate) users: usize,
}

/// Bytes of a request and its response, including heads, without TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// The counters of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Every finished request that was sent, including the warm-up.
    pub(crate) all: u64,
    /// Failed requests among `all`.
    pub(crate) all_errors: u64,
    pub(crate) warm_up: WarmUp,
    pub(crate) measured: Measured,
    /// How late the thread's lag probe woke up during the measured time.
    pub(crate) lag: Times,
    /// Counts since the last [`Tally::take_interval`]; not kept in sums.
    interval: Option<Interval>,
}

/// Requests of the warm-up, as needed for the published figures.
#[derive(Clone, Debug)]
pub(crate) struct WarmUp {
    pub(crate) errors: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) milliseconds: Milliseconds,
}

/// Latencies of an interval, and service times in an open loop.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    pub(crate) errors: u64,
    pub(crate) latencies_us: Histogram<u64>,
    pub(crate) service_us: Option<Histogram<u64>>,
}

/// Requests whose latency counts from within the measured time.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) errors_by_kind: BTreeMap<Outcome, u64>,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    /// Messages in the responses of gRPC calls.
    pub(crate) messages: u64,
    pub(crate) latencies: Times,
    /// Opening connections, TLS handshakes included.
    pub(crate) connects: Times,
    pub(crate) milliseconds: Milliseconds,
    /// Errors and latencies of each request of a scenario.
    pub(crate) by_request: Vec<(u64, Times)>,
    /// Open loop only.
    pub(crate) open: Option<Open>,
}

/// Additional counters of an open loop.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    /// From the start to the end, of requests that were sent.
    pub(crate) service: Times,
    /// From the due time to the start.
    pub(crate) late: Times,
    /// Requests for which no connection was free at the due time.
    pub(crate) queued: u64,
}

/// A distribution of times in microseconds: a histogram, and exact sums and extremes.
#[derive(Clone, Debug)]
pub struct Times {
    pub(crate) histogram_us: Histogram<u64>,
    pub(crate) sum_us: u128,
    pub(crate) sum_of_squares_us: u128,
    pub(crate) min_us: u64,
    pub(crate) max_us: u64,
}

/// Latencies in milliseconds. Mean, deviation, minimum and maximum are exact; percentiles are the highest
/// equivalent value of the histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
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
    /// 0 in files written before this key existed.
    #[serde(default)]
    pub p9999_ms: f64,
    pub max_ms: f64,
}

impl Latency {
    /// The latencies if each request had taken `lag_ms` less.
    #[must_use]
    pub fn less(&self, lag_ms: f64) -> Self {
        let less = |value: f64| (value - lag_ms).max(0.0);
        Self {
            mean_ms: less(self.mean_ms),
            sd_ms: self.sd_ms,
            min_ms: less(self.min_ms),
            p50_ms: less(self.p50_ms),
            p75_ms: less(self.p75_ms),
            p90_ms: less(self.p90_ms),
            p95_ms: less(self.p95_ms),
            p98_ms: less(self.p98_ms),
            p99_ms: less(self.p99_ms),
            p999_ms: less(self.p999_ms),
            p9999_ms: less(self.p9999_ms),
            max_ms: less(self.max_ms),
        }
    }
}

impl Tally {
    /// `open`: whether the loop is open. `intervals`: whether to keep counts per interval.
    pub(crate) fn new(open: bool, intervals: bool) -> Self {
        Self {
            all: 0,
            all_errors: 0,
            warm_up: WarmUp::new(),
            measured: Measured::new(open),
            lag: Times::new(),
            interval: intervals.then(|| Interval::new(open)),
        }
    }

    /// Counts a finished request. `measured`: whether its latency counts from within the measured time.
    /// `origin_us`: the Unix time at the clock's zero.
    pub(crate) fn record(&mut self, measured: bool, sample: &Sample, origin_us: u64) {
        if sample.outcome != Outcome::Unsent {
            self.all += 1;
            self.all_errors += u64::from(sample.outcome.is_error());
        }
        if !measured {
            self.warm_up.record(sample, origin_us);
            return;
        }
        self.measured.record(sample, origin_us);
        if let Some(interval) = &mut self.interval {
            interval.record(sample);
        }
    }

    /// Returns the counts since the last call and continues with `empty`; `None` if intervals are not kept.
    pub(crate) fn take_interval(&mut self, empty: Interval) -> Option<Interval> {
        self.interval.as_mut().map(|interval| std::mem::replace(interval, empty))
    }

    /// Adds the counters of another thread.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.all += other.all;
        self.all_errors += other.all_errors;
        self.warm_up.merge(&other.warm_up);
        self.measured.merge(&other.measured);
        self.lag.merge(&other.lag);
    }
}

impl WarmUp {
    fn new() -> Self {
        Self { errors: 0, received_bytes: 0, sent_bytes: 0, milliseconds: Milliseconds::new() }
    }

    fn record(&mut self, sample: &Sample, origin_us: u64) {
        self.errors += u64::from(sample.outcome.is_error());
        self.received_bytes += sample.bytes.received;
        self.sent_bytes += sample.bytes.sent;
        self.milliseconds.record(sample.from_us + origin_us, sample.end_us + origin_us);
    }

    fn merge(&mut self, other: &Self) {
        self.errors += other.errors;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.milliseconds.merge(&other.milliseconds);
    }

    pub(crate) fn published(&self) -> PublishedStats {
        self.milliseconds.published(self.errors, (self.received_bytes, self.sent_bytes))
    }
}

impl Interval {
    pub(crate) fn new(open: bool) -> Self {
        Self { errors: 0, latencies_us: histogram(), service_us: open.then(histogram) }
    }

    fn record(&mut self, sample: &Sample) {
        self.errors += u64::from(sample.outcome.is_error());
        self.latencies_us.saturating_record(sample.latency_us());
        if let Some(service_us) = &mut self.service_us
            && sample.outcome != Outcome::Unsent
        {
            service_us.saturating_record(sample.service_us());
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.errors += other.errors;
        add(&mut self.latencies_us, &other.latencies_us);
        if let (Some(ours), Some(theirs)) = (&mut self.service_us, &other.service_us) {
            add(ours, theirs);
        }
    }
}

impl Sample {
    pub(crate) fn latency_us(&self) -> u64 {
        self.end_us.saturating_sub(self.from_us)
    }

    fn service_us(&self) -> u64 {
        self.end_us.saturating_sub(self.start_us)
    }

    fn late_us(&self) -> u64 {
        self.start_us.saturating_sub(self.from_us)
    }
}

impl Measured {
    fn new(open: bool) -> Self {
        Self {
            requests: 0,
            errors: 0,
            errors_by_kind: BTreeMap::new(),
            received_bytes: 0,
            sent_bytes: 0,
            messages: 0,
            latencies: Times::new(),
            connects: Times::new(),
            milliseconds: Milliseconds::new(),
            by_request: Vec::new(),
            open: open.then(Open::new),
        }
    }

    fn record(&mut self, sample: &Sample, origin_us: u64) {
        self.requests += 1;
        self.received_bytes += sample.bytes.received;
        self.sent_bytes += sample.bytes.sent;
        self.messages += sample.detail.messages;
        if sample.outcome.is_error() {
            self.errors += 1;
            *self.errors_by_kind.entry(sample.outcome).or_default() += 1;
        }
        self.latencies.record(sample.latency_us());
        if sample.detail.connect_us > 0 {
            self.connects.record(sample.detail.connect_us);
        }
        self.milliseconds.record(sample.from_us + origin_us, sample.end_us + origin_us);
        if let Some(request) = sample.detail.request {
            let (errors, latencies) = of_request(&mut self.by_request, request);
            *errors += u64::from(sample.outcome.is_error());
            latencies.record(sample.latency_us());
        }
        if let Some(open) = &mut self.open {
            open.record(sample);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        for (&kind, &count) in &other.errors_by_kind {
            *self.errors_by_kind.entry(kind).or_default() += count;
        }
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.messages += other.messages;
        self.latencies.merge(&other.latencies);
        self.connects.merge(&other.connects);
        self.milliseconds.merge(&other.milliseconds);
        for (request, (more, times)) in other.by_request.iter().enumerate() {
            let (errors, latencies) = of_request(&mut self.by_request, request);
            *errors += more;
            latencies.merge(times);
        }
        if let (Some(ours), Some(theirs)) = (&mut self.open, &other.open) {
            ours.merge(theirs);
        }
    }
}

/// The counters of a request; `index` is below [`limits::SCENARIO_REQUESTS_MAX`].
fn of_request(all: &mut Vec<(u64, Times)>, index: usize) -> &mut (u64, Times) {
    let index = index.min(limits::SCENARIO_REQUESTS_MAX);
    if all.len() <= index {
        all.resize_with(index + 1, || (0, Times::new()));
    }
    &mut all[index]
}

impl Open {
    fn new() -> Self {
        Self { service: Times::new(), late: Times::new(), queued: 0 }
    }

    fn record(&mut self, sample: &Sample) {
        self.queued += u64::from(sample.queued);
        self.late.record(sample.late_us());
        if sample.outcome != Outcome::Unsent {
            self.service.record(sample.service_us());
        }
    }

    fn merge(&mut self, other: &Self) {
        self.service.merge(&other.service);
        self.late.merge(&other.late);
        self.queued += other.queued;
    }
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

impl Times {
    #[must_use]
    pub fn new() -> Self {
        Self {
            histogram_us: histogram(),
            sum_us: 0,
            sum_of_squares_us: 0,
            min_us: u64::MAX,
            max_us: 0,
        }
    }

    /// Adds a value. Values above the histogram's bound (twice the longest timeout) are clamped in
    /// percentiles and exact otherwise.
    pub fn record(&mut self, us: u64) {
        self.histogram_us.saturating_record(us);
        self.sum_us += u128::from(us);
        self.sum_of_squares_us += u128::from(us) * u128::from(us);
        self.min_us = self.min_us.min(us);
        self.max_us = self.max_us.max(us);
    }

    /// Adds all values of `other`, without loss.
    pub fn merge(&mut self, other: &Self) {
        add(&mut self.histogram_us, &other.histogram_us);
        self.sum_us += other.sum_us;
        self.sum_of_squares_us += other.sum_of_squares_us;
        self.min_us = self.min_us.min(other.min_us);
        self.max_us = self.max_us.max(other.max_us);
    }

    /// All zero if nothing was recorded.
    #[must_use]
    pub fn latency(&self) -> Latency {
        if self.histogram_us.is_empty() {
            return Latency::default();
        }
        let count = self.histogram_us.len() as f64;
        let mean_us = self.sum_us as f64 / count;
        let variance = (self.sum_of_squares_us as f64 / count - mean_us * mean_us).max(0.0);
        let quantile = |share| {
            let value_us = self.histogram_us.value_at_quantile(share);
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
            p9999_ms: quantile(0.9999),
            max_ms: ms(self.max_us as f64),
        }
    }
}

fn histogram() -> Histogram<u64> {
    // In an open loop a request may wait up to the timeout before it is sent, and again for its response.
    let highest_us = limits::LOAD_TIMEOUT_S_MAX * 2 * 1_000_000;
    Histogram::new_with_max(highest_us, DIGITS)
        .expect("the limit is above 2 and 3 digits are allowed")
}

fn add(ours: &mut Histogram<u64>, theirs: &Histogram<u64>) {
    ours.add(theirs).expect("all histograms of a measurement have the same bounds");
}

fn ms(us: f64) -> f64 {
    us / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_are_exact_and_percentiles_within_a_thousandth() {
        let latency = tally(1..=1_000).measured.latencies.latency();
        assert_eq!((latency.min_ms, latency.mean_ms, latency.max_ms), (0.001, 0.5005, 1.0));
        assert!((latency.sd_ms - 0.288_675).abs() < 1e-6, "{}", latency.sd_ms);
        near(latency.p50_ms, 0.500);
        near(latency.p75_ms, 0.750);
        near(latency.p90_ms, 0.900);
        near(latency.p95_ms, 0.950);
        near(latency.p98_ms, 0.980);
        near(latency.p99_ms, 0.990);
        near(latency.p999_ms, 0.999);
        near(latency.p9999_ms, 0.999_9);
    }

    #[test]
    fn merged_threads_equal_a_single_thread() {
        let mut merged = tally(1..=400);
        merged.merge(&tally(401..=1_000));
        let one = tally(1..=1_000).measured;
        assert_eq!(merged.measured.latencies.latency(), one.latencies.latency());
        assert_eq!(
            merged.measured.milliseconds.published(0, (0, 0)),
            one.milliseconds.published(0, (0, 0))
        );
        assert_eq!((merged.all, merged.measured.requests), (1_000, 1_000));
    }

    #[test]
    fn the_warm_up_is_counted_but_not_measured() {
        let mut tally = Tally::new(false, false);
        tally.record(false, &sample(0, 0, 5, Outcome::Timeout), 0);
        tally.record(true, &sample(5, 5, 9, Outcome::Status(503)), 0);
        tally.record(true, &sample(9, 9, 12, Outcome::Good), 0);
        assert_eq!((tally.all, tally.all_errors), (3, 2));
        assert_eq!((tally.measured.requests, tally.measured.errors), (2, 1));
        assert_eq!(tally.measured.errors_by_kind, BTreeMap::from([(Outcome::Status(503), 1)]));
        assert_eq!((tally.measured.sent_bytes, tally.measured.received_bytes), (20, 40));
    }

    #[test]
    fn an_open_loop_separates_waiting_from_service() {
        let mut tally = Tally::new(true, false);
        tally.record(true, &sample(1_000, 1_000, 3_000, Outcome::Good), 0);
        tally.record(
            true,
            &Sample { queued: true, ..sample(2_000, 8_000, 9_000, Outcome::Good) },
            0,
        );
        let measured = &tally.measured;
        assert_eq!(measured.latencies.latency().mean_ms, 4.5);
        let open = measured.open.as_ref();
        let figures =
            |open: &Open| (open.service.latency().mean_ms, open.late.latency().max_ms, open.queued);
        assert_eq!(open.map(figures), Some((1.5, 6.0, 1)));
    }

    #[test]
    fn unsent_requests_are_late_and_failed_without_service_time() {
        let mut tally = Tally::new(true, false);
        tally.record(true, &sample(1_000, 9_000, 9_000, Outcome::Unsent), 0);
        assert_eq!((tally.all, tally.measured.requests, tally.measured.errors), (0, 1, 1));
        assert_eq!(tally.measured.latencies.latency().max_ms, 8.0);
        assert!(tally.measured.open.is_some_and(|open| open.service.histogram_us.is_empty()));
    }

    #[test]
    fn intervals_add_up_to_the_total() {
        let mut tally = Tally::new(true, true);
        let mut sum = Interval::new(true);
        for round in 0..5 {
            for number in 0..=round {
                tally.record(true, &sample(0, number, 10 * number + 7, Outcome::Good), 0);
            }
            sum.merge(&tally.take_interval(Interval::new(true)).unwrap_or(Interval::new(true)));
        }
        assert_eq!(sum.latencies_us, tally.measured.latencies.histogram_us);
        let service_us = tally.measured.open.map(|open| open.service.histogram_us);
        assert_eq!((sum.latencies_us.len(), sum.service_us), (15, service_us));
    }

    #[test]
    fn empty_statistics_are_zero() {
        assert_eq!(Tally::new(false, false).measured.latencies.latency(), Latency::default());
    }

    #[test]
    fn latencies_above_the_bound_keep_the_exact_maximum() {
        let latency = tally(5_000_000_000..=5_000_000_000).measured.latencies.latency();
        assert_eq!(latency.max_ms, 5_000_000.0);
        assert!(latency.p50_ms >= 600_000.0);
    }

    fn tally(latencies_us: impl Iterator<Item = u64>) -> Tally {
        let mut tally = Tally::new(false, false);
        for end_us in latencies_us {
            tally.record(true, &sample(0, 0, end_us, Outcome::Good), 0);
        }
        tally
    }

    fn sample(from_us: u64, start_us: u64, end_us: u64, outcome: Outcome) -> Sample {
        let bytes = Traffic { sent: 10, received: 20 };
        Sample {
            from_us,
            start_us,
            end_us,
            outcome,
            bytes,
            queued: false,
            detail: Detail::default(),
        }
    }

    #[track_caller]
    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() <= 0.001, "{found} is not near {expected}");
    }
}
