//! What a measurement found.

use std::fmt;
use std::time::Duration;

/// How far a measurement is. `Display` is one line for people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Still before the measured time.
    pub warming_up: bool,
    /// Answered requests so far, warm-up included.
    pub requests: u64,
    pub errors: u64,
    /// Since the last progress.
    pub rate_per_s: f64,
    pub left: Duration,
}

impl fmt::Display for Progress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = if self.warming_up {
            "warm-up"
        } else {
            "measuring"
        };
        let left_s = self.left.as_secs_f64().ceil();
        let (requests, errors, rate) = (self.requests, self.errors, self.rate_per_s);
        write!(
            out,
            "{phase}: {requests} requests, {rate:.0}/s, {errors} errors, {left_s} s left"
        )
    }
}

/// The result of one measurement.
#[derive(Clone, Debug)]
pub struct Report {}

impl Report {
    /// For people.
    #[must_use]
    pub fn table(&self) -> String {
        String::new()
    }

    /// For programs: the keys of DESIGN.md section 5 and more.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}
