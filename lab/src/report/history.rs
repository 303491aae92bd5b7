//! When requests took how long: the histogram log beside a result, as a heat map and as one histogram.

use std::path::Path;

use base::limits;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use super::chart::{Heat, Point, Series};
use super::view::trimmed;

/// Bins of latency for each doubling: steps of about 19 %.
const BINS_PER_DOUBLING: f64 = 4.0;
/// Most columns of a heat map; more intervals share them.
const COLUMNS_MAX: usize = 100;

/// The untagged intervals of a log, in its order.
pub(super) struct History {
    /// Begin in seconds, and the latencies in microseconds.
    intervals: Vec<(f64, Histogram<u64>)>,
}

impl History {
    /// Reads `histogram.hlog` beside a `result.json`; `None` where there is none.
    ///
    /// # Errors
    /// A sentence: too large, or no log.
    pub(super) fn beside(result: &Path) -> Result<Option<Self>, String> {
        let file = result.with_file_name("histogram.hlog");
        let told = |what: &dyn std::fmt::Display| format!("{}: {what}", file.display());
        match std::fs::metadata(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(told(&error)),
            Ok(found) if found.len() > limits::LAB_HLOG_BYTES_MAX => {
                return Err(told(&format!("larger than {} bytes", limits::LAB_HLOG_BYTES_MAX)));
            }
            Ok(_) => {}
        }
        let bytes = std::fs::read(&file).map_err(|error| told(&error))?;
        Self::read(&bytes).map(Some).map_err(|what| told(&what))
    }

    fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut deserializer = Deserializer::new();
        let mut intervals = Vec::new();
        for entry in IntervalLogIterator::new(bytes) {
            let LogEntry::Interval(interval) =
                entry.map_err(|error| format!("no histogram log: {error:?}"))?
            else {
                continue;
            };
            if interval.tag().is_some() {
                continue;
            }
            let text = interval.encoded_histogram();
            let encoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text)
                .map_err(|error| format!("no histogram: {error}"))?;
            let histogram = deserializer
                .deserialize(&mut encoded.as_slice())
                .map_err(|error| format!("no histogram: {error}"))?;
            intervals.push((interval.start_timestamp().as_secs_f64(), histogram));
        }
        Ok(Self { intervals })
    }

    /// The bins that hold anything, lowest and highest.
    fn range(&self) -> Option<(i32, i32)> {
        let some = || self.intervals.iter().filter(|(_, histogram)| !histogram.is_empty());
        let low = some().map(|(_, histogram)| bin(histogram.min())).min()?;
        let high = some().map(|(_, histogram)| bin(histogram.max())).max()?;
        Some((low, high))
    }

    pub(super) fn heat(&self) -> Option<Heat> {
        let (low, high) = self.range()?;
        let rows = usize::try_from(high - low).ok()?.saturating_add(1);
        let share = self.intervals.len().div_ceil(COLUMNS_MAX).max(1);
        let begin = self.intervals.first().map_or(0.0, |(start, _)| *start);
        let mut heat = Heat {
            rows: (low..=high).map(edge).collect(),
            header: ["time", "requests", "p50 (ms)", "p99 (ms)", "max (ms)"]
                .map(str::to_owned)
                .to_vec(),
            ..Heat::default()
        };
        for chunk in self.intervals.chunks(share) {
            let Some(((start, first), rest)) = chunk.split_first() else { continue };
            let mut sum = first.clone();
            for (_, histogram) in rest {
                // A log of ours has the same bounds throughout; another's may not, and is widened.
                sum.auto(true);
                sum.add(histogram).ok()?;
            }
            let name = format!("{} s", trimmed(start - begin, 0));
            heat.cells.push(counts(&sum, low, rows));
            heat.table.push(vec![
                name.clone(),
                sum.len().to_string(),
                ms(sum.value_at_quantile(0.5)),
                ms(sum.value_at_quantile(0.99)),
                ms(sum.max()),
            ]);
            heat.columns.push(name);
        }
        Some(heat)
    }

    /// All intervals as one histogram: names of the bins, and a series of how many requests each holds.
    pub(super) fn histogram(&self) -> Option<(Vec<String>, Series)> {
        let (low, high) = self.range()?;
        let rows = usize::try_from(high - low).ok()?.saturating_add(1);
        let mut sums = vec![0_u64; rows];
        for (_, histogram) in &self.intervals {
            for (sum, count) in sums.iter_mut().zip(counts(histogram, low, rows)) {
                *sum += count;
            }
        }
        let points = sums.into_iter().map(|count| Some(Point::sound(count as f64))).collect();
        let series = Series { name: "requests".to_owned(), points, published: false };
        Some(((low..=high).map(edge).collect(), series))
    }
}

fn counts(histogram: &Histogram<u64>, low: i32, rows: usize) -> Vec<u64> {
    let mut counts = vec![0; rows];
    for value in histogram.iter_recorded() {
        let place = usize::try_from(bin(value.value_iterated_to()) - low).unwrap_or(0);
        if let Some(count) = counts.get_mut(place.min(rows.saturating_sub(1))) {
            *count += value.count_at_value();
        }
    }
    counts
}

fn bin(us: u64) -> i32 {
    let doublings = (us.max(1) as f64).log2();
    #[allow(clippy::cast_possible_truncation, reason = "64 doublings at most")]
    let bin = (doublings * BINS_PER_DOUBLING).floor() as i32;
    bin
}

/// Where a bin begins.
fn edge(bin: i32) -> String {
    let us = (f64::from(bin) / BINS_PER_DOUBLING).exp2();
    let decimals = if us >= 100_000.0 {
        0
    } else if us >= 1_000.0 {
        1
    } else {
        3
    };
    format!("{} ms", trimmed(us / 1_000.0, decimals))
}

fn ms(us: u64) -> String {
    trimmed(us as f64 / 1_000.0, 3)
}
