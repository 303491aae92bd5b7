//! DESIGN.md sections 3 and 4, end to end over real sockets: one test for each rule.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod auth_failures;
mod backends;
mod basics;
mod bodies;
mod endings;
mod endpoints;
mod expecting;
mod fields;
mod following;
mod framing;
mod keeping;
mod living;
mod logging;
mod long_bodies;
mod paths;
mod routing;
mod tokens;
mod upgrades;
