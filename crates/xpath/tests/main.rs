//! The integration tests of this crate, as one program: each module is about one part.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod cases;
mod conformance;
mod differential;
mod documents;
#[allow(dead_code, unreachable_pub, reason = "the crate's own module, shared with the fuzz target")]
#[path = "../src/properties/generate.rs"]
mod generate;
mod generated;
mod limits;
mod patterns;
mod recommendation;
mod synapse;
mod xmllint;
