//! Compiled artefacts: endpoints, templates and services, and their problems.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod addressing;
mod diagnostics;
mod endpoints;
mod entries;
#[path = "../host/mod.rs"]
mod host;
mod services;
