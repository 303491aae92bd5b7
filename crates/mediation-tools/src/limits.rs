//! Limits of the tools for mediation.

/// Maximum number of steps in what `penstock explain` shows of an artefact. More: sequences that follow are named only.
pub const OUTLINE_NODES_MAX: usize = 10_000;
