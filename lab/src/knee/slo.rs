//! Objectives such as `p99 < 50ms, errors < 0.1%`.

use std::fmt;

use crate::load::Latency;

/// An objective: bounds that must all be met.
#[derive(Clone, Debug)]
pub struct Slo {
    bounds: Vec<Bound>,
}

/// A single bound.
#[derive(Clone, Copy, Debug)]
struct Bound {
    what: What,
    /// In milliseconds, or percent for errors.
    below: f64,
    /// Whether the bound itself is included.
    or_equal: bool,
}

/// The bounded quantity.
#[derive(Clone, Copy, Debug)]
enum What {
    Time(&'static str, Of),
    Errors,
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
    /// Parses bounds separated by commas: a name, `<` or `<=`, a number and its unit.
    ///
    /// # Errors
    /// [`SloError`] with the column.
    pub fn parse(text: &str) -> Result<Self, SloError> {
        Self::parse_with(text, Sense::Holds)
    }

    /// Parses conditions of failure: as [`Self::parse`], with `>` or `>=`. The objective is that none holds.
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
                return Ok(Self { bounds });
            }
            if !scan.eat(",") {
                return Err(scan.error("a comma between two bounds, or the end"));
            }
        }
    }

    /// Describes the first bound that is missed; `None` if all are met.
    #[must_use]
    pub fn broken_by(&self, latency: &Latency, error_percent: f64) -> Option<String> {
        self.bounds.iter().find_map(|bound| {
            let found = match bound.what {
                What::Time(_, of) => of(latency),
                What::Errors => error_percent,
            };
            let holds = found < bound.below || (bound.or_equal && found <= bound.below);
            let name = match bound.what {
                What::Time(name, _) => name,
                What::Errors => "the error rate",
            };
            (!holds).then(|| format!("{name} is {found:.3} {}", bound.what.unit()))
        })
    }
}

impl What {
    fn unit(self) -> &'static str {
        match self {
            Self::Time(..) => "ms",
            Self::Errors => "%",
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(name, _) => out.write_str(name),
            Self::Errors => out.write_str("errors"),
        }
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, Bound { what, below, or_equal }) in self.bounds.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            let sign = if *or_equal { "<=" } else { "<" };
            write!(out, "{comma}{what} {sign} {below}{}", what.unit())?;
        }
        Ok(())
    }
}

/// What a bound states.
#[derive(Clone, Copy, PartialEq, Eq)]
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
        // Not above a value is below it or equal.
        let (sign, expected) = match self.sense {
            Sense::Holds => ("<", "`<` or `<=`"),
            Sense::Fails => (">", "`>` or `>=`"),
        };
        if !self.eat(sign) {
            return Err(self.error(expected));
        }
        let or_equal = self.eat("=") == (self.sense == Sense::Holds);
        let below = self.value(what)?;
        Ok(Bound { what, below, or_equal })
    }

    fn what(&mut self) -> Result<What, SloError> {
        self.blanks();
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '.');
        if name == "errors" {
            self.at += name.len();
            return Ok(What::Errors);
        }
        let Some((name, of)) = TIMES.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = TIMES.iter().map(|(name, _)| *name).collect();
            return Err(self.error(&format!("one of {}, errors", known.join(", "))));
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
        let unit = self.word(|c| c.is_ascii_alphabetic() || c == '%');
        let factor = match (what, unit) {
            (What::Errors, "%") | (What::Time(..), "ms") => 1.0,
            (What::Time(..), "s") => 1_000.0,
            (What::Time(..), "us") => 0.001,
            (What::Errors, _) => return Err(self.error("`%` after an error percentage")),
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
        let failures = Slo::parse_failures("p99 > 50ms, errors >= 1%").unwrap();
        assert_eq!(failures.to_string(), "p99 <= 50ms, errors < 1%");
        let of = |p99_ms, percent| {
            failures.broken_by(&Latency { p99_ms, ..Latency::default() }, percent)
        };
        assert_eq!(of(50.0, 0.9), None);
        assert_eq!(of(50.1, 0.0).as_deref(), Some("p99 is 50.100 ms"));
        assert_eq!(of(1.0, 1.0).as_deref(), Some("the error rate is 1.000 %"));
        let error = Slo::parse_failures("p99 < 5ms").unwrap_err();
        assert_eq!((error.column, error.message.contains("expected `>` or `>=`")), (5, true));
    }

    #[test]
    fn the_first_missed_bound_is_reported() {
        let slo = Slo::parse("p99 < 50ms, mean <= 10ms, errors < 0.1%").unwrap();
        let of = |p99_ms, mean_ms, percent| {
            slo.broken_by(&Latency { p99_ms, mean_ms, ..Latency::default() }, percent)
        };
        assert_eq!(of(49.9, 10.0, 0.0), None);
        assert_eq!(of(50.0, 10.0, 0.0).as_deref(), Some("p99 is 50.000 ms"));
        assert_eq!(of(49.0, 10.1, 1.0).as_deref(), Some("mean is 10.100 ms"));
        assert_eq!(of(49.0, 9.0, 0.1).as_deref(), Some("the error rate is 0.100 %"));
    }
}
