//! The performance lab: a black box that drives any gateway by socket, and measures it.
//!
//! Not part of a request's life: it stands at both ends of it. [`load`] is the caller, [`echo`] the
//! backend, [`payload`] makes what travels between them, byte for byte what WSO2's own performance
//! tests send (reference: `performance-common`), and [`raw`] keeps what other tools
//! want to read. [`agent`] lets other hosts make a part of the load.
//!
//! Reads a URL, a payload and tokens; answers a [`load::Report`] with the warnings that it has about
//! itself. It knows no gateway, not even ours: what it measures it could measure of any other.
//!
//! What was measured is a [`result::CaseResult`]. [`checks`] say whether it may be believed, [`report`]
//! tells it, [`compare`] judges two sides of it, and [`knee`] searches where a target stops to hold.
//!
//! Architecture invariant: of our own crates only `base` and `wire` are imported here.

pub mod agent;
pub mod compare;
pub mod echo;
pub mod gc;
pub mod knee;
pub mod limits;
pub mod load;
mod machine;
pub mod payload;
pub mod recording;
pub mod report;
pub mod result;
pub mod suite;
pub mod target;
pub mod validity;
