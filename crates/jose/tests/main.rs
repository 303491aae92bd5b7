//! The integration tests of this crate, as one program: each module is about one part.

mod keys;
mod providers;
mod rfc;
mod tokens;
mod wycheproof;
