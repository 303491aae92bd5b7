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
    /// An agent's clock is too far off, or its offset too uncertain.
    AgentClock { name: String, offset_us: i64, uncertainty_us: u64 },
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
            Self::AgentClock { name, offset_us, uncertainty_us } => write!(
                out,
                "agent {name}: its clock is off by {:.1} ms, with an uncertainty of {:.1} ms",
                *offset_us as f64 / 1_000.0,
                *uncertainty_us as f64 / 1_000.0
            ),
        }
    }
}
