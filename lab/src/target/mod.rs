//! Targets: what is measured, as its file declares it, and what it used while it was.
//!
//! Not part of a request's life: it starts, watches and ends the programs between caller and backend.
//! Reads a target's file, the ground's keys and ports; answers URLs, use per request, and the warnings
//! about limits that could not be set.
//!
//! Architecture invariant: no gateway is known here, ours included. All that is special about one
//! stands in its file below `suites/targets/`.

mod cgroup;
pub(crate) mod cores;
pub mod definition;
mod interference;
mod ports;
pub(crate) mod proc;
pub(crate) mod process;
pub(crate) mod reaper;
pub(crate) mod running;
pub(crate) mod sampler;
pub(crate) mod template;
