//! Baseline, metrics and bounds of a comparison: a TOML file, usually kept for CI.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::interval::Confidence;
use crate::limits;
use crate::warning::Figures;

/// Default bound for "same", in percent.
pub const WITHIN_PERCENT: f64 = 3.0;

/// The file; every key is optional.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// Folder A, unless given on the command line. Relative to the file.
    pub baseline: Option<PathBuf>,
    /// The metrics to compare.
    pub metrics: Vec<Metric>,
    /// Bound for "same", in percent.
    pub within_percent: f64,
    /// 90, 95 or 99.
    pub confidence_percent: u32,
    /// Bounds for particular cases; the first match applies.
    #[serde(rename = "case")]
    pub cases: Vec<CaseThreshold>,
}

/// `[[case]]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseThreshold {
    /// Part of the case's name, such as `10240B`.
    pub contains: String,
    pub within_percent: f64,
}

/// A metric to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    Throughput,
    Mean,
    P50,
    P99,
    #[serde(rename = "p99.9")]
    P999,
    #[serde(rename = "p99.99")]
    P9999,
    /// CPU time of the target per request.
    Cpu,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            baseline: None,
            metrics: vec![Metric::Throughput, Metric::Cpu],
            within_percent: WITHIN_PERCENT,
            confidence_percent: Confidence::Percent95.percent(),
            cases: Vec::new(),
        }
    }
}

impl Thresholds {
    /// Reads a file; a relative baseline becomes relative to the current folder.
    ///
    /// # Errors
    /// The file cannot be read, is too large, or is invalid.
    pub fn read(file: &Path) -> Result<Self, String> {
        let describe = |error: &dyn Display| format!("{}: {error}", file.display());
        let text = files::read_text(file, limits::SUITE_BYTES_MAX);
        let text = text.map_err(|error| describe(&error))?;
        let mut thresholds = Self::parse(&text).map_err(|error| describe(&error))?;
        let beside = file.parent().unwrap_or(Path::new(""));
        thresholds.baseline = thresholds.baseline.map(|folder| beside.join(folder));
        Ok(thresholds)
    }

    /// # Errors
    /// A message with line and column.
    pub fn parse(text: &str) -> Result<Self, String> {
        let found: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        found.check()?;
        Ok(found)
    }

    /// # Errors
    /// A message for the first value out of range.
    pub fn check(&self) -> Result<(), String> {
        Confidence::of_percent(self.confidence_percent)?;
        let all = self.cases.iter().map(|case| case.within_percent);
        for percent in all.chain([self.within_percent]) {
            if !(percent > 0.0 && percent < 100.0) {
                return Err(format!(
                    "within_percent is {percent}; expected a value above 0 and below 100"
                ));
            }
        }
        if self.metrics.is_empty() {
            return Err("`metrics` is empty; name at least one".to_owned());
        }
        Ok(())
    }

    /// The bound for a case, as a fraction.
    #[must_use]
    pub fn within(&self, case: &str) -> f64 {
        let of_case = self.cases.iter().find(|one| case.contains(&one.contains));
        of_case.map_or(self.within_percent, |one| one.within_percent) / 100.0
    }

    /// # Errors
    /// As [`Self::check`].
    pub fn confidence(&self) -> Result<Confidence, String> {
        Confidence::of_percent(self.confidence_percent)
    }
}

impl Metric {
    pub const ALL: [Self; 7] =
        [Self::Throughput, Self::Mean, Self::P50, Self::P99, Self::P999, Self::P9999, Self::Cpu];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::P9999 => "p99.99",
            Self::Cpu => "cpu",
        }
    }

    /// The kind of figures that it belongs to, which decides the warnings that concern it.
    #[must_use]
    pub fn figures(self) -> Figures {
        match self {
            Self::Throughput => Figures::Rate,
            Self::Mean | Self::P50 | Self::P99 | Self::P999 | Self::P9999 => Figures::Latency,
            Self::Cpu => Figures::Cpu,
        }
    }

    /// Whether higher is better.
    #[must_use]
    pub fn more_is_better(self) -> bool {
        match self {
            Self::Throughput => true,
            Self::Mean | Self::P50 | Self::P99 | Self::P999 | Self::P9999 | Self::Cpu => false,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn keys_override_defaults() {
        let found = Thresholds::parse(
            "baseline = \"results/main\"\nmetrics = [\"throughput\", \"cpu\"]\nwithin_percent = 2.0\n\
             [[case]]\ncontains = \"10240B\"\nwithin_percent = 5.0\n",
        )
        .unwrap();
        assert_eq!(found.metrics, [Metric::Throughput, Metric::Cpu]);
        assert_eq!((found.within("a/1024B"), found.within("a/10240B")), (0.02, 0.05));
        assert_eq!(found.confidence_percent, 95);
    }

    #[test]
    fn invalid_files_are_rejected_with_position() {
        for (text, expect) in [
            ("within = 2\n", "line 1, column 1"),
            ("metrics = [\"speed\"]", "unknown variant `speed`"),
            ("metrics = []", "`metrics` is empty; name at least one"),
            ("within_percent = 0.0", "within_percent is 0"),
            ("confidence_percent = 94", "confidence_percent is 94"),
        ] {
            let error = Thresholds::parse(text).unwrap_err();
            assert!(error.contains(expect), "{error}");
        }
    }
}
