//! The built program, used as the README describes: started, sent requests, signalled, stopped.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod check;
mod descriptors;
mod engines;
mod explain;
mod gateway;
mod integration;
mod lab_load;
mod lab_results;
mod lab_run;
mod memory;
mod pages;
mod process_log;
mod readme;
mod scenarios;
mod shared_quotas;
mod snapshots;
mod streaming;
mod token;
mod unit_tests;
mod up;
