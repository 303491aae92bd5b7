//! HTTP/2 from callers, end to end over real sockets: the same rules as `conformance`, and those that
//! only this protocol has.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod auth_failures;
mod caller;
mod connections;
mod endings;
mod exchanges;
mod line;
mod panics;
mod streaming;
