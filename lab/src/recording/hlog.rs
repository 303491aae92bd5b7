//! The HdrHistogram log: one histogram per second of the measured time (V2 with DEFLATE), readable by
//! HdrHistogram's log readers and plotters.
//!
//! Values are in microseconds. In an open loop, untagged intervals hold latencies from the due time, and
//! intervals with `Tag=service` the times from the start. A request belongs to the interval in which it
//! ended. The sum of all intervals of a tag is the histogram of the report.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, UNIX_EPOCH};

use crate::limits;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::panicked;
use crate::load::statistics::Interval;

/// Tag of the intervals with service times.
pub(crate) const SERVICE_TAG: &str = "service";

/// An interval with its start and end, on the measurement's clock.
pub(crate) struct TimedInterval {
    pub(crate) from_us: u64,
    pub(crate) until_us: u64,
    pub(crate) interval: Interval,
    /// The generator's CPU time; not part of the log.
    pub(crate) spent_us: u64,
}

/// Writes the log on its own thread.
pub(crate) struct HistogramLog {
    queue: SyncSender<TimedInterval>,
    writer: JoinHandle<io::Result<()>>,
}

impl HistogramLog {
    /// `origin_us`: Unix time at the clock's zero. `title`: the first comment.
    ///
    /// # Errors
    /// The file exists or cannot be created, or the thread cannot be started.
    pub(crate) fn create(path: &Path, origin_us: u64, title: String) -> io::Result<Self> {
        let file = files::create(path)?;
        let (queue, intervals) = sync_channel(limits::HLOG_INTERVALS_MAX);
        let writer = thread::Builder::new()
            .name("hlog".to_owned())
            .spawn(move || write(file, origin_us, &title, &intervals))?;
        Ok(Self { queue, writer })
    }

    /// Blocks while the writer is more than [`limits::HLOG_INTERVALS_MAX`] intervals behind. Must not be
    /// called from a generator thread.
    pub(crate) fn push(&self, interval: TimedInterval) {
        // If the writer is gone, `finish` returns its error.
        let _ = self.queue.send(interval);
    }

    /// # Errors
    /// The writer's first error; later intervals are missing in the file.
    pub(crate) fn finish(self) -> io::Result<()> {
        drop(self.queue);
        self.writer.join().map_err(|_| panicked())?
    }
}

fn write(
    file: File,
    origin_us: u64,
    title: &str,
    intervals: &Receiver<TimedInterval>,
) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    let mut serializer = V2DeflateSerializer::new();
    let base = UNIX_EPOCH + Duration::from_micros(origin_us);
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(title)
        .add_comment("[Histogram log format version 1.3]")
        .with_start_time(base)
        .with_base_time(base)
        .with_max_value_divisor(US_PER_MS)
        .begin_log_with(&mut out, &mut serializer)?;
    log.write_comment(" values in microseconds, Interval_Max in milliseconds")?;
    for TimedInterval { from_us, until_us, interval, spent_us: _ } in intervals {
        let start = Duration::from_micros(from_us);
        let length = Duration::from_micros(until_us.saturating_sub(from_us));
        let tagged = [
            (Some(&interval.latencies_us), None),
            (interval.service_us.as_ref(), Tag::new(SERVICE_TAG)),
        ];
        for (histogram, tag) in tagged {
            if let Some(histogram) = histogram {
                log.write_histogram(histogram, start, length, tag).map_err(io::Error::other)?;
            }
        }
    }
    drop(log);
    out.flush()
}

const US_PER_MS: f64 = 1_000.0;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use base64::Engine as _;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn logs_can_be_read_back() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("histogram.hlog");
        let log = HistogramLog::create(&path, 1_700_000_000_000_000, "a title".to_owned()).unwrap();
        let mut written = Vec::new();
        for second in 0..20_u64 {
            let mut interval = Interval::new(second % 2 == 1);
            for value in 0..second * 100 {
                interval.latencies_us.record(value * value).unwrap();
                interval.service_us.iter_mut().for_each(|times| times.record(value).unwrap());
            }
            written.push(interval.clone());
            let from_us = second * 1_000_000;
            log.push(TimedInterval {
                from_us,
                until_us: from_us + 1_000_000,
                interval,
                spent_us: 0,
            });
        }
        log.finish().unwrap();
        let expect: Vec<_> = written
            .into_iter()
            .flat_map(|one| {
                [
                    Some((None, one.latencies_us)),
                    one.service_us.map(|times| (Some("service".to_owned()), times)),
                ]
            })
            .flatten()
            .collect();
        let text = std::fs::read_to_string(&path).unwrap();
        let read = histograms(text.as_bytes());
        assert!(text.starts_with("#a title\n#[Histogram log format version 1.3]\n"), "{text}");
        assert!(text.contains("#[BaseTime: 1700000000.000 (seconds since epoch)]"), "{text}");
        assert_eq!(read.len(), expect.len());
        assert!(read == expect);
    }

    #[test]
    fn existing_files_are_left_unchanged() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("histogram.hlog");
        std::fs::write(&path, "precious").unwrap();
        let error = HistogramLog::create(&path, 0, String::new()).err().map(|error| error.kind());
        assert_eq!(error, Some(io::ErrorKind::AlreadyExists));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    fn histograms(log: &[u8]) -> Vec<(Option<String>, Histogram<u64>)> {
        let mut deserializer = Deserializer::new();
        let mut read = |encoded: &str| {
            let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap();
            deserializer.deserialize(&mut &bytes[..]).unwrap()
        };
        let mut found = Vec::new();
        for entry in IntervalLogIterator::new(log) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                let tag = interval.tag().map(|tag| tag.as_str().to_owned());
                found.push((tag, read(interval.encoded_histogram())));
            }
        }
        found
    }
}
