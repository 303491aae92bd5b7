//! The integration tests of this crate, as one program: each module is about one part.

mod examples;
mod large;
