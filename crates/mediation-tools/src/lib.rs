//! Mediation for tools: outlines of artefacts, unit tests of them, and one message at a time.
//!
//! [`outline`] describes the steps of artefacts, with the bodies that pass through them and their estimated cost
//! (`penstock explain`). [`unit_test`] runs the unit tests of WSO2's Integration Studio (`penstock test`). A [`Bench`]
//! takes a message through a program without a network (`penstock try`, benchmarks). [`pages`] are pages of the manual.
//!
//! Architecture invariant: no part of the data plane depends on this crate, and nothing here does I/O.

mod bench;
pub mod limits;
pub mod outline;
pub mod pages;
pub mod unit_test;

pub use bench::{Bench, BenchHead, Streams, perform};
