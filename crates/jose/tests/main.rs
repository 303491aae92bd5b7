//! The integration tests of this crate, as one program: each module is about one part.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod keys;
mod providers;
mod rfc;
mod tokens;
mod wycheproof;
