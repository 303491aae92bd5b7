//! DESIGN.md sections 3 and 4, end to end over real sockets: one test for each rule.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod basics;
