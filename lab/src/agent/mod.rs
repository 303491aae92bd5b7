//! Load from more than one host: an [`Agent`] waits on each, a controller ([`run`]) gives each its part
//! of one measurement and merges what they found.
//!
//! Not part of a request's life. The controller sends the plan, compares each agent's clock with its
//! own, and tells all of them when to begin. Users, arrivals and tokens are dealt out as they are to
//! threads: agent 2 of 3 has every third of each. Histograms are merged count by count.
//!
//! - An agent serves who knows the shared secret, one measurement at a time. It reads no file that a
//!   plan names: contents come with it.
//! - An agent that is lost on the way is a warning with its name; its requests are missing.
//!
//! Architecture invariant: every frame, wait and count between the two has its limit.

mod controller;
mod frame;
mod message;
mod server;

pub use controller::run;
pub use frame::Secret;
pub use server::Agent;
