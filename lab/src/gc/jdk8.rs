//! Logs of JDK 8 and earlier: `-Xloggc`, with or without `-XX:+PrintGCDetails`, with uptimes, dates, or both.
//!
//! A collection is a bracket that contains brackets for its parts and ends with its pause: `0.2: [GC
//! (Allocation Failure) 0.2: [DefNew: 13M->1M(14M), 0.001 secs] 13M->1M(46M), 0.001 secs]`. It may span
//! several lines, and messages of a concurrent collector, also in brackets, may appear in the middle. The log
//! is therefore parsed by brackets rather than by lines.

use super::{HeapChange, LogSummary, bytes, timestamp};

/// Maximum nesting of brackets. Real logs have up to five levels.
const DEPTH_MAX: usize = 16;

pub(super) fn read(text: &str) -> LogSummary {
    let mut log = Log::default();
    for line in text.lines() {
        log.flags(line);
    }
    for at in memchr::memchr3_iter(b'[', b']', b'\n', text.as_bytes()) {
        match text.as_bytes().get(at) {
            Some(b'\n') => log.line = at + 1,
            Some(b']') => log.close(text, at),
            // An address range has a different closing bracket.
            _ if text.get(at + 1..).is_some_and(|rest| rest.starts_with("0x")) => {}
            _ => log.open(text, at),
        }
    }
    log.sum_up()
}

/// An open bracket.
struct Open {
    /// Start of the text that is not yet in `own`.
    from: usize,
    /// Text of the collection without nested brackets.
    own: String,
    at_ms: Option<f64>,
    /// Whether one of its parts was the old generation.
    old: bool,
}

#[derive(Default)]
struct Log {
    summary: LogSummary,
    /// Start of the current line.
    line: usize,
    stack: Vec<Open>,
    /// Whether the last collection was a full one; its heap is then the last entry of `after_full`.
    full: bool,
    /// Collectors found so far. A single name can be ambiguous: ParNew is used with and without CMS.
    named: [bool; COLLECTORS.len()],
}

/// JVM flag, name in the log, and common name. The first match applies.
#[rustfmt::skip]
const COLLECTORS: [(&str, &str, &str); 5] = [
    ("-XX:+UseConcMarkSweepGC", "CMS",        "CMS"),
    ("-XX:+UseG1GC",            "GC pause (", "G1"),
    ("-XX:+UseParallelGC",      "PSYoungGen", "Parallel"),
    ("-XX:+UseParNewGC",        "ParNew",     "ParNew"),
    ("-XX:+UseSerialGC",        "DefNew",     "Serial"),
];

impl Log {
    fn flags(&mut self, line: &str) {
        let Some(flags) = line.strip_prefix("CommandLine flags: ") else { return };
        for (named, (flag, _, _)) in self.named.iter_mut().zip(COLLECTORS) {
            *named |= flags.split_ascii_whitespace().any(|word| word == flag);
        }
    }

    fn open(&mut self, text: &str, at: usize) {
        let line = text.get(self.line..at).unwrap_or_default();
        let rest = text.get(at + 1..).unwrap_or_default();
        let begins = rest.starts_with("GC ") || rest.starts_with("Full GC");
        if begins && timestamp::is_only_timestamps(line) && !rest.starts_with("GC concurrent") {
            // A collection starts at the start of a line: all that are still open were cut off.
            self.stack.clear();
        }
        if self.stack.len() >= DEPTH_MAX {
            self.stack.clear();
        }
        if let Some(around) = self.stack.last_mut() {
            around.own.push_str(text.get(around.from..at).unwrap_or_default());
        }
        let at_ms = timestamp::ms(line);
        self.stack.push(Open { from: at + 1, own: String::new(), at_ms, old: false });
    }

    fn close(&mut self, text: &str, at: usize) {
        let Some(mut closed) = self.stack.pop() else { return };
        closed.own.push_str(text.get(closed.from..at).unwrap_or_default());
        for (named, (_, name, _)) in self.named.iter_mut().zip(COLLECTORS) {
            *named |= closed.own.starts_with(name);
        }
        match self.stack.last_mut() {
            Some(around) => {
                let old = ["Tenured", "CMS"].iter().any(|name| closed.own.starts_with(name));
                around.old |= old && closed.own.contains("->");
                around.from = at + 1;
            }
            None => self.whole(&closed),
        }
    }

    /// A top-level bracket.
    fn whole(&mut self, closed: &Open) {
        let own = closed.own.trim_end();
        let sizes = own.strip_prefix("Eden:").and_then(|sizes| sizes.split("Heap: ").nth(1));
        if let Some(sizes) = sizes {
            self.heap_of_g1(sizes.trim());
            return;
        }
        let concurrent = own.starts_with("GC concurrent") || own.starts_with("CMS-concurrent");
        if concurrent {
            closed.at_ms.into_iter().for_each(|ms| self.summary.at(ms));
            return;
        }
        let full = own.starts_with("Full GC");
        if full || own.starts_with("GC ") || own.starts_with("GC--") {
            self.collection(own, full || closed.old, closed.at_ms);
        }
    }

    /// G1 reports its heap in a separate bracket, with more precision.
    fn heap_of_g1(&mut self, sizes: &str) {
        let Some(change) = HeapChange::of(sizes) else { return };
        change.capacity.into_iter().for_each(|capacity| self.summary.capacity(capacity));
        if let Some(after) = self.summary.after_full.last_mut().filter(|_| self.full) {
            *after = change.after as f64;
        }
    }

    fn collection(&mut self, own: &str, full: bool, at_ms: Option<f64>) {
        let pause_s = own.strip_suffix(" secs").and_then(|own| own.rsplit_once(", "));
        let pause_s = pause_s.and_then(|(_, pause)| pause.parse::<f64>().ok());
        let (Some(pause_s), Some(at_ms)) = (pause_s, at_ms) else { return };
        self.summary.pause(at_ms, pause_s * 1_000.0);
        self.full = false;
        let words = || own.split_ascii_whitespace().map(|word| word.trim_end_matches(','));
        let change = words().find_map(HeapChange::of);
        // CMS reports only the current size at its marks: `18584K(47552K)`.
        let current = || words().find_map(|word| bytes(word.split_once('(')?.1.strip_suffix(')')?));
        let capacity = change.and_then(|change| change.capacity).or_else(current);
        capacity.into_iter().for_each(|capacity| self.summary.capacity(capacity));
        if let Some(change) = change.filter(|_| full) {
            self.full = true;
            self.summary.after_full.push(change.after as f64);
        }
    }

    fn sum_up(self) -> LogSummary {
        let named = self.named.iter().zip(COLLECTORS).find(|(named, _)| **named);
        // Timestamps are start times. Like GCViewer, this adds the last pause.
        let tail_ms = self.summary.pauses_ms.last().copied().unwrap_or(0.0);
        LogSummary { collector: named.map(|(_, (_, _, name))| name), tail_ms, ..self.summary }
    }
}
