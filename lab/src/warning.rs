//! Warnings about results: which figures they concern, and in which direction those may be wrong.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A reason to distrust some figures of a result. The other figures remain usable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Name of the check; stable, for programs.
    pub code: String,
    pub severity: Severity,
    /// The figures that it concerns.
    pub scope: Vec<Figures>,
    /// A message with the figures, for people.
    pub message: String,
}

/// How the figures in the scope of a warning differ from the target's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// No figure is affected.
    Note,
    /// The figures may be worse than the target's, never better: an objective that they meet is met.
    Warning,
    /// The figures may be wrong in either direction.
    Error,
}

/// A kind of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figures {
    /// Response times.
    Latency,
    /// Requests per second.
    Rate,
    /// CPU time and memory of processes.
    Cpu,
}

impl Figures {
    pub const ALL: [Self; 3] = [Self::Latency, Self::Rate, Self::Cpu];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Rate => "rate",
            Self::Cpu => "CPU",
        }
    }
}

impl Severity {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl Warning {
    /// Whether it makes these figures unusable in comparisons.
    #[must_use]
    pub fn concerns(&self, figures: Figures) -> bool {
        self.severity != Severity::Note && self.scope.contains(&figures)
    }

    /// The figures that it makes unusable, in words; empty if there are none.
    #[must_use]
    pub fn concerned(&self) -> String {
        let concerned = || Figures::ALL.into_iter().filter(|figures| self.concerns(*figures));
        if concerned().count() == Figures::ALL.len() {
            return "all figures".to_owned();
        }
        concerned().map(Figures::name).collect::<Vec<_>>().join(" and ")
    }
}

/// `generator-late: 1 % of requests started more than 2.0 ms late (concerns latency)`.
impl fmt::Display for Warning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.code, self.message)?;
        match self.concerned().as_str() {
            "" => Ok(()),
            concerned => write!(out, " (concerns {concerned})"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_note_concerns_none() {
        let scope = vec![Figures::Latency, Figures::Rate];
        let mut one = Warning {
            code: "x".to_owned(),
            severity: Severity::Warning,
            scope,
            message: "m".to_owned(),
        };
        assert_eq!(one.to_string(), "x: m (concerns latency and rate)");
        assert_eq!(
            serde_json::to_string(&one).unwrap(),
            r#"{"code":"x","severity":"warning","scope":["latency","rate"],"message":"m"}"#
        );
        one.severity = Severity::Note;
        assert!(!one.concerns(Figures::Latency) && one.to_string() == "x: m");
    }
}
