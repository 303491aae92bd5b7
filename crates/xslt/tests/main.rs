//! The integration tests of this crate, as one program: each module is about one part.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod allocations;
mod cases;
mod conformance;
#[allow(dead_code, unreachable_pub, reason = "the crate's own module, shared with the fuzz target")]
#[path = "../src/properties/generate.rs"]
mod generate;
mod generated;
mod grouping;
mod modules;
mod sections;
