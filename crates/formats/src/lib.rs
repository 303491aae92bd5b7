//! Files into the model: text in, `model` types out, with every problem of every file at once, each
//! with file:line:column and what to write instead.
//!
//! Place in the flow: `follow` reads files and hands their bytes here; what comes out becomes part of
//! a `model::Snapshot`. The gateway never sees a format, and a format never sees the gateway.
//!
//! Architecture invariant: pure. No sockets, no clock, no files: what another file holds (a `$ref`, a
//! secret) is asked of a function that the caller passes in, after the path was checked here.

mod address;
mod overlap;
mod report;
mod tree;

pub mod declarative;
pub mod openapi;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;

pub use overlap::claims_overlap;
