//! Statistics as computed by WSO2's published pipeline (jtl-splitter): from whole milliseconds, through a
//! histogram of two significant digits, rounded to two decimals.
//!
//! They differ from the exact figures by up to 0.8 % and are reported in addition, so that results can be
//! compared with published tables. A JTL of the same run gives the same figures.
//!
//! Architecture invariant: everything is derived from milliseconds of Unix time, as in a JTL.

use crate::limits;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Significant digits used by jtl-splitter by default.
const DIGITS: u8 = 2;

/// Request times in whole milliseconds, as in a JTL.
#[derive(Clone, Debug)]
pub(crate) struct Milliseconds {
    pub(crate) histogram_ms: Histogram<u64>,
    pub(crate) min_ms: u64,
    pub(crate) max_ms: u64,
    /// First start and last end, in Unix time.
    pub(crate) first_ms: u64,
    pub(crate) last_ms: u64,
}

/// A row of `summary.csv` as written by the published pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PublishedStats {
    pub samples: u64,
    pub errors: u64,
    pub error_percent: f64,
    /// Samples between the first start and the last end, per second.
    pub throughput_per_s: f64,
    pub mean_ms: f64,
    pub sd_ms: f64,
    /// Little's law, truncated to a whole number.
    pub users: u64,
    pub min_ms: u64,
    pub max_ms: u64,
    pub p50_ms: u64,
    pub p75_ms: u64,
    pub p90_ms: u64,
    pub p95_ms: u64,
    pub p98_ms: u64,
    pub p99_ms: u64,
    pub p999_ms: u64,
    pub received_kb_per_s: f64,
    pub sent_kb_per_s: f64,
}

impl Milliseconds {
    pub(crate) fn new() -> Self {
        let highest_ms = limits::LOAD_TIMEOUT_S_MAX * 2 * 1_000;
        Self {
            histogram_ms: Histogram::new_with_max(highest_ms, DIGITS)
                .expect("the limit is above 2 and 2 digits are allowed"),
            min_ms: u64::MAX,
            max_ms: 0,
            first_ms: u64::MAX,
            last_ms: 0,
        }
    }

    /// Both times in microseconds of Unix time.
    pub(crate) fn record(&mut self, from_us: u64, end_us: u64) {
        let (from_ms, end_ms) = (from_us / 1_000, end_us / 1_000);
        let elapsed_ms = end_ms.saturating_sub(from_ms);
        self.histogram_ms.saturating_record(elapsed_ms);
        self.min_ms = self.min_ms.min(elapsed_ms);
        self.max_ms = self.max_ms.max(elapsed_ms);
        self.first_ms = self.first_ms.min(from_ms);
        self.last_ms = self.last_ms.max(end_ms);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.histogram_ms.add(&other.histogram_ms).expect("they all have the same bounds");
        self.min_ms = self.min_ms.min(other.min_ms);
        self.max_ms = self.max_ms.max(other.max_ms);
        self.first_ms = self.first_ms.min(other.first_ms);
        self.last_ms = self.last_ms.max(other.last_ms);
    }

    /// The row; errors and bytes are counted elsewhere.
    pub(crate) fn published(&self, errors: u64, (received, sent): (u64, u64)) -> PublishedStats {
        let samples = self.histogram_ms.len();
        if samples == 0 {
            return PublishedStats::default();
        }
        let count = samples as f64;
        // The pipeline would print Infinity for a run within one millisecond; JSON cannot.
        let duration_s = self.last_ms.saturating_sub(self.first_ms).max(1) as f64 / 1_000.0;
        let throughput_per_s = two_decimals(count / duration_s);
        let mean_ms = self.mean_ms();
        PublishedStats {
            samples,
            errors,
            error_percent: two_decimals(errors as f64 / count * 100.0),
            throughput_per_s,
            mean_ms: two_decimals(mean_ms),
            sd_ms: two_decimals(self.sd_ms(mean_ms)),
            users: whole(throughput_per_s * two_decimals(mean_ms) / 1_000.0),
            min_ms: self.min_ms,
            max_ms: self.max_ms,
            p50_ms: self.percentile_ms(50.0),
            p75_ms: self.percentile_ms(75.0),
            p90_ms: self.percentile_ms(90.0),
            p95_ms: self.percentile_ms(95.0),
            p98_ms: self.percentile_ms(98.0),
            p99_ms: self.percentile_ms(99.0),
            p999_ms: self.percentile_ms(99.9),
            received_kb_per_s: two_decimals(received as f64 / 1_024.0 / duration_s),
            sent_kb_per_s: two_decimals(sent as f64 / 1_024.0 / duration_s),
        }
    }

    /// Summed in the order of HdrHistogram 2.1.11 for Java, then divided.
    fn mean_ms(&self) -> f64 {
        let middles = self.middles().map(|(middle, count)| middle * count);
        middles.sum::<f64>() / self.histogram_ms.len() as f64
    }

    fn sd_ms(&self, mean_ms: f64) -> f64 {
        let squares = self.middles().map(|(middle, count)| (middle - mean_ms).powi(2) * count);
        (squares.sum::<f64>() / self.histogram_ms.len() as f64).sqrt()
    }

    /// The middle of each bucket, and its count.
    fn middles(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.histogram_ms.iter_recorded().map(|bucket| {
            let middle = self.histogram_ms.median_equivalent(bucket.value_iterated_to());
            (middle as f64, bucket.count_at_value() as f64)
        })
    }

    /// As in HdrHistogram 2.1.11 for Java: the percentage is decremented by one ulp before the rank is
    /// rounded up.
    fn percentile_ms(&self, percentage: f64) -> u64 {
        let samples = self.histogram_ms.len() as f64;
        let rank = (percentage.next_down() * samples / 100.0).ceil().max(1.0);
        // Half a rank less, so that rounding up gives the same rank.
        self.histogram_ms.value_at_quantile((rank - 0.5) / samples)
    }
}

/// Rounded from the exact binary value, ties to even.
fn two_decimals(value: f64) -> f64 {
    format!("{value:.2}").parse().unwrap_or(value)
}

fn whole(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "truncation is intended, and rates are not negative"
    )]
    let whole = value as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_widths_double() {
        for (elapsed_ms, bucket_ms) in [(7, 7), (255, 255), (256, 257), (515, 515), (1_028, 1_031)]
        {
            let mut times = Milliseconds::new();
            times.record(0, elapsed_ms * 1_000);
            let row = times.published(0, (0, 0));
            assert_eq!((row.p50_ms, row.p999_ms), (bucket_ms, bucket_ms), "{elapsed_ms}");
            assert_eq!((row.min_ms, row.max_ms), (elapsed_ms, elapsed_ms));
        }
    }

    #[test]
    fn times_are_differences_of_truncated_milliseconds() {
        let mut times = Milliseconds::new();
        times.record(1_999, 2_000);
        times.record(2_000, 2_999);
        let row = times.published(1, (2_048, 1_024));
        assert_eq!((row.min_ms, row.max_ms, row.mean_ms), (0, 1, 0.5));
        assert_eq!((row.samples, row.error_percent), (2, 50.0));
        assert_eq!((row.received_kb_per_s, row.sent_kb_per_s), (2_000.0, 1_000.0));
    }

    #[test]
    fn ties_round_to_even() {
        for (value, expect) in [(0.125, 0.12), (0.375, 0.38), (2.675, 2.67), (99.999, 100.0)] {
            assert_eq!(two_decimals(value), expect);
        }
    }

    #[test]
    fn nothing_recorded_is_a_row_of_zeros() {
        assert_eq!(Milliseconds::new().published(0, (0, 0)), PublishedStats::default());
    }

    /// The expected values are from HdrHistogram 2.1.11 for Java, rounded by `BigDecimal` as in jtl-splitter.
    #[test]
    fn the_figures_match_the_published_pipeline() {
        let mut times = Milliseconds::new();
        for number in 0..1_000_u64 {
            let elapsed_ms = number * number % 7_919 / 3;
            times.record(number * 1_000, (number + elapsed_ms) * 1_000);
        }
        let row = times.published(7, (1_234_567, 7_654_321));
        let expect = PublishedStats {
            samples: 1_000,
            errors: 7,
            error_percent: 0.70,
            throughput_per_s: 283.69,
            mean_ms: 1_227.03,
            sd_ms: 771.92,
            users: 348,
            min_ms: 0,
            max_ms: 2_628,
            p50_ms: 1_215,
            p75_ms: 1_895,
            p90_ms: 2_319,
            p95_ms: 2_447,
            p98_ms: 2_543,
            p99_ms: 2_575,
            p999_ms: 2_639,
            received_kb_per_s: 342.02,
            sent_kb_per_s: 2_120.55,
        };
        assert_eq!(row, expect);
    }
}
