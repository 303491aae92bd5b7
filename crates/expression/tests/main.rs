//! The integration tests of this crate, as one program: each module is about one part.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;
mod expression;
mod growth;
mod json;
mod jsonpath;
mod limits;
mod synapse;
mod template;
