//! Latency over time, from the histogram log of a result: a heat map and a histogram.

use std::path::Path;

use crate::limits;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use super::chart::{Heat, Point, Series};
use super::view::trimmed;

/// Latency bins per doubling: steps of about 19 %.
const BINS_PER_DOUBLING: f64 = 4.0;
/// Maximum number of columns of a heat map; more intervals are merged.
const COLUMNS_MAX: usize = 100;

/// The untagged intervals of a log in order. Neighbours are merged if there are more than twice
/// [`COLUMNS_MAX`], so memory use does not depend on the length of the log.
#[derive(Default)]
pub(super) struct History {
    /// Start in seconds, and latencies in microseconds.
    intervals: Vec<(f64, Histogram<u64>)>,
    /// Number of log intervals merged into one entry, except for the last entry.
    share: usize,
    /// Number of log intervals in the last entry.
    last: usize,
}

impl History {
    /// Reads `histogram.hlog` next to a `result.json`; `None` if there is none.
    ///
    /// # Errors
    /// The file is too large or not a histogram log.
    pub(super) fn read_beside(result: &Path) -> Result<Option<Self>, String> {
        let file = result.with_file_name("histogram.hlog");
        let describe = |what: &dyn std::fmt::Display| format!("{}: {what}", file.display());
        let bytes = match files::read(&file, limits::LAB_HLOG_BYTES_MAX) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| describe(&error))?,
        };
        Self::read(&bytes).map(Some).map_err(|what| describe(&what))
    }

    fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut deserializer = Deserializer::new();
        let mut history = Self { share: 1, ..Self::default() };
        for entry in IntervalLogIterator::new(bytes) {
            let LogEntry::Interval(interval) =
                entry.map_err(|error| format!("not a histogram log: {error:?}"))?
            else {
                continue;
            };
            if interval.tag().is_some() {
                continue;
            }
            let text = interval.encoded_histogram();
            let encoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text)
                .map_err(|error| format!("invalid histogram: {error}"))?;
            let histogram = deserializer
                .deserialize(&mut encoded.as_slice())
                .map_err(|error| format!("invalid histogram: {error}"))?;
            history.push(interval.start_timestamp().as_secs_f64(), histogram)?;
        }
        Ok(history)
    }

    fn push(&mut self, begin_s: f64, histogram: Histogram<u64>) -> Result<(), String> {
        match self.intervals.last_mut() {
            Some((_, sum)) if self.last < self.share => {
                add(sum, &histogram)?;
                self.last += 1;
            }
            Some(_) | None => {
                if self.intervals.len() == COLUMNS_MAX * 2 {
                    self.halve()?;
                }
                self.intervals.push((begin_s, histogram));
                self.last = 1;
            }
        }
        Ok(())
    }

    /// Merges pairs of entries.
    fn halve(&mut self) -> Result<(), String> {
        let mut halved = Vec::with_capacity(self.intervals.len().div_ceil(2));
        let mut all = std::mem::take(&mut self.intervals).into_iter();
        while let Some((begin_s, mut sum)) = all.next() {
            if let Some((_, histogram)) = all.next() {
                add(&mut sum, &histogram)?;
            }
            halved.push((begin_s, sum));
        }
        self.intervals = halved;
        self.share *= 2;
        Ok(())
    }

    /// The lowest and highest bin in use.
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
                add(&mut sum, histogram).ok()?;
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

    /// The sum of all intervals: names of the bins, and the number of requests in each.
    pub(super) fn histogram(&self) -> Option<(Vec<String>, Series)> {
        let (low, high) = self.range()?;
        let rows = usize::try_from(high - low).ok()?.saturating_add(1);
        let mut sums = vec![0_u64; rows];
        for (_, histogram) in &self.intervals {
            for (sum, count) in sums.iter_mut().zip(counts(histogram, low, rows)) {
                *sum += count;
            }
        }
        let points = sums.into_iter().map(|count| Some(Point::valid(count as f64))).collect();
        let series = Series { name: "requests".to_owned(), points, published: false, colour: None };
        Some(((low..=high).map(edge).collect(), series))
    }
}

/// Histograms of other programs may have different bounds.
fn add(sum: &mut Histogram<u64>, other: &Histogram<u64>) -> Result<(), String> {
    sum.auto(true);
    sum.add(other).map_err(|error| format!("incompatible histograms: {error}"))
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

/// The lower edge of a bin.
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn long_logs_are_merged_without_loss() {
        let mut history = History { share: 1, ..History::default() };
        for second in 0..1_001_u32 {
            let mut histogram = Histogram::new_with_max(10_000_000, 3).unwrap();
            histogram.record_n(1_000 + u64::from(second), 2).unwrap();
            history.push(f64::from(second), histogram).unwrap();
        }
        assert!(history.intervals.len() <= COLUMNS_MAX * 2, "{}", history.intervals.len());
        let begins: Vec<f64> = history.intervals.iter().map(|(begin, _)| *begin).collect();
        assert!(begins.windows(2).all(|pair| (pair[1] - pair[0] - 8.0).abs() < 1e-9), "{begins:?}");
        let all: u64 = history.intervals.iter().map(|(_, histogram)| histogram.len()).sum();
        assert_eq!(all, 2_002);
        let heat = history.heat().unwrap();
        assert!(
            heat.columns.len() <= COLUMNS_MAX && heat.cells.iter().flatten().sum::<u64>() == 2_002
        );
    }
}
