//! The integration tests of this crate, as one program: each module is about one part.

mod agreement;
mod allocations;
mod attributes;
mod edit;
mod entities;
mod prepared;
mod tree;
mod wellformed;
