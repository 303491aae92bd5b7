//! The integration tests of this crate, as one program: each module is about one part.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod agents;
mod browser;
mod jmeter;
mod knee;
mod load;
mod load_http2;
mod report;
mod report_support;
mod scenario;
mod shapes;
mod suites;
mod validity_published;
mod validity_results;
mod websocket;
