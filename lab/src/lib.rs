//! The performance lab: measures any gateway, or any HTTP server, as a black box.
//!
//! [`load`] generates requests, which a gateway forwards to the backend of the crate `echo`; [`payload`] makes bodies
//! identical to those of WSO2's own performance tests. [`agent`] distributes the load over several hosts, and
//! [`recording`] writes histogram logs and JMeter result files.
//!
//! [`suite`] runs a matrix of cases against [`target`]s and stores each as a [`result::CaseResult`]. The
//! [`validity`] checks attach warnings to results, [`report`] renders them, [`compare`] compares two sets of
//! them, and [`knee`] finds the highest load at which an objective is met.
//!
//! Architecture invariant: of our own crates, only `base`, `echo`, `expression` (JSONPath), `files` and `wire` are
//! imported. The lab has no knowledge of any particular gateway, including ours.

pub mod agent;
pub mod compare;
pub mod gc;
pub mod knee;
pub mod limits;
pub mod load;
mod machine;
pub mod payload;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod random;
pub mod recording;
pub mod report;
pub mod result;
pub mod suite;
pub mod target;
pub mod validity;
pub mod warning;
