//! HTTP/2 from clients, end to end over real sockets: the rules of `conformance`, and those of HTTP/2 alone.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod auth_failures;
mod bursts;
mod client;
mod connection_queue;
mod connections;
mod disconnects;
mod exchanges;
mod floods;
mod malformed;
mod panics;
mod streaming;
mod tunnels;
mod uploads;
