//! Unified logging (JDK 9 and later): lines start with decorations in brackets, by default including the
//! uptime.

use super::{HeapChange, LogSummary, bytes};

pub(super) fn read(text: &str) -> LogSummary {
    let mut summary = LogSummary::default();
    for line in text.lines().filter_map(Line::of) {
        take(&mut summary, &line);
    }
    summary
}

/// The collector's name in the log, and its common name.
#[rustfmt::skip]
const COLLECTORS: &[(&str, &str)] = &[
    ("Serial",                  "Serial"),
    ("Parallel",                "Parallel"),
    ("Concurrent Mark Sweep",   "CMS"),
    ("G1",                      "G1"),
    ("The Z Garbage Collector", "ZGC"),
    ("Shenandoah",              "Shenandoah"),
];

/// A line such as `[0.189s][info][gc] GC(0) Pause Young ...`: its time, and the text after the decorations.
struct Line<'l> {
    at_ms: f64,
    /// The text after `GC(n) `; `None` for lines that do not belong to a collection.
    event: Option<&'l str>,
    text: &'l str,
}

impl<'l> Line<'l> {
    fn of(line: &'l str) -> Option<Self> {
        let (mut at_ms, mut rest) = (None, line);
        while let Some((decoration, after)) = rest.strip_prefix('[').and_then(|l| l.split_once(']'))
        {
            at_ms = at_ms.or_else(|| uptime_ms(decoration.trim()));
            rest = after;
        }
        let text = rest.trim();
        let event = text.strip_prefix("GC(").and_then(|rest| rest.split_once(") "));
        let event = event.map(|(_, event)| {
            // Generational ZGC prefixes the generation.
            let of = ["y: ", "Y: ", "O: ", "o: "].iter().find_map(|of| event.strip_prefix(of));
            of.unwrap_or(event).trim()
        });
        Some(Self { at_ms: at_ms?, event, text })
    }
}

/// Parses `0.189s`, or `189ms` as with `uptimemillis`.
fn uptime_ms(decoration: &str) -> Option<f64> {
    if let Some(ms) = decoration.strip_suffix("ms") {
        return ms.parse::<u64>().ok().map(|ms| ms as f64);
    }
    decoration.strip_suffix('s')?.parse::<f64>().ok().map(|s| s * 1_000.0)
}

fn take(summary: &mut LogSummary, line: &Line<'_>) {
    let Some(event) = line.event else {
        let name = line.text.strip_prefix("Using ");
        let known = COLLECTORS.iter().find(|(long, _)| name == Some(*long));
        summary.collector = summary.collector.or(known.map(|(_, name)| *name));
        return;
    };
    summary.at(line.at_ms);
    if let Some(capacities) = event.strip_prefix("Capacity:") {
        capacities.split_ascii_whitespace().filter_map(bytes).for_each(|one| summary.capacity(one));
    }
    let change = event.split_ascii_whitespace().find_map(HeapChange::of);
    let of_heap = !event.starts_with("Metaspace:");
    if let Some(capacity) = change.filter(|_| of_heap).and_then(|change| change.capacity) {
        summary.capacity(capacity);
    }
    let pause_ms: Option<f64> =
        event.rsplit_once(' ').and_then(|(_, last)| last.strip_suffix("ms")?.parse().ok());
    if let Some(pause_ms) = pause_ms.filter(|_| event.starts_with("Pause ")) {
        // The line is written at the end of the pause.
        summary.pause(line.at_ms - pause_ms, pause_ms);
    }
    let whole = ["Pause Full", "Garbage Collection (", "Major Collection ("];
    if let Some(change) = change
        && whole.iter().any(|whole| event.starts_with(whole))
    {
        summary.after_full.push(change.after as f64);
    }
}
