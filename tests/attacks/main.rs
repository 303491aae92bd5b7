//! Attacks on the built program. Each test is one attack; while it lasts, others are served, and afterwards the memory
//! is within a bound. docs/threat-model.md lists the attacks and the defences.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod connections;
mod frames;
mod hazard_table;
mod hazards;
mod heads;
mod key_sets;
mod mediation;
mod smuggling;
mod target;
mod trickles;
mod upstreams;
