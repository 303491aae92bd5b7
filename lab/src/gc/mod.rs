//! Garbage collector logs of JVM targets, for the GC columns of the published tables.
//!
//! Parses logs of JDK 9 and later ([`unified`]: `-Xlog:gc*`) and of JDK 8 and earlier ([`jdk8`]: `-Xloggc`),
//! and computes the same summary as GCViewer: share of time without a pause, largest heap, heap in use after
//! full collections.
//!
//! As in GCViewer, time counts from the start of the first collection to the end of the last. A collection is
//! full if it covers the whole heap: full collections by name, young collections that continued in the old
//! generation, and ZGC's collections except minor ones. Shenandoah's concurrent cycles do not count, because
//! their log has no figure for the whole heap.
//!
//! Architecture invariant: unknown lines are skipped; a log that names no collector is rejected.

mod jdk8;
mod timestamp;
mod unified;

use std::path::Path;

use crate::limits;
use crate::result::Gc;

/// Reads a log file.
///
/// # Errors
/// The file cannot be read, is too large, or is not a GC log.
pub fn read(file: &Path) -> Result<Gc, String> {
    let describe = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let bytes = files::read(file, limits::GC_LOG_BYTES_MAX).map_err(|error| describe(&error))?;
    parse(&String::from_utf8_lossy(&bytes)).map_err(|error| describe(&error))
}

/// # Errors
/// The log names no collector, or has no timestamps.
pub fn parse(text: &str) -> Result<Gc, String> {
    let unified = unified::read(text);
    let summary = if unified.collector.is_some() { unified } else { jdk8::read(text) };
    summary.sum_up().ok_or_else(|| {
        "no collector name or no timestamps found; write the log with -Xlog:gc*:file=gc.log (JDK 9 or \
         later) or with -XX:+PrintGCDetails -XX:+PrintGCDateStamps -Xloggc:gc.log (JDK 8)"
            .to_owned()
    })
}

/// The figures so far. Times are milliseconds since an arbitrary moment.
#[derive(Default)]
struct LogSummary {
    collector: Option<&'static str>,
    first_ms: Option<f64>,
    last_ms: f64,
    /// Duration after `last_ms`.
    tail_ms: f64,
    pauses_ms: Vec<f64>,
    capacity_bytes: u64,
    after_full: Vec<f64>,
}

impl LogSummary {
    /// Records an event of a collection.
    fn at(&mut self, ms: f64) {
        self.first_ms = Some(self.first_ms.map_or(ms, |first| first.min(ms)));
        self.last_ms = self.last_ms.max(ms);
    }

    fn pause(&mut self, begin_ms: f64, pause_ms: f64) {
        self.at(begin_ms);
        self.pauses_ms.push(pause_ms);
    }

    fn capacity(&mut self, bytes: u64) {
        self.capacity_bytes = self.capacity_bytes.max(bytes);
    }

    fn sum_up(self) -> Option<Gc> {
        let collector = self.collector?;
        let total_ms = self.last_ms - self.first_ms? + self.tail_ms;
        let pause_total_ms: f64 = self.pauses_ms.iter().sum();
        let paused = if total_ms > 0.0 { pause_total_ms / total_ms } else { 0.0 };
        let count = self.after_full.len() as f64;
        let mean = (count > 0.0).then(|| self.after_full.iter().sum::<f64>() / count);
        let sd = mean.map(|mean| {
            let squares = self.after_full.iter().map(|after| (after - mean).powi(2));
            // Sample standard deviation as in GCViewer; 0 for a single value.
            (squares.sum::<f64>() / (count - 1.0).max(1.0)).sqrt()
        });
        Some(Gc {
            collector: collector.to_owned(),
            throughput_percent: 100.0 * (1.0 - paused),
            footprint_bytes: self.capacity_bytes,
            footprint_after_full_mean_bytes: mean,
            footprint_after_full_sd_bytes: sd,
            pauses: self.pauses_ms.len() as u64,
            full_collections: self.after_full.len() as u64,
            pause_total_ms,
            pause_max_ms: self.pauses_ms.iter().copied().fold(0.0, f64::max),
        })
    }
}

/// A change such as `12M->1M(46M)`, ZGC's `14M(29%)->26M(54%)`, or G1's `7168.0K(48.0M)->645.3K(48.0M)`.
#[derive(Clone, Copy)]
struct HeapChange {
    after: u64,
    capacity: Option<u64>,
}

impl HeapChange {
    fn of(word: &str) -> Option<Self> {
        let (before, after) = word.split_once("->")?;
        bytes(before.split('(').next()?)?;
        let (after, capacity) = after.split_once('(')?;
        Some(Self { after: bytes(after)?, capacity: bytes(capacity.strip_suffix(')')?) })
    }
}

/// Parses `46M` or `645.3K`.
fn bytes(text: &str) -> Option<u64> {
    let unit: f64 = match text.chars().last()? {
        'B' => 1.0,
        'K' => 1_024.0,
        'M' => 1_048_576.0,
        'G' => 1_073_741_824.0,
        _ => return None,
    };
    let number = text.get(..text.len() - 1)?;
    if !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "digits only, so not negative; values beyond u64 saturate"
    )]
    let bytes = (number.parse::<f64>().ok()? * unit).round() as u64;
    Some(bytes)
}

#[cfg(test)]
mod tests;
