//! Incidents: problems of a measurement that its figures do not show.
//!
//! Reported by the generator and by the controller of agents; each has a validity check of its own
//! ([`crate::validity`]).

use std::fmt;

/// A problem of the measurement itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incident {
    /// Ended by the user before its time.
    Interrupted,
    /// A recording is incomplete.
    RawData { problem: String },
    /// An agent was lost: its requests are missing.
    AgentLost { name: String, problem: String },
    /// The difference of an agent's clock is too uncertain: it starts and ends at another moment than the others.
    AgentClock { name: String, uncertainty_us: u64 },
    /// An agent's time of day is far off. All times are converted, so no figure depends on it.
    AgentTime { name: String, offset_us: i64 },
}

impl Incident {
    /// The validity check for this incident.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::RawData { .. } => "raw-data",
            Self::AgentLost { .. } => "agent-lost",
            Self::AgentClock { .. } => "agent-clock",
            Self::AgentTime { .. } => "agent-time",
        }
    }
}

impl fmt::Display for Incident {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => {
                out.write_str("interrupted: the measured time is shorter than requested")
            }
            Self::RawData { problem } => out.write_str(problem),
            Self::AgentLost { name, problem } => {
                write!(out, "agent {name} was lost and its requests are missing: {problem}")
            }
            Self::AgentClock { name, uncertainty_us } => write!(
                out,
                "agent {name}: its clock could be compared only to within {:.1} ms",
                *uncertainty_us as f64 / 1_000.0
            ),
            Self::AgentTime { name, offset_us } => write!(
                out,
                "agent {name}: its time of day is off by {:.1} s; the figures do not depend on it",
                *offset_us as f64 / 1_000_000.0
            ),
        }
    }
}
