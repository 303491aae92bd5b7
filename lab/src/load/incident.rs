//! What happened to a measurement that its figures don't show.
//!
//! Told by the generator and by the controller of agents; read by the checks, for which each of these is a
//! warning of its own ([`crate::validity`]).

use std::fmt;

/// One thing that went wrong with the measuring itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incident {
    /// Ended by hand before its time.
    Interrupted,
    /// A file of raw data isn't whole.
    RawData { problem: String },
    /// An agent did not stay to the end: its part is missing.
    AgentLost { name: String, problem: String },
    /// An agent's clock could not be compared well enough, or stands far from ours.
    AgentClock { name: String, offset_us: i64, uncertainty_us: u64 },
}

impl Incident {
    /// The check that warnings a row for it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::RawData { .. } => "recordings-data",
            Self::AgentLost { .. } => "agent-lost",
            Self::AgentClock { .. } => "agent-clock",
        }
    }
}

impl fmt::Display for Incident {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => {
                out.write_str("interrupted: the measured time is shorter than settings for")
            }
            Self::RawData { problem } => out.write_str(problem),
            Self::AgentLost { name, problem } => {
                write!(out, "agent {name} is lost, its requests are missing: {problem}")
            }
            Self::AgentClock { name, offset_us, uncertainty_us } => write!(
                out,
                "agent {name}: its clock is {:.1} ms off ours, known to within {:.1} ms",
                *offset_us as f64 / 1_000.0,
                *uncertainty_us as f64 / 1_000.0
            ),
        }
    }
}
