//! Garbage collector logs of JVM targets, for the two GC columns of the published tables.
//!
//! Reads a log in the form of JDK 9 and later (`-Xlog:gc*`, unified logging, with the uptime among its
//! decorations, as by default); answers what GCViewer's summary says of it: share of the time without a
//! pause, largest heap, heap in use after full collections.
//!
//! A collection is full when it looked at the whole heap: `Pause Full`, and ZGC's collections but for
//! the minor ones. Shenandoah's concurrent cycles count none, as their log says no figure for the whole.
//!
//! Architecture invariant: a line that isn't understood is passed over; a log without any collector's
//! name is refused.

use std::path::Path;

use base::limits;

use crate::result::Gc;

/// Reads a log file.
///
/// # Errors
/// A sentence: it can't be read, is too large, or is no such log.
pub fn read(file: &Path) -> Result<Gc, String> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let size = std::fs::metadata(file).map_err(|error| told(&error))?.len();
    if size > limits::GC_LOG_BYTES_MAX {
        return Err(told(&format!("{size} bytes, more than {}", limits::GC_LOG_BYTES_MAX)));
    }
    let bytes = std::fs::read(file).map_err(|error| told(&error))?;
    parse(&String::from_utf8_lossy(&bytes)).map_err(|error| told(&error))
}

/// # Errors
/// A sentence: no line of it names a collector, or says when it was written.
pub fn parse(text: &str) -> Result<Gc, String> {
    let mut seen = Seen::default();
    for line in text.lines().filter_map(Line::of) {
        seen.line(&line);
    }
    seen.sum_up()
}

/// The collector's name in its log, and the one that people use.
#[rustfmt::skip]
const COLLECTORS: &[(&str, &str)] = &[
    ("Serial",                  "Serial"),
    ("Parallel",                "Parallel"),
    ("Concurrent Mark Sweep",   "CMS"),
    ("G1",                      "G1"),
    ("The Z Garbage Collector", "ZGC"),
    ("Shenandoah",              "Shenandoah"),
];

/// `[0.189s][info][gc] GC(0) Pause Young ...`: when, and the text behind the decorations.
struct Line<'l> {
    at_s: f64,
    /// Behind `GC(n) `; `None` for lines outside of a collection.
    event: Option<&'l str>,
    text: &'l str,
}

impl<'l> Line<'l> {
    fn of(line: &'l str) -> Option<Self> {
        let (mut at_s, mut rest) = (None, line);
        while let Some((decoration, behind)) =
            rest.strip_prefix('[').and_then(|l| l.split_once(']'))
        {
            at_s = at_s.or_else(|| uptime_s(decoration.trim()));
            rest = behind;
        }
        let text = rest.trim();
        let event = text.strip_prefix("GC(").and_then(|rest| rest.split_once(") "));
        let event = event.map(|(_, event)| {
            // Generational ZGC says which generation it speaks of.
            let of = ["y: ", "Y: ", "O: ", "o: "].iter().find_map(|of| event.strip_prefix(of));
            of.unwrap_or(event).trim()
        });
        Some(Self { at_s: at_s?, event, text })
    }
}

/// `0.189s`, or `189ms` as `uptimemillis` has it.
fn uptime_s(decoration: &str) -> Option<f64> {
    if let Some(ms) = decoration.strip_suffix("ms") {
        return ms.parse::<u64>().ok().map(|ms| ms as f64 / 1_000.0);
    }
    decoration.strip_suffix('s')?.parse().ok()
}

#[derive(Default)]
struct Seen {
    collector: Option<&'static str>,
    first_s: Option<f64>,
    last_s: f64,
    pauses_ms: Vec<f64>,
    capacity_bytes: u64,
    after_full: Vec<f64>,
}

impl Seen {
    fn line(&mut self, line: &Line<'_>) {
        self.first_s.get_or_insert(line.at_s);
        self.last_s = self.last_s.max(line.at_s);
        let Some(event) = line.event else {
            let name = line.text.strip_prefix("Using ");
            let known = COLLECTORS.iter().find(|(long, _)| name == Some(*long));
            self.collector = self.collector.or(known.map(|(_, name)| *name));
            return;
        };
        if let Some(capacities) = event.strip_prefix("Capacity:") {
            let sizes = capacities.split_ascii_whitespace().filter_map(bytes);
            self.capacity_bytes = sizes.fold(self.capacity_bytes, u64::max);
        }
        let change = event.split_ascii_whitespace().find_map(Change::of);
        let of_heap = !event.starts_with("Metaspace:");
        if let Some(capacity) = change.filter(|_| of_heap).and_then(|change| change.capacity) {
            self.capacity_bytes = self.capacity_bytes.max(capacity);
        }
        let pause_ms: Option<f64> =
            event.rsplit_once(' ').and_then(|(_, last)| last.strip_suffix("ms")?.parse().ok());
        if event.starts_with("Pause ") {
            self.pauses_ms.extend(pause_ms);
        }
        let whole = ["Pause Full", "Garbage Collection (", "Major Collection ("];
        if let Some(change) = change
            && whole.iter().any(|whole| event.starts_with(whole))
        {
            self.after_full.push(change.after as f64);
        }
    }

    fn sum_up(self) -> Result<Gc, String> {
        let help = "write it with -Xlog:gc*:file=gc.log (JDK 9 or later)";
        let collector = self.collector.ok_or_else(|| format!("no collector is named; {help}"))?;
        let first_s = self.first_s.ok_or_else(|| format!("no line says when; {help}"))?;
        let total_ms = (self.last_s - first_s) * 1_000.0;
        let pause_total_ms: f64 = self.pauses_ms.iter().sum();
        let paused = if total_ms > 0.0 { pause_total_ms / total_ms } else { 0.0 };
        let count = self.after_full.len() as f64;
        let mean = (count > 0.0).then(|| self.after_full.iter().sum::<f64>() / count);
        let sd = mean.map(|mean| {
            let squares = self.after_full.iter().map(|after| (after - mean).powi(2));
            (squares.sum::<f64>() / count).sqrt()
        });
        Ok(Gc {
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

/// `12M->1M(46M)`, or ZGC's `14M(29%)->26M(54%)`.
#[derive(Clone, Copy)]
struct Change {
    after: u64,
    capacity: Option<u64>,
}

impl Change {
    fn of(word: &str) -> Option<Self> {
        let (before, after) = word.split_once("->")?;
        bytes(before.split('(').next()?)?;
        let (after, capacity) = after.split_once('(')?;
        Some(Self { after: bytes(after)?, capacity: bytes(capacity.strip_suffix(')')?) })
    }
}

/// `46M`.
fn bytes(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let shift = match unit {
        'B' => 0,
        'K' => 10,
        'M' => 20,
        'G' => 30,
        _ => return None,
    };
    text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests;
