//! Limits of the tools for mediation.

/// Maximum number of steps in an outline of `penstock explain`. More: sequences that follow are named only.
pub const OUTLINE_NODES_MAX: usize = 10_000;
