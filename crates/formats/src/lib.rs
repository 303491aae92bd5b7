//! Parses configuration files, API descriptions and Synapse artefacts into `model` types, and reports every problem of
//! a file at once, with file:line:column and what to write instead.
//!
//! Place in the flow: `follow` reads the files and passes their bytes to this crate; the result
//! becomes part of a `model::Snapshot`. The gateway knows no format, and a format does not know the
//! gateway.
//!
//! Architecture invariant: pure. No sockets, no clock, no files: another file (a `$ref`, a secret)
//! is read by a function that the calling crate passes in, after its path has been checked here.

mod address;
mod report;
mod tree;

pub mod declarative;
pub mod openapi;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
pub mod snapshot;
pub mod synapse;
pub mod vault;
