//! Distributed load: a controller ([`run`]) gives each [`Agent`] its share of a measurement and merges the
//! results.
//!
//! The controller sends the plan, compares each agent's clock with its own, and starts all agents at the same
//! time. Users, arrivals and tokens are divided as among threads: agent 2 of 3 has every third of each.
//! Histograms are merged without loss, those of each second too.
//!
//! - An agent serves controllers that know the shared secret, one measurement at a time. It reads no file
//!   named in a plan: contents are part of the plan.
//! - A lost agent is reported as a warning; its requests are missing.
//!
//! Architecture invariant: every frame, wait and count between controller and agent is limited.

mod controller;
mod frame;
mod message;
mod seconds;
mod server;

pub(crate) use controller::check;
pub use controller::run;
pub use frame::Secret;
pub use server::Agent;
