//! Objectives such as `p99 < 50ms, errors < 0.1%`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::load::Latency;

/// An objective: bounds that must all be met. Or conditions of failure: it is met if none holds.
#[derive(Clone, Debug)]
pub struct Slo {
    bounds: Vec<Bound>,
    sense: Sense,
}

/// A single bound.
#[derive(Clone, Copy, Debug)]
struct Bound {
    what: What,
    sign: Sign,
    /// In milliseconds, percent, or requests per second.
    limit: f64,
}

/// `<`, `<=`, `>` or `>=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sign {
    above: bool,
    or_equal: bool,
}

/// The bounded quantity.
#[derive(Clone, Copy, Debug)]
enum What {
    Time(&'static str, Of),
    Errors,
    Rate,
}

/// The measured figures that bounds are of.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    pub latency: &'a Latency,
    pub error_percent: f64,
    pub rate_per_s: f64,
}

/// A bound and the measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// As stated: `p99 > 20ms`.
    pub condition: String,
    /// In the unit of the condition; `None`: nothing was measured.
    pub value: Option<f64>,
    /// The bound is missed, or the condition of failure holds.
    pub broken: bool,
}

/// Selects one of the latencies.
type Of = fn(&Latency) -> f64;

/// Names of latencies, as in the report.
#[rustfmt::skip]
const TIMES: &[(&str, Of)] = &[
    ("mean", |latency| latency.mean_ms), ("p50", |latency| latency.p50_ms), ("p75", |latency| latency.p75_ms),
    ("p90", |latency| latency.p90_ms), ("p95", |latency| latency.p95_ms), ("p98", |latency| latency.p98_ms),
    ("p99", |latency| latency.p99_ms), ("p99.9", |latency| latency.p999_ms),
    ("p99.99", |latency| latency.p9999_ms), ("max", |latency| latency.max_ms),
];

/// A syntax error in an objective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct SloError {
    /// From 1, in characters.
    pub column: usize,
    pub message: String,
}

impl Slo {
    /// Parses bounds separated by commas: a name, `<` or `<=` (`>` or `>=` for `rate`), a number and its unit.
    ///
    /// # Errors
    /// [`SloError`] with the column.
    pub fn parse(text: &str) -> Result<Self, SloError> {
        Self::parse_with(text, Sense::Holds)
    }

    /// Parses conditions of failure: as [`Self::parse`], with the opposite signs. The objective is that none holds.
    ///
    /// # Errors
    /// [`SloError`] with the column.
    pub fn parse_failures(text: &str) -> Result<Self, SloError> {
        Self::parse_with(text, Sense::Fails)
    }

    fn parse_with(text: &str, sense: Sense) -> Result<Self, SloError> {
        let mut scan = Scan { text, at: 0, sense };
        let mut bounds = Vec::new();
        loop {
            bounds.push(scan.bound()?);
            scan.blanks();
            if scan.rest().is_empty() {
                return Ok(Self { bounds, sense });
            }
            if !scan.eat(",") {
                return Err(scan.error("a comma between two bounds, or the end"));
            }
        }
    }

    /// Describes the first bound that is missed; `None` if all are met.
    #[must_use]
    pub fn broken_by(&self, outcome: Outcome<'_>) -> Option<String> {
        let broken = self.bounds.iter().find(|bound| bound.is_broken(self.sense, outcome))?;
        let (found, unit) = (broken.what.of(outcome), broken.what.unit());
        Some(match broken.what {
            What::Time(name, _) => format!("{name} is {found:.3} {unit}"),
            What::Errors => format!("the error rate is {found:.3} {unit}"),
            What::Rate => format!("the rate is {found:.1} {unit}"),
        })
    }

    /// Every bound with its figure. Without an outcome, all are broken.
    #[must_use]
    pub fn thresholds(&self, outcome: Option<Outcome<'_>>) -> Vec<Threshold> {
        let threshold = |bound: &Bound| Threshold {
            condition: bound.to_string(),
            value: outcome.map(|outcome| bound.what.of(outcome)),
            broken: outcome.is_none_or(|outcome| bound.is_broken(self.sense, outcome)),
        };
        self.bounds.iter().map(threshold).collect()
    }
}

impl Bound {
    fn is_broken(&self, sense: Sense, outcome: Outcome<'_>) -> bool {
        let found = self.what.of(outcome);
        let beyond = if self.sign.above { found > self.limit } else { found < self.limit };
        #[allow(clippy::float_cmp, reason = "the limit itself, as written")]
        let holds = beyond || (self.sign.or_equal && found == self.limit);
        holds == (sense == Sense::Fails)
    }
}

impl What {
    fn unit(self) -> &'static str {
        match self {
            Self::Time(..) => "ms",
            Self::Errors => "%",
            Self::Rate => "/s",
        }
    }

    fn of(self, outcome: Outcome<'_>) -> f64 {
        match self {
            Self::Time(_, of) => of(outcome.latency),
            Self::Errors => outcome.error_percent,
            Self::Rate => outcome.rate_per_s,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.what {
            What::Time(name, _) => name,
            What::Errors => "errors",
            What::Rate => "rate",
        };
        write!(out, "{name} {} {}{}", self.sign.text(), self.limit, self.what.unit())
    }
}

impl Sign {
    fn text(self) -> &'static str {
        match (self.above, self.or_equal) {
            (false, false) => "<",
            (false, true) => "<=",
            (true, false) => ">",
            (true, true) => ">=",
        }
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, bound) in self.bounds.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(out, "{comma}{bound}")?;
        }
        Ok(())
    }
}

/// Relation that a bound requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sense {
    Holds,
    Fails,
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    sense: Sense,
}

impl<'a> Scan<'a> {
    fn bound(&mut self) -> Result<Bound, SloError> {
        let what = self.what()?;
        self.blanks();
        // More is worse, but of a rate.
        let above = matches!(what, What::Rate) == (self.sense == Sense::Holds);
        let (token, expected) = if above { (">", "`>` or `>=`") } else { ("<", "`<` or `<=`") };
        if !self.eat(token) {
            return Err(self.error(expected));
        }
        let sign = Sign { above, or_equal: self.eat("=") };
        let limit = self.value(what)?;
        Ok(Bound { what, sign, limit })
    }

    fn what(&mut self) -> Result<What, SloError> {
        self.blanks();
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '.');
        for (known, what) in [("errors", What::Errors), ("rate", What::Rate)] {
            if name == known {
                self.at += name.len();
                return Ok(what);
            }
        }
        let Some((name, of)) = TIMES.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = TIMES.iter().map(|(name, _)| *name).collect();
            return Err(self.error(&format!("one of {}, errors, rate", known.join(", "))));
        };
        self.at += name.len();
        Ok(What::Time(name, *of))
    }

    fn value(&mut self, what: What) -> Result<f64, SloError> {
        self.blanks();
        let digits = self.word(|c| c.is_ascii_digit() || c == '.');
        let number: Option<f64> = digits.parse().ok().filter(|number: &f64| number.is_finite());
        let number = number.ok_or_else(|| self.error("a number"))?;
        self.at += digits.len();
        self.blanks();
        let unit = self.word(|c| c.is_ascii_alphabetic() || c == '%' || c == '/');
        let factor = match (what, unit) {
            (What::Errors, "%") | (What::Time(..), "ms") | (What::Rate, "/s") => 1.0,
            (What::Time(..), "s") => 1_000.0,
            (What::Time(..), "us") => 0.001,
            (What::Errors, _) => return Err(self.error("`%` after an error percentage")),
            (What::Rate, _) => return Err(self.error("`/s` after a rate")),
            (What::Time(..), _) => return Err(self.error("us, ms or s after a time")),
        };
        self.at += unit.len();
        Ok(number * factor)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn word(&self, belongs: fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default()
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn eat(&mut self, token: &str) -> bool {
        let is_next = self.rest().starts_with(token);
        self.at += if is_next { token.len() } else { 0 };
        is_next
    }

    fn error(&self, expected: &str) -> SloError {
        let before = self.text.get(..self.at).unwrap_or_default();
        let found: String = self.rest().chars().take(20).collect();
        let found = if found.is_empty() { "the end".to_owned() } else { format!("`{found}`") };
        SloError {
            column: before.chars().count() + 1,
            message: format!("expected {expected}, found {found}"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_with_their_units() {
        for (text, expect) in [
            ("p99 < 50ms, errors < 0.1%", "p99 < 50ms, errors < 0.1%"),
            ("p99.9<=1s", "p99.9 <= 1000ms"),
            (" mean < 250 us ", "mean < 0.25ms"),
        ] {
            assert_eq!(Slo::parse(text).unwrap().to_string(), expect);
        }
    }

    #[test]
    fn syntax_errors_have_a_column() {
        for (text, column, expect) in [
            ("", 1, "expected one of mean, p50"),
            ("p97 < 1ms", 1, "found `p97 < 1ms`"),
            ("p99 > 1ms", 5, "expected `<` or `<=`"),
            ("p99 < ms", 7, "expected a number"),
            ("p99 < 5", 8, "expected us, ms or s after a time, found the end"),
            ("errors < 1ms", 11, "expected `%`"),
            ("p99 < 5ms errors < 1%", 11, "expected a comma"),
            ("p99 < 5ms,", 11, "expected one of"),
            ("p99 < 1.2.3ms", 7, "expected a number"),
            ("é < 1ms", 1, "expected one of"),
        ] {
            let error = Slo::parse(text).unwrap_err();
            assert_eq!(error.column, column, "{text}: {error}");
            assert!(error.message.contains(expect), "{text}: {error}");
        }
    }

    #[test]
    fn conditions_of_failure_are_the_opposite_of_bounds() {
        let text = "p99 > 50ms, errors >= 1%, rate < 100/s";
        let failures = Slo::parse_failures(text).unwrap();
        assert_eq!(failures.to_string(), text);
        for (p99_ms, percent, rate_per_s, expect) in [
            (50.0, 0.9, 100.0, None),
            (50.1, 0.0, 100.0, Some("p99 is 50.100 ms")),
            (1.0, 1.0, 100.0, Some("the error rate is 1.000 %")),
            (1.0, 0.0, 99.9, Some("the rate is 99.9 /s")),
        ] {
            assert_eq!(broken_by(&failures, p99_ms, percent, rate_per_s).as_deref(), expect);
        }
        for (text, column, expect) in [
            ("p99 < 5ms", 5, "expected `>` or `>=`"),
            ("rate > 5/s", 6, "expected `<` or `<=`"),
            ("rate < 5", 9, "expected `/s`"),
        ] {
            let error = Slo::parse_failures(text).unwrap_err();
            assert_eq!((error.column, error.message.contains(expect)), (column, true), "{error}");
        }
    }

    #[test]
    fn thresholds_have_their_figures_and_without_one_they_are_broken() {
        let failures = Slo::parse_failures("p99 > 50ms, rate < 1.5/s").unwrap();
        let latency = Latency { p99_ms: 60.0, ..Latency::default() };
        let outcome = Outcome { latency: &latency, error_percent: 0.0, rate_per_s: 2.0 };
        for (outcome, expect) in [
            (Some(outcome), [(Some(60.0), true), (Some(2.0), false)]),
            (None, [(None, true), (None, true)]),
        ] {
            let found = failures.thresholds(outcome);
            let conditions: Vec<&str> = found.iter().map(|one| one.condition.as_str()).collect();
            assert_eq!(conditions, ["p99 > 50ms", "rate < 1.5/s"]);
            let found: Vec<_> = found.iter().map(|one| (one.value, one.broken)).collect();
            assert_eq!(found, expect);
        }
    }

    #[test]
    fn the_first_missed_bound_is_reported() {
        let slo = Slo::parse("p99 < 50ms, mean <= 10ms, errors < 0.1%, rate > 5/s").unwrap();
        let of = |p99_ms, mean_ms, error_percent| {
            let latency = Latency { p99_ms, mean_ms, ..Latency::default() };
            slo.broken_by(Outcome { latency: &latency, error_percent, rate_per_s: 5.1 })
        };
        assert_eq!(of(49.9, 10.0, 0.0), None);
        assert_eq!(of(50.0, 10.0, 0.0).as_deref(), Some("p99 is 50.000 ms"));
        assert_eq!(of(49.0, 10.1, 1.0).as_deref(), Some("mean is 10.100 ms"));
        assert_eq!(of(49.0, 9.0, 0.1).as_deref(), Some("the error rate is 0.100 %"));
        // No figure meets a bound.
        assert_eq!(of(f64::NAN, 9.0, 0.0).as_deref(), Some("p99 is NaN ms"));
    }

    fn broken_by(slo: &Slo, p99_ms: f64, error_percent: f64, rate_per_s: f64) -> Option<String> {
        let latency = Latency { p99_ms, ..Latency::default() };
        slo.broken_by(Outcome { latency: &latency, error_percent, rate_per_s })
    }
}
