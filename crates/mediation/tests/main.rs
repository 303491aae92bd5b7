//! The integration tests of this crate, as one program: each module is about one part.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod artefacts;
mod flow;
mod forks;
mod golden;
mod handlers;
#[path = "../../../tests/attacks/hazard_table.rs"]
mod hazard_table;
mod held;
mod host;
mod known;
mod messages;
mod pass_through;
mod resources;
#[cfg(feature = "script")]
mod script;
mod sequences;
mod turns;
