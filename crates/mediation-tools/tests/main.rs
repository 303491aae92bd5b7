//! The integration tests of this crate, as one program: each module is about one part.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod outline;
mod page;
