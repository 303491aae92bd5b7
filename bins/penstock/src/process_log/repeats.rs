//! Lines that repeat: each callsite may write some lines per second; further ones are counted, and reported as one.

use std::collections::HashMap;
use std::hash::Hash;

/// One second, in microseconds.
const WINDOW_US: u64 = 1_000_000;

/// Recent lines of the callsites. `K` identifies a callsite; there are as many as log statements.
#[derive(Debug)]
pub(super) struct Repeats<K> {
    per_window_max: u32,
    by_callsite: HashMap<K, Lines<K>>,
}

#[derive(Debug)]
struct Lines<K> {
    window_start_us: u64,
    written: u32,
    repeated: Option<Repeated<K>>,
}

/// Lines that were counted instead of written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repeated<K> {
    pub(super) callsite: K,
    /// The message of the first of them.
    pub(super) message: String,
    pub(super) count: u64,
}

/// Fate of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Written,
    /// The first line since the last report that is not written.
    FirstCounted,
    Counted,
}

impl<K: Clone + Eq + Hash> Repeats<K> {
    pub(super) fn new(per_window_max: u32) -> Self {
        Self { per_window_max, by_callsite: HashMap::new() }
    }

    /// Decides about one line of `callsite`.
    pub(super) fn admit(&mut self, callsite: &K, now_us: u64) -> Admission {
        let lines = self.by_callsite.entry(callsite.clone()).or_insert(Lines {
            window_start_us: now_us,
            written: 0,
            repeated: None,
        });
        if now_us.saturating_sub(lines.window_start_us) >= WINDOW_US {
            lines.window_start_us = now_us;
            lines.written = 0;
        }
        if lines.written < self.per_window_max {
            lines.written += 1;
            return Admission::Written;
        }
        if let Some(repeated) = &mut lines.repeated {
            repeated.count += 1;
            return Admission::Counted;
        }
        let repeated = Repeated { callsite: callsite.clone(), message: String::new(), count: 1 };
        lines.repeated = Some(repeated);
        Admission::FirstCounted
    }

    /// Sets the message of the line that was [`Admission::FirstCounted`].
    pub(super) fn describe(&mut self, callsite: &K, message: String) {
        let lines = self.by_callsite.get_mut(callsite);
        if let Some(repeated) = lines.and_then(|lines| lines.repeated.as_mut()) {
            repeated.message = message;
        }
    }

    /// Takes the counts of windows that have ended.
    pub(super) fn report(&mut self, now_us: u64) -> Vec<Repeated<K>> {
        let ended =
            |lines: &&mut Lines<K>| now_us.saturating_sub(lines.window_start_us) >= WINDOW_US;
        let lines = self.by_callsite.values_mut().filter(ended);
        lines.filter_map(|lines| lines.repeated.take()).collect()
    }

    /// Whether lines were counted that are not reported yet.
    pub(super) fn is_pending(&self) -> bool {
        self.by_callsite.values().any(|lines| lines.repeated.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_of_each_second_are_written_and_the_rest_is_counted() {
        let mut repeats = Repeats::new(2);
        assert_eq!(admit(&mut repeats, "a", &[0, 0, 0, 999_999]), "wwfc");
        assert_eq!(admit(&mut repeats, "b", &[0]), "w", "each callsite has its own");
        assert_eq!(repeats.report(999_999), [], "the second has not ended");
        assert_eq!(repeats.report(1_000_000), [repeated("a", "0", 2)]);
        assert_eq!(repeats.report(1_000_000), [], "reported once");
        assert_eq!(admit(&mut repeats, "a", &[1_000_000, 1_000_001, 1_000_002]), "wwf");
        assert!(repeats.is_pending());
    }

    #[test]
    fn no_line_is_forgotten_if_the_report_is_late() {
        let mut repeats = Repeats::new(1);
        assert_eq!(admit(&mut repeats, "a", &[5, 6, 7, 2_000_000, 2_000_001]), "wfcwc");
        assert_eq!(repeats.report(3_000_000), [repeated("a", "6", 3)]);
        assert!(!repeats.is_pending());
    }

    #[test]
    fn a_clock_that_goes_back_ends_no_window() {
        let mut repeats = Repeats::new(1);
        assert_eq!(admit(&mut repeats, "a", &[5_000_000, 1]), "wf");
    }

    /// A letter for each line: `w`ritten, `f`irst counted, `c`ounted. The message is the time.
    fn admit(repeats: &mut Repeats<&'static str>, callsite: &'static str, at_us: &[u64]) -> String {
        let line = |now_us: &u64| match repeats.admit(&callsite, *now_us) {
            Admission::Written => 'w',
            Admission::FirstCounted => {
                repeats.describe(&callsite, now_us.to_string());
                'f'
            }
            Admission::Counted => 'c',
        };
        at_us.iter().map(line).collect()
    }

    fn repeated(callsite: &'static str, message: &str, count: u64) -> Repeated<&'static str> {
        Repeated { callsite, message: message.to_owned(), count }
    }
}
