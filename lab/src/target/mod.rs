//! Targets: the systems under test, as defined by a file, and their resource use.
//!
//! Starts, watches and ends the processes of a target; provides its URLs, its resource use per request, and
//! warnings about limits that could not be applied.
//!
//! Architecture invariant: nothing here is specific to a gateway, ours included. Everything specific is in
//! its file below `suites/targets/`.

mod cgroup;
pub(crate) mod change;
pub(crate) mod cores;
pub mod definition;
mod interference;
pub(crate) mod listener;
mod ports;
pub(crate) mod proc;
pub(crate) mod process;
pub(crate) mod reaper;
pub(crate) mod running;
pub(crate) mod sampler;
pub(crate) mod template;

pub use ports::free_port;
